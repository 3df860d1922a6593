"""Prints an expression in its canonical form, with its comments.

Theory of operation. The text is parsed and printed from its tree: on one line if it fits, else
broken after ``&&``, ``||`` and commas and before ``?`` and ``:``, each step indented by two. Only
those places, called slots, may have lines of their own: operands of ``&&`` and ``||``, the three
parts of a conditional, arguments, elements, keys of a map, and the whole. A comment belongs behind
the slot that it follows on its line, or before the next one; of slots that begin or end at the same
place, to the outermost, so that printing changes nothing about it. Parentheses are printed where
precedence needs them, and where the source has them around ``&&`` inside ``||``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from policy_sched.language.syntax import ast, children, comments, parse, quote

_BEGIN_WITH_A_PART: Final = (
    ast.AndExpr,
    ast.OrExpr,
    ast.CondExpr,
    ast.Binary,
    ast.Select,
    ast.IndexExpr,
    ast.MethodExpr,
)
_END_WITH_A_PART: Final = (ast.AndExpr, ast.OrExpr, ast.CondExpr, ast.Binary, ast.Unary)


class CommentPlaces:
    """The comments of a text; ``before`` and ``behind`` hold those of slots, by node identity."""

    def __init__(self, text: str, root: ast.Node) -> None:
        self.text = text
        self.before: dict[int, list[str]] = defaultdict(list)
        self.behind: dict[int, list[str]] = defaultdict(list)
        for start, end in comments(text):
            self._attach(root, start, text[start:end].rstrip())

    def _attach(self, root: ast.Node, start: int, comment: str) -> None:
        slots, inside, above = self._slots_around(root, start)
        own_line = not self.text[self.text.rfind("\n", 0, start) + 1 : start].strip()
        position = bisect_right([slot.span.start for slot in slots], start)
        previous = slots[position - 1] if position else None
        if previous is not None and (not own_line or (position == len(slots) and not inside)):
            slot = _outermost(previous, above, -1)
            following = _following(slot, above, start) if self.behind[id(slot)] else None
            if following is None:
                self.behind[id(slot)].append(comment)
            else:
                self.before[id(following)].append(comment)
            return
        target = slots[min(position, len(slots) - 1)]
        if previous is not None and inside and own_line:
            target = previous
        self.before[id(_outermost(target, above, 0))].append(comment)

    def _slots_around(
        self, root: ast.Node, at: int
    ) -> tuple[Sequence[ast.Node], bool, list[ast.Node]]:
        """Return the slots of the innermost node around ``at`` that has any.

        Also return whether ``at`` is inside one of them, in a part that cannot be broken, and
        return the nodes above those slots, outermost first.
        """
        slots: Sequence[ast.Node] = (root,)
        node: ast.Node | None = root if root.span.start < at < root.span.end else None
        inside = node is not None
        path: list[ast.Node] = []
        above: list[ast.Node] = []
        while node is not None:
            path.append(node)
            own = _slots(node, at)
            if own:
                slots, inside, above = own, False, list(path)
            within = [c for c in below(node) if c.span.start < at < c.span.end]
            inside = inside or bool(within)
            # A key stays on one line: what is in it is not looked into.
            keys = node.keys if isinstance(node, ast.MapExpr) else ()
            node = None if not within or any(within[0] is key for key in keys) else within[0]
        return slots, inside, above


def below(node: ast.Node) -> tuple[ast.Node, ...]:
    """Return a node's children; a chain within a chain of the same operator is one with it."""
    if not isinstance(node, ast.AndExpr | ast.OrExpr):
        return children(node)
    flat: list[ast.Node] = []
    for arg in node.args:
        flat += below(arg) if type(arg) is type(node) else (arg,)
    return tuple(flat)


def _slots(node: ast.Node, at: int) -> tuple[ast.Node, ...]:
    """Return the parts of a node that may stand on lines of their own around ``at``."""
    match node:
        case ast.AndExpr() | ast.OrExpr() | ast.CondExpr() | ast.CallExpr() | ast.ListExpr():
            return below(node)
        case ast.MapExpr(keys=keys):
            return keys
        case ast.MethodExpr(args=args) if at > node.name_span.end:
            return args
    return ()


def _outermost(slot: ast.Node, above: list[ast.Node], side: int) -> ast.Node:
    """Return the outermost slot that begins (0) or ends (-1) with ``slot``; see `_slots_around`.

    Where a part begins or ends that is no slot, it is the slot around it.
    """
    open_there = _BEGIN_WITH_A_PART if side == 0 else _END_WITH_A_PART
    best = current = slot
    for i in range(len(above) - 1, -1, -1):
        parent = above[i]
        reaches = isinstance(parent, open_there) and below(parent)[side] is current
        if not reaches and best is current:
            break
        current = parent
        if i == 0 or any(current is other for other in _slots(above[i - 1], slot.span.start)):
            best = current
    return best


