"""Sequences of operations on the scheduling queue: their file form, and what runs them.

A sequence is one line of a ``.jsonl`` file (or one ``.json`` file, each with or without ``.gz``):
a name and operations, each with the time in milliseconds and the whole state of the queue after
it. Priority comes first in the queue, then time; the timing is kube-scheduler's default. The
plugins that the operations name are these: OnNodeAdd waits for a node, Broken has a hint that
fails, OnMatchingPodDelete waits for a bound pod to go whose label ``key`` is the pod's own,
OnOwnLabel for a change of the pod's labels, SchedulingGates for its gates to open, and NoEvents
for nothing.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Set as AbstractSet
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from policy_sched import model
from policy_sched.errors import Diagnostic, PluginError, PolicyError
from policy_sched.policytest.comparison import Deviation
from policy_sched.policytest.report import StepResult
from policy_sched.queue import HintTable, SchedulingQueue
from policy_sched.source import SourceFile, json_problem, read_bytes

MILLISECOND: Final = 1_000_000
SUFFIXES: Final = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
GATES: Final = "SchedulingGates"
BAD_SEQUENCE: Final = "PS703"


class PodForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pod, as far as the queue of these sequences looks at it."""

    name: str
    priority: int = 0
    labels: dict[str, str] = {}
    gated: bool = False

    def info(self) -> model.PodInfo:
        """Return the pod."""
        gates = [{"name": "gate"}] if self.gated else []
        form = {
            "metadata": {"name": self.name, "uid": self.name, "labels": self.labels},
            "spec": {"priority": self.priority, "schedulingGates": gates},
        }
        return model.PodInfo.of(msgspec.convert(form, model.Pod))


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The queue after an operation: names of pods, the active ones in popping order.

    ``backoff``: by pod, the end of its backoff in milliseconds. ``popped``: the popped pod.
    """

    active: list[str] = []
    backoff: dict[str, int] = {}
    unschedulable: list[str] = []
    gated: list[str] = []
    in_flight: list[str] = []
    popped: str | None = None


Op: TypeAlias = Literal[
    "add", "update", "pop", "fail", "error", "bound", "delete", "activate", "event", "flush"
]


class SequenceOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One operation; which of the arguments it has depends on ``op``."""

    op: Op
    millis: int
    after: State
    pod: PodForm | None = None
    name: str = ""
    plugins: list[str] = []
    pending: list[str] = []
    event: Literal["", "NodeAdd", "AssignedPodDelete"] = ""
    key: str = ""


