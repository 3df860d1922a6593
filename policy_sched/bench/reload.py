"""Measures reloads under load: pods are decided while the files of policies change and break.

Theory of operation. A directory of policies decides about pods of which no two are alike. Its n-th
form keeps pods away from the nodes in rack n mod 10, which their names end with, so a decision
shows which form made it; every third form is broken, and none was seen before. Reloads are those of
`policy-sched run`: a new file takes the place of the old one, another process reads and compiles it
while pods are decided, and the result comes into force between two decisions. A phase either lets
pods come at a steady rate, as in a cluster, or decides as fast as it can; then there is no idle
time, and all that a reload costs this process is taken from the decisions.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from policy_sched.bench.in_process import quiet_collector
from policy_sched.bench.result import Latency, Result
from policy_sched.bench.workloads import WORKLOADS, node_json, pod_json
from policy_sched.errors import PolicySchedError
from policy_sched.model import Node, Pod, PodInfo
from policy_sched.profiles.reload import (
    Compilation,
    CompilerProcess,
    PolicyFiles,
    PolicyStore,
    ReloadResult,
)
from policy_sched.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup import Reloader, assemble_with_assembly

NAME: Final = "Reload"
NODES: Final = 5_000
PODS: Final = 20_000
PODS_PER_RELOAD: Final = 20
RATE: Final = 500
"""Pods that come in a second of a paced phase; scheduler_perf asks for 270 to 420."""
POLICIES: Final = 50
"""Policies of the directory whose reload is measured by itself."""
_WORKLOAD: Final = WORKLOADS["SchedulingDistinct"]
_HEAD: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: {name}}}
spec:
  filter:
"""


class ReloadPhase(msgspec.Struct, frozen=True):
    """One run over all pods.

    Latencies are from a pod's coming to its binding where it came by itself, else of its decision;
    ``reload`` ones are how long reloads held the decisions up. ``reloads`` counts them by result.
    """

    decisions_per_second: float
    p50_us: float
    p99_us: float
    reloads: dict[str, int]
    reload_p50_us: float
    reload_p99_us: float


class Reloads(Result, frozen=True):
    """All phases, in pairs without and with reloads, and the directory measured by itself."""

    nodes: int
    pods: int
    directory_ms: float
    phases: dict[str, ReloadPhase]

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes} nodes, {self.pods} pods in each phase, no two alike; "
            "no pod lost, none decided by two sets of policies"
        )
        for name, phase in self.phases.items():
            rate = f"{phase.decisions_per_second:>7,.0f} decisions/s"
            yield f"  {name:<17}{rate}   {_milliseconds(phase.p50_us, phase.p99_us)}"
            if phase.reloads:
                count = sum(phase.reloads.values())
                results = ", ".join(
                    f"{number} {name}" for name, number in sorted(phase.reloads.items())
                )
                held = _milliseconds(phase.reload_p50_us, phase.reload_p99_us)
                yield f"    {count} reloads ({results}) held it up for {held}"
        took = f"{self.directory_ms:.0f} ms"
        yield f"  a directory of {POLICIES} policies, all changed, is in force after {took}"


def _milliseconds(p50_us: float, p99_us: float) -> str:
    return f"p50 {p50_us / 1e3:.2f} ms  p99 {p99_us / 1e3:.2f} ms"


