"""Evaluates one expression by itself: type, cost, where its parts are computed, values.

The expression has the variables of a rule, and the parameters, functions and variables of a policy
if there is one. It has one value if it reads no node, else one for each node.

A selector over devices is evaluated on each device of a cluster, as that of a claim would be.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from policy_sched import language
from policy_sched.cluster import ApiObjects, Cache, Inputs
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.language import cel, check
from policy_sched.language.check import diagnostic
from policy_sched.language.codegen import Functions
from policy_sched.language.diagnostics import PolicySource, Problem, Text
from policy_sched.language.ir import Cost, Site
from policy_sched.language.lower import Refusal
from policy_sched.language.runtime import Activation
from policy_sched.language.stdlib import value_data, value_text
from policy_sched.language.syntax import ast
from policy_sched.language.values import (
    KINDS,
    NOT_FINITE,
    OVERFLOW,
    LimitError,
    one_evaluation,
    refill,
    types,
    weigh,
)
from policy_sched.model import ApiObject, Pod, PodInfo, QueuedPod, ResourceSlice
from policy_sched.plugins.dynamicresources import DeviceId, as_record
from policy_sched.plugins.rules import declare_input
from policy_sched.report import Document

#: The name of the expression in diagnostics, in place of a file.
FILE: Final = "<expression>"
#: Number of nodes for which the cost is shown, unless the cluster has more.
USUAL_NODES: Final = 5_000
_OF_A_DECISION: Final = frozenset(
    {
        *("score", "scores", "victim", "victims", "pdbViolations", "placement"),
        *("device", "request", "allocation", "node.devices"),
    }
)
_INDENT: Final = "  "
_TIMES: Final = (types.DURATION, types.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class NodeValue:
    """The value on one node ("" if it reads none), or the code and message of its error."""

    node: str
    value: Any
    code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An expression, its type, cost and values; the cost is shown for ``nodes``."""

    text: str
    type: types.Type
    range: str
    cost: Cost
    renewed: Cost
    part: language.CostPart
    values: tuple[NodeValue, ...]
    nodes: int

    def text_lines(self) -> Iterator[str]:
        """Yield the result as text."""
        yield f"type   {self.type}" + (f", range {self.range}" if self.range else "")
        yield f"cost   {_cost_text(self)}"
        yield ""
        yield from _tree(self)
        yield ""
        shown = [(value.node, _shown(value, self.type)) for value in self.values]
        if [name for name, _ in shown] == [""]:
            yield f"value  {shown[0][1]}"
            return
        width = max(len(name) for name, _ in shown)
        yield from (f"{name:<{width}}  {value}" for name, value in shown)
        failed = Counter(f"{value.error} ({value.code})" for value in self.values if value.code)
        if failed:
            yield ""
            whole = f"{sum(failed.values())} of {len(shown)} nodes have no value: "
            yield whole + ", ".join(f"{count} {error}" for error, count in failed.most_common())

    def document(self) -> Document:
        """Return the result as plain data."""
        return {
            "expression": self.text,
            "type": str(self.type),
            "range": self.range or None,
            "cost": {
                "perNode": round(self.cost.units, 2),
                "perChangedNode": round(self.renewed.units, 2),
                "oncePerPod": round(self.cost.fixed),
                "unit": "ns",
            },
            "parts": _part_document(self.text, self.part),
            "values": [
                {"node": value.node or None, "error": value.error, "code": value.code}
                if value.code
                else {"node": value.node or None, "value": value_data(value.value, self.type)}
                for value in self.values
            ],
        }


def evaluated(  # noqa: PLR0913, PLR0917  # the expression, and all that it may read
    text: str,
    section: str,
    source: PolicySource | None,
    cache: Cache,
    pod: PodInfo | None,
    now: int,
    objects: Sequence[ApiObject] = (),
) -> Evaluated:
    """Evaluate an expression for a pod on all nodes of a cache.

    ``objects``: what inputs of the policy may read. Raises PolicyError with the problems of the
    expression or of the policy's definitions, and PolicySchedError if it reads a pod or nodes and
    there are none.
    """
    checked, expression, part, inputs = _compiled(text, section, source or PolicySource(""))
    known = Inputs(cache.nodes, ApiObjects(objects), lambda: now)
    for given_input in inputs:
        declare_input(given_input, known, everywhere=True)
    live = cache.nodes.live_count
    _require(expression.reads.pod, pod, by_row=expression.by_row, nodes=live)
    given = pod or PodInfo.of(Pod())
    kind = checked.core.type
    functions = expression.bind(cache.nodes, cache.pods).functions
    scores = section == "score" and kind == types.DOUBLE
    values = []
    for row in _rows(cache, by_row=expression.by_row):
        node = cache.nodes.names[row] if expression.by_row else ""
        try:
            value, fault = _of_row(functions, expression, given, now, row)
        except LimitError as error:
            values.append(NodeValue(node, None, "PS503", str(error)))
            continue
        if scores and not fault:
            fault = _no_score(value)
        if fault is not None:
            values.append(
                NodeValue(node, None, f"PS{language.FIRST_ERROR + fault.kind}", _words(fault))
            )
            continue
        if kind == types.STRING and not isinstance(value, str):
            value = cache.nodes.strings.text(value)
        values.append(NodeValue(node, value))
    return Evaluated(
        text=text,
        type=kind,
        range="" if expression.range is None or kind in _TIMES else str(expression.range),
        cost=expression.program.kept,
        renewed=expression.program.full,
        part=part,
        values=tuple(values),
        nodes=max(USUAL_NODES, live),
    )


