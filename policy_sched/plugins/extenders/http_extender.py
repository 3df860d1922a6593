"""HttpExtender: an extender behind an address, called as kube-scheduler calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from policy_sched.errors import PluginError
from policy_sched.framework import NamedVictims, NodeVictims, Passed, Skips
from policy_sched.model import Node, PodInfo
from policy_sched.plugins.extenders import wire
from policy_sched.plugins.extenders.connection import Connection
from policy_sched.plugins.extenders.settings import ExtenderSettings, client_context

T = TypeVar("T")

#: Nodes whose JSON is kept, beyond twice as many as in the last request.
SPARE_NODES: Final = 1024


class HttpExtender:
    """One extender; see framework/extender.py for what its methods mean.

    Made from checked settings: raises OSError if their certificates cannot be read any more.
    """

    def __init__(self, settings: ExtenderSettings) -> None:
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
        """Whether scheduling goes on without it when it fails."""
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
        """Return whether its selector chooses the pod, and a container requests its resources."""
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
        """Return which of the nodes it leaves; PluginError if it fails or names another node."""
        verb = self._settings.filter_verb
        by_name = self._settings.node_cache_capable
        answer = self._connection.post(verb, *self._arguments(pod, nodes))
        passed, error = self._read(
            verb, lambda body: wire.filter_result(body, by_name=by_name), answer
        )
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
        """Return its scores; PluginError if it fails."""
        verb = self._settings.prioritize_verb
        answer = self._connection.post(verb, *self._arguments(pod, nodes))
        return self._read(verb, wire.host_priorities, answer)

    def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims]
    ) -> Mapping[str, NamedVictims]:
        """Return the victims that it leaves; PluginError if it fails."""
        verb = self._settings.preempt_verb
        names_only = self._settings.node_cache_capable
        arguments = wire.preemption_args(pod, victims, names_only=names_only)
        answer = self._connection.post(verb, arguments)
        return self._read(verb, wire.preemption_result, answer)

    def bind(self, pod: PodInfo, node: str) -> None:
        """Have it bind the pod; PluginError if it fails."""
        verb = self._settings.bind_verb
        answer = self._connection.post(verb, wire.binding_args(pod, node))
        error = self._read(verb, wire.binding_error, answer)
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
        """Return a node's JSON, which is made once as long as the node does not change."""
        kept = self._node_json.get(node.metadata.name)
        if kept is None or kept[0] is not node:
            kept = self._node_json[node.metadata.name] = node, wire.node_json(node)
        return kept[1]

    def _read(self, verb: str, read: Callable[[wire.Body], T], answer: wire.Body) -> T:
        try:
            return read(answer)
        except (ValueError, RecursionError) as error:
            url = f"{self.name.rstrip('/')}/{verb}"
            text = f"failed {verb} with extender at URL {url}, cannot read the answer: {error}"
            raise PluginError(text) from error
