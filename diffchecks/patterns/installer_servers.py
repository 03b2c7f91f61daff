"""From which servers a program is downloaded that is then run: those of well-known installers."""

import re
from typing import Final, Literal

Origin = Literal["remote", "foreign", "plain-http"]

_SERVER = re.compile(r"https://(?:[^\s/@]*@)?(?P<name>[\w.-]+)", re.IGNORECASE)
_LOCAL = re.compile(r"localhost|[\w.-]+\.(?:local|internal|localhost|lan|corp)|127(?:\.\d+){3}")
_DOMAINS: Final = frozenset(
    """
    github.com githubusercontent.com gitlab.com bitbucket.org codeberg.org npmjs.org unpkg.com
    jsdelivr.net pypi.org pythonhosted.org maven.org apache.org gradle.org packagecloud.io
    launchpad.net debian.org ubuntu.com gnu.org kernel.org sourceforge.net
    rustup.rs rust-lang.org python.org pypa.io python-poetry.org astral.sh pyenv.run
    anaconda.com nodesource.com nodejs.org pnpm.io yarnpkg.com bun.sh deno.land volta.sh
    golang.org go.dev rvm.io ruby-lang.org haskell.org haskellstack.org nixos.org
    determinate.systems sdkman.io adoptium.net getcomposer.org cpanmin.us llvm.org julialang.org
    elixir-lang.org dart.dev
    docker.com k8s.io kubernetes.io helm.sh k3s.io rancher.com hashicorp.com pulumi.com aka.ms
    microsoft.com google.com googleapis.com awscli.amazonaws.com amazon.com cloudflare.com
    fly.io heroku.com vercel.com netlify.com digitalocean.com oracle.com nvidia.com
    postgresql.org mongodb.org elastic.co confluent.io dot.net jetbrains.com apple.com brew.sh
    codecov.io coveralls.io codeclimate.com sonarsource.com semgrep.dev snyk.io trivy.dev
    datadoghq.com sentry.io circleci.com goreleaser.com taskfile.dev just.systems mise.run
    mise.jdx.dev tailscale.com ollama.com starship.rs git.io
    """.split()  # noqa: SIM905 - one word per domain
)
"""Of hosts of code and packages, languages, systems, clouds and tools of CI."""


def origin_of_download(command: str) -> Origin:
    """Where a command downloads from.

    Returns:
        ``plain-http``: without encryption. ``foreign``: from a named server that neither is known
        for installers nor is a local one. ``remote``: from any other, or from an unknown address.
    """
    if "http://" in command:
        return "plain-http"
    servers = [found["name"].lower().rstrip(".") for found in _SERVER.finditer(command)]
    return "foreign" if servers and not all(map(_is_known, servers)) else "remote"


def _is_known(server: str) -> bool:
    labels = server.split(".")
    domains = {".".join(labels[at:]) for at in range(len(labels))}
    return not _DOMAINS.isdisjoint(domains) or _LOCAL.fullmatch(server) is not None
