"""ExtenderSettings: one extender of a configuration, checked, as its client reads it."""

from __future__ import annotations

from dataclasses import dataclass

from policy_sched.model import EVERYTHING, Selector


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Transport security; data (PEM) comes before a file."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """One extender.

    ``timeout``: seconds. ``managed_resources``: only pods that ask for one of these are its
    concern; empty: all pods. ``pod_selector``: the same by labels.
    """

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = False
    tls: TlsSettings | None = None
    timeout: float = 5.0
    node_cache_capable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignorable: bool = False
    pod_selector: Selector = EVERYTHING
