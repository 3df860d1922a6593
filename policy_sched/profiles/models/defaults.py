"""The default plugins of kube-scheduler 1.36, their order and weights, and its feature gates.

The tables are in plugins.toml and feature_gates.toml. A gate that cannot be set may be named with
its default.

The directories that ship with the package (policies, schemas, docs) are found here, too, in a
checkout and when installed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from policy_sched.model import Kind
from policy_sched.profiles.models.types import did_you_mean

_PACKAGE: Final = Path(__file__).resolve().parents[2]


def _shipped(name: str) -> Path:
    """Return the directory ``name``: inside the installed package, else beside it.

    FileNotFoundError if it is at neither place.
    """
    for parent in (_PACKAGE, _PACKAGE.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"the installation lacks its directory {name!r} (in {_PACKAGE})")


def policies_directory() -> Path:
    """Return the directory of the shipped policies; each policy is a folder in it."""
    return _shipped("policies")


def default_policies() -> Path:
    """Return the directory of the default profile's policies."""
    return policies_directory() / "default"


CONFIGURATION_FILE: Final = "kubeschedulerconfiguration.schema.json"
POLICY_FILE: Final = "policy.schema.json"
TEST_FILE: Final = "policytest.schema.json"
EXPERIMENT_FILE: Final = "experiment.schema.json"
PROOF_FILE: Final = "policyproof.schema.json"
ROLLOUT_FILE: Final = "rollout.schema.json"
"""Names of the schema files."""


def schemas_directory() -> Path:
    """Return the directory of the JSON Schemas."""
    return _shipped("schemas")


def docs_directory() -> Path:
    """Return the directory of the documentation's pages."""
    return _shipped("docs")


MULTI_POINT: Final = "multiPoint"

_PLUGINS: Final = tomllib.loads(Path(__file__).with_name("plugins.toml").read_text("utf-8"))

POINTS: Final[tuple[str, ...]] = tuple(_PLUGINS["points"])
"""Every extension point that a configuration names, in the order of a pod's way."""

POINT_TYPES: Final = {point: f"{point[0].upper()}{point[1:]}Plugin" for point in POINTS}
"""How upstream's messages call a point."""

DEFAULT_SCHEDULER: Final = "default-scheduler"

DEFAULT_PLUGINS: Final[tuple[tuple[str, int], ...]] = tuple(
    (name, row.get("weight", 0)) for name, row in _PLUGINS["default"].items()
)
"""multiPoint of the default profile; weight 0 is upstream's "not given", which counts as 1."""

PLUGIN_GATES: Final[dict[str, str]] = {name: row["gate"] for name, row in _PLUGINS["gated"].items()}
"""The plugins that need a feature gate, and the gate of each."""

PLUGIN_POINTS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(row["points"])
    for name, row in (_PLUGINS["default"] | _PLUGINS["gated"]).items()
}
"""Every plugin that kube-scheduler 1.36 ships, and the points that it implements."""

PLUGIN_READS: Final[dict[str, frozenset[Kind]]] = {
    name: frozenset(
        (version, kind) for version, _, kind in (text.rpartition("/") for text in texts)
    )
    for name, texts in _PLUGINS["reads"].items()
}
"""The kinds that plugins read besides nodes, namespaces and pods."""

REMOVED_PLUGINS: Final = frozenset(_PLUGINS["removed"])
"""Plugins that v1 of the configuration no longer has; NodeVolumeLimits does their work."""


def default_plugins(gates: Collection[str]) -> tuple[tuple[str, int], ...]:
    """Return multiPoint of the default profile where these feature gates are on."""
    gated = _PLUGINS["gated"].items()
    return (
        *DEFAULT_PLUGINS,
        *((name, row.get("weight", 0)) for name, row in gated if row["gate"] in gates),
    )


GENERIC_WORKLOAD: Final = "GenericWorkload"
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
GROUP_PREEMPTION: Final = "WorkloadAwarePreemption"


class FeatureGate(msgspec.Struct, frozen=True):
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
    gates = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise ValueError(f"missing bool value for {name}")
        on = _BOOLEANS.get(value)
        if on is None:
            raise ValueError(f"invalid value of {name}={value}, err: must be true or false")
        gates[name] = on
    return gates


def gate_faults(given: Mapping[str, bool]) -> Iterator[tuple[str, str, str]]:
    """Yield the name of each gate that cannot be set so, why not, and a hint."""
    for name, on in given.items():
        gate = FEATURE_GATES.get(name)
        if gate is None:
            settable = [name for name, row in FEATURE_GATES.items() if row.settable]
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
