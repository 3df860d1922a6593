"""Kueue's rules for admission and preemption, written again, each of some rules may be left out.

It serves to say why a policy decides otherwise than Kueue did: a difference is attributed to the
rules without which this model decides as the policy does. With all rules it decides as was
recorded. Amounts are by flavor and resource: cpu in thousandths, others in whole units.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from policy_sched.model import units

FlavorResource = tuple[str, str]
Amounts = dict[FlavorResource, int]

RULES: Final[Mapping[str, str]] = {
    "d": "a head that waits for room holds it",
    "f": "two heads of a cycle share no victim",
    "rounds": "heads are decided against one state, then in order",
    "g": "attempts of preemption, with borrowing and without",
    "i": "the order goes level by level",
    "j": "the next victim by shares that change",
    "partial": "fewer pods are admitted where not all fit",
    "fault": "victims are subtracted from the queue that asks",
}
"""The rules that can be left out."""
GREATEST: Final = 2**63 - 1
NO, NOBODY, PREEMPT, RECLAIM, FITS = range(5)


@dataclass(eq=False)
class Node:
    """A ClusterQueue or a Cohort."""

    name: str
    spec: dict[str, Any] = field(default_factory=dict)
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    own: Amounts = field(default_factory=dict)
    lends: Amounts = field(default_factory=dict)
    borrows: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    queue: bool = False
    left: int = 0
    """How many workloads left the queue."""

    def __post_init__(self) -> None:
        self._quota: Amounts = {}
        for group in self.spec.get("resourceGroups", ()):
            for flavor in group["flavors"]:
                for resource in flavor["resources"]:
                    at, name = (flavor["name"], resource["name"]), resource["name"]
                    self.own[at] = units(name, resource["nominalQuota"])
                    for amounts, key in (
                        (self.lends, "lendingLimit"),
                        (self.borrows, "borrowingLimit"),
                    ):
                        if key in resource:
                            amounts[at] = units(name, resource[key])
        weight = self.spec.get("fairSharing", {}).get("weight", "1")
        self.weight = units("cpu", weight)

    def quota(self, at: FlavorResource) -> int:
        """Return its own amount, and what its children lend."""
        known = self._quota.get(at)
        if known is None:
            lent = sum(child.quota(at) - child.kept(at) for child in self.children)
            known = self._quota[at] = self.own.get(at, 0) + lent
        return known

    def kept(self, at: FlavorResource) -> int:
        """Return what it does not lend."""
        lends = self.lends.get(at)
        return 0 if lends is None else max(0, self.quota(at) - lends)

    def usage(self, at: FlavorResource) -> int:
        """Return what it uses, and what its children use beyond what they keep."""
        above = sum(max(0, child.usage(at) - child.kept(at)) for child in self.children)
        return self.used.get(at, 0) + above

    def free_here(self, at: FlavorResource) -> int:
        """Return what is kept and not used."""
        return max(0, self.kept(at) - self.usage(at))

    def available(self, at: FlavorResource) -> int:
        """Return what may still be used."""
        quota, used = self.quota(at), self.usage(at)
        if self.parent is None:
            return quota - used
        room, kept = self.parent.available(at), self.kept(at)
        if at in self.borrows:
            room = min(room, quota - kept - max(0, used - kept) + self.borrows[at])
        return self.free_here(at) + room

    def most(self, at: FlavorResource) -> int:
        """Return what it could use if nobody used anything."""
        if self.parent is None:
            return self.quota(at)
        most = self.kept(at) + self.parent.most(at)
        return min(most, self.quota(at) + self.borrows[at]) if at in self.borrows else most

    @property
    def path(self) -> list[Node]:
        """The node and its ancestors."""
        return [self] if self.parent is None else [self, *self.parent.path]

    @property
    def queues(self) -> list[Node]:
        """The queues below it, or itself."""
        return [self] if self.queue else [q for child in self.children for q in child.queues]

    @property
    def levels(self) -> int:
        """The longest way down."""
        return (
            1 + max((child.levels for child in self.children), default=0) if not self.queue else 0
        )

    @property
    def resources(self) -> set[FlavorResource]:
        """What it or a node below it has."""
        return set(self.own).union(*(child.resources for child in self.children))

    def height(self, at: FlavorResource, amount: int) -> tuple[int, bool]:
        """Return how far up an amount borrows, and whether the holding subtree is a part."""
        rest = amount
        for node in self.path:
            if node.usage(at) + rest <= node.quota(at) or node.parent is None:
                return node.levels, node.parent is not None
            rest -= node.free_here(at)
        raise AssertionError("a path ends at a root")

    @property
    def share(self) -> int:
        """How much it borrows of what its parent could have at most, by weight."""
        if self.parent is None:
            return 0
        borrowed: dict[str, int] = {}
        for at in self.resources:
            beyond = self.usage(at) - self.quota(at)
            if beyond > 0:
                borrowed[at[1]] = borrowed.get(at[1], 0) + beyond
        if not borrowed:
            return 0
        if not self.weight:
            return GREATEST
        lendable: dict[str, int] = {}
        for at in self.path[-1].resources:
            lendable[at[1]] = lendable.get(at[1], 0) + self.parent.most(at)
        parts = [b * 1000 // lendable[r] for r, b in borrowed.items() if lendable.get(r, 0) > 0]
        greatest = max(parts, default=-1)
        share = abs(greatest) * 1000 // self.weight
        return share if greatest >= 0 else -share

    def add(self, amounts: Amounts, sign: int = 1) -> None:
        """Let its workloads use more."""
        for at, amount in amounts.items():
            self.used[at] = self.used.get(at, 0) + sign * amount

    def fits(self, amounts: Amounts) -> bool:
        """Return whether amounts are available."""
        return all(amount <= max(0, self.available(at)) for at, amount in amounts.items())


@dataclass(eq=False)
class Workload:
    """A workload: waiting, or admitted with what it uses."""

    name: str
    queue: Node
    pod_sets: list[dict[str, Any]]
    priority: int
    created: str
    uses: Amounts = field(default_factory=dict)
    reserved: str = ""
    evicted: bool = False
    parked: bool = False
    tried: dict[tuple[int, str], int] = field(default_factory=dict)
    """By pod set and resource the index of the flavor that was tried last, -1 after the last."""
    tried_at: int = -1


@dataclass
class Assignment:
    """Flavors of a workload's pod sets: ``mode`` is that of the worst."""

    mode: int = FITS
    height: int = 0
    uses: Amounts = field(default_factory=dict)
    lacking: set[FlavorResource] = field(default_factory=set)
    tried: dict[tuple[int, str], int] = field(default_factory=dict)
    pod_sets: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Entry:
    """A head in a cycle."""

    workload: Workload
    assignment: Assignment
    victims: list[Workload]