class _Load:
    """A scheduler with nodes and the directory of policies that it follows."""

    def __init__(self, folder: Path, nodes: int) -> None:
        policies = folder / "policies"
        policies.mkdir()
        self.files = PolicyFiles(None, (str(policies),))
        self.file = policies / "keep.yaml"
        self._beside = folder
        self.form = 0
        _write(self.file, _form(0))
        store = PolicyStore(self.files, time.time_ns)
        self.scheduler, assembly = assemble_with_assembly(store.current.plans)
        self.reloader = Reloader(self.scheduler, assembly, store)
        self.forms = {1: 0}
        _add_nodes(self.scheduler, nodes)
        self.bound: list[PodInfo] = []

    def write(self, forms: int) -> None:
        """Write the next forms, of which every third is broken, beside the file."""
        for form in range(self.form + 1, self.form + 1 + forms):
            text = _form(form, broken=form % 3 == 0)
            (self._beside / str(form)).write_text(text, encoding="utf-8")

    def edit(self) -> None:
        """Put the next form in the file's place, as an editor does at the end."""
        self.form += 1
        os.replace(self._beside / str(self.form), self.file)

    def commit(self, compilation: Compilation) -> ReloadResult:
        """Put what was read in force; a broken form must be refused, others must not."""
        reload = self.reloader.commit(compilation)
        if (reload.result is ReloadResult.REFUSED) != (self.form % 3 == 0):
            raise PolicySchedError(f"form {self.form} of the policies was {reload.result}")
        self.forms.setdefault(reload.policies.generation, self.form)
        return reload.result

    def check(self, outcome: Outcome) -> None:
        """A pod was decided by one form: the one in force, which its node shows."""
        generation = self.reloader.store.status.generation
        if not outcome.node or outcome.generation != generation:
            text = f"{outcome.pod.key}: {outcome.node!r} by generation {outcome.generation}"
            raise PolicySchedError(f"{text}, in force is {generation}; {outcome.message}")
        if outcome.node.endswith(_digit(self.forms[generation])):
            raise PolicySchedError(f"{outcome.pod.key} was decided by another form: {outcome.node}")
        self.bound.append(outcome.pod)

    def clear(self, pods: int) -> None:
        """Every pod must be bound once; make room for the next phase."""
        if len({pod.uid for pod in self.bound}) != pods or len(self.scheduler.queue):
            raise PolicySchedError(f"{pods} pods came, {len(self.bound)} were bound")
        for pod in self.bound:
            self.scheduler.cache.remove_pod(pod)
        self.bound.clear()


