"""Scopes: what names mean where an expression stands, and the checks of names.

A scope has the policy's definitions, the section's names, the macro variables and the problems so
far. Names are variables, fields, keys and indexes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from policy_sched.errors import nearest
from policy_sched.language.diagnostics import Problem, did_you_mean
from policy_sched.language.stdlib import Environment, Section
from policy_sched.language.syntax import Span, ast
from policy_sched.language.values import types


def undeclared(name: str) -> str:
    """Return the message of a name that means nothing."""
    return f"undeclared reference to '{name}' (in container '')"


def mismatch(wanted: types.Type, actual: types.Type, sign: str = "") -> str:
    """Return the message of a value of another type than ``wanted``, in the operator ``sign``."""
    where = f" in '{sign}'" if sign else ""
    return f"expected type '{types.cel_name(wanted)}' but found '{types.cel_name(actual)}'{where}"


def no_overload(name: str, kinds: Sequence[types.Type], *, method: bool = False) -> str:
    """Return the message of a call that no overload takes."""
    applied = [types.cel_name(kind) for kind in kinds]
    receiver = f"{applied.pop(0)}." if method else ""
    return f"found no matching overload for '{name}' applied to '{receiver}({', '.join(applied)})'"


class Counted(msgspec.Struct, frozen=True):
    """The types of `aggregates` and `quotas` in a policy."""

    aggregates: types.RecordType = types.RecordType("aggregates")
    quotas: types.RecordType = types.RecordType("quotas")


NOTHING_COUNTED: Final = Counted()


class Definition(msgspec.Struct, frozen=True):
    """A variable or function of the policy after its check.

    ``index`` is its place in its list; ``reads`` are the names of the environment that it reads,
    also through others: ``node``, ``podGroup.members``, ``variables.x``. ``type`` is the value's,
    ``elements`` how many elements of literals it has, ``depth`` how deep its tree is.
    """

    name: str
    index: int
    type: types.Type
    reads: frozenset[str]
    params: tuple[types.Type, ...] = ()
    function: ast.UserFunction | None = None
    elements: int = 0
    depth: int = 0


_NOW: Final = frozenset({"now"})
_DECAYS: Final = "an aggregate with halfLife reads"
_NO_INPUTS: Final = types.RecordType("inputs")


@dataclass(slots=True)
class Definitions:
    """The environment, and what a policy defines besides.

    ``declared_...`` also list what is not checked yet, by its index. ``scores`` are the types of
    `score` and `scores` where the raw score is a double, and of `object`. ``inputs`` has the type
    of each input, ``objects`` the record types of their objects and of the parts, by name.
    """

    environment: Environment
    params: types.RecordType
    inputs: types.RecordType = _NO_INPUTS
    variables: dict[str, Definition] = field(default_factory=dict)
    functions: dict[str, Definition] = field(default_factory=dict)
    declared_variables: Mapping[str, int] = field(default_factory=dict)
    declared_functions: Mapping[str, int] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=itertools.count)
    scores: Mapping[str, types.Type] = field(default_factory=dict)
    objects: Mapping[str, types.ObjectType] = field(default_factory=dict)
    counted: Counted = NOTHING_COUNTED
    parts: set[str] = field(default_factory=set)
    """Fields of inputs' objects that are read; see `as_read`."""


@dataclass(slots=True)
class Unit:
    """One expression under check: what it may read, and what was found so far.

    ``before_variable`` and ``before_function`` bound what may be used in a definition: only what
    stands before it in its own list. ``elements`` are those of literals in the value. ``refusals``
    are cel-go's messages of the problems that it has, too, each with its place.
    """

    definitions: Definitions
    section: Section
    infer: Callable[[ast.Node, Scope], ast.Core]
    before_variable: int | None = None
    before_function: int | None = None
    problems: list[Problem] = field(default_factory=list)
    refusals: list[tuple[int, str]] = field(default_factory=list)
    elements: int = 0
    depth: int = 0
    reads: set[str] = field(default_factory=set)
    macros: int = 0


class Local(msgspec.Struct, frozen=True):
    """A macro variable, or a function's parameter: its unique name and its type."""

    unique: str
    type: types.Type


