"""Access to git: which commit a name means, what it contains, and its files in a folder of their own.

Files are extracted from git's archive of a commit. No working tree is checked out, no index is touched, and nothing has
to be cleaned up in the repository, however a run ends.
"""

import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jazz_select.errors import ConfigError
from jazz_select.text import near

_NO_NAMES = frozenset({"", ".", "..", ".git"})
"""File names that git refuses to write, in any case."""
_DRIVES = frozenset("\\:") if os.name == "nt" else frozenset[str]()
_NAMES_SHOWN = 5
_MOST_REFS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit of a repository."""

    root: Path
    name: str
    sha: str

    @property
    def label(self) -> str:
        """The requested name and the short hash."""
        short = self.sha[:9]
        return short if self.sha.startswith(self.name) else f"{self.name} ({short})"


def repository_of(folder: Path) -> Path | None:
    """Return the top folder of the working tree around `folder`; None if there is none, or no git."""
    try:
        found = _git(folder, "rev-parse", "--show-toplevel")
    except ConfigError:
        return None
    return Path(found.decode(errors="surrogateescape").rstrip("\n"))


def commit_of(name: str, folder: Path) -> Commit:
    """Return the commit that a name means in the repository around `folder`; `A...B` is the merge base."""
    root = repository_of(folder)
    if root is None:
        msg = f"{name!r:.80} is no folder or file, and {folder} lies in no git repository, so it can be no commit"
        raise ConfigError(msg)
    one, dots, other = name.partition("...")
    if not dots:
        return Commit(root=root, name=name, sha=_resolve_commit(name, root))
    shas = [_resolve_commit(each or "HEAD", root) for each in (one, other)]
    try:
        common = _git(root, "merge-base", *shas).decode().strip()
    except ConfigError as error:
        raise ConfigError(f"{one or 'HEAD'} and {other or 'HEAD'} have no commit in common{_shallow(root)}") from error
    return Commit(root=root, name=name, sha=common)


def is_commit(name: str, folder: Path) -> bool:
    """Whether the repository around `folder` has a commit of this name."""
    try:
        commit_of(name, folder)
    except ConfigError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """An entry of a path's history."""

    short: str
    at: str
    subject: str


def commits_of(path: Path, *, most: int) -> tuple[CommitChange, ...]:
    """Return the last commits that changed a path, the newest first; none outside of a repository."""
    form = "--format=%h%x1f%cI%x1f%s"
    real = path.resolve()
    try:
        log = _git(real if real.is_dir() else real.parent, "log", f"-{most}", "-z", form, "--", f":(literal){real}")
    except ConfigError:
        return ()
    found: list[CommitChange] = []
    for entry in log.decode(errors="replace").split("\0"):
        short, _, rest = entry.partition("\x1f")
        at, separator, subject = rest.partition("\x1f")
        if separator:  # the last entry is empty
            found.append(CommitChange(short=short, at=at, subject=subject))
    return tuple(found)


def _resolve_commit(name: str, root: Path) -> str:
    ask = ("rev-parse", "--verify", "--quiet", "--end-of-options")
    try:
        if name.startswith(":/"):  # git looks for all that follows as a message, so nothing can be added to it
            name = _git(root, *ask, name).decode().strip()
        found = _git(root, *ask, f"{name}^{{commit}}")
    except ConfigError as error:
        refs = _git(root, "for-each-ref", f"--count={_MOST_REFS}", "--format=%(refname:short)").decode(errors="replace")
        found = near(name, refs.split(), most=_NAMES_SHOWN, cutoff=0.5)
        asked = f"; did you mean {' or '.join(found)}?" if found else ""
        raise ConfigError(f"there is no commit, folder or file {name!r:.80} here{asked}{_shallow(root)}") from error
    return found.decode().strip()


def _shallow(root: Path) -> str:
    """Return advice for a shallow clone; empty for a full one."""
    if _git(root, "rev-parse", "--is-shallow-repository").strip() != b"true":
        return ""
    return "; this clone is shallow: run git fetch --unshallow (fetch-depth: 0 for actions/checkout)"


