"""The claims of the cluster as the plugin sees them, and the devices that they take.

Theory of operation. One instance serves all profiles, as two pods of different profiles must not
get one device. Of a claim the allocation counts that is in flight (from Reserve until PreBind has
written it), else what was written and the watch has not shown yet, else the API server's. Devices
are counted by claim, incrementally, and rows of nodes whose free devices change are noted in the
journal: a kept evaluation is refreshed for these rows only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from policy_sched import model
from policy_sched.cluster.tables import DYNAMIC, Devices
from policy_sched.errors import PolicySchedError
from policy_sched.framework import Handle
from policy_sched.language.values import DeviceFacts
from policy_sched.plugins.dynamicresources.device_table import DeviceTable, NodeDevices
from policy_sched.plugins.dynamicresources.devices import (
    DeviceId,
    DeviceView,
    NodeView,
    SelectorError,
    SelectorResults,
)
from policy_sched.plugins.dynamicresources.extended_resources import ExtendedResources
from policy_sched.plugins.dynamicresources.pools import AllocatedState, SliceIndex
from policy_sched.plugins.dynamicresources.requests import claim_name

Lookup = Callable[[str, str], model.ResourceClaim | None]
"""Finds a claim by namespace and name."""


class ClaimError(PolicySchedError):
    """A claim of a pod that cannot be used (yet)."""


def claims_of(pod: model.PodInfo, lookup: Lookup) -> list[model.ResourceClaim]:
    """Return the claims of a pod in order. Raises ClaimError with the first thing wrong."""
    claims = []
    for entry in pod.pod.spec.resource_claims:
        named = entry.resource_claim_name or _name(pod, entry)
        if named is None:
            continue
        claim = lookup(pod.namespace, named)
        if claim is None:
            raise ClaimError(f'could not find ResourceClaim "{pod.namespace}/{named}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f'resourceclaim "{named}" is being deleted')
        if entry.resource_claim_name is None and not is_owned(claim, pod):
            raise ClaimError(
                f"ResourceClaim {claim_name(claim)} was not created for Pod {pod.key} "
                "(Pod is not owner)"
            )
        claims.append(claim)
    return claims


def _name(pod: model.PodInfo, entry: model.PodResourceClaim) -> str | None:
    """Return the name of the claim of an entry, None where none is needed. Raises ClaimError."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        raise ClaimError(
            f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields '
            "are set"
        )
    for status in pod.pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name
    raise ClaimError(f'pod "{pod.key}": ResourceClaim not created yet')


def is_owned(claim: model.ResourceClaim, pod: model.PodInfo) -> bool:
    """Tell whether a claim was made for a pod."""
    uid = pod.pod.metadata.uid
    return any(owner.controller and owner.uid == uid for owner in claim.metadata.owner_references)


def is_reserved(claim: model.ResourceClaim, pod: model.PodInfo) -> bool:
    """Tell whether a pod may use a claim already."""
    return any(user.uid == pod.uid for user in claim.status.reserved_for)


Key = tuple[str, str]
"""Namespace and name."""


class _Use(msgspec.Struct):
    """What one claim takes: devices as a whole, and shares of devices with what they consume."""

    devices: tuple[DeviceId, ...] = ()
    shares: tuple[tuple[DeviceId, Mapping[str, int]], ...] = ()
    of: model.AllocationResult | None = None
    """The allocation."""


_NO_USE = _Use()


class _Allocated(msgspec.Struct):
    """All that claims take; the dictionaries have no entries without a use."""

    devices: Counter[DeviceId] = msgspec.field(default_factory=Counter)
    shared: Counter[DeviceId] = msgspec.field(default_factory=Counter)
    consumed: dict[DeviceId, dict[str, int]] = msgspec.field(default_factory=dict)

    def change(self, use: _Use, sign: int) -> None:
        """Add what a claim takes, or subtract it."""
        for device in use.devices:
            _count(self.devices, device, sign)
        for device, amounts in use.shares:
            _count(self.shared, device, sign)
            total = self.consumed.setdefault(device, {})
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + sign * amount
            if not self.shared[device]:
                del self.consumed[device]


def _count(counter: Counter[DeviceId], device: DeviceId, sign: int) -> None:
    count = counter.get(device, 0) + sign
    if count:
        counter[device] = count
    else:
        del counter[device]


def _use(allocation: model.AllocationResult | None) -> _Use:
    if allocation is None or not allocation.devices.results:
        return _NO_USE
    devices, shares = [], []
    for result in allocation.devices.results:
        if result.admin_access:
            continue
        device = DeviceId(result.driver, result.pool, result.device)
        if result.share_id is None:
            devices.append(device)
        else:
            amounts = {name: model.nanos(value) for name, value in result.consumed_capacity.items()}
            shares.append((device, amounts))
    return _Use(tuple(devices), tuple(shares), allocation)


