"""Versions out of git: which commit a name means, what lies in it, and its files in a folder of their own.

Files are taken out of git's objects and written elsewhere. No working tree is checked out, no index is touched, and
git knows of nothing that would have to be removed afterwards, however a run ends.
"""

import asyncio
import subprocess
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from jazz_select.errors import ConfigError

_FILE, _PROGRAM, _LINK = "100644", "100755", "120000"
_NAMES_SHOWN = 5
_MOST_REFS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of a repository.

    Attributes:
        root: The top folder of the repository's working tree.
        name: How it was asked for.
        sha: Its full hash.
    """

    root: Path
    name: str
    sha: str

    @property
    def label(self) -> str:
        """The name that was asked for and the beginning of the hash."""
        short = self.sha[:9]
        return short if self.sha.startswith(self.name) else f"{self.name} ({short})"


def repository_of(folder: Path) -> Path | None:
    """The top folder of the working tree that `folder` lies in; None where it lies in none, or git is not there."""
    try:
        found = _git(folder, "rev-parse", "--show-toplevel")
    except ConfigError:
        return None
    return Path(found.decode(errors="surrogateescape").rstrip("\n"))


def commit_of(name: str, folder: Path) -> Commit:
    """The commit that a name means in the repository around `folder`; `A...B` is what both have in common.

    Raises:
        ConfigError: There is no repository, or no such commit in it.
    """
    root = repository_of(folder)
    if root is None:
        msg = f"{name!r:.80} is no folder or file, and {folder} lies in no git repository, so it can be no commit"
        raise ConfigError(msg)
    one, dots, other = name.partition("...")
    if not dots:
        return Commit(root=root, name=name, sha=_resolved(name, root))
    shas = [_resolved(each or "HEAD", root) for each in (one, other)]
    try:
        common = _git(root, "merge-base", *shas).decode().strip()
    except ConfigError as error:
        msg = f"{one or 'HEAD'} and {other or 'HEAD'} have no commit in common{_shallow(root)}"
        raise ConfigError(msg) from error
    return Commit(root=root, name=name, sha=common)


def is_commit(name: str, folder: Path) -> bool:
    """Whether the repository around `folder` has a commit of this name."""
    try:
        commit_of(name, folder)
    except ConfigError:
        return False
    return True


def _resolved(name: str, root: Path) -> str:
    try:
        found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except ConfigError as error:
        refs = _git(root, "for-each-ref", f"--count={_MOST_REFS}", "--format=%(refname:short)").decode(errors="replace")
        near = get_close_matches(name, refs.split(), n=_NAMES_SHOWN, cutoff=0.5)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        msg = f"there is no commit, folder or file {name!r:.80} here{meant}{_shallow(root)}"
        raise ConfigError(msg) from error
    return found.decode().strip()


def _shallow(root: Path) -> str:
    """What to do where the history is not all there."""
    if _git(root, "rev-parse", "--is-shallow-repository").strip() != b"true":
        return ""
    return "; this clone is shallow: run git fetch --unshallow (fetch-depth: 0 for actions/checkout)"


def object_at(commit: Commit, path: str) -> str:
    """The hash of the folder or file at a path of the repository (empty: all of it); empty where there is none."""
    try:
        return _git(commit.root, "rev-parse", "--verify", "--quiet", f"{commit.sha}:{path}").decode().strip()
    except ConfigError:
        return ""


def paths_at(commit: Commit, path: str) -> tuple[str, ...]:
    """The files at and below a path of the repository, empty for all of it."""
    return tuple(each for _, _, each in _entries(commit, path))


def uncommitted(root: Path, path: Path) -> int:
    """How many files at and below `path` are not as they were committed, new ones included."""
    try:
        changed = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--", str(path))
    except ConfigError:
        return 0
    return sum(bool(each) for each in changed.split(b"\0"))


async def write_files(commit: Commit, path: str, into: Path) -> None:
    """The files at and below a path of the repository (empty: all of it), written under `into` as they lie in it.

    As they were committed: without what filters (line ends, LFS) would make of them, and without submodules.

    Raises:
        ConfigError: Git could not be asked.
    """
    await asyncio.to_thread(_write_files, commit, path, into)


def _write_files(commit: Commit, path: str, into: Path) -> None:
    entries = _entries(commit, path)
    asked = "".join(f"{sha}\n" for _, sha, _ in entries).encode()
    answer = memoryview(_git(commit.root, "cat-file", "--batch", stdin=asked))
    at = 0
    for mode, _, name in entries:
        head = bytes(answer[at : at + 200]).split(b"\n", 1)[0]
        size = int(head.rsplit(b" ", 1)[1])
        content = answer[at + len(head) + 1 : at + len(head) + 1 + size]
        at += len(head) + size + 2
        _write(into, name, mode, bytes(content))


def _write(into: Path, name: str, mode: str, content: bytes) -> None:
    target = into / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode == _LINK:
        linked = content.decode(errors="surrogateescape")
        inside = not PurePosixPath(linked).is_absolute() and (target.parent / linked).resolve().is_relative_to(
            into.resolve()
        )
        if inside:  # elsewhere there is nothing of this version
            target.symlink_to(linked)
        return
    target.write_bytes(content)
    if mode == _PROGRAM:
        target.chmod(0o755)


def _entries(commit: Commit, path: str) -> list[tuple[str, str, str]]:
    """Mode, hash and path of each file."""
    below = ("--", f":(literal){path}") if path else ()
    listed = _git(commit.root, "ls-tree", "-r", "-z", "--full-tree", commit.sha, *below)
    found: list[tuple[str, str, str]] = []
    for line in listed.split(b"\0"):
        told, tab, name = line.partition(b"\t")
        if tab:
            mode, _, sha = told.decode().split(" ")
            if mode in {_FILE, _PROGRAM, _LINK}:
                found.append((mode, sha, name.decode(errors="surrogateescape")))
    return found


def _git(folder: Path, *words: str, stdin: bytes = b"") -> bytes:
    """What git prints.

    Raises:
        ConfigError: It is not there, or says no.
    """
    command = ["git", "-C", str(folder), "-c", "core.quotePath=false", *words]
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)  # noqa: S603 - a list, no shell
    except OSError as error:
        msg = f"git cannot be run ({error.strerror or error}): install it, or compare folders"
        raise ConfigError(msg) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        msg = f"git {words[0]}: {said}"
        raise ConfigError(msg)
    return done.stdout
