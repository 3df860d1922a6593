"""Where a volume's labels say that it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from policy_sched.model import PersistentVolume
from policy_sched.plugins.volumes.migration import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ZONE_SEPARATOR,
)

TOPOLOGY_LABELS: Final[Mapping[str, str]] = {
    BETA_ZONE: ZONE,
    BETA_REGION: REGION,
    ZONE: ZONE,
    REGION: REGION,
}
"""Labels of volumes and nodes that say where they are, and what each is called today."""


class Topology(NamedTuple):
    """A label that a node must have with one of some values."""

    key: str
    values: frozenset[str]


def topologies_of(volume: PersistentVolume) -> list[Topology]:
    """Return what a volume's labels ask of a node; a label with an empty zone in it is no label."""
    found = []
    for key in TOPOLOGY_LABELS:
        value = volume.metadata.labels.get(key)
        if value is None:
            continue
        values = frozenset(part.strip() for part in value.split(ZONE_SEPARATOR))
        if "" not in values:
            found.append(Topology(key, values))
    return found