def object_at(commit: Commit, path: str) -> str:
    """Return the hash of the folder or file at a path (empty: the top); empty if there is none."""
    try:
        return _git(commit.root, "rev-parse", "--verify", "--quiet", f"{commit.sha}:{path}").decode().strip()
    except ConfigError:
        return ""


def paths_at(commit: Commit, path: str) -> tuple[str, ...]:
    """Return the files at and below a path of the repository (empty: all), after checking their names."""
    below = ("--", f":(literal){path}") if path else ()
    listed = _git(commit.root, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit.sha, *below)
    found = listed.decode(errors="surrogateescape").split("\0")[:-1]
    for name in found:
        if any(part.lower() in _NO_NAMES or _DRIVES & set(part) for part in name.split("/")):
            msg = f"{commit.label} has a file {name!r:.200}, which no checkout may write: look at what made that commit"
            raise ConfigError(msg)
    return tuple(found)


def uncommitted(root: Path, path: Path) -> int:
    """Return the number of files at and below `path` with uncommitted changes, new files included."""
    try:
        changed = _git(root, "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--", str(path))
    except ConfigError:
        return 0
    return sum(bool(each) for each in changed.split(b"\0"))


def is_tracked(path: Path) -> bool:
    """Whether git tracks anything at or below a path, with links followed, so that a committer provided it."""
    real = path.resolve()
    there = next((each for each in (real, *real.parents) if each.is_dir()), real)
    root = repository_of(there)
    if root is None or not real.is_relative_to(root.resolve()):
        return False
    name = real.relative_to(root.resolve()).as_posix()
    return bool(_git(root, "ls-files", "-z", "--", f":(top,icase,literal){name}"))


def write_files(commit: Commit, path: str, into: Path) -> None:
    """Write the files at and below a path of the repository (empty: all) under `into`, with the same layout.

    The files are those of `git archive`: no submodules, and no paths excluded from archives. Symlinks that lead outside
    `into` are left out.

    Raises:
        ConfigError: Git failed, objects are missing, or a path leads out of the folder.
    """
    paths_at(commit, path)  # a hostile commit may name files elsewhere
    below = ("--", f":(literal){path}") if path else ()
    with TemporaryDirectory(prefix="jazz-archive-") as made:
        archive = Path(made) / "files.tar"
        try:
            _git(commit.root, "archive", "--format=tar", f"--output={archive}", commit.sha, *below)
        except ConfigError as error:
            what = "if they are not all there, run git fetch --refetch"
            raise ConfigError(f"git cannot give the files of {commit.label}; {what} ({error})") from error
        try:
            with tarfile.open(archive) as tar:
                every = tar.getmembers()
                tar.extractall(into, [each for each in every if not each.issym()], filter="data")
                # Links come last, so that nothing is written through one.
                links = [each for each in every if each.issym()]
                tar.extractall(into, links, filter=_unless_outside)  # noqa: S202 - what `data` takes
        except (OSError, tarfile.TarError) as error:
            raise ConfigError(f"cannot write the files of {commit.label}: {error}") from error
    remaining = [into / each.name for each in links]
    while True:
        outside = [each for each in remaining if each.is_symlink() and not _leads_inside(each, into)]
        if not outside:
            return
        for each in outside:  # removing one may break others, which are looked at again
            each.unlink()


def _unless_outside(link: tarfile.TarInfo, into: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(link, into)
    except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
        return None


def _leads_inside(link: Path, into: Path) -> bool:
    try:
        end = link.resolve()
        return end.is_relative_to(into.resolve()) and not end.is_symlink()
    except (OSError, RuntimeError):  # a loop: before Python 3.13 this raises
        return False


def _git(folder: Path, *words: str) -> bytes:
    # Without locks, so that reading neither changes the index nor blocks other git commands.
    command = ["git", "--no-optional-locks", "-C", str(folder), "-c", "core.quotePath=false", *words]
    try:
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - a list, no shell
    except OSError as error:
        raise ConfigError(f"git cannot be run ({error.strerror or error}): install it, or compare folders") from error
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise ConfigError(f"git {words[0]}: {message}")
    return done.stdout
