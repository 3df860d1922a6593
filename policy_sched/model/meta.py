"""What every API object has: metadata, owner references, label selectors, and the struct base."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import field

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
"""The API's int32: counts, weights, priorities."""

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""The API's int64: sizes and seconds."""


class ApiStruct(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False):
    """Base of the structs that are decoded straight from API JSON; unknown fields are ignored.

    What is decoded is a tree, so the cycle collector need not walk through it: with 30,000 pods a
    full collection takes 25 ms instead of 110.
    """


class ApiValue(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True, gc=False
):
    """Base of the structs that never change once decoded."""


class LabelSelectorRequirement(ApiValue, frozen=True, gc=False):
    """One requirement of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(ApiValue, frozen=True):
    """Which labels are meant; all of it must hold, and an empty selector selects everything."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class OwnerReference(ApiValue, frozen=True, gc=False):
    """Another object that owns this one; the one with ``controller`` true manages it."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMeta(ApiStruct):
    """Name, labels and the rest of an object's metadata that scheduling reads."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class ApiObject(ApiStruct):
    """Base of the objects with a kind: what was read stays, so that it is written again."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)


def datetime_of(time: int) -> datetime:
    """Return the timestamp of a time in nanoseconds since 1970, rounded to microseconds."""
    return EPOCH + timedelta(microseconds=time // 1000)


def nanoseconds(time: datetime | None) -> int:
    """Return a timestamp as nanoseconds since 1970, 0 for none; a naive time is UTC."""
    if time is None:
        return 0
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - EPOCH) // timedelta(microseconds=1) * 1000
