"""The floor: filtering and scoring all nodes for equal pods over bare arrays, with nothing around.

No queue, no cache, no plugins: what NumPy takes on the same machine for the arithmetic of
NodeResourcesFit (LeastAllocated) and NodeResourcesBalancedAllocation, and a random choice among
the best nodes. Ratios to it stay the same on slow and busy machines, where decisions per second
do not.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

NODE: Final = (4000.0, 32.0 * 2**30, 110.0, 100.0 * 2**30)
"""CPU in millicores, memory in bytes, pods, ephemeral storage in bytes."""
POD: Final = (100.0, 500.0 * 2**20, 1.0, 0.0)


def floor(nodes: int, pods: int) -> float:
    """Return the decisions in a second of CPU for so many equal pods on so many nodes."""
    random = np.random.default_rng(0)
    allocatable = np.repeat(np.array(NODE)[:, None], nodes, axis=1)
    requested = np.zeros((len(NODE), nodes))
    pod = np.array(POD)
    suitable = np.ones(nodes, np.bool_)
    started = time.process_time()
    for _ in range(pods):
        after = requested + pod[:, None]
        feasible = (after <= allocatable).all(axis=0) & suitable
        free = np.floor((allocatable[:2] - after[:2]) * 100 / allocatable[:2])
        least_allocated = free.sum(axis=0) // 2
        cpu, memory = after[:2] / allocatable[:2]
        balanced = np.floor((1 - np.abs(cpu - memory) / 2) * 100)
        total = np.where(feasible, least_allocated + balanced, -1)
        best = np.flatnonzero(total == total.max())
        requested[:, best[random.integers(len(best))]] += pod
    return pods / (time.process_time() - started)
