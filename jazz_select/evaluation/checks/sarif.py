"""Findings as SARIF 2.1.0 (OASIS, 2020), which GitHub and editors read.

Paths are relative to the working directory, which must be the root of the repository. `partialFingerprints` do not
depend on line numbers, so a finding keeps its identity between runs. Accepted findings are listed as suppressed.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import jazz_select
from jazz_select.evaluation.checks.findings import KINDS, Finding, Findings
from jazz_select.text import as_text, in_one_line

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_FINGERPRINT = "jazzSelect/v1"
_LONGEST = 1_000


def sarif(findings: Findings) -> dict[str, Any]:
    """Return one SARIF run as plain JSON types."""
    every = (*findings.found, *findings.accepted)
    found = {each.code for each in every}
    rules = [code for code in KINDS if code in found]
    results = [_result(each, rules, accepted=False) for each in findings.found]
    results += [_result(each, rules, accepted=True) for each in findings.accepted]
    notes = [{"level": "note", "message": {"text": _line(note)}} for note in findings.notes]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "jazz-select",
                        "version": jazz_select.__version__,
                        "semanticVersion": jazz_select.__version__,
                        "rules": [_rule(code) for code in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {"SRCROOT": {"description": {"text": "The root of the repository."}}},
                "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
                "results": results,
            }
        ],
    }


def _rule(code: str) -> dict[str, Any]:
    kind = KINDS[code]
    name = "".join(word.capitalize() for word in code.split("-"))
    named = {} if name.casefold() == code else {"name": name}  # the standard has no name that is the id
    advice = "Each finding says what to do about it; jazz-select check --ignore KEY accepts the one of this key."
    severity = kind.severity.value
    priority = "recommendation" if severity == "note" else severity  # GitHub's word for a note
    return {
        "id": code,
        **named,
        "shortDescription": {"text": kind.about},
        "fullDescription": {"text": kind.about},
        "help": {"text": f"{kind.about} {advice}"},
        "defaultConfiguration": {"level": severity},
        "properties": {"tags": ["flows"], "problem.severity": priority},
    }


def _result(finding: Finding, rules: Sequence[str], *, accepted: bool) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rules.index(finding.code),
        "level": finding.severity.value,
        "message": {"text": _line(f"{finding.what} {finding.remedy}")},
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint},
        "properties": {"flows": [_line(name) for name in finding.flows], "key": _line(finding.key)},
    }
    if finding.at.file:
        # A relative reference: what is no path is quoted until it can be none that leads elsewhere.
        uri = quote(as_text(finding.at.file).lstrip("/"), safe="/._-~")
        physical: dict[str, Any] = {"artifactLocation": {"uri": uri, "uriBaseId": "SRCROOT"}}
        if finding.at.line:
            physical["region"] = {"startLine": finding.at.line}
        result["locations"] = [{"physicalLocation": physical}]
    else:  # GitHub takes no result without a place
        name = finding.flows[0] if finding.flows else "flows"
        result["locations"] = [{"logicalLocations": [{"name": _line(name)}]}]
    if accepted:
        result["suppressions"] = [{"kind": "external", "justification": "accepted by `ignore`"}]
    return result


def _line(text: str) -> str:
    return in_one_line(as_text(text))[:_LONGEST]
