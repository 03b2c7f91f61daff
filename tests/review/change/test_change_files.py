"""Every kind of changed file: its status, its kind, its lines, and why it is skipped."""

import gzip
import io
import lzma
import os
import tarfile
import zipfile

import pytest

from diffchecks.check_io import decode_text
from diffchecks.path_kinds import path_kinds
from orchestrator.code_review.change.change_construction import from_refs
from orchestrator.code_review.change.changed_files import MAX_VENDORED_READ
from orchestrator.code_review.change.contents import Contents
from orchestrator.errors import InputError
from tests.review.change.conftest import new_blob


@pytest.fixture
def anyio_backend():
    """One event loop: this is about what git is asked and says; the other files run on both."""
    return "asyncio"


@pytest.fixture
def review(repo):
    """Commit one state, then another; give the changed files by path."""

    async def run(before, after=None, alter=None):
        repo.commit({"unchanged": "x\n", **before})
        if alter:
            alter()
        repo.commit(after or {})
        change = await from_refs(repo.root, None, None)
        return {file.path: file for file in change.files}

    return run


async def test_lines_of_every_sort_of_edit(review):
    before = "".join(f"line {n}\n" for n in range(1, 21))
    after = before.replace("line 3\n", "").replace("line 10\n", "ten\nten and a half\n") + "end"
    files = await review(
        {
            "m.txt": before,
            "gone.txt": "1\n2\n3",
            "empty.txt": "",
            "fill.txt": "",
            "drain.txt": "x\n",
        },
        {"m.txt": after, "new.txt": "1\n2", "fill.txt": "a\n", "drain.txt": "", "nothing.txt": ""},
    )
    assert files["m.txt"].removed == (3, 10)
    assert files["m.txt"].added == (9, 10, 21)
    assert (files["new.txt"].status, files["new.txt"].added) == ("added", (1, 2))
    assert files["new.txt"].old_path is files["new.txt"].old_blob is None
    assert (files["fill.txt"].added, files["fill.txt"].removed) == ((1,), ())
    assert (files["drain.txt"].added, files["drain.txt"].removed) == ((), (1,))
    assert (files["nothing.txt"].added, files["nothing.txt"].skip) == ((), None)
    assert files["m.txt"].size == len(after)


async def test_a_deleted_file(review, repo):
    files = await review({"gone.py": "1\n2\n3"}, alter=(repo.root / "gone.py").unlink)
    gone = files["gone.py"]
    assert (gone.status, gone.removed, gone.added) == ("deleted", (1, 2, 3), ())
    assert (gone.path, gone.old_path, gone.new_blob, gone.new_mode) == (
        "gone.py", "gone.py", None, None,
    )  # fmt: skip


async def test_only_the_line_end_at_the_end_of_the_file(review):
    files = await review({"a": "1\n2", "b": "1\n2\n"}, {"a": "1\n2\n", "b": "1\n2"})
    assert (files["a"].added, files["a"].removed) == ((2,), (2,))
    assert (files["b"].added, files["b"].removed) == ((2,), (2,))


async def test_contents_that_look_like_a_diff(review):
    text = "diff --git a/x b/x\nindex 1234567..89abcde\n@@ -1,5 +1,9 @@\n--- a/x\n+++ b/x\n"
    files = await review(
        {"p.diff": text, "q": "\n\n"}, {"p.diff": text * 2, "q": "\n@@ -1 +1 @@\n"}
    )
    assert files["p.diff"].added == (6, 7, 8, 9, 10)
    assert files["q"].added == (2,)


async def test_renames_with_and_without_edits(review, repo):
    text = "".join(f"line {n}\n" for n in range(30))

    def move():
        (repo.root / "dir").mkdir()
        (repo.root / "a.py").rename(repo.root / "dir" / "a.py")
        (repo.root / "b.py").rename(repo.root / "c.py")

    files = await review({"a.py": text, "b.py": text[10:]}, {"c.py": text[10:] + "new\n"}, move)
    pure, edited = files["dir/a.py"], files["c.py"]
    assert (pure.status, pure.old_path, pure.added, pure.skip) == ("renamed", "a.py", (), None)
    assert (edited.status, edited.old_path) == ("renamed", "b.py")
    assert len(edited.added) == 1
    assert set(files) == {"dir/a.py", "c.py"}