class Scope(msgspec.Struct, frozen=True):
    """The names that are visible at one place of an expression."""

    unit: Unit
    locals: Mapping[str, Local] = msgspec.field(default_factory=dict)
    nesting: int = 0

    @property
    def environment(self) -> Environment:
        """What expressions may name besides the policy's own definitions."""
        return self.unit.definitions.environment

    def infer(self, node: ast.Node) -> ast.Core:
        """Return the typed tree of ``node``, of type ERROR if a problem was reported."""
        return self.unit.infer(node, self)

    def report(
        self, code: str, span: Span, message: str, hint: str = "", *, cel: str = "", at: int = -1
    ) -> None:
        """Report a problem of the text at ``span``; ``cel`` is cel-go's message of it.

        cel-go places it at ``at``, at the start of ``span`` unless given.
        """
        self.unit.problems.append(Problem(span.start, span.end, code, message, hint))
        if cel:
            self.unit.refusals.append((span.start if at < 0 else at, cel))

    def wrong(
        self, code: str, span: Span, message: str, hint: str = "", *, cel: str = "", at: int = -1
    ) -> ast.Core:
        """Report a problem and return a tree that silences its consequences."""
        self.report(code, span, message, hint, cel=cel, at=at)
        return silent(span)

    def unsupported(self, name: str, span: Span, at: int = -1) -> ast.Core:
        """Report a name of CEL that the environment leaves out."""
        message, hint = self.environment.unsupported[name]
        return self.wrong("PS014", span, message, hint, cel=undeclared(name), at=at)

    def bind(
        self, *names: tuple[str, types.Type], nesting: int = 0
    ) -> tuple[Scope, tuple[str, ...]]:
        """Return the scope in which ``names`` are variables, and their unique names."""
        fresh = self.unit.definitions.fresh
        added = {name: Local(f"{name}#{next(fresh)}", kind) for name, kind in names}
        inner = msgspec.structs.replace(
            self, locals={**self.locals, **added}, nesting=self.nesting + nesting
        )
        return inner, tuple(added[name].unique for name, _ in names)

    def require(self, tree: ast.Core, expected: types.Type, what: str, sign: str = "") -> bool:
        """Return whether the tree's type is ``expected``; report PS203 if not.

        ``sign`` is cel-go's name of the operator whose argument it is.
        """
        if types.join(tree.type, expected) is not None:
            return tree.type != types.ERROR
        message = f"{what}: expected {expected}, found {tree.type}"
        self.report("PS203", tree.span, message, cel=mismatch(expected, tree.type, sign))
        return False

    def read_whole(self, kind: types.Type) -> None:
        """Note that every field of a value counts, if it is of an object of an input."""
        if isinstance(kind, types.ObjectType):
            self.unit.definitions.parts.add(f"{kind.name}.*")

    def read(self, names: frozenset[str], span: Span, what: str) -> bool:
        """Note that the expression reads ``names``; report those that its section does not see.

        ``what`` begins the sentence, such as "function `cap` reads". False if any was reported.
        """
        self.unit.reads |= names
        section = self.unit.section
        for name in sorted(names):
            root = name.partition(".")[0]
            if section.name in ORDERS and unstable(name):
                self.report(*unstable_key(name, span, what))
                return False
            if root == "pod" and root not in section.visible and section.name in ORDERS:
                self.report(*_of_the_pod(span, what))
                return False
            if root not in section.visible and section.name.startswith("aggregates."):
                self.report(*_not_counted(root, span, what, section))
                return False
            if root not in section.visible:
                where = ", ".join(self.environment.sections_with(root)) or "no section"
                message = f"{what} `{root}`, which is not available in {section.name}"
                self.report("PS104", span, message, f"`{root}` is available in {where}")
                return False
        return True


def silent(span: Span) -> ast.Core:
    """Return the tree of an error that is already reported."""
    return ast.Const(value=None, type=types.ERROR, span=span)


#: What changes of a group as its pods come, go and are tried; `failedAt` moves only on, and a
#: pod that comes up in the queue is sorted anew by it.
_MOVING = frozenset(
    {
        *("members", "scheduled", "waiting", "gated", "requested"),
        *("waitingSince", "triedSince", "failures"),
    }
)


def _not_counted(name: str, span: Span, what: str, section: Section) -> tuple[str, Span, str, str]:
    """Return the problem PS811 for an aggregate that reads ``name``."""
    if section.name == "aggregates.since":
        message = f"{what} `{name}`: `since` is a moment for all pods of a key"
        return "PS811", span, message, "read `key`, and objects of inputs"
    message = f"{what} `{name}`: an aggregate counts when a pod comes or goes, by the pod alone"
    hint = _INSTEAD.get(name, "read `pod`, which is the counted pod, and its `node`")
    return "PS811", span, message, hint


