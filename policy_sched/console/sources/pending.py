"""Pods without a node, and the reasons for it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

UNDECIDED: Final = "not decided yet"

_HEAD: Final = re.compile(r"\A\d+/\d+ nodes are available: ")
_COUNTED: Final = re.compile(r"(?:\A|, )(\d+) ")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod without a node.

    ``place``: where it is in the queue ("active", "backoff", "unschedulable", "gated", "in
    flight"), or "" if it is in none. ``position`` counts from 1 in the order in which ready pods
    are decided. ``message``: why it has no node, "" if it was not decided yet. ``node``: where a
    simulation puts it.
    """

    key: str
    uid: str
    place: str = ""
    position: int | None = None
    message: str = ""
    node: str = ""

    @property
    def reason(self) -> str:
        """The reason of most nodes."""
        return dominant_reason(self.message)


def dominant_reason(message: str) -> str:
    """Return the reason that most nodes have in a message of a scheduler.

    The form is kube-scheduler's: ``0/5 nodes are available: 3 Insufficient cpu, 2 ... .`` Any
    other message is a reason as a whole. Of reasons with equally many nodes the first counts.
    """
    head = _HEAD.match(message)
    if head is None:
        return message.partition("\n")[0] or UNDECIDED
    filters = message[head.end() :].partition(". ")[0]
    found = list(_COUNTED.finditer(filters))
    if not found:
        return filters.rstrip(".") or UNDECIDED
    ends = [one.start() for one in found[1:]] + [len(filters)]
    best, most = "", -1
    for match, end in zip(found, ends, strict=True):
        if int(match[1]) > most:
            best, most = filters[match.end() : end], int(match[1])
    return best.rstrip(".")


def grouped(pods: Iterable[Waiting]) -> list[tuple[str, list[Waiting]]]:
    """Return pods that wait by their dominant reason, the most frequent first."""
    groups: dict[str, list[Waiting]] = {}
    for waiting in pods:
        groups.setdefault(waiting.reason, []).append(waiting)
    sizes = Counter({reason: len(members) for reason, members in groups.items()})
    return [(reason, groups[reason]) for reason, _ in sizes.most_common()]
