"""The pod and the node of a claim: what rules read of them as constants of the solver.

Each constant is made when it is first read, under the assumptions of what the API lets it be.
`ASSUMPTIONS` says them in words, as `--assumptions` prints them.
"""

from __future__ import annotations

from typing import Any, Final

import z3

from policy_sched.cluster.tables import MAX_SUM, NODE_COLUMNS
from policy_sched.model import MAX_UNITS, MOST_COUNTED, is_counted
from policy_sched.prove import terms
from policy_sched.prove.terms import Code, Listing, Mapping, Opaque, Record, Term, Terms

ASSUMPTIONS: Final = {
    "characters": "Characters beyond U+2FFFF count as others do that no rule writes.",
    "names": "Names of pods, nodes, namespaces and service accounts are of a-z, 0-9, - and .",
    "owners": "An owner's name, uid and kind are all there or all missing.",
    "labels": "The value of a label is empty, or up to 63 of A-Z, a-z, 0-9, -, _ and ., with a "
    "letter or digit at both ends.",
    "amounts": "Amounts of resources are not negative. What is allocatable, and the capacity, is "
    "at most 80Pi of the scheduler's units, but for storage; what is requested and limits, which "
    "are sums, are below 2**62.",
    "free": "What is free of a resource is what is allocatable less what is requested.",
    "requested": "What is requested on a node is the sum of its pods' requests, up to "
    "2**62 - 2**56. A node without pods has nothing requested.",
    "nonZero": "nonZeroRequested is at least what is requested; of extended resources it, and "
    "nonZeroRequests, are what is requested.",
    "priority": "A pod's priority is from -2147483648 to 2147483647.",
    "classes": "The value of a PriorityClass is from -2147483648 to 2147483647, too.",
    "sums": "What the cluster has and uses, what quotas use, and what pod groups request and need "
    "is at most 2**62 - 1 of a resource.",
    "pending": "The pod is not being deleted.",
    "preemption": "A pod's preemptionPolicy is Never, PreemptLowerPriority or not stated.",
    "gates": "A scheduling gate has a name.",
    "taints": "A taint has a key, its effect is NoSchedule, PreferNoSchedule or NoExecute, and "
    "no two taints of a node have the same key and effect.",
    "tolerations": "A toleration's operator is empty, Equal, Exists, Lt or Gt; without a key it "
    "is Exists, with Exists it has no value, and with Equal that of a label.",
    "ranges": "Other numbers are within the ranges that the reference of columns states; the "
    "scheduler's clock is from 1970 to 2262.",
}
"""What is assumed of every pod and node, by name."""

AMOUNTS: Final[dict[tuple[str, str], tuple[int, int]]] = {
    ("cluster", "allocatable"): (0, MAX_SUM),
    ("cluster", "requested"): (0, MAX_SUM),
    ("quota", "used"): (0, MAX_SUM),
    ("pod_group", "requested"): (0, MAX_SUM),
    ("pod_group", "min_resources"): (0, MAX_UNITS),
}
"""What is read of what has no terms: the least and the most that each amount is."""
INTS: Final[dict[str | tuple[str, str], tuple[int, int]]] = {
    ("PriorityClass", "f_value"): (-(2**31), 2**31 - 1),
    **{("pod_group", name): (0, 2**31 - 1) for name in ("members", "scheduled", "waiting")},
    **{("pod_group", name): (0, 2**31 - 1) for name in ("gated", "failures", "min_count")},
    **{("pod_group", name): (0, 2**63 - 1) for name in ("tried_since", "failed_at")},
    "now": (0, 2**63 - 1),
}
"""The same of ints; times are ns since 1970."""
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_MAPS: Final = {"labels": "label", "annotations": "annotation", "node_selector": "label"}
_AMOUNTS: Final = frozenset({"requests", "limits", "non_zero_requests"})
_OWNER: Final = frozenset({"owner_name", "owner_uid", "owner_kind"})
_WORDS: Final = {
    "effect": _EFFECTS,
    "effect?": ("", *_EFFECTS),
    "operator": ("", "Equal", "Exists", "Lt", "Gt"),
    "preemption": ("", "Never", "PreemptLowerPriority"),
}
"""What texts of a kind may be."""

