"""A Pipeline: one profile, frozen: for each extension point its plugins in profile order.

pluggy is used at load time only. It checks argument names against hookspecs.py when a plugin is
registered; then the implementations are read out once, put into the profile's order and kept as
plain functions. pluggy's own calls run the last-registered plugin first, drop None and do not
name the plugin that decided, so pod time never uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from inspect import unwrap
from operator import itemgetter
from threading import Lock
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

import msgspec
import pluggy

from policy_sched.errors import PluginError
from policy_sched.framework import CONFIGURED, POINTS, FusedRules, Scope, Signature, hookspecs
from policy_sched.model import PodInfo

ENTRY_POINT_GROUP: Final = "policy_sched.plugins"
_INSPECTION_LOCK: Final = Lock()
_MARK: Final = f"{hookspecs.PROJECT}_impl"
"""The attribute with which pluggy marks an implementation."""


Percentage: TypeAlias = int | Literal["adaptive"]
"""How many of all nodes are enough, in percent; 0 and 100: all. Adaptive: fewer where many are."""


Implementations: TypeAlias = Mapping[str, Callable[..., object]]
"""What one plugin implements: by hook, a function of all its arguments."""


class Hook(msgspec.Struct, frozen=True):
    """One plugin's implementation of one extension point."""

    plugin: str
    function: Callable[..., object]
    weight: int = 1


class Pipeline(msgspec.Struct, frozen=True):
    """What pod time runs for the pods of one ``schedulerName``.

    ``hooks``: extension point to its implementations, in profile order. ``signatures``: what
    each filtering or scoring plugin reads; a plugin without a signature is missing there.
    ``generation`` and ``content_hash`` identify the set of files that made it.
    """

    scheduler_name: str
    hooks: Mapping[str, tuple[Hook, ...]]
    signatures: Mapping[str, Signature]
    percentage_of_nodes_to_score: Percentage = 0
    generation: int = 0
    content_hash: str = ""
    feature_gates: frozenset[str] = frozenset()
    """The feature gates that are on besides those that always are."""
    rules: FusedRules | None = None
    """The rules of its policies that run as one."""

    def at(self, point: str) -> tuple[Hook, ...]:
        """Return the implementations of one extension point, in order."""
        return self.hooks.get(point, ())

    def scope(self, plugin: str) -> Scope:
        """Return how far a change can reach the plugin's results; Volatile without a signature."""
        signature = self.signatures.get(plugin)
        return Scope.VOLATILE if signature is None else signature.scope

    def signature(self, most: Scope = Scope.VOLATILE) -> Signature | None:
        """Return all fields of a pod that plugins read; None if a plugin has no signature.

        ``most``: plugins of a wider scope do not count.
        """
        fields: set[tuple[str, ...]] = set()
        keys: list[Callable[[PodInfo], Hashable]] = []
        scope = Scope.STATIC
        for point in ("pre_filter", "filter", "pre_score", "score"):
            for hook in self.at(point):
                part = self.signatures.get(hook.plugin)
                if part is None:
                    return None
                if part.scope > most:
                    continue
                fields |= part.fields
                keys += (key for key in part.keys if key not in keys)
                scope = max(scope, part.scope)
        return Signature(frozenset(fields), scope, keys=tuple(keys))


def _misfit(name: str, error: Exception) -> PluginError:
    words = "; ".join(str(error).splitlines())
    return PluginError(f'plugin "{name}" does not fit the hooks: {words}')


def points_of(plugin: object) -> frozenset[str]:
    """Return the hooks that a plugin object implements, whatever a profile enables of them."""
    return frozenset(implementations(plugin, "plugin"))


def implementations(plugin: object, name: str) -> Implementations:
    """Return what a plugin object implements. Raises PluginError if it does not fit the hooks."""
    kind = _kind(plugin)
    arguments = _ARGUMENTS.get(kind) if kind else None
    if arguments is None:
        arguments = _inspected(plugin, name)
        if kind:
            _ARGUMENTS[kind] = arguments
    return {
        point: _full_arguments(point, getattr(plugin, point), wanted)
        for point, wanted in arguments.items()
    }


_ARGUMENTS: Final[dict[tuple[object, ...], Mapping[str, Sequence[str]]]] = {}
"""By kind of plugin, the arguments of its hooks: pluggy looks at each kind once per process."""


