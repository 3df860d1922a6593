"""An event loop whose closed connections leave no reference cycles.

Theory of operation. asyncio's socket transport refers to its own methods, so a closed one is a
cycle. Objects that survive a collection are frozen (see `collecting`) and would leak: a kilobyte
for each probe or watch. So a transport drops these references when its connection is lost. This
uses private attributes of asyncio; a test fails if a version of Python renames them.
"""

from __future__ import annotations

import asyncio
from asyncio import selector_events, sslproto
from typing import Any, Final

_OWN_METHODS: Final = ("_read_ready_cb", "_write_ready")


class _Transport(selector_events._SelectorSocketTransport):  # type: ignore[name-defined,misc]  # noqa: SLF001 - see above
    """A transport that forgets itself in the end."""

    def _call_connection_lost(self, error: Exception | None) -> None:
        try:
            super()._call_connection_lost(error)
        finally:
            for name in _OWN_METHODS:
                if name in self.__dict__:
                    setattr(self, name, _nothing)


class CycleFreeEventLoop(asyncio.SelectorEventLoop):
    """A selector event loop."""

    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> asyncio.Transport:
        transport: asyncio.Transport = _Transport(self, sock, protocol, waiter, extra, server)
        return transport

    def _make_ssl_transport(  # noqa: PLR0913 - asyncio's signature
        self,
        rawsock: Any,
        protocol: Any,
        sslcontext: Any,
        waiter: Any = None,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        extra: Any = None,
        server: Any = None,
        **timeouts: Any,
    ) -> asyncio.Transport:
        side = server_side, server_hostname
        tls = sslproto.SSLProtocol(self, protocol, sslcontext, waiter, *side, **timeouts)
        self._make_socket_transport(rawsock, tls, extra=extra, server=server)
        transport: asyncio.Transport = tls._app_transport  # noqa: SLF001 - see above
        return transport


def _nothing() -> None:
    """Do what a connection that is lost has to do."""
