"""An event loop whose connections leave nothing behind for the cycle collector to find.

Theory of operation. asyncio's transport of a socket refers to its own methods, so that a closed one
is a cycle. What lives longer than a moment is frozen here (see `collecting`) and would never be
freed: a probe or a watch would cost a kilobyte each, for ever. So a transport forgets its methods
when its connection is lost. This reaches into asyncio; a test tells when a version of Python has
other names for it.
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


class TidyLoop(asyncio.SelectorEventLoop):
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
        whom = server_side, server_hostname
        tls = sslproto.SSLProtocol(self, protocol, sslcontext, waiter, *whom, **timeouts)
        self._make_socket_transport(rawsock, tls, extra=extra, server=server)
        transport: asyncio.Transport = tls._app_transport  # noqa: SLF001 - see above
        return transport


def _nothing() -> None:
    """Do what a connection that is lost has to do."""