_INSTEAD: Final = {
    "now": "compare with `now` in the rule that reads the aggregate",
    "node": "pods that wait are on no node: leave it out, or count `of: [bound]`",
    "key": "`since` alone reads it: write what `by` says",
    "queue": "only pods that wait have it: write `of: [queued]`, or `of: [queued, gated]`",
}
"""What to do instead of reading a name in an aggregate."""


ORDERS: Final = frozenset({"queueSort", "queueOrder.by", "queueOrder.keys", "queueOrder.strict"})
"""The sections that order pods, or queues of them."""


def _of_the_pod(span: Span, what: str) -> tuple[str, Span, str, str]:
    """Return the problem PS831 for a rule about a queue that reads `pod`."""
    message = f"{what} `pod`: a queue is compared by its first pod, which is `head`"
    hint = "write head.requests, head.priority or head.enqueuedAt; queueSort orders pods"
    return "PS831", span, message, hint


def unstable(name: str) -> bool:
    """Return whether what is read under ``name`` may change while a pod waits in the queue."""
    root, _, part = name.partition(".")
    return root == "now" or (root == "podGroup" and part in _MOVING)


def unstable_key(name: str, span: Span, what: str) -> tuple[str, Span, str, str]:
    """Return the problem PS313 for a sort key that reads ``name``."""
    message = f"{what} `{name}`, which changes while a pod waits: a sort key must not"
    return "PS313", span, message, "use queue.enqueuedAt, or podGroup.name and podGroup.minCount"


#: Levels of an API object that records leave out.
_API_LEVELS = frozenset({"spec", "status", "metadata"})


def ident(node: ast.Ident, scope: Scope) -> ast.Core:
    """Check a bare name."""
    name, variables = node.name, scope.environment.variables
    section = scope.unit.section
    if name in scope.locals:
        local = scope.locals[name]
        return ast.Var(name=local.unique, type=local.type, span=node.span)
    if name == "params" and name in section.visible:
        return ast.Var(name=name, type=scope.unit.definitions.params, span=node.span)
    if name == "variables" and name in section.visible:
        hint = "write `variables.` and a name"
        return scope.wrong("PS101", node.span, "`variables` is not a value by itself", hint)
    inputs = scope.unit.definitions.inputs
    if name == "inputs" and name in section.visible and inputs.fields:
        scope.unit.reads.add(name)
        return ast.Var(name=name, type=inputs, span=node.span)
    if name in variables and name in section.visible:
        scope.unit.reads.add(name)
        kind = scope.unit.definitions.scores.get(name, variables[name].type)
        counted = scope.unit.definitions.counted
        if name in ("aggregates", "quotas"):
            kind = getattr(counted, name)
        elif name in ("quota", "victimQuota"):
            if not counted.quotas.fields:
                message = f"`{name}` needs an entry of `quotas`, and the policy has none"
                return scope.wrong("PS101", node.span, message, "write spec.quotas")
            kind = counted.quotas.fields[0][1]
        return ast.Var(name=name, type=kind, span=node.span)
    if name in variables and name not in scope.environment.habits:
        if section.name in ORDERS and unstable(name):
            return scope.wrong(*unstable_key(name, node.span, "the key reads"))
        if section.name in ORDERS and name == "pod":
            return scope.wrong(*_of_the_pod(node.span, "the rule reads"))
        if section.name.startswith("aggregates."):
            return scope.wrong(*_not_counted(name, node.span, "the aggregate reads", section))
        where = ", ".join(scope.environment.sections_with(name))
        message = f"`{name}` is not available in {section.name}"
        return scope.wrong("PS104", node.span, message, f"it is available in {where}")
    return _unknown_name(node, scope)


