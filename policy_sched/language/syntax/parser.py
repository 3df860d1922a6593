"""The parser: from text to a syntax tree, or to all problems of the text.

Theory of operation. Lark parses by grammar.lark; meanwhile ast_builder.py builds nodes and notes
well-formed text that rules do not allow (an int too large, CEL's uint). The parser is built once,
when first needed, and parses one text at a time.

For a text that does not parse, a message is looked for. Strings and comments are blanked, so that
no pattern matches inside them. Patterns of other languages are tried where the parser stopped (and,
for the few that the grammar reads differently, before it); if none matches, the message lists the
expected tokens.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import sys
from collections.abc import Collection, Iterator
from importlib import resources
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy_sched.language.diagnostics import MAX_DEPTH, MAX_NODES, MAX_SOURCE_BYTES, Problem
from policy_sched.language.syntax import ast
from policy_sched.language.syntax.ast_builder import TreeBuilder, if_problem
from policy_sched.source import DIRECTORY, KeptFile, unpickled

if TYPE_CHECKING:
    from lark import Lark
    from lark.exceptions import UnexpectedInput

_OPAQUE: Final = re.compile(
    r"[bB]?[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|\"[^\"\r\n]*\"|'[^'\r\n]*')"
    r"|\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''"
    r"|\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*'|//[^\n]*"
)
_SUFFIXED: Final = re.compile(
    r"(?<![\w.])(?P<number>\d+(?:\.\d+)?|\.\d+)(?P<unit>[A-Za-z]+(?:\d+[A-Za-z]+)*)"
)
_SPACED: Final = re.compile(
    r"\s*(?P<number>\d+(\.\d+)?)\s+(?P<unit>ms|[hms])(our|r|in|inute|ec|econd)?s?\s*", re.IGNORECASE
)
"""A number and a unit of time in one word or in two, as in `1 m` and `90 seconds`."""
_WORD_BEFORE: Final = re.compile(r"([A-Za-z_]\w*)\s*$")
_WORD_AT: Final = re.compile(r"[A-Za-z_]\w*")
_OPERATOR_WORDS: Final = {"and": "&&", "or": "||", "not": "!", "is": "=="}
_QUANTITY_UNITS: Final = frozenset(
    {"n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
)
_DURATION_UNITS: Final = frozenset({"ns", "us", "ms", "s", "m", "h"})
_CHARACTERS: Final = {
    "=": ("`=` is not an operator of CEL", "write `==` to compare"),
    "&": ("`&` is not an operator of CEL", "write `&&`"),
    "|": ("`|` is not an operator of CEL", "write `||`"),
}
_OTHER_CHARACTERS: Final = {
    "#": "a comment begins with `//`",
    ";": "an expression has no statements; use `variables` for intermediate values",
    "$": "names have no `$`",
    "\u201c": 'write straight quotes: "..."',
    "\u201d": 'write straight quotes: "..."',
    "\u2018": "write straight quotes: '...'",
    "\u2019": "write straight quotes: '...'",
}
_SIGNS: Final = {"COLON": ":", "COMMA": ",", "RPAR": ")", "RSQB": "]", "RBRACE": "}"}


def blank(text: str) -> str:
    """Return ``text`` with strings and comments replaced by as many spaces."""
    return _OPAQUE.sub(lambda m: " " * len(m[0]), text)


def safe_navigation(text: str) -> list[Problem]:
    """Return a problem for every ``?.``, which is another language's spelling of ``.?``."""
    return [
        Problem(m.start(), m.end(), "PS002", "rules spell this `.?`", "write `.?` instead of `?.`")
        for m in re.finditer(r"\?\.(?!\d)", blank(text))
    ]


def explain(text: str, at: int, expected: Collection[str]) -> list[Problem]:
    """Return at least one problem for a text at whose offset ``at`` the parser stopped."""
    problems = safe_navigation(text)
    if problems:
        return problems
    bare = blank(text)
    for look in (_unclosed, _character, _suffix, _operator_word, _if_call):
        problem = look(text, bare, at)
        if problem is not None:
            return [problem]
    return [_unexpected(text, bare, at, expected)]


def _unclosed(text: str, bare: str, at: int) -> Problem | None:
    """A quote that no other quote closes: the first that is left after blanking."""
    quote = re.search(r"[\"']", bare)
    if quote is None or quote.start() > at + 1:
        return None
    start = quote.start()
    apostrophe = start > 0 and text[start] == "'" and (text[start - 1].isalnum())
    if apostrophe and not re.search(r"(?<!\w)[rRbB]{1,2}$", text[:start]):
        return Problem(
            start,
            start + 1,
            "PS002",
            "this ' opens a string that is never closed",
            r"inside '...' write \', or put the text in double quotes",
        )
    return Problem(
        start, start + 1, "PS004", "this string is never closed", "close it on the same line"
    )


