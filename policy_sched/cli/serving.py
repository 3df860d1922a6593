"""The options ``--serve`` and its companions of ``run``: an instance with its API for clients."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from policy_sched.apiserver.access import Access, address_of, kubeconfig, write_kubeconfig
from policy_sched.apiserver.server import ApiServer
from policy_sched.errors import ClusterError
from policy_sched.serve.decision_log import INFO
from policy_sched.serve.instance import Instance


@dataclass(frozen=True, slots=True)
class Serving:
    """Where the API is served, to whom, and where the kubeconfig goes; None: nowhere.

    Raises ClusterError if the options do not go together.
    """

    address: str | None
    access: Access
    kubeconfig: str | None

    def __post_init__(self) -> None:
        access = self.access
        given = (access.certificate, access.key, access.tokens, self.kubeconfig, access.limited)
        if self.address is not None:
            self.access.check(address_of(self.address))
        elif any(given):
            raise ClusterError("options of the API server without --serve [HOST:]PORT")

    @asynccontextmanager
    async def of(self, instance: Instance) -> AsyncIterator[None]:
        """Serve an instance's cluster for as long as the context lasts."""
        if self.address is None:
            yield
            return
        server = ApiServer(instance.cluster.store, address_of(self.address), self.access)
        async with server:
            facts = {"url": server.url}
            if self.kubeconfig is not None:
                text = kubeconfig(server.address, self.access, server.tokens)
                write_kubeconfig(self.kubeconfig, text)
                facts["kubeconfig"] = self.kubeconfig
            instance.log.say(INFO, "Serving the API", **facts)
            yield
