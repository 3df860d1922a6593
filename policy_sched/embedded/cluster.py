"""EmbeddedCluster: the object store with everything that acts on it, stepped by its owner.

Theory of operation: kubelets, controllers and the event log are `Component`s. `step` shows each of
them what changed in the store since the last step, runs them one after the other, and repeats that
until nothing changes or the time is over. The next step begins with the component after the one
that ran last, so that each has its turn however short the steps are. Nothing happens between two
steps and nothing waits: `next_wakeup` returns when the next step is due if no object changes
before. A component keeps only state that it can read from the objects again, so a restart is one
step over all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from policy_sched.client.apimachinery import NAMESPACE, ApiError, Expired, Stored
from policy_sched.embedded.controllers import (
    ALL_KINDS,
    Component,
    CustomResourceController,
    KeyTimers,
    Over,
    RetryCounts,
    controllers,
)
from policy_sched.embedded.events import EventLog
from policy_sched.embedded.kubelet import Kubelets, KubeletTimes
from policy_sched.embedded.store import (
    HISTORY,
    MERGE,
    STATUS,
    STRATEGIC,
    DeleteOptions,
    Key,
    ObjectStore,
    SqliteStorage,
    StoreChange,
    Watch,
    annotated,
    patch_of,
)
from policy_sched.model import Kind

OBSERVED: Final = 100
"""Changes that are observed between two looks at the time."""
ROUNDS: Final = 1000
"""Rounds of one step, after which it returns even if the components have not come to rest."""
_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


def never() -> bool:
    """Return that the time is not over."""
    return False


class EmbeddedCluster:
    """A cluster without a scheduler. ``store`` holds the objects, ``components`` act on them."""

    def __init__(
        self, store: ObjectStore, times: KubeletTimes, *, controllers: bool = True
    ) -> None:
        self.store = store
        store.controlled = controllers
        self.times = times
        self._numbers = count()
        self._effects: dict[int, Callable[[], None]] = {}
        self._timers: KeyTimers[int] = KeyTimers()
        self._retries: RetryCounts[str] = RetryCounts("cluster", store)
        self._paused: dict[str, int] = {}
        self._turn = 0
        for name in _FIRST_NAMESPACES:
            self._need_namespace(name)
        self._begin()

    @classmethod
    def open(
        cls,
        path: str | None,
        now: Callable[[], int],
        *,
        kubelets: KubeletTimes | None = None,
        history: int = HISTORY,
        controllers: bool = True,
    ) -> EmbeddedCluster:
        """Return the cluster that is kept in a file, made if it is not there; None: in memory.

        ``now`` returns nanoseconds since 1970. ``history``: how many changes watches can be
        behind. ``controllers``: False leaves them to clients of the API. Raises
        ClusterError if the file is in use or is no cluster's.
        """
        storage = SqliteStorage(path) if path is not None else None
        store = ObjectStore(now, storage, history)
        return cls(store, kubelets or KubeletTimes(), controllers=controllers)

    def _begin(self) -> None:
        """Create all components, which then observe every object as added."""
        self.kubelets = Kubelets(self.store, self.times)
        self.controllers = controllers(self.store) if self.store.controlled else ()
        self.events = EventLog(self.store)
        always = CustomResourceController(self.store)
        components = (self.kubelets, *self.controllers, always, self.events)
        self.components: tuple[Component, ...] = components
        self._observers: dict[Kind, list[Component]] = {}
        for component in components:
            for kind in component.kinds:
                self._observers.setdefault(kind, []).append(component)
        self._observers_of_all = [part for part in components if part.kinds is ALL_KINDS]
        self._watch: Watch = self.store.watch()

    def close(self) -> None:
        """Close the file."""
        self.store.storage.close()

    # Time.

    def step(self, over: Over = never) -> None:
        """Run controllers and kubelets until there is no change to handle and no timer is due.

        It ends earlier when the time is ``over``; `next_wakeup` returns the present time then.
        The time is checked after each object that a component has changed.
        """
        if self.store.storage.recovered():
            self._begin()  # what was given up meanwhile, or put off for long, is done now
        for _ in range(ROUNDS):
            if not self._observe(over) or not self._round(over) or over():
                return

    def _observe(self, over: Over) -> bool:
        """Show all changes to the components; return whether there was time for all of them.

        No component acts before all of them are observed.
        """
        while True:
            try:
                changes = self._watch.drain(OBSERVED)
            except Expired:
                self._begin()
                continue
            for change in changes:
                observers = self._observers.get(change.new.resource.key, self._observers_of_all)
                for component in observers:
                    self._show(component, change)
            if not self._watch.behind:
                return True
            if over():
                return False

    def _round(self, over: Over) -> bool:
        """Run every component once, or as many as there is time for; return whether any acted."""
        acted = False
        for number in self._timers.expired(self.store.now()):
            self._effects.pop(number)()
            acted = True
        if acted and not self._observe(over):
            return True
        for _ in self.components:
            component = self.components[self._turn % len(self.components)]
            self._turn = (self._turn + 1) % len(self.components)
            if self._run(component, over):
                acted = True
                if over():
                    return True
        return acted

    def _show(self, component: Component, change: StoreChange) -> None:
        try:
            component.observe(change)
        except Exception as error:  # noqa: BLE001 - an object of whatever content is contained
            stored, name = change.new, type(component).__name__
            self._retries.failed(f"{name}: {stored.resource.kind} {stored.namespaced_name}", error)

    def _run(self, component: Component, over: Over) -> bool:
        """Run a component. One that fails as a whole pauses, and the others go on."""
        name = type(component).__name__
        if self._paused.get(name, 0) > self.store.now():
            return False
        try:
            acted = component.run(over)
        except Exception as error:  # noqa: BLE001 - an object of whatever content is contained
            self._paused[name] = self._retries.failed(name, error)
            return False
        if self._paused.pop(name, None) is not None:
            self._retries.succeeded(name)
        return acted

    def next_wakeup(self) -> int | None:
        """Return when something happens by itself (ns since 1970), None if nothing will.

        The time is now if a change waits for a step.
        """
        if self._watch.behind:
            return self.store.now()
        times = [self._timers.next()]
        for component in self.components:
            due = component.next_wakeup()
            paused = self._paused.get(type(component).__name__)
            times.append(due if due is None or paused is None else max(due, paused))
        return min((time for time in times if time is not None), default=None)

    def later(self, due: int, effect: Callable[[], None]) -> None:
        """Run an effect in the first step at or after a time (ns since 1970)."""
        number = next(self._numbers)
        self._effects[number] = effect
        self._timers.set(number, due)

    # Objects.

    def load(self, data: Mapping[str, Any]) -> Stored:
        """Add an object as it was in another cluster: with its uid, times and status.

        Raises ApiError if it is there already, or is refused.
        """
        self._need_namespace(_namespace(data))
        return self.store.create(data, recorded=True)

    def apply(self, data: Mapping[str, Any]) -> Stored:
        """Apply an object of a file, as ``kubectl apply`` does, and create its namespace.

        A status is written where a file may give one (a node's, a volume's), and kept of an
        object that was read from a cluster, known by its uid. Raises ApiError if refused.
        """
        given = str(data.get("apiVersion") or ""), str(data.get("kind") or "")
        kind = self.store.custom.resource(given)
        wanted = annotated(data)
        namespace = _namespace(wanted) if kind.namespaced else ""
        if namespace:
            self._need_namespace(namespace)
        name = str(wanted["metadata"].get("name") or "")
        stored = self.store.find(kind.key, namespace, name)
        if stored is None:
            return self.store.create(wanted, recorded=bool(wanted["metadata"].get("uid")))
        key = Key(kind.key, namespace, name)
        form = MERGE if kind.custom else STRATEGIC
        stored = self.store.patch(key, patch_of(stored, wanted), form)
        status = wanted.get(STATUS)
        if status and kind.has_status and not kind.status_reported:
            stored = self.store.patch(key, {STATUS: status}, form, STATUS)
        return stored

    def delete(self, key: Key, options: DeleteOptions | None = None) -> Stored | None:
        """Delete an object; None if it is not there. Pods leave after their grace period."""
        try:
            return self.store.delete(key, options)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def _need_namespace(self, name: str) -> None:
        if self.store.find(NAMESPACE, "", name) is None:
            meta = {"name": name}
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})


def _namespace(data: Mapping[str, Any]) -> str:
    return str((data.get("metadata") or {}).get("namespace") or "default")
