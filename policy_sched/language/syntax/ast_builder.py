"""Builds syntax trees while Lark parses, and notes well-formed text that rules do not allow.

Theory of operation. Lark calls a method for each named alternative of the grammar, with a value for
every symbol of it, the punctuation included. The value of an expression is `Value`: the characters
that it covers, parentheses included, and its node. So no tree of Lark's is made, walked or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

from policy_sched.language.diagnostics import Problem
from policy_sched.language.syntax import ast

if TYPE_CHECKING:
    from lark import Token

_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_HEX_DIGITS: Final = {"x": 2, "X": 2, "u": 4, "U": 8}
_SURROGATES: Final = range(0xD800, 0xE000)


def unquote(token: str, at: int) -> tuple[str, list[Problem]]:
    """Return the value of the literal ``token``, which begins at offset ``at`` of its text."""
    raw = token[0] in "rR"
    start = 1 if raw else 0
    quotes = 3 if token[start : start + 3] in ('"""', "'''") and len(token) >= start + 6 else 1
    body = token[start + quotes : len(token) - quotes]
    if raw or "\\" not in body:
        return body, []
    return _unescape(body, at + start + quotes)


def unquote_bytes(token: str, at: int) -> tuple[bytes, list[Problem]]:
    """Return the value of a bytes literal: escapes of two hexadecimal digits or octal are bytes."""
    text, problems = unquote(token[1:], at + 1)
    escaped = "\\" in token and token[1] not in "rR"
    try:
        return (text.encode("latin-1") if escaped else text.encode()), problems
    except UnicodeEncodeError:
        return text.encode(), problems


def _unescape(body: str, at: int) -> tuple[str, list[Problem]]:
    parts: list[str] = []
    problems: list[Problem] = []
    position = 0
    while (slash := body.find("\\", position)) >= 0:
        parts.append(body[position:slash])
        char, length = _escape(body, slash + 1)
        position = slash + 1 + length
        if char is None:
            written = body[slash:position]
            problems.append(
                Problem(
                    at + slash,
                    at + position,
                    "PS003",
                    f"{written} is not an escape",
                    r"write \\ for a backslash, or r'...' for a text without escapes",
                )
            )
        else:
            parts.append(char)
    parts.append(body[position:])
    return "".join(parts), problems


def _escape(body: str, at: int) -> tuple[str | None, int]:
    """Return the character of an escape, and the escape's length after the backslash."""
    letter = body[at : at + 1]
    if letter in _SIMPLE:
        return _SIMPLE[letter], 1
    if letter in _HEX_DIGITS:
        digits = body[at + 1 : at + 1 + _HEX_DIGITS[letter]]
        return _code_point(digits, 16, _HEX_DIGITS[letter]), 1 + len(digits)
    if letter and letter in "0123":
        digits = body[at : at + 3]
        return _code_point(digits, 8, 3), len(digits)
    return None, 1


def _code_point(digits: str, base: int, length: int) -> str | None:
    allowed = "0123456789abcdefABCDEF" if base == 16 else "01234567"
    if len(digits) != length or any(d not in allowed for d in digits):
        return None
    value = int(digits, base)
    if value in _SURROGATES or value > 0x10FFFF:
        return None
    return chr(value)


ESCAPES: Final = {char: f"\\{letter}" for letter, char in _SIMPLE.items() if letter not in "?\"'`"}
"""Characters that a literal shows by an escape, whatever its quotes."""


def quote(written: str, value: str) -> str:
    """Return a literal of ``value`` in double quotes; in single ones if it has double quotes.

    ``written`` is how the author wrote it, which stays for raw strings and for those over
    several lines.
    """
    if written[:1] in "rR" or written[:3] in ('"""', "'''"):
        return written
    sign = "'" if '"' in value and "'" not in value else '"'
    return sign + "".join(_character(c, sign) for c in value) + sign


def _character(c: str, sign: str) -> str:
    if c == sign:
        return f"\\{c}"
    if c in ESCAPES:
        return ESCAPES[c]
    if c.isprintable():
        return c
    code = ord(c)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


# ruff: noqa: D102 - the methods are the named alternatives of the grammar


KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
#: CEL's reserved words: fields and methods may be called so, variables and functions may not.
RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_MAX_INT: Final = 2**63 - 1
_MAX_UINT: Final = 2**64 - 1

#: An expression: its first character, the one behind its last, and its node.
Value: TypeAlias = tuple[int, int, ast.Node]
# Named here because methods below are called `list`, `map` and `int`.
Scalar: TypeAlias = int | bytes | None
Tokens: TypeAlias = "list[Token]"
Values: TypeAlias = list[Value]
Nodes: TypeAlias = list[ast.Node]
Elements: TypeAlias = list[tuple[bool, ast.Node]]
Entries: TypeAlias = list[tuple[bool, ast.Node, ast.Node]]
Listed: TypeAlias = list[object]
Enclosed: TypeAlias = list[object]
"""An opening token, the tokens between, or None, and a closing token."""
Signs: TypeAlias = tuple[int, int]
"""The first character of a row of ``!`` or ``-``, and how many there are."""


def _token_span(token: Token) -> ast.Span:
    start = token.start_pos or 0
    return ast.Span(start, start + len(token))


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return (token.start_pos or 0) + len(token)


class TreeBuilder:
    """Builds the nodes of one text after the other; `finish` returns the problems of a text.

    ``cel``: literals that CEL has and rules have not are nodes, not problems.
    """

    def __init__(self) -> None:
        self.cel = False
        self._problems: list[Problem] = []
        self._large: dict[ast.Span, int] = {}

    def finish(self) -> list[Problem]:
        """Return what is wrong with the text that was parsed last, and forget it."""
        problems = self._problems + [
            Problem(s.start, s.end, "PS011", "the number does not fit a 64-bit int")
            for s in self._large
        ]
        self._problems, self._large = [], {}
        return problems

    def _outside(self, start: int, end: int, feature: str, hint: str = "") -> Value:
        message = f"{feature} is CEL, but not part of {'selectors' if self.cel else 'rules'}"
        self._problems.append(Problem(start, end, "PS014", message, hint))
        return start, end, ast.Bad(span=ast.Span(start, end))

    def _keyword(self, name: Token, role: str, hint: str) -> None:
        span = _token_span(name)
        message = f"`{name}` is a reserved word and cannot name {role}"
        self._problems.append(Problem(span.start, span.end, "PS005", message, hint))

    # Operators.

    def start(self, items: Values) -> ast.Node:
        return items[0][2]

    def cond(self, items: tuple[Value, Token, Value, Token, Value]) -> Value:
        (start, _, test), _, (_, _, then), _, (_, end, otherwise) = items
        span = ast.Span(start, end)
        return start, end, ast.CondExpr(test=test, then=then, otherwise=otherwise, span=span)

    def or_(self, items: tuple[Value, Token, Value]) -> Value:
        return _junction(ast.OrExpr, items)

    def and_(self, items: tuple[Value, Token, Value]) -> Value:
        return _junction(ast.AndExpr, items)

    def relop(self, items: tuple[Value, Token, Value]) -> Value:
        (start, _, left), op, (_, end, right) = items
        span = ast.Span(start, end)
        node = ast.Binary(op=str(op), left=left, right=right, op_span=_token_span(op), span=span)
        return start, end, node

    arith = relop

    def nots(self, items: Tokens) -> Signs:
        return _start(items[0]), len(items)

    negs = nots

    def not_(self, items: tuple[Signs, Value]) -> Value:
        (start, count), (_, end, operand) = items
        span = ast.Span(start, end)
        if count % 2 == 0:
            operand = ast.Unary(op="!", operand=operand, span=span)
        return start, end, ast.Unary(op="!", operand=operand, span=span)

    def neg(self, items: tuple[Signs, Value]) -> Value:
        (start, count), (_, end, operand) = items
        span = ast.Span(start, end)
        number = isinstance(operand, ast.Literal) and type(operand.value) in (int, float)
        adjacent = number and operand.span.end == end
        if count % 2 == 1 and adjacent and isinstance(operand, ast.Literal):
            if self._large.get(operand.span) == _MAX_INT + 1:
                del self._large[operand.span]
            assert not isinstance(operand.value, str)
            return start, end, ast.Literal(value=-operand.value, span=span)
        if count % 2 == 0:
            operand = ast.Unary(op="-", operand=operand, span=span)
        return start, end, ast.Unary(op="-", operand=operand, span=span)

    # Members.

    def select(self, items: tuple[Value, Token, Token], *, optional: bool = False) -> Value:
        (start, _, operand), _, name = items
        end = _end(name)
        node = ast.Select(
            operand=operand,
            name=name.strip("`"),
            name_span=_token_span(name),
            optional=optional,
            quoted=name.startswith("`"),
            span=ast.Span(start, end),
        )
        return start, end, node

    def opt_select(self, items: tuple[Value, Token, Token]) -> Value:
        return self.select(items, optional=True)

    def sel(self, items: Tokens) -> Token:
        name = items[0]
        if name in KEYWORDS:
            self._keyword(name, "a field", f'write ["{name}"], or the name in back-quotes')
        return name

    def method(self, items: tuple[Value, Token, Token, Token, Nodes | None, Token]) -> Value:
        (start, _, target), _, name, _, args, close = items
        if name in KEYWORDS:
            self._keyword(name, "a method", "")
        end = _end(close)
        node = ast.MethodExpr(
            target=target,
            name=str(name),
            args=tuple(args or ()),
            name_span=_token_span(name),
            span=ast.Span(start, end),
        )
        return start, end, node

    def index(self, items: tuple[Value, Token, Value, Token]) -> Value:
        (start, _, operand), _, (_, _, index), close = items
        end = _end(close)
        return start, end, ast.IndexExpr(operand=operand, index=index, span=ast.Span(start, end))

    def opt_index(self, items: tuple[Value, Token, Token, Value, Token]) -> Value:
        (start, _, operand), _, _, (_, _, index), close = items
        end = _end(close)
        span = ast.Span(start, end)
        return start, end, ast.IndexExpr(operand=operand, index=index, optional=True, span=span)

    # Primaries.

    def paren(self, items: tuple[Token, Value, Token]) -> Value:
        return _start(items[0]), _end(items[2]), items[1][2]

    def ident(self, items: Tokens) -> Value:
        name = items[0]
        span = _token_span(name)
        if name in RESERVED or name in KEYWORDS:
            if name == "if":
                self._problems.append(if_problem(span.start))
            else:
                self._keyword(name, "a variable", "")
        return span.start, span.end, ast.Ident(name=str(name), span=span)

    def call(self, items: tuple[Token, Token, Nodes | None, Token]) -> Value:
        name, _, args, close = items
        if name == "if":
            self._problems.append(if_problem(_start(name)))
        elif name in RESERVED or name in KEYWORDS:
            self._keyword(name, "a function", "")
        start, end = _start(name), _end(close)
        named = _token_span(name)
        node = ast.CallExpr(
            name=str(name), args=tuple(args or ()), name_span=named, span=ast.Span(start, end)
        )
        return start, end, node

    def root_ident(self, items: Tokens) -> Value:
        start = _start(items[0])
        return self._outside(start, start + 1, "a leading dot", f"write `{items[1]}`")

    root_call = root_ident

    def message(self, items: Enclosed) -> Value:
        typed, close = items[0], cast("Token", items[-1])
        assert isinstance(typed, tuple)
        return self._outside(typed[0], _end(close), "a message literal `Type{...}`")

    # Lists and maps.

    def list(self, items: Enclosed) -> Value:
        span = _enclosed(items)
        elements = cast("Elements", items[1] or [])
        node = ast.ListExpr(
            elements=tuple(node for _, node in elements),
            optional=tuple(optional for optional, _ in elements),
            span=span,
        )
        return span.start, span.end, node

    def map(self, items: Enclosed) -> Value:
        span = _enclosed(items)
        entries = cast("Entries", items[1] or [])
        node = ast.MapExpr(
            keys=tuple(key for _, key, _ in entries),
            values=tuple(value for _, _, value in entries),
            optional=tuple(optional for optional, _, _ in entries),
            span=span,
        )
        return span.start, span.end, node

    def args(self, items: Listed) -> Nodes:
        """A comma list: of one item, or of the list so far (in place) and one more."""
        value = cast("Value", items[-1])
        if len(items) == 1:
            return [value[2]]
        so_far = cast("Nodes", items[0])
        so_far.append(value[2])
        return so_far

    def elems(self, items: Listed) -> Listed:
        """A comma list of what `elem`, `entry` or `field` gave."""
        if len(items) == 1:
            return items
        so_far = cast("Listed", items[0])
        so_far.append(items[-1])
        return so_far

    entries = fields = elems

    def elem(self, items: tuple[Token | None, Value]) -> tuple[bool, ast.Node]:
        return items[0] is not None, items[1][2]

    def entry(
        self, items: tuple[Token | None, Value, Token, Value]
    ) -> tuple[bool, ast.Node, ast.Node]:
        return items[0] is not None, items[1][2], items[3][2]

    def field(self, _items: Listed) -> None:
        """A field of a message, which is refused as a whole."""

    # Literals.

    def int(self, items: Tokens) -> Value:
        span = _token_span(items[0])
        value = _whole(str(items[0]))
        if value > _MAX_INT:
            self._large[span] = value
        return span.start, span.end, ast.Literal(value=value, span=span)

    def double(self, items: Tokens) -> Value:
        span = _token_span(items[0])
        value = float(items[0])
        if value == float("inf"):
            message = "the number does not fit a double"
            self._problems.append(Problem(span.start, span.end, "PS011", message))
        return span.start, span.end, ast.Literal(value=value, span=span)

    def string(self, items: Tokens) -> Value:
        span = _token_span(items[0])
        value, problems = unquote(str(items[0]), span.start)
        self._problems.extend(problems)
        return span.start, span.end, ast.Literal(value=value, span=span)

    def _literal(self, token: Token, kind: str, value: Scalar) -> Value:
        span = _token_span(token)
        return span.start, span.end, ast.CelLiteral(kind=kind, value=value, span=span)

    def uint(self, items: Tokens) -> Value:
        if self.cel:
            value = _whole(str(items[0])[:-1])
            if value > _MAX_UINT:
                self._large[_token_span(items[0])] = value
            return self._literal(items[0], "uint", value)
        hint = f"write {items[0][:-1]}"
        return self._outside(_start(items[0]), _end(items[0]), "an unsigned int", hint)

    def bytes(self, items: Tokens) -> Value:
        if self.cel:
            value, problems = unquote_bytes(str(items[0]), _start(items[0]))
            self._problems.extend(problems)
            return self._literal(items[0], "bytes", value)
        return self._outside(_start(items[0]), _end(items[0]), "bytes", "write a string")

    def true(self, items: Tokens) -> Value:
        span = _token_span(items[0])
        return span.start, span.end, ast.Literal(value=True, span=span)

    def false(self, items: Tokens) -> Value:
        span = _token_span(items[0])
        return span.start, span.end, ast.Literal(value=False, span=span)

    def null(self, items: Tokens) -> Value:
        if self.cel:
            return self._literal(items[0], "null_type", None)
        hint = "test it with `has(...)` or use `.?field` and `.orValue(...)`"
        return self._outside(_start(items[0]), _end(items[0]), "`null`", hint)


def _enclosed(items: Enclosed) -> ast.Span:
    return ast.Span(_start(cast("Token", items[0])), _end(cast("Token", items[-1])))


def _junction(kind: type[ast.OrExpr | ast.AndExpr], items: tuple[Value, Token, Value]) -> Value:
    """Return the node of ``a || b`` or ``a && b``; without parentheses around ``a`` they join."""
    (start, _, left), _, (_, end, right) = items
    args: tuple[ast.Node, ...] = left, right
    if isinstance(left, kind) and left.span.start == start:
        args = (*left.args, right)
    return start, end, kind(args=args, span=ast.Span(start, end))


def _whole(digits: str) -> int:
    """Read an int; decimal digits that are more than any int64 has are all alike too many."""
    if digits.startswith("0x"):
        return int(digits, 16)
    return int(digits) if len(digits.lstrip("0")) <= 20 else 10**20


def if_problem(start: int) -> Problem:
    """Return the problem for the word ``if`` at ``start``."""
    return Problem(
        start,
        start + 2,
        "PS002",
        "rules have no `if`",
        "write `condition ? value : otherwise`",
    )
