"""Draws the sample tables of policies/papers, in the form of the published lists.

`python -m tests.policies.samples` writes them again, the same bytes each time. Shapes, shares and
times are invented: a sample lets an experiment run and its policies differ, and says nothing about
the cluster or the jobs whose lists were published.
"""

from __future__ import annotations

import csv
import io
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from random import Random
from statistics import fmean

PAPERS = Path(__file__).parents[2] / "policies" / "papers"
SEEDS = range(42, 52)
Cell = int | str

#: Nodes of each shape: cores, GiB, GPUs, model.
SHAPES = (
    (14, (96, 384, 8, "G2")),
    (6, (96, 512, 2, "T4")),
    (4, (64, 256, 4, "V100M16")),
    (4, (96, 768, 8, "G3")),
    (4, (32, 128, 2, "P100")),
    (3, (64, 384, 4, "V100M32")),
)
#: Weight of each kind of pod: cores, GiB, GPUs, thousandths of each, models.
KINDS = (
    (20, (9, 36, 1, 1000, "")),
    (14, (12, 48, 1, 1000, "")),
    (14, (3, 6, 1, 800, "")),
    (8, (8, 32, 1, 450, "")),
    (6, (10, 48, 1, 650, "")),
    (5, (8, 32, 1, 300, "")),
    (4, (4, 16, 1, 350, "T4|P100")),
    (4, (10, 40, 1, 1000, "V100M16|V100M32")),
    (2, (20, 96, 2, 1000, "")),
    (2, (80, 320, 8, 1000, "")),
    (1, (40, 160, 4, 1000, "G2")),
    (7, (18, 56, 0, 0, "")),
    (4, (4, 20, 0, 0, "")),
)
PODS = 200
ARRIVING_PERCENT = 130
"""What pods that arrive ask for, in percent of all GPUs."""
JOBS = 200


def text(rows: Iterable[Sequence[Cell]]) -> str:
    """Return rows as CSV."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def openb() -> dict[str, str]:
    """Return nodes, pods, orders of arrival and ranks of nodes in the form of OpenB's lists."""
    random = Random("openb")
    shapes = [shape for count, shape in SHAPES for _ in range(count)]
    random.shuffle(shapes)
    nodes: list[Sequence[Cell]] = [("sn", "cpu_milli", "memory_mib", "gpu", "model")]
    for number, (cores, memory, gpus, model) in enumerate(shapes):
        nodes.append((f"node-{number:03}", cores * 1000, memory * 1024, gpus, model))
    weights, kinds = zip(*KINDS, strict=True)
    drawn = random.choices(kinds, weights, k=PODS)
    pods: list[Sequence[Cell]] = [
        ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos",
         "pod_phase", "creation_time", "deletion_time", "scheduled_time")
    ]  # fmt: skip
    created = 0
    for number, (cores, memory, gpus, milli, models) in enumerate(drawn):
        created += random.randrange(60)
        ended = created + 60 + int(random.lognormvariate(8, 1))
        quality = random.choices(("LS", "BE", "Burstable"), (60, 35, 5))[0]
        amounts = (cores * 1000, memory * 1024, gpus, milli, models)
        name, times = f"pod-{number:03}", (created, ended, created)
        pods.append((name, *amounts, quality, "Running", *times))
    wanted = [kind[2] * kind[3] for kind in drawn]
    all_gpus = sum(shape[2] for shape in shapes) * 1000
    orders = [arrivals(Random(seed), wanted, all_gpus) for seed in SEEDS]
    ranks = [Random(seed).sample(range(len(shapes)), len(shapes)) for seed in SEEDS]
    return {
        "nodes.csv": text(nodes),
        "pods.csv": text(pods),
        "arrivals.csv": columns("pos", orders),
        "node_order.csv": columns("rank", ranks),
    }


def arrivals(random: Random, wanted: Sequence[int], all_gpus: int) -> list[int]:
    """Return numbers of pods: each once, shuffled, and then drawn until they want enough."""
    order = random.sample(range(len(wanted)), len(wanted))
    total = sum(wanted)
    while total * 100 < all_gpus * ARRIVING_PERCENT:
        order.append(random.randrange(len(wanted)))
        total += wanted[order[-1]]
    return order


def columns(name: str, orders: Sequence[Sequence[int]]) -> str:
    """Return a table with a column for each seed; the shorter ones end in empty cells."""
    rows = zip_longest(*orders, fillvalue="")
    return text([(name, *SEEDS), *((i, *row) for i, row in enumerate(rows))])


def pai() -> dict[str, str]:
    """Return jobs in the form of README.md: durations, and what is expected of them."""
    random = Random("pai")
    usual = {f"user-{i}": random.uniform(6, 9.5) for i in range(8)}
    groups = {(user, i): usual[user] + random.gauss(0, 0.8) for user in usual for i in range(3)}
    jobs: list[tuple[int, str, int, int, int]] = []
    for number in range(JOBS):
        user, group = random.choice(list(groups))
        gpus = random.choices((25, 50, 100, 200, 400, 800), (20, 25, 35, 10, 6, 4))[0]
        mean = groups[user, group] + (gpus >= 200) * 0.7
        duration = 1 + int(random.lognormvariate(mean, 0.9))
        jobs.append((number // 40 * 60, user, group, gpus, duration))
    durations: dict[tuple[Cell, ...], list[int]] = defaultdict(list)
    for _, user, group, gpus, duration in jobs:
        for key in ((user,), (user, group), (user, group, gpus)):
            durations[key].append(duration)
    rows: list[Sequence[Cell]] = [
        ("job_id", "submit_s", "duration_s", "gpu_centi", "cpu_centi", "user",
         "user_dur", "group_dur", "group_gpu_dur")
    ]  # fmt: skip
    for number, (submit, user, group, gpus, duration) in enumerate(jobs):
        keys: tuple[tuple[Cell, ...], ...] = ((user,), (user, group), (user, group, gpus))
        guesses = [f"{fmean(durations[key]):.2f}" for key in keys]
        rows.append((number, submit, duration, gpus, gpus * 8, user, *guesses))
    return {"sample.csv": text(rows)}


def samples() -> dict[Path, str]:
    """Return the content of each sample table, by its path."""
    tables = {PAPERS / "openb" / "sample" / name: content for name, content in openb().items()}
    return tables | {PAPERS / "pai" / name: content for name, content in pai().items()}


def main() -> None:
    """Write the tables."""
    for path, content in samples().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="")
        sys.stdout.write(f"{path.relative_to(PAPERS)}: {content.count(chr(10)) - 1} rows\n")


if __name__ == "__main__":
    main()
