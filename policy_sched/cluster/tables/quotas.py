"""Quotas: what pods use of what objects of an input grant, as a tree.

Theory of operation. An object is a node of the tree. Pods count at the node of their key, in an
aggregate; a key that has no object counts too, so that an object which comes later costs nothing.
A node keeps what it does not lend: its nominal amounts less ``lends``. What it uses beyond that
counts at its parent too. A change of a pod or an object is carried up from its node, in time
proportional to the depth.

Where parents add (``caps`` is False) the nominal amounts of a node are its own and what its
children lend. Where they cap, the children share what the parent has; what a child keeps counts
at the parent as if it were used.

What the queued pods ask for besides counts in a second aggregate, once a rule reads it. Fair shares
are worked out from the root down, for all nodes together.

Pods that are counted besides, as in a dry run, are differences by node, which follow the same way
up. Nothing is written for them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeAlias

import msgspec

from policy_sched.cluster.tables.aggregates import (
    BOUND,
    MAX_RESOURCES,
    QUEUED,
    Aggregate,
    Contribution,
    OtherPod,
)
from policy_sched.cluster.tables.dependencies import ANY
from policy_sched.cluster.tables.inputs import InputTable
from policy_sched.cluster.tables.schema import MAX_SUM
from policy_sched.model import PodInfo, quantity_text

Resources: TypeAlias = Mapping[str, int]

MAX_DEPTH: Final = 8
"""Levels of a tree; a node below them counts as a root."""
MAX_NODES: Final = 10_000
"""Nodes of a tree; objects of further ones are left out."""
WHOLE: Final = 1000
"""Weights and shares are in thousandths."""
MAX_WEIGHT: Final = 10**12
"""Greater weights count as this one."""
INFINITE: Final = 2**63 - 1
"""The share of a node of weight 0 that borrows."""


class Grant(msgspec.Struct, frozen=True):
    """What an object says of its node.

    A resource that is not in ``limit``, ``lends`` or ``borrows`` has no limit there. ``weight`` is
    in thousandths. ``problem``: why an amount could not be computed.
    """

    nominal: Resources = {}
    limit: Resources = {}
    lends: Resources = {}
    borrows: Resources = {}
    parent: str = ""
    weight: int = WHOLE
    priority: int = 0
    problem: str = ""


def weight_in_thousandths(weight: float) -> int:
    """Return a weight as an int; 0 for one that is negative or no number."""
    return round(WHOLE * min(weight, MAX_WEIGHT)) if weight > 0 else 0


NOTHING_GRANTED: Final = Grant()


class _Node:
    """A node of the tree, with what its pods and those below it use."""

    __slots__ = ("below", "children", "grant", "key", "kind", "own", "parent", "record", "used")

    def __init__(self, key: str = "", kind: int = 0) -> None:
        self.key = key
        self.kind = kind
        """0 where pods may count to it, else 1: parents have a kind of their own."""
        self.record: Any = None
        self.grant = NOTHING_GRANTED
        self.parent: _Node | None = None
        self.children: dict[_Node, None] = {}
        self.own: dict[str, int] = {}
        """What pods of its own key use."""
        self.used: dict[str, int] = {}
        self.below: dict[str, int] = {}
        """What its children lend, or, where parents cap, what they keep."""


_Over: TypeAlias = dict[_Node, dict[str, int]]
"""How much more nodes use than is kept."""
_NOWHERE: Final = _Node()


def _add(amounts: dict[str, int], name: str, amount: int) -> None:
    """Add to an amount; one that becomes 0 is left out."""
    total = amounts.get(name, 0) + amount
    if total:
        amounts[name] = total
    else:
        amounts.pop(name, None)


def _sum(first: Resources, second: Resources | None) -> dict[str, int]:
    total = dict(first)
    for name, amount in (second or {}).items():
        _add(total, name, amount)
    return total


class _Tree:
    """The nodes with their amounts, and what follows from them; ``caps``: parents do not add."""

    def __init__(self, *, caps: bool) -> None:
        self.caps = caps

    def nominal(self, node: _Node, name: str) -> int:
        """Return what a node has: its own, and what its children lend."""
        own = node.grant.nominal.get(name, 0)
        return own if self.caps else own + node.below.get(name, 0)

    def kept(self, node: _Node, name: str) -> int:
        """Return how much of it others may not use."""
        lends = node.grant.lends.get(name)
        return 0 if lends is None else max(0, self.nominal(node, name) - lends)

    def carried(self, node: _Node, name: str, used: int) -> tuple[int, int]:
        """Return what counts at the parent as used, and what is added to its ``below``."""
        kept = self.kept(node, name)
        if self.caps:
            return max(used, kept), max(node.below.get(name, 0), kept)
        return max(0, used - kept), self.nominal(node, name) - kept

    def carry(self, node: _Node | None, used: Resources, below: Resources) -> None:
        """Let a node use more, and have more below it, and all nodes above it."""
        while node is not None and (used or below):
            if node.parent is None:  # for speed: nothing is carried further
                for amounts, changes in ((node.used, used), (node.below, below)):
                    for name, amount in changes.items():
                        total = amounts.get(name, 0) + amount
                        if total:
                            amounts[name] = total
                        else:
                            amounts.pop(name, None)
                return
            more: dict[str, int] = {}
            lent: dict[str, int] = {}
            for name in {**used, **below}:
                before = self.carried(node, name, node.used.get(name, 0))
                _add(node.used, name, used.get(name, 0))
                _add(node.below, name, below.get(name, 0))
                after = self.carried(node, name, node.used.get(name, 0))
                _add(more, name, after[0] - before[0])
                _add(lent, name, after[1] - before[1])
            node, used, below = node.parent, more, lent

    def overlay(self, over: _Over, node: _Node | None, used: Resources) -> None:
        """Do as `carry` in differences."""
        while node is not None and used:
            more: dict[str, int] = {}
            differences = over.setdefault(node, {})
            for name, amount in used.items():
                before = node.used.get(name, 0) + differences.get(name, 0)
                _add(differences, name, amount)
                after = self.carried(node, name, before + amount)[0]
                _add(more, name, after - self.carried(node, name, before)[0])
            node, used = node.parent, more

    def attach(self, node: _Node, parent: _Node | None, sign: int = 1) -> None:
        """Make a node a child; ``sign`` -1: no longer."""
        if parent is None:
            return
        names = {**node.used, **node.grant.nominal, **node.below}
        carried = {name: self.carried(node, name, node.used.get(name, 0)) for name in names}
        used = {name: sign * up for name, (up, _) in carried.items() if up}
        below = {name: sign * up for name, (_, up) in carried.items() if up}
        self.carry(parent, used, below)
        if sign > 0:
            parent.children[node] = None
            node.parent = parent
        else:
            del parent.children[node]
            node.parent = None

    def asked(self, node: _Node, name: str, own: _Amounts, out: dict[_Node, int]) -> int:
        """Return what a node may use if all pods of ``own`` run; ``out`` has those below, too."""
        below = [
            self.carried(child, name, self.asked(child, name, own, out))[0]
            for child in node.children
        ]
        total = own.get(node, {}).get(name, 0) + sum(below)
        borrows, limit = node.grant.borrows.get(name), node.grant.limit.get(name)
        if node.parent is not None and borrows is not None:
            total = min(total, self.nominal(node, name) + borrows)
        if limit is not None:
            total = min(total, limit)
        out[node] = max(0, total)
        return out[node]

    def demand(self, node: _Node, name: str, own: _Amounts) -> int:
        """Return what counts at a node if all pods of ``own`` run, limits or no."""
        below = (self.carried(c, name, self.demand(c, name, own))[0] for c in node.children)
        return own.get(node, {}).get(name, 0) + sum(below)

    def share_out(  # what there is, and what is asked of each node
        self,
        node: _Node,
        name: str,
        fair: int,
        own: _Amounts,
        asked: Mapping[_Node, int],
        out: _Over,
    ) -> None:
        """Let a node have its fair share, and share it out below: its own pods come first."""
        out.setdefault(node, {})[name] = fair
        if not node.children:
            return
        rest = max(0, fair - own.get(node, {}).get(name, 0))
        children = sorted(node.children, key=_order_of)
        claims = [self.carried(child, name, asked[child])[0] for child in children]
        granted = [min(self.nominal(child, name), asked[child]) for child in children]
        sure = [
            self.carried(child, name, amount)[0]
            for child, amount in zip(children, granted, strict=True)
        ]
        for child, part in zip(children, _divided(rest, children, claims, sure), strict=True):
            most = asked[child]
            got = part if self.caps else part + min(self.kept(child, name), most)
            self.share_out(child, name, min(got, most), own, asked, out)


_Amounts: TypeAlias = Mapping[_Node, Resources]


def _order_of(node: _Node) -> tuple[int, str]:
    return node.kind, node.key


def _divided(
    amount: int, nodes: Sequence[_Node], claims: Sequence[int], sure: Sequence[int]
) -> list[int]:
    """Return the parts of nodes: what is surely theirs, then the rest by priority and weight.

    Where the amount does not hold what is surely theirs, it is divided in proportion to that.
    """
    rest = amount - sum(sure)
    if rest < 0:
        return _filled(amount, sure, sure)
    parts = [*sure]
    for priority in sorted({node.grant.priority for node in nodes}, reverse=True):
        here = [i for i, node in enumerate(nodes) if node.grant.priority == priority]
        asked = [claims[i] - sure[i] for i in here]
        more = _filled(rest, asked, [nodes[i].grant.weight for i in here])
        rest -= sum(more)
        for i, part in zip(here, more, strict=True):
            parts[i] += part
    return parts


def _filled(amount: int, asked: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Divide an amount by weight; no part is more than was asked (water filling).

    What is left over by rounding goes to the first parts of which more was asked, one unit each.
    """
    parts = [0] * len(asked)
    asking = [i for i, most in enumerate(asked) if most > 0 and weights[i] > 0]
    asking.sort(key=lambda i: Fraction(asked[i], weights[i]))
    total = sum(weights[i] for i in asking)
    for position, i in enumerate(asking):
        if asked[i] * total > amount * weights[i]:
            others = sorted(asking[position:])
            for j in others:
                parts[j] = amount * weights[j] // total
            for j in others[: amount - sum(parts[j] for j in others)]:
                parts[j] += 1
            break
        parts[i] = asked[i]
        amount -= asked[i]
        total -= weights[i]
    return parts


