"""A tool from a Python function: typed arguments in, JSON out; or a refusal while it is made, never after it ran."""

import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Flag
from functools import lru_cache, partial, wraps
from typing import Annotated, Any, Final, Never, NoReturn, Optional, cast, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticUndefined, SchemaValidator, to_json, to_jsonable_python

from jazz_select.errors import ToolArgumentsError, ToolError
from jazz_select.json_values import as_json, is_json, is_object
from jazz_select.routing.tools.context_inputs import FromContext
from jazz_select.routing.tools.tool import (
    CALL_ID,
    ContextKeys,
    Tool,
    context_keys,
    docstring_of,
    inner_function,
    name_of,
    split_docstring,
)
from jazz_select.text import beginning, describe_error
from jazz_select.threads import is_async

_AS_THEY_ARE: Final = (Any, object, str, bool)
"""What is the same in JSON and in Python, so that nothing is to be converted."""
_DUMPED_AS_THEY_ARE: Final = (*_AS_THEY_ARE, int, float, None, type(None), Never, NoReturn)
_ONLY_PYTHON: Final = ("callable", "is-instance", "is-subclass")
_PLAIN: Final = "function-plain"
_UNHASHABLE: Final = ("list", "set", "dict", "typed-dict")
_OTHER_BRANCH: Final = frozenset({"python_schema", "strict_schema", "metadata", "serialization", "cls", "config"})
"""The parts of a pydantic schema that are not met on the way from JSON."""
_LONGEST_CAUSE: Final = 200
_MOST_PROBLEMS: Final = 5
_CLASSES_KEPT: Final = 256
"""Of so many classes that tools return the schema is kept; the least recently used is dropped."""
_RETURNED: Final = "what it returns"
_ANYTHING: Final = TypeAdapter[Any](Any)
_BIND: Final = "annotate it with what JSON can hold, or give it beforehand: functools.partial(function, name=value)"
_RETURN: Final = "return what JSON can hold, such as a model or a dict, or leave the annotation out"
_MISSING: Final = inspect.Parameter.empty
_SCALARS: Final = {each: TypeAdapter[Any](each) for each in (str, int, float, bool)}
"""What most parameters are annotated with, which JSON can hold whatever the tool."""


def tool_from_function(  # noqa: PLR0913 - what a tool is made of
    function: Callable[..., object],
    *,
    name: str = "",
    description: str = "",
    provider: str = "",
    capabilities: Sequence[str] = (),
    destructive: bool = False,
    idempotent: bool = False,
    read_only: bool | None = None,
    title: str = "",
    confirm: Callable[..., object] | None = None,
    undoes: str = "",
    from_context: ContextKeys = (),
) -> Tool:
    """Return a tool for a function: its signature gives the arguments, its docstring the descriptions.

    pydantic converts arguments to their annotations and results to JSON: models, dataclasses, enums, dates, named
    tuples, sets, paths, and lists, dicts and unions of them. Bytes are text, or Base64 if they are no UTF-8. Arguments
    without an annotation are passed unchanged.

    A parameter `call_id` gets the id of the call and is no argument. Nor are the keywords of a `functools.partial`,
    which can pass what no model can send, such as a client. A parameter marked with `FromContext`, as in
    `member: Annotated[str, FromContext]`, is filled from the caller's context, and no model is asked for it.

    Args:
        function: Plain or async; also a method, a partial or a callable object.
        name: Its name, if not the function's.
        description: What it does, if not the first part of the docstring.
        provider: Its owner.
        capabilities: Its abilities, as dotted words.
        destructive: Whether it destroys something.
        idempotent: Whether calling it twice has the effect of calling it once.
        read_only: Whether it changes nothing; None if unknown.
        title: Its name for users, if not its name in words.
        confirm: Returns, in words for the user, what a call with these arguments would do. It gets the same converted
            arguments as the function.
        undoes: The name of the tool whose effect it reverses.
        from_context: Parameters that the context fills, beside those marked with `FromContext`: their names, or by name
            the key in the context.

    Raises:
        ToolError: The signature has no JSON Schema (the message says which parameter and what to do), or `confirm` does
            not take the function's arguments.
    """
    own = name or name_of(function)
    _check_kind(own, function, named=bool(name))
    hints, signature = _hints(own, function)
    about, of_parameters = split_docstring(docstring_of(function))
    parameters = [_parameter(own, each, hints) for each in _tool_parameters(own, function, signature)]
    from_context = {**{each.name: each.key for each in parameters if each.key}, **context_keys(own, from_context)}
    schema, dump = _output(own, hints.get("return", signature.return_annotation))
    adapters = {each.name: each.adapter for each in parameters if each.annotation not in _AS_THEY_ARE}
    defaults = {each.name: each.default for each in parameters if each.default is not _MISSING}
    run = function
    if adapters or defaults or dump is not None:
        run = _with_conversion(function, partial(_convert_arguments, own, adapters, defaults), dump)
    if confirm is not None:
        _check_confirm(own, confirm, parameters)
        confirm = _with_conversion(confirm, partial(_convert_arguments, own, adapters, {}), None)
    return Tool(
        name=own,
        description=description or about,
        input_schema=_input_schema(parameters, of_parameters),
        output_schema=schema,
        function=run,
        provider=provider,
        capabilities=tuple(capabilities),
        destructive=destructive,
        idempotent=idempotent,
        read_only=read_only,
        title=title,
        confirm=confirm,
        undoes=undoes,
        from_context=from_context,
        converts=True,
        argument_checks={name: partial(_convert_argument, own, name, each) for name, each in adapters.items()},
    )