def _compiled(
    text: str, section: str, source: PolicySource
) -> tuple[check.Checked, language.Expression, language.CostPart, Sequence[language.Input]]:
    """Check and compile an expression, with its cost and the inputs that its policy has.

    Raises PolicyError with its problems.
    """
    policy, problems = check.check_beside(Text(text, FILE), section, source)
    if policy is None:
        raise PolicyError(problems)
    (checked,) = policy.match_conditions
    variables = [(name, variable.core) for name, variable in policy.variables]
    bodies = [core for _, core in variables] + [f.body for f in policy.functions.values()]
    cores = (checked.core, *bodies)
    names = {name for core in cores for name in language.names_read(core)}
    if any(map(_reads_devices, cores)):
        names.add("node.devices")
    _refuse_others(names)
    given = (policy.params, policy.params_type, policy.functions, variables)
    try:
        with one_evaluation():
            expression = language.compile_expression(checked.core, *given, policy.inputs)
            part = language.breakdown(checked.core, *given)
            return checked, expression, part, language.compiled_inputs(policy)
    except Refusal as refusal:
        span = refusal.span
        problem = Problem(span.start, span.end, refusal.code, refusal.message, refusal.hint)
        raise PolicyError([check.diagnostic(problem, checked.text)]) from None


def _reads_devices(core: ast.Core) -> bool:
    """Return whether an expression reads the devices of a node."""
    if isinstance(core, ast.Field) and (core.operand.type.name, core.name) == ("Node", "devices"):
        return True
    return any(map(_reads_devices, check.children(core)))


def _of_row(
    functions: Functions, expression: language.Expression, pod: PodInfo, now: int, row: int
) -> tuple[Any, Site | None]:
    """Return the value of one row, or its error; the pod has just come into the queue.

    Raises LimitError if the value is too large.
    """
    queued = QueuedPod(pod, enqueued_at=now, first_enqueued_at=now)
    with np.errstate(all="ignore"):
        out = functions.scalar(pod, Activation(now=now, queued=queued), row)
    refill()
    weigh(out[0])
    site = expression.sites[out[1]] if expression.can_fail else None
    return out[0], site if site is not None and site.kind else None


def _refuse_others(names: set[str]) -> None:
    """Reject names that have a value only during a decision."""
    missing = sorted(names & _OF_A_DECISION)
    if missing:
        raise PolicySchedError(f"{missing[0]} has a value only while a decision is made")


def _require(reads: object, pod: PodInfo | None, *, by_row: bool, nodes: int) -> None:
    if reads and pod is None:
        raise PolicySchedError("the expression reads the pod: name a file with one by --pod")
    if by_row and not nodes:
        raise PolicySchedError(
            "the expression reads nodes: give some by --node, --cluster or --kubeconfig"
        )


def _rows(cache: Cache, *, by_row: bool) -> Sequence[int]:
    if not by_row:
        return [0]
    live = cache.nodes.live.values[: cache.nodes.n]
    return [int(row) for row in np.flatnonzero(live)]


def _no_score(value: float) -> Site | None:
    """Return the error of a double that cannot be a score; None of others."""
    if not math.isfinite(value):
        return Site(NOT_FINITE, "", None)
    return None if abs(value) < 2.0**63 else Site(OVERFLOW, "", None)


def _words(site: Site) -> str:
    words = KINDS[site.kind].replace("_", " ")
    return f"{words} '{site.detail}'" if site.detail else words


def _shown(value: NodeValue, kind: types.Type) -> str:
    return f"error {value.code}: {value.error}" if value.code else value_text(value.value, kind)


def _cost_text(evaluated: Evaluated) -> str:
    kept, anew = evaluated.cost, evaluated.renewed
    if not kept.units and not anew.units:
        return "no work per node"
    text = f"{kept.units:.1f} ns a node and pod ({kept.nanoseconds(evaluated.nodes) / 1e3:.0f} us"
    text += f" for {evaluated.nodes:,} nodes)"
    if anew.units > kept.units:
        text += f"; {anew.units:.1f} ns where the node has changed"
    return text


def _tree(evaluated: Evaluated) -> Iterator[str]:
    rows = list(_rows_of(evaluated.text, evaluated.part, 0))
    width = min(60, max(len(text) for text, _ in rows))
    yield from (f"{text:<{width}}  {computed}" for text, computed in rows)


