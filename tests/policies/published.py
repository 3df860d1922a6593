"""The simulator of "Beware of Fragmentation" and of PWR, once more: one loop, nothing kept.

The lists that were published are no part of the repository: POLICY_SCHED_TRACES names their folder.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.language.oracle_fragmentation import fragmentation, fragmentations

TRACES = Path(os.environ.get("POLICY_SCHED_TRACES") or Path(__file__).parents[3] / "shared/traces")
needs_published_lists = pytest.mark.skipif(
    not (TRACES / "openb_pods.csv.gz").is_file(),
    reason=f"no published lists in {TRACES}; POLICY_SCHED_TRACES names another folder",
)

#: Watts of a GPU, free and used.
WATTS = {
    "P100": (25, 250), "T4": (10, 70), "A10": (30, 150), "G2": (30, 150),
    "V100M16": (30, 300), "V100M32": (30, 300), "G3": (50, 400),
}  # fmt: skip
Row = Mapping[str, str]
Usual = tuple[list[list[int]], list[str], list[float]]


def usual_pods(pods: Sequence[Row], cover: float = 0.95) -> Usual:
    """Return the most frequent kinds of pods that cover so much of them, the largest first."""
    kinds = Counter(
        (int(p["cpu_milli"]), int(p["gpu_milli"]), int(p["num_gpu"]), p["gpu_spec"]) for p in pods
    )
    ordered = sorted(kinds.items(), key=lambda one: (one[1], one[0]), reverse=True)
    kept, covered = [], 0
    for kind, count in ordered:
        if covered >= cover * len(pods):
            break
        kept.append((kind, count))
        covered += count
    shares = [(count / len(pods)) / (covered / len(pods)) for _, count in kept]
    return [[k[0], k[2], k[1]] for k, _ in kept], [k[3] for k, _ in kept], shares


class Node:
    """A node: what is free of it."""

    def __init__(self, number: int, row: Row) -> None:
        self.number = number
        self.cpu, self.memory = int(row["cpu_milli"]), int(row["memory_mib"])
        self.cpus = self.cpu
        self.gpus, self.model = [1000] * int(row["gpu"]), row["model"]

    def fits(self, pod: Row) -> bool:
        """Return whether a pod has room."""
        enough = [g for g in self.gpus if g >= int(pod["gpu_milli"])]
        return (
            self.cpu >= int(pod["cpu_milli"])
            and self.memory >= int(pod["memory_mib"])
            and len(enough) >= int(pod["num_gpu"])
            and (not pod["gpu_spec"] or self.model in pod["gpu_spec"].split("|"))
        )

    def fgd(self, pod: Row, usual: Usual) -> list[int]:
        """Return the score of FGD for each way to place a pod."""
        before = fragmentation(self.cpu, self.gpus, self.model, *usual)
        cpu, count, milli = (int(pod[key]) for key in ("cpu_milli", "num_gpu", "gpu_milli"))
        found = fragmentations(self.cpu - cpu, self.gpus, self.model, *usual, count, milli)
        return [int(1 / (1 + math.exp(-((before - one) / 1000))) * 100) for one in found]

    def watts(self, cpu: int, gpus: Sequence[int]) -> int:
        """Return the power of the node with so much left, in watts."""
        idle, full = WATTS[self.model]
        cores = math.ceil(self.cpus / 1000 / 2)
        packages, busy = math.ceil(cores / 16), math.ceil((cores - cpu // 2000) / 16)
        free = sum(one == 1000 for one in gpus)
        return 15 * (packages - busy) + 120 * busy + idle * free + full * (len(gpus) - free)

    def pwr(self, pod: Row) -> list[int]:
        """Return the score of PWR, not normalized, for each way to place a pod."""
        cpu, count, milli = (int(pod[key]) for key in ("cpu_milli", "num_gpu", "gpu_milli"))
        fitting = [i for i, g in enumerate(self.gpus) if g >= milli]
        ways = [[i] for i in fitting] if count == 1 else [fitting[:count]]
        before = self.watts(self.cpu, self.gpus)
        found = []
        for way in ways:
            left = [g - milli * (i in way) for i, g in enumerate(self.gpus)]
            found.append(before - self.watts(self.cpu - cpu, left))
        return found

    def best_fit(self, pod: Row) -> int:
        """Return the score of BestFit before it is normalized."""
        cpu = self.cpu - int(pod["cpu_milli"])
        gpu = sum(self.gpus) - int(pod["num_gpu"]) * int(pod["gpu_milli"])
        return int(100 * (1 - (0.5 * (cpu / 128000) + 0.5 * (gpu / 8000))))

    def choice(self, pod: Row, policy: str, usual: Usual) -> list[int]:
        """Return the GPUs that a pod gets."""
        count, milli = int(pod["num_gpu"]), int(pod["gpu_milli"])
        fitting = [i for i, g in enumerate(self.gpus) if g >= milli]
        if count != 1 or milli == 1000:
            return fitting[:count]
        if policy in {"FGD", "PWR"}:
            scores = self.fgd(pod, usual) if policy == "FGD" else self.pwr(pod)
            return [fitting[scores.index(max(scores))]]
        return [min(fitting, key=lambda i: (self.gpus[i], i))]

    def take(self, pod: Row, gpus: Sequence[int]) -> None:
        """Give a pod its share of the node."""
        self.cpu -= int(pod["cpu_milli"])
        self.memory -= int(pod["memory_mib"])
        for one in gpus:
            self.gpus[one] -= int(pod["gpu_milli"])


def placements(
    policy: str,
    nodes: Sequence[Row],
    pods: Sequence[Row],
    arrivals: Sequence[int],
    ranks: Sequence[int],
) -> list[tuple[str, str]]:
    """Return for each arrival the name of its node and its GPUs, as an experiment records them."""
    usual = usual_pods(pods)
    ranked = [Node(i, nodes[i]) for i in ranks]
    found = []
    for number in arrivals:
        pod = pods[number]
        feasible = [node for node in ranked if node.fits(pod)]
        if not feasible:
            found.append(("", ""))
            continue
        if policy == "FGD":
            scores = [max(node.fgd(pod, usual)) for node in feasible]
        else:
            pwr = policy == "PWR"
            raw = [max(node.pwr(pod)) if pwr else node.best_fit(pod) for node in feasible]
            width, equal = max(raw) - min(raw), 100 if pwr else 0
            scores = [(one - min(raw)) * 100 // width if width else equal for one in raw]
        node = feasible[scores.index(max(scores))]
        gpus = node.choice(pod, policy, usual)
        node.take(pod, gpus)
        found.append((nodes[node.number]["sn"], " ".join(map(str, gpus))))
    return found
