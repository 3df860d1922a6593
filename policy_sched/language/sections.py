"""A compiled policy, section by section, and its units over a table.

A `CompiledPolicy` knows no table, is immutable and can be shared and pickled; plugins/rules binds
it to the tables of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import msgspec
import numpy as np

from policy_sched.cluster.tables import NODE_COLUMNS, NODE_FIELDS, Kind, Scope
from policy_sched.language import codegen, values
from policy_sched.language.ir import Reads, Recording, Site, field_of_column
from policy_sched.language.runtime import NOT_NEGATIVE, SURE_SCORE, Activation, Runtime
from policy_sched.model import PodInfo

_STATIC: Final = [column.name for column in NODE_COLUMNS.values() if column.kind is Kind.STATIC]
_KEPT_FIELDS: Final = {field_of_column((name, "")) for name in _STATIC} - {
    *("images", "deviceAllocatable", "deviceRequested")
} | {"input", *NODE_FIELDS}
"""Fields of a node of which nothing changes with pods, or with other nodes."""
_OF_THE_ATTEMPT: Final = frozenset({"queue", "podGroup", "namespaceObject"})


class Root(msgspec.Struct, frozen=True):
    """Where a section's program has one expression's value, and its error (None: cannot fail)."""

    value: int
    error: int | None
    zero: object = 0
    """The zero of the value's type."""


class Unit(msgspec.Struct, frozen=True):
    """Some expressions that one program computes together."""

    program: codegen.Program
    roots: tuple[Root, ...]
    reads: Reads
    sites: tuple[Site, ...]
    can_fail: bool
    passes_with_more_pods: bool = False
    """Whether adding a pod to a node may make a filter accept the node."""
    classes: codegen.ClassProgram | None = None
    """What tells nodes apart on which the values differ; None: nothing but the node itself."""

    @property
    def recording(self) -> Recording | None:
        """What it computes, to fuse it with others; None where that is not possible."""
        return None if self.program.metered else self.program.recording

    @property
    def units(self) -> float:
        """The cost per pod and node, without that of materialized columns."""
        return self.program.kept.units

    def words(self, site: int) -> str:
        """Return the message of an error, such as ``no such key 'zone'``."""
        site_data = self.sites[site]
        text = values.KINDS[site_data.kind].replace("_", " ")
        return f"{text} '{site_data.detail}'" if site_data.detail else text


class FilterRule(msgspec.Struct, frozen=True):
    """What a filter rule reports about a node that it rejects.

    ``explain`` computes, of those that are not constant, first ``resolvable``, then the message (a
    string) or the reasons (a list of strings).
    """

    name: str
    message: str
    resolvable: bool | None
    explain: Unit | None
    listed: bool
    on_error: str


class GateRule(msgspec.Struct, frozen=True):
    """A rule about the pod alone: its constant message, or the unit that computes one.

    ``resolvable``: of preFilter, whether preemption may help a pod that it rejects.
    """

    name: str
    message: str
    unit: Unit
    on_error: str
    explain: Unit | None = None
    resolvable: bool = True


class Score(msgspec.Struct, frozen=True):
    """The score rule: its unit, its normaliser by name or by unit, and its proved range.

    A node whose rule fails has the final score 0 and counts in no statistic, or, if it ``aborts``,
    ends the attempt, provided that the pod can run there. ``double``: raw scores are doubles, which
    only normalisation makes ints of.
    """

    unit: Unit
    range: values.Interval
    normalizer: str | None
    expression: Unit | None
    aborts: bool = False
    double: bool = False

    @property
    def marks_failures(self) -> bool:
        """Whether raw scores of nodes where the rule failed are distinguishable from others."""
        return self.aborts or self.normalizer is not None or self.expression is not None

    @property
    def normalizes_by_row(self) -> bool:
        """Whether the normaliser reads more than raw scores, or may end the attempt."""
        unit = self.expression
        return self.aborts or (unit is not None and unit.reads != Reads())

    @property
    def normalizes_by_extremes(self) -> bool:
        """Whether the normaliser reads only a score, the lowest and the highest, and none fails."""
        fails = self.unit.can_fail or self.unit.program.metered
        return self.normalizer is not None and not (fails or self.aborts or self.double)


