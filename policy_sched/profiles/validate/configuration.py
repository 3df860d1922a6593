"""Checks a configuration beyond its shape, as upstream's validation.go does, and a little more.

More than upstream: removed plugins are refused under every point, and arguments are checked for
every plugin that has any. Names of plugins are checked in resolve.py, where all are known.

More than upstream: addresses, time-outs and TLS settings of extenders are checked before the first
call fails by them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from policy_sched.model import LABEL_OPERATORS, requirement
from policy_sched.profiles import models
from policy_sched.profiles.validate.plugin_args import label_name_faults
from policy_sched.source import masked


def check_extenders(extenders: tuple[models.Extender, ...]) -> Iterator[models.ModelProblem]:
    """Yield the problems of the extenders of a configuration."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path: models.Path = ("extenders", i)
        if extender.prioritize_verb and extender.weight <= 0:
            words = "must have a positive weight applied to it"
            yield models.invalid((*path, "weight"), extender.weight, words)
        yield from _address(extender, path)
        if extender.http_timeout < 0:
            yield models.problem_at((*path, "httpTimeout"), "Invalid value: must not be negative")
        if extender.tls_config is not None:
            yield from _tls(extender.tls_config, (*path, "tlsConfig"))
        if extender.pod_selector is not None:
            yield from _selector(extender.pod_selector, (*path, "podSelector"))
        for j, resource in enumerate(extender.managed_resources):
            at = (*path, "managedResources", j, "name")
            faults = label_name_faults(resource.name)
            yield from (models.invalid(at, resource.name, fault) for fault in faults)
            if not faults and not _is_extended(resource.name):
                yield models.invalid(at, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield models.invalid(at, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        text = f"found {len(binders)} extenders implementing bind"
        problem = models.invalid(("extenders",), text, "only one extender can implement bind")
        yield models.ModelProblem(
            ("extenders", binders[1], "bindVerb"), models.BAD_VALUE, problem.message
        )


def _address(extender: models.Extender, path: models.Path) -> Iterator[models.ModelProblem]:
    at = (*path, "urlPrefix")
    address = extender.url_prefix
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        yield models.invalid(at, masked(address), "is not an address")
        return
    if not sound:
        yield models.invalid(at, masked(address), "must be an http or https address")
        return
    if not address.isascii() or any(c.isspace() or not c.isprintable() for c in address):
        yield models.invalid(
            at, masked(address), "must not hold spaces, or characters beyond ASCII"
        )
    if parts.username is not None or parts.query or parts.fragment:
        yield models.invalid(at, masked(address), "must not hold a user, a query or a fragment")
    if extender.enable_https and parts.scheme == "http":
        yield models.problem_at(
            (*path, "enableHTTPS"),
            "urlPrefix begins with http: calls are not encrypted",
            hint="begin urlPrefix with https",
            warning=True,
        )


def _tls(tls: models.ExtenderTLSConfig, path: models.Path) -> Iterator[models.ModelProblem]:
    for field, text in (
        ("certData", tls.cert_data),
        ("keyData", tls.key_data),
        ("caData", tls.ca_data),
    ):
        if decoded(text) is None:
            yield models.problem_at((*path, field), "Invalid value: is not base64")


def _selector(
    selector: models.ExtenderPodSelector, path: models.Path
) -> Iterator[models.ModelProblem]:
    for key, value in selector.match_labels.items():
        try:
            requirement(key, "In", (value,))
        except ValueError as error:
            yield models.problem_at((*path, "matchLabels", key), str(error))
    for i, one in enumerate(selector.match_expressions):
        try:
            requirement(one.key, one.operator, one.values, LABEL_OPERATORS)
        except ValueError as error:
            at: models.Path = (*path, "matchExpressions", i)
            yield models.ModelProblem(at, models.BAD_VALUE, f"{models.path_text(at)}.{error}")


def decoded(text: str) -> bytes | None:
    """Return what a text is in base64, None if it is not base64; line breaks do not matter."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        return None


def _is_extended(name: str) -> bool:
    """Is this a resource outside kubernetes.io, whose quota name is valid too?"""
    native = "/" not in name or "kubernetes.io/" in name
    return (
        not native
        and not name.startswith("requests.")
        and not label_name_faults(f"requests.{name}")
    )


_SET_FIELDS: Final = {
    point: "".join(f"_{c.lower()}" if c.isupper() else c for c in point)
    for point in (*models.POINTS, models.MULTI_POINT)
}
_REMOVED: Final = (
    f'was invalid in version "{models.API_VERSION}"'
    f' (KubeSchedulerConfiguration is version "{models.API_VERSION}")'
)


def plugin_set(profile: models.KubeSchedulerProfile, point: str) -> models.PluginSet:
    """Return the entry of a profile for ``point``, a field of ``plugins``."""
    found = getattr(profile.plugins, _SET_FIELDS[point])
    assert isinstance(found, models.PluginSet)
    return found


def check_configuration(config: models.KubeSchedulerConfiguration) -> Iterator[models.ModelProblem]:
    """Yield the problems of a configuration of the right shape; arguments not included."""
    if config.leader_election.leader_elect:
        yield from _leader_election(config.leader_election)
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        words = "must be greater than or equal to PodInitialBackoffSeconds"
        yield models.invalid(("podMaxBackoffSeconds",), config.pod_max_backoff_seconds, words)
    for name, text, hint in models.gate_faults(config.feature_gates):
        yield models.ModelProblem(
            ("featureGates", name), models.BAD_VALUE, f"featureGates: {text}", hint
        )
    yield from _profiles(config)
    yield from check_extenders(config.extenders)


def _leader_election(election: models.LeaderElection) -> Iterator[models.ModelProblem]:
    path: models.Path = ("leaderElection",)
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for key, value in durations.items():
        if value <= 0:
            yield models.problem_at((*path, key), "Invalid value: must be greater than zero")
    if election.lease_duration <= election.renew_deadline:
        why = "Invalid value: must be greater than `RenewDeadline`"
        yield models.problem_at((*path, "leaseDuration"), why)
    if election.resource_lock != "leases":
        words = 'resourceLock value must be "leases"'
        yield models.invalid((*path, "resourceLock"), election.resource_lock, words)


def _profiles(config: models.KubeSchedulerConfiguration) -> Iterator[models.ModelProblem]:
    names: set[str] = set()
    for i, profile in enumerate(config.profiles):
        path: models.Path = ("profiles", i)
        name = profile.scheduler_name
        if name == "" or (name is None and len(config.profiles) > 1):
            yield models.required((*path, "schedulerName"))
        elif name is not None:
            if name in names:
                yield models.duplicate((*path, "schedulerName"), name)
            names.add(name)
        yield from _removed(profile, path)
        yield from _plugin_config(profile, path)
    yield from _queue_sort(config)


def _removed(
    profile: models.KubeSchedulerProfile, path: models.Path
) -> Iterator[models.ModelProblem]:
    """Yield empty names and removed plugins; disabling one of those is only worth a warning."""
    for point in (*models.POINTS, models.MULTI_POINT):
        at = (*path, "plugins", point)
        chosen = plugin_set(profile, point)
        for i, plugin in enumerate(chosen.enabled):
            if not plugin.name:
                yield models.required((*at, "enabled", i, "name"))
            if plugin.name in models.REMOVED_PLUGINS:
                yield models.invalid((*at, "enabled", i, "name"), plugin.name, _REMOVED)
        for i, disabled in enumerate(chosen.disabled):
            if disabled.name in models.REMOVED_PLUGINS:
                where = (*at, "disabled", i, "name")
                why = f'plugin "{disabled.name}" was removed: nothing to disable'
                yield models.problem_at(where, why, warning=True)


def _plugin_config(
    profile: models.KubeSchedulerProfile, path: models.Path
) -> Iterator[models.ModelProblem]:
    seen: set[str] = set()
    for i, config in enumerate(profile.plugin_config):
        at = (*path, "pluginConfig", i, "name")
        if config.name in seen:
            yield models.duplicate(at, config.name)
        seen.add(config.name)
        if not config.name:
            yield models.required(at)
        if config.name in models.REMOVED_PLUGINS:
            yield models.invalid(at, config.name, _REMOVED)


def _queue_sort(config: models.KubeSchedulerConfiguration) -> Iterator[models.ModelProblem]:
    """Yield profiles whose queueSort differs from the first one's: they share one queue."""
    if not config.profiles:
        return
    first = config.profiles[0]
    own = first.plugins.queue_sort
    if len(own.enabled) > 1:
        at: models.Path = ("profiles", 0, "plugins", "queueSort", "enabled")
        yield models.invalid(at, len(own.enabled), "only one queue sort plugin can be enabled")
    args = {c.name: c.args for c in first.plugin_config}
    for i, profile in enumerate(config.profiles[1:], start=1):
        if profile.plugins.queue_sort != own:
            at = ("profiles", i, "plugins", "queueSort")
            why = "Invalid value: must be the same for all profiles"
            yield models.problem_at(at, why, models.UNLIKE_QUEUE_SORT)
        for j, entry in enumerate(profile.plugin_config):
            sorts = own.enabled and own.enabled[0].name == entry.name
            if sorts and entry.args != args.get(entry.name, {}):
                at = ("profiles", i, "pluginConfig", j, "args")
                why = "Invalid value: queueSort must be the same for all profiles"
                yield models.problem_at(at, why, models.UNLIKE_QUEUE_SORT)