def _unknown_name(node: ast.Ident, scope: Scope) -> ast.Core:
    name, definitions, environment = node.name, scope.unit.definitions, scope.environment
    variables = environment.variables.keys()
    hint = ""
    if name in environment.type_names:
        if environment.dynamic:
            return ast.Var(name=name, type=types.TYPE, span=node.span)
        message = f"the type `{name}` as a value is CEL, but not part of rules"
        return scope.wrong("PS014", node.span, message)
    if name in environment.unsupported:
        return scope.unsupported(name, node.span)
    visible = {*scope.locals, *(scope.unit.section.visible & {*variables, "params", "variables"})}
    if name in definitions.declared_variables:
        hint = f"write `variables.{name}`"
    elif name in dict(definitions.params.fields):
        hint = f"write `params.{name}`"
    elif name in environment.functions or name in definitions.declared_functions:
        hint = f"`{name}` is a function: call it"
    elif name in environment.habits and nearest(name, visible) is None:
        hint = f"write `{environment.habits[name]}`"
    elif name in environment.elsewhere:
        hint = environment.elsewhere[name]
    message = f"no variable is called `{name}`"
    if name == "inputs":
        message, hint = "the policy has no inputs", "declare them in spec.inputs"
        if definitions.inputs.fields:
            where = ", ".join(environment.sections_with(name))
            message = f"`inputs` is not available in {scope.unit.section.name}"
            return scope.wrong("PS104", node.span, message, f"it is available in {where}")
    if not hint:
        close = did_you_mean(name, visible) or did_you_mean(
            name, {*variables, *definitions.declared_variables}
        )
        message += close
        if not close:
            candidates = [
                f"`{v}.{name}`" for v in sorted(visible & variables) if _has(v, name, environment)
            ]
            counted = definitions.counted
            absent = set() if counted.aggregates.fields else {"aggregates"}
            absent |= set() if counted.quotas.fields else {"quotas", "quota", "victimQuota"}
            hint = f"visible here: {', '.join(sorted(visible - absent))}"
            hint = f"write one of {', '.join(candidates)}" if candidates else hint
    return scope.wrong("PS101", node.span, message, hint, cel=undeclared(name))


def _has(variable: str, field: str, environment: Environment) -> bool:
    return field in (environment.fields_of(environment.variables[variable].type) or {})


def select(node: ast.Select, scope: Scope) -> ast.Core:
    """Check ``operand.name`` and ``operand.?name``."""
    operand = node.operand
    if isinstance(operand, ast.Ident) and operand.name not in scope.locals:
        environment = scope.environment
        if operand.name == "variables" and operand.name in scope.unit.section.visible:
            return _variable(node, scope)
        if operand.name in environment.namespaces and operand.name not in environment.variables:
            functions = environment.functions
            message = f"`{operand.name}.{node.name}` is a function's name, not a value"
            names = [f for f in functions if f.startswith(f"{operand.name}.")]
            full = f"{operand.name}.{node.name}"
            close = did_you_mean(full, names) if full not in functions else ""
            return scope.wrong("PS101", node.span, message + close, cel=undeclared(operand.name))
    return select_from(scope.infer(operand), node, scope)


def _variable(node: ast.Select, scope: Scope) -> ast.Core:
    name, unit = node.name, scope.unit
    declared = unit.definitions.declared_variables
    if name not in declared:
        message = f"no variable is called `variables.{name}`{did_you_mean(name, declared)}"
        if name in dict(unit.definitions.params.fields):
            return scope.wrong("PS101", node.name_span, message, f"write `params.{name}`")
        return scope.wrong("PS101", node.name_span, message)
    limit = unit.before_variable
    variable = unit.definitions.variables.get(name)
    if variable is None or (limit is not None and declared[name] >= limit):
        own = limit is not None and declared[name] == limit
        message = f"variable `{name}` is used before its definition"
        if own or (limit is None and variable is None):
            message = f"variable `{name}` is defined by itself"
        return scope.wrong("PS110", node.span, message, "variables are read in order")
    reads = variable.reads | {f"variables.{name}"}
    if not scope.read(reads, node.span, f"variable `{name}` reads"):
        return silent(node.span)
    tree: ast.Core = ast.Var(name=f"variables.{name}", type=variable.type, span=node.span)
    return _present(tree, node) if node.optional else tree


