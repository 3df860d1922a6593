"""From Lark's parse tree to syntax.py's nodes, noting what is well formed but no rule."""

from __future__ import annotations

from typing import Final

from lark import Token, Tree
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive, v_args

from policy_sched.language.codes import Problem
from policy_sched.language.slips import if_problem
from policy_sched.language.strings import unquote
from policy_sched.language.syntax import (
    AndExpr,
    Bad,
    Binary,
    CallExpr,
    CondExpr,
    Ident,
    IndexExpr,
    ListExpr,
    Literal,
    MapExpr,
    MethodExpr,
    Node,
    OrExpr,
    Select,
    Unary,
)
from policy_sched.language.typed import Span

KEYWORDS: Final = frozenset({"in", "true", "false", "null"})
#: CEL's reserved words: fields and methods may be called so, variables and functions may not.
RESERVED: Final = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"),
        *("loop", "package", "namespace", "return", "var", "void", "while"),
    }
)
_MAX_INT: Final = 2**63 - 1

# What Lark's rules give, named here because methods below are called `list`, `map` and `int`.
Nodes = list[Node]
Tokens = list[Token]
Objects = list[object]
Items = list[Node] | None
Elements = list[list[tuple[bool, Node]] | None]
Entries = list[list[tuple[bool, Node, Node]] | None]


def _span(meta: Meta) -> Span:
    return Span(meta.start_pos, meta.end_pos)


def _token_span(token: Token) -> Span:
    start = token.start_pos or 0
    return Span(start, start + len(token))


def build(tree: Tree[Token]) -> tuple[Node, list[Problem]]:
    """Return the syntax tree of Lark's ``tree``, and what is wrong with it as a rule."""
    builder = _TreeBuilder()
    node: Node = builder.transform(tree)
    return node, builder.problems + builder.oversized()


