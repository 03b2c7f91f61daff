"""Patterns of Ruby and Elixir in templates of ERB and EEx."""

from pathlib import Path

import pytest

from tests.diffchecks.patterns.test_pattern_files import look

RAW = "raw params[:name]"
# What a template is -> where markup of a request is found in it.
READ = {
    f"<p>\n<%= {RAW} %>\n</p>\n": [2],
    f"<%== {RAW} -%>\n<%- {RAW} -%>": [1, 2],
    f"<% if a %>\n<b>\n<% else\n  b = {RAW} %>\n<% end %>": [4],
    f"<%= form_for(@a) do |f| %>\n  <%= f.text {RAW} %>\n<% end %>\n": [2],
    "<%= params[:name] %>\n<p>raw params[:name]</p>": [],
    f"<%# {RAW}\n %>\n<%%= {RAW} %>\n<%= f(1) %>": [],
    f"<%#\n\n%>\n\n<%% a %>\n<%= {RAW} %>": [6],
    "<p>no tag</p>": [],
}
UNREAD = {
    f"<p>\n<%= {RAW}": "one of its tags is not closed",
    "<p>\n<% if a %>\n<p/>\n": "its grammar cannot parse line",
}


@pytest.mark.parametrize("text", READ)
def test_what_stands_in_tags_is_read(tmp_path: Path, text: str) -> None:
    reply = look(tmp_path, {"a.html.erb": text})
    assert not reply.gaps
    found = [finding.line for finding in reply.findings if finding.code == "ruby-html"]
    assert found == READ[text]


@pytest.mark.parametrize("text", UNREAD)
def test_a_template_that_cannot_be_read_is_a_gap(tmp_path: Path, text: str) -> None:
    reply = look(tmp_path, {"a.erb": text})
    assert UNREAD[text] in reply.gaps["a.erb"]
    assert reply.examined == []


CMD = ':os.cmd(String.to_charlist(params["a"]))'


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.html.heex", f"<%= form_for @a, fn f -> %>\n  <%= {CMD} %>\n<% end %>\n", [2]),
        ("a.ex.eex", f"<%= if a do %>\nx <% {CMD} %>\n<% else %>y<% end %>\n", [2]),
        ("gitignore.eex", f"<%!-- {CMD} %>\n --%>\n<%# {CMD} %>\n*.ez\n", []),
    ],
)
def test_tags_of_elixir_are_read(tmp_path: Path, path: str, text: str, lines: list[int]) -> None:
    reply = look(tmp_path, {path: text})
    assert (reply.gaps, [finding.line for finding in reply.findings]) == ({}, lines)
