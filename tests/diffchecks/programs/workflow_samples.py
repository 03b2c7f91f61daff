"""For each of zizmor's audits that are on: a file with the defect, and one without."""

CI = ".github/workflows/ci.yml"
DEPENDABOT = ".github/dependabot.yml"


def _steps(steps: str, on: str = "push", more: str = "", job: str = "") -> str:
    return (
        f"on: {on}\npermissions: {{}}\n{more}jobs:\n  a:\n    runs-on: ubuntu-latest\n{job}"
        f"    steps:\n{steps}"
    )


_RUN = "      - run: make\n"
_CHECKOUT = "      - uses: actions/checkout@0b1c2d3e4f5061728394a5b6c7d8e9f001122334\n"
_ENV = "      - run: make\n        env:\n          A: {}\n"
_OWN = (
    "    if: {} == 'a[bot]' && github.event.pull_request.head.repo.full_name == github.repository\n"
)
_NOT_BOT = "        if: ${{ !(github.actor == 'a[bot]' && startsWith(github.ref, 'b')) }}\n"
_HEAD = "        with:\n          ref: ${{ github.event.pull_request.head.sha }}\n"
_CONTAINER = (
    "    container:\n      image: app:1\n      credentials:\n        username: me\n"
    "        password: {}\n"
)
_UPDATES = (
    "version: 2\nupdates:\n  - package-ecosystem: bundler\n    directory: /\n"
    "    schedule: {{interval: weekly}}\n    insecure-external-code-execution: {}\n"
)

# audit → (path, bad, good)
SAMPLES: dict[str, tuple[str, str, str]] = {
    "template-injection": (
        CI,
        _steps(
            "      - run: 'echo \"a\" ${{ github.event.pull_request.title || ''b'' }}'  # c\n",
            "pull_request_target",
        ),
        _steps(
            "      - run: 'make ${{ inputs.dry && ''-n'' || '''' }}'\n"
            "      - run: git fetch origin ${{ github.event.pull_request.base.ref }}\n",
            "pull_request_target",
        ),
    ),
    "dangerous-triggers": (
        CI,
        _steps(_CHECKOUT + _HEAD + _RUN, "pull_request_target"),
        _steps("      - run: gh pr edit --add-label new\n", "pull_request_target"),
    ),
    "bot-conditions": (
        CI,
        _steps(_RUN, "pull_request_target", job="    if: github.actor == 'dependabot[bot]'\n"),
        _steps(_RUN + _NOT_BOT, "pull_request_target", job=_OWN.format("github.actor")),
    ),
    "insecure-commands": (
        CI,
        _steps(_RUN, more="env:\n  ACTIONS_ALLOW_UNSECURE_COMMANDS: true\n"),
        _steps(_RUN, more="env:\n  OTHER: true\n"),
    ),
    "hardcoded-container-credentials": (
        CI,
        _steps(_RUN, job=_CONTAINER.format("hunter2")),
        _steps(_RUN, job=_CONTAINER.format("${{ secrets.REGISTRY }}")),
    ),
    "overprovisioned-secrets": (
        CI,
        _steps(_ENV.format("${{ toJSON(secrets) }}")),
        _steps(_ENV.format("${{ secrets.A }}")),
    ),
    "unredacted-secrets": (
        CI,
        _steps(_ENV.format("${{ fromJSON(secrets.A).password }}")),
        _steps(_ENV.format("${{ secrets.A }}")),
    ),
    "unpinned-images": (
        CI,
        _steps(_RUN, job="    container:\n      image: app:latest\n"),
        _steps(_RUN, job="    container:\n      image: app:1.2\n"),
    ),
    "excessive-permissions": (
        CI,
        _steps(_RUN, job="    permissions: write-all\n"),
        _steps(_RUN, job="    permissions:\n      contents: write\n"),
    ),
    "unsound-condition": (
        CI,
        _steps(_RUN, job="    if: |\n      ${{ github.ref == 'refs/heads/main' }}\n"),
        _steps(_RUN, job="    if: ${{ github.ref == 'refs/heads/main' }}\n"),
    ),
    "unsound-contains": (
        CI,
        _steps(_RUN, job="    if: contains('refs/heads/main refs/heads/next', github.ref)\n"),
        _steps(_RUN, job="    if: contains(fromJSON('[\"refs/heads/main\"]'), github.ref)\n"),
    ),
    "archived-uses": (
        CI,
        _steps("      - uses: actions/upload-release-asset@v1\n"),
        _steps("      - uses: actions/upload-artifact@v4\n"),
    ),
    "unpinned-uses": (
        CI,
        _steps("      - uses: owner/action@main\n"),
        _steps("      - uses: owner/action@v4\n"),
    ),
    "dependabot-execution": (DEPENDABOT, _UPDATES.format("allow"), _UPDATES.format("deny")),
}
