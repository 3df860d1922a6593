"""Measures `policy-sched check` on a directory of policies, each time in a process of its own.

The policies are variations of the shipped ones. Each has its own name, and each rule its own
comment, so no two texts are equal and no cache by text helps.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from policy_sched.bench.result import Result
from policy_sched.errors import PolicySchedError
from policy_sched.profiles.models import default_policies, policies_directory
from policy_sched.source import yaml_values

NAME: Final = "Check"
POLICIES: Final = 200
RUNS: Final = 3
_RULES: Final = frozenset({"expression", "messageExpression", "eligible", "victim", "allow"})
_LISTS: Final = frozenset({"matchConditions"})


class Checks(Result, frozen=True):
    """How long `check` took for policies with so many rules, in s: the best run, and all."""

    policies: int
    rules: int
    seconds: float
    runs: tuple[float, ...]

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield f"{NAME}: {self.policies} policies with {self.rules} rules, a fresh process each time"
        yield f"  best of {len(self.runs)}  {self.seconds:.2f} s"


def run_checks(policies: int) -> Checks:
    """Write so many policies and check them in as many fresh processes, one after the other.

    Raises PolicySchedError if `check` finds an error.
    """
    with TemporaryDirectory() as directory:
        rules = write_policies(Path(directory), policies)
        command = [sys.executable, "-m", "policy_sched", "check", directory]
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  ours
            seconds.append(round(time.perf_counter() - started, 3))
            if done.returncode:
                raise PolicySchedError(f"check fails: {done.stdout[:200]}{done.stderr[:200]}")
    return Checks(NAME, policies, rules, min(seconds), tuple(seconds))


def write_policies(directory: Path, count: int) -> int:
    """Write ``count`` variations of the shipped policies, a file each; return how many rules."""
    shipped = sorted(policies_directory().glob("*/policy.yaml"))
    files = [path for path in shipped if path.parent != default_policies()]
    texts = [(path.parent, path.read_text("utf-8")) for path in files]
    rules = 0
    for number, (folder, text) in enumerate(islice(cycle(texts), count)):
        policy = yaml_values(text)[0]
        for entry in policy["spec"].get("inputs", ()):
            if "schema" in entry:
                name = f"{folder.name}-{entry['schema']}"
                shutil.copy(folder / entry["schema"], directory / name)
                entry["schema"] = name
        policy["metadata"]["name"] += str(number)
        rules += _vary(policy["spec"], number)
        file = directory / f"policy-{number:04}.yaml"
        file.write_text(yaml.safe_dump(policy, sort_keys=False, width=1000), "utf-8")
    return rules


def _vary(value: Any, number: int) -> int:
    """Give each rule below ``value`` a comment with a number; return how many there are."""
    rules = 0
    if isinstance(value, list):
        return sum(_vary(item, number) for item in value)
    if not isinstance(value, dict):
        return 0
    for key, part in value.items():
        if key in _RULES and isinstance(part, str):
            value[key] = f"{part} // form {number}"
            rules += 1
        elif key in _LISTS:
            value[key] = [f"{rule} // form {number}" for rule in part]
            rules += len(part)
        elif key != "params":
            rules += _vary(part, number)
    return rules
