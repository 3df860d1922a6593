"""Lists, page by page; a list whose pages have become too old is begun again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from policy_sched.client.apimachinery import ApiError
from policy_sched.client.kube.rest import Api, Decoding, Selection, Unread, expired
from policy_sched.model import ApiObject

T = TypeVar("T", bound=ApiObject)

PAGE: Final = 500
"""Objects of a page (client-go's default)."""
BEGINNINGS: Final = 3
"""How often a list is begun in pages; after that it is asked for in one piece."""


@dataclass(slots=True)
class Listing(Generic[T]):
    """All that a selection selects, at one version."""

    version: str = ""
    items: list[T] = field(default_factory=list)
    unread: list[Unread[T]] = field(default_factory=list)


def itself(thing: T) -> T:
    """Return an object as it was read."""
    return thing


async def list_all(
    api: Api,
    selection: Selection,
    decoding: Decoding[T],
    limit: int = PAGE,
    known: Callable[[T], T] = itself,
) -> Listing[T]:
    """Return everything that a selection selects.

    ``known`` returns what stands for an object that was read: itself, or an equal one.
    Raises what requests raise, and Malformed for an answer that is no list.
    """
    for begun in range(BEGINNINGS + 1):
        try:
            size = limit if begun < BEGINNINGS else 0
            return await _pages(api, selection, decoding, size, known)
        except ApiError as error:
            if not expired(error) or begun == BEGINNINGS:
                raise
    raise AssertionError("unreachable")


async def _pages(
    api: Api, selection: Selection, decoding: Decoding[T], limit: int, known: Callable[[T], T]
) -> Listing[T]:
    listing: Listing[T] = Listing()
    token = ""
    while True:
        query = selection.query(limit=str(limit or ""), **{"continue": token})
        page = decoding.page(await api.get(selection.path, query))
        listing.items += map(known, page.items)
        listing.unread += page.unread
        listing.version = page.version
        token = page.next
        if not token:
            return listing
