"""Compiles the policies of profiles, each form of each policy once in a process.

A policy's form is its texts and its effective params; what it compiles to does not depend on any
cluster, so schedulers share it. A form with problems is compiled each time: where they stand
depends on the rest of the file.

A command that reads no policies of its own compiles the same rules as the one before it, so those
of the default profile are kept in a file for the next process. `KeptFile` is where they lie, and
says when they are read. The key of the file is a hash of the compiler: the versions of the program,
Python and NumPy, and the content of the packages that compiling depends on. In the file, each
policy has the hash of its content. So another compiler or another policy finds nothing. Whatever is
wrong with the file, the rules are compiled, and it is written again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from policy_sched import __version__
from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import CompiledPolicy
from policy_sched.language.diagnostics import PolicySource
from policy_sched.profiles.load import LIMIT, content_hash
from policy_sched.source import DIRECTORY, KeptFile, pickled, unpickled

Outcome = tuple[CompiledPolicy | None, tuple[Diagnostic, ...]]


class PluginHash(NamedTuple):
    """Hashes of a plugin: of all of its content, and of what may reject a pod."""

    whole: str
    rejecting: str


@dataclass(frozen=True, slots=True)
class _Form:
    """A policy's source; equal to every other one of the same content."""

    digest: str
    source: PolicySource = field(compare=False)


class _ProblemsError(Exception):
    """The policy has problems; ``outcome`` holds them."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def compiled(source: PolicySource, digest: str = "", *, kept: bool = False) -> Outcome:
    """Check and compile a policy; None if there are errors among the diagnostics.

    ``digest``: the `content_hash` of the source, if it is known. ``kept``: it is looked up in the
    rules cache, and kept there.
    """
    try:
        return _without_problems(_Form(digest or content_hash(source), source), kept=kept), ()
    except _ProblemsError as error:
        return error.outcome


@lru_cache(maxsize=LIMIT)
def _without_problems(form: _Form, *, kept: bool) -> CompiledPolicy:
    """Return a compiled policy. Raises _ProblemsError, which is not kept."""
    cache = rules_cache() if kept else None
    kept_policy = None if cache is None else cache.find(form.digest)
    if kept_policy is not None:
        return kept_policy
    policy, problems = _compile(form.source)
    if policy is None or problems:
        raise _ProblemsError((policy, problems))
    if cache is not None:
        cache.keep(form.digest, policy)
    return policy


def policy_hash(source: PolicySource) -> PluginHash:
    """Return the hashes of a policy; scores and the order of the queue reject no pod."""
    source = replace(source, measures=())  # they decide nothing
    placement = source.placement
    if placement is not None:
        placement = replace(placement, score=None, on_error=None)
    devices = source.devices
    if devices is not None:
        devices = replace(devices, score=None, score_on_error=None)
    rejecting = replace(
        source,
        score=None,
        queue_sort=(),
        queue_order=None,
        evict=None,
        placement=placement,
        devices=devices,
    )
    return PluginHash(content_hash(source), content_hash(rejecting))


def devices_hash(
    sources: Sequence[tuple[PolicySource, Sequence[tuple[str, int]]]],
) -> PluginHash | None:
    """Return the hashes of the ``devices`` sections of policies, None if none has one.

    With each policy come the points at which it is enabled, and its weights there.
    """
    hashed = []
    for source, enabled in sources:
        if source.devices is not None:
            given = PolicySource(
                name=source.name,
                params=source.params,
                inputs=source.inputs,
                functions=source.functions,
                variables=source.variables,
                match_conditions=source.match_conditions,
                devices=source.devices,
                cost_limit=source.cost_limit,
            )
            hashed.append((policy_hash(given), list(enabled)))
    if not hashed:
        return None
    whole = content_hash([(hashes.whole, enabled) for hashes, enabled in hashed])
    rejecting = content_hash([(hashes.rejecting, enabled) for hashes, enabled in hashed])
    return PluginHash(whole, rejecting)


def _compile(source: PolicySource) -> Outcome:
    # imported here: of rules that are kept, nothing is compiled
    from policy_sched.language import compile_policy  # noqa: PLC0415
    from policy_sched.language.check import check_policy  # noqa: PLC0415

    checked, problems = check_policy(source)
    if checked is None or _failed(problems):
        return None, tuple(sorted(problems))
    policy, more = compile_policy(checked)
    problems = [*problems, *more]
    return (None if _failed(problems) else policy), tuple(sorted(problems))


def _failed(problems: list[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in problems)


MOST: Final = 64
"""Policies in a file; the default profile has 11, and arguments of plugins make others of them."""
COMPILING: Final = ("language", "cluster", "model")
"""Packages on whose content the result of compiling depends."""
KIND: Final = "default-rules"
_SUFFIXES: Final = (".py", ".toml", ".lark")
_MODULES: Final = ("policy_sched.language.", "policy_sched.model.", "policy_sched.cluster.tables.")
_FUNCTIONS: Final = ("policy_sched.language.stdlib.builtins_", "policy_sched.model.")
_BUILTINS: Final = frozenset({"abs", "float", "len", "str"})
"""The builtin functions that are functions of rules."""


class RulesCache:
    """The kept policies of one process, by the hash of their content."""

    def __init__(self, directory: str) -> None:
        self._file = KeptFile(directory, KIND, program_hash())
        self._known: dict[str, CompiledPolicy] | None = None
        self._new = False

    def find(self, digest: str) -> CompiledPolicy | None:
        """Return a kept policy, None if there is none."""
        return self._policies().get(digest)

    def keep(self, digest: str, policy: CompiledPolicy) -> None:
        """Keep a policy; `save` writes it."""
        policies = self._policies()
        if digest not in policies and len(policies) < MOST:
            policies[digest] = policy
            self._new = True

    def save(self) -> None:
        """Write the file if there is something new."""
        if not self._new:
            return
        self._new = False
        with suppress(pickle.PicklingError):
            self._file.write(pickled(self._policies()))

    def _policies(self) -> dict[str, CompiledPolicy]:
        if self._known is None:
            self._known = _read(self._file)
        return self._known


@cache
def rules_cache() -> RulesCache | None:
    """Return the cache of this process, None if nothing is to be kept."""
    directory = os.environ.get(DIRECTORY, "")
    return RulesCache(directory) if directory else None


def program_hash() -> str:
    """Return a hash of what compiles rules."""
    digest = hashlib.sha256(f"{__version__} {sys.version} {np.__version__}".encode())
    root = Path(__file__).parents[2]
    for package in COMPILING:
        for folder, _, names in sorted(os.walk(root / package)):
            for name in sorted(names):
                if name.endswith(_SUFFIXES):
                    content = Path(folder, name).read_bytes()
                    digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:32]


def _read(file: KeptFile) -> dict[str, CompiledPolicy]:
    """Return the policies of a file; none if there is none, or one that is not to be trusted."""
    content = file.read()
    if content is None:
        return {}
    try:
        policies = unpickled(content, _is_expected)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the rules are compiled
        return {}
    if not isinstance(policies, dict):
        return {}
    return {key: policy for key, policy in policies.items() if isinstance(policy, CompiledPolicy)}


def _is_expected(module: str, name: str) -> bool:
    """Return whether compiled rules may name this: a class, an operation, a function of a rule."""
    if module == "builtins":
        return name in _BUILTINS
    if not module.startswith(_MODULES) or "." in name:
        return False
    value = getattr(sys.modules.get(module) or import_module(module), name, None)
    home = getattr(value, "__module__", "")
    if isfunction(value):
        return home == module and module.startswith(_FUNCTIONS)
    return home.startswith(_MODULES)