def _character(text: str, bare: str, at: int) -> Problem | None:
    here = bare[at : at + 1]
    if here in _CHARACTERS:
        message, hint = _CHARACTERS[here]
        return Problem(at, at + 1, "PS002", message, hint)
    if here in _OTHER_CHARACTERS:
        return Problem(at, at + 1, "PS001", f"unexpected `{text[at]}`", _OTHER_CHARACTERS[here])
    if bare[at - 1 : at + 1] == "<>":
        return Problem(at - 1, at + 1, "PS002", "`<>` is not an operator of CEL", "write `!=`")
    return None


def _suffix(_text: str, bare: str, at: int) -> Problem | None:
    """A number with a unit glued to it, ending or beginning where the parser stopped."""
    for literal in _SUFFIXED.finditer(bare):
        if literal.start() <= at <= literal.end() and literal["unit"].lower() not in ("u", "x"):
            written, unit = literal[0], literal["unit"]
            calls = []
            if unit in _QUANTITY_UNITS:
                calls.append(f'quantity("{written}")')
            if unit in _DURATION_UNITS or re.fullmatch(r"[a-z]+\d+[a-z]+.*", unit):
                calls.append(f'duration("{written}")')
            hint = f"write {' or '.join(calls)}" if calls else "quote a text"
            return Problem(
                literal.start(), literal.end(), "PS002", f"{written} is not a number", hint
            )
    return None


def _operator_word(text: str, bare: str, at: int) -> Problem | None:
    here = _WORD_AT.match(bare, at)
    before = _WORD_BEFORE.search(bare, 0, at)
    for word, start in (
        (here and here[0], at),
        (before and before[1], before.start(1) if before else 0),
    ):
        if word and word.lower() in _OPERATOR_WORDS:
            operator = _OPERATOR_WORDS[word.lower()]
            return Problem(
                start,
                start + len(word),
                "PS002",
                f"`{text[start : start + len(word)]}` is not an operator of CEL",
                f"write `{operator}`",
            )
    return None


def _if_call(_text: str, bare: str, at: int) -> Problem | None:
    call = re.search(r"(?<![\w.])if\b", bare[: at + 2])
    if call is None:
        return None
    return if_problem(call.start())


def _unexpected(text: str, bare: str, at: int, expected: Collection[str]) -> Problem:
    end_of_text = not bare[at:].strip() and not text[at:].strip()
    opened = _innermost_open(bare[:at])
    words = _words(expected)
    hint = ""
    if end_of_text:
        at = len(text.rstrip())
        message = f"the expression ends too early; expected {words}" if words else "unexpected end"
        if not text.strip():
            message = "the expression is empty"
        if opened is not None:
            hint = f"the `{bare[opened]}` at character {opened + 1} is not closed"
        return Problem(max(0, at - 1), max(at, 1 if text else 0), "PS001", message, hint)
    token = re.match(r"\w+|\S", text[at:])
    symbol = token[0] if token else text[at : at + 1]
    if re.match(r"\d+\.(?!\d)", text[max(0, at - 20) :]) and symbol == ".":
        hint = "write a digit after the point, as in `1.0`"
    spaced = _SPACED.fullmatch(text)
    if spaced is not None:
        hint = (
            f"a duration has no space and a short unit: {spaced['number']}{spaced['unit'].lower()}"
        )
    message = f"unexpected `{symbol}`" + (f"; expected {words}" if words else "")
    return Problem(at, at + len(symbol), "PS001", message, hint)


def _innermost_open(bare: str) -> int | None:
    """Return the offset of the innermost bracket that is open at the end of ``bare``."""
    stack: list[int] = []
    for at, char in enumerate(bare):
        if char in "([{":
            stack.append(at)
        elif char in ")]}" and stack:
            stack.pop()
    return stack[-1] if stack else None


def _words(expected: Collection[str]) -> str:
    """Put the parser's expected tokens into words."""
    if "INT" in expected:
        parts = ["a value"]
    elif "PLUS" in expected:
        parts = ["an operator"]
    elif "NAME" in expected:
        parts = ["a name"]
    else:
        parts = []
    parts += [f"`{sign}`" for token, sign in _SIGNS.items() if token in expected]
    if len(parts) > 1:
        return ", ".join(parts[:-1]) + " or " + parts[-1]
    return "".join(parts)


#: Texts whose trees are kept: those of a few hundred policies.
KEPT: Final = 4096


def parse(text: str) -> tuple[ast.Node | None, list[Problem]]:
    """Return the syntax tree of an expression and its problems; the tree is None if it has any.

    Texts that were parsed before, in any policy, are looked up.
    """
    return _checked_size(text, cel=False)


def parse_cel(text: str) -> tuple[ast.Node | None, list[Problem]]:
    """Return the same of CEL's text, which also has unsigned ints, bytes and null."""
    return _checked_size(text, cel=True)


def _checked_size(text: str, *, cel: bool) -> tuple[ast.Node | None, list[Problem]]:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        at = error.start
        return None, [
            Problem(at, at + 1, "PS001", "a surrogate without its pair is not a character")
        ]
    if size > MAX_SOURCE_BYTES:
        message = f"the expression has {size} bytes; the limit is {MAX_SOURCE_BYTES}"
        return None, [Problem(0, 1, "PS501", message, "split it with `variables` or `functions`")]
    node, problems = _parsed(text, cel=cel)
    return node, list(problems)


