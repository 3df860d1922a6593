"""PolicyProof as a pydantic model: claims about policies that `policy-sched prove` decides."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from policy_sched.profiles.models.types import Document, FileName, Many

Expression = str
"""A rule over pod, node and victim, and what policies make of them: passes("POLICY") and others."""


class MonotoneClaim(Document):
    """A raw score that never falls, or never rises, as one number of pod or node grows."""

    score: str
    """The policy whose raw score it is."""
    in_: Annotated[Expression, Field(alias="in")]
    """The number that grows while all else stays: node.requested["nvidia.com/gpu"]."""
    direction: Literal["Increasing", "Decreasing"]
    """Increasing: the score never falls; Decreasing: it never rises."""


class EquivalentClaim(Document):
    """Two versions of policies that decide alike: queue, filters, reasons, scores, evictions."""

    old: FileName | Many[FileName]
    """Policy files of one side, relative to this file."""
    new: FileName | Many[FileName]
    """Those of the other."""


class ImpliesClaim(Document):
    """A condition that holds wherever another does."""

    if_: Annotated[Expression, Field(alias="if")]
    """Where this holds,"""
    then: Expression
    """this holds, too."""


class ProofClaim(Document):
    """What must be so for every pod and node; it has one of the keys beside ``name``."""

    name: str
    """What is claimed, in words."""
    always: Expression | None = None
    """A rule that is true for every pod and node; one that fails is not."""
    never: Expression | None = None
    """A rule that is true for no pod and node."""
    implies: ImpliesClaim | None = None
    """A rule that holds wherever another does."""
    disjoint: Many[Expression] = ()
    """Rules of which no two are true for one pod and node."""
    monotone: MonotoneClaim | None = None
    """A score that only grows, or only falls, with one number."""
    equivalent: EquivalentClaim | None = None
    """Two versions that decide alike."""


CLAIM_FORMS = ("always", "never", "implies", "disjoint", "monotone", "equivalent")
"""The keys of which a claim has one."""


class PolicyProof(Document):
    """Claims about policies, which hold for every pod and every node or are refuted by one."""

    api_version: Literal["policysched.dev/v1alpha1"]
    """Version of this form."""
    kind: Literal["PolicyProof"]
    """Kind of the document."""
    name: str
    """What is claimed, in words."""
    policies: FileName | Many[FileName] = ()
    """Policy files that the claims are about, relative to this file."""
    assume: Many[Expression] = ()
    """Rules that are taken to be true of every pod and node: what the cluster guarantees."""
    claims: Many[ProofClaim]
    """The claims."""