async def test_modes_and_types(review, repo):
    def alter():
        (repo.root / "run.sh").chmod(0o755)
        (repo.root / "both.sh").chmod(0o755)
        for name in ("to_link", "from_link"):
            (repo.root / name).unlink()
        (repo.root / "to_link").symlink_to("elsewhere\nodd")
        (repo.root / "new_link").symlink_to("/etc/passwd")

    repo.root.joinpath("from_link").symlink_to("x")
    repo.commit()
    files = await review(
        {"run.sh": "x\n", "both.sh": "x\n", "to_link": "1\n2\n"},
        {"from_link": "1\n2\n", "both.sh": "y\n"},
        alter,
    )
    mode = files["run.sh"]
    assert (mode.status, mode.old_mode, mode.new_mode) == ("mode", "100644", "100755")
    assert (mode.added, mode.removed, mode.skip) == ((), (), None)
    assert (files["both.sh"].status, files["both.sh"].added) == ("modified", (1,))
    to_link = files["to_link"]
    assert (to_link.status, to_link.kind, to_link.removed, to_link.added) == (
        "type", "symlink", (1, 2), (),
    )  # fmt: skip
    assert to_link.skip == "symbolic link to elsewhere\\nodd"
    outside = "symbolic link to /etc/passwd, outside of the repository's files"
    assert (files["new_link"].skip, files["new_link"].gap) == (outside, True)
    back = files["from_link"]
    assert (back.status, back.kind, back.added, back.removed, back.skip) == (
        "type", "text", (1, 2), (), None,
    )  # fmt: skip


async def test_submodules(repo, make_repo, tmp_path):
    inner = make_repo(tmp_path / "inner")
    first = inner.commit({"f": "1\n"})
    second = inner.commit({"f": "2\n"})
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{first},lib")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{first},gone")
    repo.git("commit", "-qm", "x")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{second},lib")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{second},new")
    repo.git("update-index", "--force-remove", "gone")
    repo.git("commit", "-qm", "x")
    change = await from_refs(repo.root, None, None)
    files = {file.path: file for file in change.files}
    assert {file.kind for file in change.files} == {"submodule"}
    assert files["lib"].skip == f"submodule {first[:12]}..{second[:12]}"
    assert files["lib"].old_blob == first
    assert files["new"].skip == f"submodule ..{second[:12]}"
    assert files["gone"].skip == f"submodule {first[:12]}.."


ODD_NAMES = [
    b"with space.py",
    b'quo"te.py',
    b"apo'strophe.py",
    b"new\nline.py",
    b"tab\tname.py",
    b"back\\slash.py",
    "ünïcödé-文.py".encode(),
    b"latin-\xe9.py",
    b"-dash.py",
    b":(glob)*.py",
    b"trailing .py",
    b"\x01control.py",
    b"=>.py",
    b"carriage\rreturn.py",
]


async def test_names_of_every_sort(repo, tmp_path):
    for name in ODD_NAMES:
        repo.write(name, "a\nb\n")
    repo.commit({".gitattributes": "*.py text\n", "d\nir/x.py": "1\n"})
    for name in ODD_NAMES:
        repo.write(name, b"a\n" + name.replace(b"\n", b"") + b"\nb\n")
    repo.commit({"d\nir/x.py": "2\n"})
    change = await from_refs(repo.root, None, None)
    files = {os.fsencode(file.path): file for file in change.files}
    assert set(files) == {*ODD_NAMES, b"d\nir/x.py"}
    for name in ODD_NAMES:
        assert (files[name].added, files[name].removed, files[name].skip) == ((2,), (), None)
    async with Contents(change) as contents:
        entries = {file.path: new_blob(file) for file in change.files}
        assert await contents.export("head", entries, tmp_path / "out") == {}
    for name in ODD_NAMES:
        written = (tmp_path / "out" / os.fsdecode(name)).read_bytes()
        assert written == b"a\n" + name.replace(b"\n", b"") + b"\nb\n"