class Step(msgspec.Struct, frozen=True):
    """A rule that runs after a node was chosen, for that node: ``reserve``, ``permit`` and so on.

    ``explain`` computes the message where it is not constant, ``timeout`` how long ``permit``
    lets a pod wait, in ns; without it the pod does not wait. ``reject``: what sends it back;
    ``activate``: whether others of its group are tried then.
    """

    name: str
    unit: Unit
    message: str
    explain: Unit | None
    on_error: str
    timeout: Unit | None = None
    reject: Step | None = None
    activate: Unit | None = None

    @property
    def reads(self) -> Reads:
        """What decides, the wording of the message included."""
        parts = (self.unit, self.explain, self.timeout, self.activate, self.reject)
        return reduce(or_, (part.reads for part in parts if part is not None))


class StatedEvents(msgspec.Struct, frozen=True):
    """Events that may help a pod: of a kind of objects, by action, and the hint about them."""

    kind: str
    actions: tuple[str, ...]
    hint: Unit | None


class Moment(msgspec.Struct, frozen=True):
    """A time at which a rule may change: ``after`` ns after a sum of the unit's values.

    ``signs``: 1 or -1 for each value, which are ns.
    """

    unit: Unit
    signs: tuple[int, ...]
    after: int


class LifeCycle(msgspec.Struct, frozen=True):
    """The rules that run after a node was chosen or none was, and when a pod is tried again.

    ``events``: those that may help it; None if they are derived from the rules' reads, or if
    ``hint`` is evaluated for all that happen. ``every`` is in ns; 0: never.
    """

    post_filter: Step | None = None
    reserve: Step | None = None
    permit: Step | None = None
    pre_bind: Step | None = None
    bind: Step | None = None
    post_bind: Step | None = None
    events: tuple[StatedEvents, ...] | None = None
    hint: Unit | None = None
    every: int = 0


class ConditionPart(msgspec.Struct, frozen=True):
    """A condition with its text, and what it is made of.

    ``parts``: the operands of ``a && b``; of ``c ? a : b``, where it ``branches``, c, a and b.
    """

    text: str
    unit: Unit
    parts: tuple[ConditionPart, ...] = ()
    branches: bool = False


class Choice(msgspec.Struct, frozen=True):
    """One expression of ``preemption``: for one pod or node, and, where it can be, for many.

    ``condition``: the parts of a condition that reads quotas, to explain why it is false.
    """

    name: str
    unit: Unit
    victims: codegen.VictimProgram | None
    descending: bool = False
    condition: ConditionPart | None = None


class PreemptionChoices(msgspec.Struct, frozen=True):
    """The ``preemption`` section."""

    eligible: Choice
    victim: Choice
    victim_order: tuple[Choice, ...]
    node_order: tuple[Choice, ...]
    unit: Choice | None = None


class Eviction(msgspec.Struct, frozen=True):
    """The ``evict`` section: ``unit`` says whether a pod goes, ``order`` which pods go first.

    ``every`` is in ns; of the pods of one look ``most`` go.
    """

    name: str
    every: int
    most: int
    unit: Unit
    order: Unit | None = None
    descending: tuple[bool, ...] = ()
    message: str = ""
    explain: Unit | None = None


class PlacementRules(msgspec.Struct, frozen=True):
    """The ``placement`` section; a domain is the code of a string, the narrowest is first."""

    domain: tuple[Unit, ...]
    score: Unit | None
    aborts: bool


class DeviceFilter(msgspec.Struct, frozen=True):
    """One filter rule of ``devices``; ``message`` says why it refuses a device."""

    name: str
    unit: Unit
    message: str
    on_error: str


class DeviceChoices(msgspec.Struct, frozen=True):
    """The ``devices`` section: what a device has to pass, and how good it is."""

    filter: tuple[DeviceFilter, ...]
    score: Unit | None
    aborts: bool

    @property
    def reads(self) -> Reads:
        """What a device's results depend on besides the device and the request."""
        units = [rule.unit for rule in self.filter] + ([] if self.score is None else [self.score])
        return reduce(or_, (unit.reads for unit in units), Reads())


