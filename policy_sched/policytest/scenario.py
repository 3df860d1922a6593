"""Scenarios: a cluster, the pods to place in it, and what is expected of each of them.

Two forms of one thing. A machine writes JSON lines (``.json``, ``.jsonl``, each with or without
``.gz``): every line is a complete record, and what it leaves out did not happen. A person writes
YAML documents (``kind: PolicyTest``) with short forms, and only what is stated is compared.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from policy_sched import source
from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.manifests import ApiObject
from policy_sched.model import SECOND, Kind, Node, Pod, nanoseconds
from policy_sched.policytest.expectations import (
    EVICTION,
    ExpectedOutcome,
    PlanMention,
    mentions,
    no_such,
    read_outcome,
)
from policy_sched.policytest.objects import ObjectPlace, TestObjects, pod_name, read_objects
from policy_sched.policytest.reader import (
    MAX_SUGGESTIONS,
    MISSING_KEY,
    WRONG_TYPE,
    WRONG_VALUE,
    FieldPath,
    Plain,
    Problems,
    References,
)
from policy_sched.profiles import models
from policy_sched.profiles.load import (
    CONFIGURATION,
    LoadedPolicy,
    input_kinds,
    load_policies,
    policies_of_test,
    problems_of_config,
    read_test,
)
from policy_sched.scheduler.setup import EPOCH

KIND: Final = "PolicyTest"
SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")
MAX_YAML: Final = source.MAX_POLICY_BYTES
"""Bytes of a YAML file of scenarios, which is read with all its places; `check` reads no more."""
MAX_POLICIES: Final = 100
"""Policies, and directories of them, that a test names."""
MAX_WORK: Final = 1_000_000
"""Steps times nodes of a test; each takes some 10 µs and 400 bytes."""
TOO_LONG: Final = "PS501"
TOO_LARGE: Final = "split it, or write one scenario a line, as JSON in a .jsonl file"
BAD_API_VERSION: Final = "PS706"
RECORDED_GATES: Final[Mapping[str, Mapping[str, bool]]] = {
    "gang": {"GenericWorkload": True, "GangScheduling": True},
    "gang_topology": {
        "GenericWorkload": True,
        "GangScheduling": True,
        "TopologyAwareWorkloadScheduling": True,
    },
}
"""The feature gates of recorded families that do not name them, by the family's name."""


@dataclass(frozen=True, slots=True)
class ScenarioEvent:
    """One event of a scenario: the pod (namespace/name) is decided, or it is gone.

    Without a pod the order of the queue is looked at; `EVICTION` looks at the running pods.
    """

    pod: str
    delete: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One scenario, decoded.

    ``config`` is the KubeSchedulerConfiguration itself, or the path of a file, or None for the
    default profile. ``complete`` is set where a machine recorded everything that happened.
    ``ops`` is what happens, in this order; ``expect`` is by the name of the decision, see
    `decision_name`. ``now`` is in nanoseconds since 1970.
    """

    name: str
    file: str
    config: Mapping[str, object] | str | None
    policies: tuple[str, ...]
    objects: tuple[ApiObject, ...]
    pending: tuple[Pod, ...]
    ops: tuple[ScenarioEvent, ...]
    expect: Mapping[str, ExpectedOutcome]
    complete: bool
    now: int = EPOCH
    bind: bool = False
    """Whether what is reserved is written, too; then all plugins decide, and none is left out."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """The feature gates that it names, or that its recorded family has."""
    whole: bool = True
    """Whether no plugin was disabled where its decisions were recorded."""
    several: bool = False
    """Whether the scenario states what happens, so that a pod may be decided twice."""
    unknown: tuple[Diagnostic, ...] = ()
    """Nodes and pods that expectations name and that are not there."""
    mentions: tuple[PlanMention, ...] = ()
    """The plugins and rules that expectations name."""
    untested: tuple[Diagnostic, ...] = ()
    """Expectations that state nothing, and so test nothing; `update_file` completes them."""
    answers: Mapping[str, tuple[Diagnostic, Any]] = field(default_factory=dict)
    """What inputs with a url are answered, by the input's name, with its place; "" for all."""
    places: Mapping[ObjectPlace, Diagnostic] = field(default_factory=dict)
    """Where the objects stand that inputs may read, without words; none of a record's."""
    plugin: str = ""
    """The plugin that decided a record; its scores before normalisation can be stated."""
    place_of_config: Callable[[FieldPath], Diagnostic] | None = field(default=None, compare=False)
    """Finds where a path of a configuration stands that is part of a document."""

    def placed(self, problem: Diagnostic) -> Diagnostic:
        """Return a problem of the configuration with its place in the scenario's file."""
        if problem.file != CONFIGURATION or self.place_of_config is None:
            return problem
        steps = _STEP.findall(problem.message.partition(": ")[0])
        blank = self.place_of_config(tuple(int(at) if at else key for key, at in steps))
        told = {key: getattr(problem, key) for key in ("code", "message", "hint", "severity")}
        return replace(blank, **told)


