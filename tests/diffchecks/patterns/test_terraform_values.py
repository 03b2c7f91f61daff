"""Values of Terraform that a local or a variable's default gives, in the file that uses them."""

from pathlib import Path

import pytest

from tests.diffchecks.patterns.test_pattern_files import look

GROUP = """
resource "aws_security_group" "a" {{
  ingress {{
    from_port   = 22
    cidr_blocks = {}
  }}
}}
"""
LOCALS = "locals {\n  all = VALUE # every address\n}\n"
VARIABLE = 'variable "all" {\n  type    = list(string)\n  default = VALUE\n}\n'
OPEN, OFFICE = '["0.0.0.0/0"]', '["192.0.2.0/24"]'


@pytest.mark.parametrize(("given", "name"), [(LOCALS, "local.all"), (VARIABLE, "var.all")])
def test_a_constant_is_read_where_it_is_used(tmp_path: Path, given: str, name: str) -> None:
    used = GROUP.format(name)
    files = {
        "bad.tf": given.replace("VALUE", OPEN) + used,
        "good.tf": given.replace("VALUE", OFFICE) + used,
        "other.tf": given.replace("VALUE", OPEN).replace("all =", "any =").replace('"all"', '"b"')
        + used,
    }
    reply = look(tmp_path, files)
    line = files["bad.tf"].split("\n").index(f"    cidr_blocks = {name}") + 1
    assert [(f.path, f.line, f.code) for f in reply.findings] == [
        ("bad.tf", line, "terraform-open-ports")
    ]
