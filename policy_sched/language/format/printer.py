"""Prints an expression in its canonical form.

Theory of operation. The text is parsed and printed from its tree: on one line if it fits, else
broken after ``&&``, ``||`` and commas and before ``?`` and ``:``, each step indented by two. Only
those places, called slots, may have lines of their own, so a comment belongs to the slot that it
follows on its line, or precedes. Parentheses are printed where precedence needs them, and where the
source has them around ``&&`` inside ``||``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.language.format.comment_attachment import CommentPlaces, below
from policy_sched.language.syntax import (
    AndExpr,
    Binary,
    CallExpr,
    CondExpr,
    IndexExpr,
    ListExpr,
    Literal,
    MapExpr,
    MethodExpr,
    Node,
    OrExpr,
    Select,
    Unary,
    comments,
    parse,
    quote,
)

WIDTH: Final = 100
"""Columns of a line."""
STEP: Final = 2
"""Columns of one step to the right."""

_COND, _OR, _AND, _RELATION, _SUM, _TERM, _UNARY, _MEMBER = range(8)
_PRECEDENCE: Final = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!=", "in"), _RELATION),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _TERM),
}
_END: Final = "\0"
"""Marks the end of a comment: whatever follows goes to the next line."""


def format_expression(text: str, column: int = 0, indent: int = 0) -> str | None:
    """Return the expression in canonical form; None if it does not parse.

    ``column``: where its first line begins; ``indent``: where the others do. Without comments and
    within `WIDTH` the result is one line.
    """
    tree, _ = parse(text)
    if tree is None:
        return None
    printed = _Printer(text, tree).slot(tree, column, indent, _COND)
    lines = printed.replace(_END, "").split("\n")
    return "\n".join(line.rstrip() for line in lines)


def flat_expression(text: str) -> str | None:
    """Return the expression on one line however long; None if it has comments or is none."""
    tree, _ = parse(text)
    if tree is None or next(comments(text), None) is not None:
        return None
    return _Printer(text, tree).flat(tree, _COND)


def plain_expression(text: str) -> str | None:
    """Return the expression on one line, without comments and needless parentheses.

    Texts that differ only in form have the same. None if it does not parse.
    """
    tree, _ = parse(text)
    return None if tree is None else _Printer(text, tree, plain=True).flat(tree, _COND)


class _Printer:
    """Prints one tree; ``before`` and ``behind`` hold the comments of slots, by node identity."""

    def __init__(self, text: str, root: Node, *, plain: bool = False) -> None:
        self.text = text
        self._plain = plain
        places = CommentPlaces(text, root)
        self.before, self.behind = places.before, places.behind

    def _quiet(self, node: Node) -> bool:
        """Tell whether a node has no comment in or beside it."""
        if self.before.get(id(node)) or self.behind.get(id(node)):
            return False
        return all(self._quiet(child) for child in below(node))

    # One line.

    def flat(self, node: Node, least: int) -> str:
        """Return a node on one line, in parentheses if it binds less than ``least``."""
        text = self._flat(node)
        return f"({text})" if _binding(node) < least else text

    def _flat(self, node: Node) -> str:
        match node:
            case AndExpr() | OrExpr():
                op = " && " if isinstance(node, AndExpr) else " || "
                return op.join(self.flat(arg, self._least(node, arg)) for arg in below(node))
            case CondExpr():
                test, then = self.flat(node.test, _OR), self.flat(node.then, _OR)
                return f"{test} ? {then} : {self.flat(node.otherwise, _COND)}"
            case Binary(op=op):
                binds = _PRECEDENCE[op]
                return f"{self.flat(node.left, binds)} {op} {self.flat(node.right, binds + 1)}"
            case MapExpr():
                return "{" + ", ".join(self._entry(node, i) for i in range(len(node.keys))) + "}"
            case ListExpr():
                return (
                    "[" + ", ".join(self._element(node, i) for i in range(len(node.optional))) + "]"
                )
            case CallExpr(name=name, args=args):
                return f"{name}({', '.join(self.flat(arg, _COND) for arg in args)})"
            case MethodExpr(target=target, name=name, args=args):
                shown = ", ".join(self.flat(arg, _COND) for arg in args)
                return f"{self.flat(target, _MEMBER)}.{name}({shown})"
        return self._atom(node)

    def _atom(self, node: Node) -> str:
        match node:
            case Literal():
                return _literal(self.text[node.span.start : node.span.end], node.value)
            case Select(operand=operand, name=name):
                shown = f"`{name}`" if node.quoted else name
                return f"{self.flat(operand, _MEMBER)}{'.?' if node.optional else '.'}{shown}"
            case IndexExpr(operand=operand, index=index):
                shown = ("?" if node.optional else "") + self.flat(index, _COND)
                return f"{self.flat(operand, _MEMBER)}[{shown}]"
            case Unary():
                signs, operand = _signs(node)
                return signs + self.flat(operand, _MEMBER)
        return self.text[node.span.start : node.span.end]

    def _element(self, node: ListExpr, i: int) -> str:
        return ("?" if node.optional[i] else "") + self.flat(node.elements[i], _COND)

    def _entry(self, node: MapExpr, i: int) -> str:
        key = ("?" if node.optional[i] else "") + self.flat(node.keys[i], _COND)
        return f"{key}: {self.flat(node.values[i], _COND)}"

    def _least(self, chain: AndExpr | OrExpr, arg: Node) -> int:
        """Return how tightly an operand of ``&&`` or ``||`` must bind to need no parentheses."""
        grouped = isinstance(chain, OrExpr) and isinstance(arg, AndExpr)
        if grouped and not self._plain and self._in_parentheses(arg):
            return _RELATION
        return _AND if isinstance(chain, AndExpr) else _OR

    def _in_parentheses(self, node: Node) -> bool:
        before, behind = self.text[: node.span.start], self.text[node.span.end :]
        return before.rstrip()[-1:] == "(" and behind.lstrip()[:1] == ")"

    # Several lines.

    def slot(
        self,
        node: Node,
        column: int,
        indent: int,
        least: int,
        separator: str = "",
        *,
        noted: bool = False,
    ) -> str:
        """Return a slot that begins at ``column``, with its comments and its separator.

        ``noted``: the comments before it are printed already.
        """
        shown = "" if noted else self._notes(node, indent)
        column = indent if shown else column
        shown += self.lay(node, column, indent, least, len(separator))
        shown = _join(shown, separator, indent)
        for comment in self.behind.get(id(node), ()):
            gap = f"\n{' ' * indent}" if shown.endswith(_END) else "  " if separator else " "
            shown += f"{gap}{comment}{_END}"
        return shown

    def _notes(self, node: Node, indent: int) -> str:
        """Return the comments before a slot, each on a line of its own."""
        return "".join(f"{note}\n{' ' * indent}" for note in self.before.get(id(node), ()))

    def lay(self, node: Node, column: int, indent: int, least: int, extra: int = 0) -> str:
        """Return a node that begins at ``column``: on one line if it fits, else broken."""
        if all(self._quiet(child) for child in below(node)):
            flat = self.flat(node, least)
            if column + len(flat) + extra <= WIDTH:
                return flat
        if _binding(node) < least:
            inner = self.lay(node, column + 1, indent + STEP, _COND, extra + 1)
            return _join(f"({inner}", ")", indent)
        match node:
            case AndExpr() | OrExpr():
                return self._chain(node, column, indent)
            case CondExpr():
                return self._conditional(node, column, indent)
            case Binary():
                return self._binary(node, column, indent, extra)
            case CallExpr(name=name, args=args):
                return self._brackets(f"{name}(", args, ")", column, indent)
            case MethodExpr(target=target, name=name, args=args):
                head = _join(self.lay(target, column, indent, _MEMBER), f".{name}(", indent)
                return self._brackets(head, args, ")", column, indent)
            case ListExpr(elements=elements):
                return self._brackets("[", elements, "]", column, indent, node.optional)
            case MapExpr():
                return self._map(node, indent)
        return self._laid_atom(node, column, indent)

    def _laid_atom(self, node: Node, column: int, indent: int) -> str:
        match node:
            case Select(operand=operand, name=name):
                head = self.lay(operand, column, indent, _MEMBER)
                shown = f"`{name}`" if node.quoted else name
                return _join(head, f"{'.?' if node.optional else '.'}{shown}", indent)
            case IndexExpr(operand=operand, index=index):
                head = self.lay(operand, column, indent, _MEMBER)
                head = _join(head, "[?" if node.optional else "[", indent)
                inner = self.lay(index, _column(head, column), indent + STEP, _COND, 1)
                return _join(head + inner, "]", indent)
            case Unary():
                signs, operand = _signs(node)
                return signs + self.lay(operand, column + len(signs), indent, _MEMBER)
        return self._atom(node)

    def _chain(self, node: AndExpr | OrExpr, column: int, indent: int) -> str:
        op = " &&" if isinstance(node, AndExpr) else " ||"
        parts = []
        args = below(node)
        for i, arg in enumerate(args):
            separator = op if i + 1 < len(args) else ""
            at = column if i == 0 else indent
            parts.append(self.slot(arg, at, indent, self._least(node, arg), separator))
        return _lines(parts, indent)

    def _binary(self, node: Binary, column: int, indent: int, extra: int) -> str:
        """Break behind the operator if both sides fit then, else within them."""
        binds, inner = _PRECEDENCE[node.op], indent + STEP
        left = self.lay(node.left, column, indent, binds, len(node.op) + 1)
        right = self.lay(node.right, inner, inner, binds + 1, extra)
        if "\n" not in left and "\n" not in right:
            return f"{left} {node.op}\n{' ' * inner}{right}"
        left = _join(left, f" {node.op} ", indent)
        return left + self.lay(node.right, _column(left, column), indent, binds + 1, extra)

    def _conditional(self, node: CondExpr, column: int, indent: int) -> str:
        inner = indent + STEP
        parts = [self.slot(node.test, column, indent, _OR)]
        branches = ((node.then, "? ", _OR), (node.otherwise, ": ", _COND))
        for branch, sign, least in branches:
            notes = self._notes(branch, inner)
            # A condition after `:` is one more branch of this one, not one further in.
            chained = isinstance(branch, CondExpr) and least == _COND
            deeper = indent if chained else inner + STEP
            shown = self.slot(branch, inner + STEP, deeper, least, noted=True)
            parts.append(f"{notes}{sign}{shown}")
        return _lines(parts, inner)

    def _brackets(
        self,
        head: str,
        items: Sequence[Node],
        close: str,
        column: int,
        indent: int,
        optional: Sequence[bool] = (),
    ) -> str:
        """Return items between brackets: each on its own line where they do not fit on one."""
        if not items:
            return head + close
        if all(self._quiet(item) for item in items):
            marks = optional or (False,) * len(items)
            pairs = zip(marks, items, strict=True)
            flat = ", ".join(("?" if m else "") + self.flat(i, _COND) for m, i in pairs) + close
            if _column(head, column) + len(flat) <= WIDTH:
                return head + flat
        inner, parts = indent + STEP, []
        for i, item in enumerate(items):
            mark = "?" if optional and optional[i] else ""
            separator = "," if i + 1 < len(items) else ""
            shown = self.slot(item, inner + len(mark), inner, _COND, separator, noted=True)
            parts.append(self._notes(item, inner) + mark + shown)
        return f"{head}\n{' ' * inner}{_lines(parts, inner)}\n{' ' * indent}{close}"

    def _map(self, node: MapExpr, indent: int) -> str:
        inner, parts = indent + STEP, []
        for i, (key, value) in enumerate(zip(node.keys, node.values, strict=True)):
            notes = self._notes(key, inner)
            head = ("?" if node.optional[i] else "") + self.flat(key, _COND) + ": "
            separator = "," if i + 1 < len(node.keys) else ""
            shown = head + self.lay(value, inner + len(head), inner, _COND, len(separator))
            shown = _join(shown, separator, inner)
            for comment in self.behind.get(id(key), ()):
                gap = f"\n{' ' * inner}" if shown.endswith(_END) else "  "
                shown += f"{gap}{comment}{_END}"
            parts.append(notes + shown)
        return f"{{\n{' ' * inner}{_lines(parts, inner)}\n{' ' * indent}}}"


def _signs(node: Unary) -> tuple[str, Node]:
    """Return a sign and what it stands before; of a row of equal ones two are as good as four."""
    count, operand = 1, node.operand
    while isinstance(operand, Unary) and operand.op == node.op:
        count, operand = count + 1, operand.operand
    return node.op * (1 if count % 2 else 2), operand


def _binding(node: Node) -> int:
    match node:
        case CondExpr():
            return _COND
        case OrExpr():
            return _OR
        case AndExpr():
            return _AND
        case Binary(op=op):
            return _PRECEDENCE[op]
        case Unary():
            return _UNARY
        case Literal(value=value) if type(value) in (int, float) and str(value).startswith("-"):
            return _UNARY
    return _MEMBER


def _join(left: str, right: str, indent: int) -> str:
    """Return both, on two lines if the first ends with a comment."""
    if right and left.endswith(_END):
        return f"{left}\n{' ' * indent}{right.lstrip()}"
    return left + right


def _lines(parts: Sequence[str], indent: int) -> str:
    return f"\n{' ' * indent}".join(parts)


def _column(text: str, column: int) -> int:
    """Return where the last line of a text ends whose first line begins at ``column``."""
    last = text.rfind("\n")
    return column + len(text) if last < 0 else len(text) - last - 1


def _literal(written: str, value: bool | float | str) -> str:
    """Return a literal: decimal ints, the shortest double, double quotes if the text has none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quote(written, value)
    return repr(value)
