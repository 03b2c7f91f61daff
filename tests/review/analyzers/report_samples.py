"""Reports in the shape that other analyzers write, each with one result at line 3 of one file."""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct


class Sample(Struct, frozen=True):
    """A report, the file that it is about, and the finding that it becomes."""

    path: str
    report: str
    rule: str
    severity: str
    category: str
    cwe: tuple[int, ...] = ()


def log(tool: Mapping[str, Any], result: Mapping[str, Any], **run: Any) -> str:
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    whole = {"tool": tool, "results": [result], "columnKind": "utf16CodeUnits", **run}
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [whole]})


def at(uri: str, **more: Any) -> list[dict[str, Any]]:
    region = {"startLine": 3, "startColumn": 1, "endColumn": 4}
    place = {"artifactLocation": {"uri": uri, **more}, "region": region}
    return [{"physicalLocation": place}]


CODEQL = log(
    {
        "driver": {"name": "CodeQL", "organization": "GitHub", "semanticVersion": "2.20.0"},
        "extensions": [
            {
                "name": "codeql/java-queries",
                "rules": [
                    {
                        "id": "java/path-injection",
                        "name": "java/path-injection",
                        "shortDescription": {"text": "Uncontrolled data used in path expression"},
                        "defaultConfiguration": {"enabled": True, "level": "error"},
                        "properties": {
                            "tags": ["security", "external/cwe/cwe-022"],
                            "security-severity": "7.5",
                            "precision": "high",
                        },
                    }
                ],
            }
        ],
    },
    {
        "ruleId": "java/path-injection",
        "rule": {"id": "java/path-injection", "index": 0, "toolComponent": {"index": 0}},
        "message": {"text": "This path depends on a [user-provided value](1)."},
        "locations": at("src/Shop.java", uriBaseId="%SRCROOT%", index=0),
        "partialFingerprints": {"primaryLocationLineHash": "39fa2ee980eb94b0:1"},
        "codeFlows": [{"threadFlows": [{"locations": [{"location": at("src/Shop.java")[0]}]}]}],
    },
    artifacts=[{"location": {"uri": "src/Shop.java", "uriBaseId": "%SRCROOT%", "index": 0}}],
)
TRIVY = log(
    {
        "driver": {
            "name": "Trivy",
            "version": "0.57.0",
            "rules": [
                {
                    "id": "AVD-AWS-0107",
                    "name": "Misconfiguration",
                    "shortDescription": {"text": "Security group allows ingress from anywhere"},
                    "defaultConfiguration": {"level": "error"},
                    "properties": {
                        "precision": "very-high",
                        "security-severity": "9.5",
                        "tags": ["misconfiguration", "security", "CRITICAL"],
                    },
                }
            ],
        }
    },
    {
        "ruleId": "AVD-AWS-0107",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": "Artifact: main.tf\nType: terraform\nSeverity: CRITICAL"},
        "locations": at("main.tf", uriBaseId="ROOTPATH"),
    },
    originalUriBaseIds={"ROOTPATH": {"uri": "file:///home/ci/work/shop/"}},
)
GOLANGCI = """<?xml version="1.0" encoding="UTF-8"?>

<checkstyle version="5.0">
  <file name="shop/pay.go">
    <error column="12" line="3" message="Error return value is not checked" severity="error" source="errcheck"></error>
  </file>
</checkstyle>
"""
CLIPPY = log(
    {
        "driver": {
            "name": "clippy",
            "informationUri": "https://rust-lang.github.io/rust-clippy/",
            "rules": [
                {
                    "id": "clippy::needless_return",
                    "fullDescription": {"text": "for further information visit the lint list"},
                }
            ],
        }
    },
    {
        "ruleId": "clippy::needless_return",
        "ruleIndex": 0,
        "level": "warning",
        "message": {"text": "unneeded `return` statement"},
        "locations": at("src/lib.rs"),
    },
)
PHPSTAN = """<?xml version="1.0" encoding="UTF-8"?>
<checkstyle>
<file name="src/Shop.php">
  <error line="3" column="1" severity="error" message="Call to an undefined method Shop::pay()." source="method.notFound" />
</file>
</checkstyle>
"""
SAMPLES: Mapping[str, Sample] = {
    "codeql": Sample(
        "src/Shop.java", CODEQL, "import.codeql.java-path-injection", "high", "security", (22,)
    ),
    "trivy": Sample("main.tf", TRIVY, "import.trivy.avd-aws-0107", "critical", "security"),
    "golangci-lint": Sample("shop/pay.go", GOLANGCI, "import.checkstyle.errcheck", "medium", "qa"),
    "clippy": Sample("src/lib.rs", CLIPPY, "import.clippy.clippy-needless-return", "low", "qa"),
    "phpstan": Sample("src/Shop.php", PHPSTAN, "import.checkstyle.method-notfound", "medium", "qa"),
}
