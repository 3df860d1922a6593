"""Plugins that are used again, and those that are let go of."""

from __future__ import annotations

import pytest

from policy_sched.errors import PluginError
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.profiles.build.pipeline import PluginCache


class Plugin:
    """Implements one hook."""

    @hookimpl
    def pre_enqueue(self, pod: object) -> None:
        """Say nothing."""


class Misfit:
    """Wants an argument that no hook has."""

    @hookimpl
    def pre_enqueue(self, pot: object) -> None:
        """Say nothing."""


def test_a_plugin_is_made_once_for_what_it_says() -> None:
    """The same key gives the same functions, another one others."""
    made = PluginCache()
    made.begin()
    first = made.get(("profile", "name", "a"), Plugin)
    assert set(first) == {"pre_enqueue"}
    assert made.get(("profile", "name", "a"), Plugin) is first
    assert made.get(("profile", "name", "b"), Plugin) is not first


def test_what_a_build_did_not_ask_for_is_dropped() -> None:
    """Not before the build is in force: a build that fails evicts no plugin."""
    made = PluginCache()
    made.begin()
    first = made.get(("one", "name", "1"), Plugin)
    made.built("plan of one")
    kept = made.get(("two", "name", "1"), Plugin)
    made.built("plan of two")
    made.settle()
    made.begin()
    assert made.get(("one", "name", "1"), Plugin) is first
    made.begin()
    made.keep("plan of two")
    made.settle()
    assert made.get(("two", "name", "1"), Plugin) is kept
    assert made.get(("one", "name", "1"), Plugin) is not first


def test_a_plugin_that_does_not_fit() -> None:
    """It is named in the error."""
    with pytest.raises(PluginError, match="Mine"):
        PluginCache().get(("profile", "Mine", 1), Misfit)
