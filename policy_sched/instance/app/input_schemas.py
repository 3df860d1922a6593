"""Holds the cluster's definitions of the kinds of inputs against what rules in force read of them.

Nothing follows for decisions: objects of other types are left out one by one, and the last good
version of each stays. But an operator should know before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from policy_sched.language import Input
from policy_sched.language.values import schema_changes
from policy_sched.manifests import custom_data
from policy_sched.model import CustomObject, Kind

if TYPE_CHECKING:
    from policy_sched.client.kube.cache import Reflector

GONE: Final = ("its CustomResourceDefinition is gone",)

Definition = Callable[[Input], Mapping[str, Any] | None]
"""Returns the definition of an input's kind; None: the cluster has none."""
Tell = Callable[[Input, tuple[str, ...]], None]
"""Called where differences come, change or go."""


class InputSchemas:
    """Holds definitions against ``inputs``: what differs, by the identity of each.

    Nothing is compared before `follow` or `look`.
    """

    def __init__(self, definition: Definition, tell: Tell, inputs: Iterable[Input]) -> None:
        self._definition, self._tell = definition, tell
        self._inputs = {given.identity: given for given in inputs if given.custom}
        self._changes: dict[str, tuple[str, ...]] = {}
        self._defined: set[Kind] = set()
        """Kinds that had a definition: others, as those of aggregated APIs, have none."""

    def follow(self, inputs: Iterable[Input]) -> None:
        """Hold the definitions against these inputs from now on."""
        self._inputs = {given.identity: given for given in inputs if given.custom}
        self._changes = {key: told for key, told in self._changes.items() if key in self._inputs}
        self._defined &= {given.object_kind for given in self._inputs.values()}
        self.look()

    def look(self) -> None:
        """Compare, and tell what differs from what was told."""
        for identity, given in self._inputs.items():
            definition = self._definition(given)
            if definition is not None:
                self._defined.add(given.object_kind)
                changes = schema_changes(given.type, given.api_version, definition)
            else:
                changes = GONE if given.object_kind in self._defined else ()
            if changes != self._changes.get(identity, ()):
                self._changes[identity] = changes
                self._tell(given, changes)

    def counts(self) -> dict[str, int]:
        """Return how many differences each input has."""
        return {
            given.name: len(self._changes.get(identity, ()))
            for identity, given in self._inputs.items()
        }


class WatchedDefinitions:
    """Watches definitions behind an API server, each by its name; nothing waits for them.

    ``names`` returns those that are wanted; ``moved`` is set where there may be others.
    An account that may not watch them is told so in the log, and decides as before.
    """

    def __init__(
        self,
        reflector: Callable[[str], Reflector[CustomObject]],
        names: Callable[[], Collection[str]],
    ) -> None:
        self._reflector, self._names = reflector, names
        self._watches: dict[str, Reflector[CustomObject]] = {}
        self.moved = asyncio.Event()

    def find(self, name: str) -> Mapping[str, Any] | None:
        """Return a definition as it is now, None if it is not known."""
        watch = self._watches.get(name)
        there = None if watch is None else next(iter(watch.mirror), None)
        return None if there is None else custom_data(there)

    async def run(self) -> None:
        """Watch until cancelled."""
        running: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            while True:
                names = self._names()
                for name in running.keys() - names:
                    running.pop(name).cancel()
                    del self._watches[name]
                for name in sorted(set(names) - running.keys()):
                    watch = self._watches[name] = self._reflector(name)
                    running[name] = tasks.create_task(watch.run())
                self.moved.clear()
                await self.moved.wait()