def _up(node: _Node | None) -> Iterator[_Node]:
    """Yield a node and its ancestors."""
    while node is not None:
        yield node
        node = node.parent


class QuotaState(msgspec.Struct):
    """A quota as rules see it; without an object nothing is granted, and nothing counted.

    ``limit``: a resource that is not in it has none. Amounts are computed when they are read.
    """

    _quotas: Any = None
    _node: _Node = _NOWHERE
    _over: _Over = {}
    _apart: PodInfo | None = None
    _others: Iterable[OtherPod] = ()
    _demand: tuple[tuple[_Node, Resources], ...] = ()

    def _at(self, node: _Node) -> QuotaState:
        return QuotaState(self._quotas, node, self._over, self._apart, self._others, self._demand)

    @property
    def name(self) -> str:
        """The key."""
        return self._node.key

    @property
    def exists(self) -> bool:
        """Whether there is an object."""
        return self._node.record is not None

    @property
    def object(self) -> Any:
        """The object's record, None where there is none."""
        return self._node.record

    @property
    def used(self) -> Resources:
        """What its pods use, and what those below it use beyond what is kept there."""
        used: Resources = self._node.used
        if self._over:
            used = _sum(used, self._over.get(self._node))
        elif not self._node.children and (
            self._node.record is not self._quotas or max(used.values(), default=0) <= MAX_SUM
        ):
            return used  # for speed: there is nothing to bound
        return {n: min(MAX_SUM, amount) for n, amount in used.items()}

    @property
    def nominal(self) -> Resources:
        """What is its own; where parents add, with what its children lend."""
        node = self._node
        if not node.below or (self._quotas is not None and self._quotas.tree.caps):
            return node.grant.nominal
        return _sum(node.grant.nominal, node.below)

    @property
    def limit(self) -> Resources:
        """What it may use at most."""
        return self._node.grant.limit

    @property
    def weight(self) -> float:
        """How much of what is shared beyond nominal amounts is its, against others."""
        return self._node.grant.weight / WHOLE

    @property
    def priority(self) -> int:
        """What comes first where amounts beyond the nominal ones are shared."""
        return self._node.grant.priority

    @property
    def borrowed(self) -> Resources:
        """What is used beyond the nominal amounts."""
        nominal = self.nominal
        beyond = {name: used - nominal.get(name, 0) for name, used in self.used.items()}
        return {name: amount for name, amount in beyond.items() if amount > 0}

    @property
    def path(self) -> Sequence[QuotaState]:
        """The node and its ancestors; nothing where there is no object."""
        return [self._at(node) for node in _up(self._node)] if self.exists else []

    def _used(self, node: _Node, name: str) -> int:
        return node.used.get(name, 0) + self._over.get(node, {}).get(name, 0)

    def _names(self) -> list[str]:
        """Return the resources that this node or one above it grants, or that are used."""
        names: dict[str, None] = {}
        for node in _up(self._node):
            for amounts in (node.grant.nominal, node.below, node.used, self._over.get(node, {})):
                names.update(dict.fromkeys(amounts))
        return list(names)

    def _tree(self) -> _Tree:
        quotas: Quotas | None = self._quotas
        assert quotas is not None, "there are quotas where a quota exists"
        return quotas.tree

    @property
    def available(self) -> Resources:
        """What it may still use, borrowing included; below 0 in debt."""
        return {name: self._available(name) for name in self._names()}

    def _available(self, name: str) -> int:
        tree, room = self._tree(), 0
        for node in reversed([*_up(self._node)]):
            used, nominal = self._used(node, name), tree.nominal(node, name)
            if node.parent is None:
                room = nominal - used
            else:
                kept, borrows = tree.kept(node, name), node.grant.borrows.get(name)
                if borrows is not None:
                    room = min(room, nominal - kept - max(0, used - kept) + borrows)
                room += max(0, kept - used)
            limit = node.grant.limit.get(name)
            if limit is not None:
                room = min(room, limit - used)
        return room

    def _most(self, node: _Node, name: str) -> int:
        """Return what a node could use if nothing was used; what others keep is left out."""
        tree, most = self._tree(), 0
        for at in reversed([*_up(node)]):
            nominal, below = tree.nominal(at, name), at.below.get(name, 0) if tree.caps else 0
            most = nominal if at.parent is None else most + max(below, tree.kept(at, name))
            borrows, limit = at.grant.borrows.get(name), at.grant.limit.get(name)
            if at.parent is not None and borrows is not None:
                most = min(most, nominal + borrows)
            if limit is not None:
                most = min(most, limit)
            most -= below
        return most

    def height(self, request: Resources) -> int:
        """Return how far up a request borrows: 0 if the nominal amounts still hold it.

        Else the height of the lowest ancestor whose nominal amounts hold what those below have not
        free, or that of the root. The greatest of the resources counts.
        """
        node = self._reached(request)
        quotas: Quotas | None = self._quotas
        return 0 if quotas is None or node is self._node else quotas.heights()[node]

    def reaches(self, request: Resources) -> QuotaState:
        """Return the node of that height: the quota itself, or that ancestor."""
        return self._at(self._reached(request))

    def _reached(self, request: Resources) -> _Node:
        if not self.exists:
            return self._node
        tree, path = self._tree(), [*_up(self._node)]
        highest = 0
        for name, amount in request.items():
            rest = amount
            for level, node in enumerate(path):
                used = self._used(node, name)
                if rest <= 0 or node.parent is None or used + rest <= tree.nominal(node, name):
                    highest = max(highest, level)
                    break
                rest -= max(0, tree.kept(node, name) - used)
        return path[highest]

    def lacking(self, request: Resources) -> Resources:
        """Return what a request does not get, by resource."""
        room = self.available if self.exists else {}
        rest = {name: amount - max(0, room.get(name, 0)) for name, amount in request.items()}
        return {name: amount for name, amount in rest.items() if amount > 0}

    def with_request(self, request: Resources) -> QuotaState:
        """Return the quota as it were if a request counted, too."""
        if not self.exists:
            return self
        over = {node: dict(amounts) for node, amounts in self._over.items()}
        self._tree().overlay(over, self._node, request)
        demand = (*self._demand, (self._node, request))
        return QuotaState(self._quotas, self._node, over, self._apart, self._others, demand)

    def without_request(self, request: Resources) -> QuotaState:
        """Return the quota as if so much less were used."""
        return self.with_request({name: -amount for name, amount in request.items()})

    @property
    def share(self) -> int:
        """How much it borrows of what its parent could lend, by weight, in thousandths.

        The greatest of the resources counts. 0 for a root and where nothing is borrowed; the
        greatest int for one of weight 0 that borrows; -1, by weight, where the parent could lend
        nothing of what is borrowed.
        """
        node, borrowed = self._node, self.borrowed
        if node.parent is None or not borrowed:
            return 0
        weight, greatest = node.grant.weight, -1
        if not weight:
            return INFINITE
        for name, amount in borrowed.items():
            most = self._most(node.parent, name)
            if most > 0:
                greatest = max(greatest, amount * WHOLE // most)
        share = abs(greatest) * WHOLE // weight
        return min(INFINITE, -share if greatest < 0 else share)

    @property
    def dominant(self) -> float:
        """The greatest part of the cluster that it uses, of any resource, from 0 to 1."""
        if self._quotas is None:
            return 0.0
        capacity = self._quotas.capacity
        parts = ((used, capacity(name)) for name, used in self.used.items())
        return max((used / total for used, total in parts if total > 0), default=0.0)

    def _own_demand(self) -> dict[_Node, Resources]:
        assert self._quotas is not None, "there are quotas where a quota exists"
        own: dict[_Node, Resources] = self._quotas.demanded(self._apart, self._others)
        for node, request in self._demand:
            own[node] = _sum(own.get(node, {}), request)
        return own

    @property
    def demand(self) -> Resources:
        """What counts here if all queued pods ran, too."""
        if self._quotas is None:
            return {}
        own, tree = self._own_demand(), self._tree()
        if self._node is self._quotas.whole:
            total: Counter[str] = Counter()
            for amounts in own.values():
                total.update(amounts)
            return {name: min(MAX_SUM, amount) for name, amount in total.items() if amount}
        names = dict.fromkeys(name for amounts in own.values() for name in amounts)
        if tree.caps:
            names.update(dict.fromkeys(self._names()))
        demand = {name: tree.demand(self._node, name, own) for name in names}
        return {name: min(MAX_SUM, amount) for name, amount in demand.items() if amount}

    @property
    def fair(self) -> Resources:
        """Its fair share: min(nominal, demand), then the rest by priority and weight."""
        if self._quotas is None:
            return {}
        fair: Mapping[_Node, Resources] = self._quotas.fair(self._own_demand())
        amounts = fair.get(self._node, {})
        return {name: min(MAX_SUM, amount) for name, amount in amounts.items() if amount}

    @property
    def saturation(self) -> float:
        """The greatest part of its fair share that it uses; infinite where it has none."""
        used = {name: amount for name, amount in self.used.items() if amount > 0}
        if not used:
            return 0.0
        fair = self.fair
        return max(
            amount / fair[name] if fair.get(name) else math.inf for name, amount in used.items()
        )


NO_QUOTA: Final = QuotaState()


class _Used(Aggregate):
    """What pods use by key; ``carry`` takes a change of what is read of a key.

    Changes of keys of which not all is read are carried when a rule reads the next number.
    """

    def __init__(
        self, contribute: Any, carry: Callable[[Any, Resources], None], **depends: Any
    ) -> None:
        super().__init__("sumOfResources", frozenset({BOUND}), contribute, **depends)
        self._carry = carry
        self.stale: dict[Any, None] = {}
        """Keys whose sums are to be carried."""
        self._cut: set[Any] = set()
        """Keys of which not all is read."""

    def start(self, row_of: Mapping[str, int], n: int) -> None:
        """Forget all pods."""
        self.stale.update(dict.fromkeys(self.all_keys()))
        self._cut.clear()
        super().start(row_of, n)

    def _count(self, own: Contribution, sign: int) -> None:
        # For speed: the tree has what all keys use together, and a change is carried as it is.
        key, value = own.key, own.value
        self.version += 1
        if self.readers:
            self.changed(key)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = [0, self._make()]
        cell[0] += sign
        cell[1].change(sign, value)
        if not cell[0]:
            del self._cells[key]
        sums = cell[1].amounts
        if key in self._cut or len(sums) > MAX_RESOURCES or (sums and max(sums.values()) > MAX_SUM):
            self._cut.add(key)
            self.stale[key] = None
        else:
            self._carry(key, value if sign > 0 else {n: -amount for n, amount in value.items()})


class QuotaKind(msgspec.Struct, frozen=True):
    """Objects that are nodes: ``input`` is the identity of their input.

    ``publish``: numbers of the quota, each with the path in the object that shows it. ``shown``
    returns what an object shows, in that order; None where that cannot be read.
    """

    input: str
    objects: InputTable
    grant: Callable[[Any], Grant]
    publish: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shown: Callable[[Any], Sequence[Any]] = lambda _record: ()


class Quotas:
    """The quotas of one entry of a policy's ``quotas``.

    ``key_of``: the key of a pod, "" for none. ``kinds``: the objects that pods count to, and those
    of parents where these have a kind of their own. ``capacity``: the sum of a resource over all
    nodes of the cluster. ``caps``: see above. ``shares_cluster``: fair shares of roots are parts of
    the capacity; else a root shares out its nominal amounts. ``depends``: see `Aggregate`.
    """

    def __init__(
        self,
        key_of: Callable[[PodInfo], str],
        kinds: Sequence[QuotaKind],
        capacity: Callable[[str], int],
        *,
        caps: bool = False,
        shares_cluster: bool = False,
        **depends: Any,
    ) -> None:
        self.key_of = key_of
        self.kinds = tuple(kinds)
        self._capacity = capacity
        self._capacities: dict[str, int] = {}
        """Those that were read since they changed last."""
        self.tree = _Tree(caps=caps)
        self.used = _Used(self._contribute, self._carry_change, **depends)
        self.shares_cluster = shares_cluster
        self._wanted: Aggregate | None = None
        self._depends = depends
        self._fair: tuple[Any, _Over] | None = None
        self.count: Callable[[Aggregate], None] = lambda _: None
        """Called with the aggregate of what pods ask for when a rule first reads it."""
        self.version = 0
        """How many objects or capacities changed."""
        self.tell: Callable[[str, str, str], None] = lambda _input, _key, _why: None
        """Called with input, key and reason where an object counts otherwise than it says; a reason
        "" says that it does so no longer."""
        self._nodes: tuple[dict[str, _Node], ...] = tuple({} for _ in self.kinds)
        self._refused: dict[tuple[int, str], None] = {}
        """Objects beyond `MAX_NODES`."""
        self._cut: dict[_Node, str] = {}
        """Nodes that are roots though they name a parent, and why."""
        self._heights: dict[_Node, int] = {}
        self.nested = False
        """Whether an object named a parent, so that what one uses may change what others have."""
        self.whole = _Node()
        """Stands for all quotas together."""
        self.whole.record = self
        self._granted = -1
        """The version of what all grant together."""
        for number, given in enumerate(self.kinds):
            for key in given.objects.by_key:
                self._read(number, key)
        self._link_all()

    @property
    def objects(self) -> InputTable:
        """The objects that pods count to."""
        return self.kinds[0].objects

    def _contribute(self, pod: PodInfo, _row: int) -> Contribution | None:
        key = self.key_of(pod)
        return Contribution(key, pod.requests) if key else None

    def tree_of(self, pod: PodInfo) -> str | None:
        """Return the name of the tree that a pod counts in; None where its key has no object."""
        return self.tree_of_key(self.key_of(pod))

    def tree_of_key(self, key: str) -> str | None:
        """Return the name of the tree of a key; None where it has no object."""
        node = self._nodes[0].get(key)
        if node is None or node.record is None:
            return None
        *_, root = _up(node)
        return f"{root.kind}/{root.key}"

    # The tree.

    @property
    def problems(self) -> dict[tuple[str, str], str]:
        """By input and key, why objects count otherwise than they say."""
        problems: dict[tuple[str, str], str] = {}
        for number, key in self._refused:
            problems[self.kinds[number].input, key] = _TOO_MANY
        for number, nodes in enumerate(self._nodes):
            for key, node in nodes.items():
                why = self._cut.get(node) or node.grant.problem
                if why:
                    problems[self.kinds[number].input, key] = why
        return problems

    @property
    def excesses(self) -> dict[tuple[str, str], str]:
        """By input and key, which objects grant more than can be used, and why.

        What is above the object's own limit, and where parents cap, above what the parent has.
        """
        excesses: dict[tuple[str, str], str] = {}
        for given, nodes in zip(self.kinds, self._nodes, strict=True):
            for key, node in nodes.items():
                limit, own = node.grant.limit, node.grant.nominal
                above = [
                    f"its nominal {_amount(name, amount)} is above its limit, {_text(name, limit)}"
                    for name, amount in own.items()
                    if name in limit and amount > limit[name]
                ]
                if self.tree.caps and node.children:
                    below: Counter[str] = Counter()
                    for child in node.children:
                        below.update(child.grant.nominal)
                    above += [
                        f"what its children have, {_amount(name, amount)}, is above its own,"
                        f" {_text(name, own)}"
                        for name, amount in below.items()
                        if amount > own.get(name, 0)
                    ]
                if above and node.record is not None:
                    excesses[given.input, key] = "; ".join(above)
        return excesses

    def object_changed(self, identity: str, key: str) -> None:
        """The object of a key of an input came, changed or went."""
        for number, given in enumerate(self.kinds):
            if given.input == identity:
                self._change(number, key)

    def capacity(self, name: str) -> int:
        """Return the sum of a resource over all nodes of the cluster; its readers are told."""
        total = self._capacities[name] = self._capacity(name)
        return total

    def cached_object_changed(self, name: str) -> None:
        """A node or namespace changed: the cache has those objects, by name."""
        if any(self._capacity(read) != total for read, total in self._capacities.items()):
            self._capacities.clear()
            self.version += 1
            self.used.changed(ANY)
        for number, given in enumerate(self.kinds):
            if type(given.objects.by_key) is not dict:
                self._change(number, name)

    def _change(self, number: int, key: str) -> None:
        """Read an object anew, and move its node if that is wanted: alone where it can be."""
        nodes = self._nodes[number]
        node = nodes.get(key)
        parent = None if node is None else node.parent
        before = NOTHING_GRANTED if node is None else node.grant
        existed = node is not None and node.record is not None
        if node is not None:
            self.tree.attach(node, parent, -1)
        node = self._read(number, key)
        if node is None:
            return
        exists = node.record is not None
        if exists == existed and node.grant.parent == before.parent:
            self.tree.attach(node, parent)
            return
        self._heights.clear()
        implied = parent is not None and parent.record is None and not parent.children
        if node.children or self._cut or implied:
            self._link_all()
        elif not exists:
            del nodes[key]
        else:
            parent = self._stated_parent(node)
            if parent is node or sum(1 for _ in _up(parent)) >= MAX_DEPTH:
                self._link_all()
            else:
                self.tree.attach(node, parent)
        if not exists and self._refused:
            self._change(*next(iter(self._refused)))

    def _read(self, number: int, key: str) -> _Node | None:
        """Read the object of a key; return its node, None if there is none."""
        given, nodes = self.kinds[number], self._nodes[number]
        record, node = given.objects.by_key.get(key), nodes.get(key)
        self.version += 1
        if (number, key) in self._refused:
            del self._refused[number, key]
            self.tell(given.input, key, "")
        if node is None:
            if record is None:
                return None
            if sum(map(len, self._nodes)) >= MAX_NODES:
                self._refused[number, key] = None
                self.tell(given.input, key, _TOO_MANY)
                return None
            node = nodes[key] = _Node(key, number)
        if not number and (node.record is None) != (record is None):
            self.used.stale[key] = None
        if record is None:
            self._count(node, {})
        node.record = record
        node.grant = NOTHING_GRANTED if record is None else given.grant(record)
        self.nested = self.nested or bool(node.grant.parent)
        why = self._cut.get(node, node.grant.problem)
        if why and record is not None:
            self.tell(given.input, key, why)
        return node

    def _stated_parent(self, node: _Node) -> _Node | None:
        """Return the node that an object names as parent; without an object it grants nothing."""
        key, number = node.grant.parent, len(self._nodes) - 1
        if not key or node.record is None:
            return None
        nodes = self._nodes[number]
        if key not in nodes and sum(map(len, self._nodes)) < MAX_NODES:
            nodes[key] = _Node(key, number)
        return nodes.get(key)

    def _link_all(self) -> None:
        """Build the tree anew: nodes of a circle, and those too deep, are roots."""
        for nodes in self._nodes:
            for key, node in [*nodes.items()]:
                node.parent, node.children = None, {}
                node.used, node.below = dict(node.own), {}
                if node.record is None:
                    del nodes[key]
        self._heights.clear()
        objects = [node for nodes in self._nodes for node in nodes.values()]
        parents = {node: self._stated_parent(node) for node in objects}
        cut, depths = _cut(parents)
        for node in sorted(depths, key=depths.__getitem__, reverse=True):
            self.tree.attach(node, None if node in cut else parents.get(node))
        told, self._cut = self._cut, cut
        for node in told.keys() - cut.keys():
            self.tell(self.kinds[node.kind].input, node.key, "")
        for node, why in cut.items():
            if told.get(node) != why:
                self.tell(self.kinds[node.kind].input, node.key, why)

    def heights(self) -> Mapping[_Node, int]:
        """Return how many levels are below each node."""
        if not self._heights:
            for nodes in self._nodes:
                for node in nodes.values():
                    for height, above in enumerate(_up(node)):
                        self._heights[above] = max(height, self._heights.get(above, 0))
        return self._heights

    # What is used.

    def _count(self, node: _Node, own: dict[str, int]) -> None:
        """Let what pods of a node's key use be this."""
        before, node.own = node.own, own
        more = dict(own)
        for name, amount in before.items():
            more[name] = more.get(name, 0) - amount
        self.tree.carry(node, more, {})
        self.tree.carry(self.whole, more, {})

    def _carry_change(self, key: Any, more: Resources) -> None:
        """Let pods of a key use more."""
        node = self._nodes[0].get(key)
        if node is None or node.record is None:
            return
        own, every, used = node.own, self.whole.used, node.used
        alone = node.parent is None
        for name, amount in more.items():
            own[name] = at_node = own.get(name, 0) + amount
            every[name] = in_all = every.get(name, 0) + amount
            if not at_node:
                del own[name]
            if not in_all:
                del every[name]
            if alone:  # for speed: nothing is carried further
                used[name] = total = used.get(name, 0) + amount
                if not total:
                    del used[name]
        if not alone:
            self.tree.carry(node, more, {})

    def _carry(self) -> None:
        """Carry up what could not be carried as it changed."""
        changed, self.used.stale = self.used.stale, {}
        for key in changed:
            node = self._nodes[0].get(key)
            if node is not None and node.record is not None:
                self._count(node, self.used.value(key))

    def _differences(
        self, apart: PodInfo | None, others: Iterable[OtherPod], total: _Node | None = None
    ) -> _Over:
        """Return how nodes differ without a pod and with changes of others; see `Aggregate`."""
        over: _Over = {}
        for node, amounts in self._changes(self.used, apart, others):
            self.tree.overlay(over, total or node, amounts)
        return over

    def _changes(
        self, of: Aggregate, apart: PodInfo | None, others: Iterable[OtherPod]
    ) -> Iterator[tuple[_Node, Resources]]:
        """Yield nodes with what pods of their key differ by; see `_differences`."""
        counted, uid = of.counted, "" if apart is None else apart.uid
        changes = [(-1, counted.get(uid))]
        for sign, pod, row in others:
            own = counted.get(pod.uid)
            if pod.uid != uid:
                if sign > 0:
                    own = None if own is not None else self._contribute(pod, row)
                changes.append((sign, own))
        for sign, own in changes:
            node = None if own is None else self._nodes[0].get(str(own.key))
            if own is not None and node is not None and node.record is not None:
                yield node, {name: sign * amount for name, amount in own.value.items()}

    # What is asked for.

    @property
    def wanted(self) -> Aggregate:
        """What pods on nodes use and queued pods ask for, by key; counted from the first read."""
        if self._wanted is None:
            sources = frozenset({BOUND, QUEUED})
            self._wanted = Aggregate("sumOfResources", sources, self._contribute, **self._depends)
            self.count(self._wanted)
        return self._wanted

    def demanded(
        self, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()
    ) -> dict[_Node, Resources]:
        """Return by node what pods of its own key ask for, bound ones too."""
        own: dict[_Node, Resources] = {}
        wanted = self.wanted
        for key in wanted.all_keys():
            node = self._nodes[0].get(key)
            if node is not None and node.record is not None:
                own[node] = wanted.value(key)
        for node, amounts in self._changes(wanted, apart, others):
            own[node] = _sum(own.get(node, {}), amounts)
        return own

    def fair(self, own: _Amounts) -> _Over:
        """Return the fair shares of all nodes where pods of their own keys ask for this."""
        state = self.version, own
        if self._fair is not None and self._fair[0] == state:
            return self._fair[1]
        fair: _Over = {}
        names = sorted({name for amounts in own.values() for name in amounts})
        nodes = (node for below in self._nodes for node in below.values())
        roots = sorted((node for node in nodes if node.parent is None), key=_order_of)
        for name in names:
            asked: dict[_Node, int] = {}
            claims = [self.tree.asked(root, name, own, asked) for root in roots]
            granted = [self.tree.nominal(root, name) for root in roots]
            parts = [min(amounts) for amounts in zip(claims, granted, strict=True)]
            if self.shares_cluster:
                parts = _divided(self.capacity(name), roots, claims, parts)
            for root, part in zip(roots, parts, strict=True):
                self.tree.share_out(root, name, part, own, asked, fair)
            fair.setdefault(self.whole, {})[name] = sum(parts)
        self._fair = (self.version, own), fair  # after capacities were read
        return fair

    def state(
        self, key: str, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()
    ) -> QuotaState:
        """Return the quota of a key, without a pod and with changes of others."""
        if self.used.stale:
            self._carry()
        node = self._nodes[0].get(key)
        if node is None or node.record is None:
            return NO_QUOTA
        counted = others or (apart is not None and apart.uid in self.used.counted)
        over = self._differences(apart, others) if counted else {}
        return QuotaState(self, node, over, apart, others)

    def state_of(self, number: int, key: str) -> QuotaState:
        """Return the quota of a key of the objects of that number in ``kinds``, as it is now."""
        if self.used.stale:
            self._carry()
        node = self._nodes[number].get(key)
        return NO_QUOTA if node is None or node.record is None else QuotaState(self, node)

    def total(self, apart: PodInfo | None = None, others: Iterable[OtherPod] = ()) -> QuotaState:
        """Return all quotas together; a resource has no limit."""
        if self.used.stale:
            self._carry()
        if self._granted != self.version:
            granted: Counter[str] = Counter()
            for nodes in self._nodes:
                for node in nodes.values():
                    if not self.tree.caps or node.parent is None:
                        granted.update(node.grant.nominal)
            self.whole.grant = Grant(dict(granted))
            self._granted = self.version
        counted = others or (apart is not None and apart.uid in self.used.counted)
        over = self._differences(apart, others, self.whole) if counted else {}
        return QuotaState(self, self.whole, over, apart, others)


def _text(name: str, amounts: Resources) -> str:
    return quantity_text(name, amounts.get(name, 0))


def _amount(name: str, amount: int) -> str:
    return f"{name} {quantity_text(name, amount)}"


_TOO_MANY: Final = f"there are more than {MAX_NODES} quotas"


def _cut(parents: Mapping[_Node, _Node | None]) -> tuple[dict[_Node, str], dict[_Node, int]]:
    """Return nodes that have to be roots, with the reason, and the level of each node."""
    cut: dict[_Node, str] = {}
    levels: dict[_Node, int] = {}
    for node in parents:
        path: dict[_Node, None] = {}
        at: _Node | None = node
        while at is not None and at not in levels and at not in path:
            path[at] = None
            at = parents.get(at)
        ways = [*path]
        if at is not None and at in path:
            circle = ways[ways.index(at) :]
            least = min(range(len(circle)), key=lambda i: circle[i].key)
            names = [node.key for node in (*circle[least:], *circle[:least], circle[least])]
            text = " -> ".join(names if len(names) <= _SHOWN else [*names[:_SHOWN], "..."])
            cut |= dict.fromkeys(circle, f"its parents are a circle: {text}; it counts as a root")
            levels |= dict.fromkeys(circle, 1)
            ways = ways[: len(ways) - len(circle)]
        level = 0 if at is None else levels[at]
        for above in reversed(ways):
            level += 1
            if level > MAX_DEPTH:
                cut[above] = f"it has more than {MAX_DEPTH - 1} ancestors; it counts as a root"
                level = 1
            levels[above] = level
    return cut, levels


_SHOWN: Final = 8
"""Names of a circle that are told."""