def _kind(plugin: object) -> tuple[object, ...] | None:
    """Return the class of a plugin and the code of hooks that it has itself, None if unknown."""
    if isinstance(plugin, type) or not hasattr(plugin, "__dict__"):
        return None
    parts: list[object] = [type(plugin)]
    for name, value in vars(plugin).items():
        if hasattr(value, _MARK):
            parts += (name, getattr(unwrap(value), "__code__", None))
    return None if None in parts else tuple(parts)


def _inspected(plugin: object, name: str) -> Mapping[str, Sequence[str]]:
    """Return by hook the arguments that a plugin's implementation takes."""
    with _INSPECTION_LOCK:
        manager = _inspection_manager()
        try:
            manager.register(plugin, name=name)
            manager.check_pending()
            return {
                caller.name: impl.argnames
                for caller in manager.get_hookcallers(plugin) or ()
                if caller.name in POINTS
                for impl in caller.get_hookimpls()
            }
        except (pluggy.PluginValidationError, ValueError) as error:
            raise _misfit(name, error) from error
        finally:
            if manager.get_plugin(name) is not None:
                manager.unregister(name=name)


@cache
def _inspection_manager() -> pluggy.PluginManager:
    """Return the plugin manager with which one plugin at a time is registered for inspection."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs.SchedulerHooks)
    return manager


def freeze(  # noqa: PLR0913 - all but three may be left out
    scheduler_name: str,
    plugins: Mapping[str, Implementations],
    order: Mapping[str, Iterable[tuple[str, int]]],
    *,
    percentage_of_nodes_to_score: Percentage = 0,
    generation: int = 0,
    content_hash: str = "",
    feature_gates: frozenset[str] = frozenset(),
) -> Pipeline:
    """Make a Pipeline of what plugins implement, by their names.

    ``order``: the field of a profile's ``plugins`` (``preFilter``) to the names and weights of
    the enabled plugins, in order. A name without an implementation of that point is an error
    of the caller: the profile is checked before.
    """
    by_point: dict[str, dict[str, Callable[..., object]]] = {point: {} for point in POINTS}
    for name, functions in plugins.items():
        for point, function in functions.items():
            by_point[point][name] = function
    hooks: dict[str, tuple[Hook, ...]] = {}
    for field, names in order.items():
        point = CONFIGURED[field]
        enabled = tuple(names)
        hooks[point] = tuple(Hook(name, by_point[point][name], weight) for name, weight in enabled)
        for companion in (p for p in POINTS.values() if p.along_with == point):
            listed = reversed(enabled) if companion.reverse else enabled
            hooks[companion.hook] = tuple(
                Hook(name, by_point[companion.hook][name], weight)
                for name, weight in listed
                if name in by_point[companion.hook]
            )
    names_in_use = {hook.plugin for chain in hooks.values() for hook in chain}
    hooks["events_to_register"] = tuple(
        Hook(name, function)
        for name, function in sorted(by_point["events_to_register"].items())
        if name in names_in_use
    )
    signatures = {
        name: _signature(name, function)
        for name, function in by_point["sign_pod"].items()
        if name in names_in_use
    }
    return Pipeline(
        scheduler_name,
        MappingProxyType(hooks),
        MappingProxyType(signatures),
        percentage_of_nodes_to_score,
        generation,
        content_hash,
        feature_gates,
    )


def _signature(name: str, function: Callable[..., object]) -> Signature:
    signature = function()
    if not isinstance(signature, Signature):
        raise PluginError(f'plugin "{name}": sign_pod must return a Signature, got {signature!r}')
    return signature


def _full_arguments(
    point: str, function: Callable[..., object], wanted: Sequence[str]
) -> Callable[..., object]:
    """Return an implementation as a function of all the hook's arguments, by position."""
    code = getattr(hookspecs.SchedulerHooks, point).__code__
    names = [name for name in code.co_varnames[: code.co_argcount] if name != "self"]
    if names == list(wanted):
        return function
    places = [names.index(name) for name in wanted]
    if not places:
        return lambda *_args: function()
    if len(places) == 1:
        (only,) = places
        return lambda *args: function(args[only])
    pick = itemgetter(*places)
    return lambda *args: function(*pick(args))
