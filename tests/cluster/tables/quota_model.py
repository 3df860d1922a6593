"""What a tree of quotas is by its definitions: all amounts from all objects and pods, each time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from policy_sched.cluster.tables.quotas import INFINITE, MAX_DEPTH, Grant


class Place(NamedTuple):
    """A node of the model: the number of its kind, and its key."""

    kind: int
    key: str


class Model:
    """All amounts from the objects and pods, by the definitions and nothing that is kept."""

    def __init__(
        self,
        objects: list[dict[str, Grant]],
        pods: Iterable[tuple[str, Mapping[str, int]]],
        *,
        caps: bool,
    ) -> None:
        self.caps = caps
        self.grants = {
            Place(kind, key): grant
            for kind, known in enumerate(objects)
            for key, grant in known.items()
        }
        above = len(objects) - 1
        self.stated = {
            place: Place(above, grant.parent)
            for place, grant in self.grants.items()
            if grant.parent
        }
        circles = {place for place in self.stated if self._returns(place)}
        self.parents = {p: q for p, q in self.stated.items() if p not in circles}
        for place in sorted(self.parents, key=lambda p: len(self.up(p))):
            if len(self.up(place)) > MAX_DEPTH:  # nearer to the root first
                del self.parents[place]
        self.pods = [(Place(0, key), amounts) for key, amounts in pods]

    def _returns(self, place: Place) -> bool:
        """Return whether the way up comes back to where it began."""
        at = self.stated.get(place)
        for _ in range(len(self.stated) + 1):
            if at is None or at == place:
                return at == place
            at = self.stated.get(at)
        return False

    def up(self, place: Place) -> list[Place]:
        """Return a node and its ancestors."""
        way = [place]
        while way[-1] in self.parents:
            way.append(self.parents[way[-1]])
        return way

    def children(self, place: Place) -> list[Place]:
        """Return the nodes below a node."""
        return [child for child, parent in self.parents.items() if parent == place]

    def grant(self, place: Place) -> Grant:
        """Return what an object says; one that is not there says nothing."""
        return self.grants.get(place, Grant())

    def names(self) -> set[str]:
        """Return the resources that anything is said of."""
        granted = {name for grant in self.grants.values() for name in grant.nominal}
        return granted | {name for _, amounts in self.pods for name in amounts}

    def nominal(self, place: Place, name: str) -> int:
        """Return what a node has."""
        own = self.grant(place).nominal.get(name, 0)
        if self.caps:
            return own
        lent = (self.nominal(c, name) - self.kept(c, name) for c in self.children(place))
        return own + sum(lent)

    def kept(self, place: Place, name: str) -> int:
        """Return what of it nobody else gets."""
        lends = self.grant(place).lends
        return max(0, self.nominal(place, name) - lends[name]) if name in lends else 0

    def used(self, place: Place, name: str) -> int:
        """Return what counts at a node."""
        total = 0
        if place in self.grants:
            total = sum(amounts.get(name, 0) for at, amounts in self.pods if at == place)
        for child in self.children(place):
            used, kept = self.used(child, name), self.kept(child, name)
            total += max(used, kept) if self.caps else max(used - kept, 0)
        return total

    def available(self, place: Place, name: str) -> int:
        """Return what a node may still use."""
        used, nominal = self.used(place, name), self.nominal(place, name)
        grant = self.grant(place)
        if place in self.parents:
            kept = self.kept(place, name)
            lent = self.available(self.parents[place], name)
            if name in grant.borrows:
                lent = min(lent, nominal + grant.borrows[name] - max(used, kept))
            room = max(0, kept - used) + lent
        else:
            room = nominal - used
        return min(room, grant.limit[name] - used) if name in grant.limit else room

    def most(self, place: Place, name: str) -> int:
        """Return what a node could use if nobody used anything."""
        if self.caps:
            others = Model([{}, {}], [], caps=True)
            others.grants, others.parents = self.grants, self.parents
            return others.available(place, name)
        grant, nominal = self.grant(place), self.nominal(place, name)
        most = nominal
        if place in self.parents:
            most = self.kept(place, name) + self.most(self.parents[place], name)
            most = min(most, nominal + grant.borrows.get(name, most))
        return min(most, grant.limit.get(name, most))

    def _own(self, place: Place, name: str) -> int:
        if place not in self.grants:
            return 0
        return sum(amounts.get(name, 0) for at, amounts in self.pods if at == place)

    def _claim(self, place: Place, name: str, amount: int) -> int:
        """Return what counts at the parent of what a node has."""
        kept = self.kept(place, name)
        return max(amount, kept) if self.caps else max(amount - kept, 0)

    def asks(self, place: Place, name: str) -> int:
        """Return what a node may use of what its pods ask for."""
        below = (self._claim(c, name, self.asks(c, name)) for c in self.children(place))
        asks, grant = self._own(place, name) + sum(below), self.grant(place)
        if place in self.parents and name in grant.borrows:
            asks = min(asks, self.nominal(place, name) + grant.borrows[name])
        return max(0, min(asks, grant.limit.get(name, asks)))

    def fair(self, place: Place, name: str, capacity: int | None = None) -> int:
        """Return the fair share of a node; ``pods`` are those that ask."""
        asks = self.asks(place, name)
        granted = min(self.nominal(place, name), asks)
        if place not in self.parents:
            if capacity is None:
                return granted
            roots = sorted({*self.grants, *self.parents.values()} - {*self.parents})
            claims = {root: self.asks(root, name) for root in roots}
            sure = {root: min(claims[root], self.nominal(root, name)) for root in roots}
            return self._parts(capacity, claims, sure)[place]
        parent = self.parents[place]
        rest = max(0, self.fair(parent, name, capacity) - self._own(parent, name))
        children = sorted(self.children(parent))
        asked = {child: self.asks(child, name) for child in children}
        claims = {child: self._claim(child, name, asked[child]) for child in children}
        sure = {
            child: self._claim(child, name, min(self.nominal(child, name), asked[child]))
            for child in children
        }
        part = self._parts(rest, claims, sure)[place]
        return min(asks, part if self.caps else part + min(self.kept(place, name), asks))

    def _parts(
        self, amount: int, claims: dict[Place, int], sure: dict[Place, int]
    ) -> dict[Place, int]:
        if sum(sure.values()) > amount:
            return _poured(amount, sure, sure)
        parts = dict(sure)
        for priority in sorted({self.grant(place).priority for place in claims})[::-1]:
            here = [place for place in claims if self.grant(place).priority == priority]
            more = {place: claims[place] - sure[place] for place in here}
            weights = {place: self.grant(place).weight for place in here}
            for place, part in _poured(amount - sum(parts.values()), more, weights).items():
                parts[place] += part
        return parts

    def share(self, place: Place) -> int:
        """Return Kueue's share."""
        over = {
            name: self.used(place, name) - self.nominal(place, name)
            for name in self.names()
            if self.used(place, name) > self.nominal(place, name)
        }
        if place not in self.parents or not over:
            return 0
        if not self.grant(place).weight:
            return INFINITE
        most = {name: self.most(self.parents[place], name) for name in over}
        parts = [int(Fraction(1000 * over[n], most[n])) for n in over if most[n] > 0]
        return int(Fraction(1000 * max(parts, default=-1), self.grant(place).weight))

    def height(self, place: Place, request: Mapping[str, int]) -> int:
        """Return how far up a request borrows."""
        at = self.reaches(place, request)
        return 0 if at == place else self._height(at)

    def reaches(self, place: Place, request: Mapping[str, int]) -> Place:
        """Return the place that holds a request, the highest of its resources."""
        reached = [place]
        for name, amount in request.items():
            if not amount:
                continue
            rest, at = amount, place
            while at in self.parents and self.used(at, name) + rest > self.nominal(at, name):
                rest -= max(0, self.kept(at, name) - self.used(at, name))
                at = self.parents[at]
            reached.append(at)
        return max(reached, key=self.up(place).index)

    def _height(self, place: Place) -> int:
        return max((1 + self._height(child) for child in self.children(place)), default=0)


def _poured(
    amount: int, asked: Mapping[Place, int], weights: Mapping[Place, int]
) -> dict[Place, int]:
    """Raise the level until nothing is left; vessels are as wide as their weights."""
    parts = dict.fromkeys(asked, 0)
    open_ones = [place for place in asked if asked[place] and weights[place]]
    while open_ones:
        level = Fraction(amount - sum(parts.values()), sum(weights[p] for p in open_ones))
        full = [place for place in open_ones if asked[place] <= level * weights[place]]
        if not full:
            parts |= {place: int(level * weights[place]) for place in open_ones}
            break
        parts |= {place: asked[place] for place in full}
        open_ones = [place for place in open_ones if place not in full]
    for place in sorted(open_ones)[: amount - sum(parts.values())]:
        parts[place] += 1
    return parts