def run_reloads(nodes: int = NODES, pods: int = PODS, rate: int = RATE) -> Reloads:
    """Run all phases. Raises PolicySchedError if a pod is lost, or the wrong policies decide."""
    with TemporaryDirectory() as folder, quiet_collector():
        load = _Load(Path(folder), nodes)
        phases = {}
        with CompilerProcess(load.files) as compiler:
            for number, (name, paced, reloading) in enumerate(_PHASES):
                infos = list(_pods(number * pods, pods))
                every = PODS_PER_RELOAD if reloading else 0
                load.write(-(-pods // every) if every else 0)
                run = _Reloading(load, compiler, every)
                phases[name] = run.paced(infos, rate) if paced else run.saturated(infos)
                load.clear(pods)
    return Reloads(NAME, nodes, pods, round(reload_directory(nodes), 1), phases)


_PHASES: Final = (
    ("steady", True, False),
    ("steady, reloads", True, True),
    ("at once", False, False),
    ("at once, reloads", False, True),
)


def _pods(first: int, count: int) -> Iterator[PodInfo]:
    decode = msgspec.json.Decoder(Pod).decode
    for i in range(count):
        yield PodInfo.of(decode(pod_json(_WORKLOAD, first + i)))


class _Reloading:
    """One phase in progress; a reload is requested with each ``every``-th pod, if not 0."""

    def __init__(self, load: _Load, compiler: CompilerProcess, every: int) -> None:
        self._load = load
        self._compiler = compiler
        self._every = every
        self._reading = False
        self._editing = 0
        self._results: Counter[str] = Counter()
        self._held_up: list[int] = []

    def paced(self, pods: list[PodInfo], rate: int) -> ReloadPhase:
        """Let the pods come at a steady rate."""
        scheduler, load = self._load.scheduler, self._load
        clock = time.perf_counter_ns
        latencies: list[int] = []
        gap = 1_000_000_000 // rate
        started = clock()
        came = 0
        while len(latencies) < len(pods):
            now = clock()
            while came < len(pods) and started + came * gap <= now:
                if self._every and came % self._every == 0:
                    self._finish(wait=True)
                    self._begin()
                scheduler.add_pod(pods[came])
                came += 1
            self._finish(wait=False)
            outcome = scheduler.schedule_one()
            if outcome is None:
                time.sleep(max(0, started + came * gap - clock()) / 1e9)
                continue
            load.check(outcome)
            # Pods come one by one and leave in their order.
            latencies.append(clock() - started - len(latencies) * gap)
        return self._phase(len(pods), clock() - started, latencies)

    def saturated(self, pods: list[PodInfo]) -> ReloadPhase:
        """Decide all pods as fast as possible; a reload is waited for when the next one is due."""
        scheduler, load = self._load.scheduler, self._load
        clock = time.perf_counter_ns
        latencies: list[int] = []
        started = clock()
        for pod in pods:
            scheduler.add_pod(pod)
        while len(latencies) < len(pods):
            if self._every and len(latencies) % self._every == 0:
                self._finish(wait=True)
                self._begin()
            self._finish(wait=False)
            before = clock()
            outcome = scheduler.schedule_one()
            latencies.append(clock() - before)
            assert outcome is not None, "a pod is lost"
            load.check(outcome)
        # Renaming a file is the editor's time.
        return self._phase(len(pods), clock() - started - self._editing, latencies)

    def _begin(self) -> None:
        before = time.perf_counter_ns()
        self._load.edit()
        self._editing += time.perf_counter_ns() - before
        self._compiler.begin(self._load.files)
        self._reading = True

    def _finish(self, *, wait: bool) -> None:
        """Put in force what was read; without `wait` only if it has been read."""
        if not self._reading or not (wait or self._compiler.done()):
            return
        before = time.perf_counter_ns()
        compilation = self._compiler.result()
        self._reading = False
        self._results[self._load.commit(compilation)] += 1
        self._held_up.append(time.perf_counter_ns() - before)

    def _phase(self, pods: int, took: int, latencies: list[int]) -> ReloadPhase:
        self._finish(wait=True)
        rate, decided, held_up = pods / took * 1e9, Latency.of(latencies), Latency.of(self._held_up)
        return ReloadPhase(
            round(rate, 1),
            decided.p50_us,
            decided.p99_us,
            dict(self._results),
            held_up.p50_us,
            held_up.p99_us,
        )


def reload_directory(nodes: int) -> float:
    """Return how many ms it takes until a directory of 50 policies, all changed, is in force.

    The fastest of three times: what else runs on the machine only adds.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        _directory(folder, "first")
        files = PolicyFiles(None, (str(folder),))
        store = PolicyStore(files, time.time_ns)
        scheduler, assembly = assemble_with_assembly(store.current.plans)
        _add_nodes(scheduler, nodes)
        reloader = Reloader(scheduler, assembly, store)
        with CompilerProcess(files) as compiler:
            store.compiler = compiler.compile
            return min(_timed(reloader, folder, str(number)) for number in range(3))


def _timed(reloader: Reloader, folder: Path, label: str) -> float:
    _directory(folder, label)
    before = time.perf_counter()
    reload = reloader.reload()
    took = time.perf_counter() - before
    assert len(reload.changes.policies) == POLICIES
    return took * 1e3


def _add_nodes(scheduler: Scheduler, nodes: int) -> None:
    decode = msgspec.json.Decoder(Node).decode
    for i in range(nodes):
        node = decode(node_json(_WORKLOAD, i))
        node.metadata.labels["rack"] = node.metadata.name[-1]
        scheduler.cache.add_node(node)


def _directory(folder: Path, label: str) -> None:
    for i in range(POLICIES):
        rule = f"""\
  - expression: node.labels[?"{label}-{i}"].orValue("") == pod.labels[?"team"].orValue("")
    message: kept for team {i}
  - expression: node.podCount < {100 + i} || pod.priority > 0
    message: too many pods
  score: {{expression: 'percent(node.requested["cpu"], node.allocatable["cpu"])'}}
"""
        _write(folder / f"policy-{i}.yaml", _HEAD.format(name=f"Team{i}") + rule)


def _form(number: int, *, broken: bool = False) -> str:
    field_ = "label" if broken else "labels"
    rule = f'node.{field_}[?"rack"] != optional.of("{_digit(number)}")'
    message = f"kept away by form {number}"
    return _HEAD.format(name="Keep") + f"  - {{expression: '{rule}', message: {message}}}\n"


def _digit(form: int) -> str:
    return str(form % 10)


def _write(file: Path, text: str) -> None:
    """Write a file as editors do."""
    other = file.with_name(f".{file.name}")
    other.write_text(text, encoding="utf-8")
    os.replace(other, file)
