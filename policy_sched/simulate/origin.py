"""What a report was made from: the cluster, what decided, the seed, the version.

Nothing of it depends on the time at which, or the place where, the report is written. The time of
the data is the one that the objects themselves state: a file's time changes with each copy.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from policy_sched import __version__, model
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.simulate.traces import is_trace
from policy_sched.web import Block, Column, Fact, Facts, Section, Table, Text, Value

ORIGIN: Final = "What this was made from"
"""The heading of the section."""
DIGITS: Final = 12
"""Hexadecimal digits that are shown of a hash."""


@dataclass(frozen=True, slots=True)
class ObjectsDigest:
    """Objects in short: how many of which kind, their SHA-256 (hex), when the newest was created.

    ``newest``: RFC 3339, empty if no object states a time.
    """

    objects: str
    digest: str
    newest: str


def contents_of(objects: Iterable[model.ApiObject]) -> ObjectsDigest:
    """Return objects in short, as they were read: before a simulation sets their times."""
    digest, kinds, newest = hashlib.sha256(), Counter[str](), 0
    for obj in objects:
        digest.update(msgspec.json.encode(obj))
        kinds[type(obj).__name__] += 1
        newest = max(newest, model.nanoseconds(obj.metadata.creation_timestamp))
    text = ", ".join(model.counted(count, kind) for kind, count in sorted(kinds.items()))
    return ObjectsDigest(text or "none", digest.hexdigest(), time_text(newest) if newest else "")


def time_text(time: int) -> str:
    """Return a time in nanoseconds since 1970 in RFC 3339."""
    return model.datetime_of(time).strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster_facts(sources: Sequence[str], contents: ObjectsDigest) -> list[Fact]:
    """Return where a cluster came from, and what it holds; a trace has seconds, and no dates."""
    newest = "a trace has no dates" if any(map(is_trace, sources)) else contents.newest
    return [
        Fact("Cluster", ", ".join("standard input" if one == "-" else one for one in sources)),
        Fact("Objects", contents.objects),
        Fact("Hash of the objects", Text(contents.digest[:DIGITS], code=True)),
        Fact("Newest object", newest or "none states its time"),
    ]


def policy_facts(files: PolicyFiles) -> list[Fact]:
    """Return the files of the policies that decided."""
    config = files.config if isinstance(files.config, str) else None
    policies = [Fact("Policies", ", ".join(files.policies))] if files.policies else []
    return [Fact("Configuration", config or "the default profile"), *policies]


def origin(
    facts: Sequence[Fact],
    sides: Mapping[str, Sequence[CompiledPlan]],
    *more: Block,
    program: str = __version__,
) -> Section:
    """Return the section. ``sides``: what decided, by a name that tells several apart."""
    several = len(sides) > 1
    rows: list[Sequence[Value]] = []
    for side, plans in sides.items():
        for plan in plans:
            policies = ((name, plan.hashes[name].whole) for name in plan.own)
            for name, digest in (("", plan.content_hash), *policies):
                policy = name or Text("all of it", tone="dim")
                head = [*([side] if several else []), plan.plan.scheduler_name]
                rows.append([*head, policy, Text(digest[:DIGITS], code=True)])
    heads = [*(["Set"] if several else []), "Profile", "Policy", "Hash"]
    decided = [Table("What decided", [Column(one) for one in heads], rows)] if rows else []
    return Section(ORIGIN, [Facts([Fact("policy-sched", program), *facts]), *decided, *more])