@functools.lru_cache(maxsize=KEPT)
def _parsed(text: str, *, cel: bool) -> tuple[ast.Node | None, list[Problem]]:
    parser = _parser()
    from lark.exceptions import UnexpectedInput  # noqa: PLC0415  with the parser, not before

    try:
        node, problems = parser.parse(text, cel=cel)
    except UnexpectedInput as error:
        return None, _syntax_problems(text, error)
    if any(p.code == "PS014" for p in problems):
        navigation_problems = safe_navigation(text)
        taken = {p.end for p in navigation_problems}
        problems = [
            p for p in problems if not (p.code == "PS014" and p.start + 1 in taken)
        ] + navigation_problems
    problems += _size_problems(node, cel=cel)
    return (None if problems else node), sorted(problems)


class _Parser(msgspec.Struct):
    """Lark and its tree builder; several threads may use it."""

    builder: TreeBuilder
    lark: Lark
    lock: Lock = msgspec.field(default_factory=Lock)

    def parse(self, text: str, *, cel: bool) -> tuple[ast.Node, list[Problem]]:
        """Return the tree, and what is wrong with it; raises Lark's UnexpectedInput.

        ``cel``: as CEL, else as a rule.
        """
        with self.lock:
            self.builder.cel = cel
            try:
                node = self.lark.parse(text)
            finally:
                problems = self.builder.finish()
        assert isinstance(node, ast.Node)
        return node, problems


_OPTIONS: Final[dict[str, Any]] = {"parser": "lalr", "lexer": "contextual", "keep_all_tokens": True}


@functools.cache
def _parser() -> _Parser:
    """Return the parser of grammar.lark.

    Lark takes 50 ms to import, and as much to build the tables: rules that are kept need neither,
    and the tables are kept.
    """
    import lark  # noqa: PLC0415  see above

    grammar = resources.files(__package__).joinpath("grammar.lark").read_text(encoding="utf-8")
    builder = TreeBuilder()
    made_from = "\n".join((lark.__version__, sys.version, repr(_OPTIONS), grammar))
    key = hashlib.sha256(made_from.encode()).hexdigest()[:32]
    directory = os.environ.get(DIRECTORY, "")
    file = KeptFile(directory, "grammar", key) if directory else None
    kept = None if file is None else _loaded(file.read(), builder)
    if kept is not None:
        return _Parser(builder, kept)
    parser = lark.Lark(grammar, transformer=builder, **_OPTIONS)
    if file is not None:
        tables = io.BytesIO()
        parser.save(tables, {"transformer"})
        file.write(tables.getvalue())
    return _Parser(builder, parser)


def _loaded(tables: bytes | None, builder: TreeBuilder) -> Lark | None:
    """Return the parser with tables that were kept, None if they are none."""
    from lark import Lark  # noqa: PLC0415  with the parser, not before

    if tables is None:
        return None
    try:
        # Lark.load takes no transformer; the parsers that Lark's tool writes load tables like this.
        data = unpickled(tables, lambda _module, _name: False)  # they are plain values
        return Lark.__new__(Lark)._load(data, transformer=builder)  # noqa: SLF001
    except Exception:  # noqa: BLE001 - whatever is wrong with them, they are made again
        return None


def _syntax_problems(text: str, error: UnexpectedInput) -> list[Problem]:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken  # noqa: PLC0415  as above

    at = len(text)
    if isinstance(error, UnexpectedCharacters) or (
        isinstance(error, UnexpectedToken) and error.token.type != "$END"
    ):
        at = error.pos_in_stream or 0
    state = error.interactive_parser
    expected = frozenset() if state is None else state.accepts()  # type: ignore[no-untyped-call]  # lark leaves it bare
    return explain(text, at, expected)


def _size_problems(root: ast.Node, *, cel: bool) -> list[Problem]:
    count, deepest, at = 0, 0, root.span
    for node, depth in ast.walk(root):
        count += 1
        if depth > deepest:
            deepest, at = depth, node.span
    if deepest > MAX_DEPTH:
        message = f"the expression is nested {deepest} deep; the limit is {MAX_DEPTH}"
        return [Problem(at.start, at.end, "PS501", message, "split it with `variables`")]
    if count > MAX_NODES and not cel:  # the length bounds those of CEL
        message = f"the expression has {count} parts; the limit is {MAX_NODES}"
        return [Problem(0, 1, "PS501", message, "split it with `variables`")]
    return []


def comments(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each ``//`` comment of a rule, strings left alone."""
    end = 0
    for opaque in _OPAQUE.finditer(text):
        if not {'"', "'"}.isdisjoint(text[end : opaque.start()]):
            return  # a string that is never closed
        end = opaque.end()
        if opaque[0].startswith("//"):
            yield opaque.span()
