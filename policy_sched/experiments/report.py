"""What a sweep found, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policy_sched.experiments.results import (
    Results,
    by_variant,
    comparisons,
    values_of,
)
from policy_sched.experiments.statistics import ENOUGH, distribution, seeds_to_tell
from policy_sched.experiments.sweep import AsRun, Task
from policy_sched.experiments.words import named, number_text, signed, told, verdict_text
from policy_sched.model import counted
from policy_sched.profiles.models import ExperimentSpec
from policy_sched.report import Document, table


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The results of an experiment, and the runs that have none.

    ``folder``: where the tables are. ``found``: how many results were there already. ``as_run`` is
    None if it is not known.
    """

    name: str
    spec: ExperimentSpec
    results: Results
    failures: Sequence[tuple[Task, str]]
    folder: str
    found: int = 0
    as_run: AsRun | None = None

    def text_lines(self) -> Iterator[str]:
        """Yield the report as text."""
        variants = by_variant(self.results)
        runs = counted(len(self.results), "run")
        yield f"{self.name}: {runs} of {counted(len(variants), 'variant')}"
        if self.results:
            yield ""
            yield from self._means()
            yield from self._comparisons()
        if self.failures:
            yield ""
            yield f"{counted(len(self.failures), 'run')} without a result:"
            yield from (f"  {task.variant}, seed {task.seed}: {why}" for task, why in self.failures)
        yield ""
        yield f"tables are in {self.folder}"

    def _means(self) -> Iterator[str]:
        rows = [["VARIANT", "MEASURE", "RUNS", "MEAN", "MEDIAN", "25 %", "75 %"]]
        for variant, runs in by_variant(self.results).items():
            for measure in self.spec.measures:
                values = values_of(runs, measure.name)
                if values:
                    one = distribution(values)
                    shown = (one.mean, one.median, one.p25, one.p75)
                    rows.append([variant, named(measure), str(one.count), *map(number_text, shown)])
        yield from table(rows, range(2, 7))

    def _comparisons(self) -> Iterator[str]:
        rows = [["VARIANT", "MEASURE", "DIFFERENCE", "95 % INTERVAL", ""]]
        compared = list(comparisons(self.spec, self.results))
        for _, variant, name, pairs, found in compared:
            measure = next(one for one in self.spec.measures if one.name == name)
            interval = found.difference
            rows.append(
                [
                    variant,
                    named(measure),
                    signed(interval.mean),
                    f"{signed(interval.low)} .. {signed(interval.high)}",
                    verdict_text(found, measure, pairs),
                ]
            )
        if compared:
            first = compared[0][0]
            yield ""
            yield f"Differences from {first}, over equal seeds:"
            yield from table(rows, range(2, 4))
            yield ""
            yield told(first, [(pairs, found) for *_, pairs, found in compared])

    def document(self) -> Document:
        """Return the report as plain data."""
        compared = list(comparisons(self.spec, self.results))
        return {
            "name": self.name,
            "runs": len(self.results),
            "summary": [
                {"variant": variant, "measure": measure.name, **_distribution(values)}
                for variant, runs in by_variant(self.results).items()
                for measure in self.spec.measures
                if (values := values_of(runs, measure.name))
            ],
            "comparison": [
                {
                    "baseline": first,
                    "variant": variant,
                    "measure": measure,
                    "pairs": pairs,
                    "difference": found.difference.mean,
                    "low": found.difference.low,
                    "high": found.difference.high,
                    "verdict": str(found.verdict),
                }
                for first, variant, measure, pairs, found in compared
            ],
            "seedsToTell": {"one": ENOUGH, "all": seeds_to_tell(max(1, len(compared)))},
            "failures": [
                {"variant": task.variant, "seed": task.seed, "message": why}
                for task, why in self.failures
            ],
        }


def _distribution(values: Sequence[float]) -> dict[str, float]:
    one = distribution(values)
    return {
        "runs": one.count,
        "mean": one.mean,
        "median": one.median,
        "p25": one.p25,
        "p75": one.p75,
    }
