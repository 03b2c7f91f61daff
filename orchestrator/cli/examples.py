"""Two typical calls of each command and subcommand; its help ends with them."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "diffcourt": ("review", "review --help"),
    "diffcourt review": ("main..feature", "--worktree --fail-on block --json verdict.json"),
    "diffcourt resume": ("", "latest --answer 'The old format is still read'"),
    "diffcourt cancel": ("latest", "20261122-101500-4f2a --why 'Wrong branch'"),
    "diffcourt approve": ("", "latest 3fa9c1d2 --hours 2"),
    "diffcourt deny": ("", "latest 3fa9c1d2"),
    "diffcourt fix": ("", "latest F1 F3 --check"),
    "diffcourt rollback": ("latest", "latest 1/act/qa/turn1/tool1/fix --force src/app.py"),
    "diffcourt runs": ("--limit 5", "prune --keep 50"),
    "diffcourt runs prune": ("--older-than 30", "--keep 50 --dry-run"),
    "diffcourt runs export": ("latest ./run", "20261122-101500-4f2a ./run"),
    "diffcourt runs import": ("./run", "./run/journal.jsonl"),
    "diffcourt stats": (
        "--by rule --since 7d --csv rules.csv",
        "--check --prometheus diffcourt.prom",
    ),
    "diffcourt show": ("", "20261122-101500-4f2a --json"),
    "diffcourt waive": (
        "F3 --why 'Run by hand only.' --by security-team",
        "security.subprocess-shell --path 'tools/**' --why Safe",
    ),
    "diffcourt dismiss": (
        "F3 --reason 'The list is never empty.' --by dana",
        "F3 --scope path --until 2027-06-30 --reason 'Old parser.'",
    ),
    "diffcourt remember": ("--out memory.patch", "latest"),
    "diffcourt override": (
        "latest --reason 'The old client is gone on Monday.'",
        "latest --verdict block --reason 'Breaks an import.'",
    ),
    "diffcourt export": (
        "--to sarif=results.sarif",
        "verdict.json --to markdown --to junit=junit.xml",
    ),
    "diffcourt post": (
        "verdict.json --to github",
        "verdict.json --to gitlab --project group/shop --request 12",
    ),
    "diffcourt comment-command": ("--to github", "--to github --verdict verdict.json"),
    "diffcourt audit": ("verify latest --verdict verdict.json", "show latest"),
    "diffcourt audit verify": ("latest --verdict verdict.json", "latest --key audit.pub"),
    "diffcourt audit show": ("latest", "latest --json"),
    "diffcourt catalog": ("", "--rules"),
    "diffcourt label": ("items.jsonl --rater dana", "--runs --rater dana --next 20"),
    "diffcourt rubric": ("check rubrics/pr-review.yaml", "show pr-review"),
    "diffcourt rubric check": ("my-rubric.yaml", "rubrics/pr-review.yaml my-rubric.yaml"),
    "diffcourt rubric show": ("pr-review", "my-rubric.yaml"),
    "diffcourt rubric diff": ("pr-review my-rubric.yaml", "old.yaml new.yaml"),
    "diffcourt rubric new": (
        "items.jsonl --out my-rubric.yaml",
        "items.jsonl --scale 1:4 --out my-rubric.yaml",
    ),
    "diffcourt rubric import": (
        "rubric.json --from paperbench --out my-rubric.yaml",
        "tests.yaml --from promptfoo --out my-rubric.yaml --items items.jsonl",
    ),
    "diffcourt rubric export": (
        "my-rubric.yaml --to paperbench",
        "my-rubric.yaml --to deepeval --items items.jsonl",
    ),
    "diffcourt rubric score": ("pr-review items.jsonl", "pr-review --runs --json"),
    "diffcourt rubric compare": (
        "a.yaml b.yaml --items items.jsonl",
        "a.jsonl b.jsonl --rubric a.yaml --json -",
    ),
    "diffcourt rubric eval": (
        "pr-review items.jsonl --labels labels.jsonl",
        "pr-review items.jsonl --labels labels.jsonl --json result.json",
    ),
    "diffcourt rubric disagree": (
        "pr-review items.jsonl --labels labels.jsonl",
        "pr-review items.jsonl --labels labels.jsonl --all",
    ),
    "diffcourt rubric rate": (
        "pr-review items.jsonl --labels labels.jsonl",
        "pr-review items.jsonl --labels labels.jsonl --assume-random",
    ),
    "diffcourt rubric drift": (
        "pr-review items.jsonl --labels labels.jsonl --anchors anchors.json --freeze",
        "pr-review items.jsonl --labels labels.jsonl --anchors anchors.json",
    ),
    "diffcourt rubric tune": (
        "pr-review items.jsonl --labels labels.jsonl",
        "pr-review items.jsonl --labels labels.jsonl --report tuning.html",
    ),
    "diffcourt rubric gate": (
        "pr-review items.jsonl --labels labels.jsonl --baseline base.json --freeze",
        "pr-review items.jsonl --labels labels.jsonl --baseline base.json",
        "pr-review items.jsonl --labels labels.jsonl --baseline base.json --margin 0.1",
    ),
    "diffcourt schema": ("verdict", "verdict > verdict.schema.json"),
    "diffcourt mcp": ("list", "accept tickets"),
    "diffcourt mcp list": ("", "--repo ../service"),
    "diffcourt mcp accept": ("tickets", "tickets --repo ../service"),
    "diffcourt serve": ("", "--config service.yaml --port 9000"),
    "diffcourt work": ("", "--config service.yaml"),
    "diffcourt init": ("", "--ci github --comments yes"),
    "diffcourt doctor": ("", "--verbose --call"),
}