def select_from(operand: ast.Core, node: ast.Select, scope: Scope) -> ast.Core:
    """Check the selection of ``node.name`` from an operand that is typed already."""
    kind = operand.type
    if kind == types.ERROR:
        return silent(node.span)
    key = ast.Const(value=node.name, type=types.STRING, span=node.name_span)
    if kind == types.DYN or (kind == types.UNKNOWN and scope.environment.dynamic):
        result: types.Type = types.optional_of(types.DYN) if node.optional else types.DYN
        return ast.Field(operand=operand, name=node.name, type=result, span=node.span)
    if kind == types.UNKNOWN:
        return _field_of_unknown(operand, node, scope)
    if isinstance(kind, types.OptionalType):
        return _through_optional(operand, kind.element, node, scope)
    if kind == types.RESOURCES or isinstance(kind, types.MapType):
        value = _value_type(kind, key, scope)
        if value is None:
            return silent(node.span)
        result = types.optional_of(value) if node.optional else value
        return ast.Index(
            operand=operand, index=key, optional=node.optional, type=result, span=node.span
        )
    if isinstance(kind, types.InputType):
        return _of_input(operand, kind, node, scope)
    if isinstance(kind, types.AggregateType) and node.name == "total":
        seen = not kind.decays or scope.read(_NOW, node.span, _DECAYS)
        kind = kind.value if seen else types.ERROR
        return ast.Field(operand=operand, name=node.name, type=kind, span=node.span)
    if isinstance(kind, types.QuotaType) and kind.object is not None and node.name == "object":
        tree = ast.Field(operand=operand, name=node.name, type=kind.object, span=node.span)
        return _present(tree, node) if node.optional else tree
    field_type = _field_type(kind, node, scope)
    if field_type is None:
        return silent(node.span)
    if isinstance(operand, ast.Var) and operand.name in scope.environment.variables:
        full = f"{operand.name}.{node.name}"
        scope.unit.reads.add(full)
        if scope.unit.section.name in ORDERS and unstable(full):
            return scope.wrong(*unstable_key(full, node.span, "the key reads"))
    if isinstance(kind, types.ObjectType):
        scope.unit.definitions.parts.add(f"{kind.name}.{node.name}")
        if node.optional:
            scope.read_whole(field_type)
    tree = ast.Field(operand=operand, name=node.name, type=field_type, span=node.span)
    return _present(tree, node) if node.optional else tree


def _of_input(operand: ast.Core, kind: types.InputType, node: ast.Select, scope: Scope) -> ast.Core:
    """Check ``inputs.NAME.root``: what a polled answer says beside its items."""
    if node.name == "root" and kind.root is not None:
        tree = ast.Field(operand=operand, name="root", type=kind.root, span=node.span)
        return _present(tree, node) if node.optional else tree
    message = f"{kind} has no field '{node.name}'"
    hint = f"write {kind}[?KEY].optMap(o, o.{node.name}...), with the key of an object"
    if node.name == "root":
        hint = "only what is polled from a url has one"
    return scope.wrong("PS103", node.name_span, message, hint)


def _field_of_unknown(operand: ast.Core, node: ast.Select, scope: Scope) -> ast.Core:
    """Check a field of a value whose type only params determine, as of an element of ``[]``."""
    if types.is_known(scope.unit.definitions.params):
        message = f"the type of the value whose field '{node.name}' this is cannot be inferred"
        hint = "write an element, or an optional.of(...), that shows the type"
        return scope.wrong("PS205", node.name_span, message, hint)
    return ast.Field(operand=operand, name=node.name, type=types.UNKNOWN, span=node.span)


def _present(tree: ast.Core, node: ast.Select) -> ast.Core:
    """``record.?field``: as CEL, nothing where the field has its zero value."""
    kind = types.optional_of(tree.type)
    return ast.Call(overload="optional_ofNonZeroValue_any", args=(tree,), type=kind, span=node.span)


def _through_optional(
    operand: ast.Core, inside: types.Type, node: ast.Select, scope: Scope
) -> ast.Core:
    """``optional.field``: the field where there is a value, and nothing where there is none."""
    if inside == types.RESOURCES or isinstance(inside, types.MapType):
        key = ast.Const(value=node.name, type=types.STRING, span=node.name_span)
        value = _value_type(inside, key, scope)
        if value is None:
            return silent(node.span)
        return ast.Index(
            operand=operand, index=key, optional=True, type=types.optional_of(value), span=node.span
        )
    inner, (unique,) = scope.bind(("it", inside))
    body = select_from(ast.Var(name=unique, type=inside, span=operand.span), node, inner)
    if body.type == types.ERROR:
        return body
    nested = isinstance(body.type, types.OptionalType)
    return ast.Macro(
        kind="optFlatMap" if nested else "optMap",
        operand=operand,
        names=(unique,),
        body=body,
        type=body.type if nested else types.optional_of(body.type),
        span=node.span,
    )


