"""The option ``--console`` of ``run``: the pages of the console about the running instance."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

import msgspec
from cyclopts import Parameter

from policy_sched.errors import ClusterError
from policy_sched.http import address_of
from policy_sched.instance.app import ClusterInstance, Instance
from policy_sched.instance.observability import INFO, SERVING_CONSOLE


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ConsoleFlags:
    """Flags of ``run`` for the console.

    Parameters
    ----------
    console
        Serve pages about this instance on this machine, as policy-sched console does, at
        [ADDRESS:]PORT, an address of loopback; else at an address of its own in 127.0.0.0/8 and a
        free port. The log has the URL with its token, and another one when a browser has opened it.
    """

    console: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None

    def listen(self) -> Listen | None:
        """Return where to listen, None without the option. Raises ClusterError."""
        given = self.console
        if given is None:
            return None
        if len(given) > 1:
            raise ClusterError(f"--console takes one [ADDRESS:]PORT, not {len(given)}")
        text = given[0] if given else "0"
        host, _, _ = text.rpartition(":")
        try:
            port = address_of(text if host else f":{text}").port
        except ClusterError:
            raise ClusterError(f"--console {text}: a port is a number up to 65535") from None
        return Listen(own_host("--console", host.removeprefix("[").removesuffix("]")), port)


class Listen(msgspec.Struct, frozen=True):
    """Where a console listens; port 0 is a free one, without a host it has one of its own."""

    host: str | None
    port: int


def own_host(option: str, text: str) -> str | None:
    """Return the address of loopback that a text is, None if it is "". Raises ClusterError."""
    try:
        if not text or ipaddress.ip_address(text).is_loopback:
            return text or None
    except ValueError:
        pass
    raise ClusterError(f"{option} {text}: must be an address of this machine alone, as 127.0.0.1")


@asynccontextmanager
async def console_pages(instance: Instance, listen: Listen | None) -> AsyncIterator[None]:
    """Serve the console of an instance within the context, if it shall listen."""
    if listen is None:
        yield
        return
    # imported here: most instances serve no pages
    from policy_sched.console import ConsoleServer, RunningSource, serving  # noqa: PLC0415

    name = "embedded cluster"
    if isinstance(instance, ClusterInstance):
        name = instance.api.access.server
    source = RunningSource(instance, name)

    def announce(server: ConsoleServer) -> None:
        warning = {"warning": server.warning} if server.warning else {}
        instance.log.write(INFO, SERVING_CONSOLE, url=server.url, **warning)

    async with serving(source, host=listen.host, port=listen.port, announce=announce):
        yield
