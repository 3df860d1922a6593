"""The server: sockets, authentication, and which part answers which request.

Theory of operation: the object store belongs to one event loop, and so does the server. A request
is read to its end first; what it does to the store happens in one go, with nothing else in
between. Only answers are written bit by bit: lists in pieces, watches as long as they last.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final, Self

import msgspec
from aiohttp import web

from policy_sched.client.apimachinery import ApiError
from policy_sched.embedded.apiserver.endpoints.handlers import Answers, Parts, headers_of, refused
from policy_sched.embedded.apiserver.endpoints.subresources import Subresources
from policy_sched.embedded.apiserver.endpoints.watch import Wakening
from policy_sched.embedded.apiserver.endpoints.well_known import TEXT
from policy_sched.embedded.apiserver.endpoints.write import Writing
from policy_sched.embedded.apiserver.registry import LIMIT, NoSuchPage, no_such_resource, too_large
from policy_sched.embedded.apiserver.request import ANONYMOUS
from policy_sched.embedded.apiserver.security import (
    AccountTokens,
    Authenticator,
    Gate,
    Granting,
    Rbac,
    Reviews,
    Tokens,
    install,
    publish,
)
from policy_sched.embedded.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.http import RBAC, Access, Address, Bounds, Connections, Site, failure, recognized

BOUNDS: Final = Bounds(
    connections=1000, header=64 * 1024, headers=128, body=LIMIT, silent=30.0, idle=300.0
)
BUSY: Final = b"Too many requests, please try again later.\n"
_LATER: Final = {**headers_of(TEXT), "Retry-After": "1"}
_MISTAKES: Final = (
    LookupError, TypeError, ValueError, AttributeError, AssertionError, OverflowError,
    RecursionError, msgspec.MsgspecError,
)  # fmt: skip
"""What an unexpected body could raise; answered as an internal error."""


class ApiServer:
    """Serves a store; an async context manager, which begins to listen and ends all watches."""

    def __init__(self, store: ObjectStore, address: Address, access: Access | None = None) -> None:
        self._access = access or Access()
        self._access.check(address)
        self._asked = address
        self.address = address
        self.tokens: Tokens | None = (
            Tokens.read(self._access.tokens) if self._access.tokens else None
        )
        self._context = self._access.context()
        self._store = store
        rbac = Rbac(store) if self._access.mode == RBAC else None
        accounts = AccountTokens(store)
        anonymous = not self._access.knows
        authenticator = Authenticator(self.tokens, accounts, anonymous=anonymous)
        self._gate = Gate(authenticator, rbac, anonymous=anonymous)
        writing = Writing(store, Granting(rbac))
        self._wakening = Wakening(store)
        subresources = Subresources(store, writing, accounts)
        parts = Parts(writing, subresources, Reviews(authenticator, rbac))
        self._answers = Answers(store, self._wakening, parts)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin to listen; ``address`` has the port then. Raises ClusterError if that fails."""
        if self._access.mode == RBAC:
            install(self._store)
        publish(self._store, self._access.clients)
        host, port = self._asked.host, self._asked.port
        site = Site(Connections(self._answer, BOUNDS), (host, port), self._context)
        try:
            await self._stack.enter_async_context(site)
        except OSError as error:
            raise ClusterError(f"cannot listen on {self._asked.text}: {error.strerror}") from None
        self._wakening.begin()
        self._stack.callback(self._wakening.end)
        self.address = Address(host, site.port)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let all watches end, and stop listening."""
        await self._stack.aclose()

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"{'https' if self._context else 'http'}://{self.address.text}"

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        try:
            user = self._gate.admit(request)
            if user is not ANONYMOUS:
                recognized(request)
            return await self._answers.answer(request, user)
        except NoSuchPage:
            return refused(no_such_resource())
        except ApiError as error:
            return refused(error)
        except web.HTTPRequestEntityTooLarge:
            return refused(too_large())
        except _MISTAKES as error:
            return refused(failure(request.method, error))