_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def decision_name(pod: str, number: int) -> str:
    """Return the name of a pod's decision: that of the pod (namespace/name) for its first.

    Without a pod it is that of an order of the queue.
    """
    if not pod:
        return "queue" if number == 1 else f"queue (order {number})"
    return pod if number == 1 else f"{pod} (decision {number})"


def load_scenarios(path: str, roots: Sequence[str] = ()) -> list[Scenario]:
    """Return the scenarios of one file, in file order; they may name files below ``roots``.

    Raises PolicyError with every problem of the file, and OSError where it cannot be read.
    """
    name = path.removesuffix(".gz")
    if not name.endswith(SUFFIXES):
        hint = f"known endings: {', '.join(SUFFIXES)}, each with or without .gz"
        raise PolicyError([Diagnostic(path, 1, 1, WRONG_VALUE, "not a scenario file", hint)])
    machine = name.endswith((".json", ".jsonl"))
    try:
        data = source.read_bytes(path, source.MAX_BYTES if machine else MAX_YAML, TOO_LARGE)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        message = f"the file cannot be unpacked: {error}"
        raise PolicyError([Diagnostic(path, 1, 1, source.UNREADABLE, message)]) from None
    text = source.decode_text(path, data)
    if isinstance(text, Diagnostic):
        raise PolicyError([text])
    return scenarios_of(path, text, roots)


def scenarios_of(path: str, text: str, roots: Sequence[str] = ()) -> list[Scenario]:
    """Return the scenarios of a text as `load_scenarios` does, as if it were a file of that path.

    Raises PolicyError with every problem of the text.
    """
    machine = path.removesuffix(".gz").endswith((".json", ".jsonl"))
    references = References(path, roots)
    scenarios_read = (
        _json_scenarios(references, text) if machine else _yaml_scenarios(references, text)
    )
    scenarios: list[Scenario] = []
    problems: list[Diagnostic] = []
    for scenario, wrong in scenarios_read:
        problems.extend(wrong)
        if scenario is not None:
            scenarios.append(scenario)
    if not scenarios and not problems:
        problems.append(Diagnostic(path, 1, 1, MISSING_KEY, "there is no test in this file"))
    if problems:
        raise PolicyError(problems)
    return scenarios


Found = tuple[Scenario | None, Sequence[Diagnostic]]


def _yaml_scenarios(references: References, text: str) -> Iterator[Found]:
    file = source.SourceFile(references.file, text)
    documents, unreadable = source.parse_documents(file, None)
    yield None, unreadable
    for document in documents:
        if document.value is None:
            continue
        places = _Places(file, document)
        problems = Problems(places.blank)
        scenario = _scenario(problems, references, document.value, complete=False)
        yield scenario, [*problems.noted, *_errors(problems_of_config(document))]


