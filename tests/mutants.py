"""Mutants of every line that makes a kept result invalid, and the tests that must see them.

``python -m tests.mutants [--jobs N] [--limit SECONDS] [WORD...]`` runs the program with one line
after the other taken out or broken; WORDs choose mutants by file or text. A mutant is seen if the
random histories of `tests.scheduler.histories` differ, or where it names tests of its own, if one
of them fails. One that is not seen, or not within its limit of CPU time, is printed, and the exit
code is 1. Where a line changes nothing that can be observed, delete it.

Theory of operation. The program is imported once, and plays all histories. For each mutant a child
process is forked, which compiles the file with the other text and gives the functions that are
there the code that differs. It plays histories, those that saw most mutants first. To save time it
plays each with the scheduler that keeps results alone, and compares with what was said without a
mutant; only where that differs two schedulers play it, whose difference counts. Tests, too, run
without a mutant first.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import resource
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import pytest

from tests.scheduler.histories import SEEDS, History

ROOT: Final = Path(__file__).parents[1]
LIMIT: Final = 200
"""Seconds of CPU after which a mutant counts as not seen."""


@dataclass(frozen=True)
class Mutant:
    """A text of a file that occurs once there, and what stands in its place."""

    file: str
    text: str
    becomes: str
    tests: tuple[str, ...] = ()
    """What must see it; without them the histories."""

    def __str__(self) -> str:
        """Name it by its file and first line."""
        return f"{self.file}: {self.text.strip().splitlines()[0]}"

    @property
    def path(self) -> Path:
        """Where its file is."""
        return ROOT / "policy_sched" / self.file

    def texts(self) -> tuple[str, str]:
        """Return the text of its file before and after."""
        before = self.path.read_text(encoding="utf-8")
        assert before.count(self.text) == 1, f"{self}: {before.count(self.text)} times"
        return before, before.replace(self.text, self.becomes)


EVALUATE: Final = "framework/evaluate"
COUNTS: Final = "cluster/counts"
SPREAD: Final = "plugins/podtopologyspread"
AFFINITY: Final = "plugins/interpodaffinity"
CLAIMS: Final = "plugins/dynamicresources"
NEIGHBOURS: Final = (
    "tests/plugins/podtopologyspread/test_incremental.py",
    "tests/plugins/interpodaffinity/test_incremental.py",
)

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
        "            return False\n        if not updates.update(entry, pod, rows):",
        "            pass\n        if not updates.update(entry, pod, rows):",
    ),
    Mutant(
        f"{EVALUATE}/evaluator.py",
        "        if not updates.update(entry, pod, rows):\n            return False\n",
        "        updates.update(entry, pod, rows)\n",
    ),
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
    # Updates of changed rows.
    Mutant(f"{EVALUATE}/updates.py", "            entry.own_scores()\n", "            pass\n"),
    Mutant(f"{EVALUATE}/updates.py", "entry.totals.add(scored, gains)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "                        view.raw[row] = score\n", ""),
    Mutant(
        f"{EVALUATE}/updates.py",
        "            if not incremental.holds():\n                return False\n",
        "            pass\n",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "changed = np.union1d(changed, differ) if changed.size else differ\n            nominated",
        "changed = differ\n            nominated",
    ),
    Mutant(f"{EVALUATE}/updates.py", "            nominated = entry.nominated is not None\n", ""),
    Mutant(
        f"{EVALUATE}/updates.py",
        "self._passes.override(entry, pod, None if filters.cluster_scoped else rows)",
        "pass",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "            entry.result.state.write(Feasible(first=entry.first))\n",
        "            pass\n",
    ),
    Mutant(f"{EVALUATE}/updates.py", "entry.totals.close(closed)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "entry.totals.open(opened, scoring.views)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "self._renormalize(entry, view, pod, opened)", "pass"),
    Mutant(f"{EVALUATE}/updates.py", "if not view.whole and view.grouped is None:", "if False:"),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if not plugin.plain and (moved or changed.size or plugin.by_row):",
        "if not plugin.plain and (changed.size or plugin.by_row):",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if not plugin.plain and (moved or changed.size or plugin.by_row):",
        "if not plugin.plain and moved:",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if entry.pre_score and not self._pre_score_unchanged(entry, pod):",
        "if False:",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if bounds is None or not view.same_bounds(entry.first):",
        "if bounds is None:",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if rows.size and (raw.min() < bounds[0] or raw.max() > bounds[1]):",
        "if False:",
    ),
    Mutant(f"{EVALUATE}/updates.py", "            view.find_bounds(feasible.rows)\n", ""),
    Mutant(
        f"{EVALUATE}/updates.py",
        "if overrides and not overrides.keys().isdisjoint(rows):",
        "if False:",
    ),
    Mutant(
        f"{EVALUATE}/updates.py",
        "return nominated is not None and nominated.any_on(rows)",
        "return False",
    ),
    # Entries and views.
    Mutant(
        f"{EVALUATE}/entry.py",
        "first[rows] = by_plugins[rows] = number",
        "first[rows] = number",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "            self.result.filtering.explanations.forget()\n",
        "",
    ),
    Mutant(f"{EVALUATE}/entry.py", "self.result.filtering.explanations.forget(few)", "pass"),
    Mutant(
        f"{EVALUATE}/entry.py",
        "self.result.filtering.explanations.forget([*before, *rejections])",
        "pass",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "        self.pre_filter = self.active.cluster_pre_filter\n",
        "",
    ),
    Mutant(
        f"{EVALUATE}/entry.py",
        "            if self.shares_scores:\n                self.own_scores()\n",
        "",
    ),
    Mutant(f"{EVALUATE}/entry.py", "view.grouped = update.scores", "pass"),
    Mutant(f"{EVALUATE}/entry.py", "                view.own()\n", "                pass\n"),
    Mutant(
        f"{EVALUATE}/views.py", "            self.codes = self.codes.copy()\n", "            pass\n"
    ),
    Mutant(
        f"{EVALUATE}/views.py",
        "if first.item(row) == FEASIBLE and self.raw.item(row) == score:",
        "if self.raw.item(row) == score:",
    ),
    # Totals.
    Mutant(
        f"{EVALUATE}/totals.py",
        "                    sums[row] += gain\n",
        "                    pass\n",
    ),
    Mutant(
        f"{EVALUATE}/totals.py",
        "                if first.item(row) != FEASIBLE:\n                    continue\n",
        "",
    ),
    Mutant(f"{EVALUATE}/totals.py", "gain[self._first != FEASIBLE] = 0", "pass"),
    Mutant(
        f"{EVALUATE}/totals.py",
        "        self.values += gain\n        self._forget()\n",
        "        self.values += gain\n",
    ),
    Mutant(f"{EVALUATE}/totals.py", "self._sums = None  # groups", "pass  # groups"),
    Mutant(f"{EVALUATE}/totals.py", "                del left[bisect_left(left, row)]\n", ""),
    # Static results.
    Mutant(
        f"{EVALUATE}/static_part.py",
        "            self._kept.clear()\n            self._version = version\n",
        "            self._version = version\n",
    ),
    Mutant(
        f"{EVALUATE}/static_part.py",
        "return all(v.same_bounds(first) for v in views if v.plugin.normalizer is not None)",
        "return True",
    ),
    Mutant(f"{EVALUATE}/passes.py", "views = [view.copy() for view in views]", "pass"),
    Mutant(f"{EVALUATE}/sampling.py", "if self._version != version:", "if self._version < 0:"),
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
    Mutant(
        "cluster/tables/journal.py",
        "self.static_version = self.nodes_version = version",
        "self.nodes_version = version",
    ),
    Mutant(
        "cluster/tables/journal.py",
        "self.static_version = self.nodes_version = version",
        "self.static_version = version",
    ),
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
    # Sums by group of rows.
    Mutant(f"{COUNTS}/grouped_sums.py", "amounts[number] = amount", "pass", NEIGHBOURS),
    Mutant(
        f"{COUNTS}/grouped_sums.py",
        "self.values[number] = amount * self.weight + self.more",
        "pass",
        NEIGHBOURS,
    ),
    Mutant(
        f"{COUNTS}/grouped_sums.py", "changed += addend.groups.get(number, ())", "pass", NEIGHBOURS
    ),
    Mutant(
        f"{COUNTS}/grouped_sums.py", "if feasible is not self._feasible:", "if False:", NEIGHBOURS
    ),
    Mutant(
        f"{COUNTS}/grouped_sums.py",
        "self.raw[group] = self._raw(self._keys[group])",
        "pass",
        NEIGHBOURS,
    ),
    Mutant(f"{COUNTS}/grouped_sums.py", "            groups[row] = new\n", "", NEIGHBOURS),
    Mutant(f"{COUNTS}/grouped_sums.py", "                members[old] -= 1\n", "", NEIGHBOURS),
    Mutant(f"{COUNTS}/grouped_sums.py", "                reweighed = True\n", "", NEIGHBOURS),
    Mutant(f"{COUNTS}/grouped_sums.py", "if extremes == self._extremes:", "if True:", NEIGHBOURS),
    # Topology spread and pod affinity.
    Mutant(
        f"{SPREAD}/filtering.py",
        "        if was <= fewest or now < fewest:\n            recount = True\n",
        "",
        NEIGHBOURS,
    ),
    Mutant(
        f"{SPREAD}/filtering.py",
        "turned = np.union1d(turned, others) if turned.size else others",
        "turned = others",
        NEIGHBOURS,
    ),
    Mutant(
        f"{SPREAD}/constraints.py",
        "            self._included.clear()\n        spread",
        "            pass\n        spread",
    ),
    Mutant(
        f"{AFFINITY}/plugin.py",
        "if self._version != self._counts.version:",
        "if False:",
        NEIGHBOURS,
    ),
    Mutant(
        f"{AFFINITY}/plugin.py",
        "return preferred is None or preferred.same_counts()",
        "return True",
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
        "if self._version != self._table.journal.nodes_version or self._kept_rows > KEPT_ROWS:",
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


@dataclass(frozen=True)
class Verdict:
    """Who saw a mutant, empty if nobody did, and the CPU seconds that it took."""

    seen_by: str
    seconds: float


class Program:
    """The imported program, whose functions a child process gives the code of a mutant."""

    def __init__(self) -> None:
        for file in {mutant.file for mutant in MUTANTS}:
            importlib.import_module(f"policy_sched.{file.removesuffix('.py').replace('/', '.')}")
        self._functions: dict[str, list[FunctionType]] = {}
        for value in gc.get_objects():
            if isinstance(value, FunctionType):
                self._functions.setdefault(value.__code__.co_filename, []).append(value)

    def become(self, mutant: Mutant) -> None:
        """Change this process to the mutant. Raises AssertionError if no function differs."""
        before, after = (
            list(_codes(compile(text, str(mutant.path), "exec", dont_inherit=True)))
            for text in mutant.texts()
        )
        assert len(before) == len(after), f"{mutant}: it changes more than bodies of functions"
        replaced = False
        for function in self._functions.get(str(mutant.path), ()):
            number = before.index(function.__code__)
            if before[number] != after[number]:
                function.__code__, replaced = after[number], True
        assert replaced, f"{mutant}: it changes no function"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module and of all functions and classes in it."""
    if code.co_name not in {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}:
        yield code  # those belong to the function, and are dropped with what is never reached
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def difference(history: History) -> str:
    """Play a history; return where it differs and how, empty if it does not."""
    try:
        history.play()
    except Exception as error:  # noqa: BLE001 - a broken program may raise whatever it likes
        return f"{type(error).__name__} at step {history.step}"
    return ""