def _rows_of(text: str, part: language.CostPart, depth: int) -> Iterator[tuple[str, str]]:
    shown = " ".join(text[part.span.start : part.span.end].split())
    limit = 58 - 2 * depth
    if len(shown) > limit:
        shown = shown[: limit - 3] + "..."
    yield _INDENT * depth + shown, part.place.value
    for inner in part.parts:
        yield from _rows_of(text, inner, depth + 1)


def _part_document(text: str, part: language.CostPart) -> dict[str, Any]:
    return {
        "expression": text[part.span.start : part.span.end],
        "type": part.type,
        "computed": part.place.value,
        "perNode": round(part.cost.units, 2),
        "parts": [_part_document(text, inner) for inner in part.parts],
    }


SELECTOR: Final = "selector"
"""The name of the environment of selectors, in place of a section."""
_READS: Final = re.compile(
    r"\bdevice\.\??(?:driver|attributes|capacity|allowMultipleAllocations)\b"
)
#: Problems of a selector that an evaluated expression may have.
_OF_SELECTORS: Final = frozenset({"PS301", "PS503"})


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """The value for one device, or the words of its error."""

    device: DeviceId
    value: Any
    error: str = ""

    @property
    def shown(self) -> str:
        """The value as text."""
        if self.error:
            return f"error: {self.error}"
        return json.dumps(self.value, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class EvaluatedDevices:
    """An expression over devices: its type, what it costs at most, and its values."""

    text: str
    type: str
    cost: float
    values: tuple[DeviceValue, ...]

    def text_lines(self) -> Iterator[str]:
        """Yield the result as text."""
        yield f"type   {self.type}"
        yield f"cost   at most {self.cost:,.0f} units of CEL for a device"
        yield ""
        width = max((len(str(value.device)) for value in self.values), default=0)
        yield from (f"{value.device!s:<{width}}  {value.shown}" for value in self.values)
        yield ""
        if self.selects:
            yield f"{self.selected} of {len(self.values)} devices are selected"
        failed = Counter(value.error for value in self.values if value.error)
        if failed:
            whole = f"{sum(failed.values())} of {len(self.values)} devices have no value: "
            yield whole + ", ".join(f"{count} {error}" for error, count in failed.most_common())

    @property
    def selects(self) -> bool:
        """Whether all values are truth values, as those of a selector."""
        return all(isinstance(value.value, bool) for value in self.values if not value.error)

    @property
    def selected(self) -> int:
        """The number of devices for which the value is true."""
        return sum(value.value is True for value in self.values)

    def document(self) -> Document:
        """Return what was found out as plain data."""
        return {
            "expression": self.text,
            "type": self.type,
            "cost": {"perDevice": self.cost if self.cost < float("inf") else None, "unit": "CEL"},
            "selected": self.selected if self.selects else None,
            "values": [
                {
                    **_named(value.device),
                    **({"error": value.error} if value.error else _valued(value)),
                }
                for value in self.values
            ],
        }


def _named(device: DeviceId) -> dict[str, str]:
    return {"driver": device.driver, "pool": device.pool, "device": device.device}


def _valued(value: DeviceValue) -> dict[str, Any]:
    return {"value": value.value}


def evaluated_on_devices(text: str, slices: Iterable[ResourceSlice]) -> EvaluatedDevices:
    """Evaluate an expression for the devices of slices; of a pool the newest generation counts.

    Raises PolicyError with what is wrong with it, and PolicySchedError where there is no device.
    """
    selector = cel.compile_selector(text)
    where = Text(text, FILE)
    wrong = [problem for problem in selector.problems if problem.code not in _OF_SELECTORS]
    if wrong:
        raise PolicyError([diagnostic(problem, where) for problem in wrong])
    assert selector.tree is not None, "nothing is wrong with it"
    values = []
    for piece in _newest(slices):
        for device in piece.spec.devices:
            name = DeviceId(piece.spec.driver, piece.spec.pool.name, device.name)
            try:
                computed, _ = selector.value(as_record(piece.spec.driver, device))
                values.append(DeviceValue(name, cel.plain(computed)))
            except cel.CelError as error:
                values.append(DeviceValue(name, None, str(error)))
    if not values:
        raise PolicySchedError("there is no device: give ResourceSlices by --cluster")
    return EvaluatedDevices(
        text, str(selector.result), cel.estimated_cost(selector.tree), tuple(values)
    )


def _newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the newest generation of each pool, by driver, pool and name."""

    def pool(resource_slice: ResourceSlice) -> tuple[str, str]:
        return resource_slice.spec.driver, resource_slice.spec.pool.name

    listed = sorted(
        slices, key=lambda resource_slice: (*pool(resource_slice), resource_slice.metadata.name)
    )
    newest: dict[tuple[str, str], int] = {}
    for resource_slice in listed:
        newest[pool(resource_slice)] = max(
            newest.get(pool(resource_slice), 0), resource_slice.spec.pool.generation
        )
    return [
        resource_slice
        for resource_slice in listed
        if resource_slice.spec.pool.generation == newest[pool(resource_slice)]
    ]


def is_over_devices(text: str) -> bool:
    """Tell whether an expression reads a device."""
    return _READS.search(text) is not None
