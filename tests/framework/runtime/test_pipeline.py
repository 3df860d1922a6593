"""Pipeline: pluggy checks at the door, the profile's order inside."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace

import pytest

from policy_sched.errors import PluginError
from policy_sched.framework import Scope, Signature
from policy_sched.framework.extension_points import CONFIGURED, POINTS
from policy_sched.framework.hookspecs import SchedulerHooks, hookimpl
from policy_sched.framework.runtime.pipeline import (
    Implementations,
    freeze,
    implementations,
    points_of,
)
from policy_sched.framework.status import SUCCESS, Status
from policy_sched.model.pod_info import PodInfo


class Named:
    """Reserves and pre-binds; remembers nothing."""

    @hookimpl
    def reserve(self, node: str) -> Status:
        return Status(reasons=(node,))

    @hookimpl
    def unreserve(self, node: str) -> None: ...

    @hookimpl
    def pre_bind(self, state: object, pod: PodInfo, node: str) -> Status:
        return SUCCESS


class Signs(Named):
    """Also says what it reads."""

    @hookimpl
    def sign_pod(self) -> Signature:
        return Signature(frozenset({("labels",)}), Scope.NODE)


def implemented(**plugins: object) -> dict[str, Implementations]:
    """Return what plugins implement, by their names."""
    return {name: implementations(plugin, name) for name, plugin in plugins.items()}


def test_hooks_are_in_profile_order_and_unreserve_in_reverse() -> None:
    """The order is the profile's, not that of registration; companions come along."""
    plugins = implemented(a=Named(), b=Named(), c=Named())
    pipeline = freeze("s", plugins, {"reserve": [("c", 1), ("a", 1)]})
    assert [hook.plugin for hook in pipeline.at("reserve")] == ["c", "a"]
    assert [hook.plugin for hook in pipeline.at("unreserve")] == ["a", "c"]
    assert pipeline.at("pre_bind") == ()


def test_a_hook_may_leave_out_arguments() -> None:
    """A hook that takes fewer arguments gets those that it named."""
    pipeline = freeze("s", implemented(a=Named()), {"reserve": [("a", 1)]})
    (hook,) = pipeline.at("reserve")
    assert hook.function("state", "pod", "node-1") == Status(reasons=("node-1",))


def test_a_misspelled_argument_is_refused_with_its_name() -> None:
    """Pluggy checks argument names when the profile is built."""

    class Wrong:
        @hookimpl
        def reserve(self, nodes: str) -> Status:
            raise AssertionError(nodes)

    with pytest.raises(PluginError, match="nodes"):
        implementations(Wrong(), "wrong")


def test_a_misspelled_hook_is_refused_with_its_name() -> None:
    """A hook that is no extension point is a mistake, not dead code."""

    class Wrong:
        @hookimpl
        def filtre(self) -> Status:
            raise AssertionError

    with pytest.raises(PluginError, match="filtre"):
        implementations(Wrong(), "wrong")


def test_the_signature_is_the_union_of_those_that_filter_or_score() -> None:
    """Plugins at other points do not matter; one that does not say makes it unknown."""

    class Filters(Signs):
        @hookimpl
        def filter(self) -> None: ...

    class Silent:
        @hookimpl
        def score(self) -> None: ...

    plugins = implemented(a=Filters(), b=Named(), c=Silent())
    pipeline = freeze("s", plugins, {"filter": [("a", 1)], "reserve": [("b", 1)]})
    assert pipeline.signature() == Signature(frozenset({("labels",)}), Scope.NODE)
    whole = freeze("s", plugins, {"filter": [("a", 1)], "score": [("c", 1)]})
    assert whole.signature() is None


def test_points_of_a_plugin_are_the_hooks_it_implements() -> None:
    """What a profile may enable of a plugin is what it implements."""
    assert points_of(Signs()) == {"reserve", "unreserve", "pre_bind", "sign_pod"}


def test_what_is_known_of_a_kind_of_plugin_is_what_pluggy_finds() -> None:
    """Plugins of one class have other hooks of their own, with other arguments, wrapped or not."""

    def by_node(node: str) -> Status:
        return Status(reasons=(node,))

    def by_pod(pod: str) -> Status:
        return Status(reasons=(pod,))

    def wrapped(function: Callable[..., Status]) -> Callable[..., Status]:
        @wraps(function)
        def call(*arguments: object) -> Status:
            return function(*arguments)

        return call

    functions = (by_node, by_pod, wrapped(by_pod), wrapped(by_node))
    for _ in range(2):
        for function, reason in zip(functions, ("node", "pod", "pod", "node"), strict=True):
            found = implementations(SimpleNamespace(reserve=hookimpl(function)), "a")
            assert found["reserve"]("state", "pod", "node") == Status(reasons=(reason,))
        assert implementations(SimpleNamespace(reserve=by_node.__name__), "a") == {}
        assert set(implementations(Named(), "a")) == {"reserve", "unreserve", "pre_bind"}


def test_every_hook_is_a_point_and_every_point_a_hook() -> None:
    """The table and the page of hooks speak of the same things."""
    hooks = {name for name in vars(SchedulerHooks) if not name.startswith("_")}
    assert hooks == set(POINTS)
    assert all(POINTS[point].config == field for field, point in CONFIGURED.items())
