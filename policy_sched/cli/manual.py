"""Prints the generated pages of the documentation from the tables that the program runs.

``python -m policy_sched.cli.manual docs`` rewrites everything below the mark in the pages of
`PAGES`; a test compares. Commands and flags come from the verbs' signatures and docstrings.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, get_args, get_type_hints

from cyclopts import Parameter

from policy_sched.cli.app import VERBS
from policy_sched.cluster.tables import NODE_COLUMNS, POD_COLUMNS, Family
from policy_sched.framework import POINTS, SchedulerHooks
from policy_sched.language.diagnostics import Code, codes
from policy_sched.language.stdlib import Overload, Section, policy_environment, selector_environment
from policy_sched.source import write_file

if TYPE_CHECKING:
    from policy_sched.instance.observability import Families

MARK: Final = "<!-- Below this line: printed by `python -m policy_sched.cli.manual`. -->"

_ARGUMENTS: Final = {
    "label key": "zone",
    "annotation key": "example.com/team",
    "field": "architecture",
    "resource": "cpu",
    "image name": "docker.io/library/redis:7",
    "identity of an input": "numa",
}
"""Arguments of columns, for examples."""


def reference() -> str:
    """Return the reference: sections, variables, functions, macros, selectors, columns, codes."""
    return _joined(_sections, _variables, _functions, _macros, _selectors, _columns, _codes)


def hooks() -> str:
    """Return the hooks that plugins in Python may implement, with the types of their arguments."""
    return _joined(_hooks)


def metrics() -> str:
    """Return the metrics of a running scheduler: kube-scheduler's, and those of policy_sched."""
    return _joined(_metrics)


def commands() -> str:
    """Return the reference of the command line: each verb with its arguments."""
    return _joined(_commands)


def _joined(*parts: Callable[[], Iterator[str]]) -> str:
    return "\n".join(line for part in parts for line in (*part(), "")).rstrip("\n") + "\n"


PAGES: Final = {
    "reference.md": reference,
    "cli.md": commands,
    "plugins.md": hooks,
    "operating.md": metrics,
}
"""The generated part of each page, by file name in docs/."""


def generated(name: str, text: str) -> str:
    """Return the text of the page ``name`` with everything below the mark printed anew."""
    head, mark, _ = text.partition(MARK)
    if not mark:
        raise ValueError(f"{name} lacks the line {MARK}")
    return f"{head}{MARK}\n\n{PAGES[name]()}"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    heads = tuple(heads)
    yield _row(heads)
    yield _row("---" for _ in heads)
    yield from (_row(_cell(cell) for cell in row) for row in rows)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _code(text: str) -> str:
    return f"`{text}`"


def _commands() -> Iterator[str]:
    yield "## Commands"
    for verb, (path, sentence) in VERBS.items():
        module, _, function = path.partition(":")
        call: Callable[..., object] = getattr(import_module(module), function)
        yield ""
        yield f"### policy-sched {verb}"
        yield ""
        yield sentence
        yield ""
        rows = [(_code(flag), meaning) for flag, meaning in _flags(call)]
        yield from _table(("argument", "meaning"), rows)


def _flags(call: Callable[..., object]) -> Iterator[tuple[str, str]]:
    """Yield flags with their meanings; for a parameter that is a group of flags, each of these."""
    described = dict(_described(inspect.getdoc(call) or ""))
    hints = get_type_hints(call, include_extras=True)
    for parameter in inspect.signature(call).parameters.values():
        parts = (hints[parameter.name], *get_args(hints[parameter.name]))
        groups = [group_type for group_type in parts if is_dataclass(group_type)]
        if groups:
            yield from _flags(cast("type", groups[0]))
        else:
            given = [part.name for part in parts if isinstance(part, Parameter) and part.name]
            names = [name for of in given for name in of]
            yield _flag(parameter, names), described[parameter.name]


def _flag(parameter: inspect.Parameter, given: Sequence[str]) -> str:
    """Return a parameter as it is written; ``given``: its names, where it states some."""
    name = parameter.name
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        more = "..." if name.endswith("s") else ""
        return (given[0] if given else name.rstrip("s").upper()) + more
    return ", ".join(given or ["--" + name.replace("_", "-")])


