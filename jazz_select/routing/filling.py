"""Missing inputs of a planned call, filled from what earlier steps returned, where schemas leave no doubt."""

from collections.abc import Mapping
from typing import Any, cast

from jazz_select.routing.compatibility import FOLDED, Field, field_score, schema_of
from jazz_select.routing.schema import RESULT, fields
from jazz_select.routing.tool import Tool


def fill_from_outputs(tool: Tool, missing: tuple[str, ...], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """A `fill` for `run_plan`: each missing input from the one earlier field that has its name and surely fits.

    The latest step that gives such a field counts. A name may differ in case and separators, if only one does. What no
    earlier step gives stays missing, so that the step says so.
    """
    there: dict[str, Any] = {}
    for output in outputs.values():
        there.update(cast("Mapping[str, Any]", output) if isinstance(output, Mapping) else {RESULT: output})
    available = [Field(name, schema_of(value)) for name, value in there.items()]
    wanted = fields(tool.input_schema)
    filled: dict[str, Any] = {}
    for name in missing:
        part, _ = wanted.get(name, (True, True))
        want = Field(name, part, tool.input_schema)
        fitting = [each for each in available if field_score([each], want) >= FOLDED]
        exact = [each for each in fitting if each.name == name]
        if exact or len(fitting) == 1:
            filled[name] = there[(exact or fitting)[0].name]
    return filled
