"""The options ``--serve`` and its companions of ``run``: an instance with its API for clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from policy_sched.errors import ClusterError
from policy_sched.http import ALWAYS_ALLOW, Access, Address, address_of
from policy_sched.instance import http
from policy_sched.instance.observability import INFO

if TYPE_CHECKING:
    from policy_sched.instance.app import EmbeddedInstance


@contextmanager
def certified(access: Access, address: Address, now: int) -> Iterator[Access]:
    """Yield access with a certificate if it authenticates clients; ``now``: ns since 1970.

    The files are in a folder that only this user can read, and go with the context.
    """
    if not access.knows or access.certificate is not None:
        yield access
        return
    certificate, key = http.self_signed(
        [address.reached.host, "localhost", "127.0.0.1", "::1"], now
    )
    with TemporaryDirectory(prefix="policy-sched-") as folder:
        files = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, content in zip(files, (certificate, key), strict=True):
            path.write_bytes(content)
        yield replace(access, certificate=str(files[0]), key=str(files[1]))


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ApiServerFlags:
    """Flags of ``run`` for serving the embedded cluster's API.

    Parameters
    ----------
    serve
        Serve the cluster's API at [HOST:]PORT, for kubectl and other clients; on 127.0.0.1 unless
        a host is named, and beyond loopback only with the next three, or with --client-ca-file
        instead of the third.
    tls_cert_file
        The certificate (PEM) of the API server, and of the scheduler's own endpoints; an API with
        tokens and without one signs its own.
    tls_private_key_file
        Its private key (PEM).
    token_auth_file
        Lines of token,user,uid[,groups]: requests need one of these bearer tokens.
    authorization_mode
        AlwaysAllow, or RBAC: roles and bindings authorize users of the API.
    write_kubeconfig
        Where to write a kubeconfig for the API server.
    controllers
        Run the embedded controllers; --controllers=false leaves workloads, volumes, budgets,
        garbage and namespaces to a kube-controller-manager that uses the API.
    """

    serve: str | None = None
    tls_cert_file: str | None = None
    tls_private_key_file: str | None = None
    token_auth_file: str | None = None
    authorization_mode: str = ALWAYS_ALLOW
    write_kubeconfig: str | None = None
    controllers: Annotated[bool, Parameter(negative="")] = True

    @property
    def access(self) -> Access:
        """How the server authenticates and authorizes."""
        files = self.tls_cert_file, self.tls_private_key_file, self.token_auth_file
        return Access(*files, mode=self.authorization_mode)

    def believing(self, clients: str | None) -> Access:
        """Return the access of a server that accepts certificates of a client CA (a file).

        Raises ClusterError if there are neither controllers nor a server for external ones.
        """
        if not self.controllers and self.serve is None:
            raise ClusterError("--controllers=false needs --serve [HOST:]PORT, for others")
        return self.access if self.serve is None else replace(self.access, clients=clients)


class Serving(msgspec.Struct, frozen=True):
    """The API's address, access, and kubeconfig file; None: not served, not written.

    ``beside``: the scheduler's own endpoints are served, with the same certificate and tokens.
    Raises ClusterError if the options do not go together.
    """

    address: str | None
    access: Access
    kubeconfig: str | None
    beside: bool = False

    def __post_init__(self) -> None:
        access = self.access
        shared = (access.certificate, access.key, access.tokens)
        if bool(access.certificate) != bool(access.key):
            raise ClusterError("--tls-cert-file and --tls-private-key-file go together")
        if self.address is not None:
            self.access.check(address_of(self.address))
        elif self.kubeconfig or access.limited or (any(shared) and not self.beside):
            raise ClusterError("options of the API server without --serve [HOST:]PORT")

    @asynccontextmanager
    async def of(self, instance: EmbeddedInstance) -> AsyncIterator[None]:
        """Serve an instance's cluster for as long as the context lasts."""
        if self.address is None:
            yield
            return
        from policy_sched.embedded.apiserver.endpoints import ApiServer  # noqa: PLC0415
        from policy_sched.embedded.apiserver.security import kubeconfig, write_kubeconfig  # noqa: PLC0415

        address = address_of(self.address)
        with certified(self.access, address, instance.now()) as access:
            server = ApiServer(instance.cluster.store, address, access)
            async with server:
                facts = {"url": server.url}
                if self.kubeconfig is not None:
                    text = kubeconfig(server.address, access, server.tokens)
                    write_kubeconfig(self.kubeconfig, text)
                    facts["kubeconfig"] = self.kubeconfig
                instance.log.write(INFO, "Serving the API", **facts)
                yield
