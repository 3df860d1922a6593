"""Checks a policy's functions and variables in order of dependency, and types its parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from policy_sched.language import diagnostics, syntax
from policy_sched.language.check import scope
from policy_sched.language.check.expressions import check_tree
from policy_sched.language.check.inputs import CheckedInput, objects_of
from policy_sched.language.stdlib import DEFINITION, Environment
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

Add = Callable[[list[diagnostics.Problem], diagnostics.Text], None]
_Source = TypeVar("_Source", diagnostics.FunctionSource, diagnostics.VariableSource)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Checked:
    """One expression: its typed tree, and the text that the tree's spans count in."""

    core: ast.Core
    text: diagnostics.Text = field(compare=False)


class _Pending(msgspec.Struct, frozen=True):
    """A definition that is parsed and not checked yet; ``uses`` are keys of other definitions."""

    source: diagnostics.FunctionSource | diagnostics.VariableSource
    index: int
    node: ast.Node | None
    uses: frozenset[str]

    @property
    def key(self) -> str:
        return _key(self.source)


def _key(source: diagnostics.FunctionSource | diagnostics.VariableSource) -> str:
    prefix = "variables." if isinstance(source, diagnostics.VariableSource) else ""
    return prefix + source.name


def check_definitions(  # noqa: PLR0913, PLR0917  # a policy, and what of it has types already
    source: diagnostics.PolicySource,
    environment: Environment,
    params: types.RecordType,
    add: Add,
    scores: Mapping[str, types.Type],
    inputs: Sequence[CheckedInput] = (),
    counted: scope.Counted = scope.NOTHING_COUNTED,
) -> tuple[scope.Definitions, tuple[tuple[str, Checked], ...]]:
    """Check functions and variables; report through ``add``.

    ``scores`` and ``counted`` as in `Definitions`, ``inputs`` what has types already.

    Returns what is defined (a definition with a mistake has type ERROR) and the variables that
    are good, in their order.
    """
    functions = _named(
        source.functions, diagnostics.MAX_FUNCTIONS, {"has", *environment.functions}, add
    )
    variables = _named(source.variables, diagnostics.MAX_VARIABLES, set(), add)
    # An input with a mistake is told of once, not where rules read it.
    typed: dict[str, types.Type] = {given.name.text: types.ERROR for given in source.inputs}
    typed |= {entry.name: entry.type for entry in inputs}
    definitions = scope.Definitions(
        environment,
        params,
        types.RecordType("inputs", tuple(typed.items())),
        declared_functions={f.name: i for i, f in functions},
        declared_variables={v.name: i for i, v in variables},
        scores=scores,
        objects=objects_of(inputs),
        counted=counted,
    )
    checked: dict[str, Checked] = {}
    both: list[tuple[int, diagnostics.FunctionSource | diagnostics.VariableSource]] = [
        *functions,
        *variables,
    ]
    for pending in _in_order([_parsed(definition, index, add) for index, definition in both]):
        if isinstance(pending.source, diagnostics.FunctionSource):
            _function(pending.source, pending, definitions, add)
        else:
            variable = _variable(pending.source, pending, definitions, add)
            if variable is not None:
                checked[pending.source.name] = variable
    ordered = tuple((v.name, checked[v.name]) for _, v in variables if v.name in checked)
    return definitions, ordered


def _named(
    sources: Sequence[_Source], limit: int, taken: set[str], add: Add
) -> list[tuple[int, _Source]]:
    """Return the definitions whose names are good, each with its index.

    ``taken`` are names that the language itself defines.
    """
    good: dict[str, tuple[int, _Source]] = {}
    for index, source in enumerate(sources):
        name = source.name
        what = "function" if isinstance(source, diagnostics.FunctionSource) else "variable"
        problem = None
        if not _NAME.fullmatch(name):
            problem = ("PS005", f"`{name}` is not a name: write letters, digits and `_`")
        elif name in syntax.KEYWORDS or (name in syntax.RESERVED and what == "function"):
            problem = ("PS005", f"`{name}` is a reserved word and cannot name a {what}")
        elif name in good:
            problem = ("PS111", f"two {what}s are called `{name}`")
        elif name in taken:
            problem = ("PS111", f"`{name}` is already a function of the language")
        elif index >= limit:
            problem = ("PS501", f"more than {limit} {what}s")
        if problem is None:
            good[name] = (index, source)
        else:
            add([diagnostics.Problem(0, 1, *problem)], source.expression)
    return list(good.values())