class ResourceClaims(Devices):
    """Claims with what is assumed of them; ``version`` rises with every change of one.

    ``in_flight``: by UID, claims with the allocation that pods have reserved and none has written
    yet. Several pods may have reserved one if they are decided together, as pods of a group.
    """

    def __init__(self, handle: Handle) -> None:
        self.version = 0
        self.in_flight: dict[str, model.ResourceClaim] = {}
        self._reserved_by: dict[str, set[str]] = {}
        self._groups: dict[str, tuple[str, str]] = {}
        self._objects = handle.objects
        self._table = handle.nodes
        self._assumed: dict[Key, model.ResourceClaim] = {}
        self._uses: dict[str, _Use] = {}
        self._allocated = _Allocated()
        self.classes_version = 0
        """Rises with every change of a device class."""
        self.slices = SliceIndex(self._objects.of(model.ResourceSlice))
        """The devices of the cluster."""
        self.state = AllocatedState(
            self._allocated.devices, self._allocated.shared, self._allocated.consumed
        )
        """The devices that are in use now; it changes when claims do."""
        self.devices = DeviceTable(self._table, self.slices, self.state)
        self.node_devices = NodeDevices(self.devices, self.state)
        """The devices of nodes as rules see them."""
        self.selectors = SelectorResults(handle.budget)
        """What selectors return; attempts pay for it."""
        self._of_classes = SelectorResults()
        self._extended = handle.shared(ExtendedResources)
        self.resources = self._extended.names()  # a mapping that follows events
        self._table.devices = self
        for claim in self._objects.of(model.ResourceClaim):
            self._changed(claim)
        self._objects.listen(model.ResourceClaim, self._seen)
        self._objects.listen(model.ResourceSlice, self._slice_seen)
        self._objects.listen(model.DeviceClass, self._class_seen)

    def get(self, namespace: str, name: str) -> model.ResourceClaim | None:
        """Return a claim as assumed, else as the API server has it, None if there is none."""
        assumed = self._assumed.get((namespace, name))
        return assumed or self._objects.named(model.ResourceClaim, namespace, name)

    def all(self) -> list[model.ResourceClaim]:
        """Return all claims."""
        claims = {key_of(claim): claim for claim in self._objects.of(model.ResourceClaim)}
        return list({**claims, **self._assumed}.values())

    def assumed(self) -> list[model.ResourceClaim]:
        """Return the claims that the watch has not shown as they were written."""
        return list(self._assumed.values())

    def assume(self, claim: model.ResourceClaim) -> None:
        """Take a claim as it was written, until the watch shows it or a newer one."""
        shown = self._objects.named(model.ResourceClaim, *key_of(claim))
        if shown is not None and not _newer(claim, shown):
            return
        self._assumed[key_of(claim)] = claim
        self._changed(claim)

    def forget(self, claim: model.ResourceClaim) -> None:
        """A claim was deleted, or what was assumed of it does not hold."""
        key = key_of(claim)
        if self._assumed.pop(key, None) is not None:
            self._changed(self._objects.named(model.ResourceClaim, *key), claim)

    def reserve(
        self, claim: model.ResourceClaim, pod: model.PodInfo, *, grouped: bool = False
    ) -> None:
        """Note the allocation of a claim that a pod has reserved.

        ``grouped``: the pod is decided with its group, whose other pods may use the allocation.
        """
        uid = uid_of(claim)
        self._reserved_by.setdefault(uid, set()).add(pod.uid)
        if grouped:
            self._groups[uid] = pod.namespace, pod.pod_group
        if self.in_flight.get(uid) is not claim:
            self.in_flight[uid] = claim
            self._changed(claim)

    def pending(self, claim: model.ResourceClaim, pod: model.PodInfo) -> model.ResourceClaim | None:
        """Return a claim with the allocation that another pod of the pod's group has reserved."""
        group = self._groups.get(uid_of(claim)) if pod.pod_group else None
        if group is None or group != (pod.namespace, pod.pod_group):
            return None
        return self.in_flight.get(uid_of(claim))

    def release(self, claim: model.ResourceClaim, pod: model.PodInfo | None = None) -> None:
        """Forget a reserved allocation; there may be none.

        With ``pod`` it is kept as long as another pod has reserved it, too.
        """
        uid = uid_of(claim)
        users = self._reserved_by.get(uid)
        if users is not None and pod is not None:
            users.discard(pod.uid)
            if users:
                return
        if self.in_flight.pop(uid, None) is not None:
            del self._reserved_by[uid]
            self._groups.pop(uid, None)
            self._changed(self.get(*key_of(claim)), claim)

    def _seen(self, old: model.ApiObject | None, new: model.ApiObject | None) -> None:
        """The watch shows a claim, or that it has gone."""
        claim = old if new is None else new
        assert isinstance(claim, model.ResourceClaim), "only claims are listened to"
        assumed = self._assumed.get(key_of(claim)) if self._assumed else None
        if assumed is not None and (new is None or not _newer(assumed, claim)):
            del self._assumed[key_of(claim)]
            assumed = None
        if isinstance(old, model.ResourceClaim) and old.metadata.uid != claim.metadata.uid:
            self._changed(None, old)
        self._changed(None if new is None else assumed or claim, claim)

    def _changed(
        self, claim: model.ResourceClaim | None, was: model.ResourceClaim | None = None
    ) -> None:
        """Count what a claim takes now; ``was`` names it if it is gone."""
        self.version += 1
        named = claim if was is None else was
        assert named is not None, "it is, or it was"
        uid = named.metadata.uid or uid_of(named)
        counted = self.in_flight.get(uid, claim)
        allocation = None if counted is None else counted.status.allocation
        before = self._uses.get(uid, _NO_USE)
        if allocation is before.of:
            return
        if (
            allocation is not None
            and before.of is not None
            and allocation.devices.results == before.of.devices.results
        ):
            before.of = allocation
            return
        use = _use(allocation)
        if use is _NO_USE:
            self._uses.pop(uid, None)
        else:
            self._uses[uid] = use
            self._allocated.change(use, 1)
        if before is not _NO_USE:
            self._allocated.change(before, -1)
        changed = {*use.devices, *before.devices}
        if use.shares or before.shares:
            changed.update(device for claim_use in (use, before) for device, _ in claim_use.shares)
        self._note(changed)

    def _slice_seen(self, old: model.ApiObject | None, new: model.ApiObject | None) -> None:
        """The watch shows a slice, or that it has gone."""
        before, after = model.before_and_after(model.ResourceSlice, old, new)
        names, gone = self.slices.change(before, after)
        self.devices.slices_changed(names, gone)
        self._table.refresh_devices()

    def _class_seen(self, _old: model.ApiObject | None, _new: model.ApiObject | None) -> None:
        """The watch shows a device class, or that it has gone."""
        self.classes_version += 1
        self._table.refresh_devices()

    def _note(self, devices: set[DeviceId]) -> None:
        """Note in the journal which rows' results may have changed."""
        self.devices.devices_changed(devices)
        journal, row_of = self._table.journal, self._table.row_of
        rows = set()
        for device in devices:
            node = self.slices.only_node((device.driver, device.pool))
            row = None if node is None else row_of.get(node)
            if row is None:
                self._table.refresh_devices()
                journal.changed_everything()
                return
            rows.add(row)
        self._table.refresh_devices(rows)
        for row in sorted(rows):
            journal.append(row, DYNAMIC)

    def facts_of(self, node: model.Node) -> list[DeviceFacts]:
        """Return the devices of a node as rules see them."""
        row = self._table.row_of.get(node.metadata.name)
        return [] if row is None else [device.facts for device in self.node_devices.on(row)]

    def amount(self, family: str, resource: str, node: model.Node) -> int:
        """Return how many devices of a node serve an extended resource, or are in use of them."""
        name = self._extended.class_of(resource)
        served = None if name is None else self._extended.device_class(name)
        if served is None:
            return 0
        expressions = [
            selector.cel.expression
            for selector in served.spec.selectors
            if selector.cel is not None
        ]
        view = NodeView(node.metadata.name, node.metadata.labels)
        state = self.state if family == "deviceRequested" else None
        return sum(
            (state is None or state.uses(device.id)) and self._matches(device, expressions)
            for device in self.slices.reached(view)
        )

    def _matches(self, device: DeviceView, expressions: Sequence[str]) -> bool:
        """Tell whether a class takes a device; one for which a selector fails it does not."""
        try:
            return all(self._of_classes.selected(expression, device) for expression in expressions)
        except SelectorError:
            return False


def key_of(claim: model.ResourceClaim) -> Key:
    """Return namespace and name of a claim."""
    meta = claim.metadata
    return meta.namespace or "default", meta.name


def uid_of(claim: model.ResourceClaim) -> str:
    """Return what names a claim for ever; of a manifest without UID, namespace and name."""
    return claim.metadata.uid or "/".join(key_of(claim))


def _newer(claim: model.ResourceClaim, other: model.ResourceClaim) -> bool:
    """Tell whether a claim was written after another; without versions it was not."""
    mine, its = claim.metadata.resource_version, other.metadata.resource_version
    if mine.isdecimal() and its.isdecimal():
        return int(mine) > int(its)
    return False
