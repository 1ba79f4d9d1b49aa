"""Tables of cases, read while tests are collected, by every worker: with libyaml, where PyYAML has it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from yaml import SafeLoader as _Loader
else:
    _Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_table(path: Path) -> Any:
    """What a file of YAML holds."""
    return yaml.load(path.read_text("utf-8"), Loader=_Loader)  # noqa: S506 - a safe one