_LOWER: Final = z3.Union(z3.Range("a", "z"), z3.Range("0", "9"))
_ALNUM: Final = z3.Union(_LOWER, z3.Range("A", "Z"))
_WORD: Final = z3.Union(_ALNUM, *map(z3.Re, "-_."))
_KEY: Final = z3.Plus(z3.Union(_WORD, z3.Re("/")))
_NAME: Final = z3.Plus(z3.Union(_LOWER, z3.Re("-"), z3.Re(".")))
_LABEL: Final = z3.Union(
    z3.Re(""),
    _ALNUM,
    z3.Concat(_ALNUM, z3.Loop(_WORD, 0, 61), _ALNUM),
)
_SYNTAX: Final = {"name": _NAME, "key": _KEY, "label": _LABEL}
FORMS: Final = (_KEY, _NAME, _LABEL)
"""Forms of texts; each word of a-z with up to 60 letters has all of them."""


class World:
    """A pending pod and a node; ``bound``: elements that a list has at most."""

    def __init__(self, made: Terms, bound: int, beside: World | None = None) -> None:
        """``beside``: a world with the same pod and node."""
        self.terms = made
        self.bound = bound
        self.leaves: dict[tuple[Any, ...], Any] = {} if beside is None else beside.leaves
        """The constants, by what they stand for, in the order in which they were read."""
        self.unrolled: dict[str, int] = {} if beside is None else beside.unrolled
        """By list that was unrolled, how many elements it has at most."""
        self.given: dict[str, Any] = {}
        """Terms that stand for names of claims: what a policy makes of the pod and the node."""
        self.lists: dict[tuple[Any, ...], Listing] = {} if beside is None else beside.lists
        self.shapes: dict[tuple[Any, ...], int] = {}
        """Numbers of operations, so that equal ones of two policies are one term."""
        self.kept: dict[tuple[Any, ...], Any] = {}
        """Terms by those numbers."""
        self.alive: list[object] = []
        self.counts: set[object] = set()
        """What aggregates are called that are numbers of pods."""
        self.inputs: dict[str, str] = {}
        """The kinds of inputs, by what these are called."""
        self.facts: list[terms.Fact] = []
        """What holds of the constants; there from `finish` on."""

    def constant(self, key: tuple[Any, ...], sort: Term) -> Term:
        """Return the constant for a key; a new one has no facts yet."""
        return z3.Const(".".join(map(str, key)), sort)

    def text(self, key: tuple[Any, ...], kind: str = "") -> Term:
        """Return a text; ``kind``: the form that its values have."""
        if key not in self.leaves:
            leaf = self.leaves[key] = self.constant(key, z3.StringSort())
            self.terms.assume(*_form(leaf, kind))
        return self.leaves[key]

    def code(self, key: tuple[Any, ...], kind: str) -> Code:
        """Return a text that may be missing."""
        if key not in self.leaves:
            present = self.constant((*key, "present"), z3.BoolSort())
            text = self.constant(key, z3.StringSort())
            self.leaves[key] = Code(present, text)
            self.terms.assume(*(terms.implies(present, fact) for fact in _form(text, kind)))
        return self.leaves[key]  # type: ignore[no-any-return]

    def number(self, key: tuple[Any, ...], least: int, most: int) -> Term:
        """Return an int within limits."""
        if key not in self.leaves:
            leaf = self.leaves[key] = self.constant(key, z3.IntSort())
            self.terms.most_is(leaf, float(max(abs(least), abs(most))))
            self.terms.assume(leaf >= least, leaf <= most)
        return self.leaves[key]

    def flag(self, key: tuple[Any, ...]) -> Term:
        """Return a bool."""
        if key not in self.leaves:
            self.leaves[key] = self.constant(key, z3.BoolSort())
        return self.leaves[key]

    # The node.

    def column(self, family: str, argument: str, rep: str) -> Any:
        """Return a column of the node; None if it has no term."""
        match family:
            case "label" | "annotation":
                return self.code(("node", family, argument), family)
            case "name":
                return Code(True, self.text(("node", "name"), "name"))
            case "field":
                return Code(True, self.text(("node", "field", argument)))
            case "unschedulable" | "ready":
                return self.flag(("node", family))
            case "taints":
                return self.taints()
            case "free":
                return self._free(argument)
            case "allocatable" | "capacity" | "requested" | "nonZeroRequested":
                return self._amount(family, argument)
            case "allocatable?":
                there = self.flag(("node", family, argument))
                some = self._amount("allocatable", argument) > 0
                self.terms.assume(terms.implies(some, there))
                return there
            case "podCount":
                return self._pod_count()
            case "creationTime" if rep == "i":
                stated = NODE_COLUMNS[family]
                leaf = self.number(("node", family), stated.minimum, stated.maximum)
                self.terms.notes[str(leaf)] = "creationTime"
                return leaf
        return None

    def _pod_count(self) -> Term:
        return self.number(("node", "podCount"), 0, 2**31 - 1)

    def _free(self, resource: str) -> Term:
        free = self._amount("allocatable", resource) - self._amount("requested", resource)
        return self.terms.most_is(free, float(MAX_SUM))

    def _amount(self, family: str, resource: str) -> Term:
        key = ("node", family, resource)
        if family in ("requested", "nonZeroRequested") and not is_counted(resource):
            return 0
        new = key not in self.leaves
        most = MAX_SUM
        if family in ("allocatable", "capacity"):
            most = MAX_UNITS if resource == "storage" else MOST_COUNTED
        leaf = self.number(key, 0, most)
        if new and family == "nonZeroRequested":
            requested = self._amount("requested", resource)
            self._non_zero(leaf, requested, resource)
            self.terms.assume(terms.disjunction(leaf >= requested, requested > MAX_UNITS))
        if new and family == "requested":
            pods = self._pod_count()
            self.terms.assume(terms.implies(leaf > 0, pods > 0))
        return leaf

    def _non_zero(self, leaf: Term, stated: Term, resource: str) -> None:
        """Note what is known of requests that count more than is stated."""
        if "/" in resource:
            self.terms.assume(terms.disjunction(leaf == stated, stated > MAX_UNITS))
        else:
            self.terms.notes[str(leaf)] = "requests that are not stated"

    def list_of(self, key: tuple[Any, ...], kind: str) -> Any:
        """Return a list of objects of a kind, or of texts, unrolled up to the bound."""
        if key not in self.lists:
            length = self.number((*key, "length"), 0, self.bound)
            self.unrolled[".".join(map(str, key))] = self.bound
            paths = [(*key, i) for i in range(self.bound)]
            items = [self.text(path) if kind == "text" else Record(kind, path) for path in paths]
            self.lists[key] = Listing(tuple((length > i, item) for i, item in enumerate(items)))
            self._assume_of_list(kind, length, self.lists[key])
        return self.lists[key]

    def _assume_of_list(self, kind: str, length: Term, listing: Listing) -> None:
        """Note what is known of a new list."""
        match kind:
            case "text":
                self.terms.assume(*(text != "" for _, text in listing.items))
            case "RunningPod":
                self.terms.assume(self._pod_count() == length)
            case "Taint":
                for i, (there, item) in enumerate(listing.items):
                    for _, other in listing.items[:i]:
                        same = [
                            self.attribute(item, name, "s") == self.attribute(other, name, "s")
                            for name in ("key", "effect")
                        ]
                        self.terms.assume(terms.implies(there, z3.Not(z3.And(*same))))

    def taints(self) -> Any:
        """Return the taints of the node."""
        return self.list_of(("node", "taints"), "Taint")

    def victim(self) -> Record:
        """Return the pod on the node that a claim calls `victim`."""
        if ("victim", "length") not in self.leaves:
            self.number(("victim", "length"), 1, 1)
            pods = self._pod_count()
            self.terms.assume(pods >= 1)
        return Record("RunningPod", ("victim",))

    def pods(self) -> Any:
        """Return the pods on the node."""
        return self.list_of(("node", "pods"), "RunningPod")

    # Records.

    def attribute(self, record: Record, name: str, rep: str) -> Any:
        """Return a field of an object: a constant, a structure, or `Opaque`."""
        if name in self.given:
            return self.given[name]
        if record.kind == "Pod" and name == "deletion_time":
            return 0 if rep == "i" else Opaque((*record.path, name))
        return self._attribute(record, name, rep, (*record.path, name))

    def _attribute(self, record: Record, name: str, rep: str, key: tuple[Any, ...]) -> Any:
        if record.kind == "Pod" and name == "tolerations":
            return self.list_of(("pod", "tolerations"), "Toleration")
        if record.kind == "Pod" and name == "scheduling_gates":
            return self.list_of(key, "text")
        if name in _MAPS and rep == "o":
            return Mapping(_MAPS[name], key)
        if name in _AMOUNTS and rep == "o":
            return Mapping("amounts", key)
        if record.kind == "Namespace" and name == "name":
            return self.attribute(Record("Pod", ("pod",)), "namespace", rep)
        if record.kind in ("Taint", "Toleration") and rep == "s":
            return self._of_taint(record, name)
        if record.kind not in ("Pod", "RunningPod"):
            return Opaque(key)
        if rep == "s":
            return self._pod_text(record, name)
        if rep == "b" and name in ("host_network", "terminating"):
            if name == "terminating" and record.kind == "Pod":
                return False
            return self.flag(key)
        if rep == "i" and name == "priority":
            return self.number(key, -(2**31), 2**31 - 1)
        return Opaque(key)

    def _pod_text(self, record: Record, name: str) -> Any:
        key = (*record.path, name)
        if name in _OWNER:
            new = key not in self.leaves
            leaf = self.text(key)
            if new:
                self.terms.assume((leaf == "") == (self.text((*record.path, "owner_kind")) == ""))
            return leaf
        if name in ("name", "namespace"):
            return self.text(key, "name")
        if name == "node_name" and record.kind == "Pod":
            return self.text(key, "name?")
        forms = {"service_account_name": "name?", "preemption_policy": "preemption"}
        return self.text(key, forms[name]) if name in forms else Opaque(key)

    def _of_taint(self, record: Record, name: str) -> Any:
        key = (*record.path, name)
        new = key not in self.leaves
        if record.kind == "Taint":
            return self.text(key, {"key": "key", "effect": "effect"}.get(name, "label"))
        forms = {"effect": "effect?", "operator": "operator", "key": "key?"}
        leaf = self.text(key, forms.get(name, ""))
        if new and name in ("key", "operator", "value"):
            operator = self.text((*record.path, "operator"), "operator")
            if name == "key":
                self.terms.assume(z3.Implies(leaf == "", operator == "Exists"))
            if name == "value":
                compares = z3.Or(operator == "Lt", operator == "Gt")
                self.terms.assume(z3.Implies(operator == "Exists", leaf == ""))
                self.terms.assume(z3.Or(compares, *_form(leaf, "label")))
        return leaf

    def finish(self) -> None:
        """State all facts when all constants are made: what ties the node to its pods, too."""
        pods = self.lists.get(("node", "pods"))
        self._finish_victim(listed=pods is not None)
        resources = [key[2] for key in self.leaves if key[:2] == ("node", "requested")]
        for resource in resources if pods is not None else ():
            assert pods is not None
            requests = (
                terms.ite(
                    there, self.amount(Mapping("amounts", (*pod.path, "requests")), resource), 0
                )
                for there, pod in pods.items
            )
            requested = self.leaves["node", "requested", resource]
            exact = terms.total(requests)
            self.terms.assume(
                terms.ite(exact <= MAX_UNITS, requested == exact, requested >= MAX_UNITS)
            )
        self.facts = self.terms.facts()

    def _finish_victim(self, *, listed: bool) -> None:
        """Note that what the victim requests is requested on the node."""
        if ("victim", "length") not in self.leaves:
            return
        count = self.leaves["node", "podCount"]
        for key in list(self.leaves):
            if listed and key[0] == "victim":
                self.terms.notes[".".join(map(str, key))] = "victim beside node.pods"
            if key[:2] == ("node", "requested"):
                own = self.amount(Mapping("amounts", ("victim", "requests")), key[2])
                requested = self.leaves[key]
                self.terms.assume(requested >= own)
                self.terms.assume(terms.implies(count == 1, requested == own))

    # Maps.

    def entry(self, mapping: Mapping, key: str) -> Code:
        """Return the value of a map of texts for a known key."""
        return self.code((*mapping.path, key), mapping.kind)

    def amount(self, mapping: Mapping, resource: str) -> Term:
        """Return an amount of a known resource."""
        key, name = (*mapping.path, resource), mapping.path[-1]
        if name != "limits" and not is_counted(resource):
            return 0
        new = key not in self.leaves
        leaf = self.number(key, 0, MAX_UNITS)
        if new and name == "limits":
            self.terms.notes[str(leaf)] = name
        if new and name == "non_zero_requests":
            stated = self.amount(Mapping("amounts", (*mapping.path[:-1], "requests")), resource)
            self._non_zero(leaf, stated, resource)
        return leaf


class ChangedWorld(World):
    """The same pod and node, but for one number, which may be any other."""

    def __init__(self, world: World, changed: tuple[Any, ...]) -> None:
        """``changed``: what the number is called in ``world``."""
        super().__init__(world.terms, world.bound, world)
        self._changed = changed

    def number(self, key: tuple[Any, ...], least: int, most: int) -> Term:
        """Return an int within limits."""
        if key != self._changed:
            return super().number(key, least, most)
        leaf = super().number(("changed", *key), least, most)
        if key[:2] == ("node", "requested"):
            pods = self._pod_count()
            self.terms.assume(terms.implies(leaf > 0, pods > 0))
        return leaf


def _form(text: Term, kind: str) -> list[Term]:
    """Return what holds of a text of a kind; with "?" it may be empty, too."""
    if kind in _WORDS:
        return [z3.Or(*[text == word for word in _WORDS[kind]])]
    form = _SYNTAX.get(kind.removesuffix("?"))
    if form is None:
        return []
    inside = z3.InRe(text, form)
    return [z3.Or(text == "", inside) if kind.endswith("?") else inside]
