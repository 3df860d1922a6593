"""HttpExtender: calls an HTTP extender as kube-scheduler does; with settings and TLS."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from policy_sched.errors import PluginError
from policy_sched.framework import NamedVictims, NodeVictims, Passed, Skips
from policy_sched.model import EVERYTHING, Node, PodInfo, Selector
from policy_sched.plugins.extenders import wire

if TYPE_CHECKING:
    import ssl


class TlsSettings(msgspec.Struct, frozen=True):
    """TLS settings; data (PEM) takes precedence over a file."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderSettings(msgspec.Struct, frozen=True):
    """One extender.

    ``timeout``: seconds. ``managed_resources``: the extender is called only for pods that request
    one of these; empty: for all pods. ``pod_selector``: the same by labels.
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


def client_context(tls: TlsSettings | None, *, enable_https: bool) -> ssl.SSLContext:
    """Return the context for an extender's connections.

    As in kube-scheduler, enableHTTPS without trusted roots does not verify the server; an https
    address without enableHTTPS is verified against the system's roots. Raises OSError if
    `tls_faults` yields a problem.
    """
    import ssl  # noqa: PLC0415  most schedulers have no extenders

    tls = tls or TlsSettings()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_data:
        context.load_verify_locations(cadata=tls.ca_data.decode("ascii", "replace"))
    elif tls.ca_file:
        context.load_verify_locations(cafile=tls.ca_file)
    elif tls.insecure or enable_https:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
    if _has_pair(tls):
        _load_pair(context, tls)
    return context


def tls_faults(tls: TlsSettings) -> Iterator[tuple[str, str]]:
    """Yield the problems: a field of tlsConfig, and a message. Reads the files."""
    roots = ("caData",) if tls.ca_data else ("caFile",) if tls.ca_file else ()
    if roots and tls.insecure:
        why = "specifying a root certificates file with the insecure flag is not allowed"
        yield "insecure", why
    for field in roots:
        faults = TlsSettings(ca_file=tls.ca_file, ca_data=tls.ca_data)
        why = _why(faults, tls.ca_file if field == "caFile" else "", "no certificate in PEM")
        if why:
            yield field, why
    certificate = "certData" if tls.cert_data else "certFile" if tls.cert_file else ""
    key = "keyData" if tls.key_data else "keyFile" if tls.key_file else ""
    if certificate and not key:
        yield certificate, "a client certificate needs its key: keyFile or keyData"
    if key and not certificate:
        yield key, "a client key needs its certificate: certFile or certData"
    if certificate and key:
        pair = TlsSettings(
            cert_file=tls.cert_file,
            key_file=tls.key_file,
            cert_data=tls.cert_data,
            key_data=tls.key_data,
        )
        for field, file in ((certificate, tls.cert_file), (key, tls.key_file)):
            why = _unreadable(file) if field.endswith("File") else ""
            if why:
                yield field, why
                return
        why = _why(pair, "", "no certificate in PEM with the key that belongs to it")
        if why:
            yield certificate, why


def _why(tls: TlsSettings, file: str, what: str) -> str:
    """Return why a context cannot be made; empty if it can."""
    why = _unreadable(file) if file else ""
    if why:
        return why
    try:
        client_context(tls, enable_https=False)
    except (OSError, ValueError):
        return f"holds {what}"
    return ""


def _unreadable(file: str) -> str:
    try:
        Path(file).read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _has_pair(tls: TlsSettings) -> bool:
    return bool((tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file))


def _load_pair(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Load the client's certificate and key; the ssl module accepts only files."""
    with TemporaryDirectory() as folder:  # readable by its owner only
        files: list[str] = []
        for data, file in ((tls.cert_data, tls.cert_file), (tls.key_data, tls.key_file)):
            path = file
            if data:
                written = Path(folder) / str(len(files))
                written.write_bytes(data)
                path = str(written)
            files.append(path)
        # An encrypted key is rejected; without a password ssl would prompt on the terminal.
        context.load_cert_chain(files[0], files[1], password="")


T = TypeVar("T")

#: Nodes whose JSON is cached, beyond twice as many as in the last request.
SPARE_NODES: Final = 1024