def judged(seeds: Sequence[int], records: Sequence[Sequence[int]]) -> str:
    """Play histories; return which differs between two schedulers, empty if none does."""
    for seed in seeds:
        if difference(History(seed, records[seed])) and (differs := difference(History(seed))):
            return f"history {seed}: {differs}"
    return ""


def tested(tests: Sequence[str]) -> str:
    """Run tests; return which they are if one of them fails, otherwise nothing."""
    with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise AssertionError(f"pytest ends with {code!r}")
    return " ".join(tests) if code else ""


class Run:
    """Judges mutants in child processes."""

    def __init__(self, program: Program, jobs: int, limit: int) -> None:
        self._program = program
        self._jobs = jobs
        self._limit = limit
        self._seers = Counter[int](dict.fromkeys(range(SEEDS), 0))
        self._records: list[Sequence[int]] = []

    def record(self) -> str:
        """Play all histories without a mutant; return where one differs, empty if none does."""
        for seed in range(SEEDS):
            history = History(seed)
            if differs := difference(history):
                return f"history {seed}: {differs}"
            self._records.append(history.checksums)
        return ""

    def verdicts(
        self, asked: Sequence[tuple[Mutant | None, Sequence[str]]]
    ) -> Iterator[tuple[Mutant | None, Verdict]]:
        """Yield the verdict on each mutant, or None for the program as it is, as they end."""
        waiting, running = deque(asked), dict[int, tuple[Mutant | None, int]]()
        while waiting or running:
            while waiting and len(running) < self._jobs:
                mutant, tests = waiting.popleft()
                pid, read = self._start(mutant, tests)
                running[pid] = mutant, read
            pid, status, usage = os.wait4(-1, 0)
            mutant, read = running.pop(pid)
            with open(read, encoding="utf-8") as pipe:
                said = pipe.read()
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise SystemExit(f"{mutant}: {said}")
            if said.startswith("history "):
                self._seers[int(said.split()[1].rstrip(":"))] += 1
            yield mutant, Verdict(said, usage.ru_utime + usage.ru_stime)

    def _start(self, mutant: Mutant | None, tests: Sequence[str]) -> tuple[int, int]:
        """Return the process that judges a mutant, and where it writes what it saw."""
        read, write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write)
            return pid, read
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (self._limit, self._limit))
            signal.alarm(10 * self._limit)
            if mutant is not None:
                self._program.become(mutant)
            seeds = [seed for seed, _ in self._seers.most_common()]
            said = tested(tests) if tests else judged(seeds, self._records)
            code = 0
        except BaseException as error:  # noqa: BLE001 - the parent raises it again
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, said.encode()[:4096])
            os._exit(code)


