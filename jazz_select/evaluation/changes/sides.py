"""The two sides of a comparison: how a side is named, where its files are, and what identifies its content."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from jazz_select.errors import ConfigError
from jazz_select.evaluation.changes.git_tree import (
    Commit,
    commit_of,
    is_commit,
    object_at,
    paths_at,
    repository_of,
    uncommitted,
    write_files,
)
from jazz_select.flow.data import SUFFIXES
from jazz_select.flow.skill_flows import skill_folders
from jazz_select.text import count_of

INDEX = "index:"
"""Prefix of the folder of a deployed index."""
_MOST_READ = 64 << 20
"""Bytes of flows that are hashed to identify a working tree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison.

    Attributes:
        label: A description for people.
        flows: The path of the flows, or a package's name.
        below: The folder within a commit that `flows` is relative to, with slashes.
        source: An identifier of its whole content; empty if there is none, as for code in a working tree.
    """

    label: str
    root: Path
    flows: str = ""
    commit: Commit | None = None
    below: str = ""
    index: Path | None = None
    source: str = ""

    @asynccontextmanager
    async def files(self) -> AsyncGenerator[Path]:
        """Provide the folder that `flows` is relative to; that of a commit is temporary."""
        if self.commit is None:
            yield self.root
            return
        with TemporaryDirectory(prefix="jazz-diff-", ignore_cleanup_errors=True) as made:
            path = _join_path(self.below, self.flows)
            if not _is_data(self.commit, path):
                path = ""  # code may import anything of the commit, so all of it is needed
            await asyncio.to_thread(write_files, self.commit, path, Path(made))
            folder = Path(made) / self.below
            folder.mkdir(parents=True, exist_ok=True)
            yield folder


def side_of(spec: str, *, flows: str, here: Path) -> Side:
    """Return the side that a name stands for: `index:FOLDER`, a commit, a folder or a file.

    A commit comes before a folder of the same name; `./` in front means the folder. `flows` is relative to the compared
    folder; for a commit, to `here`.
    """
    if not spec.strip() or "\0" in spec:
        what = "has a NUL in its name" if spec.strip() else "is empty"
        raise ConfigError(f"a side of the comparison {what}; name a commit, a folder, a file or index:FOLDER")
    if spec.startswith(INDEX):
        folder = (here / Path(spec.removeprefix(INDEX)).expanduser()).absolute()
        if not folder.is_dir():
            raise ConfigError(f"there is no index {str(folder)!r:.200}: jazz-select sync makes one")
        return Side(label=f"the index {spec.removeprefix(INDEX)}", root=here, index=folder)
    path = (here / Path(spec).expanduser()).absolute()
    plainly_path = spec in {".", ".."} or spec.startswith(("./", "../", "~", "/")) or Path(spec).is_absolute()
    if path.exists() and (plainly_path or not is_commit(spec, here)):
        return _folder_side(spec, path, flows=flows)
    if plainly_path:
        raise ConfigError(f"there is no folder or file {spec!r:.200}")
    return _commit_side(commit_of(spec, here), flows, here=here)


def _folder_side(spec: str, path: Path, *, flows: str) -> Side:
    if path.is_file():
        return _plain(spec, path.parent, path.name)
    if spec == "." or _has_flows(path, flows):
        return _plain(spec, path, flows)
    if _holds_flows_itself(path):
        return _plain(spec, path.parent, path.name)
    kinds = ", ".join((".py", *SUFFIXES))
    raise ConfigError(
        f"the folder {spec!r:.200} holds no flows: it has no {flows!r:.200}, and no file of its own ({kinds}) or "
        "skill; name the folder that the flows are in, or say with --flows where they are in it"
    )


def _has_flows(folder: Path, flows: str) -> bool:
    """Return whether a folder has a path, or a package of this dotted name; one from elsewhere is not of this side."""
    place = folder / flows
    if place.exists():
        return not Path(flows).is_absolute() or place.is_relative_to(folder)
    parts = flows.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    # With a src layout the package is imported from a folder that only the import finds.
    for start in (folder, folder / "src"):
        module = start.joinpath(*parts)
        if module.is_dir() or module.with_suffix(".py").is_file():
            return True
    return False


def _holds_flows_itself(folder: Path) -> bool:
    if any(each.suffix.lower() in {".py", *SUFFIXES} for each in folder.iterdir()):
        return True
    return next(skill_folders(folder), None) is not None


def _plain(spec: str, root: Path, flows: str) -> Side:
    place = root / flows
    label = "the working tree" if spec == "." else spec
    repository = repository_of(root)
    if repository is not None and place.exists():
        changed = uncommitted(repository, place)
        if changed:
            label += f", {count_of(changed, 'file')} of it not committed"
    return Side(label=label, root=root, flows=flows, source=_content(place))


def _commit_side(commit: Commit, flows: str, *, here: Path) -> Side:
    top = commit.root.resolve()
    start = here.resolve()
    place = Path(flows).expanduser()
    below = ""
    own = flows
    if place.is_absolute() or ".." in place.parts:
        place = (start / place).resolve()
        if not place.is_relative_to(top):
            raise ConfigError(f"the flows {flows!r:.200} lie outside the repository {top}, so no commit holds them")
        own = place.relative_to(top).as_posix()
    elif start.is_relative_to(top):
        below = _join_path("", start.relative_to(top).as_posix())
    path = _join_path(below, own)
    tree = object_at(commit, path if _is_data(commit, path) else "")
    source = f"git {tree} {below} {own}" if tree else ""
    return Side(label=commit.label, root=commit.root, flows=own, commit=commit, below=below, source=source)


def _is_data(commit: Commit, path: str) -> bool:
    """Whether the flows at a path are data alone, so that nothing else of the commit matters."""
    files = paths_at(commit, path)
    return bool(files) and not any(each.endswith((".py", ".pyi", ".so", ".pyd")) for each in files)


def _join_path(below: str, flows: str) -> str:
    joined = Path(below, flows).as_posix()
    return "" if joined == "." else joined


def _content(place: Path) -> str:
    """Return an identifier of a folder's flows if they are data alone; code may depend on other files."""
    if place.is_file():
        files = [place]
    elif place.is_dir():
        files = sorted(each for each in place.rglob("*") if each.is_file())
    else:
        return ""
    if any(each.suffix.lower() == ".py" for each in files):
        return ""
    if sum(each.stat().st_size for each in files) > _MOST_READ:
        return ""
    top = place if place.is_dir() else place.parent
    return f"files {files_digest(files, top)}"


def files_digest(files: Iterable[Path], top: Path) -> str:
    """Return a digest of the names and contents of files below a folder."""
    digest = hashlib.sha256()
    for file in files:
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(top).as_posix()} {content}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
