"""Plugins that were made for one cluster: a reload uses those again that say what they said.

That saves work, and it keeps what a plugin remembers: assumptions about volumes outlive a reload
of other policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from policy_sched.framework.pipeline import points_of

Key: TypeAlias = tuple[str, str, object]
"""Profile, plugin, and what it says: a compiled policy, or a hash of arguments."""


class MadePlugins:
    """Plugin objects with their hooks' names, by what they were made of.

    A build begins, takes plugins by `get` and whole profiles by `keep`; once its result is in
    force, `settle` drops what the build did not ask for.
    """

    def __init__(self) -> None:
        self._made: dict[Key, tuple[object, frozenset[str]]] = {}
        self._used: set[Key] = set()

    def begin(self) -> None:
        """Forget what an earlier build has asked for."""
        self._used.clear()

    def get(self, key: Key, make: Callable[[], object]) -> tuple[object, frozenset[str]]:
        """Return the plugin of that key and the points that it implements; made if need be."""
        found = self._made.get(key)
        if found is None:
            plugin = make()
            found = self._made[key] = (plugin, points_of(plugin))
        self._used.add(key)
        return found

    def keep(self, profile: str) -> None:
        """Ask for every plugin of a profile."""
        self._used.update(key for key in self._made if key[0] == profile)

    def settle(self) -> None:
        """Drop what was not asked for since the build began."""
        self._made = {key: made for key, made in self._made.items() if key in self._used}