# --- the call --------------------------------------------------------------------


def _with_conversion(
    function: Callable[..., object],
    convert: Callable[[dict[str, Any]], dict[str, Any]],
    dump: Callable[[Any], Any] | None,
) -> Callable[..., object]:
    """Return the function with JSON arguments; async or not as before, with the same signature."""

    async def dump_awaited(result: Awaitable[object]) -> object:
        return dump_result(await result)

    def dump_result(result: object) -> object:
        if inspect.isawaitable(result):  # a plain function may return one, and it may give another
            return dump_awaited(result)
        return result if dump is None else dump(result)

    if is_async(function):

        @wraps(function)
        async def call_async(**arguments: Any) -> object:
            result = function(**convert(arguments))
            if inspect.isawaitable(result):
                result = await result
            return dump_result(result)

        return call_async

    @wraps(function)
    def call(**arguments: Any) -> object:
        return dump_result(function(**convert(arguments)))

    return call


def _convert_arguments(
    tool: str,
    adapters: Mapping[str, "TypeAdapter[Any]"],
    defaults: Mapping[str, Callable[[], Any]],
    arguments: dict[str, Any],
) -> dict[str, Any]:
    """Convert arguments by annotation; unannotated ones stay."""
    converted = {name: default() for name, default in defaults.items() if name not in arguments}
    for name, value in arguments.items():
        converted[name] = _convert_argument(tool, name, adapters[name], value) if name in adapters else value
    return converted


def _convert_argument(tool: str, name: str, adapter: "TypeAdapter[Any]", value: object) -> Any:
    try:
        if is_json(value):
            # Validate as JSON: only there do strict types accept a date as text.
            return adapter.validate_json(to_json(value))
        return adapter.validate_python(value)
    except ValidationError as error:
        problems: list[str] = []
        for each in error.errors(include_url=False, include_input=False, include_context=False)[:_MOST_PROBLEMS]:
            place = ".".join(map(str, [name, *each["loc"]] if name else each["loc"]))
            problems.append(f"{beginning(place, 80)}: {beginning(each['msg'], _LONGEST_CAUSE)}")
        raise ToolArgumentsError(tool, "; ".join(problems), (name,)) from error
    except Exception as error:  # what a validator of somebody else's raises
        problem = f"{name}: {describe_error(error)}" if name else describe_error(error)
        raise ToolArgumentsError(tool, problem, (name,)) from error