def write(line: str) -> None:
    """Print a line at once: a whole run takes some minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def chosen(words: Sequence[str]) -> list[Mutant]:
    """Return the mutants that have one of the words in their name; all without words."""
    return [one for one in MUTANTS if not words or any(word in str(one) for word in words)]


def main() -> int:
    """Run the chosen mutants; return 1 if the tests do not see one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds of CPU for each")
    arguments = parser.parse_args()
    run, mutants = Run(Program(), arguments.jobs, arguments.limit), chosen(arguments.words)
    spent, unseen = 0.0, 0
    tests = {mutant.tests: None for mutant in mutants if mutant.tests}
    failed = run.record() if any(not mutant.tests for mutant in mutants) else ""
    for _, verdict in run.verdicts([(None, names) for names in tests]):
        spent += verdict.seconds
        failed = failed or verdict.seen_by
    if failed:
        write(f"without a mutant: {failed}")
        return 1
    spent += time.process_time()
    write(f"{spent:5.1f} s  without a mutant all is as it must be")
    for mutant, verdict in run.verdicts([(mutant, mutant.tests) for mutant in mutants]):
        said = f"seen      {verdict.seconds:5.1f} s  {mutant}  ({verdict.seen_by})"
        if not verdict.seen_by:
            said = f"NOT SEEN  {verdict.seconds:5.1f} s  {mutant}"
            unseen += 1
        write(said)
        spent += verdict.seconds
    write(f"{len(mutants) - unseen} of {len(mutants)} mutants are seen; {spent:.0f} s of CPU")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