class Input(msgspec.Struct, frozen=True):
    """An input of a policy: what its objects are, and how they are looked up.

    ``identity`` names what a scheduler keeps of it: equal ones are kept once.
    ``key`` computes an object's key; None: namespace/name, or the name of one without namespace.
    ``namespaced``: objects without a namespace are in the default one. ``poll`` is in ns.
    """

    type: values.types.InputType
    identity: str
    api_version: str = ""
    kind: str = ""
    namespaced: bool = False
    key: Unit | None = None
    optional: bool = False
    poll: int = 0
    url: str = ""
    items: str = ""
    plural: str = ""
    """The resource of the kind, "" where no definition names it."""
    custom: bool = False
    """Whether types are the policy's, or those of a schema beside it; the cluster may differ."""

    @property
    def object_kind(self) -> tuple[str, str]:
        """The kind of its objects."""
        return self.api_version, self.kind

    def definition(self, plural: str = "") -> str:
        """Return the name of the CustomResourceDefinition of its kind, "" if there is none.

        ``plural``: the resource as the cluster names it, where the schema does not.
        """
        resource = self.plural or plural
        group, _, _ = self.api_version.rpartition("/")
        return f"{resource}.{group}" if self.custom and resource and group else ""

    @property
    def name(self) -> str:
        """The name by which rules read it."""
        return self.type.name.removeprefix("inputs.")


SCHEMA_DIFFERS: Final = "PS804"
"""Code of an input whose schema in the cluster differs from the policy's in what rules read."""


def schema_hint(given: Input, file: str) -> str:
    """Return how the schema of an input in ``file`` is made the cluster's; "": it has fields."""
    group = given.api_version.rpartition("/")[0]
    name = given.definition() or f"NAME.{group}"
    if not file:
        return f"state the types that the cluster has: kubectl get crd {name} -o yaml"
    return f"take the cluster's: kubectl get crd {name} -o yaml > {file}, and check the policy"


class CompiledAggregate(msgspec.Struct, frozen=True):
    """An aggregate: ``identity`` is the name that the cluster knows it by.

    ``unit`` computes, in this order, whether the pod counts (if ``conditional``), the ``keys``
    parts of its key, and its value (if ``valued``). ``by_node``: the key is the node's name.
    ``since`` computes since when the pods of a key count. ``half_life``: in ns, 0 for none.
    """

    name: str
    identity: str
    kind: str
    sources: tuple[str, ...]
    unit: Unit
    keys: int
    conditional: bool
    valued: bool
    by_node: bool
    since: Unit | None = None
    half_life: int = 0


class CompiledQuotaObjects(msgspec.Struct, frozen=True):
    """What objects say of quotas: ``unit`` computes what is named, in that order.

    ``input``: the identity of the input. ``publish``: numbers of the quota, each with the path in
    the object that shows it; ``shown`` computes what the object shows, in that order.
    """

    input: str
    names: tuple[str, ...]
    unit: Unit
    publish: tuple[tuple[str, tuple[str, ...]], ...] = ()
    shown: Unit | None = None


class CompiledQuotas(msgspec.Struct, frozen=True):
    """An entry of ``quotas``: ``identity`` is the name that the cluster knows it by.

    ``kinds``: the objects that pods count to, and those of parents where these have a kind of
    their own. ``caps``: parents have no more than their own. ``shares_cluster``: roots share
    what the nodes have.
    """

    identity: str
    pods: Unit
    kinds: tuple[CompiledQuotaObjects, ...]
    caps: bool = False
    shares_cluster: bool = False


class QueueOrderUnits(msgspec.Struct, frozen=True):
    """The ``queueOrder`` section; ``strict`` is a constant, or computes whether a queue is."""

    by: Unit
    keys: Unit | None = None
    descending: tuple[bool, ...] = ()
    strict: bool | Unit = False


class Sections(msgspec.Struct, frozen=True):
    """The units of a policy, by section; what the policy has not is None or empty."""

    name: str = ""
    inputs: tuple[Input, ...] = ()
    objects: tuple[values.types.ObjectType, ...] = ()
    """What rules read of `object` of pods, nodes and groups."""
    aggregates: tuple[CompiledAggregate, ...] = ()
    quotas: tuple[CompiledQuotas, ...] = ()
    match: Unit | None = None
    score_match: Unit | None = None
    pre_enqueue: tuple[GateRule, ...] = ()
    queue_sort: Unit | None = None
    descending: tuple[bool, ...] = ()
    sort_program: codegen.SortProgram | None = None
    """The keys as one function of a queued pod; None where they may fail or are no ints."""
    queue_order: QueueOrderUnits | None = None
    node_names: Unit | None = None
    pre_filter_message: str = ""
    pre_filter: tuple[GateRule, ...] = ()
    pre_filter_together: Unit | None = None
    """What the rules of ``pre_filter`` say, as one program."""
    filter: Unit | None = None
    rules: tuple[FilterRule, ...] = ()
    score: Score | None = None
    weights: tuple[tuple[str, Unit], ...] = ()
    life: LifeCycle = LifeCycle()
    moments: tuple[Moment, ...] = ()
    """When the time that passes may help a pod that the policy rejected."""
    preemption: PreemptionChoices | None = None
    evict: Eviction | None = None
    placement: PlacementRules | None = None
    devices: DeviceChoices | None = None


