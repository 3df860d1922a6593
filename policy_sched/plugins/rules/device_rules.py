"""The ``devices`` sections of a profile's policies, bound to the tables of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec

from policy_sched.framework import Handle, Scope, Signature
from policy_sched.framework.evaluate import key_getter
from policy_sched.language import BoundUnit, CompiledPolicy
from policy_sched.language.ir import Reads
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import DeviceFacts, Failure, RequestFacts, RuleError
from policy_sched.model import ClusterEventWithHint, PodInfo
from policy_sched.plugins.dynamicresources import DeviceVerdict
from policy_sched.plugins.rules.events import events_of_devices

_CHANGING: Final = frozenset(
    {
        *("requested", "nonZeroRequested", "free", "pods", "podCount", "usedPorts"),
        *("deviceAllocatable", "deviceRequested", "nodes", "cluster", "domain", "allocation"),
    }
)
"""What rules read of nodes that changes though neither the node nor its devices do."""


class DevicePolicy(msgspec.Struct, frozen=True):
    """A policy with a ``devices`` section, and which parts of it the profile enables."""

    policy: CompiledPolicy
    filters: bool
    weight: int
    """The weight of its score, 0 where it does not count."""


class DeviceCase(msgspec.Struct):
    """What a rule of the section sees besides the pod, the node and the cluster."""

    device: DeviceFacts
    request: RequestFacts


class ProfileDeviceRules:
    """The rules over devices of a profile; they implement `DeviceRules`."""

    def __init__(self, policies: Sequence[DevicePolicy], handle: Handle, profile: str) -> None:
        runtime = Runtime(handle.nodes, handle.pods)
        rating = [policy for policy in policies if policy.weight]
        self._bound = [_Bound(policy, runtime, alone=len(rating) == 1) for policy in policies]
        all_reads = (policy.policy.device_reads for policy in policies)
        reads = reduce(or_, (policy for policy in all_reads if policy is not None), Reads())
        self.scope = reads.scope
        """How far a change can reach what the rules say."""
        self.by_device = reads.scope is Scope.STATIC and not reads.node
        """Whether what they say of a device stays the same as long as the device does."""
        self.steady = reads.scope <= Scope.NODE and reads.node.isdisjoint(_CHANGING)
        """Whether what they say stays the same as long as the node and its devices do."""
        self.refuse = any(bound.refuses for bound in self._bound)
        """Whether they may refuse a device."""
        self.events: Sequence[ClusterEventWithHint] = tuple(events_of_devices(reads))
        """What can make rules allow a device that they refused."""
        self._key = key_getter(Signature(reads.pod, self.scope, proved=True))
        self._profile = profile
        self._now = handle.now

    def key(self, pod: PodInfo) -> Hashable:
        """Return what the rules read of a pod."""
        return self._key(pod)

    def rater(self, pod: PodInfo, row: int) -> Callable[[RequestFacts, DeviceFacts], DeviceVerdict]:
        """Return what gives the verdicts about devices of a row's node. Both raise RuleError."""
        cycle = Activation(now=self._now(), profile=self._profile)
        matching = [bound for bound in self._bound if bound.matches(pod, cycle)]

        def rate(request: RequestFacts, device: DeviceFacts) -> DeviceVerdict:
            case = DeviceCase(device, request)
            score = 0.0
            for bound in matching:
                refused = bound.refusing(pod, case, row)
                if refused is not None:
                    return refused
                score += bound.score(pod, case, row)
            return DeviceVerdict(score)

        return rate


class _Bound:
    """The section of one policy."""

    def __init__(self, given: DevicePolicy, runtime: Runtime, *, alone: bool) -> None:
        sections = given.policy.sections
        assert sections.devices is not None, "only policies with the section are bound"
        self._name = given.policy.name
        self._match = None if sections.match is None else BoundUnit(sections.match, runtime)
        rules = sections.devices.filter if given.filters else ()
        self._rules = [(rule, BoundUnit(rule.unit, runtime)) for rule in rules]
        unit = sections.devices.score if given.weight else None
        self._score = None if unit is None else BoundUnit(unit, runtime)
        self._aborts = sections.devices.aborts
        self._weight = 1 if alone else given.weight

    @property
    def refuses(self) -> bool:
        """Whether there are filter rules."""
        return bool(self._rules)

    def matches(self, pod: PodInfo, cycle: Activation) -> bool:
        """Return whether the matchConditions hold; RuleError if none is false but one fails."""
        match = self._match
        if match is None:
            return True
        values = [match.evaluate(i, pod, cycle, 0) for i in range(len(match.unit.roots))]
        if any(value is False for value in values):
            return False
        for i, value in enumerate(values):
            if isinstance(value, Failure):
                raise RuleError(f"{self._name}.matchConditions[{i}]: {value.message}")
        return True

    def refusing(self, pod: PodInfo, case: DeviceCase, row: int) -> DeviceVerdict | None:
        """Return the verdict of the first rule that refuses a device, None if none does."""
        for rule, unit in self._rules:
            value: Any = unit.evaluate(0, pod, case, row)
            if isinstance(value, Failure):
                if rule.on_error == "Allow":
                    continue
                text = f"rule {rule.name}: {value.message}"
                if rule.on_error == "Abort":
                    raise RuleError(f"{text} (device {_path(case.device)})")
                return DeviceVerdict(0.0, rule.name, value.message)
            if not value:
                return DeviceVerdict(0.0, rule.name, rule.message)
        return None

    def score(self, pod: PodInfo, case: DeviceCase, row: int) -> float:
        """Return the score of a device; 0 where the rule fails, or is no number."""
        if self._score is None:
            return 0.0
        value: Any = self._score.evaluate(0, pod, case, row)
        if isinstance(value, Failure) or value != value:  # noqa: PLR0124 - NaN
            if self._aborts:
                why = value.message if isinstance(value, Failure) else "not a number"
                name = f"{self._name}.devices.score"
                raise RuleError(f"rule {name}: {why} (device {_path(case.device)})")
            return 0.0
        return float(value) * self._weight


def _path(device: DeviceFacts) -> str:
    return f"{device.driver}/{device.pool}/{device.name}"
