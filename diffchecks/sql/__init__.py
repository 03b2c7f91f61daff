"""Hazards and bugs in SQL of any dialect: migrations, routines and scripts."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from diffchecks.check_io import CheckReply, RawFinding, Source, check_files
from diffchecks.data_files import read_names, read_patterns, read_yaml
from diffchecks.jobs import SideJob
from diffchecks.sql.dynamic_statements import find_dynamic_statements
from diffchecks.sql.tokens import Token, read_tokens

Tokens = Sequence[Token]
_CONDITIONS = frozenset(["WHERE", "AND", "OR", "ON", "WHEN", "HAVING", "NOT", "IF", "ELSIF"])
_STARTS = frozenset([";", "BEGIN", "THEN", "ELSE", "LOOP", "DO", "GO", "AS", "IS"])
_FILLED = read_names("filled")
_FIXED = frozenset(["TRUE", "FALSE", "NULL"])
_GRANTABLE = frozenset(["USAGE", "CONNECT", "EXECUTE", "SELECT", "TEMP", "TEMPORARY"])
_MAX_TOKENS = 1000  # maximum tokens per statement, so that a file takes linear time
_LIMITED = frozenset(["WHERE", "JOIN", "USING", "LIMIT", "TOP", "OUTPUT"])
_PATTERNS = read_patterns("sql")
_WEAK = frozenset(["MD5", "SHA1", "SHA"])


def run(job: SideJob) -> CheckReply:
    """Check SQL files (see ``check_io`` for the format of jobs and replies)."""
    return check_files(job, _look)


def _look(source: Source) -> Iterator[RawFinding]:
    tokens = read_tokens(source.text)
    undone = _PATTERNS["undone"].search(source.path.lower()) is not None
    messages = read_yaml("sql_messages.yaml")
    for code, find in _RULES.items():
        if undone and code in _DELETIONS:
            continue
        for token in find(tokens):
            yield RawFinding(code, source.path, token.line, messages[code])


def _values(tokens: Tokens, first: int, count: int) -> list[str]:
    return [token.value for token in tokens[first : first + count] if token.kind != "text"]


def _statement(tokens: Tokens, at: int) -> Tokens:
    """The rest of the statement that contains a token, including a quoted body."""
    body = tokens[at].body
    last = min(len(tokens), at + _MAX_TOKENS)
    for end in range(at + 1, last):
        token = tokens[end]
        ended = token.value in {";", "GO"} and token.body <= body
        if ended or (token.kind == "dollar" and token.body < body):
            return tokens[at:end]
    return tokens[at:last]


def _everyone(tokens: Tokens) -> Iterator[Token]:
    """Find privileges granted to everybody, and grants of all privileges."""
    for at, token in enumerate(tokens):
        following = _values(tokens, at + 1, 4)
        if token.value == "GRANT" and token.kind == "word":
            statement = _statement(tokens, at)
            values = [part.value for part in statement]
            if "ON" not in values or "TO" not in values:
                if "DBA" in values[:3] or "SUPERUSER" in values[:3]:
                    yield token
                continue
            rights = {one.value for one in statement[1 : values.index("ON")] if one.is_identifier}
            everybody = "PUBLIC" in values[values.index("TO") :] and not rights <= _GRANTABLE
            server = values[values.index("ON") + 1 :][:3] == ["*", ".", "*"]
            if everybody or (server and "ALL" in rights):
                yield token
        elif token.value in {"CREATE", "ALTER"} and following[:1] in (["ROLE"], ["USER"]):
            yield from (t for t in _statement(tokens, at) if t.value == "SUPERUSER")
        elif token.value == "ALTER" and following == ["SERVER", "ROLE", "SYSADMIN", "ADD"]:
            yield token
        elif token.value == "SP_ADDSRVROLEMEMBER":
            yield from (t for t in _statement(tokens, at) if "sysadmin" in t.value.lower())


def _programs(tokens: Tokens) -> Iterator[Token]:
    """Find statements that run programs of the operating system."""
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.value == "XP_CMDSHELL":
            yield token
        elif token.value == "SP_CONFIGURE":
            values = [part.value.lower() for part in _statement(tokens, at)[:6]]
            if "'xp_cmdshell'" in values and "1" in values:
                yield token
        elif token.value == "PROGRAM" and {"COPY"} & set(_values(tokens, max(0, at - 12), 12)):
            yield token


def _definers(tokens: Tokens) -> Iterator[Token]:
    """Find PostgreSQL functions with their owner's rights and their caller's search path."""
    outside = [token for token in tokens if token.body == 0]
    for at, token in enumerate(outside):
        if token.value != "CREATE" or "FUNCTION" not in _values(outside, at + 1, 3):
            continue
        header = _statement(outside, at)
        values = [part.value for part in header]
        for place in range(len(values) - 1):
            if values[place : place + 2] == ["SECURITY", "DEFINER"]:
                if "SEARCH_PATH" not in values:
                    yield header[place]
                break


def _row_security(tokens: Tokens) -> Iterator[Token]:
    for at, token in enumerate(tokens):
        if token.value == "DISABLE" and _values(tokens, at + 1, 3) == ["ROW", "LEVEL", "SECURITY"]:
            yield token


def _weak_hashes(tokens: Tokens) -> Iterator[Token]:
    for at, token in enumerate(tokens[:-2]):
        call = [part.value.lower() for part in tokens[at + 1 : at + 9]]
        if token.value == "HASHBYTES":
            weak = call[1:2] and call[1].strip("n'").upper() in {"MD5", "MD4", "MD2", "SHA1", "SHA"}
        else:
            weak = token.kind == "word" and token.value in _WEAK and call[:1] == ["("]
        end = call.index(")") if ")" in call else len(call)
        if weak and any("passw" in part or "pwd" in part for part in call[:end]):
            yield token


def _null_comparisons(tokens: Tokens) -> Iterator[Token]:
    for at, token in enumerate(tokens[:-1]):
        if token.value not in {"=", "<>", "!="} or tokens[at + 1].value != "NULL":
            continue
        for before in reversed(tokens[max(0, at - 12) : at]):
            if before.kind == "word" and before.value in _CONDITIONS:
                yield token
                break
            if before.value in {"SET", ",", ";", "DECLARE", "SELECT", "THEN", "ELSE", "VALUES"}:
                break
            if before.value == ")" or before.kind == "dollar":
                break


def _all_rows(tokens: Tokens) -> Iterator[Token]:
    """Find deletions and updates to one value, but of columns that the file adds or copies."""
    added = {name.value for word, name in pairwise(tokens) if word.value in {"ADD", "COLUMN"}}
    copied = {name.value for word, name in pairwise(tokens) if word.value == "FROM"}
    for at, token in enumerate(tokens):
        begins = at == 0 or tokens[at - 1].value in _STARTS or tokens[at - 1].kind == "dollar"
        if not begins or token.value not in {"DELETE", "UPDATE"} or token.kind != "word":
            continue
        statement = _statement(tokens, at)
        values = [part.value for part in statement]
        name = values[2] if len(values) > 2 and values[1] == "FROM" else ""
        if len(values) == 6 and values[2] == "SET" and values[3] not in added:
            is_fixed = statement[5].kind in {"text", "number"} or values[5] in _FIXED
            is_emptied = values[5] == "NULL" and values[1] in copied
            name = values[1] if is_fixed and not is_emptied else ""
        if name and not _PATTERNS["passing"].search(name) and _LIMITED.isdisjoint(values):
            yield token


def _drops(tokens: Tokens) -> Iterator[Token]:
    created = set(_created(tokens))
    for at, token in enumerate(tokens):
        if token.value != "DROP" or token.kind != "word":
            continue
        values = [v for v in _values(tokens, at + 1, 5) if v not in {"IF", "EXISTS"}]
        if values[:1] in (["TABLE"], ["DATABASE"], ["SCHEMA"]):
            name = values[1] if len(values) > 1 else ""
            if name not in created and not _PATTERNS["temporary"].match(name):
                yield token
        elif values[:1] == ["COLUMN"]:
            yield token


def _created(tokens: Tokens) -> Iterator[str]:
    """Names of tables that the file creates."""
    for at, token in enumerate(tokens):
        if token.value == "CREATE":
            words = _values(tokens, at + 1, 9)
            if "TABLE" in words[:4]:
                rest = words[words.index("TABLE") + 1 :]
                names = [word for word in rest if word not in {"IF", "NOT", "EXISTS"}]
                yield from names[:1]
                yield from names[2:3] if names[1:2] == ["."] else ()
            elif words[:1] in (["DATABASE"], ["SCHEMA"]):
                yield from (word for word in words[1:5] if word not in {"IF", "NOT", "EXISTS"})


def _missing_defaults(tokens: Tokens) -> Iterator[Token]:
    created, read = set(_created(tokens)), 0
    for at, token in enumerate(tokens):
        if at < read or token.value != "ALTER" or _values(tokens, at + 1, 1) != ["TABLE"]:
            continue
        statement = _statement(tokens, at)
        read = at + len(statement)
        table = [t.value for t in statement[2:7] if t.value not in {"IF", "EXISTS", "ONLY"}]
        if created.intersection(table):
            continue
        for clause in _clauses(statement):
            values = [part.value for part in clause]
            filled = not _FILLED.isdisjoint(values) or any("SERIAL" in value for value in values)
            added = "ADD" in values and not filled
            if added and ["NOT", "NULL"] in map(list, pairwise(values)):
                yield clause[values.index("ADD")]


def _clauses(statement: Tokens) -> Iterable[Tokens]:
    """The parts of a statement between its commas, parentheses kept whole."""
    depth, first = 0, 0
    for at, token in enumerate(statement):
        depth += (token.value == "(") - (token.value == ")")
        if depth == 0 and token.value == ",":
            yield statement[first:at]
            first = at + 1
    yield statement[first:]


_DELETIONS = frozenset(["sql-all-rows", "sql-drop"])
_RULES: Mapping[str, Callable[[Tokens], Iterable[Token]]] = {
    "sql-dynamic-statement": find_dynamic_statements,
    "sql-grant-everyone": _everyone,
    "sql-program": _programs,
    "sql-definer-path": _definers,
    "sql-row-security-off": _row_security,
    "sql-weak-password-hash": _weak_hashes,
    "sql-null-comparison": _null_comparisons,
    "sql-all-rows": _all_rows,
    "sql-drop": _drops,
    "sql-not-null-without-default": _missing_defaults,
}
