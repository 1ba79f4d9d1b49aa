"""Findings as SARIF 2.1.0: what GitHub reads of it is there, relative, escaped and stable."""

from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from jazz_select.evaluation import KINDS, Evidence, Finding, Findings
from jazz_select.evaluation.checks.findings import Place
from jazz_select.evaluation.checks.sarif import sarif

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["error", "warning", "note"]}
WHERE = {
    "type": "object",
    "anyOf": [{"required": ["physicalLocation"]}, {"required": ["logicalLocations"]}],
    "properties": {
        "physicalLocation": {
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {
                    "required": ["uri", "uriBaseId"],
                    "properties": {
                        "uri": {"type": "string", "pattern": r"^(?!/|[A-Za-z][A-Za-z0-9+.-]*:)[^\s<>\"\\]+$"}
                    },
                },
                "region": {"required": ["startLine"], "properties": {"startLine": {"type": "integer", "minimum": 1}}},
            },
        }
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "partialFingerprints", "locations"],
    "properties": {
        "ruleId": {"enum": list(KINDS)},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "partialFingerprints": {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
        "locations": {"type": "array", "minItems": 1, "items": WHERE},
        "suppressions": {
            "type": "array",
            "items": {"required": ["kind"], "properties": {"kind": {"const": "external"}}},
        },
    },
}
SUBSET: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "required": [
                                                "id",
                                                "shortDescription",
                                                "fullDescription",
                                                "help",
                                                "defaultConfiguration",
                                            ],
                                            "properties": {
                                                "shortDescription": TEXT,
                                                "fullDescription": TEXT,
                                                "help": TEXT,
                                                "defaultConfiguration": {"properties": {"level": LEVEL}},
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "items": RESULT},
                },
            },
        },
    },
}
"""Of the standard's schema, what this library writes and GitHub asks for."""

TWINS = Finding(
    code="near-twins",
    flows=("b", "a"),
    at=Place("flows/ä b%.yaml", 7),
    what="They are near.",
    remedy="Part them.",
    evidence=(Evidence(text="x", cosine=0.5),),
)
NOWHERE = Finding(code="invalid-case", what="A\u202ecase\x1b[31m is\nwrong.", remedy="Mend it.")
ABSOLUTE = Finding(code="placeholder", at=Place("//host/c:/x"), what="w", remedy="r")


@pytest.mark.spec("007.1")
@pytest.mark.parametrize(
    "findings",
    [
        pytest.param(Findings(), id="nothing"),
        pytest.param(Findings(found=(NOWHERE, TWINS, ABSOLUTE), notes=("not looked at",)), id="several"),
        pytest.param(Findings(accepted=(TWINS,)), id="accepted"),
    ],
)
def test_what_is_written_is_sarif(findings: Findings) -> None:
    told = orjson.loads(orjson.dumps(sarif(findings)))
    jsonschema.validate(told, SUBSET, jsonschema.Draft7Validator)  # pyright: ignore[reportUnknownMemberType]
    (run,) = told["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert not any(each["id"] == each.get("name", "").casefold() for each in rules)
    assert [rules[each["ruleIndex"]]["id"] for each in run["results"]] == [each["ruleId"] for each in run["results"]]
    assert len(run["results"]) == len(findings.found) + len(findings.accepted)
    assert not any(mark in orjson.dumps(told).decode() for mark in ("\u202e", "\x1b"))


def test_what_is_accepted_is_suppressed() -> None:
    (result,) = sarif(Findings(accepted=(TWINS,)))["runs"][0]["results"]
    assert result["suppressions"]
    (result,) = sarif(Findings(found=(TWINS,)))["runs"][0]["results"]
    assert "suppressions" not in result


def test_a_fingerprint_stays_while_lines_move_and_differs_between_findings(tmp_path: Path) -> None:
    del tmp_path
    moved = Finding(
        code=TWINS.code, flows=("a", "b"), at=Place(line=99), what="else", remedy="r", evidence=TWINS.evidence
    )
    other = Finding(code=TWINS.code, flows=("a", "c"), what="else", remedy="r", evidence=TWINS.evidence)
    assert moved.fingerprint == TWINS.fingerprint
    assert len({each.fingerprint for each in (TWINS, other, NOWHERE, ABSOLUTE)}) == 4
