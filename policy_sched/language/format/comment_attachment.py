"""Which part of an expression each of its comments belongs to.

Theory of operation. Slots are the parts that may stand on lines of their own: operands of ``&&``
and ``||``, the three parts of a conditional, arguments, elements, keys of a map, and the whole. A
comment belongs behind the slot that it follows on its line, or before the next one; of slots that
begin or end at the same place, to the outermost, so that printing changes nothing about it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from policy_sched.language.syntax import (
    AndExpr,
    Binary,
    CallExpr,
    CondExpr,
    IndexExpr,
    ListExpr,
    MapExpr,
    MethodExpr,
    Node,
    OrExpr,
    Select,
    Unary,
    children,
    comments,
)

_BEGIN_WITH_A_PART: Final = (AndExpr, OrExpr, CondExpr, Binary, Select, IndexExpr, MethodExpr)
_END_WITH_A_PART: Final = (AndExpr, OrExpr, CondExpr, Binary, Unary)


class CommentPlaces:
    """The comments of a text; ``before`` and ``behind`` hold those of slots, by node identity."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.before: dict[int, list[str]] = defaultdict(list)
        self.behind: dict[int, list[str]] = defaultdict(list)
        for start, end in comments(text):
            self._attach(root, start, text[start:end].rstrip())

    def _attach(self, root: Node, start: int, comment: str) -> None:
        slots, inside, above = self._slots_around(root, start)
        own_line = not self.text[self.text.rfind("\n", 0, start) + 1 : start].strip()
        place = bisect_right([slot.span.start for slot in slots], start)
        previous = slots[place - 1] if place else None
        if previous is not None and (not own_line or (place == len(slots) and not inside)):
            slot = _outermost(previous, above, -1)
            following = _following(slot, above, start) if self.behind[id(slot)] else None
            if following is None:
                self.behind[id(slot)].append(comment)
            else:
                self.before[id(following)].append(comment)
            return
        target = slots[min(place, len(slots) - 1)]
        if previous is not None and inside and own_line:
            target = previous
        self.before[id(_outermost(target, above, 0))].append(comment)

    def _slots_around(self, root: Node, at: int) -> tuple[Sequence[Node], bool, list[Node]]:
        """Return the slots of the innermost node around ``at`` that has any.

        Also tell whether ``at`` is inside one of them, in a part that cannot be broken, and
        return the nodes above those slots, outermost first.
        """
        slots: Sequence[Node] = (root,)
        node: Node | None = root if root.span.start < at < root.span.end else None
        inside = node is not None
        path: list[Node] = []
        above: list[Node] = []
        while node is not None:
            path.append(node)
            own = _slots(node, at)
            if own:
                slots, inside, above = own, False, list(path)
            within = [c for c in below(node) if c.span.start < at < c.span.end]
            inside = inside or bool(within)
            # A key stays on one line: what is in it is not looked into.
            keys = node.keys if isinstance(node, MapExpr) else ()
            node = None if not within or any(within[0] is key for key in keys) else within[0]
        return slots, inside, above


def below(node: Node) -> tuple[Node, ...]:
    """Return a node's children; a chain within a chain of the same operator is one with it."""
    if not isinstance(node, AndExpr | OrExpr):
        return children(node)
    flat: list[Node] = []
    for arg in node.args:
        flat += below(arg) if type(arg) is type(node) else (arg,)
    return tuple(flat)


def _slots(node: Node, at: int) -> tuple[Node, ...]:
    """Return the parts of a node that may stand on lines of their own around ``at``."""
    match node:
        case AndExpr() | OrExpr() | CondExpr() | CallExpr() | ListExpr():
            return below(node)
        case MapExpr(keys=keys):
            return keys
        case MethodExpr(args=args) if at > node.name_span.end:
            return args
    return ()


def _outermost(slot: Node, above: list[Node], side: int) -> Node:
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
        if i == 0 or any(current is one for one in _slots(above[i - 1], slot.span.start)):
            best = current
    return best


def _following(slot: Node, above: list[Node], at: int) -> Node | None:
    """Return the slot behind ``slot`` in the node that both belong to; None if it is the last."""
    for node in above:
        slots = _slots(node, at)
        for one, following in pairwise(slots):
            if one is slot:
                return following
    return None