class Sequence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Operations on a queue that is empty at first."""

    name: str
    ops: list[SequenceOperation]


def load_sequences(path: str) -> list[tuple[int, Sequence]] | None:
    """Return the sequences of a file with their lines; None if the file is of another kind.

    Raises PolicyError with every line that is wrong, and OSError if the file cannot be read.
    """
    return decoded_lines(path, {"ops"}, Sequence, but="pending")


T = TypeVar("T")


def decoded_lines(
    path: str, keys: AbstractSet[str], form: type[T], *, but: str = ""
) -> list[tuple[int, T]] | None:
    """Return the lines of a file in a form, with their numbers; None if it is of another kind.

    ``keys``: those that every line has; ``but``: one that it has not. Raises as `load_sequences`.
    """
    lines = [line for line in _lines(path) if line[1].strip()]
    if not lines or not _has(lines[0][1], keys, but):
        return None
    decoded, problems = [], []
    for line_number, line in lines:
        try:
            decoded.append((line_number, msgspec.json.decode(line, type=form)))
        except msgspec.ValidationError as error:
            problems.append(Diagnostic(path, line_number, 1, BAD_SEQUENCE, str(error)))
        except (msgspec.DecodeError, RecursionError) as error:
            file = SourceFile(path, line.decode(errors="replace"), line_number)
            problems.append(json_problem(file, error, BAD_SEQUENCE))
    if problems:
        raise PolicyError(problems)
    return decoded


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    if not path.endswith(SUFFIXES):
        return
    try:
        content = read_bytes(path)
    except (OSError, EOFError, zlib.error):
        return  # `load_scenarios` reports what is wrong with it
    if path.removesuffix(".gz").endswith(".json"):
        yield 1, content
    else:
        yield from enumerate(content.split(b"\n"), start=1)


def _has(line: bytes, keys: AbstractSet[str], but: str) -> bool:
    try:
        raws = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return False
    return keys <= raws.keys() and but not in raws


def run_sequence(file: str, sequence: Sequence) -> list[StepResult]:
    """Run a sequence on a queue of its own; return one result per operation."""
    run = _Run()
    results = []
    for step_number, operation in enumerate(sequence.ops, start=1):
        started = time.perf_counter()
        state = run.step(operation)
        differences = tuple(_differences(operation.after, state))
        seconds = time.perf_counter() - started
        step = f"{step_number}: {operation.op}"
        results.append(StepResult(file, sequence.name, step, differences, seconds=seconds))
    return results


def _differences(expected: State, state: State) -> Iterator[Deviation]:
    fields = msgspec.structs.asdict(expected)
    for name, value in fields.items():
        got = getattr(state, name)
        if value != got:
            yield Deviation(name, _shown(value), _shown(got))


def _shown(value: object) -> list[str] | str:
    if isinstance(value, dict):
        return [f"{pod} {end} ms" for pod, end in sorted(value.items())]
    return [str(item) for item in value] if isinstance(value, list) else str(value)


class _Run:
    """A queue, its clock and the plugins' hints."""

    def __init__(self) -> None:
        self._now = 0
        self._queue = SchedulingQueue(
            _sort_key,
            lambda: self._now,
            gate=lambda pod, _: GATES if pod.scheduling_gates else "",
            hints=HintTable({model.DEFAULT_SCHEDULER: _HINTS}),
        )

    def step(self, operation: SequenceOperation) -> State:
        """Apply the operation and return the state after it."""
        self._now = operation.millis * MILLISECOND
        popped = self._do(operation)
        queue = self._queue
        return State(
            active=[queued.info.name for queued in queue.active()],
            backoff={q.info.name: q.backoff_until // MILLISECOND for q in queue.backoff()},
            unschedulable=sorted(queued.info.name for queued in queue.unschedulable()),
            gated=sorted(queued.info.name for queued in queue.gated()),
            in_flight=sorted(queued.info.name for queued in queue.in_flight()),
            popped=popped.info.name if popped is not None else None,
        )

    def _do(self, operation: SequenceOperation) -> model.QueuedPod | None:
        queue = self._queue
        match operation.op:
            case "add":
                queue.add((operation.pod or PodForm(operation.name)).info())
            case "update":
                queue.update((operation.pod or PodForm(operation.name)).info())
            case "pop":
                return queue.pop()
            case "fail" | "error":
                queued = queue.get(operation.name)
                if queued is not None:
                    rejected_by, pending = operation.plugins, operation.pending
                    queue.add_unschedulable_if_not_present(
                        queued, frozenset(rejected_by), frozenset(pending)
                    )
            case "bound":
                queue.done(operation.name)
            case "delete":
                queue.delete(operation.name)
            case "activate":
                queue.activate([operation.name])
            case "event":
                self._event(operation)
            case "flush":
                queue.flush_backoff()
                queue.flush_unschedulable()
        return None

    def _event(self, operation: SequenceOperation) -> None:
        if operation.event == "NodeAdd":
            self._queue.move_all_to_active_or_backoff(model.NODE_ADD, None, object())
        else:
            gone = PodForm("gone", labels={"key": operation.key}).info()
            self._queue.move_all_to_active_or_backoff(model.ASSIGNED_POD_DELETE, gone, None)


def _sort_key(queued: model.QueuedPod) -> tuple[int, int]:
    return (-queued.info.priority, queued.enqueued_at)


def _broken(_pod: model.PodInfo, _old: object, _new: object) -> model.QueueingHint:
    raise PluginError("this hint always fails")


def _matching_pod(pod: model.PodInfo, old: object, _new: object) -> model.QueueingHint:
    same = isinstance(old, model.PodInfo) and old.labels.get("key") == pod.labels.get("key")
    return model.QueueingHint.QUEUE if same else model.QueueingHint.SKIP


def _own(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
    own = isinstance(new, model.PodInfo) and new.uid == pod.uid
    return model.QueueingHint.QUEUE if own else model.QueueingHint.SKIP


_POD: Final = model.EventResource.POD
_OPENED: Final = model.ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
_HINTS: Final = {
    "OnNodeAdd": (model.ClusterEventWithHint(model.NODE_ADD),),
    "Broken": (model.ClusterEventWithHint(model.NODE_ADD, _broken),),
    "OnMatchingPodDelete": (
        model.ClusterEventWithHint(
            model.ClusterEvent(_POD, model.ActionType.DELETE), _matching_pod
        ),
    ),
    "OnOwnLabel": (
        model.ClusterEventWithHint(
            model.ClusterEvent(_POD, model.ActionType.UPDATE_POD_LABEL), _own
        ),
    ),
    GATES: (model.ClusterEventWithHint(model.ClusterEvent(_POD, _OPENED), _own),),
    "NoEvents": (),
}
