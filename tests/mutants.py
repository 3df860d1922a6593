"""Mutants of every line that makes a kept result invalid, and the tests that must see them.

``python -m tests.mutants [--jobs N] [WORD...]`` takes one line after the other out of a copy of the
program and runs the tests; WORDs choose mutants by file or text. A mutant that the tests do not see
is printed, and the exit code is 1. Where a line changes nothing that can be observed, delete it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

ROOT: Final = Path(__file__).parents[1]
JUDGE: Final = ("tests/scheduler/test_kept_results.py",)
"""Two schedulers play random histories."""
LIMIT: Final = 900
"""Seconds after which the tests of a mutant are ended."""


@dataclass(frozen=True)
class Mutant:
    """A text of a file that occurs once there, and what stands in its place."""

    file: str
    text: str
    becomes: str
    tests: tuple[str, ...] = JUDGE

    def __str__(self) -> str:
        """Name it by its file and first line."""
        return f"{self.file}: {self.text.strip().splitlines()[0]}"


EVALUATE: Final = "framework/evaluate"
COUNTS: Final = "cluster/counts"
SPREAD: Final = "plugins/podtopologyspread"
AFFINITY: Final = "plugins/interpodaffinity"
CLAIMS: Final = "plugins/dynamicresources"

MUTANTS: Final = (
    # Evaluations: journal, scopes, nominations.
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "if entry.version == journal.version and not renominated:",
        "if True:",
    ),
    Mutant(f"{EVALUATE}/evaluator.py", "rows = list(dict.fromkeys([*rows, *renominated]))", "pass"),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "place = key if lowest is None else (*key, lowest)",
        "place = key",
    ),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "if reads_cluster and not passes.pre_filter_unchanged(entry, pod):",
        "if False:",
    ),
    Mutant(f"{EVALUATE}/evaluator.py", "        if not done:\n            return False\n", ""),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "if entry is None or entry.version < self._table.journal.static_version:",
        "if entry is None:",
    ),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "        if nominations.nominated_pods_on(pod, (own,)):\n            return None\n",
        "",
    ),
    Mutant(
        f"{EVALUATE}/nominated_pods.py", "if self.version == self._nominator.version:", "if True:"
    ),
    # Few changed rows.
    Mutant(
        f"{EVALUATE}/few_rows.py", "                unshut[row] += gain\n", "                pass\n"
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py", "                total[row] += gain\n", "                pass\n"
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py", "plugin.raw, plugin.shared = plugin.raw.copy(), False", "pass"
    ),
    Mutant(f"{EVALUATE}/few_rows.py", "entry.ranking.changed(feasible)", "pass"),
    Mutant(f"{EVALUATE}/few_rows.py", "entry.ranking.changed(gone)", "pass"),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "            entry.total[row] = -1\n        for row in come:",
        "            pass\n        for row in come:",
    ),
    Mutant(f"{EVALUATE}/few_rows.py", "entry.outdated[scored] = False", "pass"),
    Mutant(
        f"{EVALUATE}/few_rows.py", "changed = np.union1d(changed, np.array(rows, np.intp))", "pass"
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "        entry.total[rows] = -1\n        entry.ranking",
        "        entry.ranking",
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "if entry.outdated is not None and entry.outdated[rows].any():",
        "if False:",
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "or (plugin.whole and (plugin.part is None or plugin.flat))",
        "or True",
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "plugin.part is None or plugin.facts.scope > Scope.NODE or plugin.is_between(rows, first)",
        "True",
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "            return None  # they see the nominated pods of other rows\n",
        "            pass\n",
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "if overrides and not overrides.keys().isdisjoint(rows):",
        "if False:",
    ),
    Mutant(
        f"{EVALUATE}/few_rows.py",
        "return nominated is not None and nominated.any_on(rows)",
        "return False",
    ),
    # Changed rows by calling plugins.
    Mutant(f"{EVALUATE}/patches.py", "if not incremental.holds():", "if False:"),
    Mutant(f"{EVALUATE}/patches.py", "entry.note_scored(rows, touched[~now])", "pass"),
    Mutant(
        f"{EVALUATE}/patches.py",
        "            entry.combine()\n            filtering.explanations.forget()\n",
        "            filtering.explanations.forget()\n",
    ),
    Mutant(
        f"{EVALUATE}/patches.py",
        "            entry.combine()\n            filtering.explanations.forget()\n",
        "            entry.combine()\n",
    ),
    Mutant(
        f"{EVALUATE}/patches.py", "            entry.combine_rows(touched)\n", "            pass\n"
    ),
    Mutant(f"{EVALUATE}/patches.py", "filtering.explanations.forget(touched.tolist())", "pass"),
    Mutant(f"{EVALUATE}/patches.py", "entry.ranking.changed(touched.tolist())", "pass"),
    Mutant(
        f"{EVALUATE}/patches.py", "self.override(entry, pod, None if everywhere else rows)", "pass"
    ),
    Mutant(
        f"{EVALUATE}/patches.py",
        "if entry.wide_pre_score and not self.pre_score_unchanged(entry, pod):",
        "if False:",
    ),
    Mutant(f"{EVALUATE}/patches.py", "entry.total[touched[~now]] = -1", "pass"),
    Mutant(f"{EVALUATE}/patches.py", "elif plugin.facts.by_row or gain.any():", "elif False:"),
    Mutant(f"{EVALUATE}/patches.py", "added[first != FEASIBLE] = 0", "pass"),
    # Entries.
    Mutant(
        f"{EVALUATE}/entry.py",
        " -1)\n        self.ranking.forget()\n",
        " -1)\n",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "self.result.filtering.explanations.forget([one[0] for one in changed])",
        "pass",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "self.result.filtering.explanations.forget([*before, *rejections])",
        "pass",
    ),
    Mutant(f"{EVALUATE}/results.py", "part[first != FEASIBLE] = 0", "pass"),
    Mutant(f"{EVALUATE}/entry.py", "        self.outdated[rows] = False\n", ""),
    # Static results.
    Mutant(
        f"{EVALUATE}/static_part.py",
        "            self._kept.clear()\n            self._version = version\n",
        "            self._version = version\n",
    ),
    Mutant(
        f"{EVALUATE}/static_part.py",
        "return all(one.among(first) for one in self.extremes)",
        "return True",
    ),
    Mutant(f"{EVALUATE}/sampling.py", "if self._version != version:", "if self._version < 0:"),
    Mutant(
        f"{EVALUATE}/results.py",
        "self.normalized = self.extremes = self.extreme_rows = None",
        "pass",
    ),
    # Columns and counts of rules.
    Mutant(
        "language/runtime/incremental.py",
        "if self._version != journal.version:\n                self._renew()",
        "if self._version < 0:\n                self._renew()",
    ),
    Mutant(
        "language/runtime/incremental.py",
        "elif self._version < journal.static_version:",
        "elif self._version < 0:",
    ),
    Mutant("language/runtime/incremental.py", "changed |= self._moving.put(row)", "pass"),
    Mutant(
        "language/runtime/incremental.py",
        "elif count.version != self._nodes.journal.version:",
        "elif False:",
    ),
    Mutant("language/runtime/incremental.py", "totals[place] += change", "pass"),
    Mutant(
        "language/runtime/incremental.py",
        "if known is not None and known[0] is domain:",
        "if known is not None:",
    ),
    # Tables and journal.
    Mutant("cluster/tables/journal.py", "self.static_version = version", "pass"),
    Mutant(
        "cluster/tables/journal.py",
        "self.stamps[row], self._bare[row] = version, -version",
        "self._bare[row] = -version",
    ),
    Mutant(
        "cluster/tables/journal.py",
        "rows = [row for row in rows if stamps[row] != seen[row]] or rows[:1]",
        "rows = rows[:1]",
    ),
    Mutant(
        "cluster/tables/node_table.py",
        "kind = STATIC | (DYNAMIC if self.usage.refresh_free(row) else 0)",
        "kind = STATIC",
    ),
    Mutant("cluster/tables/node_table.py", "        self.static_version += 1\n", ""),
    Mutant(
        "cluster/tables/node_table.py",
        "if known is None or known[0] != version:",
        "if known is None:",
    ),
    # Counts of pods by selector and domain.
    Mutant(
        f"{COUNTS}/counts.py",
        "            self._current.clear()\n        domain",
        "            pass\n        domain",
    ),
    Mutant(
        f"{COUNTS}/counts.py",
        "if domain is None or domain.version != _version(key, self._table):",
        "if domain is None:",
    ),
    Mutant(f"{COUNTS}/counts.py", "totals[ids[row]] += amount", "pass"),
    Mutant(
        f"{COUNTS}/counts.py", "if kept is not None and kept[0] is domain:", "if kept is not None:"
    ),
    Mutant(
        f"{COUNTS}/selector_counts.py",
        "        self._list(match)\n        self._known.clear()\n",
        "        self._list(match)\n",
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "self.live += -1 if before else 1\n            self.version += 1",
        "self.live += -1 if before else 1",
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "        self._known.clear()\n        self.version += 1\n\n",
        "        self.version += 1\n\n",
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "        self._known.clear()\n        self.version += 1\n        return carried",
        "        self.version += 1\n        return carried",
    ),
    Mutant(
        f"{COUNTS}/existing_terms.py",
        "            self._resolved[terms] = found",
        "            self._resolved[terms] = found[:1]",
    ),
    Mutant(f"{COUNTS}/domain_scores.py", "if table.tobytes() == self.table.tobytes():", "if True:"),
    Mutant(f"{COUNTS}/domain_scores.py", "if self._rows is not rows:", "if self._rows is None:"),
    # Topology spread and pod affinity.
    Mutant(f"{SPREAD}/filtering.py", "and before.version == counter.version", "and True"),
    Mutant(
        f"{SPREAD}/filtering.py",
        "if domain is not other or table.tobytes() != kept.tobytes():",
        "if False:",
    ),
    Mutant(
        f"{SPREAD}/incremental.py",
        "            if was <= fewest or now < fewest:\n                recount = True\n",
        "",
    ),
    Mutant(
        f"{SPREAD}/incremental.py",
        "turned = np.union1d(turned, others) if turned.size else others",
        "turned = others",
    ),
    Mutant(
        f"{SPREAD}/incremental.py", "changed = [*changed, *self.groups.get(number, ())]", "pass"
    ),
    Mutant(f"{SPREAD}/incremental.py", "                members[old] -= 1\n", ""),
    Mutant(f"{SPREAD}/incremental.py", "if feasible is not self._feasible:", "if False:"),
    Mutant(
        f"{SPREAD}/incremental.py",
        "self._extremes, changed = extremes, range(len(raw))",
        "self._extremes = extremes",
    ),
    Mutant(
        f"{SPREAD}/constraints.py",
        "            self._affine.clear()\n            self._tolerated.clear()\n",
        "            self._tolerated.clear()\n",
    ),
    Mutant(
        f"{SPREAD}/constraints.py",
        "            self._affine.clear()\n            self._tolerated.clear()\n",
        "            self._affine.clear()\n",
    ),
    Mutant(
        f"{SPREAD}/constraints.py",
        "            self._version = self._table.static_version\n            self._forget()\n",
        "            self._version = self._table.static_version\n",
    ),
    Mutant(f"{AFFINITY}/incremental.py", "if self._version != self._counts.version:", "if False:"),
    Mutant(
        f"{AFFINITY}/incremental.py",
        "return preferred is None or preferred.same_counts()",
        "return True",
    ),
    Mutant(f"{AFFINITY}/scoring.py", "sums[place] = now", "pass"),
    Mutant(f"{AFFINITY}/scoring.py", "                members[was] -= 1\n", ""),
    Mutant(
        f"{AFFINITY}/scoring.py",
        "            settled = self._members = self._counted()\n",
        "            settled = self._members\n",
    ),
    # Preemption.
    Mutant(
        "preemption/dry_runs.py",
        "self._forget([*changes.rows, *moved])",
        "pass",
        ("tests/preemption",),
    ),
    Mutant("preemption/dry_runs.py", " or budgets != self._budgets:", ":", ("tests/preemption",)),
    Mutant(
        "preemption/dry_runs.py",
        "        for keyed in self._keyed.values():\n            keyed[rows] = False\n",
        "        pass\n",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/dry_runs.py",
        "self._forget([row for row in (self._own, own) if row is not None])",
        "pass",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/dry_runs.py",
        "        if self._pipeline != attempt.filter_dry_run.pipeline:\n",
        "        if not self._pipeline:\n",
        ("tests/preemption", "tests/scheduler/setup"),
    ),
    Mutant(
        "preemption/evictable.py", "kind.stale.update(changes.rows)", "pass", ("tests/preemption",)
    ),
    Mutant(
        "preemption/evictable.py", "none[list(kind.stale)] = False", "pass", ("tests/preemption",)
    ),
    Mutant(
        "preemption/evictable.py",
        "if asked is not None and asked[0] is attempt and asked[1] == version:",
        "if asked is not None and asked[0] is attempt:",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/budgets.py",
        "if self._version != self._objects.version:",
        "if self._version < 0:",
        ("tests/preemption",),
    ),
    Mutant(
        "preemption/budgets.py", "                self._changes += 1\n", "", ("tests/preemption",)
    ),
    Mutant(
        "cluster/pods_by_importance.py",
        "if kept.version < self._changed or kept.values.shape != shape:",
        "if kept.values.shape != shape:",
        ("tests/cluster/test_pods_by_importance.py", "tests/preemption"),
    ),
    Mutant(
        "cluster/pods_by_importance.py",
        "                for row in changes.rows:\n                    self._sort_one(row)\n",
        "                pass\n",
        ("tests/cluster/test_pods_by_importance.py", "tests/preemption"),
    ),
    # Volumes.
    Mutant(
        "plugins/volumes/node_labels.py",
        "if self._version != self._table.static_version or self._kept_rows > KEPT_ROWS:",
        "if self._kept_rows > KEPT_ROWS:",
        ("tests/plugins/volumes",),
    ),
    Mutant(
        "plugins/volumes/limits.py",
        "if self._seen is not None and self._seen[0] is listed and self._seen[1] == version:",
        "if self._seen is not None and self._seen[0] is listed:",
        ("tests/plugins/volumes",),
    ),
)


class Copy:
    """A copy of the program with the tests beside it, in which mutants take turns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "policy_sched", folder / "policy_sched", ignore=ignored)
        for name in ("tests", "policies", "schemas", "docs", "pyproject.toml", "README.md"):
            (folder / name).symlink_to(ROOT / name)

    def sees(self, mutant: Mutant) -> bool:
        """Return whether a test fails with the mutant."""
        path = self.folder / "policy_sched" / mutant.file
        text = path.read_text(encoding="utf-8")
        assert text.count(mutant.text) == 1, f"{mutant}: {text.count(mutant.text)} times"
        path.write_text(text.replace(mutant.text, mutant.becomes), encoding="utf-8")
        try:
            return self.fails(mutant.tests)
        finally:
            path.write_text(text, encoding="utf-8")

    def fails(self, tests: Sequence[str]) -> bool:
        """Return whether one of the tests fails."""
        options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=others"]
        command = [sys.executable, "-B", "-m", "pytest", *options, *tests]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "POLICY_SCHED_CACHE": ""}
        ended = subprocess.run(
            command,
            check=False,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            timeout=LIMIT,
        )
        if ended.returncode not in (0, 1):
            raise AssertionError(ended.stdout.decode()[-2000:] + ended.stderr.decode()[-2000:])
        return ended.returncode == 1


def write(line: str) -> None:
    """Print a line at once: a whole run takes some minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def chosen(words: Sequence[str]) -> Iterator[Mutant]:
    """Yield the mutants that have one of the words in their name; all without words."""
    for mutant in MUTANTS:
        if not words or any(word in str(mutant) for word in words):
            yield mutant


def main() -> int:
    """Run the chosen mutants; return 1 if the tests do not see one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    mutants, unseen = list(chosen(arguments.words)), list[Mutant]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(arguments.jobs):
            copies.put(Copy(Path(folder, str(number))))
        if (control := copies.get()).fails(JUDGE):
            write("the tests fail without a mutant")
            return 1
        copies.put(control)

        def run(mutant: Mutant) -> bool:
            copy, began = copies.get(), time.monotonic()
            try:
                seen = copy.sees(mutant)
            finally:
                copies.put(copy)
            took = time.monotonic() - began
            write(f"{'seen' if seen else 'NOT SEEN'} {took:5.0f} s  {mutant}")
            return seen

        seen = pool.map(run, mutants)
        unseen = [mutant for mutant, one in zip(mutants, seen, strict=True) if not one]
    write(f"{len(mutants) - len(unseen)} of {len(mutants)} mutants are seen")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
