"""Connections through a SOCKS proxy; imported only where there is one."""

from __future__ import annotations

import asyncio
import errno
import ssl as tls
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp_socks import ProxyConnectionError, ProxyConnector, ProxyError, ProxyTimeoutError

from policy_sched.client.kube.rest.transport import keep_alive

SOCKS_PORT: Final = 1080
"""The port of a SOCKS proxy whose URL names none."""


class SocksConnector(ProxyConnector):
    """The connector of aiohttp-socks, with keep-alive, tls-server-name and aiohttp's errors.

    The proxy resolves the names of servers, as in Go programs.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or SOCKS_PORT
        user = None if parts.username is None else unquote(parts.username)
        password = unquote(parts.password or "")
        super().__init__(host, port, username=user, password=password, rdns=True, limit=0)
        self._name = f"{host}:{port}"

    async def _wrap_create_connection(
        self,
        *args: Any,
        req: ClientRequest,
        timeout: aiohttp.ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        ssl: tls.SSLContext | None = None,
        server_hostname: str | None = None,
        **options: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        """Connect through the proxy, then start TLS for `server_hostname`.

        aiohttp-socks by itself verifies the certificate for the host of the URL.
        """
        connect, key = super()._wrap_create_connection, req.connection_key
        try:
            async with asyncio.timeout(timeout.sock_connect):
                transport, protocol = await connect(*args, req=req, timeout=timeout, **options)
                keep_alive(transport.get_extra_info("socket"))
                if ssl is None:
                    return transport, protocol
                secured = await asyncio.get_running_loop().start_tls(
                    transport, protocol, ssl, server_hostname=server_hostname
                )
        except tls.SSLCertVerificationError as error:
            raise aiohttp.ClientConnectorCertificateError(key, error) from error
        except tls.SSLError as error:
            raise aiohttp.ClientConnectorSSLError(key, error) from error
        except (ProxyError, ProxyConnectionError) as error:
            raise client_error(key, self._failure(str(error))) from error
        except EOFError as error:
            raise client_error(key, self._failure("closed the connection")) from error
        except ValueError as error:
            text = "cannot carry the server's name, the user or the password"
            raise client_error(key, self._failure(text)) from error
        except ProxyTimeoutError:
            raise TimeoutError from None
        except TimeoutError:
            raise
        except OSError as error:
            raise client_error(key, error) from error
        assert secured is not None
        protocol.connection_made(secured)
        return secured, protocol

    def _failure(self, text: str) -> OSError:
        return OSError(errno.EPROTO, f"SOCKS proxy {self._name}: {text}")
