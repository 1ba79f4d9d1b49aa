"""`jazz-select schema`: the JSON Schemas of files, for editors."""

from typing import TYPE_CHECKING

from jazz_select.cli.config import EvalConfig, ServeConfig, config_schema
from jazz_select.cli.terminal import emit
from jazz_select.evaluation.cases import case_schema

if TYPE_CHECKING:
    from jazz_select.cli.main import SchemaCommand
    from jazz_select.settings import Settings


def print_schema(settings: "Settings", given: "SchemaCommand") -> None:  # noqa: ARG001 - as every command
    """Print the schema that was asked for."""
    schemas = {
        "cases": case_schema,
        "serve": lambda: config_schema(ServeConfig),
        "eval": lambda: config_schema(EvalConfig),
    }
    emit(schemas[given.of]())
