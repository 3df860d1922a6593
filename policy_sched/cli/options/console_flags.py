"""The option ``--console`` of ``run``: the pages of the console about the running instance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from policy_sched.errors import ClusterError
from policy_sched.instance.app import ClusterInstance, Instance
from policy_sched.instance.observability import INFO, SERVING_CONSOLE


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ConsoleFlags:
    """Flags of ``run`` for the console.

    Parameters
    ----------
    console
        Serve pages about this instance on 127.0.0.1, as policy-sched console does, at this port or
        at a free one. The log has the URL with its token.
    """

    console: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None

    def port(self) -> int | None:
        """Return the port, 0 for a free one, None without the option. Raises ClusterError."""
        given = self.console
        if given is None:
            return None
        if len(given) > 1:
            raise ClusterError(f"--console takes one port, not {len(given)}")
        text = given[0] if given else "0"
        if not (text.isascii() and text.isdigit() and len(text) < 6 and int(text) <= 65535):
            raise ClusterError(f"--console {text}: a port is a number between 0 and 65535")
        return int(text)


@asynccontextmanager
async def console_pages(instance: Instance, port: int | None) -> AsyncIterator[None]:
    """Serve the console of an instance within the context, if there is a port."""
    if port is None:
        yield
        return
    # imported here: most instances serve no pages
    from policy_sched.console import RunningSource, serving  # noqa: PLC0415

    name = "embedded cluster"
    if isinstance(instance, ClusterInstance):
        name = instance.api.access.server
    source = RunningSource(instance, name)
    async with serving(source, port=port) as server:
        instance.log.write(INFO, SERVING_CONSOLE, url=server.url)
        yield