def _dump_result(adapter: "TypeAdapter[Any]", result: object) -> object:
    """Return the result as pydantic writes it.

    If that fails it stays as it is, and the record of the call says so: an error here would look as if the function
    itself had failed.
    """
    if adapter is _ANYTHING and inspect.isgenerator(result):  # nobody said so, and it may never end
        return cast("object", result)
    try:
        try:
            return adapter.dump_python(result, mode="json", by_alias=True, warnings=False)
        except ValueError:  # bytes that are no text
            return to_jsonable_python(adapter.dump_python(result, by_alias=True, warnings=False), bytes_mode="base64")
    except Exception:  # noqa: BLE001 - whatever a value trips over
        return result


# --- what a function is ------------------------------------------------------------


def _check_kind(tool: str, function: object, *, named: bool) -> None:
    if not callable(function):
        raise ToolError(tool, f"a tool is made of a function, not of {function!r:.60}")
    if isinstance(function, type):
        raise ToolError(tool, "a class makes objects; give a function that returns one, or a method of an object")
    if tool == "<lambda>" and not named:
        raise ToolError("lambda", "a lambda has no name that could be called; give it one with name=, or write a def")
    inner = inner_function(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ToolError(tool, "it yields, and a call has one result; return a list of what it yields")


def _check_confirm(tool: str, confirm: Callable[..., object], parameters: Sequence["_Parameter"]) -> None:
    every = [each.name for each in parameters]
    required = [each.name for each in parameters if each.required]
    for names in (every, required):  # with all of them, and with none of those that may be left out
        try:
            inspect.signature(confirm).bind(**dict.fromkeys(names))
        except (TypeError, ValueError) as error:
            problem = f"confirm cannot be called with {', '.join(names) or 'nothing'} ({error})"
            raise ToolError(tool, f"{problem}; give it the function's parameters, with defaults likewise") from error


def _hints(tool: str, function: Callable[..., object]) -> tuple[dict[str, Any], inspect.Signature]:
    inner = inner_function(function)
    try:
        hints = get_type_hints(inner, localns=cast("Any", _enclosing_names(inner)), include_extras=True)
        return hints, inspect.signature(function)
    except NameError as error:
        unknown = error.name or str(error)
        problem = f"{unknown!r}, which its annotation names, cannot be found"
        advice = "define or import it at the top of the module, not under `if TYPE_CHECKING:`"
        raise ToolError(tool, f"{_annotated_with(inner, unknown)}{problem}; {advice}") from error
    except Exception as error:
        problem = f"its signature cannot be read: {_cause(error)}; write a function around it, with annotations"
        raise ToolError(tool, problem) from error


def _enclosing_names(function: Callable[..., object]) -> Mapping[str, Any] | None:
    """Return the enclosing names of a nested function, which annotations may refer to."""
    try:
        return inspect.getclosurevars(inspect.unwrap(function)).nonlocals
    except (TypeError, ValueError):  # it is built in, or one of them is not yet bound
        return None


def _annotated_with(function: Callable[..., object], name: str) -> str:
    """Return which annotation names something, as the beginning of a sentence; "" if that is not known."""
    try:
        annotations: object = getattr(function, "__annotations__", None)
    except NameError:  # a Python that reads annotations as late as this
        return ""
    if is_object(annotations):
        for parameter, annotation in annotations.items():
            if re.search(rf"\b{re.escape(name)}\b", str(annotation)):
                return f"{_RETURNED}: " if parameter == "return" else f"parameter {parameter!r}: "
    return ""


# --- what it takes -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """One argument: its type, and what is said of it in the schema beside that.

    Attributes:
        about: What its schema says beside its type: a description, a default.
        default: Returns its value where it is left out and the function's own default is pydantic's `Field(…)`.
        key: The key in the context that fills it; empty if a model gives it.
    """

    name: str
    annotation: Any
    adapter: "TypeAdapter[Any]"
    required: bool
    about: Mapping[str, Any]
    default: Any = _MISSING
    key: str = ""


def _tool_parameters(
    tool: str, function: Callable[..., object], signature: inspect.Signature
) -> Iterator[inspect.Parameter]:
    bound = function.keywords if isinstance(function, partial) else {}
    for number, each in enumerate(signature.parameters.values()):
        if each.kind is each.VAR_POSITIONAL:
            problem = f"arguments are given by name; take a list, `{each.name}: list[str]`"
            raise _parameter_error(tool, f"*{each.name}", problem)
        if each.kind is each.VAR_KEYWORD:
            problem = f"no schema could say what it takes; name each, or take a dict, `{each.name}: dict[str, str]`"
            raise _parameter_error(tool, f"**{each.name}", problem)
        if each.kind is each.POSITIONAL_ONLY:
            problem = "arguments are given by name, and it has none: take out the `/` after it"
            raise _parameter_error(tool, each.name, problem)
        if not number and each.name in {"self", "cls"} and each.annotation is _MISSING:
            raise _parameter_error(tool, each.name, "it is a method without its object; give the method of an object")
        if each.name not in bound and each.name != CALL_ID:
            yield each


def _parameter(tool: str, given: inspect.Parameter, hints: Mapping[str, Any]) -> _Parameter:
    annotation, default = hints.get(given.name, given.annotation), given.default
    annotation, marks = _without_marks(annotation)
    if default is FromContext or isinstance(default, FromContext):  # as other libraries mark a parameter
        marks, default = [*marks, default], _MISSING
    about: dict[str, Any] = {}
    computed: Any = _MISSING
    if isinstance(default, FieldInfo):
        field = default
        annotation = Annotated[Any if annotation is _MISSING else annotation, field]
        default = field.get_default(call_default_factory=False)
        if default is PydanticUndefined:
            default = _MISSING
        if not field.is_required():
            computed = partial(field.get_default, call_default_factory=True)
    description = _about(annotation)
    if description is not None:
        about["description"] = description
    annotation = _checked_annotation(annotation, default)
    adapter = _parameter_adapter(tool, given.name, annotation)
    if default is not _MISSING:
        shown = _default_as_json(adapter, default)
        if shown is not _MISSING:
            about["default"] = shown
        elif annotation is Any:
            raise _parameter_error(tool, given.name, f"its default is no JSON, and it is not annotated; {_BIND}")
    return _Parameter(
        name=given.name,
        annotation=annotation,
        adapter=adapter,
        required=default is _MISSING and computed is _MISSING,
        about=about,
        default=computed,
        key=_context_key(given.name, marks),
    )


def _checked_annotation(annotation: Any, default: object) -> Any:
    """Return what an argument is converted to: anything without an annotation, and None too where it is the default."""
    if annotation is _MISSING:
        return Any
    if default is None and annotation not in _AS_THEY_ARE[:2]:
        return Optional[annotation]  # noqa: UP045 - the annotation may be a text, which knows no |
    return annotation


def _context_key(name: str, marks: Sequence[object]) -> str:
    """Return the key in the context that fills a parameter with these marks; "" without any."""
    if not marks:
        return ""
    mark = marks[0]
    return mark.key or name if isinstance(mark, FromContext) else name  # the class itself is a mark, too


def _parameter_adapter(tool: str, name: str, annotation: Any) -> "TypeAdapter[Any]":
    for scalar, adapter in _SCALARS.items():
        if annotation is scalar:
            return adapter
    adapter = _adapter(tool, f"parameter {name!r}", annotation)
    _schema_of(tool, f"parameter {name!r}", adapter, "validation")
    _check_from_json(tool, name, adapter.core_schema)
    return adapter


def _without_marks(annotation: Any) -> tuple[Any, list[object]]:
    """Return an annotation without `FromContext`, and those marks."""
    while hasattr(annotation, "__value__"):  # an alias made by `type`
        annotation = annotation.__value__
    if get_origin(annotation) is not Annotated:
        return annotation, []
    inner, *about = get_args(annotation)
    marks: list[object] = [each for each in about if each is FromContext or isinstance(each, FromContext)]
    if not marks:
        return annotation, []
    rest = tuple(each for each in about if each not in marks)
    if not rest:
        return inner, marks
    return Annotated[(inner, *rest)], marks


def _parameter_error(tool: str, parameter: str, problem: str) -> ToolError:
    return ToolError(tool, f"parameter {parameter!r}: {problem}")


def _adapter(tool: str, what: str, annotation: Any) -> "TypeAdapter[Any]":
    origin = get_origin(annotation)
    if origin in (Iterable, Iterator):  # pydantic would look at each only while the function runs
        annotation = list[get_args(annotation)]  # type: ignore[misc]
    try:
        return TypeAdapter(annotation)
    except Exception as error:
        raise _no_schema_error(tool, what, error) from error


def _default_as_json(adapter: "TypeAdapter[Any]", default: object) -> Any:
    """Return a default as JSON for the schema, or `_MISSING` if that is impossible; the function keeps it."""
    try:
        return as_json(adapter.dump_python(default, mode="json", by_alias=True, warnings="error"))
    except Exception:  # noqa: BLE001 - whatever a value trips over
        return _MISSING


def _about(annotation: object) -> str | None:
    """Return the description in an annotation: `Annotated[str, "the city"]`, a `Doc` or a `Field`."""
    if get_origin(annotation) is not Annotated:
        return None
    for mark in get_args(annotation)[1:]:
        text = getattr(mark, "documentation", getattr(mark, "description", mark))
        if isinstance(text, str):
            return text
    return None


def _check_from_json(tool: str, name: str, schema: object) -> None:
    """Refuse a type with a schema that no JSON value can satisfy."""
    waiting = [schema]
    definitions = {each.get("ref"): each for each in cast("Any", schema).get("definitions", ())}
    while waiting:
        each = waiting.pop()
        if isinstance(each, list | tuple):
            waiting.extend(cast("Sequence[object]", each))
        elif is_object(each):
            problem = _json_problem(each, definitions)
            if problem:
                raise _parameter_error(tool, name, problem)
            waiting.extend(value for key, value in each.items() if key not in _OTHER_BRANCH)


def _json_problem(schema: Mapping[str, Any], definitions: Mapping[object, Mapping[str, Any]]) -> str:
    """Return why no JSON value can be valid by one part of a pydantic schema; "" if one may."""
    kind = schema.get("type")
    if kind in _ONLY_PYTHON or _is_of_bytes(schema):
        return f"no JSON can be what it is annotated with; {_BIND}"
    lost = [value for value in _listed_values(schema) if not _comes_back(value, schema)]
    if lost:
        what, advice = f"{lost[0]!r:.60}", "give the enum texts or numbers as values"
        if kind == "literal":
            what, advice = f"{what} in a Literal", "name the enum, or values"
        return f"{what} is not read from JSON; {advice}"
    if kind == "generator":
        return "it would be read only while the function runs; say list[…] or Sequence[…]"
    if kind in {"set", "frozenset"}:
        items: dict[str, Any] = schema.get("items_schema", {})
        if items.get("type") in _UNHASHABLE or getattr(items.get("cls"), "__hash__", id) is None:
            return "a set cannot hold what has no hash; say list[…], or freeze the model"
    if kind == "dict":
        keys = schema.get("keys_schema", {})
        if not _is_key(definitions.get(keys.get("schema_ref"), keys)):
            return "the keys of a JSON object are texts; say list[tuple[…, …]], or take other keys"
    return ""


def _listed_values(schema: Mapping[str, Any]) -> Sequence[object]:
    return cast("Sequence[object]", schema.get("members") or schema.get("expected") or ())


def _comes_back(value: object, schema: Mapping[str, Any]) -> bool:
    try:
        read: object = SchemaValidator(cast("Any", schema)).validate_json(to_json(value))
    except Exception:  # noqa: BLE001 - an enum's own code may be run
        return False
    return read is value or read == value


def _is_of_bytes(schema: Mapping[str, Any]) -> bool:
    """Tell whether a schema is of a regular expression for bytes, which pydantic cannot parse from text."""
    if schema.get("type") != _PLAIN:
        return False
    function: object = cast("Any", schema.get("function") or {}).get("function")
    return getattr(function, "__name__", "") == "pattern_bytes_validator"


def _is_key(schema: Mapping[str, Any]) -> bool:
    if any(not isinstance(getattr(each, "value", each), str) for each in _listed_values(schema)):
        return False
    return schema.get("type") not in {"none", "tuple", "named-tuple", "model", "dataclass", "frozenset", *_UNHASHABLE}


class _Schemas(GenerateJsonSchema):
    """Leaves out defaults that are no JSON without a warning; the function keeps them."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic has it

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        """Admit any sum of flags, as pydantic reads and writes them; its own schema lists only the single ones."""
        found = super().enum_schema(schema)
        if not issubclass(schema["cls"], Flag):
            return found
        single = ", ".join(f"{each.value} ({each.name})" for each in schema["members"])
        return {"title": found.get("title", ""), "type": "integer", "description": f"A sum of {single}"}


def _input_schema(parameters: Sequence[_Parameter], about: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    inputs: list[Any] = [(each.name, "validation", each.adapter) for each in parameters]
    schemas, shared = TypeAdapter.json_schemas(inputs, schema_generator=_Schemas) if inputs else ({}, {})
    for each in parameters:
        schema: dict[str, Any] = dict(cast("Any", schemas)[each.name, "validation"])
        described = {"description": about[each.name]} if each.name in about else {}
        found[each.name] = {**described, **schema, **each.about}
    required = [each.name for each in parameters if each.required]
    rest = {key: value for key, value in shared.items() if key == "$defs"}
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": found, **needed, "additionalProperties": False, **rest}


# --- what it gives -----------------------------------------------------------------


def _output(tool: str, annotation: Any) -> tuple[Mapping[str, Any] | None, Callable[[object], object] | None]:
    """Return the schema of the result and its serializer; None if there is no annotation or nothing to do."""
    if get_origin(annotation) in (Awaitable, Coroutine):
        annotation = get_args(annotation)[-1]
    if annotation in (Never, NoReturn):
        return None, None
    if annotation in (_MISSING, *_AS_THEY_ARE[:2]):
        return None, partial(_dump_result, _ANYTHING)
    if isinstance(annotation, type) and type(annotation).__hash__ is type.__hash__:
        adapter, schema = _output_of_class(tool, annotation)
    else:
        adapter = _adapter(tool, _RETURNED, annotation)
        schema = _schema_of(tool, _RETURNED, adapter, "serialization")
    if annotation in _DUMPED_AS_THEY_ARE:
        return schema, None
    return schema, partial(_dump_result, adapter)


def _output_of_class(tool: str, annotation: type) -> "tuple[TypeAdapter[Any], dict[str, Any]]":
    try:
        adapter, schema = _adapter_and_schema(annotation)
    except Exception as error:
        raise ToolError(tool, f"{_RETURNED}: {_cause(error)}; {_RETURN}") from error
    return adapter, {key: deepcopy(value) for key, value in schema.items() if key != "title"}


@lru_cache(maxsize=_CLASSES_KEPT)
def _adapter_and_schema(annotation: type) -> "tuple[TypeAdapter[Any], dict[str, Any]]":
    """Return what pydantic makes of a class. It takes milliseconds, and tools are made for each user of some."""
    adapter = TypeAdapter[Any](annotation)
    return adapter, adapter.json_schema(mode="serialization", schema_generator=_Schemas)


def _schema_of(tool: str, what: str, adapter: "TypeAdapter[Any]", mode: Any) -> dict[str, Any]:
    try:
        schema = adapter.json_schema(mode=mode, schema_generator=_Schemas)
    except Exception as error:
        raise _no_schema_error(tool, what, error) from error
    return {key: value for key, value in schema.items() if key != "title"}


def _no_schema_error(tool: str, what: str, error: Exception) -> ToolError:
    advice = _RETURN if what == _RETURNED else _BIND
    return ToolError(tool, f"{what}: {_cause(error)}; {advice}")


def _cause(error: Exception) -> str:
    """Return the first sentence of an error: the rest is for pydantic's users."""
    sentence = str(error).strip().split("\n", 1)[0].partition(". Set `")[0]
    return f"no JSON Schema can be made of it ({beginning(sentence, _LONGEST_CAUSE)})"