def _parsed(
    source: diagnostics.FunctionSource | diagnostics.VariableSource, index: int, add: Add
) -> _Pending:
    node, problems = syntax.parse(source.expression.text)
    add(problems, source.expression)
    uses = frozenset(_uses(node)) if node is not None else frozenset[str]()
    return _Pending(source, index, node, uses)


def _uses(root: ast.Node) -> set[str]:
    """Return the keys of the definitions that a text may use."""
    names = set()
    for node, _ in syntax.walk(root):
        if isinstance(node, ast.CallExpr):
            names.add(node.name)
        elif (
            isinstance(node, ast.Select)
            and isinstance(node.operand, ast.Ident)
            and node.operand.name == "variables"
        ):
            names.add(f"variables.{node.name}")
    return names


def _in_order(definitions: list[_Pending]) -> list[_Pending]:
    """Sort definitions after what they use; those in a cycle keep the order of the file."""
    waiting = list(definitions)
    ordered: list[_Pending] = []
    while waiting:
        keys = {pending.key for pending in waiting}
        ready = next((p for p in waiting if not (p.uses - {p.key}) & keys), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
    return ordered


def _variable(
    source: diagnostics.VariableSource, pending: _Pending, definitions: scope.Definitions, add: Add
) -> Checked | None:
    kind: types.Type = types.ERROR
    reads: frozenset[str] = frozenset()
    checked, elements, depth = None, 0, 0
    if pending.node is not None:
        tree, unit = check_tree(
            pending.node,
            definitions.environment.section(DEFINITION),
            definitions,
            before_variable=pending.index,
        )
        add(unit.problems, source.expression)
        kind, reads = tree.type, frozenset(unit.reads)
        elements, depth = unit.elements, unit.depth
        checked = None if kind == types.ERROR else Checked(tree, source.expression)
    definitions.variables[source.name] = scope.Definition(
        source.name, pending.index, kind, reads, elements=elements, depth=depth
    )
    return checked


def _function(
    source: diagnostics.FunctionSource, pending: _Pending, definitions: scope.Definitions, add: Add
) -> None:
    params = _parameters(source, definitions, add)
    kind: types.Type = types.ERROR
    reads: frozenset[str] = frozenset()
    function = None
    if pending.node is not None:
        tree, unit = check_tree(
            pending.node,
            definitions.environment.section(DEFINITION),
            definitions,
            params=params,
            before_function=pending.index,
        )
        add(unit.problems, source.expression)
        kind, reads = tree.type, frozenset(unit.reads)
        if kind != types.ERROR:
            function = ast.UserFunction(source.name, tuple(p.unique for p in params.values()), tree)
    kinds = tuple(local.type for local in params.values())
    definitions.functions[source.name] = scope.Definition(
        source.name, pending.index, kind, reads, kinds, function
    )


def _parameters(
    source: diagnostics.FunctionSource, definitions: scope.Definitions, add: Add
) -> dict[str, scope.Local]:
    """Return a function's parameters; one whose type cannot be read has type ERROR."""
    params: dict[str, scope.Local] = {}
    environment = definitions.environment
    for name, type_text in source.params:
        where = f"parameter `{name}` of function `{source.name}`"
        problem = None
        kind: types.Type = types.ERROR
        try:
            kind = types.parse_type(
                type_text, records=environment.records, objects=definitions.objects
            )
        except ValueError as error:
            close = diagnostics.did_you_mean(
                type_text, (*types.SCALARS, *environment.records, "list", "map", "optional")
            )
            problem = ("PS101", f"{where}: {error}{close}")
        if not _NAME.fullmatch(name) or name in syntax.KEYWORDS | syntax.RESERVED:
            problem = ("PS005", f"{where}: `{name}` cannot be a name")
        elif name != "key" and (  # which one section alone sees
            name in environment.variables or name in ("params", "variables", "inputs")
        ):
            problem = ("PS109", f"{where} hides another variable of that name")
        if problem is not None:
            add([diagnostics.Problem(0, 1, *problem)], source.expression)
        params[name] = scope.Local(f"{name}#{next(definitions.fresh)}", kind)
    return params
