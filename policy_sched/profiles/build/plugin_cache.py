"""Plugins that were made for one cluster: a reload uses those again that say what they said.

That saves work, and it keeps what a plugin remembers: assumptions about volumes outlive a reload
of other policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from policy_sched.framework.runtime import Implementations, implementations

Key: TypeAlias = tuple[str, str, str]
"""Profile, plugin, and the hash of what it says: of a policy, or of arguments."""


class PluginCache:
    """What plugins implement, by what they were made of.

    A build begins, takes plugins by `get` and whole profiles by `keep`; once its result is in
    force, `settle` drops what the build did not ask for.
    """

    def __init__(self) -> None:
        self._made: dict[Key, Implementations] = {}
        self._used: set[Key] = set()

    def begin(self) -> None:
        """Clear the record of an earlier build's requests."""
        self._used.clear()

    def get(self, key: Key, make: Callable[[], object]) -> Implementations:
        """Return what the plugin of that key implements; the plugin is made if need be.

        Raises PolicyError or PluginError if it refuses its arguments or does not fit the hooks.
        """
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = implementations(make(), key[1])
        self._used.add(key)
        return found

    def keep(self, profile: str) -> None:
        """Ask for every plugin of a profile."""
        self._used.update(key for key in self._made if key[0] == profile)

    def settle(self) -> None:
        """Evict plugins that were not requested since the build began."""
        self._made = {key: made for key, made in self._made.items() if key in self._used}