class HttpExtender:
    """One extender; framework/extender.py documents its methods.

    Made from checked settings: raises OSError if their certificates cannot be read any more.
    """

    def __init__(self, settings: ExtenderSettings) -> None:
        from policy_sched.plugins.extenders.connection import Connection  # noqa: PLC0415  as above

        self.skips = Skips()
        self._settings = settings
        https = settings.url_prefix.startswith("https:")
        tls = settings.tls
        self._connection = Connection(
            settings.url_prefix,
            settings.timeout,
            client_context(tls, enable_https=settings.enable_https) if https else None,
            tls.server_name if tls else "",
        )
        self._node_json: dict[str, tuple[Node, bytes]] = {}

    @property
    def name(self) -> str:
        """The extender's address."""
        return self._settings.url_prefix

    @property
    def ignorable(self) -> bool:
        """Whether scheduling continues without the extender when it fails."""
        return self._settings.ignorable

    @property
    def weight(self) -> int:
        """Factor of its scores."""
        return self._settings.weight

    @property
    def filters(self) -> bool:
        """Whether it filters nodes."""
        return bool(self._settings.filter_verb)

    @property
    def prioritizes(self) -> bool:
        """Whether it scores nodes."""
        return bool(self._settings.prioritize_verb)

    @property
    def preempts(self) -> bool:
        """Whether it takes part in preemption."""
        return bool(self._settings.preempt_verb)

    @property
    def binds(self) -> bool:
        """Whether it binds pods."""
        return bool(self._settings.bind_verb)

    def interested(self, pod: PodInfo) -> bool:
        """Return whether its selector matches the pod, and a container requests its resources."""
        if not self._settings.pod_selector.matches(pod.labels):
            return False
        managed = self._settings.managed_resources
        if not managed:
            return True
        spec = pod.pod.spec
        return any(
            not managed.isdisjoint(container.resources.requests)
            or not managed.isdisjoint(container.resources.limits)
            for container in (*spec.containers, *spec.init_containers)
        )

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> Passed:
        """Return the nodes that pass; PluginError if the call fails or names another node."""
        read = partial(wire.filter_result, by_name=self._settings.node_cache_capable)
        arguments = self._arguments(pod, nodes)
        passed, error = self._call(self._settings.filter_verb, arguments, read)
        if error:
            raise PluginError(error)
        strangers = passed.nodes.difference(node.metadata.name for node in nodes)
        if strangers:
            raise PluginError(
                f'extender "{self.name}" claims a filtered node "{min(strangers)}" which is not '
                "found in the input node list"
            )
        return passed

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        """Return the scores; PluginError if the call fails."""
        arguments = self._arguments(pod, nodes)
        return self._call(self._settings.prioritize_verb, arguments, wire.host_priorities)

    def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims]
    ) -> Mapping[str, NamedVictims]:
        """Return the remaining victims; PluginError if the call fails."""
        names_only = self._settings.node_cache_capable
        arguments = wire.preemption_args(pod, victims, names_only=names_only)
        return self._call(self._settings.preempt_verb, (arguments,), wire.preemption_result)

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod through the extender; PluginError if the call fails."""
        arguments = wire.binding_args(pod, node)
        error = self._call(self._settings.bind_verb, (arguments,), wire.binding_error)
        if error:
            raise PluginError(error)

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        self._connection.close()

    def _arguments(self, pod: PodInfo, nodes: Sequence[Node]) -> Iterable[bytes]:
        if self._settings.node_cache_capable:
            return (wire.named_nodes_args(pod, [node.metadata.name for node in nodes]),)
        if len(self._node_json) > 2 * len(nodes) + SPARE_NODES:
            self._node_json.clear()
        return wire.nodes_args(pod, [self._json(node) for node in nodes])

    def _json(self, node: Node) -> bytes:
        """Return a node's JSON, cached until the node changes."""
        kept = self._node_json.get(node.metadata.name)
        if kept is None or kept[0] is not node:
            kept = self._node_json[node.metadata.name] = node, wire.node_json(node)
        return kept[1]

    def _call(self, verb: str, pieces: Iterable[bytes], read: Callable[[wire.Body], T]) -> T:
        """Post a body in pieces, and read the response. Raises PluginError if either fails."""
        response = self._connection.post(verb, *pieces)
        try:
            return read(response)
        except (ValueError, RecursionError) as error:
            url = f"{self.name.rstrip('/')}/{verb}"
            text = f"failed {verb} with extender at URL {url}, cannot read the response: {error}"
            raise PluginError(text) from error
