"""Shows where two paths cross: runs workloads with other values of a threshold, in turns.

``python -m tests.bench.thresholds NAME VALUE... [--workloads W,...] [--nodes N] [--pods N]``.
Without NAME: all thresholds, their values and their workloads.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

from policy_sched import thresholds
from policy_sched.bench import in_process
from policy_sched.bench.workloads import WORKLOADS


def workloads() -> dict[str, list[str]]:
    """Return the workloads in which each threshold matters, which its docstring ends with."""
    named = {}
    for constant, docstring in pairwise(
        ast.parse(Path(thresholds.__file__).read_text("utf-8")).body
    ):
        if isinstance(constant, ast.AnnAssign) and isinstance(docstring, ast.Expr):
            text: str = ast.literal_eval(docstring.value)
            named[ast.unparse(constant.target)] = text.rsplit("\n\n", maxsplit=1)[-1].split()
    return named


def main() -> None:
    """Print decisions per second of CPU, the median of some turns, by workload and value."""
    where = workloads()
    parser = argparse.ArgumentParser(prog="python -m tests.bench.thresholds", description=__doc__)
    parser.add_argument("name", nargs="?", choices=[*where])
    parser.add_argument("values", nargs="*", type=float)
    parser.add_argument("--workloads", default="")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.name is None:
        for name, own in where.items():
            sys.stdout.write(f"{name} {getattr(thresholds, name)}: {' '.join(own)}\n")
        return
    values = arguments.values or [getattr(thresholds, arguments.name)]
    for name in arguments.workloads.split(",") if arguments.workloads else where[arguments.name]:
        rates = defaultdict[float, list[float]](list)
        for _ in range(arguments.turns):
            for value in values:
                setattr(thresholds, arguments.name, value)
                workload = WORKLOADS[name]
                nodes = arguments.nodes or workload.nodes
                measured = in_process.run_benchmark(workload, nodes, arguments.pods)
                seconds = measured.phases[in_process.WARM].cpu_seconds
                rates[value].append(arguments.pods / seconds)
        said = "  ".join(f"{value:g}: {statistics.median(r):,.0f}" for value, r in rates.items())
        sys.stdout.write(f"{name}  {said}\n")


if __name__ == "__main__":
    main()
