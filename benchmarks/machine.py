"""Where and with what a number was measured."""

import os
import platform
import shutil
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_PACKAGES = (
    "jazz-select",
    "qdrant-edge-py",
    "wordllama",
    "fastembed",
    "onnxruntime",
    "numpy",
    "rapidfuzz",
)
_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024 if hasattr(os, "sysconf") else 4
_GENERATED = (":!benchmarks/results", ":!benchmarks/plots", ":!benchmarks/README.md")


def commit(root: Path = ROOT) -> str:
    """The commit that is checked out; empty where there is none."""
    return _git(root, "rev-parse", "--short=12", "--verify", "HEAD")


def changed(root: Path = ROOT) -> list[str]:
    """The files that are not as the commit has them, apart from ignored ones and from what benchmarks write."""
    status = _git(root, "status", "--porcelain", "--no-renames", "--untracked-files=all", "-z", "--", ".", *_GENERATED)
    return sorted(line[3:] for line in status.split("\0") if line)


def circumstances(root: Path = ROOT) -> dict[str, Any]:
    """Commit, versions and machine; `dirty` says that the code differs from the commit, results apart."""
    return {
        "commit": commit(root),
        "dirty": bool(changed(root)),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "packages": {name: found for name in _PACKAGES if (found := _version(name))},
    }


def resident_mb(pid: int) -> float:
    """Return what a process of this machine holds of memory now, which is less than at its peak; 0 where unknown."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0
    return pages * _PAGE_KB / 1024


def _git(root: Path, *arguments: str) -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    done = subprocess.run([git, *arguments], cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    return done.stdout.strip("\n")


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
