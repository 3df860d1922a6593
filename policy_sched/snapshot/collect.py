"""Snapshots of a live cluster: one list of each kind, pods last.

Only the kinds that decisions read are listed. Secrets and config maps are not among them, and
nothing is written to the cluster. A snapshot is a file with one object a line, compressed, and
readable as manifests.

The objects are written in their reduced form (`recording`).
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from policy_sched.client import apimachinery
from policy_sched.client.kube import rest
from policy_sched.client.kube.cache import POD_GROUPS, READ, discover, list_all
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.manifests import NO_STRUCTS, Structs, custom_data
from policy_sched.model import KINDS, ApiObject, CustomObject, Node, Pod, counted
from policy_sched.report import Advance, unshown
from policy_sched.source import replacing, write_file

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


async def collect(
    api: rest.Api, advance: Advance = unshown, inputs: Structs = NO_STRUCTS
) -> Collected:
    """List a cluster's objects; ``advance`` is called with the number of further kinds.

    ``inputs``: further kinds, which inputs of policies declare. Kinds that the server does not
    serve are empty. Raises ClusterError with all kinds that decisions need and that may not be
    listed, and for a server that does not respond.
    """
    objects: list[ApiObject] = []
    notes: list[str] = []

    async def ask(selection: rest.Selection) -> Collected:
        try:
            return await _listed(api, selection, inputs)
        finally:
            advance(1)

    async for _, listed in readable(api, inputs, ask, notes.append, "a snapshot"):
        objects += [] if listed is None else listed.objects
        notes += [] if listed is None else listed.notes
    return Collected(objects, tuple(notes))


T = TypeVar("T")


async def readable(
    api: rest.Api,
    inputs: Structs,
    ask: Callable[[rest.Selection], Awaitable[T]],
    tell: Callable[[str], None],
    what: str,
) -> AsyncIterator[tuple[rest.Selection, T | None]]:
    """Ask about each kind that is read, pods last; yield the kinds that may be, with the answers.

    An answer is None for a kind that the server does not serve. ``tell`` takes what is left out;
    ``what`` is made. Raises ClusterError as `collect`.
    """
    forbidden: list[apimachinery.ApiError] = []
    further = {kind for kind in inputs if kind not in {selection.kind for selection in SELECTIONS}}
    served = await discover(api, further) if further else {}
    for kind in sorted(further - served.keys()):
        tell(f"the cluster has no {kind[1]} of {kind[0]}")
    for selection in (*sorted(served.values(), key=lambda selection: selection.kind), *SELECTIONS):
        answer = None
        try:
            answer = await ask(selection)
        except apimachinery.ApiError as error:
            name = selection.plural or apimachinery.resource(selection.kind).qualified
            if error.code == FORBIDDEN and selection in USEFUL:
                tell(f"{name} may not be listed and are left out")
                continue
            if error.code == FORBIDDEN:
                forbidden.append(error)
            elif error.code != rest.NOT_FOUND:
                raise ClusterError(f"{name} cannot be listed: {error}") from None
        yield selection, answer
    if forbidden:
        lines = "\n".join(f"  {error.message}" for error in forbidden)
        rights = "`policy-sched manifests` prints a ClusterRole with the rights"
        raise ClusterError(f"{what} needs to list what decisions read:\n{lines}\n{rights}")


async def _listed(api: rest.Api, selection: rest.Selection, inputs: Structs) -> Collected:
    struct = inputs.get(selection.kind) or KINDS.get(selection.kind, CustomObject)
    decoding: rest.Decoding[Any] = rest.decoding_of(selection.kind, struct)
    listing = await list_all(api, selection, decoding)
    partial = [unread.partial for unread in listing.unread if unread.partial is not None]
    notes = tuple(
        f"{selection.kind[1]} {'/'.join(filter(None, unread.place))}: {unread.why}; "
        + ("it is left out" if unread.partial is None else "what can be read of it is taken")
        for unread in listing.unread
    )
    return Collected([*listing.items, *partial], notes)


SUFFIX: Final = ".jsonl.gz"
LEVEL: Final = 6
"""Level of compression: higher ones take several times as long for a few per cent."""


def check_path(path: str) -> None:
    """Raise PolicySchedError unless a snapshot can be written there and read by its name."""
    if not path.endswith(SUFFIX):
        raise PolicySchedError(f"{path}: the name of a snapshot ends in {SUFFIX}")
    check_file(path)


def check_file(path: str) -> None:
    """Raise PolicySchedError where no file can be: what is written late is asked for early."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise PolicySchedError(f"{path}: there is no directory {folder}")
    if Path(path).is_dir():
        raise PolicySchedError(f"{path}: it is a directory")


def write_objects(path: str, objects: Iterable[ApiObject]) -> int:
    """Write objects, and return the size in bytes; the same objects give the same bytes.

    Only the owner may read the file. An existing one is replaced when the new one is complete.
    """
    encode = msgspec.json.Encoder().encode
    with replacing(path, private=True) as raw:
        with gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
            for obj in objects:
                plain = custom_data(obj) if isinstance(obj, CustomObject) else obj
                packed.write(encode(plain) + b"\n")
        return raw.tell()


def write_names(path: str, names: Mapping[str, str]) -> None:
    """Write names by their pseudonyms as JSON; only the owner may read the file."""
    text = json.dumps(names, indent=0, ensure_ascii=False)
    write_file(path, f"{text}\n".encode(), private=True)


def summary(objects: Sequence[ApiObject]) -> str:
    """Return the numbers of nodes, pods and other objects in words."""
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    pending = sum(not pod.spec.node_name for pod in pods)
    nodes = sum(isinstance(obj, Node) for obj in objects)
    others = Counter(obj.kind for obj in objects if not isinstance(obj, Pod | Node))
    text = f"{counted(nodes, 'node')}, {counted(len(pods), 'pod')} ({pending:,} pending)"
    return f"{text}, {counted(others.total(), 'other object')}"
