"""Ends a listening socket so that no connection is left half accepted.

asyncio makes the transport of a connection in the turn after it was accepted. A server that was
closed in between refuses it (an AssertionError until Python 3.12), and leaves the socket open with
nobody to answer it until it is collected; its client waits in vain.
"""

from __future__ import annotations

import asyncio

_TURNS = 3
"""Accepted, its transport made, its protocol told of it."""


async def stop_accepting(server: asyncio.Server) -> None:
    """Accept no more, and wait until each connection that was accepted has its transport.

    Who waits in the system to be accepted is hung up on when the server is closed.
    """
    loop = asyncio.get_running_loop()
    for one in server.sockets:
        loop.remove_reader(one.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
