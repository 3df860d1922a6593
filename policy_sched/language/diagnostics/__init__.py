"""The catalogue of error codes, suggested names, and source text with positions.

The codes of problems, the limits behind some of them, and suggested names; and the checker's input:
a policy's texts and settings as plain data, each text with its place. `profiles` builds these from
YAML; nothing here knows YAML. The lowest stage: every other stage reports through it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from policy_sched.errors import Severity, nearest


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """A problem of ``text[start:end]`` of one expression, before it has a place in a file."""

    start: int
    end: int
    code: str
    message: str
    hint: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is, by its code."""
        return codes()[self.code].severity


class Code(msgspec.Struct, frozen=True):
    """What a code means, how bad it is, and an example."""

    meaning: str
    example: str
    severity: Severity = Severity.ERROR


@cache
def codes() -> dict[str, Code]:
    """Return the codes of problems, in the order of the manual."""
    rows = tomllib.loads(Path(__file__).with_name("codes.toml").read_text(encoding="utf-8"))
    return {
        code: Code(row["meaning"], row["example"], Severity(row.get("severity", "error")))
        for code, row in rows.items()
    }


#: Limits of one expression and of one policy, with their units.
MAX_SOURCE_BYTES: Final = 10_240
MAX_NODES: Final = 2_000  # of the typed tree, functions inlined
MAX_DEPTH: Final = 100  # of the syntax tree
MAX_INLINED_DEPTH: Final = 150  # of the typed tree with functions and variables written out
MAX_MACROS: Final = 32  # in one expression
MAX_MACRO_NESTING: Final = 3
MAX_LIST_ITEMS: Final = 1_024  # of one literal
MAX_ELEMENTS: Final = 2_000  # of the lists of one expression, those of its variables included
MAX_TYPE_DEPTH: Final = 32  # of the types of expressions and parameters
MAX_FIELDS: Final = 1_000  # of a policy's params, and of the records in them, all together
MAX_FUNCTION_PARAMS: Final = 64
MAX_VARIABLES: Final = 64
MAX_FUNCTIONS: Final = 32
MAX_RULES: Final = 64
MAX_AGGREGATES: Final = 50
MAX_PATTERN_BYTES: Final = 512
DEVICE_COST: Final = 20  # times what a rule may cost for a node, one may cost for a device
MAX_RULE_COST: Final = 500  # units of one rule, see ir/code_motion.py; an annotation may raise it
ANNOTATION: Final = "policysched.dev/cost-limit"  # of a policy, lets its rules cost more
MAX_ANNOTATED_COST: Final = 2_500_000  # the most that the annotation may set
MAX_PROFILE_COST: Final = 5_000  # units of all rules of a profile
MAX_ANNOTATED_PROFILE_COST: Final = 3_000_000  # the same with what annotations add
MAX_PROBLEMS: Final = 100  # printed of one policy


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` or nothing."""
    closest = nearest(name, candidates)
    return f"; did you mean '{closest}'?" if closest else ""


#: Maps an offset of a text (0 to its length) to line, column (both from 1) and the line's text.
Locate = Callable[[int], tuple[int, int, str]]


def field_names(record: type) -> tuple[str, ...]:
    """Return the names of the fields of a Struct or a dataclass; of another class none."""
    if issubclass(record, msgspec.Struct):
        return record.__struct_fields__
    return tuple(getattr(record, "__dataclass_fields__", ()))


@dataclass(frozen=True, slots=True)
class Text:
    """One expression, its position in a file, and its path in the policy.

    ``path`` is such as ``filter[0].expression``, and is shown with problems. Equal texts in
    different files compare equal.
    """

    text: str
    file: str = field(default="<text>", compare=False)
    locate: Locate | None = field(default=None, compare=False)
    path: str = ""

    def __reduce__(self) -> tuple[type[Text], tuple[object, ...]]:
        """Leave the places in the file behind: another process needs the text alone."""
        return Text, (self.text, self.file, None, self.path)

    def position(self, offset: int) -> tuple[int, int, str]:
        """Return (line, column, source line) of a character of the text, in its file."""
        if self.locate is not None:
            return self.locate(offset)
        line_start = self.text.rfind("\n", 0, offset) + 1
        line_end = self.text.find("\n", offset)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        return self.text.count("\n", 0, offset) + 1, offset - line_start + 1, line


class FunctionSource(msgspec.Struct, frozen=True):
    """An entry of ``functions``: parameters with the text of their types, and the body."""

    name: str
    params: tuple[tuple[str, str], ...]
    expression: Text


class VariableSource(msgspec.Struct, frozen=True):
    """An entry of ``variables``."""

    name: str
    expression: Text


E = TypeVar("E")
"""The form of expressions: `Text` as read, or with a typed tree once checked."""


class Rule(msgspec.Struct, Generic[E], frozen=True):
    """A rule of ``filter`` or ``preEnqueue``; at most one of the message forms is given."""

    expression: E
    message: str = ""
    message_expression: E | None = None
    reasons: E | None = None
    resolvable: bool | E = True
    on_error: str | None = None


class OrderKey(msgspec.Struct, Generic[E], frozen=True):
    """A key of an order, such as ``queueSort``; ``order`` is Ascending or Descending."""

    expression: E
    order: str = "Ascending"


class QueueOrderRule(msgspec.Struct, Generic[E], frozen=True):
    """The ``queueOrder`` section: the name of a pod's queue, and keys and strictness of queues."""

    by: E
    keys: tuple[OrderKey[E], ...] = ()
    strict: bool | E = False


class PreFilterRule(msgspec.Struct, Generic[E], frozen=True):
    """The ``preFilter`` section: the node names to look at, and why a pod with none fails.

    ``rules`` are about the pod alone.
    """

    node_names: E | None = None
    message: str = ""
    rules: tuple[Rule[E], ...] = ()


class AggregateRule(msgspec.Struct, Generic[E], frozen=True):
    """An entry of ``aggregates``: what a pod counts with, by which key, and which pods count.

    ``kind``: count, sum, max, min or union; ``value`` is None for a count. ``of`` are sources.
    ``since``: the moment of a key since when its pods count. ``half_life``: in ns, 0 for none.
    ``identity``, once checked: equal where an aggregate counts the same.
    """

    name: Text
    by: tuple[E, ...]
    kind: str
    value: E | None = None
    of: tuple[str, ...] = ("bound",)
    where: E | None = None
    since: E | None = None
    identity: str = ""
    half_life: int = 0


OF_QUOTA_OBJECTS: Final = {
    "nominal": "amounts",
    "limit": "amounts",
    "lends": "amounts",
    "borrows": "amounts",
    "parent": "parent",
    "weight": "weight",
    "priority": "priority",
}
"""What an object may say of its quota, and the section of such a rule below ``quotas``."""


class QuotaObjects(msgspec.Struct, Generic[E], frozen=True):
    """Objects that are quotas: their input, and by name what is read of them.

    ``publish``: by number of the quota, the field of the object's status that shows it.
    """

    of: Text
    rules: Mapping[str, E]
    publish: Mapping[str, E] = {}


class QuotaRule(msgspec.Struct, Generic[E], frozen=True):
    """The entry of ``quotas``: whose objects they are, and what is read of pods and them.

    ``parents``: objects of a kind of their own that parents are. ``caps``: a parent has no more
    than its own. ``shares_cluster``: roots share what the nodes have. ``identity``, once
    checked, names what the cluster keeps of it.
    """

    name: Text
    pods: E
    objects: QuotaObjects[E]
    parents: QuotaObjects[E] | None = None
    caps: bool = False
    shares_cluster: bool = False
    identity: str = ""


class ScoreRule(msgspec.Struct, Generic[E], frozen=True):
    """The ``score`` section; ``normalize`` is the name of a normaliser or an expression."""

    expression: E
    normalize: str | E | None = None
    on_error: str | None = None
    match_conditions: tuple[E, ...] = ()


class StepRule(msgspec.Struct, Generic[E], frozen=True):
    """A section that is one rule: ``postFilter``, ``reserve``, ``preBind``, ``bind``, ``postBind``.

    ``permit`` has its ``allow`` as the expression, and other rules beside it.
    """

    expression: E
    message: str = ""
    message_expression: E | None = None
    on_error: str | None = None
    timeout: E | None = None
    reject: E | None = None
    reject_message: str = ""
    reject_message_expression: E | None = None
    activate: E | None = None


class EventRule(msgspec.Struct, Generic[E], frozen=True):
    """Events of ``requeue``: the kind of the objects, what happens to them, and the hint."""

    kind: str
    actions: tuple[str, ...]
    hint: E | None = None


class RequeueRule(msgspec.Struct, Generic[E], frozen=True):
    """The ``requeue`` section; without ``events`` they are derived."""

    hint: E | None = None
    every: E | None = None
    events: tuple[EventRule[E], ...] | None = None


class PreemptionRules(msgspec.Struct, Generic[E], frozen=True):
    """The ``preemption`` section, complete: what a policy leaves open is as upstream does it."""

    eligible: E
    victim: E
    victim_order: tuple[OrderKey[E], ...]
    node_order: tuple[OrderKey[E], ...]
    unit: E | None = None


class EvictRule(msgspec.Struct, Generic[E], frozen=True):
    """The ``evict`` section: which running pods go, how many of them, every so many ns."""

    every: int
    victim: E
    order: tuple[OrderKey[E], ...] = ()
    most: int = 1
    message: str = ""
    message_expression: E | None = None


class PlacementRule(msgspec.Struct, Generic[E], frozen=True):
    """The ``placement`` section: the domains of a node, and how good a domain is for a group.

    ``domain``: the narrowest one first.
    """

    domain: tuple[E, ...] = ()
    score: E | None = None
    on_error: str | None = None


class DeviceRule(msgspec.Struct, Generic[E], frozen=True):
    """A filter rule of the ``devices`` section, and the reason that explanations give."""

    expression: E
    message: str = ""
    on_error: str | None = None


class DeviceRules(msgspec.Struct, Generic[E], frozen=True):
    """The ``devices`` section: which devices may be considered, and which is the best."""

    filter: tuple[DeviceRule[E], ...] = ()
    score: E | None = None
    score_on_error: str | None = None


class InputSource(msgspec.Struct, frozen=True):
    """An entry of ``inputs``: a kind of objects, what is polled from ``url``, or an annotation.

    ``name`` and ``schema`` have their places in the policy's file; ``content`` is that of the file
    which ``schema`` names, ``refused`` why it cannot be read. ``fields`` are paths and the texts of
    their types. ``poll`` is in ns.
    """

    name: Text
    api_version: str = ""
    kind: str = ""
    schema: Text | None = None
    content: str = ""
    refused: str = ""
    key: Text | None = None
    optional: bool = False
    fields: tuple[tuple[str, Text], ...] = ()
    most: int = 0
    poll: int = 0
    url: str = ""
    items: str = ""
    annotation: str = ""


class PolicySections(msgspec.Struct, Generic[E], frozen=True, kw_only=True):
    """The sections of a policy that are rules."""

    match_conditions: tuple[E, ...] = ()
    pre_enqueue: tuple[Rule[E], ...] = ()
    queue_sort: tuple[OrderKey[E], ...] = ()
    queue_order: QueueOrderRule[E] | None = None
    pre_filter: PreFilterRule[E] | None = None
    filter: tuple[Rule[E], ...] = ()
    score: ScoreRule[E] | None = None
    post_filter: StepRule[E] | None = None
    reserve: StepRule[E] | None = None
    permit: StepRule[E] | None = None
    pre_bind: StepRule[E] | None = None
    bind: StepRule[E] | None = None
    post_bind: StepRule[E] | None = None
    requeue: RequeueRule[E] | None = None
    preemption: PreemptionRules[E] | None = None
    evict: EvictRule[E] | None = None
    placement: PlacementRule[E] | None = None
    devices: DeviceRules[E] | None = None
    cost_limit: int = MAX_RULE_COST


class PolicySource(PolicySections[Text], frozen=True):
    """One policy with its effective parameters."""

    name: str
    params: Mapping[str, object] = msgspec.field(default_factory=dict)
    inputs: tuple[InputSource, ...] = ()
    functions: tuple[FunctionSource, ...] = ()
    variables: tuple[VariableSource, ...] = ()
    aggregates: tuple[AggregateRule[Text], ...] = ()
    quotas: tuple[QuotaRule[Text], ...] = ()
    weights: tuple[VariableSource, ...] = ()
    measures: tuple[VariableSource, ...] = ()