async def test_line_ends_and_encodings(review):
    files = await review(
        {"crlf.py": b"a\r\nb\r\n", "cr.txt": b"a\rb\rc\n", "latin.py": b"# caf\xe9\n"},
        {"crlf.py": b"a\r\nx\r\nb\r\n", "cr.txt": b"a\rb\rd\n", "latin.py": b"# caf\xe9!\n"},
    )
    assert files["crlf.py"].added == (2,)
    assert files["cr.txt"].added == (1,)
    assert (files["latin.py"].kind, files["latin.py"].added) == ("text", (1,))


async def test_binary_files(review):
    zero = b"data\0\0\1" * 50
    files = await review(
        {"b.bin": zero, "was_text.py": "a = 1\n", "was_binary.py": zero, "was_empty.ico": ""},
        {
            "b.bin": zero + b"\1",
            "was_text.py": b"a = 1\n\0",
            "was_binary.py": "a = 1\nb = 2\n",
            "was_empty.ico": b"\x89PNG\r\n\x1a\n\0\0",
            "new.png": b"\x89PNG\r\n\x1a\n\0\0",
            "hook": b"#!/bin/sh\n#\0\nrm -rf $1/*\n",
            "new.js": b"//\0\neval(location.hash)\n",
            "noise": bytes(range(1, 9)) * 100 + b"\xff\xfe\xfd",
            "wide.ps1": "Write-Host 上\n".encode("utf-16"),
            "tests/wide.jpg": "no image 上\n".encode("utf-16"),
            "wide.jpg": "no image 上\n".encode("utf-16"),
            "late.py": b"#" * 8100 + b"\0\n",
            "controls.py": "# \x01\x02\x03\x04\x05\x06\na = 1\n",
            **{f"stray.{suffix}": b"a`\0`\n" + b"#" * 1000 for suffix in ("ts", "sh", "html", "c")},
        },
    )
    assert (files["b.bin"].kind, files["b.bin"].skip) == ("binary", "binary")
    assert files["b.bin"].added == ()
    assert files["was_text.py"].skip == "binary, although it was text in base"
    gaps = {path for path, file in files.items() if file.gap}
    stray = {"stray.sh", "stray.html", "stray.c"}
    assert gaps == {"was_text.py", "wide.ps1", "wide.jpg", "hook", "new.js", *stray}
    assert (files["stray.ts"].kind, files["stray.ts"].added) == ("text", (1, 2))
    assert files["was_text.py"].removed == (1,)
    assert (files["was_binary.py"].kind, files["was_binary.py"].added) == ("text", (1, 2))
    assert files["noise"].skip == "binary"
    for path in ("new.png", "was_empty.ico"):
        assert (files[path].kind, files[path].gap) == ("media", False)
    assert files["wide.ps1"].skip.startswith("binary: UTF-16 text")
    assert files["late.py"].kind == "text"
    assert (files["controls.py"].kind, files["controls.py"].skip) == ("text", None)


async def test_compiled_programs_are_a_gap_where_they_are_no_test_data(review):
    programs = {
        "ext.so": b"\x7fELF\0",
        "tool": b"MZ\0\0",
        "mac": b"\xcf\xfa\xed\xfe\0",
        "old.pyc": b"\xa7\r\r\n\0",
        "lib/a.jar": b"PK\3\4\0",
        "web/a.wasm": b"\0asm\1\0",
    }
    data = {
        "tests/data/a.so": b"\x7fELF\0",
        "a.bin": b"PK\1\2\0",
        "cat.png": b"\x89PNG\r\n\x1a\n\0",
    }
    files = await review({"old.pyc": b"\xa6\r\r\n\0"}, programs | data)
    assert {path for path, file in files.items() if file.gap} == set(programs)
    assert "a compiled program" in files["ext.so"].skip


