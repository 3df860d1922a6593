"""The lines of a segment: one struct for each type, as they stand in the file.

``at`` is the time in nanoseconds since the segment began. ``id`` numbers objects in the order in
which they came, from 0 at each snapshot. A pod has what is its own on its line; what it shares with
others (spec, labels and owners, status) has a number, and a line before the first pod that has it.
A number that is given again stands for the new value.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from policy_sched.model import OwnerReference

FORMAT: Final = "policysched.dev/recording/v2"
"""What a segment says of its form in its first line."""


class Line(
    msgspec.Struct,
    rename="camel",
    omit_defaults=True,
    gc=False,
    tag_field="type",
    forbid_unknown_fields=True,
):
    """Base of the lines."""


class Header(Line, tag="segment"):
    """The first line. ``began``: ns since 1970; ``after``: the segment that it continues, or 0.

    ``lost``: lines that could not be written before it. ``policies``: the hash of those in force.
    """

    format: str
    number: int
    began: int
    snapshot: bool = False
    after: int = 0
    lost: int = 0
    policies: str = ""
    anonymized: bool = False


class SpecLine(Line, tag="spec"):
    """The spec of pods, without their node."""

    number: int
    spec: msgspec.Raw


class SharedMeta(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """What pods of one owner share of their metadata."""

    namespace: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class MetaLine(Line, tag="meta"):
    """Metadata of pods."""

    number: int
    meta: SharedMeta


class StatusLine(Line, tag="status"):
    """A status of pods: those that start in one second are mostly alike."""

    number: int
    status: msgspec.Raw


class PodLine(Line, tag="pod"):
    """A pod that came; ``meta``, ``spec`` and ``status`` are numbers."""

    at: int
    id: int
    name: str
    meta: int
    spec: int
    status: int
    uid: str = ""
    created: datetime | None = None
    deleted: datetime | None = None
    node: str = ""


class ObjectLine(Line, tag="object"):
    """Any other object that came; one whose id was given before has changed."""

    at: int
    id: int
    object: msgspec.Raw


class ChangedLine(Line, tag="changed"):
    """What changed of an object: fields by their path; ``a.b[1:2]`` is a part of a list.

    Of a pod ``node`` and ``status`` are given as by the line of one that comes.
    """

    at: int
    id: int
    node: str | None = None
    status: int = -1
    set: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)


class GoneLine(Line, tag="gone"):
    """An object was deleted, or a pod ended in a ``phase``."""

    at: int
    id: int
    phase: str = ""


class DecidedLine(Line, tag="decided"):
    """A decision about the pod ``id``; what is absent is empty.

    ``scheduler`` is absent where it is the pod's, ``policies`` where it is the hash in force.
    """

    at: int
    id: int
    node: str = ""
    nominated: str = ""
    reason: str = ""
    message: str = ""
    victims: tuple[str, ...] = ()
    evicted: bool = False
    scheduler: str | None = None
    policies: str | None = None


class PoliciesLine(Line, tag="policies"):
    """Other policies are in force."""

    at: int
    hash: str


class CompleteLine(Line, tag="complete"):
    """The end of a snapshot, and how many objects it has."""

    objects: int


class EndLine(Line, tag="end"):
    """The last line of a segment that was closed."""

    at: int


AnyLine: TypeAlias = (
    Header
    | SpecLine
    | MetaLine
    | StatusLine
    | PodLine
    | ObjectLine
    | ChangedLine
    | GoneLine
    | DecidedLine
    | PoliciesLine
    | CompleteLine
    | EndLine
)
