"""Each format against what its reader documents, written down here from that documentation.

The schemas allow no field beyond those that are used, so a misspelled one is noticed. The validators
of the formats' own makers read whole reviews in ``make readers``.
"""

import json
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema_rs
import pytest

from diffchecks.check_io import FlowStep
from orchestrator.app.catalog_listing import shipped_rules
from orchestrator.code_review.verdict.model import Skipped, Verdict
from orchestrator.report.formats import FormatInputs, render_format
from tests.report.test_formats import hostile
from tests.report.verdict_samples import finding, fixed, rich_verdict, verdict

TEXT = {"type": "string", "minLength": 1}
LINE = {"type": "integer", "minimum": 1}


def fields(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "properties": required | optional,
        "required": list(required),
        "additionalProperties": False,
    }


def many(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


# https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
GITLAB = many(
    fields(
        {
            "description": TEXT,
            "check_name": TEXT,
            "fingerprint": TEXT,
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "location": fields(
                {
                    "path": {"type": "string", "minLength": 1, "not": {"pattern": r"^\.?/"}},
                    "lines": fields({"begin": LINE}),
                }
            ),
        }
    )
)

# https://github.com/reviewdog/reviewdog/blob/master/proto/rdf/reviewdog.proto
RDJSON_SEVERITY = {"enum": ["ERROR", "WARNING", "INFO"]}
RDJSON = fields(
    {
        "source": fields({"name": TEXT}),
        "severity": RDJSON_SEVERITY,
        "diagnostics": many(
            fields(
                {
                    "message": TEXT,
                    "location": fields(
                        {"path": TEXT},
                        range=fields(
                            {"start": fields({"line": LINE}), "end": fields({"line": LINE})}
                        ),
                    ),
                    "severity": RDJSON_SEVERITY,
                    "code": fields({"value": TEXT}),
                },
                suggestions=many(
                    fields(
                        {
                            "range": fields(
                                {"start": fields({"line": LINE}), "end": fields({"line": LINE})}
                            ),
                            "text": {"type": "string"},
                        }
                    ),
                    minItems=1,
                ),
            )
        ),
    }
)

# https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html and, for lengths and properties,
# https://docs.github.com/code-security/code-scanning/integrating-with-code-scanning
SENTENCES = fields({"text": {"type": "string", "pattern": r"[.!?]$"}})
DESCRIPTION = fields({"text": {"type": "string", "pattern": r"[.!?]$", "maxLength": 1024}})
LEVEL = {"enum": ["note", "warning", "error"]}
ARTIFACT = fields(
    {
        "uri": {
            "type": "string",
            "pattern": r"^[A-Za-z0-9_.~!$&'()*+,;=@%-][A-Za-z0-9_.~!$&'()*+,;=@%/-]*$",
        },
        "uriBaseId": {"const": "%SRCROOT%"},
    }
)
REGION = fields({"startLine": LINE}, endLine=LINE, startColumn=LINE, snippet=fields({"text": TEXT}))
PHYSICAL = fields({"artifactLocation": ARTIFACT}, region=REGION)
RULE = fields(
    {
        "id": {"type": "string", "maxLength": 255, "pattern": r"^\S+$"},
        "name": {"type": "string", "maxLength": 255, "pattern": "^[A-Z][A-Za-z0-9]*$"},
        "shortDescription": DESCRIPTION,
        "fullDescription": DESCRIPTION,
        "help": fields({"text": TEXT, "markdown": TEXT}),
        "defaultConfiguration": fields({"level": LEVEL}),
        "properties": fields(
            {
                "tags": many(TEXT, maxItems=20, uniqueItems=True),
                "precision": {"enum": ["very-high", "high", "medium", "low"]},
            },
            **{
                "security-severity": {"type": "string", "pattern": r"^(10|\d)\.\d$"},
                "problem.severity": {"enum": ["error", "warning", "recommendation"]},
            },
        ),
    }
)
STEP = fields({"location": fields({"physicalLocation": PHYSICAL, "message": SENTENCES})})
DELETED = fields({"startLine": LINE, "startColumn": LINE, "endLine": LINE, "endColumn": LINE})
INSERTED = fields({"text": {"type": "string"}})
REPLACEMENT = fields({"deletedRegion": DELETED, "insertedContent": INSERTED})
CHANGE = fields({"artifactLocation": ARTIFACT, "replacements": many(REPLACEMENT, minItems=1)})
RESULT = fields(
    {
        "ruleId": TEXT,
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": SENTENCES,
        "locations": many(fields({"physicalLocation": PHYSICAL}), minItems=1, maxItems=1),
        "partialFingerprints": fields({"diffcourt/v1": TEXT, "primaryLocationLineHash": TEXT}),
        "rank": {"type": "number", "minimum": 0, "maximum": 100},
        "properties": {"type": "object"},
    },
    baselineState={"enum": ["new", "unchanged"]},
    fixes=many(
        fields({"description": SENTENCES, "artifactChanges": many(CHANGE, minItems=1)}),
        minItems=1,
        maxItems=1,
    ),
    codeFlows=many(fields({"threadFlows": many(fields({"locations": many(STEP)}))})),
    relatedLocations=many(
        fields({"id": LINE, "physicalLocation": PHYSICAL, "message": SENTENCES}), minItems=1
    ),
    suppressions=many(
        fields(
            {
                "kind": {"const": "external"},
                "status": {"const": "accepted"},
                "justification": {"type": "string", "pattern": r"[.!?]$"},
            }
        )
    ),
)
NOTIFICATION = fields(
    {"level": LEVEL, "descriptor": fields({"id": TEXT}), "message": SENTENCES},
    locations=many(fields({"physicalLocation": PHYSICAL})),
)
RUN = fields(
    {
        "tool": fields(
            {
                "driver": fields(
                    {
                        "name": TEXT,
                        "version": TEXT,
                        "semanticVersion": {"type": "string", "pattern": r"^\d+\.\d+\.\d+"},
                        "rules": many(RULE),
                    }
                )
            }
        ),
        "invocations": many(
            fields(
                {
                    "executionSuccessful": {"type": "boolean"},
                    "exitCode": {"type": "integer"},
                    "exitCodeDescription": TEXT,
                    "toolExecutionNotifications": many(NOTIFICATION),
                }
            ),
            minItems=1,
        ),
        "automationDetails": fields({"id": {"type": "string", "pattern": "/$"}}),
        "columnKind": {"const": "unicodeCodePoints"},
        "originalUriBaseIds": fields({"%SRCROOT%": fields({"description": SENTENCES})}),
        "results": many(RESULT),
        "properties": {"type": "object"},
    }
)
SARIF = fields(
    {"$schema": TEXT, "version": {"const": "2.1.0"}, "runs": many(RUN, minItems=1, maxItems=1)}
)


def full() -> Verdict:
    """A finding of a shipped rule with the steps of a value, and one whose title says no more."""
    steps = (FlowStep("src/a b.py", 3, "input is read"), FlowStep("src/upload.py", 42, "[it] runs"))
    return verdict(
        findings=(
            finding(1, rule="security.command-injection", steps=steps, since_previous="reopened"),
            fixed(3),
            finding(2, title="What is it?", path="ä/日本.py", start_column=3),
        )
    )


SAMPLES = [full, hostile, rich_verdict, verdict]


@pytest.mark.parametrize("make", SAMPLES)
@pytest.mark.parametrize(
    ("name", "schema"), [("gitlab", GITLAB), ("rdjson", RDJSON), ("sarif", SARIF)]
)
def test_a_document_has_the_documented_fields(
    name: str, schema: dict[str, Any], make: Callable[[], Verdict]
) -> None:
    text = render_format(name, make(), FormatInputs(rules=shipped_rules()))
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    errors = [
        f"{list(one.instance_path)}: {one.message}"
        for one in validator.iter_errors(json.loads(text))
    ]
    assert errors == []


@pytest.mark.parametrize("make", SAMPLES)
def test_parts_of_a_sarif_document_refer_to_each_other(make: Callable[[], Verdict]) -> None:
    run = json.loads(render_format("sarif", make(), FormatInputs()))["runs"][0]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(ids) == len(set(ids))
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        region = result["locations"][0]["physicalLocation"]["region"]
        assert region["startLine"] <= region["endLine"]


def test_what_gitlab_would_take_for_the_same_gets_a_fingerprint_of_its_own() -> None:
    twice = [Skipped(path="a.py", tool="ruff", why=why, gap=True) for why in ("late", "no parse")]
    given = verdict(findings=(finding(1), finding(2, fingerprint=f"{1:064x}")), skipped=(*twice,))
    entries = json.loads(render_format("gitlab", given, FormatInputs()))
    assert len({entry["fingerprint"] for entry in entries}) == 4
    assert entries[0]["fingerprint"] == f"{1:064x}"


def test_the_name_of_a_test_case_stays_when_findings_are_numbered_anew() -> None:
    def names(given: Verdict) -> list[str | None]:
        root = ET.fromstring(render_format("junit", given, FormatInputs()))
        return [case.get("name") for case in root.iter("testcase")]

    known = finding(1, fingerprint="77aa88bb99cc00dd")
    moved = finding(2, fingerprint="1234567890abcdef", first_fingerprint="77aa88bb99cc00dd")
    assert names(verdict(findings=(known,))) == ["ruff:S602 77aa88bb99cc"]
    grave = finding(1, severity="critical", fingerprint="eeff")
    assert names(verdict(findings=(grave, moved))) == ["ruff:S602 eeff", "ruff:S602 77aa88bb99cc"]


@pytest.mark.parametrize("make", SAMPLES)
def test_xml_has_the_attributes_that_its_readers_know(make: Callable[[], Verdict]) -> None:
    known = {
        # https://github.com/testmoapp/junitxml
        "testsuites": {"name", "tests", "failures", "errors", "skipped"},
        "testsuite": {"name", "tests", "failures", "errors", "skipped"},
        "testcase": {"classname", "name", "file", "line"},
        "failure": {"message", "type"},
        "error": {"message"},
        "skipped": {"message"},
    }
    for one in ET.fromstring(render_format("junit", make(), FormatInputs())).iter():
        assert set(one.attrib) <= known[one.tag]
    # https://checkstyle.org/
    known = {
        "checkstyle": {"version"},
        "file": {"name"},
        "error": {"line", "column", "severity", "message", "source"},
    }
    for one in ET.fromstring(render_format("checkstyle", make(), FormatInputs())).iter():
        assert set(one.attrib) <= known[one.tag]
        assert one.get("severity", "info") in {"error", "warning", "info"}