Out = Sequence[Any] | values.Failure
"""The values and errors of one row, or why there are none."""


class BoundUnit:
    """A unit over a table."""

    __slots__ = ("functions", "scalar", "unit")

    scalar: Callable[[PodInfo | None, Any, int], Out]
    """Returns the values of one row, for `one`; a Failure where they take too much work."""

    def __init__(self, unit: Unit, runtime: Runtime) -> None:
        self.unit = unit
        self.functions: codegen.Functions = unit.program.bind(runtime)
        self.scalar = self._limited if unit.program.metered else self.functions.scalar

    def _limited(self, pod: PodInfo | None, cycle: Any, row: int) -> Out:
        try:
            return self.functions.scalar(pod, cycle, row)
        except values.LimitError as error:
            return values.Failure("exhausted", str(error))

    def value_of(self, root: Root, out: Out) -> Any:
        """Return a root's value, or the Failure in its place."""
        if isinstance(out, values.Failure):
            return out
        if root.error is not None and out[root.error]:
            site = int(out[root.error])
            return values.Failure(values.KINDS[self.unit.sites[site].kind], self.unit.words(site))
        return out[root.value]

    def evaluate(self, root: int, pod: PodInfo | None, cycle: Any, row: int) -> Any:
        """Return the value of the root of a number for one row, or the Failure in its place."""
        return self.value_of(self.unit.roots[root], self.scalar(pod, cycle, row))

    def vector(self, pod: PodInfo | None, cycle: Activation, rows: Any, n: int) -> Any:
        """Run the vector function over ``n`` rows: a slice, row numbers, or None for all rows.

        Arrays may be read-only; values of dead rows are undefined.
        """
        with np.errstate(all="ignore"):
            if rows is None:
                return self.functions.every_row(pod, cycle, n)
            return self.functions.vector(pod, cycle, rows, n)