def _field_type(kind: types.Type, node: ast.Select, scope: Scope) -> types.Type | None:
    fields = scope.environment.fields_of(kind)
    name = node.name
    if fields is None:
        _no_fields(kind, node, scope)
        return None
    if name in fields:
        return fields[name]
    what = kind.name if isinstance(kind, types.RecordType) and not kind.fields else "the record"
    if isinstance(node.operand, ast.Ident) and node.operand.name == "params":
        what = "params"
    message = f"{what} has no field '{name}'{did_you_mean(name, fields)}"
    hint, at = "", _before_dot(node)
    if isinstance(kind, types.ObjectType):
        _no_such_part(kind, node, scope)
        return None
    if kind == scope.unit.definitions.inputs and isinstance(node.operand, ast.Ident):
        message = f"no input is called '{name}'{did_you_mean(name, fields)}"
        scope.report("PS101", node.name_span, message, f"declared: {', '.join(fields)}")
        return None
    if name in _API_LEVELS:
        hint = "records have no spec, status or metadata: write the field directly"
    elif name in scope.environment.methods:
        hint = f"`{name}` is a method: write `.{name}(...)`"
    elif not did_you_mean(name, fields):
        hint = f"its fields: {', '.join(fields)}" if fields else "it has no fields at all"
        if isinstance(node.operand, ast.Ident) and node.operand.name in ("aggregates", "quotas"):
            hint = "" if fields else f"the policy has none: write spec.{node.operand.name}"
            hint = hint or f"declared: {', '.join(fields)}"
    cel = f"undefined field '{name}'"
    scope.report("PS102", node.name_span, message, hint, cel=cel, at=at)
    return None


def _no_such_part(kind: types.ObjectType, node: ast.Select, scope: Scope) -> None:
    """Report a field that objects of an input have not, or that has no type."""
    name, fields = node.name, dict(kind.fields)
    if name in kind.untyped:
        path = ".".join([*kind.name.split(".")[2:], name])
        message = f"the schema does not state the type of {kind}.{name}"
        hint = f"state it in the input: `fields: {{{path}: TYPE}}`"
        scope.report("PS803", node.name_span, message, hint)
        return
    close = did_you_mean(name, (*fields, *kind.untyped))
    hint = "" if close else f"its fields: {', '.join(fields)}"
    if name == "metadata":
        hint = "metadata is read directly: name, namespace, labels, annotations, creationTime"
    scope.report("PS802", node.name_span, f"{kind} has no field '{name}'{close}", hint)


def _before_dot(node: ast.Select) -> int:
    """Return where cel-go places a mistake of a field: at the dot."""
    return node.name_span.start - (2 if node.optional else 1)


_ELSEWHERE: Final = {
    "len": "size",
    "length": "size",
    "count": "size",
    "str": "string",
    "float": "double",
    "any": "exists",
    "some": "exists",
    "every": "all",
    "includes": "contains",
    "lower": "lowerAscii",
    "toLowerCase": "lowerAscii",
    "upper": "upperAscii",
    "toUpperCase": "upperAscii",
}
"""Names of functions and methods of other languages, and what they are called here."""


def habit_hint(name: str, environment: Environment, *, args: int = 0) -> str:
    """Return what to write for a function or method of another language; "" for other names.

    ``args``: the arguments of a method.
    """
    ours = _ELSEWHERE.get(name, "")
    if name == "count" and args:
        return "write `.filter(e, ...).size()`"
    if ours in environment.methods or ours in environment.macros:
        return f"write `x.{ours}({'e, ...' if ours in environment.macros else ''})`"
    return f"write `{ours}(x)`" if ours in environment.functions else ""


def _no_fields(kind: types.Type, node: ast.Select, scope: Scope) -> None:
    hint = ""
    if isinstance(kind, types.AggregateType):
        hint = "write [KEY] for the value of a key, or .total for that of all together"
    elif node.name in ("len", "length", "count") and not isinstance(kind, types.RecordType):
        hint = habit_hint(node.name, scope.environment)
    elif node.name in scope.environment.methods:
        hint = f"`{node.name}` is a method: write `.{node.name}()`"
    elif isinstance(kind, types.ListType):
        hint = f"for its elements write `.map(x, x.{node.name})` or `.exists(x, ...)`"
    elif kind == types.RAW:
        hint = "its values have different shapes; only a builtin can read it"
    cel = f"type '{types.cel_name(kind)}' does not support field selection"
    at = _before_dot(node)
    scope.report("PS103", node.name_span, f"{kind} has no fields", hint, cel=cel, at=at)


