"""A real HTTP server on loopback that answers as an extender, well or badly."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

FOLDER = Path(__file__).parent
CERTIFICATE = FOLDER / "server.pem"
KEY = FOLDER / "server-key.pem"
SERVER_NAME = "extender.test"
"""The only name in the committed certificate, which signs itself and lasts a hundred years."""

Json = Any
Answer = Callable[[Json], Json]
"""From the arguments of a verb to its response: JSON data, raw bytes, a status code, or one of the
faults below."""

CLOSE = object()
"""Close the connection without a response."""
HANG = object()
"""Do not respond until the server is closed."""
DRIP = object()
"""Begin a response, then stop."""
HALF = object()
"""Announce more bytes than are sent."""
NOISE = object()
"""Send a response that is not HTTP."""


@dataclass
class Calls:
    """The calls of the server: verbs and arguments, and the number of connections."""

    address: str = ""
    requested: list[tuple[str, Json]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.requested]


@contextmanager
def extender(
    verbs: Mapping[str, Answer | Json], *, tls: bool = False, client_certificates: bool = False
) -> Iterator[Calls]:
    """Serve verbs below /extend until the block ends; an answer that is no function is constant."""
    calls, over = Calls(), Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            verb = self.path.removeprefix("/extend/")
            arguments = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert self.headers["Content-Type"] == "application/json"
            calls.requested.append((verb, arguments))
            calls.connections.add(self.client_address)
            answer = verbs[verb]
            self._answer(answer(arguments) if callable(answer) else answer)

        def _answer(self, answer: Json) -> None:
            if answer is CLOSE:
                self.close_connection = True
            elif answer is HANG:
                over.wait(30)
                self.close_connection = True
            elif answer is DRIP:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                over.wait(30)
                self.close_connection = True
            elif answer is HALF:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                self.close_connection = True
            elif answer is NOISE:
                self.wfile.write(b"what?\r\n\r\n")
                self.close_connection = True
            else:
                status = answer if isinstance(answer, int) else 200
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Some tests close connections on purpose."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(CERTIFICATE, KEY)
            if client_certificates:
                context.verify_mode = ssl.CERT_REQUIRED
                context.load_verify_locations(CERTIFICATE)
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        calls.address = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}/extend"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield calls
        finally:
            over.set()
            server.shutdown()
            thread.join()
