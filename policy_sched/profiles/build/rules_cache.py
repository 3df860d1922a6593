"""Keeps the compiled rules of the default profile in a file, for the next process.

Theory of operation. A command that reads no policies of its own compiles the same rules as the one
before it. `KeptFile` is where they lie, and says when they are read. The key of the file is a hash
of the compiler: the versions of the program, Python and NumPy, and the content of the packages that
compiling depends on. In the file, each policy has the hash of its content. So another compiler or
another policy finds nothing. Whatever is wrong with the file, the rules are compiled, and it is
written again.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Final

import numpy as np

from policy_sched import __version__, source
from policy_sched.language import CompiledPolicy

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
        self._file = source.KeptFile(directory, KIND, program_hash())
        self._known: dict[str, CompiledPolicy] | None = None
        self._new = False

    def find(self, digest: str) -> CompiledPolicy | None:
        """Return a kept policy, None if there is none."""
        return self._policies().get(digest)

    def keep(self, digest: str, policy: CompiledPolicy) -> None:
        """Keep a policy; `save` writes it."""
        known = self._policies()
        if digest not in known and len(known) < MOST:
            known[digest] = policy
            self._new = True

    def save(self) -> None:
        """Write the file if there is something new."""
        if not self._new:
            return
        self._new = False
        with suppress(pickle.PicklingError):
            self._file.write(source.pickled(self._policies()))

    def _policies(self) -> dict[str, CompiledPolicy]:
        if self._known is None:
            self._known = _read(self._file)
        return self._known


@cache
def rules_cache() -> RulesCache | None:
    """Return the cache of this process, None if nothing is to be kept."""
    directory = os.environ.get(source.DIRECTORY, "")
    return RulesCache(directory) if directory else None


def program_hash() -> str:
    """Return a hash of what compiles rules."""
    found = hashlib.sha256(f"{__version__} {sys.version} {np.__version__}".encode())
    root = Path(__file__).parents[2]
    for package in COMPILING:
        for folder, _, names in sorted(os.walk(root / package)):
            for name in sorted(names):
                if name.endswith(_SUFFIXES):
                    content = Path(folder, name).read_bytes()
                    found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()[:32]


def _read(file: source.KeptFile) -> dict[str, CompiledPolicy]:
    """Return the policies of a file; none if there is none, or one that is not to be trusted."""
    content = file.read()
    if content is None:
        return {}
    try:
        found = source.unpickled(content, _is_expected)
    except Exception:  # noqa: BLE001 - whatever is wrong with it, the rules are compiled
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: one for key, one in found.items() if isinstance(one, CompiledPolicy)}


def _is_expected(module: str, name: str) -> bool:
    """Return whether compiled rules may name this: a class, an operation, a function of a rule."""
    if module == "builtins":
        return name in _BUILTINS
    if not module.startswith(_MODULES) or "." in name:
        return False
    found = getattr(sys.modules.get(module) or import_module(module), name, None)
    home = getattr(found, "__module__", "")
    if isfunction(found):
        return home == module and module.startswith(_FUNCTIONS)
    return home.startswith(_MODULES)