def _following(slot: ast.Node, above: list[ast.Node], at: int) -> ast.Node | None:
    """Return the slot behind ``slot`` in the node that both belong to; None if it is the last."""
    for node in above:
        slots = _slots(node, at)
        for element, following in pairwise(slots):
            if element is slot:
                return following
    return None


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
"""Marks the end of a comment: the next token goes to the next line."""


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

    def __init__(self, text: str, root: ast.Node, *, plain: bool = False) -> None:
        self.text = text
        self._plain = plain
        places = CommentPlaces(text, root)
        self.before, self.behind = places.before, places.behind

    def _quiet(self, node: ast.Node) -> bool:
        """Return whether a node has no comment in or beside it."""
        if self.before.get(id(node)) or self.behind.get(id(node)):
            return False
        return all(self._quiet(child) for child in below(node))

    # One line.

    def flat(self, node: ast.Node, least: int) -> str:
        """Return a node on one line, in parentheses if it binds less than ``least``."""
        text = self._flat(node)
        return f"({text})" if _binding(node) < least else text

    def _flat(self, node: ast.Node) -> str:
        match node:
            case ast.AndExpr() | ast.OrExpr():
                op = " && " if isinstance(node, ast.AndExpr) else " || "
                return op.join(self.flat(arg, self._least(node, arg)) for arg in below(node))
            case ast.CondExpr():
                test, then = self.flat(node.test, _OR), self.flat(node.then, _OR)
                return f"{test} ? {then} : {self.flat(node.otherwise, _COND)}"
            case ast.Binary(op=op):
                binds = _PRECEDENCE[op]
                return f"{self.flat(node.left, binds)} {op} {self.flat(node.right, binds + 1)}"
            case ast.MapExpr():
                return "{" + ", ".join(self._entry(node, i) for i in range(len(node.keys))) + "}"
            case ast.ListExpr():
                return (
                    "[" + ", ".join(self._element(node, i) for i in range(len(node.optional))) + "]"
                )
            case ast.CallExpr(name=name, args=args):
                return f"{name}({', '.join(self.flat(arg, _COND) for arg in args)})"
            case ast.MethodExpr(target=target, name=name, args=args):
                shown = ", ".join(self.flat(arg, _COND) for arg in args)
                return f"{self.flat(target, _MEMBER)}.{name}({shown})"
        return self._atom(node)

    def _atom(self, node: ast.Node) -> str:
        match node:
            case ast.Literal():
                return _literal(self.text[node.span.start : node.span.end], node.value)
            case ast.Select(operand=operand, name=name):
                shown = f"`{name}`" if node.quoted else name
                return f"{self.flat(operand, _MEMBER)}{'.?' if node.optional else '.'}{shown}"
            case ast.IndexExpr(operand=operand, index=index):
                shown = ("?" if node.optional else "") + self.flat(index, _COND)
                return f"{self.flat(operand, _MEMBER)}[{shown}]"
            case ast.Unary():
                signs, operand = _signs(node)
                return signs + self.flat(operand, _MEMBER)
        return self.text[node.span.start : node.span.end]

    def _element(self, node: ast.ListExpr, i: int) -> str:
        return ("?" if node.optional[i] else "") + self.flat(node.elements[i], _COND)

    def _entry(self, node: ast.MapExpr, i: int) -> str:
        key = ("?" if node.optional[i] else "") + self.flat(node.keys[i], _COND)
        return f"{key}: {self.flat(node.values[i], _COND)}"

    def _least(self, chain: ast.AndExpr | ast.OrExpr, arg: ast.Node) -> int:
        """Return how tightly an operand of ``&&`` or ``||`` must bind to need no parentheses."""
        grouped = isinstance(chain, ast.OrExpr) and isinstance(arg, ast.AndExpr)
        if grouped and not self._plain and self._in_parentheses(arg):
            return _RELATION
        return _AND if isinstance(chain, ast.AndExpr) else _OR

    def _in_parentheses(self, node: ast.Node) -> bool:
        before, behind = self.text[: node.span.start], self.text[node.span.end :]
        return before.rstrip()[-1:] == "(" and behind.lstrip()[:1] == ")"

    # Several lines.

    def slot(
        self,
        node: ast.Node,
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

    def _notes(self, node: ast.Node, indent: int) -> str:
        """Return the comments before a slot, each on a line of its own."""
        return "".join(f"{note}\n{' ' * indent}" for note in self.before.get(id(node), ()))

    def lay(self, node: ast.Node, column: int, indent: int, least: int, extra: int = 0) -> str:
        """Return a node that begins at ``column``: on one line if it fits, else broken."""
        if all(self._quiet(child) for child in below(node)):
            flat = self.flat(node, least)
            if column + len(flat) + extra <= WIDTH:
                return flat
        if _binding(node) < least:
            inner = self.lay(node, column + 1, indent + STEP, _COND, extra + 1)
            return _join(f"({inner}", ")", indent)
        match node:
            case ast.AndExpr() | ast.OrExpr():
                return self._chain(node, column, indent)
            case ast.CondExpr():
                return self._conditional(node, column, indent)
            case ast.Binary():
                return self._binary(node, column, indent, extra)
            case ast.CallExpr(name=name, args=args):
                return self._brackets(f"{name}(", args, ")", column, indent)
            case ast.MethodExpr(target=target, name=name, args=args):
                head = _join(self.lay(target, column, indent, _MEMBER), f".{name}(", indent)
                return self._brackets(head, args, ")", column, indent)
            case ast.ListExpr(elements=elements):
                return self._brackets("[", elements, "]", column, indent, node.optional)
            case ast.MapExpr():
                return self._map(node, indent)
        return self._laid_atom(node, column, indent)

    def _laid_atom(self, node: ast.Node, column: int, indent: int) -> str:
        match node:
            case ast.Select(operand=operand, name=name):
                head = self.lay(operand, column, indent, _MEMBER)
                shown = f"`{name}`" if node.quoted else name
                return _join(head, f"{'.?' if node.optional else '.'}{shown}", indent)
            case ast.IndexExpr(operand=operand, index=index):
                head = self.lay(operand, column, indent, _MEMBER)
                head = _join(head, "[?" if node.optional else "[", indent)
                inner = self.lay(index, _column(head, column), indent + STEP, _COND, 1)
                return _join(head + inner, "]", indent)
            case ast.Unary():
                signs, operand = _signs(node)
                return signs + self.lay(operand, column + len(signs), indent, _MEMBER)
        return self._atom(node)

    def _chain(self, node: ast.AndExpr | ast.OrExpr, column: int, indent: int) -> str:
        op = " &&" if isinstance(node, ast.AndExpr) else " ||"
        parts = []
        args = below(node)
        for i, arg in enumerate(args):
            separator = op if i + 1 < len(args) else ""
            at = column if i == 0 else indent
            parts.append(self.slot(arg, at, indent, self._least(node, arg), separator))
        return _lines(parts, indent)

    def _binary(self, node: ast.Binary, column: int, indent: int, extra: int) -> str:
        """Break behind the operator if both sides fit then, else within them."""
        binds, inner = _PRECEDENCE[node.op], indent + STEP
        left = self.lay(node.left, column, indent, binds, len(node.op) + 1)
        right = self.lay(node.right, inner, inner, binds + 1, extra)
        if "\n" not in left and "\n" not in right:
            return f"{left} {node.op}\n{' ' * inner}{right}"
        left = _join(left, f" {node.op} ", indent)
        return left + self.lay(node.right, _column(left, column), indent, binds + 1, extra)

    def _conditional(self, node: ast.CondExpr, column: int, indent: int) -> str:
        inner = indent + STEP
        parts = [self.slot(node.test, column, indent, _OR)]
        branches = ((node.then, "? ", _OR), (node.otherwise, ": ", _COND))
        for branch, sign, least in branches:
            notes = self._notes(branch, inner)
            # A condition after `:` is one more branch of this one, not one further in.
            chained = isinstance(branch, ast.CondExpr) and least == _COND
            deeper = indent if chained else inner + STEP
            shown = self.slot(branch, inner + STEP, deeper, least, noted=True)
            parts.append(f"{notes}{sign}{shown}")
        return _lines(parts, inner)

    def _brackets(
        self,
        head: str,
        items: Sequence[ast.Node],
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

    def _map(self, node: ast.MapExpr, indent: int) -> str:
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


def _signs(node: ast.Unary) -> tuple[str, ast.Node]:
    """Return a sign and its operand; a row of equal signs is shortened by pairs."""
    count, operand = 1, node.operand
    while isinstance(operand, ast.Unary) and operand.op == node.op:
        count, operand = count + 1, operand.operand
    return node.op * (1 if count % 2 else 2), operand


def _binding(node: ast.Node) -> int:
    match node:
        case ast.CondExpr():
            return _COND
        case ast.OrExpr():
            return _OR
        case ast.AndExpr():
            return _AND
        case ast.Binary(op=op):
            return _PRECEDENCE[op]
        case ast.Unary():
            return _UNARY
        case ast.Literal(value=value) if type(value) in (int, float) and str(value).startswith("-"):
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
