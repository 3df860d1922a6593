"""Evaluates one expression over the devices of a cluster, as a selector of a claim would."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.explain.evaluate import FILE
from policy_sched.language import cel
from policy_sched.language.check import diagnostic
from policy_sched.language.diagnostics import Text
from policy_sched.model import ResourceSlice
from policy_sched.plugins.dynamicresources import DeviceId, as_record
from policy_sched.report import Document

SELECTOR: Final = "selector"
"""What names the environment of selectors where a section is named."""
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
    for one in _newest(slices):
        for device in one.spec.devices:
            name = DeviceId(one.spec.driver, one.spec.pool.name, device.name)
            try:
                found, _ = selector.value(as_record(one.spec.driver, device))
                values.append(DeviceValue(name, cel.plain(found)))
            except cel.CelError as error:
                values.append(DeviceValue(name, None, str(error)))
    if not values:
        raise PolicySchedError("there is no device: give ResourceSlices by --cluster")
    return EvaluatedDevices(
        text, str(selector.result), cel.estimated_cost(selector.tree), tuple(values)
    )


def _newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the newest generation of each pool, by driver, pool and name."""

    def pool(one: ResourceSlice) -> tuple[str, str]:
        return one.spec.driver, one.spec.pool.name

    listed = sorted(slices, key=lambda one: (*pool(one), one.metadata.name))
    newest: dict[tuple[str, str], int] = {}
    for one in listed:
        newest[pool(one)] = max(newest.get(pool(one), 0), one.spec.pool.generation)
    return [one for one in listed if one.spec.pool.generation == newest[pool(one)]]


def is_over_devices(text: str) -> bool:
    """Tell whether an expression reads a device."""
    return _READS.search(text) is not None
