"""Extenders of a configuration become settings of their clients; certificates are read here."""

from __future__ import annotations

from collections.abc import Iterator

from policy_sched.model import (
    EVERYTHING,
    LabelSelector,
    LabelSelectorRequirement,
    Selector,
    label_selector,
)
from policy_sched.plugins.extenders import ExtenderSettings, TlsSettings, tls_faults
from policy_sched.profiles.models import (
    BAD_VALUE,
    SECOND,
    Extender,
    ExtenderPodSelector,
    ExtenderTLSConfig,
    Problem,
    path_text,
)
from policy_sched.profiles.validate import decoded

#: Time-out of an extender whose httpTimeout is 0, in seconds.
DEFAULT_TIMEOUT = 5.0


def extender_settings(extenders: tuple[Extender, ...]) -> tuple[ExtenderSettings, ...]:
    """Return the settings of checked extenders, ignorable ones last."""
    ordered = sorted(extenders, key=lambda extender: extender.ignorable)
    return tuple(map(_settings, ordered))


def ignored_resources(extenders: tuple[Extender, ...]) -> tuple[str, ...]:
    """Return the resources that NodeResourcesFit does not check, as extenders look after them."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def certificate_problems(extenders: tuple[Extender, ...]) -> Iterator[Problem]:
    """Yield what is wrong with the certificates of checked extenders; their files are read."""
    for i, extender in enumerate(extenders):
        if extender.tls_config is None:
            continue
        for field, why in tls_faults(_tls(extender.tls_config)):
            at = ("extenders", i, "tlsConfig", field)
            yield Problem(at, BAD_VALUE, f"{path_text(at)}: Invalid value: {why}")


def _settings(extender: Extender) -> ExtenderSettings:
    return ExtenderSettings(
        url_prefix=extender.url_prefix,
        filter_verb=extender.filter_verb,
        preempt_verb=extender.preempt_verb,
        prioritize_verb=extender.prioritize_verb,
        bind_verb=extender.bind_verb,
        weight=extender.weight,
        enable_https=extender.enable_https,
        tls=None if extender.tls_config is None else _tls(extender.tls_config),
        timeout=extender.http_timeout / SECOND or DEFAULT_TIMEOUT,
        node_cache_capable=extender.node_cache_capable,
        managed_resources=frozenset(resource.name for resource in extender.managed_resources),
        ignorable=extender.ignorable,
        pod_selector=_selector(extender.pod_selector),
    )


def _tls(tls: ExtenderTLSConfig) -> TlsSettings:
    return TlsSettings(
        insecure=tls.insecure,
        server_name=tls.server_name,
        cert_file=tls.cert_file,
        key_file=tls.key_file,
        ca_file=tls.ca_file,
        cert_data=decoded(tls.cert_data) or b"",
        key_data=decoded(tls.key_data) or b"",
        ca_data=decoded(tls.ca_data) or b"",
    )


def _selector(selector: ExtenderPodSelector | None) -> Selector:
    if selector is None:
        return EVERYTHING
    expressions = tuple(
        LabelSelectorRequirement(key=one.key, operator=one.operator, values=one.values)
        for one in selector.match_expressions
    )
    return label_selector(
        LabelSelector(match_labels=selector.match_labels, match_expressions=expressions)
    )
