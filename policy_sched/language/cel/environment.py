"""The environment of selectors: the device, and the functions of Kubernetes' CEL.

Functions that policies have, too, are the rule language's rows of functions.toml, except what
Kubernetes leaves out; the others are in functions.toml beside this file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from policy_sched.language.cel.types import ANY, fits, substituted
from policy_sched.language.stdlib import (
    Environment,
    Overload,
    policy_environment,
    read_environment,
    read_overloads,
)
from policy_sched.language.values import Type

_FOLDER: Final = Path(__file__).parent
#: Groups, and functions by id, of Kubernetes' CEL that upstream does not turn on for devices.
_LEFT_OUT: Final = frozenset(
    {"Math", "reverse_string", "optional_unwrap_list", "unwrapOpt_list", "sign_quantity"}
)
#: What compiles where it is stored already, and kube-apiserver 1.36 refuses in new objects.
STORED_ONLY: Final = frozenset({"includes"})


@cache
def selector_environment() -> Environment:
    """Return the environment of selectors over devices."""
    document = tomllib.loads((_FOLDER / "environment.toml").read_text(encoding="utf-8"))
    own = tomllib.loads((_FOLDER / "functions.toml").read_text(encoding="utf-8"))
    return read_environment(document, _overloads(own, document["records"]))


def _overloads(
    own: Mapping[str, Mapping[str, Mapping[str, Any]]], records: Collection[str]
) -> Iterator[Overload]:
    for one in policy_environment().overloads:
        if not one.ext and _LEFT_OUT.isdisjoint((one.group, one.id)):
            yield one
    yield from read_overloads(own, records)


@cache
def namespaces() -> frozenset[str]:
    """Return what may stand before the dot of a function's name, types apart."""
    environment = selector_environment()
    found = {name.split(".")[0] for name in environment.functions if "." in name}
    return frozenset(found - environment.functions.keys())


def choose(candidates: Sequence[Overload], args: Sequence[Type]) -> tuple[Overload, Type] | None:
    """Return the first overload that takes the arguments, and the type of the call.

    The type is ``any`` where several overloads take them, with different results.
    """
    found: list[tuple[Overload, Type]] = []
    for one in candidates:
        bound: dict[str, Type] = {}
        if len(args) == len(one.params) and all(
            fits(param, arg, bound) for param, arg in zip(one.params, args, strict=True)
        ):
            found.append((one, substituted(one.result, bound)))
    if not found:
        return None
    first, result = found[0]
    return first, result if all(kind == result for _, kind in found) else ANY