class Model:
    """Kueue with the objects of a record, without some rules."""

    def __init__(self, record: Mapping[str, Any], without: Iterable[str] = ()) -> None:
        self.without = frozenset(without)
        fair = record["config"].get("fairSharing", {})
        self.fair = bool(fair.get("enable"))
        self.strategies = fair.get("preemptionStrategies") or [
            "LessThanOrEqualToFinalShare",
            "LessThanInitialShare",
        ]
        self.record = record
        objects = record["objects"]
        by_kind = {
            kind: {o["metadata"]["name"]: o for o in objects if o["kind"] == kind}
            for kind in ("ResourceFlavor", "Cohort", "ClusterQueue", "LocalQueue")
        }
        self.flavors = {name: o["spec"] for name, o in by_kind["ResourceFlavor"].items()}
        self.local = {n: o["spec"]["clusterQueue"] for n, o in by_kind["LocalQueue"].items()}
        cohorts = {name: Node(name, o["spec"]) for name, o in by_kind["Cohort"].items()}
        self.queues = {
            name: Node(name, o["spec"], queue=True) for name, o in by_kind["ClusterQueue"].items()
        }
        for node in [*cohorts.values(), *self.queues.values()]:
            above = node.spec.get("cohort" if node.queue else "parentName", "")
            if above:
                node.parent = cohorts.setdefault(above, Node(above))
                node.parent.children.append(node)
        self.workloads: dict[str, Workload] = {}
        self.leaving: list[list[Workload]] = [[] for _ in range(record["evictionCycles"] + 1)]
        for manifest in objects:
            if manifest["kind"] == "Workload":
                self._add(manifest)

    # What happens.

    def cycles(self) -> Iterator[tuple[dict[str, dict[str, int]], list[str]]]:
        """Yield for each cycle what is admitted, with counts, and the victims."""
        number = 0
        for op in self.record["ops"]:
            if "add" in op:
                self._add(op["add"])
            elif "finish" in op:
                self._leave(op["finish"])
            else:
                yield self._cycle(number)
                number += 1

    def _add(self, manifest: dict[str, Any]) -> None:
        spec, meta = manifest["spec"], manifest["metadata"]
        queue = self.queues[self.local[spec["queueName"]]]
        workload = Workload(
            meta["name"], queue, spec["podSets"], spec.get("priority", 0), meta["creationTimestamp"]
        )
        self.workloads[workload.name] = workload
        admission = manifest.get("status", {}).get("admission")
        if admission:
            for pod_set in admission["podSetAssignments"]:
                for resource, amount in pod_set["resourceUsage"].items():
                    at = (pod_set["flavors"][resource], resource)
                    workload.uses[at] = workload.uses.get(at, 0) + units(resource, amount)
            (workload.reserved,) = (
                c["lastTransitionTime"]
                for c in manifest["status"]["conditions"]
                if c["type"] == "QuotaReserved"
            )
            conditions = {c["type"] for c in manifest["status"]["conditions"]}
            workload.evicted = "Evicted" in conditions
            queue.add(workload.uses)

    def _leave(self, name: str) -> None:
        workload = self.workloads.pop(name, None)
        if workload is None:
            return
        if workload.reserved:
            workload.queue.add(workload.uses, -1)
            workload.queue.left += 1
        self._wake(workload.queue)

    def _wake(self, queue: Node) -> None:
        tree = queue.path[-1]
        for other in self.workloads.values():
            other.parked = other.parked and other.queue.path[-1] is not tree

    def _cycle(self, number: int) -> tuple[dict[str, dict[str, int]], list[str]]:
        heads: dict[Node, Workload] = {}
        waiting = [w for w in self.workloads.values() if not w.reserved and not w.parked]
        for workload in sorted(waiting, key=lambda w: (-w.priority, w.created, w.name)):
            heads.setdefault(workload.queue, workload)
        admitted: dict[str, dict[str, int]] = {}
        taken: list[Workload] = []
        held: list[tuple[Node, Amounts]] = []
        again: set[str] = set()
        decided: dict[str, Assignment] = {}
        for entry in self._picked([*heads.values()], taken):
            outcome = self._process(entry, taken, held)
            workload = entry.workload
            decided[workload.name] = entry.assignment
            if outcome == "admitted":
                workload.uses, workload.reserved = entry.assignment.uses, f"cycle {number:04}"
                admitted[workload.name] = {p["name"]: p["count"] for p in entry.assignment.pod_sets}
            else:
                if outcome in ("skipped", "preempts"):
                    again.add(workload.name)
                    workload.tried = {}
                else:
                    workload.tried = entry.assignment.tried
                workload.tried_at = workload.queue.left
        for queue, amounts in held:
            queue.add(amounts, -1)
        if "rounds" in self.without:
            for victim in taken:
                victim.queue.add(victim.uses)
        for name in decided:
            workload = self.workloads[name]
            strict = workload.queue.spec.get("queueingStrategy") == "StrictFIFO"
            pending = any(index >= 0 for index in workload.tried.values())
            workload.parked = not (workload.reserved or strict or name in again or pending)
        marked = [v for v in dict.fromkeys(taken) if not v.evicted]
        for victim in marked:
            victim.evicted = True
            if len(self.leaving) > 1:
                victim.queue.left += 1
        self.leaving[-1] += marked
        leave, self.leaving = self.leaving[0], [*self.leaving[1:], []]
        for victim in leave:
            if self.workloads.get(victim.name) is victim:
                self._leave(victim.name)
                self.workloads[victim.name] = Workload(
                    victim.name, victim.queue, victim.pod_sets, victim.priority, victim.created
                )
        return admitted, [victim.name for victim in marked]

    def _process(
        self, entry: Entry, taken: list[Workload], held: list[tuple[Node, Amounts]]
    ) -> str:
        """Decide a head after those before it; return what becomes of it."""
        queue, assignment, victims = entry.workload.queue, entry.assignment, entry.victims
        if assignment.mode == NO:
            return "rejected"
        if assignment.mode != FITS and not victims:
            reclaim = queue.spec.get("preemption", {}).get("reclaimWithinCohort", "Never")
            if reclaim != "Any" and "d" not in self.without:
                reserved = self._reserved(queue, assignment)
                queue.add(reserved)
                held.append((queue, reserved))
            return "rejected"
        if "rounds" in self.without:
            for victim in victims:
                victim.queue.add(victim.uses, -1)
        else:
            if "f" not in self.without and any(victim in taken for victim in victims):
                return "skipped"
            with self._gone(queue, [*dict.fromkeys([*taken, *victims])]):
                fits = queue.fits(assignment.uses)
            if not fits:
                return "skipped"
        taken += victims
        queue.add(assignment.uses)
        if victims:
            held.append((queue, assignment.uses))
            return "preempts"
        return "admitted"

    def _reserved(self, queue: Node, assignment: Assignment) -> Amounts:
        reserved = {}
        for at, amount in assignment.uses.items():
            room = queue.own.get(at, 0) - queue.usage(at)
            if not assignment.height:
                reserved[at] = max(0, min(amount, room))
            elif at in queue.borrows:
                reserved[at] = max(0, min(amount, room + queue.borrows[at]))
            else:
                reserved[at] = amount
        return reserved

    def _gone(self, asks: Node, victims: Sequence[Workload]) -> _Gone:
        """Take victims off for a moment; by its fault from the queue that asks."""
        right = "fault" in self.without
        return _Gone([(v.queue if right else asks, v.uses) for v in victims])

    # The order.

    def _picked(self, heads: list[Workload], taken: list[Workload]) -> Iterator[Entry]:
        if "rounds" in self.without:
            while heads:
                key = self._fair_key if self.fair else self._height_key
                first = min(heads, key=lambda w: (key(w), -w.priority, w.created))
                heads.remove(first)
                yield self._entry(first)
            return
        entries = [self._entry(workload) for workload in heads]
        if not self.fair:
            entries.sort(
                key=lambda e: (e.assignment.height, -e.workload.priority, e.workload.created)
            )
            yield from entries
            return
        while entries:
            first_entry = self._winner(entries)
            entries.remove(first_entry)
            yield first_entry

    def _height_key(self, workload: Workload) -> int:
        amounts = _all_of(workload)
        return max(
            (workload.queue.height(at, amount)[0] for at, amount in amounts.items()), default=0
        )

    def _fair_key(self, workload: Workload) -> int:
        with _Gone([(workload.queue, _all_of(workload))], 1):
            return workload.queue.share

    def _winner(self, entries: list[Entry]) -> Entry:
        for entry in entries:
            if entry.workload.queue.parent is None:
                return entry
        shares: dict[tuple[int, Node], int] = {}
        for entry in entries:
            with _Gone([(entry.workload.queue, entry.assignment.uses)], 1):
                for node in entry.workload.queue.path[:-1]:
                    shares[id(entry), node] = node.share
        of_queue = {entry.workload.queue: entry for entry in entries}

        def key(node: Node, entry: Entry) -> tuple[int, int, str]:
            return shares[id(entry), node], -entry.workload.priority, entry.workload.created

        def best(node: Node) -> Entry | None:
            if node.queue:
                return of_queue.get(node)
            rivals = [(child, entry) for child in node.children if (entry := best(child))]
            return min(rivals, key=lambda pair: key(*pair))[1] if rivals else None

        root = entries[0].workload.queue.path[-1]
        if "i" in self.without:
            return min(entries, key=lambda e: key(e.workload.queue, e))
        winner = best(root)
        assert winner is not None
        return winner

    # Flavors.

    def _entry(self, workload: Workload) -> Entry:
        full = self._assign(workload, [p["count"] for p in workload.pod_sets])
        if full.mode == FITS:
            return Entry(workload, full, [])
        victims = self._victims(workload, full.uses, full.lacking) if full.mode != NO else []
        if victims or "partial" in self.without:
            return Entry(workload, full, victims)
        return self._reduced(workload) or Entry(workload, full, [])

    def _reduced(self, workload: Workload) -> Entry | None:
        """Return an entry with fewer pods: the smallest reduction that helps, by binary search."""
        counts = [p["count"] for p in workload.pod_sets]
        deltas = [
            count - p.get("minCount", count)
            for count, p in zip(counts, workload.pod_sets, strict=True)
        ]
        total = sum(deltas)
        if not total:
            return None
        low, high = 0, total + 1
        last: tuple[int, Entry] | None = None
        while low < high:
            middle = (low + high) // 2
            reduced = [c - d * middle // total for c, d in zip(counts, deltas, strict=True)]
            assignment = self._assign(workload, reduced)
            victims: list[Workload] = []
            if assignment.mode not in (FITS, NO):
                victims = self._victims(workload, assignment.uses, assignment.lacking)
            if assignment.mode == FITS or victims:
                last, high = (middle, Entry(workload, assignment, victims)), middle
            else:
                low = middle + 1
        return last[1] if last is not None and last[0] == low else None

    def _assign(self, workload: Workload, counts: Sequence[int]) -> Assignment:
        queue, result = workload.queue, Assignment()
        groups = queue.spec["resourceGroups"]
        pods = any("pods" in group["coveredResources"] for group in groups)
        start = workload.tried if workload.tried_at >= queue.left else {}
        for index, (pod_set, count) in enumerate(zip(workload.pod_sets, counts, strict=True)):
            wants = _requests(pod_set, count, pods=pods)
            chosen: dict[str, tuple[str, int]] = {}
            for resource in wants:
                if resource in chosen:
                    continue
                group = next((g for g in groups if resource in g["coveredResources"]), None)
                flavors = None
                if group is not None:
                    part = {r: a for r, a in wants.items() if r in group["coveredResources"]}
                    first = start.get((index, resource), -1) + 1
                    flavors = self._flavor(workload, pod_set, group, part, result, first)
                if flavors is None:
                    result.mode, result.tried = (
                        NO,
                        {k: v for k, v in result.tried.items() if k[0] != index},
                    )
                    return result
                name, modes, tried = flavors
                for each, (mode, height) in modes.items():
                    chosen[each] = name, mode
                    result.mode = min(result.mode, mode)
                    result.height = max(result.height, height)
                    result.tried[index, each] = tried
                    if mode != FITS:
                        result.lacking.add((name, each))
            for resource, (name, _) in chosen.items():
                at = (name, resource)
                result.uses[at] = result.uses.get(at, 0) + wants[resource]
            result.pod_sets.append({"name": pod_set["name"], "count": count})
        return result

    def _flavor(
        self,
        workload: Workload,
        pod_set: dict[str, Any],
        group: dict[str, Any],
        wants: dict[str, int],
        before: Assignment,
        first: int,
    ) -> tuple[str, dict[str, tuple[int, int]], int] | None:
        """Return the flavor of a group for a pod set, and by resource its mode and height."""
        fungibility = workload.queue.spec.get("flavorFungibility", {})
        borrow = fungibility.get("whenCanBorrow", "Borrow") == "Borrow"
        preempt = fungibility.get("whenCanPreempt", "TryNextFlavor") == "Preempt"
        names = [flavor["name"] for flavor in group["flavors"]]
        keys = {key for name in names for key in self.flavors[name].get("nodeLabels", {})}
        best: tuple[str, dict[str, tuple[int, int]]] | None = None
        best_rank, tried = (NO, False), -1
        for index in range(first, len(names)):
            name, tried = names[index], index
            if not _admits(self.flavors[name], pod_set["template"]["spec"], keys):
                continue
            modes = {
                resource: self._mode(
                    workload, (name, resource), amount + before.uses.get((name, resource), 0)
                )
                for resource, amount in wants.items()
            }
            mode, within = min((mode, not height) for mode, height in modes.values())
            borrows = not within
            if mode == FITS:
                stop = not borrows or borrow
            else:
                stop = mode in (PREEMPT, RECLAIM) and preempt and (not borrows or borrow)
            if stop:
                best = name, modes
                break
            if mode != NO and (best is None or (mode, within) > best_rank):
                best, best_rank = (name, modes), (mode, within)
        if best is None:
            return None
        return (*best, -1 if tried == len(names) - 1 else tried)

    def _mode(self, workload: Workload, at: FlavorResource, amount: int) -> tuple[int, int]:
        queue = workload.queue
        if amount > queue.most(at):
            return NO, 0
        height, smaller = queue.height(at, amount)
        if amount <= max(0, queue.available(at)):
            return FITS, height
        preemption = queue.spec.get("preemption", {})
        borrowing = preemption.get("borrowWithinCohort", {}).get("policy", "Never") != "Never"
        if self.fair:
            borrowing |= preemption.get("reclaimWithinCohort", "Never") != "Never"
        if not (amount <= queue.own.get(at, 0) or smaller or borrowing):
            return NO, 0
        victims = self._victims(workload, {at: amount}, {at})
        if not victims:
            return NOBODY, height
        with self._gone(queue, victims):
            height = queue.height(at, amount)[0]
        own = any(victim.queue is queue for victim in victims)
        return (PREEMPT if own else RECLAIM), height

    # Preemption.

    def _candidates(self, workload: Workload, lacking: set[FlavorResource]) -> list[Workload]:
        """Return who may be a victim, by the policies of the queue, in the order of victims."""
        preemption = workload.queue.spec.get("preemption", {})
        tree = workload.queue.path[-1]
        result = []
        for other in self.workloads.values():
            if not other.reserved or other.queue.path[-1] is not tree:
                continue
            if not any(other.uses.get(at, 0) > 0 for at in lacking):
                continue
            own = other.queue is workload.queue
            policy = preemption.get("withinClusterQueue" if own else "reclaimWithinCohort", "Never")
            lower = other.priority < workload.priority
            newer = other.priority == workload.priority and other.created > workload.created
            if (
                policy == "Any"
                or (policy != "Never" and lower)
                or (policy == "LowerOrNewerEqualPriority" and newer)
            ):
                result.append(other)
        result.sort(key=lambda w: w.name)
        result.sort(key=lambda w: w.reserved, reverse=True)
        result.sort(key=lambda w: (not w.evicted, w.priority))
        return result

    def _victims(
        self, workload: Workload, uses: Amounts, lacking: set[FlavorResource]
    ) -> list[Workload]:
        return (self._fair_victims if self.fair else self._classical_victims)(
            workload, uses, lacking
        )

    def _classical_victims(
        self, workload: Workload, uses: Amounts, lacking: set[FlavorResource]
    ) -> list[Workload]:
        queue = workload.queue
        way = _held_by(queue, {at: uses[at] for at in uses})
        ranks: dict[Workload, int] = {}
        kinds: dict[Workload, str] = {}
        borrow = queue.spec.get("preemption", {}).get("borrowWithinCohort", {})
        on = borrow.get("policy", "Never") != "Never"
        most = borrow.get("maxPriorityThreshold")
        for other in self._candidates(workload, lacking):
            if other.queue is queue:
                ranks[other], kinds[other] = 2, "own"
                continue
            if not _beyond(other.queue, queue, lacking):
                continue
            common = next(node for node in queue.path if node in other.queue.path)
            above = way is not None and way in queue.path[: queue.path.index(common)]
            if above:
                ranks[other], kinds[other] = 0, "above"
            else:
                lower = other.priority < workload.priority
                while_borrowing = on and lower and (most is None or other.priority <= most)
                ranks[other], kinds[other] = 1, "while" if while_borrowing else "unless"
        ordered = sorted(ranks, key=lambda w: (not w.evicted, ranks[w]))
        others = [w for w in ordered if kinds[w] != "own"]
        full = any(queue.usage(at) >= queue.own.get(at, 0) for at in lacking)
        if not others or (not on and full):
            attempts = [True]
        elif not on and not any(kinds[w] == "above" for w in others):
            attempts = [False, True]
        else:
            attempts = [True, False]
        if "g" in self.without:
            own = all(queue.usage(at) + a <= queue.quota(at) for at, a in uses.items())
            allowed = [w for w in ordered if own or kinds[w] != "unless"]
            return self._taken(queue, uses, lacking, allowed, borrowing=True, all_first=True)
        for borrowing in attempts:
            allowed = [w for w in ordered if not (borrowing and kinds[w] == "unless")]
            victims = self._taken(queue, uses, lacking, allowed, borrowing=borrowing)
            if victims:
                return victims
        return []

    def _taken(
        self,
        queue: Node,
        uses: Amounts,
        lacking: set[FlavorResource],
        candidates: Sequence[Workload],
        *,
        borrowing: bool,
        all_first: bool = False,
    ) -> list[Workload]:
        """Take candidates until the amounts fit, and give back in reverse while they still do."""

        def fits() -> bool:
            within = borrowing or all(
                queue.usage(at) + a <= queue.quota(at) for at, a in uses.items()
            )
            return within and queue.fits(uses)

        taken: list[Workload] = []
        for other in candidates:
            if other.queue is not queue and not _beyond(other.queue, queue, lacking):
                continue
            other.queue.add(other.uses, -1)
            taken.append(other)
            if not all_first and fits():
                break
        return self._given_back(taken, fits)

    def _given_back(self, taken: list[Workload], fits: Any) -> list[Workload]:
        """Give back what may stay, in reverse; all is as before when this returns."""
        victims = [*taken]
        if not taken or not fits():
            victims = []
        else:
            for other in reversed(taken):
                other.queue.add(other.uses)
                if fits():
                    victims.remove(other)
                else:
                    other.queue.add(other.uses, -1)
        for other in victims or taken:
            other.queue.add(other.uses)
        return victims

    def _fair_victims(
        self, workload: Workload, uses: Amounts, lacking: set[FlavorResource]
    ) -> list[Workload]:
        queue = workload.queue
        candidates = [
            other
            for other in self._candidates(workload, lacking)
            if other.queue is queue
            or any(other.queue.usage(at) > other.queue.own.get(at, 0) for at in lacking)
        ]
        taken: list[Workload] = []
        if "j" in self.without:
            return self._in_fixed_order(queue, uses, lacking, candidates)

        def fits() -> bool:
            with _Gone([(queue, uses)]):
                return queue.fits(uses)

        queue.add(uses)
        try:
            done, aside = self._first_rule(queue, candidates, taken, fits)
            if not done and len(self.strategies) > 1:
                done = self._second_rule(queue, aside, taken, fits)
            if not done:
                for other in taken:
                    other.queue.add(other.uses)
                return []
            return self._given_back(taken, fits)
        finally:
            queue.add(uses, -1)

    def _in_fixed_order(
        self,
        queue: Node,
        uses: Amounts,
        lacking: set[FlavorResource],
        candidates: Sequence[Workload],
    ) -> list[Workload]:
        """Ask of each candidate, the least important first, whether any of the rules takes it."""
        with _Gone([(queue, uses)], 1):
            shares = {node: node.share for node in queue.path}
        taken: list[Workload] = []
        for other in sorted(candidates, key=lambda w: (not w.evicted, w.queue is queue)):
            target = other.queue
            beyond = any(target.usage(at) > target.quota(at) for at in lacking)
            if target is not queue and not beyond:
                continue
            own, below = _below(queue, target)
            share, initial = shares[own], below.share
            target.add(other.uses, -1)
            if target is queue or any(
                share < initial if rule == "LessThanInitialShare" else share <= below.share
                for rule in self.strategies
            ):
                taken.append(other)
            else:
                target.add(other.uses)
        return self._given_back(taken, lambda: queue.fits(uses))

    def _first_rule(
        self, queue: Node, candidates: list[Workload], taken: list[Workload], fits: Any
    ) -> tuple[bool, list[Workload]]:
        final = self.strategies[0] == "LessThanOrEqualToFinalShare"
        aside: list[Workload] = []
        left = _by_queue(candidates)
        for target in _next_targets(queue, left):
            own, other = _below(queue, target)
            share, initial = own.share, other.share
            while left[target]:
                candidate = left[target].pop(0)
                target.add(candidate.uses, -1)
                holds = target is queue or (share <= other.share if final else share < initial)
                if holds:
                    taken.append(candidate)
                    if fits():
                        return True, aside
                    break
                target.add(candidate.uses)
                aside.append(candidate)
        return False, aside

    def _second_rule(
        self, queue: Node, aside: list[Workload], taken: list[Workload], fits: Any
    ) -> bool:
        left = _by_queue(aside)
        for target in _next_targets(queue, left):
            own, other = _below(queue, target)
            if own.share < other.share:
                candidate = left[target][0]
                target.add(candidate.uses, -1)
                taken.append(candidate)
                if fits():
                    return True
            left[target] = []
        return False


class _Gone:
    """Adds amounts to queues (takes them off) for as long as it is entered."""

    def __init__(self, changes: Sequence[tuple[Node, Amounts]], sign: int = -1) -> None:
        self._changes, self._sign = changes, sign

    def __enter__(self) -> None:
        for node, amounts in self._changes:
            node.add(amounts, self._sign)

    def __exit__(self, *_exception: object) -> None:
        for node, amounts in self._changes:
            node.add(amounts, -self._sign)


def _requests(pod_set: dict[str, Any], count: int, *, pods: bool) -> dict[str, int]:
    (container,) = pod_set["template"]["spec"]["containers"]
    amounts = container["resources"]["requests"]
    wants = {name: units(name, amount) * count for name, amount in amounts.items()}
    return wants | ({"pods": count} if pods else {})


def _all_of(workload: Workload) -> Amounts:
    """Return what a workload asks with all its pods, where each resource has one flavor."""
    flavor_of = {at[1]: at for at in workload.queue.own}
    total: Amounts = {}
    for pod_set in workload.pod_sets:
        for name, amount in _requests(pod_set, pod_set["count"], pods="pods" in flavor_of).items():
            at = flavor_of.get(name, ("", name))
            total[at] = total.get(at, 0) + amount
    return total


def _held_by(queue: Node, uses: Amounts) -> Node | None:
    """Return the lowest node on the way up that holds amounts within its quota."""
    rest = dict(uses)
    for node in queue.path:
        if all(node.usage(at) + amount <= node.quota(at) for at, amount in rest.items()):
            return node
        rest = {at: max(0, amount - node.free_here(at)) for at, amount in rest.items()}
    return None


def _beyond(other: Node, queue: Node, lacking: set[FlavorResource]) -> bool:
    """Return whether a queue and the cohorts that are not the asking queue's exceed their quota."""
    return all(
        any(node.usage(at) > node.quota(at) for at in lacking)
        for node in other.path
        if node not in queue.path
    )


def _by_queue(candidates: Iterable[Workload]) -> dict[Node, list[Workload]]:
    left: dict[Node, list[Workload]] = {}
    for candidate in candidates:
        left.setdefault(candidate.queue, []).append(candidate)
    return left


def _below(queue: Node, target: Node) -> tuple[Node, Node]:
    """Return the nodes right below the common ancestor, on both ways."""
    if queue is target:
        return queue, target
    own = [node for node in queue.path if node not in target.path]
    other = [node for node in target.path if node not in queue.path]
    return own[-1], other[-1]


def _next_targets(queue: Node, left: dict[Node, list[Workload]]) -> Iterator[Node]:
    """Yield the queue that gives the next victim: that of the greatest share, from the root."""
    root, way = queue.path[-1], queue.path
    done: set[Node] = set()
    if root is queue:
        while left.get(queue):
            yield queue
        return
    while root not in done:
        node = root
        while not node.queue:
            best: tuple[tuple[int, bool], Node] | None = None
            for child in node.children:
                if child in done:
                    continue
                share = child.share
                if (share == 0 and child not in way) or (child.queue and not left.get(child)):
                    done.add(child)
                    continue
                rank = (share, not child.queue)
                if best is None or rank > best[0]:
                    best = rank, child
            if best is None:
                done.add(node)
                break
            node = best[1]
        else:
            yield node


def _admits(flavor: dict[str, Any], spec: dict[str, Any], keys: set[str]) -> bool:
    """Return whether pods may use a flavor: its taints are tolerated and its labels match."""
    tolerations = [*spec.get("tolerations", ()), *flavor.get("tolerations", ())]
    for taint in flavor.get("nodeTaints", ()):
        if taint["effect"] not in ("NoSchedule", "NoExecute"):
            continue
        if not any(_tolerates(one, taint) for one in tolerations):
            return False
    labels = flavor.get("nodeLabels", {})
    selector = spec.get("nodeSelector", {})
    if any(labels.get(key) != value for key, value in selector.items() if key in keys):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    for term in required["nodeSelectorTerms"]:
        wanted = [e for e in term.get("matchExpressions", ()) if e["key"] in keys]
        if all(_matches(one, labels) for one in wanted):
            return True
    return False


def _tolerates(toleration: dict[str, Any], taint: dict[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))


def _matches(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values", ())
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