async def test_archives_are_a_gap_where_they_are_no_test_data(review):
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("run.sh"))
    archives = {
        "a.zip": b"PK\3\4\0",
        "renamed.dat": b"PK\3\4\0",
        "model": gzip.compress(b"x"),
        "a.xz": lzma.compress(b"x"),
        "sources": tar.getvalue(),
        "by-name.tar": b"\0\1",
    }
    data = {
        "tests/a.zip": b"PK\3\4\0",
        "examples/a.tgz": gzip.compress(b"x"),
        "letter.docx": b"PK\3\4\0",
        "drawing.vsdx": b"PK\3\4\0",
        "cities.csv.gz": gzip.compress(b"x"),
        "blob": b"\0\1",
    }
    files = await review({}, archives | data)
    assert {path for path, file in files.items() if file.gap} == set(archives)
    assert {file.skip for file in files.values() if file.gap} == {
        "binary: an archive, which the analyzers cannot read"
    }


def zipped(*names):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    return packed.getvalue()


async def test_archives_that_hold_only_data_are_notes(review):
    pack, script, data = zipped("a/b.json", "c.png", "LICENSE"), b"f()\n" * 9, b"\n\0\0blocks\0"
    nested = zipped("a.json")
    hidden = nested.replace(b"a.json", b"a.java", 1)
    tar = b"a".ljust(257, b"\0") + b"ustar\0"
    notes = {
        "world.nbt": gzip.compress(data),
        "model.bin.gz": gzip.compress(data),
        "look.pack": pack,
        "look.zip": pack,
        "dist/a.js.gz": gzip.compress(script),
    }
    gaps = {
        "elf.nbt": gzip.compress(b"\x7fELF\0"),
        "tar.nbt": gzip.compress(tar),
        "script.nbt": gzip.compress(b"#!/bin/sh\n\0"),
        "text.nbt": gzip.compress(b"rm -r a\n"),
        "twice.nbt": gzip.compress(gzip.compress(data)),
        "two.nbt": gzip.compress(b"\0") + gzip.compress(data),
        "cut.zip": pack[:20],
        "code.pack": zipped("a.json", "a/b.class"),
        "node.pack": zipped("a/package.json"),
        "hidden.pack": hidden,
        "behind.pack": b"7z\xbc\xaf\x27\x1c" + pack,
        "within.pack": nested.ljust(257, b"\0") + b"ustar\0",
        "long.pack": zipped(f"{'a' * 300}.json"),
        "other.js.gz": gzip.compress(script),
        "dist/b.js.gz": gzip.compress(script + b"g()\n"),
        "dist/c.js.gz": gzip.compress(script) + gzip.compress(b"g()\n"),
    }
    beside = dict.fromkeys(["dist/a.js", "dist/b.js", "dist/c.js", "js.gz"], script)
    files = await review({}, notes | gaps | beside)
    assert {path for path, file in files.items() if file.gap} == set(gaps)


async def test_changes_of_mode_are_notes(repo):
    names = ["a.sh", "b.sh", "c.sh", "d.sh", "e\x1b.sh"]
    repo.commit(dict.fromkeys([*names, "same.sh"], "x\n"))
    (repo.root / "d.sh").chmod(0o755)
    repo.commit({"same.sh": "y\n"})
    assert (await from_refs(repo.root, None, None)).notes[1:] == ("d.sh is executable now",)
    for name in names:
        (repo.root / name).chmod(0o644 if name == "d.sh" else 0o755)
    repo.commit()
    assert (await from_refs(repo.root, None, None)).notes[1:] == (
        "a.sh, b.sh, c.sh and 1 more are executable now",
        "d.sh is not executable any more",
    )


