"""Leases of coordination.k8s.io/v1 over HTTP, and the task that keeps an election going."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import ApiError, micro_timestamp, parsed
from policy_sched.client.kube import rest
from policy_sched.client.kube.cache import Change, Reflector
from policy_sched.client.kube.events import Reference
from policy_sched.client.kube.leaderelection import state_machine
from policy_sched.client.kube.time import SECOND, BackoffState
from policy_sched.errors import ClusterError
from policy_sched.model import ApiObject, ApiStruct

LEASE: Final = ("coordination.k8s.io/v1", "Lease")

RELEASING: Final = 1.0
"""Seconds in which a lease is to be given back."""

Plain = dict[str, Any]


class HeldSpec(ApiStruct, gc=False):
    """The holder of a lease, as a watch reports it."""

    holder_identity: str | None = None


class HeldLease(ApiObject):
    """A lease, as far as a watch of it is of interest."""

    spec: HeldSpec = msgspec.field(default_factory=HeldSpec)


def spec_of(record: state_machine.LeaseRecord) -> Plain:
    """Return a record as a lease's spec has it."""
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration,
        "acquireTime": micro_timestamp(record.acquired),
        "renewTime": micro_timestamp(record.renewed),
        "leaseTransitions": record.transitions,
    }


def record_of(lease: Plain) -> state_machine.LeaseRecord:
    """Return the record of a lease. Raises ValueError if its spec is of another form."""
    spec = lease.get("spec") or {}
    if not isinstance(spec, dict):
        raise TypeError("the lease has no spec")
    return state_machine.LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration=int(spec.get("leaseDurationSeconds") or 0),
        acquired=parsed(str(spec["acquireTime"])) if spec.get("acquireTime") else 0,
        renewed=parsed(str(spec["renewTime"])) if spec.get("renewTime") else 0,
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def _annotations(lease: Plain) -> Plain:
    """Return the annotations of a lease; none where they are of another form."""
    metadata = lease.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


class Lease:
    """One lease; it is written as it was read or written last, or not at all.

    ``trouble`` gets failures other than a missing lease and a conflict.
    """

    def __init__(
        self,
        api: rest.Api,
        namespace: str,
        name: str,
        trouble: Callable[[str], None] = lambda _what: None,
    ) -> None:
        self.namespace = namespace
        self.name = name
        self._api = api
        self.trouble = trouble
        self._last: Plain = {}
        self._wanted: dict[str, tuple[str, Callable[[str], None]]] = {}

    def annotation(self, name: str) -> str | None:
        """Return an annotation as it was read or written last."""
        value = _annotations(self._last).get(name)
        return value if isinstance(value, str) else None

    def annotate(self, name: str, value: str, done: Callable[[str], None]) -> None:
        """Write an annotation with the next renewal, by which only the holder of the lease writes.

        ``done`` is called with an empty text once it is written.
        """
        self._wanted[name] = value, done

    @property
    def reference(self) -> Reference:
        """The lease, as events name what they are about."""
        meta = self._last.get("metadata", {})
        uid, version = (str(meta.get(field) or "") for field in ("uid", "resourceVersion"))
        return Reference(LEASE[1], self.namespace, self.name, uid, LEASE[0], version)

    async def send(
        self, request: state_machine.Request, timeout: float | None = None
    ) -> state_machine.Response:
        """Send the requests of an attempt. ``timeout``: seconds for each request."""
        try:
            if isinstance(request, state_machine.Get):
                path = rest.object_path(LEASE, self.namespace, self.name)
                body = await self._api.request("GET", path, timeout=timeout)
            else:
                body = await self._write(request, timeout)
            self._last = msgspec.json.decode(body, type=dict)
            if self._wanted and isinstance(request, state_machine.Update):
                self._tell_written()
            return state_machine.ObservedLease(record_of(self._last))
        except ApiError as error:
            if error.code == rest.NOT_FOUND and isinstance(request, state_machine.Get):
                return state_machine.NotThere()
            if error.code != rest.CONFLICT:
                self.trouble(f"{error.code}: {error}")
        except (ClusterError, ValueError, TypeError, RecursionError) as error:
            self.trouble(str(error))
        return state_machine.Failed()

    def _tell_written(self) -> None:
        """Tell of the annotations that the lease has now."""
        for name, (value, done) in [*self._wanted.items()]:
            if self.annotation(name) == value:
                del self._wanted[name]
                done("")

    async def _write(self, request: state_machine.Request, timeout: float | None) -> bytes:
        assert not isinstance(request, state_machine.Get)
        spec = spec_of(request.record)
        if isinstance(request, state_machine.Create):
            path = rest.collection_path(LEASE, self.namespace)
            meta = {"name": self.name, "namespace": self.namespace}
            made = {"apiVersion": LEASE[0], "kind": LEASE[1], "metadata": meta, "spec": spec}
            return await self._api.request("POST", path, made, timeout=timeout)
        path = rest.object_path(LEASE, self.namespace, self.name)
        lease: Plain = {**self._last, "spec": {**(self._last.get("spec") or {}), **spec}}
        if self._wanted:
            wanted = {name: value for name, (value, _) in self._wanted.items()}
            annotations = {**_annotations(lease), **wanted}
            lease["metadata"] = {**lease["metadata"], "annotations": annotations}
        return await self._api.request("PUT", path, lease, timeout=timeout)