@v_args(meta=True)
class _TreeBuilder(Transformer_NonRecursive[Token, Node]):
    """Builds syntax nodes from Lark's tree; one method for each named alternative."""

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)
        self.problems: list[Problem] = []
        self.large: dict[Span, int] = {}

    def outside(self, span: Span, feature: str, hint: str = "") -> Bad:
        message = f"{feature} is CEL, but not part of rules"
        self.problems.append(Problem(span.start, span.end, "PS014", message, hint))
        return Bad(span=span)

    def oversized(self) -> list[Problem]:
        return [
            Problem(s.start, s.end, "PS011", "the number does not fit a 64-bit int")
            for s in self.large
        ]

    def start(self, _meta: Meta, items: Nodes) -> Node:
        return items[0]

    def paren(self, _meta: Meta, items: Nodes) -> Node:
        return items[0]

    def cond(self, meta: Meta, items: Nodes) -> Node:
        return CondExpr(test=items[0], then=items[1], otherwise=items[2], span=_span(meta))

    def or_(self, meta: Meta, items: Nodes) -> Node:
        left, right = items
        same = isinstance(left, OrExpr) and left.span.start == meta.start_pos
        args = (*left.args, right) if same and isinstance(left, OrExpr) else (left, right)
        return OrExpr(args=args, span=_span(meta))

    def and_(self, meta: Meta, items: Nodes) -> Node:
        left, right = items
        same = isinstance(left, AndExpr) and left.span.start == meta.start_pos
        args = (*left.args, right) if same and isinstance(left, AndExpr) else (left, right)
        return AndExpr(args=args, span=_span(meta))

    def relop(self, meta: Meta, items: Objects) -> Node:
        left, op, right = items
        assert isinstance(left, Node)
        assert isinstance(op, Token)
        assert isinstance(right, Node)
        return Binary(op=str(op), left=left, right=right, op_span=_token_span(op), span=_span(meta))

    arith = relop

    def nots(self, _meta: Meta, items: Tokens) -> Tokens:
        return items

    negs = nots

    def not_(self, meta: Meta, items: tuple[Tokens, Node]) -> Node:
        signs, operand = items
        span = _span(meta)
        if len(signs) % 2 == 0:
            return Unary(op="!", operand=Unary(op="!", operand=operand, span=span), span=span)
        return Unary(op="!", operand=operand, span=span)

    def neg(self, meta: Meta, items: tuple[Tokens, Node]) -> Node:
        signs, operand = items
        span = _span(meta)
        number = isinstance(operand, Literal) and type(operand.value) in (int, float)
        adjacent = number and operand.span.end == span.end
        if len(signs) % 2 == 1 and adjacent and isinstance(operand, Literal):
            if self.large.get(operand.span) == _MAX_INT + 1:
                del self.large[operand.span]
            assert not isinstance(operand.value, str)
            return Literal(value=-operand.value, span=span)
        if len(signs) % 2 == 0:
            operand = Unary(op="-", operand=operand, span=span)
        return Unary(op="-", operand=operand, span=span)

    def select(self, meta: Meta, items: tuple[Node, Token]) -> Node:
        operand, name = items
        return Select(
            operand=operand,
            name=name.strip("`"),
            name_span=_token_span(name),
            quoted=name.startswith("`"),
            span=_span(meta),
        )

    def opt_select(self, meta: Meta, items: tuple[Node, Token]) -> Node:
        operand, name = items
        return Select(
            operand=operand,
            name=name.strip("`"),
            name_span=_token_span(name),
            optional=True,
            quoted=name.startswith("`"),
            span=_span(meta),
        )

    def sel(self, _meta: Meta, items: Tokens) -> Token:
        name = items[0]
        if str(name) in KEYWORDS:
            self.keyword(name, "a field", f'write ["{name}"], or the name in back-quotes')
        return name

    def keyword(self, name: Token, role: str, hint: str) -> None:
        span = _token_span(name)
        message = f"`{name}` is a reserved word and cannot name {role}"
        self.problems.append(Problem(span.start, span.end, "PS005", message, hint))

    def method(self, meta: Meta, items: tuple[Node, Token, Items]) -> Node:
        target, name, args = items
        if str(name) in KEYWORDS:
            self.keyword(name, "a method", "")
        return MethodExpr(
            target=target,
            name=str(name),
            args=tuple(args or ()),
            name_span=_token_span(name),
            span=_span(meta),
        )

    def index(self, meta: Meta, items: Nodes) -> Node:
        return IndexExpr(operand=items[0], index=items[1], span=_span(meta))

    def opt_index(self, meta: Meta, items: Nodes) -> Node:
        return IndexExpr(operand=items[0], index=items[1], optional=True, span=_span(meta))

    def ident(self, _meta: Meta, items: Tokens) -> Node:
        name = items[0]
        if str(name) in RESERVED or str(name) in KEYWORDS:
            if str(name) == "if":
                self.problems.append(if_problem(_token_span(name).start))
            else:
                self.keyword(name, "a variable", "")
        return Ident(name=str(name), span=_token_span(name))

    def call(self, meta: Meta, items: tuple[Token, Items]) -> Node:
        name, args = items
        if str(name) == "if":
            self.problems.append(if_problem(_token_span(name).start))
        elif str(name) in RESERVED or str(name) in KEYWORDS:
            self.keyword(name, "a function", "")
        return CallExpr(
            name=str(name), args=tuple(args or ()), name_span=_token_span(name), span=_span(meta)
        )

    def root_ident(self, meta: Meta, items: Tokens) -> Node:
        hint = f"write `{items[0]}`"
        span = _span(meta)
        return self.outside(Span(span.start, span.start + 1), "a leading dot", hint)

    root_call = root_ident

    def message(self, meta: Meta, _items: Objects) -> Node:
        return self.outside(_span(meta), "a message literal `Type{...}`")

    def list(self, meta: Meta, items: Elements) -> Node:
        elements = items[0] or []
        return ListExpr(
            elements=tuple(node for _, node in elements),
            optional=tuple(optional for optional, _ in elements),
            span=_span(meta),
        )

    def map(self, meta: Meta, items: Entries) -> Node:
        entries = items[0] or []
        return MapExpr(
            keys=tuple(key for _, key, _ in entries),
            values=tuple(value for _, _, value in entries),
            optional=tuple(optional for optional, _, _ in entries),
            span=_span(meta),
        )

    def args(self, _meta: Meta, items: Objects) -> Objects:
        """A comma list: of one item, or of the list so far (in place) and one more."""
        if len(items) == 1:
            return [items[0]]
        so_far = items[0]
        assert isinstance(so_far, list)
        so_far.append(items[1])
        return so_far

    elems = entries = fields = args

    def elem(self, _meta: Meta, items: tuple[Token | None, Node]) -> tuple[bool, Node]:
        return items[0] is not None, items[1]

    def entry(self, _meta: Meta, items: tuple[Token | None, Node, Node]) -> tuple[bool, Node, Node]:
        return items[0] is not None, items[1], items[2]

    def field(self, _meta: Meta, _items: Objects) -> None:
        """A field of a message, which is refused as a whole."""

    def int(self, _meta: Meta, items: Tokens) -> Node:
        span = _token_span(items[0])
        digits = str(items[0])
        value = int(digits, 16) if digits.startswith("0x") else _decimal(digits)
        if value > _MAX_INT:
            self.large[span] = value
        return Literal(value=value, span=span)

    def double(self, _meta: Meta, items: Tokens) -> Node:
        span = _token_span(items[0])
        value = float(items[0])
        if value == float("inf"):
            message = f"{items[0]} does not fit a double"
            self.problems.append(Problem(span.start, span.end, "PS011", message))
        return Literal(value=value, span=span)

    def string(self, _meta: Meta, items: Tokens) -> Node:
        span = _token_span(items[0])
        value, problems = unquote(str(items[0]), span.start)
        self.problems.extend(problems)
        return Literal(value=value, span=span)

    def uint(self, _meta: Meta, items: Tokens) -> Node:
        written = str(items[0])
        hint = f"write {written[:-1]}"
        return self.outside(_token_span(items[0]), "an unsigned int", hint)

    def bytes(self, _meta: Meta, items: Tokens) -> Node:
        return self.outside(_token_span(items[0]), "bytes", "write a string")

    def true(self, meta: Meta, _items: Objects) -> Node:
        return Literal(value=True, span=_span(meta))

    def false(self, meta: Meta, _items: Objects) -> Node:
        return Literal(value=False, span=_span(meta))

    def null(self, meta: Meta, _items: Objects) -> Node:
        hint = "ask with `has(...)` or use `.?field` and `.orValue(...)`"
        return self.outside(_span(meta), "`null`", hint)


def _decimal(digits: str) -> int:
    """Read decimal digits; more than any int64 has are all alike too many."""
    return int(digits) if len(digits.lstrip("0")) <= 20 else 10**20
