"""The state of the checker: definitions, the section's names, macro variables, problems."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from policy_sched.language.diagnostics import Problem
from policy_sched.language.stdlib import Environment, Section
from policy_sched.language.syntax import Const, Core, Node, Span, UserFunction
from policy_sched.language.values import ERROR, RecordType, Type, join


@dataclass(frozen=True, slots=True)
class Definition:
    """A variable or function of the policy after its check.

    ``index`` is its place in its list; ``reads`` are the names of the environment that it reads,
    also through others: ``node``, ``podGroup.members``, ``variables.x``. ``type`` is the value's,
    ``elements`` how many elements of literals it has, ``depth`` how deep its tree is.
    """

    name: str
    index: int
    type: Type
    reads: frozenset[str]
    params: tuple[Type, ...] = ()
    function: UserFunction | None = None
    elements: int = 0
    depth: int = 0


@dataclass(slots=True)
class Definitions:
    """The environment, and what a policy defines besides.

    ``declared_...`` also list what is not checked yet, by its index. ``scores`` are the types of
    `score` and `scores` where the raw score is a double.
    """

    environment: Environment
    params: RecordType
    variables: dict[str, Definition] = field(default_factory=dict)
    functions: dict[str, Definition] = field(default_factory=dict)
    declared_variables: Mapping[str, int] = field(default_factory=dict)
    declared_functions: Mapping[str, int] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=itertools.count)
    scores: Mapping[str, Type] = field(default_factory=dict)


@dataclass(slots=True)
class Unit:
    """One expression under check: what it may read, and what was found so far.

    ``before_variable`` and ``before_function`` bound what may be used in a definition: only what
    stands before it in its own list. ``elements`` are those of literals in the value.
    """

    definitions: Definitions
    section: Section
    infer: Callable[[Node, Scope], Core]
    before_variable: int | None = None
    before_function: int | None = None
    problems: list[Problem] = field(default_factory=list)
    elements: int = 0
    depth: int = 0
    reads: set[str] = field(default_factory=set)
    macros: int = 0


@dataclass(frozen=True, slots=True)
class Local:
    """A macro variable, or a function's parameter: its unique name and its type."""

    unique: str
    type: Type


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that are visible at one place of an expression."""

    unit: Unit
    locals: Mapping[str, Local] = field(default_factory=dict)
    nesting: int = 0

    @property
    def environment(self) -> Environment:
        """What expressions may name besides the policy's own definitions."""
        return self.unit.definitions.environment

    def infer(self, node: Node) -> Core:
        """Return the typed tree of ``node``, of type ERROR if a problem was reported."""
        return self.unit.infer(node, self)

    def report(self, code: str, span: Span, message: str, hint: str = "") -> None:
        """Report a problem of the text at ``span``."""
        self.unit.problems.append(Problem(span.start, span.end, code, message, hint))

    def wrong(self, code: str, span: Span, message: str, hint: str = "") -> Core:
        """Report a problem and return a tree that silences its consequences."""
        self.report(code, span, message, hint)
        return silent(span)

    def bind(self, *names: tuple[str, Type], nesting: int = 0) -> tuple[Scope, tuple[str, ...]]:
        """Return the scope in which ``names`` are variables, and their unique names."""
        fresh = self.unit.definitions.fresh
        added = {name: Local(f"{name}#{next(fresh)}", kind) for name, kind in names}
        inner = dataclasses.replace(
            self, locals={**self.locals, **added}, nesting=self.nesting + nesting
        )
        return inner, tuple(added[name].unique for name, _ in names)

    def require(self, tree: Core, expected: Type, what: str) -> bool:
        """Tell whether the tree's type is ``expected``; report PS203 if not."""
        if join(tree.type, expected) is not None:
            return tree.type != ERROR
        self.report("PS203", tree.span, f"{what}: expected {expected}, found {tree.type}")
        return False

    def read(self, names: frozenset[str], span: Span, what: str) -> bool:
        """Note that the expression reads ``names``; report those that its section does not see.

        ``what`` begins the sentence, such as "function `cap` reads". False if any was reported.
        """
        self.unit.reads |= names
        section = self.unit.section
        for name in sorted(names):
            root = name.partition(".")[0]
            if section.name == "queueSort" and unstable(name):
                self.report(*unstable_key(name, span, what))
                return False
            if root not in section.visible:
                where = ", ".join(self.environment.sections_with(root)) or "no section"
                message = f"{what} `{root}`, which is not available in {section.name}"
                self.report("PS104", span, message, f"`{root}` is available in {where}")
                return False
        return True


def silent(span: Span) -> Core:
    """Return the tree of an error that is already reported."""
    return Const(value=None, type=ERROR, span=span)


def unstable(name: str) -> bool:
    """Tell whether what is read under ``name`` may change while a pod waits in the queue."""
    root, _, part = name.partition(".")
    return root == "now" or (root == "podGroup" and part in ("members", "scheduled", "waiting"))


def unstable_key(name: str, span: Span, what: str) -> tuple[str, Span, str, str]:
    """Return the problem PS313 for a sort key that reads ``name``."""
    message = f"{what} `{name}`, which changes while a pod waits: a sort key must not"
    return "PS313", span, message, "use queue.enqueuedAt, or podGroup.name and podGroup.minCount"
