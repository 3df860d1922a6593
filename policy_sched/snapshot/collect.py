"""Reads the objects of a live cluster: one list of each kind, pods last.

Only the kinds that decisions read are listed. Secrets and config maps are not among them, and
nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.client import apimachinery
from policy_sched.client.kube import rest
from policy_sched.client.kube.cache import POD_GROUPS, READ, list_all
from policy_sched.errors import ClusterError
from policy_sched.model import KINDS, ApiObject

FORBIDDEN: Final = 403
USEFUL: Final = (
    rest.Selection(apimachinery.PRIORITY_CLASS),
    rest.Selection(apimachinery.RUNTIME_CLASS),
    rest.Selection(apimachinery.DEVICE_TEMPLATE),
    *POD_GROUPS,
)
"""What new pods may refer to; a snapshot is complete for the existing ones without it."""
SELECTIONS: Final = (*USEFUL, *READ)
"""Everything that is listed, in order."""


@dataclass(frozen=True, slots=True)
class Collected:
    """The objects of a cluster, and what could not be read of them, in sentences."""

    objects: list[ApiObject]
    notes: tuple[str, ...] = ()


async def collect(api: rest.Api, advance: Callable[[int], None] = lambda _more: None) -> Collected:
    """List a cluster's objects; ``advance`` is called with the number of further kinds.

    Kinds that the server does not serve are empty. Raises ClusterError for kinds that decisions
    need and that may not be listed, all at once, and for a server that does not respond.
    """
    objects: list[ApiObject] = []
    notes: list[str] = []
    forbidden: list[apimachinery.ApiError] = []
    for selection in SELECTIONS:
        try:
            found = await _listed(api, selection)
        except apimachinery.ApiError as error:
            name = apimachinery.resource(selection.kind).qualified
            if error.code == FORBIDDEN and selection in USEFUL:
                notes.append(f"{name} may not be listed and are left out")
            elif error.code == FORBIDDEN:
                forbidden.append(error)
            elif error.code != rest.NOT_FOUND:
                raise ClusterError(f"{name} cannot be listed: {error}") from None
        else:
            objects += found.objects
            notes += found.notes
        advance(1)
    if forbidden:
        raise ClusterError(_refusal(forbidden))
    return Collected(objects, tuple(notes))


async def _listed(api: rest.Api, selection: rest.Selection) -> Collected:
    decoding: rest.Decoding[Any] = rest.Decoding(selection.kind, KINDS[selection.kind])
    listing = await list_all(api, selection, decoding)
    partial = [one.partial for one in listing.unread if one.partial is not None]
    notes = tuple(
        f"{selection.kind[1]} {'/'.join(filter(None, one.place))}: {one.why}; "
        + ("it is left out" if one.partial is None else "what can be read of it is taken")
        for one in listing.unread
    )
    return Collected([*listing.items, *partial], notes)


def _refusal(errors: Iterable[apimachinery.ApiError]) -> str:
    lines = "\n".join(f"  {error.message}" for error in errors)
    rights = "`policy-sched manifests` prints a ClusterRole with the rights"
    return f"a snapshot needs to list what decisions read:\n{lines}\n{rights}"