async def test_links_that_hide_what_is_read_through_them_are_gaps(review, repo):
    links = {
        "up": "../..",
        "conf": ".git/config",
        "sub/out": "../../x",
        "app.py": "notes.txt",
        "long": "a/" * 140 + "b",
        "Containerfile": "docker/setup.txt",
    }
    harmless = {"sub/in": "../README.md", "b.py": "sub/b.py", "README.md": "sub/README"}
    harmless["Dockerfile"] = "docker/Dockerfile.debian"

    def link():
        repo.root.joinpath("README.md").unlink()
        repo.root.joinpath("app.py").unlink()
        repo.root.joinpath("sub").mkdir()
        for path, target in (links | harmless).items():
            repo.root.joinpath(path).symlink_to(target)
        repo.root.joinpath("kept").rename(repo.root / "renamed")

    repo.root.joinpath("kept").symlink_to("/etc/hosts")
    repo.commit()
    files = await review({"app.py": "a = 1\n", "README.md": "# A\n"}, {}, link)
    assert {path for path, file in files.items() if file.gap} == set(links)
    assert files["app.py"].skip.endswith("although its name says that it is source")


async def test_a_pointer_of_git_lfs_is_a_gap_where_source_stood(review):
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n"
    texts = {
        "run.sh": pointer,
        "model.bin": pointer,
        "about.md": pointer + "echo\n",
        "a.png": pointer,
    }
    files = await review({"run.sh": "echo\n"}, texts)
    assert {path for path, file in files.items() if file.gap} == {"run.sh"}
    assert files["model.bin"].skip.startswith("a Git LFS pointer")
    assert (files["about.md"].kind, files["a.png"].kind) == ("text", "media")


async def test_a_translation_of_qt_is_no_typescript(review):
    text = '<?xml version="1.0"?>\n<!DOCTYPE TS>\n<TS version="2.1">{}</TS>\n'
    files = await review(
        {"a.ts": text.format(""), "b.ts": "f()\n"},
        {"a.ts": text.format("<context/>"), "b.ts": f"f()\n{text}"},
    )
    assert [files[name].kind for name in ("a.ts", "b.ts")] == ["media", "text"]


async def test_lock_files_keep_their_line_numbers(review):
    before = "".join(f"package-{n} 1.0 sha256:{n:064x}\n" for n in range(30_000))
    after = before.replace(" 1.0 ", " 2.0 ", 100)
    binary = "#!/usr/bin/env bun\nbun-lockfile\0\0"
    head = {"poetry.lock": after, "sub/go.sum": "x\n", "bun.lockb": binary, "bun": binary}
    files = await review({"poetry.lock": before}, head)
    assert files["poetry.lock"].skip == files["sub/go.sum"].skip == "lock file"
    assert (files["bun.lockb"].skip, files["bun.lockb"].gap) == ("lock file", False)
    assert files["bun"].gap
    assert files["poetry.lock"].added == tuple(range(1, 101))
    for name in ("package-lock.json", "uv.lock", "Cargo.lock", "yarn.lock"):
        assert "lock_files" in path_kinds(name)