class CompiledPolicy:
    """A policy whose rules are compiled; immutable, and independent of any table."""

    def __init__(self, name: str, sections: Sections, params: Mapping[str, object]) -> None:
        self.name = name
        self.params = params
        self.sections = sections
        matching = _reads(sections.match)
        self.match_reads: Reads = matching
        """What the matchConditions of the whole policy read."""
        explaining = [rule.explain for rule in sections.rules]
        self.filter_reads: Reads = _reads(sections.filter, *explaining) | matching
        self.score_reads: Reads = _reads(sections.score_match, *_scoring(sections)) | matching
        self.reads: Reads = self.filter_reads | self.score_reads | _reads(sections.node_names)
        """What the rules that place a pod read: filter, score, and the conditions of both."""
        before = [gate.unit for gate in sections.pre_filter]
        self.pre_filter_reads: Reads = _reads(*before) | matching if before else Reads()
        """What the rules of ``preFilter`` read."""
        self.rejecting_reads: Reads = (
            self.filter_reads | _reads(sections.node_names) | self.pre_filter_reads
        )
        """What decides whether a node is refused to a pod."""
        filters = sections.filter
        self.passes_with_more_pods = filters is not None and filters.passes_with_more_pods
        """Whether a node that is refused may be acceptable because a pod came to it."""
        gates = [gate.unit for gate in sections.pre_enqueue]
        gates += [gate.explain for gate in sections.pre_enqueue if gate.explain is not None]
        self.gate_reads: Reads = _reads(*gates) | matching if gates else Reads()
        """What decides whether a pod is kept out of the queue."""
        self.sort_reads: Reads = _reads(sections.queue_sort)
        """What the order of the queue depends on."""
        moving = {"namespaceObject"} & {path[0] for path in self.sort_reads.pod}
        self.sorts_anew = bool(moving or self.sort_reads.node or self.sort_reads.inputs)
        """Whether the order of the queue depends on what changes while pods wait in it."""
        self.preemption = sections.preemption
        """Which pods may preempt, which pods are victims, and which nodes are preferred."""
        devices = sections.devices
        self.device_reads: Reads | None = None if devices is None else devices.reads | matching
        """What decides which devices a pod gets; None where the policy has no such rule."""
        placement = sections.placement
        domains = () if placement is None else placement.domain
        self.domain_reads: Reads | None = _reads(*domains) | matching if domains else None
        """What decides which domain a node belongs to; None where the policy has no such rule."""
        self.life = sections.life
        """What follows the choice of a node."""
        vetoes = (self.life.reserve, self.life.permit, self.life.pre_bind)
        reads = [step.reads for step in vetoes if step is not None]
        self.veto_reads: Reads = reduce(or_, reads, matching) if reads else Reads()
        """What decides whether a pod may have the node that was chosen for it."""

    @property
    def all_reads(self) -> Reads:
        """What any rule of any section reads."""
        return _reads(*_units(self.sections))

    @property
    def reads_of_inputs(self) -> frozenset[str]:
        """Inputs of which rules read more than the object of a node's name.

        What aggregates read does not count: they note the rows whose values change.
        """
        return _reads(*_units(msgspec.structs.replace(self.sections, aggregates=()))).inputs

    @property
    def inputs_of_aggregates(self) -> frozenset[str]:
        """Inputs of which aggregates read more than the object of a node's name."""
        return _reads(*_units(self.sections.aggregates)).inputs

    @property
    def pre_filter_reads_pods(self) -> bool:
        """Whether rules of ``preFilter`` read nodes or pods, so that they hold in dry runs too."""
        return bool(self.sections.pre_filter and self.pre_filter_reads.node)

    @property
    def reads_allocation(self) -> bool:
        """Whether a rule reads what the pod's claims would get on a node."""
        return "allocation" in self.reads.node

    @property
    def keeps_rows(self) -> bool:
        """Whether pods on nodes change no result of filter and score, and these run row by row.

        They follow from the pod, static fields of the node and objects that are named as the node.
        """
        reads = self.reads
        units = [self.sections.filter, *_scoring(self.sections)[:1]]
        recordings = [unit.recording for unit in units if unit is not None]
        return (
            "input" in reads.node
            and reads.node <= _KEPT_FIELDS
            and reads.scope is Scope.NODE
            and not reads.inputs
            and not any(path[0] in _OF_THE_ATTEMPT for path in reads.pod)
            and any(recording is None or not recording.arrays for recording in recordings)
        )

    @property
    def units(self) -> float:
        """What filter and score cost per pod and node, in units of `cost`."""
        units = (self.sections.filter, *_scoring(self.sections))
        return sum(unit.units for unit in units if unit is not None)

    @property
    def has_normalize(self) -> bool:
        """Whether raw scores are normalised over the feasible nodes, or may end the attempt."""
        score = self.sections.score
        return score is not None and score.marks_failures

    @property
    def normalizes_by_row(self) -> bool:
        """Whether normalisation depends on more than raw scores."""
        score = self.sections.score
        return score is not None and score.normalizes_by_row

    @property
    def normalizes_by_extremes(self) -> bool:
        """Whether normalisation depends on a score, the lowest and the highest one."""
        score = self.sections.score
        return score is not None and score.normalizes_by_extremes

    @property
    def scores_proved(self) -> bool:
        """Whether final scores are within 0..100; not where a normaliser's product may wrap."""
        score = self.sections.score
        return score is None or not (
            score.normalizer in NOT_NEGATIVE and not score.double and score.range.hi > SURE_SCORE
        )

    @property
    def has_placement_score(self) -> bool:
        """Whether domains are rated."""
        placement = self.sections.placement
        return placement is not None and placement.score is not None


def _reads(*units: Unit | None) -> Reads:
    reads = Reads()
    for unit in units:
        if unit is not None:
            reads |= unit.reads
    return reads


def _units(part: object) -> Iterator[Unit]:
    """Yield every unit within a part of the sections."""
    if isinstance(part, Unit):
        yield part
    elif isinstance(part, tuple):
        for child in part:
            yield from _units(child)
    elif isinstance(part, msgspec.Struct):
        for name in part.__struct_fields__:
            yield from _units(getattr(part, name))


def _scoring(sections: Sections) -> list[Unit | None]:
    score = sections.score
    return [] if score is None else [score.unit, score.expression]