def index(node: ast.IndexExpr, scope: Scope) -> ast.Core:
    """Check ``operand[index]`` and ``operand[?index]``."""
    operand, key = scope.infer(node.operand), scope.infer(node.index)
    if types.ERROR in (operand.type, key.type):
        return silent(node.span)
    chained = isinstance(operand.type, types.OptionalType)
    kind = operand.type.element if isinstance(operand.type, types.OptionalType) else operand.type
    unknown = types.DYN if scope.environment.dynamic else types.UNKNOWN
    cel = no_overload("_[?_]" if node.optional else "_[_]", [operand.type, key.type])
    refusal = (node.operand.span.end, cel)
    value = (
        unknown if kind in (types.UNKNOWN, types.DYN) else _value_type(kind, key, scope, refusal)
    )
    if value is None:
        return silent(node.span)
    if node.optional and isinstance(kind, types.AggregateType):
        hint = "write [KEY]: the value is zero where no pod counts"
        return scope.wrong("PS201", node.index.span, "an aggregate has a value for each key", hint)
    optional = node.optional or chained
    result = types.optional_of(value) if optional else value
    return ast.Index(operand=operand, index=key, optional=optional, type=result, span=node.span)


def _value_type(
    kind: types.Type, key: ast.Core, scope: Scope, refusal: tuple[int, str] = (-1, "")
) -> types.Type | None:
    """Return the type of the value under ``key``; report PS201 if there can be none.

    ``refusal``: cel-go's message of that, and its place.
    """
    expected: types.Type
    at, cel = refusal
    value: types.Type
    match kind:
        case types.ListType():
            expected, value = types.INT, kind.element
        case types.MapType():
            expected, value = kind.key, kind.value
        case types.AggregateType():
            if kind.decays and not scope.read(_NOW, key.span, _DECAYS):
                return None
            expected, value = kind.key, kind.value
            whole = not isinstance(key, ast.ListLit) or any(key.optional)
            if isinstance(key, ast.ListLit) and not whole and len(key.elements) != kind.parts > 1:
                if kind.decays or len(key.elements) != kind.parts - 1:
                    message = (
                        f"a key of the aggregate has {kind.parts} parts, not {len(key.elements)}"
                    )
                    hint = "the last part may be left out: that is a map by it"
                    if kind.decays:
                        hint = "with halfLife no part may be left out"
                    scope.report("PS201", key.span, message, hint)
                    return None
                value = types.map_of(types.STRING, kind.value)
        case _ if kind == types.RESOURCES:
            expected, value = types.STRING, types.quantity_of(_dimension(key))
        case types.InputType(annotation=annotation) if annotation:
            if not _has_annotations(key.type):
                message = f"{kind} is looked up by what has the annotation, found {key.type}"
                hint = "write [?pod], [?node], [?victim], [?namespaceObject] or an object"
                scope.report("PS201", key.span, message, hint, cel=cel, at=at)
                return None
            expected, value = key.type, kind.record
        case types.InputType():
            expected, value = types.STRING, kind.record
        case _:
            hint = "write its fields with a dot" if isinstance(kind, types.RecordType) else ""
            message = f"{kind} has no elements to index"
            scope.report("PS201", key.span, message, hint, cel=cel, at=at)
            return None
    if types.join(key.type, expected) is None:
        message = f"{kind} is indexed by {expected}, found {key.type}"
        scope.report("PS201", key.span, message, cel=cel, at=at)
        return None
    return value


def _has_annotations(kind: types.Type) -> bool:
    """Return whether a value is a record with annotations."""
    if isinstance(kind, types.ObjectType):
        return "annotations" in dict(kind.fields) and not kind.bare
    return isinstance(kind, types.RecordType) and kind.name in ("Pod", "Node", "Namespace")


def _dimension(key: ast.Core) -> str:
    if isinstance(key, ast.Const) and isinstance(key.value, str):
        return types.resource_dimension(key.value)
    return "any"
