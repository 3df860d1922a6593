"""Which side of a rollout a pod belongs to: a stable hash of its owner and of the rollout."""

from __future__ import annotations

import hashlib
from typing import Final, Literal

from policy_sched.model import PodInfo

By = Literal["Owner", "Pod", "Namespace"]
"""What stays together: the pods of one controller, one pod, the pods of one namespace."""

_BYTES: Final = 6
"""Of the hash: a double holds them exactly, so that a share is below 100."""


_MOST_SHARES: Final = 65_536
"""Owners of which is remembered where they lie."""


def share_of(key: str, rollout: str) -> float:
    """Return where a key lies in a rollout, from 0 to below 100.

    The candidate of a step with P percent decides the keys below P: a later step keeps those
    of an earlier one. The share is the same in every process.
    """
    digest = hashlib.sha256(f"{rollout}\0{key}".encode("utf-8", "surrogatepass")).digest()
    return 100.0 * int.from_bytes(digest[:_BYTES]) / 256**_BYTES


def key_of(info: PodInfo, by: By) -> str:
    """Return what a pod's side is a hash of; pods without a uid go by their name."""
    if by == "Namespace":
        return info.pod.metadata.namespace
    owner = info.owner_uid if by == "Owner" else ""
    return owner or info.pod.metadata.uid or info.key


class Sides:
    """Which pods the candidate decides: a share of owners, pods or namespaces.

    The pods of one group stay together, whatever owns them.
    """

    def __init__(self, percent: int, by: By, rollout: str) -> None:
        self._percent = percent
        self._by = by
        self._rollout = rollout
        self._shares: dict[str, bool] = {}

    def __call__(self, pod: PodInfo) -> bool:
        """Return whether the candidate decides a pod."""
        grouped = f"{pod.namespace}/{pod.pod_group}" if pod.pod_group else ""
        key = grouped or key_of(pod, self._by)
        chosen = self._shares.get(key)
        if chosen is None:
            if len(self._shares) >= _MOST_SHARES:
                self._shares.clear()
            share = share_of(key, self._rollout)
            chosen = self._shares[key] = share < self._percent
        return chosen
