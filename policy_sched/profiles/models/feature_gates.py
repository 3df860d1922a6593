"""Feature gates: their names, stages and defaults in kube-scheduler 1.36, and which can be set.

The table is in feature_gates.toml. A gate that cannot be set may be named with its default.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from policy_sched.profiles.models.problem import did_you_mean

GENERIC_WORKLOAD: Final = "GenericWorkload"
GANG_SCHEDULING: Final = "GangScheduling"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
GROUP_PREEMPTION: Final = "WorkloadAwarePreemption"


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """One gate: its stage (empty: GA), and whether it is on unless it is set.

    ``needs``: the gates without which it cannot be on.
    """

    stage: str
    on: bool
    settable: bool
    needs: tuple[str, ...]


FEATURE_GATES: Final[Mapping[str, FeatureGate]] = {
    name: FeatureGate(
        row["stage"],
        row.get("on", False),
        row.get("settable", False),
        tuple(row.get("needs", ())),
    )
    for name, row in tomllib.loads(
        Path(__file__).with_name("feature_gates.toml").read_text("utf-8")
    ).items()
}
"""Every gate that is known, by name."""


_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}


def enabled_gates(given: Mapping[str, bool]) -> frozenset[str]:
    """Return the settable gates that are on."""
    return frozenset(
        name for name, gate in FEATURE_GATES.items() if gate.settable and given.get(name)
    )


def settled_gates(enabled: frozenset[str]) -> dict[str, bool]:
    """Return the state of every settable gate."""
    return {name: name in enabled for name, gate in FEATURE_GATES.items() if gate.settable}


def gates_of(text: str) -> dict[str, bool]:
    """Return the gates of a flag: ``A=true,B=false``. Raises ValueError with upstream's words."""
    found = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        on = _BOOLEANS.get(value)
        if on is None:
            raise ValueError(f"invalid value of {name}={value}, err: must be true or false")
        found[name] = on
    return found


def gate_faults(given: Mapping[str, bool]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each gate that cannot be set so, why not, and a hint."""
    for name, on in given.items():
        gate = FEATURE_GATES.get(name)
        if gate is None:
            settable = [known for known, row in FEATURE_GATES.items() if row.settable]
            hint = did_you_mean(name, FEATURE_GATES) or f"known: {', '.join(settable)}"
            yield name, f"unrecognized feature gate: {name}", hint
        elif not gate.settable and on != gate.on:
            state = "on" if gate.on else "off"
            yield name, f"feature gate {name} is always {state} here", "remove it"
        elif on:
            missing = [need for need in gate.needs if not given.get(need)]
            if missing:
                text = f"{name} is enabled, but depends on features that are disabled: {missing}"
                yield name, text.replace("'", ""), f"set {missing[0]} to true"