def _described(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield name and description of each parameter of a NumPy-style docstring."""
    _, _, listed = docstring.partition("----------\n")
    for match in re.finditer(r"^(\w+)\n((?:    .*\n?|\n)+)", listed, re.MULTILINE):
        yield match[1], " ".join(match[2].split())


def _sections() -> Iterator[str]:
    yield "## Sections of a policy"
    yield ""
    yield "What each expression's value must be, and the variables that it may read besides "
    yield "`params` and `variables`."
    yield ""
    heads = ("expression", "value", "sees", "example")
    yield from _table(heads, map(_section_row, policy_environment().sections.values()))


def _section_row(section: Section) -> tuple[str, ...]:
    seen = sorted(section.visible - {"params", "variables"})
    shown = " ".join(map(_code, seen)) or "nothing else"
    return _code(section.name), section.expected, shown, _code(section.example)


def _variables() -> Iterator[str]:
    yield "## Variables and records"
    yield ""
    yield "Level: C changes with the files, P with the pod, S with a node's own data, D with what "
    yield "runs on a node, T with the cluster, X with the feasible nodes."
    yield ""
    environment = policy_environment()
    variables = environment.variables.values()
    rows = ((_code(v.name), _code(str(v.type)), v.level, v.doc) for v in variables)
    yield from _table(("variable", "type", "level", "meaning"), rows)
    for record in environment.records.values():
        yield ""
        yield f"### {record.name}"
        yield ""
        yield record.doc
        yield ""
        fields = record.fields.values()
        yield from _table(
            ("field", "type", "level", "meaning"),
            ((_code(f.name), _code(str(f.type)), f.level, f.doc) for f in fields),
        )


def _functions() -> Iterator[str]:
    yield "## Operators, functions and methods"
    yield ""
    yield "`ext` marks what Kubernetes' CEL does not have. The value of an example follows `=>`."
    for group, overloads in _by_group(policy_environment().overloads).items():
        yield ""
        yield f"### {group}"
        yield ""
        yield from _table(
            ("signature", "ext", "meaning", "example"),
            (
                (_code(o.signature), "ext" if o.ext else "", o.doc, _code(o.example))
                for o in overloads
            ),
        )


def _macros() -> Iterator[str]:
    macros = {**selector_environment().macros, **policy_environment().macros}
    yield "## Macros"
    yield ""
    yield "`e` is a list or a map, `o` an optional. `x`, or `i` and `v` (index or key, and value), "
    yield "are variables of the arguments after them. With one variable, a map gives its keys."
    yield ""
    both = "rules and selectors"
    rows = [
        ("`has(e.field)`", both, "whether the field is set, or the key is there"),
        ("`cel.bind(x, value, body)`", both, "the body, in which `x` is the value"),
    ]
    for name, macro in macros.items():
        dialects = (("rules", policy_environment()), ("selectors", selector_environment()))
        having = " and ".join(title for title, table in dialects if name in table.macros)
        rows.append((_code(macro.title), having, macro.doc))
    yield from _table(("macro", "in", "value"), rows)


def _by_group(overloads: Iterable[Overload]) -> dict[str, list[Overload]]:
    groups: dict[str, list[Overload]] = {}
    for overload in overloads:
        groups.setdefault(overload.group, []).append(overload)
    return groups


def _selectors() -> Iterator[str]:
    environment = selector_environment()
    yield "## Selectors over devices"
    yield ""
    yield "Selectors of DeviceClasses, ResourceClaims and ResourceClaimTemplates are Kubernetes' "
    yield "CEL with the one variable `device`. Their value must be bool. They have the functions "
    yield "above that are not `ext`, except the group Math, `reverse` of a string, `unwrap`, "
    yield "`unwrapOpt`, and `sign` as a method; and all macros except `sum`, and besides "
    yield "`transformMapEntry` and `sortBy`. The only operators of quantities are `==` and `!=`."
    for record in environment.records.values():
        if record.fields:
            yield from ("", f"### {record.name} in selectors", "", record.doc, "")
            rows = ((_code(f.name), _code(str(f.type)), f.doc) for f in record.fields.values())
            yield from _table(("field", "type", "meaning"), rows)
    yield from ("", "### Types of selectors only", "")
    opaque = (record for record in environment.records.values() if not record.fields)
    yield from _table(
        ("type", "meaning"), ((_code(function.name), function.doc) for function in opaque)
    )
    yield from ("", "### Functions of selectors only", "")
    shared = set(map(id, policy_environment().overloads))
    own = [function for function in environment.overloads if id(function) not in shared]
    listed = (
        (_code(function.signature), group, function.doc, _code(function.example))
        for group, overloads in _by_group(own).items()
        for function in overloads
    )
    yield from _table(("signature", "group", "meaning", "example"), listed)


def _hooks() -> Iterator[str]:
    yield "## Hooks"
    yield ""
    yield "In the order in which a pod meets them, except the last two, which are asked once."
    yield ""
    rows = (
        (
            _code(f"{name}({', '.join(arguments)}) -> {result}"),
            point.name,
            point.combine.value,
            (inspect.getdoc(getattr(SchedulerHooks, name)) or "").strip(),
        )
        for name, point in POINTS.items()
        for arguments, result in (_hook_types(name),)
    )
    yield from _table(("hook", "extension point", "combined by", "meaning"), rows)


def _hook_types(name: str) -> tuple[list[str], str]:
    """Return the arguments of a hook, each with its type, and the type of its result."""
    signature = inspect.signature(getattr(SchedulerHooks, name))
    arguments = [str(parameter) for key, parameter in signature.parameters.items() if key != "self"]
    texts = (*arguments, str(signature.return_annotation))
    *arguments, result = (re.sub(r"'|\b\w+\.(?=\w)", "", text) for text in texts)
    return arguments, result


def _metrics() -> Iterator[str]:
    # Only this page needs the packages of a running scheduler; the verb `docs` begins without.
    from policy_sched.instance.app import GcPauses  # noqa: PLC0415  see above
    from policy_sched.instance.observability import (  # noqa: PLC0415  see above
        EventLoopLatency,
        HealthMetrics,
        PolicyMetrics,
        UpstreamMetrics,
    )
    from policy_sched.instance.shadow import ShadowMetrics  # noqa: PLC0415  see above

    own = (PolicyMetrics(), EventLoopLatency(), GcPauses())
    yield "## Metrics"
    for title, families in (
        ("kube-scheduler's, with its names, labels and buckets", _named(UpstreamMetrics())),
        ("policy_sched's own", [named for metric in own for named in _named(metric)]),
        ("those of `run --shadow`", _named(ShadowMetrics())),
        ("health checks, on `/metrics/slis`", _named(HealthMetrics())),
    ):
        yield from ("", f"### Metrics: {title}", "")
        yield from _table(("metric", "type", "labels", "meaning"), families)


def _named(families: Families) -> list[tuple[str, ...]]:
    return [
        (_code(metric.name), metric.kind, " ".join(map(_code, metric.labels)), metric.help)
        for metric in families.all
    ]


def _columns() -> Iterator[str]:
    yield "## Columns"
    for title, families in (("the node table", NODE_COLUMNS), ("the pod table", POD_COLUMNS)):
        yield ""
        yield f"### Columns of {title}"
        yield ""
        yield from _table(
            ("column", "dtype", "kind", "unit", "meaning", "example"),
            map(_column_row, families.values()),
        )


def _column_row(family: Family) -> tuple[str, ...]:
    name = f"{family.name}, {family.argument}" if family.argument else family.name
    facts = (family.dtype.__name__, family.kind.value, family.unit, family.sentence)
    return _code(name), *facts, _code(f"table.column({column_example(family)}).values")


def column_example(family: Family) -> tuple[str, ...]:
    """Return the key of a column of a family."""
    return (family.name, _ARGUMENTS[family.argument]) if family.argument else (family.name,)


def _codes() -> Iterator[str]:
    yield "## Codes of problems"
    yield ""
    yield "Examples are filter rules, or parts of a policy's spec, or describe what has the "
    yield "problem. `check` shows the exact message, the position and the fix."
    yield ""
    rows = (
        (_code(name), _kind(name, code), code.meaning, _code(code.example))
        for name, code in codes().items()
    )
    yield from _table(("code", "kind", "meaning", "example"), rows)


def _kind(name: str, code: Code) -> str:
    return "at run time" if name.startswith("PS6") else str(code.severity)


if __name__ == "__main__":
    (folder,) = map(Path, sys.argv[1:])
    for page in PAGES:
        path = folder / page
        write_file(path, generated(page, path.read_text(encoding="utf-8")).encode())
