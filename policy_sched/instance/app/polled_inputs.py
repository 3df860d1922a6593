"""Polled inputs: an API without watch, or a URL, asked from time to time while policies run.

Theory of operation. Each input has a task. An answer is read as a whole beside the steps: one that
is too large, too late or of other types than the schema changes nothing. A step applies the newest
answer in one piece, between two decisions. After a failure the last answer stays, and the next one
is asked for later each time, up to `LONGEST`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from random import Random
from typing import Final

import aiohttp
import msgspec
from yarl import URL

from policy_sched.errors import ClusterError
from policy_sched.language import Input
from policy_sched.plugins.rules import Answer, polled_answer

MAX_BYTES: Final = 1 << 20
"""Bytes of the answer of a URL."""
PATIENCE: Final = 10.0
"""Seconds for an answer."""
LONGEST: Final = 300.0
"""Seconds between two tries after failures; at least the input's own interval."""
REDIRECTS: Final = 3
_JITTER: Final = 0.1


class PollFailed(ClusterError):  # noqa: N818 - client-go's way to say it
    """An input could not be polled: no answer, or one that cannot be used."""


Sleep = Callable[[float], Awaitable[None]]
Ask = Callable[[Input], Awaitable[Answer]]


class PolledInputs:
    """The inputs that are polled. ``run`` it as a task.

    ``sleep`` and ``random`` are those of the world unless others are set. ``ask`` returns an answer
    or raises ClusterError; ``told`` is called after each try, with the error or "".
    """

    def __init__(
        self,
        ask: Ask,
        told: Callable[[Input, str], None],
    ) -> None:
        self._ask = ask
        self.sleep: Sleep = asyncio.sleep
        self.random = Random(0)  # noqa: S311 - jitter
        self._told = told
        self._inputs: dict[str, Input] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._answered: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, Answer] = {}
        self.last: dict[str, Answer] = {}
        """The last answers that were taken, by identity."""
        self.errors: dict[str, str] = {}
        """Why the last try failed, by identity."""

    def follow(self, inputs: Collection[Input]) -> list[Input]:
        """Poll these from now on, and no others; return those that are polled no more."""
        wanted = {given.identity: given for given in inputs if given.poll}
        gone = [given for identity, given in self._inputs.items() if identity not in wanted]
        for given in gone:
            identity = given.identity
            for kept in (self._answered, self._waiting, self.last, self.errors):
                kept.pop(identity, None)
            if identity in self._tasks:
                self._tasks.pop(identity).cancel()
        self._inputs = wanted
        for identity in wanted:
            self._answered.setdefault(identity, asyncio.Event())
        self._begin()
        return gone

    async def run(self) -> None:
        """Poll until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._begin()
            await asyncio.Event().wait()

    async def answered(self, given: Input) -> None:
        """Wait for the first answer."""
        await self._answered[given.identity].wait()

    @property
    def complete(self) -> bool:
        """Whether each input that must be there has been answered, and its answer was taken."""
        return all(given.optional or given.identity in self.last for given in self._inputs.values())

    @property
    def waiting(self) -> bool:
        """Whether there are answers to take."""
        return bool(self._waiting)

    def take(self) -> list[Answer]:
        """Return the newest answers that were not taken yet."""
        answers = list(self._waiting.values())
        self._waiting.clear()
        self.last |= {answer.input.identity: answer for answer in answers}
        return answers

    def _begin(self) -> None:
        for identity, given in self._inputs.items():
            if self._group is not None and identity not in self._tasks:
                self._tasks[identity] = self._group.create_task(self._poll(given))

    async def _poll(self, given: Input) -> None:
        interval, failures = given.poll / 1e9, 0
        while True:
            try:
                answer = await self._ask(given)
            except ClusterError as error:
                failures += 1
                self.errors[given.identity] = str(error)
                self._told(given, str(error))
            else:
                failures = 0
                self.errors.pop(given.identity, None)
                self._waiting[given.identity] = answer
                self._answered[given.identity].set()
                self._told(given, "")
            pause = interval
            if failures:
                pause = min(interval * 2 ** min(failures, 16), max(interval, LONGEST))
            await self.sleep(pause * (1 + _JITTER * self.random.random()))


async def fetched(given: Input, session: aiohttp.ClientSession) -> Answer:
    """Return what the URL of an input answers. Raises PollFailed.

    Redirects lead to the same host alone, and no proxy is used.
    """
    url = URL(given.url)
    if url.scheme not in ("http", "https") or not url.host:
        raise PollFailed(f"{given.url} is no URL of http or https")
    try:
        async with asyncio.timeout(PATIENCE):
            for _ in range(REDIRECTS + 1):
                async with session.get(url, allow_redirects=False) as response:
                    if not 300 <= response.status < 400:
                        return answer_of(given, await _body(response))
                    target = url.join(URL(response.headers.get("Location", "")))
                if (target.scheme, target.host, target.port) != (url.scheme, url.host, url.port):
                    raise PollFailed(f"{url} redirects to another host: {str(target)[:200]}")
                url = target
    except TimeoutError:
        raise PollFailed(f"{given.url} did not answer within {PATIENCE:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise PollFailed(f"{given.url} cannot be asked: {error}") from None
    raise PollFailed(f"{given.url} redirects more than {REDIRECTS} times")


async def _body(response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise PollFailed(f"{response.url} answered {response.status} {response.reason}")
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BYTES:
            raise PollFailed(f"the answer of {response.url} has more than {MAX_BYTES >> 20} MiB")
    return bytes(body)


def answer_of(given: Input, body: bytes) -> Answer:
    """Return the answer of a URL as objects. Raises PollFailed for one that does not fit."""
    try:
        return polled_answer(given, msgspec.json.decode(body))
    except (ValueError, RecursionError) as error:
        raise PollFailed(f"the answer of {given.url} cannot be used: {error}") from None
