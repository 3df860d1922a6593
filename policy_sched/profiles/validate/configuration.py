"""Checks a configuration beyond its shape, as upstream's validation.go does, and a little more.

More than upstream: removed plugins are refused under every point, and arguments are checked for
every plugin that has any. Names of plugins are checked in resolve.py, where all are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy_sched.profiles.models import (
    API_VERSION,
    BAD_VALUE,
    MULTI_POINT,
    POINTS,
    REMOVED_PLUGINS,
    UNLIKE_QUEUE_SORT,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
    Path,
    PluginSet,
    Problem,
    duplicate,
    invalid,
    path_text,
    required,
)
from policy_sched.profiles.validate.extenders import check_extenders

_SET_FIELDS: Final = {
    point: "".join(f"_{c.lower()}" if c.isupper() else c for c in point)
    for point in (*POINTS, MULTI_POINT)
}
_REMOVED: Final = (
    f'was invalid in version "{API_VERSION}"'
    f' (KubeSchedulerConfiguration is version "{API_VERSION}")'
)


def plugin_set(profile: KubeSchedulerProfile, point: str) -> PluginSet:
    """Return what a profile says about ``point``, a field of ``plugins``."""
    found = getattr(profile.plugins, _SET_FIELDS[point])
    assert isinstance(found, PluginSet)
    return found


def check_configuration(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Yield what is wrong with a configuration of the right shape; arguments not included."""
    if config.leader_election.leader_elect:
        yield from _leader_election(config.leader_election)
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        words = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid(("podMaxBackoffSeconds",), config.pod_max_backoff_seconds, words)
    yield from _profiles(config)
    yield from check_extenders(config.extenders)


def _leader_election(election: LeaderElection) -> Iterator[Problem]:
    path: Path = ("leaderElection",)
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for key, value in durations.items():
        if value <= 0:
            yield _duration((*path, key), "must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        yield _duration((*path, "leaseDuration"), "must be greater than `RenewDeadline`")
    if election.resource_lock != "leases":
        words = 'resourceLock value must be "leases"'
        yield invalid((*path, "resourceLock"), election.resource_lock, words)


def _duration(path: Path, why: str) -> Problem:
    """Return the problem of a duration out of range; the source line shows its value."""
    return Problem(path, BAD_VALUE, f"{path_text(path)}: Invalid value: {why}")


def _profiles(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    names: set[str] = set()
    for i, profile in enumerate(config.profiles):
        path: Path = ("profiles", i)
        name = profile.scheduler_name
        if name == "" or (name is None and len(config.profiles) > 1):
            yield required((*path, "schedulerName"))
        elif name is not None:
            if name in names:
                yield duplicate((*path, "schedulerName"), name)
            names.add(name)
        yield from _removed(profile, path)
        yield from _plugin_config(profile, path)
    yield from _queue_sort(config)


def _removed(profile: KubeSchedulerProfile, path: Path) -> Iterator[Problem]:
    """Yield empty names and removed plugins; disabling one of those is only worth a warning."""
    for point in (*POINTS, MULTI_POINT):
        at = (*path, "plugins", point)
        chosen = plugin_set(profile, point)
        for i, plugin in enumerate(chosen.enabled):
            if not plugin.name:
                yield required((*at, "enabled", i, "name"))
            if plugin.name in REMOVED_PLUGINS:
                yield invalid((*at, "enabled", i, "name"), plugin.name, _REMOVED)
        for i, disabled in enumerate(chosen.disabled):
            if disabled.name in REMOVED_PLUGINS:
                where = (*at, "disabled", i, "name")
                text = (
                    f'{path_text(where)}: plugin "{disabled.name}" was removed: nothing to disable'
                )
                yield Problem(where, BAD_VALUE, text, warning=True)


def _plugin_config(profile: KubeSchedulerProfile, path: Path) -> Iterator[Problem]:
    seen: set[str] = set()
    for i, config in enumerate(profile.plugin_config):
        at = (*path, "pluginConfig", i, "name")
        if config.name in seen:
            yield duplicate(at, config.name)
        seen.add(config.name)
        if not config.name:
            yield required(at)
        if config.name in REMOVED_PLUGINS:
            yield invalid(at, config.name, _REMOVED)


def _queue_sort(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Yield profiles whose queueSort differs from the first one's: they share one queue."""
    if not config.profiles:
        return
    first = config.profiles[0]
    own = first.plugins.queue_sort
    if len(own.enabled) > 1:
        at: Path = ("profiles", 0, "plugins", "queueSort", "enabled")
        yield invalid(at, len(own.enabled), "only one queue sort plugin can be enabled")
    args = {c.name: c.args for c in first.plugin_config}
    for i, profile in enumerate(config.profiles[1:], start=1):
        if profile.plugins.queue_sort != own:
            at = ("profiles", i, "plugins", "queueSort")
            text = f"{path_text(at)}: Invalid value: must be the same for all profiles"
            yield Problem(at, UNLIKE_QUEUE_SORT, text)
        for j, entry in enumerate(profile.plugin_config):
            sorts = own.enabled and own.enabled[0].name == entry.name
            if sorts and entry.args != args.get(entry.name, {}):
                at = ("profiles", i, "pluginConfig", j, "args")
                text = (
                    f"{path_text(at)}: Invalid value: queueSort must be the same for all profiles"
                )
                yield Problem(at, UNLIKE_QUEUE_SORT, text)