def _errors(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [problem for problem in problems if problem.severity is Severity.ERROR]


def _json_scenarios(references: References, text: str) -> Iterator[Found]:
    """Yield each line's scenario; a text that is one JSON document over several lines is one."""
    path = references.file
    lines = [(1, text)] if path.removesuffix(".gz").endswith(".json") else _lines(text)
    for line_number, line in lines:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            file = source.SourceFile(path, line, line_number)
            yield None, [source.json_problem(file, error, WRONG_TYPE)]
            continue
        places = _Places(source.SourceFile(path, line, line_number), None)
        problems = Problems(places.blank)
        yield _scenario(problems, references, value, complete=True), problems.noted


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for line_number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield line_number, line


class _Places:
    """Finds where a path stands; a JSON line is parsed for its marks only when needed."""

    def __init__(self, file: source.SourceFile, document: source.Marked | None) -> None:
        self._file = file
        self._document = document

    def blank(self, path: FieldPath, key: bool) -> Diagnostic:
        """Return a diagnostic without words at ``path``, or at the nearest thing around it."""
        if self._document is None:
            short = len(self._file.text) <= source.MAX_POLICY_BYTES
            documents = source.parse_documents(self._file, None)[0] if short else ()
            if not documents:  # too long, or JSON that YAML cannot read: the line must do
                return source.diagnostic(self._file, 0, "", "")
            self._document = documents[0]
        there: FieldPath = ()
        for step in path:  # a form that is short has less in between
            deeper = (*there, step)
            there = there if self._document.node(deeper) is None else deeper
        span = self._document.key_span(there) if key else self._document.span(there)
        return source.diagnostic(self._file, span, "", "")


def _scenario(
    problems: Problems, references: References, value: object, *, complete: bool
) -> Scenario | None:
    written = _written(problems, value)
    if written is None:
        return None
    policies = policies_of_test(written)
    if len(policies) > MAX_POLICIES:
        text = f"policies: Too many: {len(policies)}: must have at most {MAX_POLICIES} items"
        problems.add(("policies",), TOO_LONG, text, key=True)
        return None
    for i, policy in enumerate(policies):
        _check_reference(problems, references, policy, ("policies", i))
    loaded, _ = load_policies([references.path(p) for p in policies if references.fault(p) is None])
    inputs = _inputs(loaded)
    test, wrong = read_test(written, inputs)
    for problem in wrong:
        problems.add(
            problem.path, problem.code, problem.message, hint=problem.hint, key=problem.on_key
        )
    if test is None:
        return None
    stated = read_objects(
        problems, test, written, admitted=complete, inputs=inputs, structs=input_kinds(loaded)
    )
    ops = _operations(problems, test, stated)
    nodes = sum(isinstance(obj, Node) for obj in stated.objects)
    if nodes * len(ops) > MAX_WORK:
        text = f"{len(ops)} steps on {nodes} nodes; the limit is {MAX_WORK} of both multiplied"
        problems.add(("objects",), TOO_LONG, text, hint="divide the test", key=True)
        return None
    unknown, mentioned = ((), ()) if complete else _names(problems, written, stated)
    if test.plugin is not None and (test.policies or not complete):
        mentioned = (
            PlanMention("plugin", test.plugin, problems.blank(("plugin",), False)),
            *mentioned,
        )
    return Scenario(
        name=_name(problems, test),
        file=references.file,
        config=_config(problems, test.config, references),
        policies=tuple(map(references.path, test.policies)),
        objects=stated.objects,
        pending=stated.pending,
        ops=ops,
        expect=_expectations(problems, test, stated, ops),
        complete=complete,
        now=_now(test, stated, complete=complete),
        bind=test.bind,
        gates=_gates(problems, test),
        whole=not complete or "gates" in test.model_fields_set or test.bind,
        several="ops" in test.model_fields_set,
        unknown=unknown,
        mentions=mentioned,
        untested=tuple(_untested(problems, written, complete=complete)),
        answers=dict(_answers(problems, test)),
        places=_places(problems, stated, inputs, complete=complete),
        plugin=_plugin(problems, test),
        place_of_config=lambda path: problems.blank(("config", *path), False),
    )


def _inputs(policies: Iterable[LoadedPolicy]) -> dict[str, Kind]:
    """Return the kinds that inputs of policies read, by the input's name."""
    return {
        given.name: (given.api_version, given.kind)
        for policy in policies
        for given in policy.model.spec.inputs
        if given.kind
    }


def _answers(
    problems: Problems, test: models.PolicyTest
) -> Iterator[tuple[str, tuple[Diagnostic, Any]]]:
    """Yield what inputs with a url are answered; in records the load watcher answers all."""
    if test.metrics:
        yield "", (problems.blank(("metrics",), True), test.metrics)
    for name, answer in test.inputs.items():
        yield name, (problems.blank(("inputs", name), False), answer)


def _places(
    problems: Problems, stated: TestObjects, inputs: Mapping[str, Kind], *, complete: bool
) -> dict[ObjectPlace, Diagnostic]:
    """Return where the objects stand that inputs read; none of a record's."""
    kinds = {kind for _, kind in inputs.values()}
    return {
        place: problems.blank(at, False)
        for place, at in stated.places.items()
        if not complete and place[0] in kinds
    }


def _plugin(problems: Problems, test: models.PolicyTest) -> str:
    """Return the plugin that a document names; scores before normalisation need one."""
    for i, entry in enumerate(test.expect):
        if test.plugin is None and entry.raw is not None:
            hint = "plugin: NAME, beside expect, says whose scores these are"
            text = '"plugin" is missing'
            problems.add(("expect", i, "raw"), MISSING_KEY, text, hint=hint)
    return test.plugin or ""


def _entries(written: Plain) -> Sequence[object]:
    """Return the entries of ``expect``, whatever they are."""
    entries = written.get("expect")
    return entries if isinstance(entries, list) else ()


def _gates(problems: Problems, test: models.PolicyTest) -> Mapping[str, bool]:
    """Return the feature gates of a document; a recorded family may have them without naming."""
    if "gates" in test.model_fields_set:
        try:
            return models.gates_of(test.gates)
        except ValueError as error:
            problems.add(("gates",), WRONG_VALUE, str(error))
            return {}
    if not test.gang:
        return {}
    family = (test.name or "").rpartition("-")[0]
    return RECORDED_GATES.get(family, RECORDED_GATES["gang"])


def _now(test: models.PolicyTest, stated: TestObjects, *, complete: bool) -> int:
    """Return the time that a document states, or the usual one.

    A plugin's record without one was made after all of its objects.
    """
    if test.now is not None:
        return models.moment_of(test.now)
    if not complete or test.plugin is None:
        return EPOCH
    created = [
        nanoseconds(item.metadata.creation_timestamp) for item in (*stated.objects, *stated.pending)
    ]
    return max([EPOCH, *(time + SECOND for time in created)])


def _written(problems: Problems, value: object) -> Plain | None:
    """Return a document of our kind, or of none; report another kind."""
    if not isinstance(value, dict):
        problems.add((), WRONG_TYPE, "a test must be a mapping")
        return None
    version = value.get("apiVersion", models.POLICY_API_VERSION)
    if value.get("kind", KIND) != KIND:
        message = f'a scenario has kind {KIND}, not "{value["kind"]}"'
        problems.add(("kind",), WRONG_VALUE, message)
        return None
    if version != models.POLICY_API_VERSION:
        hint = f"this version reads {models.POLICY_API_VERSION}"
        message = f'unknown apiVersion "{version}"'
        problems.add(("apiVersion",), BAD_API_VERSION, message, hint=hint)
    return value


def _name(problems: Problems, test: models.PolicyTest) -> str:
    if test.name is not None:
        return test.name
    if test.metadata is None:
        problems.add((), MISSING_KEY, '"name" is missing')
        return ""
    return test.metadata.name


def _check_reference(problems: Problems, references: References, name: str, at: FieldPath) -> None:
    fault = references.fault(name)
    if fault is not None:
        problems.add(at, WRONG_VALUE, fault[0], hint=fault[1])


def _config(
    problems: Problems, value: Plain | str | None, references: References
) -> Plain | str | None:
    if not isinstance(value, str):
        return value
    _check_reference(problems, references, value, ("config",))
    return references.path(value)


_LOOKS: Final = {
    "order": ("", "order: true looks at the queue"),
    "evict": (EVICTION, "evict: true looks at the running pods"),
}


def _operations(
    problems: Problems, test: models.PolicyTest, stated: TestObjects
) -> tuple[ScenarioEvent, ...]:
    """Return what happens; without ``ops`` each pending pod is decided once."""
    waiting = [pod_name(pod) for pod in stated.pending]
    if "ops" not in test.model_fields_set:
        queue = any(not entry.pod for entry in test.expect)
        return tuple(map(ScenarioEvent, ["", *waiting] if queue else waiting))
    there = {*waiting, *(pod_name(obj) for obj in stated.objects if isinstance(obj, Pod))}
    operations = []
    for i, operation in enumerate(test.ops):
        at = ("ops", i)
        if len(operation.model_fields_set) != 1:
            if not problems.of_object(at):
                text = "an operation has one key: decide, delete, order or evict"
                problems.add(at, WRONG_VALUE, text)
            continue
        (key,) = operation.model_fields_set
        if key in _LOOKS:
            what, text = _LOOKS[key]
            if not getattr(operation, key) and not problems.of_object(at):
                problems.add((*at, key), WRONG_VALUE, text)
            operations.append(ScenarioEvent(what))
            continue
        pod = operation.decide or operation.delete or ""
        if stated.hides(pod):
            continue
        if key == "decide" and pod not in waiting:
            hint = models.did_you_mean(pod, waiting)
            problems.add((*at, key), WRONG_VALUE, f"{pod} is not pending", hint=hint)
        elif pod not in there:
            hint = models.did_you_mean(pod, there)
            problems.add((*at, key), WRONG_VALUE, f"there is no pod {pod}", hint=hint)
        operations.append(ScenarioEvent(pod, key == "delete"))
    return tuple(operations)


def _expectations(
    problems: Problems,
    test: models.PolicyTest,
    stated: TestObjects,
    ops: Sequence[ScenarioEvent],
) -> dict[str, ExpectedOutcome]:
    expect: dict[str, ExpectedOutcome] = {}
    pending = {pod_name(pod) for pod in stated.pending}
    decided = Counter(op.pod for op in ops if not op.delete)
    expected: Counter[str] = Counter()
    for i, entry in enumerate(test.expect):
        at = ("expect", i)
        outcome = read_outcome(problems, entry, at)
        expected[outcome.pod] += 1
        times_expected, most = expected[outcome.pod], decided[outcome.pod]
        problem, hint = "", ""
        if not outcome.pod and times_expected > most:
            if outcome.queue is not None:
                text = "the order of the queue is stated more often than it is looked at"
                hint = "an operation {order: true} looks at it"
                problems.add((*at, "queue"), WRONG_VALUE, text, hint=hint, key=True)
        elif outcome.pod == EVICTION:
            if times_expected > most:
                text = "evictions are stated more often than the running pods are looked at"
                hint = "an operation {evict: true} looks at them"
                problems.add((*at, "evicted"), WRONG_VALUE, text, hint=hint, key=True)
        elif outcome.pod and times_expected > max(most, 1):
            problem = f"expected {'twice' if times_expected == 2 else f'{times_expected} times'}"
            hint = f"decisions in ops: {most}" if "ops" in test.model_fields_set else ""
        elif outcome.pod and stated.hides(outcome.pod):
            pass  # what is wrong with the pod is said where it stands
        elif outcome.pod and outcome.pod not in pending:
            listed = f"pending: {', '.join(sorted(pending)) or 'none'}"
            problem, hint = "not pending", models.did_you_mean(outcome.pod, pending) or listed
        elif outcome.pod and not most:
            problem = "expected and never decided"
        if problem:
            problems.add((*at, "pod"), WRONG_VALUE, f"{outcome.pod} is {problem}", hint=hint)
        expect[decision_name(outcome.pod, times_expected)] = outcome
    return expect


_Names = tuple[tuple[Diagnostic, ...], tuple[PlanMention, ...]]


def _names(problems: Problems, written: Plain, stated: TestObjects) -> _Names:
    """Return what expectations name: nodes and pods that are not there, plugins and rules."""
    names_there = {
        "node": {obj.metadata.name for obj in stated.objects if isinstance(obj, Node)},
        "pod": {pod_name(o) for o in (*stated.objects, *stated.pending) if isinstance(o, Pod)},
    }
    unknown: list[Diagnostic] = []
    later: list[PlanMention] = []
    for i, entry in enumerate(_entries(written)):
        for mention in mentions(entry, ("expect", i)) if isinstance(entry, dict) else ():
            if mention.kind not in names_there:
                later.append(
                    PlanMention(
                        mention.kind, mention.name, problems.blank(mention.path, mention.key)
                    )
                )
            elif mention.name not in names_there[mention.kind] and not stated.hides(mention.name):
                blank, suggest = (
                    problems.blank(mention.path, mention.key),
                    len(unknown) < MAX_SUGGESTIONS,
                )
                unknown.append(no_such(mention, names_there[mention.kind], blank, suggest=suggest))
    return tuple(unknown), tuple(later)


_NOTHING_IF_EMPTY: Final = frozenset(
    ("claims", "group", "notOn", "placements", "quotas", "raw", "rejected", "scores", "used")
)
_BESIDE_OTHERS: Final = frozenset(("errorAt", "errors", "less", "op", "pod", "pods"))
"""Fields that state nothing by themselves, or in records alone."""


def _states(entry: Plain) -> bool:
    """Return whether any field of an expectation is compared with what happens."""
    return any(
        value or field not in _NOTHING_IF_EMPTY
        for field, value in entry.items()
        if field not in _BESIDE_OTHERS
    )


def _untested(problems: Problems, written: Plain, *, complete: bool) -> Iterator[Diagnostic]:
    """Yield a problem for expectations that state nothing, and for a test without any.

    In a record, what is left out did not happen, so that a pod alone states something.
    """
    hint = "for example expect: [{pod: a, chosen: n1}]; --update writes what happens"
    entries = _entries(written)
    if not entries:
        blank = problems.blank(("expect",) if "expect" in written else (), True)
        yield replace(blank, code=MISSING_KEY, message="the test expects nothing", hint=hint)
    for i, entry in enumerate(entries):
        if not complete and isinstance(entry, dict) and "pod" in entry and not _states(entry):
            text = f"nothing is expected of {entry['pod']}"
            yield replace(
                problems.blank(("expect", i), False), code=MISSING_KEY, message=text, hint=hint
            )
