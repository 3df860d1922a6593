"""Devices of nodes that are counted one by one: which of them a bound pod gets.

Theory of operation. A node has so much of a resource, in devices of one size. Each device is a
resource of the node as well, RESOURCE-0, RESOURCE-1 and so on, so that rules read what is free of
it as `node.free["RESOURCE-0"]`, and a change of it is a change of the node's columns. Pods request
the resource as a whole. When one is bound, the rule of a policy says how much of each device it
gets; from then on it counts there, as if an agent on the node had handed the devices out. The rule
sees the node as it was without the pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from policy_sched.cluster.tables import NodeTable, PodTable
from policy_sched.errors import PolicySchedError
from policy_sched.experiments.measures import compiled_rule, source_of
from policy_sched.experiments.reading import Loaded, rule_text
from policy_sched.experiments.variants import CompiledVariant
from policy_sched.framework import Scope, Signature
from policy_sched.framework.evaluate import key_getter
from policy_sched.language import Expression
from policy_sched.language.runtime import Activation
from policy_sched.model import ApiObject, Node, PodInfo, units
from policy_sched.profiles.models import BAD_VALUE, CountedDevices
from policy_sched.scheduler import Scheduler

GiveDevices: TypeAlias = Callable[[PodInfo, str], PodInfo]
"""Gives a pod that was bound to a node its devices, and returns the pod as it counts from then."""
RULE: Final = "variables.devices"
MOST: Final = 1024
"""Devices of a node."""
_KEPT: Final = 4096


def with_devices(loaded: Loaded, objects: Sequence[ApiObject]) -> list[ApiObject]:
    """Return the objects, where nodes have each device as a resource, too."""
    devices = loaded.spec.cluster.devices
    if devices is None:
        return list(objects)
    split: list[ApiObject] = []
    for decoded in objects:
        if not isinstance(decoded, Node):
            split.append(decoded)
            continue
        count = _count(decoded, devices)
        if count is None:
            amount = decoded.status.allocatable.get(devices.resource)
            message = f"node {decoded.metadata.name} has {amount} of {devices.resource}"
            hint = f"at most {MOST} devices of {devices.size}"
            loaded.problem(("spec", "cluster", "devices"), BAD_VALUE, message, hint)
            return list(objects)
        named = {f"{devices.resource}-{i}": str(devices.size) for i in range(count)}
        status = replace(
            decoded.status,
            allocatable={**decoded.status.allocatable, **named},
            capacity={**decoded.status.capacity, **named},
        )
        split.append(replace(decoded, status=status))
    return split


def _count(node: Node, devices: CountedDevices) -> int | None:
    """Return how many devices a node has; None if that is no number of them."""
    amount = node.status.allocatable.get(devices.resource)
    count, rest = divmod(units(devices.resource, amount) if amount else 0, devices.size)
    return None if rest or count > MOST else count


def compiled_devices(loaded: Loaded, variant: CompiledVariant) -> Expression | None:
    """Return the rule of a variant that gives pods their devices; None if there is none.

    What is wrong is added to the problems of the experiment.
    """
    name, at = variant.changes.devices, variant.changes.devices_at
    if loaded.spec.cluster.devices is None:
        if name is not None:
            message = "no devices are counted"
            loaded.problem(at, BAD_VALUE, message, "cluster.devices says which")
        return None
    if name is None:
        message = f"nothing says which devices pods of {variant.name} get"
        policies = [
            key
            for key, policy in variant.policies.items()
            if any(variable.name == "devices" for variable in policy.variables)
        ]
        hint = (
            f"devices names a policy with a variable `devices`: {', '.join(policies) or 'none has'}"
        )
        loaded.problem(variant.changes.at, BAD_VALUE, message, hint)
        return None
    source = source_of(loaded, variant, name, at)
    if source is None:
        return None
    return compiled_rule(loaded, rule_text(loaded, at, RULE), source, "variants.devices")


@dataclass(slots=True)
class Devices:
    """Gives bound pods of a scheduler their devices. ``taken``: the devices of pods, by key."""

    scheduler: Scheduler
    resource: str
    rule: Expression
    taken: dict[str, tuple[int, ...]] = field(default_factory=dict)
    _with: dict[tuple[int, tuple[int, ...]], _WithDevices] = field(default_factory=dict)
    _amounts: RuleValues = field(init=False)

    def __post_init__(self) -> None:
        """Bind the rule."""
        cache = self.scheduler.cache
        self._amounts = RuleValues(self.rule, cache.nodes, cache.pods)

    def give(self, pod: PodInfo, node: str) -> PodInfo:
        """Give a bound pod its devices; see GiveDevices.

        Raises PolicySchedError if the rule fails.
        """
        cache = self.scheduler.cache
        bound = cache.pod(pod.uid)
        if bound is not None:
            cache.remove_pod(bound)
        info = self.given(pod, node)
        cache.add_pod(info.on(node))
        return info

    def given(self, pod: PodInfo, node: str) -> PodInfo:
        """Choose the devices of a pod on a node that does not count it yet; return it with them.

        Raises PolicySchedError if the rule fails.
        """
        amounts, error = self._amounts(pod, self.scheduler.cache.nodes.row_of[node])
        if error or any(amount < 0 for amount in amounts):
            what = f"PS{error}" if error else f"{amounts} is below zero"
            raise PolicySchedError(f"no devices for pod {pod.key} on node {node}: {what}")
        self.taken[pod.key] = tuple([i for i, amount in enumerate(amounts) if amount])
        if not any(amounts):
            return pod
        shape = id(pod.pod.spec), tuple(amounts)
        kept = self._with.get(shape)
        if kept is not None and kept.without.pod.status == pod.pod.status:
            return kept.info.like(replace(pod.pod, spec=kept.info.pod.spec))
        given = {f"{self.resource}-{i}": str(amount) for i, amount in enumerate(amounts) if amount}
        info = _with_requests(pod, given)
        if len(self._with) >= _KEPT:
            self._with.clear()
        self._with[shape] = _WithDevices(pod, info)
        return info


class _WithDevices(NamedTuple):
    """A pod without and with its devices; others of the same spec differ in metadata alone."""

    without: PodInfo
    info: PodInfo


def _with_requests(pod: PodInfo, amounts: Mapping[str, str]) -> PodInfo:
    """Return a pod that requests more, in a container of its own."""
    spec = pod.pod.spec
    first = spec.containers[0]
    more = replace(
        first, name="devices", resources=replace(first.resources, requests=dict(amounts))
    )
    more = replace(more, ports=(), resources=replace(more.resources, limits={}))
    return PodInfo.of(replace(pod.pod, spec=replace(spec, containers=(*spec.containers, more))))


# Values of rules.

NO_CYCLE: Final = Activation()
_KEPT_VALUES: Final = 100_000


class RuleValues:
    """A rule over the tables of one cluster; the values that it returns are shared.

    Many pods of a trace are alike, and so are many nodes. What a rule returns follows from fields
    of the pod and columns of the row; the compiler says which. So it is evaluated once for each
    combination of their values, whatever pod and row have them.
    """

    def __init__(self, rule: Expression, nodes: NodeTable, pods: PodTable) -> None:
        self._evaluate = rule.bind(nodes, pods).scalar
        self._columns = None if rule.columns is None else [nodes.column(k) for k in rule.columns]
        self._of_pod = key_getter(Signature(rule.reads.pod, Scope.NODE))
        self._kept: dict[tuple[object, ...], tuple[Any, int]] = {}

    def __call__(self, pod: PodInfo, row: int) -> tuple[Any, int]:
        """Return the value and the error (0 for none) for a pod on a row."""
        columns = self._columns
        if columns is None:
            return self._evaluate(pod, NO_CYCLE, row)
        key = (self._of_pod(pod), *[column.view[row] for column in columns])
        value = self._kept.get(key)
        if value is None:
            if len(self._kept) >= _KEPT_VALUES:
                self._kept.clear()
            value = self._kept[key] = self._evaluate(pod, NO_CYCLE, row)
        return value