async def test_generated_counts_only_when_base_says_so(review, repo):
    header = "# Code generated by protoc. DO NOT EDIT.\n"
    long_line = "x" * 600 + "\n"
    files = await review(
        {
            ".gitattributes": "*.gen.py linguist-generated\nhand_*.py -linguist-generated\n",
            "sub/.gitattributes": "special.py linguist-generated=true\n",
            "pb.py": header + "a = 1\n",
            "late.py": "a\n" * 20 + header,
            "hand_pb.py": header,
            "claims.py": "a = 1\n",
            "x.gen.py": "a\n",
            "sub/special.py": "a\n",
            "old.min.js": long_line,
            "js/a-1.2.0/a.min.js": "".join(map(str, range(1000, 1200))),
            "js/b-1.2.0/b.min.js": "plain()\n",
            "js/c-Ab3dEf9h.js": "".join(map(str, range(2000, 2200))),
            "js/d-AbcdEfgh.js": "".join(map(str, range(4000, 4200))),
            "www/pure-3.4.1.js": "f();" * 1_600,
            "www/long-3.4.1.js": "f();\n" * 30 + "g();" * 900,
            "www/main.js": "f();" * 900,
            "www/one.js": "f();\n" * 30 + "g();" * 900,
        },
        {
            ".gitattributes": "*.py linguist-generated\n",
            "pb.py": header + "a = 2\n",
            "late.py": "a\n" * 20 + header + "b\n",
            "hand_pb.py": header + "b\n",
            "claims.py": "# @generated\na = 1\nimport evil\n",
            "new_pb.py": header,
            "x.gen.py": "b\n",
            "sub/special.py": "b\n",
            "lib.min.js": long_line,
            "lib.min.css": long_line,
            "old.min.js": "y" + long_line,
            "fake.min.js": "eval(1)\n",
            "app-RHi6nJFu.js": long_line,
            "app.3f2a1b9c.chunk.js": long_line,
            "app-settings.js": long_line,
            "js/a-1.10.3/a.min.js": "".join(map(str, range(300))),
            "js/b-1.10.3/b.min.js": "".join(map(str, range(300))),
            "js/c-Xy7_wV2k.js": "".join(map(str, range(300))),
            "js/d-XyzwVkQ_.js": "".join(map(str, range(400))),
            "js/e-MyWidget.js": "".join(map(str, range(500))),
            "www/pure-3.4.12.js": "h();" * 1_500,
            "www/long-3.4.12.js": "h();" * 1_500,
            "www/main.js": "h();" * 900,
            "www/new.js": "h();" * 900,
            "www/packed.js": "h();" * 1_500,
            "www/packed.css": "h{}" * 2_000,
            "www/one.js": "f();\n" * 30 + "h();" * 900,
        },
        lambda: repo.git("rm", "-rq", "js", "www"),
    )
    assert files["pb.py"].skip == "generated: its header says so, in base as well"
    assert files["x.gen.py"].skip == "generated: so marked in .gitattributes of base"
    assert files["sub/special.py"].skip == "generated: so marked in .gitattributes of base"
    minified = {path: file.gap for path, file in files.items() if "minified" in (file.skip or "")}
    bundles = {"app-RHi6nJFu.js": True, "app.3f2a1b9c.chunk.js": True, "js/c-Xy7_wV2k.js": False}
    bundles |= {"js/a-1.10.3/a.min.js": False, "js/b-1.10.3/b.min.js": True}
    bundles |= {"js/c-Ab3dEf9h.js": False}  # deleted
    bundles |= {"js/d-AbcdEfgh.js": False, "js/d-XyzwVkQ_.js": False}  # deleted, and built again
    bundles |= {"www/main.js": False, "www/packed.js": True, "lib.min.css": False}
    bundles |= {"www/pure-3.4.1.js": False, "www/pure-3.4.12.js": False}
    bundles |= {"www/long-3.4.12.js": True}
    assert minified == {"lib.min.js": True, "old.min.js": False, **bundles}
    assert (files["js/a-1.2.0/a.min.js"].skip or "").startswith("vendored: js/a-1.2.0/")
    for name in (
        "claims.py",
        "new_pb.py",
        "late.py",
        "hand_pb.py",
        "fake.min.js",
        "app-settings.js",
        ".gitattributes",
    ):
        assert files[name].skip is None, name


async def test_vendored_counts_only_if_it_existed_in_base(review):
    files = await review(
        {"vendor/a.go": "a\n", "web/node_modules/x/i.js": "a\n", "third_party": "a file\n"},
        {
            "vendor/b.go": "b\n",
            "web/node_modules/x/i.js": "b\n",
            "node_modules/y/i.js": "b\n",
            "src/vendor/z.go": "b\n",
            "vendor.py": "b\n",
        },
    )
    assert files["vendor/b.go"].skip == "vendored: vendor/ existed in base as well"
    assert files["web/node_modules/x/i.js"].skip.startswith("vendored: web/node_modules/")
    for name in ("node_modules/y/i.js", "src/vendor/z.go", "vendor.py"):
        assert files[name].skip is None, name