class Elector:
    """Keeps an election going. ``run`` it as a task.

    The `Api` should try each request once (``RetryPolicy(tries=1)``) and have a limit of its own,
    so that renewals do not wait behind bindings. ``changed`` is called when we
    begin and cease to lead, ``new_holder`` whose the lease is. ``watch`` hears of what others
    write; while it is broken, attempts find out in their time.
    """

    def __init__(
        self,
        lease: Lease,
        election: state_machine.Election,
        api: rest.Api,
        changed: Callable[[bool], None],
        new_holder: Callable[[str], None] = lambda _holder: None,
    ) -> None:
        self.election = election
        self.lease = lease
        self._api = api
        self._environment = api.environment
        self._hint = asyncio.Event()
        selection = rest.Selection(LEASE, lease.namespace, f"metadata.name={lease.name}")
        self.watch = Reflector(api, selection, HeldLease, self._heard, trouble=self._trouble)
        self._changed = changed
        self._new_holder = new_holder
        self._led = False
        self._holder = ""

    async def run(self) -> None:
        """Try to lead, and to go on leading, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watch.run())
            while True:
                wait = self.election.due - self._environment.clocks.monotonic()
                if wait > 0:
                    await self._api.recovery.pause(self._sleep, wait / SECOND)
                self._hint.clear()
                await self.try_once()

    async def try_once(self) -> bool:
        """Run one attempt; it is cancelled when it takes longer than the lease is valid."""
        election, monotonic = self.election, self._environment.clocks.monotonic
        began, until = monotonic(), election.gives_up
        deadline = election.settings.renew_deadline
        limit = deadline if until is None else max(0.0, (until - began) / SECOND)
        held = False
        try:
            async with asyncio.timeout(limit):
                held = await self._drive(election.attempt(), deadline / 2)
        except TimeoutError:
            election.conclude(False, began)
        self._tell()
        return held

    async def release(self, within: float = RELEASING) -> None:
        """Release the lease, if held; retry an unavailable server ``within`` so many seconds."""
        pauses = BackoffState(
            rest.REQUEST_BACKOFF, self._environment.clocks.monotonic, self._environment.random
        )
        with suppress(TimeoutError):
            async with asyncio.timeout(within) as limit:
                while not await self._drive(self.election.release(), within):
                    if limit.expired():
                        break  # aiohttp has taken the cancellation for its own time-out
                    await self._api.pause(pauses.next())
        self._tell()

    def _heard(self, changes: Sequence[Change[HeldLease]]) -> None:
        if self.election.observe_holder(changes[-1].object.spec.holder_identity or ""):
            self._hint.set()

    def _trouble(self, _selection: rest.Selection, what: str) -> None:
        self.lease.trouble(what)

    async def _sleep(self, seconds: float) -> None:
        await rest.first_of(self._environment.sleep(seconds), self._hint.wait())

    async def _drive(
        self,
        attempt: Generator[state_machine.Request, state_machine.Response, bool],
        timeout: float,
    ) -> bool:
        try:
            request = next(attempt)
            while True:
                request = attempt.send(await self.lease.send(request, timeout))
        except StopIteration as end:
            return bool(end.value)

    def _tell(self) -> None:
        election = self.election
        if election.leading != self._led:
            self._led = election.leading
            self._changed(self._led)
        if election.holder != self._holder:
            self._holder = election.holder
            self._new_holder(self._holder)
