"""Checks extenders beyond their shape, as upstream's validation.go does, and a little more.

More than upstream: addresses, time-outs and TLS settings are checked before the first call fails
by them. Files of certificates are read in extenders.py.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from urllib.parse import urlsplit

from policy_sched.model import LABEL_OPERATORS, requirement
from policy_sched.profiles.models import (
    BAD_VALUE,
    Extender,
    ExtenderPodSelector,
    ExtenderTLSConfig,
    Path,
    Problem,
    invalid,
    path_text,
)
from policy_sched.profiles.validate.plugin_args import label_name_faults
from policy_sched.source import masked


def check_extenders(extenders: tuple[Extender, ...]) -> Iterator[Problem]:
    """Yield what is wrong with the extenders of a configuration."""
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path: Path = ("extenders", i)
        if extender.prioritize_verb and extender.weight <= 0:
            words = "must have a positive weight applied to it"
            yield invalid((*path, "weight"), extender.weight, words)
        yield from _address(extender, path)
        if extender.http_timeout < 0:
            at = (*path, "httpTimeout")
            text = f"{path_text(at)}: Invalid value: must not be negative"
            yield Problem(at, BAD_VALUE, text)
        if extender.tls_config is not None:
            yield from _tls(extender.tls_config, (*path, "tlsConfig"))
        if extender.pod_selector is not None:
            yield from _selector(extender.pod_selector, (*path, "podSelector"))
        for j, resource in enumerate(extender.managed_resources):
            at = (*path, "managedResources", j, "name")
            faults = label_name_faults(resource.name)
            yield from (invalid(at, resource.name, fault) for fault in faults)
            if not faults and not _is_extended(resource.name):
                yield invalid(at, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield invalid(at, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        text = f"found {len(binders)} extenders implementing bind"
        problem = invalid(("extenders",), text, "only one extender can implement bind")
        yield Problem(("extenders", binders[1], "bindVerb"), BAD_VALUE, problem.message)


def _address(extender: Extender, path: Path) -> Iterator[Problem]:
    at = (*path, "urlPrefix")
    address = extender.url_prefix
    try:
        parts = urlsplit(address)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a broken IPv6 address
        yield invalid(at, masked(address), "is not an address")
        return
    if not sound:
        yield invalid(at, masked(address), "must be an http or https address")
        return
    if not address.isascii() or any(c.isspace() or not c.isprintable() for c in address):
        yield invalid(at, masked(address), "must not hold spaces, or characters beyond ASCII")
    if parts.username is not None or parts.query or parts.fragment:
        yield invalid(at, masked(address), "must not hold a user, a query or a fragment")
    if extender.enable_https and parts.scheme == "http":
        at = (*path, "enableHTTPS")
        text = f"{path_text(at)}: urlPrefix begins with http: calls are not encrypted"
        yield Problem(at, BAD_VALUE, text, "begin urlPrefix with https", warning=True)


def _tls(tls: ExtenderTLSConfig, path: Path) -> Iterator[Problem]:
    for field, text in (
        ("certData", tls.cert_data),
        ("keyData", tls.key_data),
        ("caData", tls.ca_data),
    ):
        if decoded(text) is None:
            at = (*path, field)
            yield Problem(at, BAD_VALUE, f"{path_text(at)}: Invalid value: is not base64")


def _selector(selector: ExtenderPodSelector, path: Path) -> Iterator[Problem]:
    for key, value in selector.match_labels.items():
        try:
            requirement(key, "In", (value,))
        except ValueError as error:
            at: Path = (*path, "matchLabels", key)
            yield Problem(at, BAD_VALUE, f"{path_text(at)}: {error}")
    for i, one in enumerate(selector.match_expressions):
        try:
            requirement(one.key, one.operator, one.values, LABEL_OPERATORS)
        except ValueError as error:
            at = (*path, "matchExpressions", i)
            yield Problem(at, BAD_VALUE, f"{path_text(at)}.{error}")


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