async def test_the_build_of_a_library_beside_those_of_base_is_others_code(review):
    banner = "/*!\n * Name.js v2.7.1\n * (c) 2014 A\n * Released under the MIT License.\n */\n"
    files = await review(
        {"web/dist/old.js": "a\n"},
        {
            "web/dist/name.js": f"{banner}f();\n",
            "web/dist/own.js": "/*! no version, (c) A */\nf();\n",
            "web/dist/later.js": f"f();\n{banner}",
            "web/src/name.js": f"{banner}f();\n",
            "dist/name.js": f"{banner}f();\n",
        },
    )
    assert files.pop("web/dist/name.js").skip == "vendored: web/dist/ existed in base as well"
    assert {file.skip for file in files.values()} == {None}


async def test_vendored_files_without_others_are_what_the_change_is_about(review):
    files = await review({"vendor/a.go": "a\n", "vendor/b.go": "b\n"}, {"vendor/a.go": "c\n"})
    assert files["vendor/a.go"].skip is None
    many = {f"vendor/{number}.go": "b\n" for number in range(MAX_VENDORED_READ + 1)}
    files = await review({}, many)
    assert {file.skip for file in files.values()} == {"vendored: vendor/ existed in base as well"}


async def test_a_generated_file_of_10_mb(review, tmp_path):
    line = b'{"key": "0123456789012345678901234567890123456789"},\n'
    big = line * (10_000_000 // len(line))
    files = await review(
        {"grown.json": b"{}\n", "shrunk.json": big}, {"grown.json": big, "shrunk.json": b"{}\n"}
    )
    grown = files["grown.json"]
    assert grown.skip == "too large: 10.0 MB, and files above 5.2 MB are not read"
    assert (grown.kind, grown.added, grown.removed) == ("text", (), (1,))
    assert grown.size == len(big)
    assert (files["shrunk.json"].skip, files["shrunk.json"].added) == (None, (1,))


async def test_750_files_are_all_taken_in(repo):
    lines = [f"value_{n} = {n}\n" for n in range(200)]
    for n in range(750):
        repo.write(f"pkg{n % 25}/mod_{n}.py", f"# {n}\n" + "".join(lines))
    repo.commit()
    lines[7] = "changed = True\n"
    for n in range(750):
        repo.write(f"pkg{n % 25}/mod_{n}.py", f"# {n}\n" + "".join(lines))
    repo.commit()
    change = await from_refs(repo.root, None, None)
    assert len(change.files) == 750
    assert {file.added for file in change.files} == {(9,)}


async def test_more_renames_than_git_cares_to_match(repo):
    for n in range(450):
        repo.write(f"old/{n}.py", f"# {n}\n" + f"x = {n}\n" * 20)
    repo.commit()
    for n in range(450):
        (repo.root / f"old/{n}.py").unlink()
        repo.write(f"new/moved_{n}.py", f"# {n}\n" + f"x = {n}\n" * 20 + "y\n")
    repo.commit()
    change = await from_refs(repo.root, None, None)
    assert len(change.files) == 900
    assert {file.status for file in change.files} == {"added", "deleted"}


async def test_a_blob_that_is_missing_is_one_clear_line(repo):
    repo.commit({"a": "a\n"})
    repo.commit({"a": "b\n"})
    blob = repo.oid("HEAD:a")
    path = repo.root / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o600)
    path.unlink()
    with pytest.raises(InputError, match="not in this clone; fetch it in full"):
        await from_refs(repo.root, None, None)


def test_text_of_a_file():
    assert decode_text(b"a\r\nb\xe9") == "a\r\nb\udce9"
    assert decode_text("\ufeffü".encode()) == "ü"
    assert decode_text("ü\n".encode("utf-16")) == "ü\n"
    assert decode_text(b"\xfe\xff\x00a") == "a"
