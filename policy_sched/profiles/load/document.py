"""One document of a configuration or policy file: its data, its place, and its checked model.

Every loader of this package goes the same way: the model accepts a document at once, or the JSON
Schema reports everything that is wrong with its shape, and the document is mended so that the
checks of meaning go on over the rest.

Files that are meant for policy_sched are recognised by content among the others of a repository.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError
from yaml.nodes import ScalarNode

from policy_sched.errors import Diagnostic, Severity, nearest
from policy_sched.language.diagnostics import Locate
from policy_sched.profiles.models import (
    EXPERIMENT_KIND,
    POLICY_KIND as KIND,
    PROOF_KIND,
    ROLLOUT_KIND,
    TEST_KINDS,
    TOO_LARGE,
    Document,
    ModelProblem,
    Path,
    did_you_mean,
    kube_scheduler_configuration as models,
    problem_at,
    required,
)
from policy_sched.profiles.validate import mended, shape_problems
from policy_sched.source import (
    GROUPS,
    MAX_POLICY_BYTES,
    UNREADABLE,
    Marked,
    SourceFile,
    decode_text,
    diagnostic,
    is_file_of_ours,
    is_stray_link,
    parse_documents,
    read_bytes,
)

D = TypeVar("D", bound=Document)

_QUOTE: Final = "put a rule in quotes, or below a |-"
_FLOW: Final = "quote it: inside { } and [ ] an unquoted text ends at , [ ] { } and ': '"
_SLIPS: Final = {
    "mapping values are not allowed": f"': ' starts a mapping: {_QUOTE}",
    "the tag !": f"a value that starts with ! is a YAML tag: {_QUOTE}",
    "found character that cannot start any token": _QUOTE,
}
#: The meaning of YAML's indicator characters, by the message of the parser.
_SIGNS: Final = {
    "while scanning a tag": "! is a YAML tag",
    "while scanning an alias": "* is a YAML alias",
    "found undefined alias": "* is a YAML alias",
    "while scanning an anchor": "& is a YAML anchor",
}
MAX_DOCUMENTS: Final = 500
"""Documents of one file; 5,000 small policies took 12 s."""
SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Files that are looked at in a directory."""


class DocumentPosition(msgspec.Struct, frozen=True):
    """Position of a document: its file's name, and its marks if it was read from text."""

    name: str
    marked: Marked | None = None

    def diagnostic(self, problem: ModelProblem) -> Diagnostic:
        """Return the problem with its place in the file."""
        severity = Severity.WARNING if problem.warning else Severity.ERROR
        if self.marked is None:
            return Diagnostic(
                self.name, 1, 1, problem.code, problem.message, problem.hint, severity=severity
            )
        return diagnostic(
            self.marked.file,
            _span(self.marked, problem),
            problem.code,
            problem.message,
            hint=problem.hint,
            severity=severity,
        )

    def diagnostics(self, problems: Iterable[ModelProblem]) -> list[Diagnostic]:
        """Return the problems with their places, in file order."""
        return sorted(self.diagnostic(problem) for problem in problems)


def _span(marked: Marked, problem: ModelProblem) -> tuple[int, int]:
    """Return what the caret underlines: a key, a scalar, or the start of what lacks a key."""
    path = problem.path
    node = marked.node(path)
    if node is None:
        while path and marked.node(path) is None:
            path = path[:-1]
        start, end = marked.key_span(path)
        inner = marked.span(path)
        return (start, end) if (start, end) != inner else (start, start + 1)
    if problem.on_key or not hasattr(node, "style") or isinstance(node.value, list):
        start, end = marked.key_span(path)
        line_end = marked.file.text.find("\n", start)
        return start, end if line_end < 0 else min(end, line_end)
    return marked.span(path)


def locator(marked: Marked, path: Path) -> Locate:
    """Return the function from an offset of the scalar at ``path`` to its place in the file.

    The text of a missing scalar has the position of its parent's start.
    """

    def locate(offset: int) -> tuple[int, int, str]:
        scalar = isinstance(marked.node(path), ScalarNode)
        position = marked.scalar_map(path)(offset) if scalar else marked.span(path)[0]
        line, column = marked.file.position(position)
        return line, column, marked.file.line_text(line)

    return locate


def read_source(path: FilePath) -> SourceFile | Diagnostic:
    """Return a file's text, or why it cannot be read."""
    try:
        text = decode_text(str(path), read_bytes(path, MAX_POLICY_BYTES, "split it"))
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        return Diagnostic(str(path), 1, 1, UNREADABLE, f"cannot read the file: {why}")
    if isinstance(text, Diagnostic):
        return text
    return SourceFile(str(path), text.replace("\r\n", "\n"))


def read_documents(path: FilePath) -> tuple[list[Marked], list[Diagnostic]]:
    """Return the documents of a file, and diagnostics of its syntax."""
    source = read_source(path)
    if isinstance(source, Diagnostic):
        return [], [source]
    return parse(source)


def parse(source: SourceFile) -> tuple[list[Marked], list[Diagnostic]]:
    """Return the documents of a text; common YAML errors of rules have a hint.

    Of more than `MAX_DOCUMENTS` only the first are returned, with an error.
    """
    documents, problems = _parsed(source.path, source.text, source.first_line)
    return list(documents), list(problems)


@lru_cache(maxsize=4)  # most commands look at what kind of file it is, and then read it
def _parsed(
    path: str, text: str, first_line: int
) -> tuple[tuple[Marked, ...], tuple[Diagnostic, ...]]:
    source = SourceFile(path, text, first_line)
    documents, faults = parse_documents(source)
    problems = [_with_way_out(problem) for problem in faults]
    if len(documents) > MAX_DOCUMENTS:
        message = f"the file holds {len(documents)} documents; the limit is {MAX_DOCUMENTS}"
        first = documents[MAX_DOCUMENTS]
        span = first.span(())
        problems.append(diagnostic(source, span, TOO_LARGE, message, hint="divide it"))
    return tuple(documents[:MAX_DOCUMENTS]), tuple(problems)


def _with_way_out(problem: Diagnostic) -> Diagnostic:
    """Return a YAML problem with a hint, if it looks like a rule without quotes."""
    if problem.hint:
        return problem
    before = problem.source_line[: problem.column - 1].rstrip()
    if problem.message.startswith("did not find expected key") and before[-1:] in ("'", '"'):
        hint = f"a value that starts with a quote ends at the next: {_QUOTE}"
        return replace(problem, hint=hint)
    if problem.context.startswith("while parsing a flow ") and before.lstrip():
        return replace(problem, hint=_FLOW)
    for start, what in _SIGNS.items():
        if problem.context.startswith(start) or problem.message.startswith(start):
            return replace(problem, hint=f"a value that starts with {what}: {_QUOTE}")
    for slip, hint in _SLIPS.items():
        if problem.message.startswith(slip) and not problem.message.startswith("the tag !!"):
            return replace(problem, hint=hint)
    return problem


def files_below(path: FilePath) -> list[FilePath]:
    """Return the YAML and JSON files of a directory and of those in it, sorted; or ``path``.

    Names that begin with a dot are passed over: a mounted ConfigMap keeps every file twice, in
    directories called ``..data`` and ``..2026_01_01``. So are links that lead out of the directory
    to files which are not ours: nothing of those is to be shown.
    """
    if not os.path.isdir(path):  # where no file system has such a name, it is none
        return [path]
    files: list[FilePath] = []
    for folder, inside, names in os.walk(path):
        inside[:] = [name for name in inside if not name.startswith(".")]
        for name in names:
            if name.endswith(SUFFIXES) and not name.startswith("."):
                file = FilePath(folder, name)
                files += [file] if file.is_file() and not is_stray_link(file, path) else []
    return sorted(files)


def with_schemas(path: FilePath) -> list[FilePath]:
    """Return the files of `files_below`, and for a file those that it names as schemas.

    In a directory they are among its files.
    """
    files = files_below(path)
    if files != [path] or path.suffix not in SUFFIXES:
        return files
    try:
        named = _SCHEMA_FILE.findall(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return files
    return [path, *sorted({path.parent / name for name in named})]


def kind_of(value: object) -> tuple[str, str]:
    """Return the apiVersion and kind of a document, "" for what is no text."""
    if not isinstance(value, dict):
        return "", ""
    version, kind = value.get("apiVersion"), value.get("kind")
    return (version if isinstance(version, str) else "", kind if isinstance(kind, str) else "")


def without_nulls(value: Any, keep: Sequence[str] = ()) -> Any:
    """Return a copy without keys whose value is null, as Kubernetes reads them.

    Values below a key of ``keep`` are copied unchanged.
    """
    if isinstance(value, dict):
        return {
            key: item if key in keep else without_nulls(item, keep)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item, keep) for item in value]
    return value


def read_model(value: Any, model: type[D], schema: str) -> tuple[D | None, list[ModelProblem], Any]:
    """Read ``value`` as a ``model``, whose JSON Schema is the file ``schema``.

    Returns the model (of the mended value if there are problems; None if it cannot be mended),
    the problems of shape, and the value that was read.
    """
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if key != "$schema"}
    try:
        return model.model_validate(value), [], value
    except ValidationError:
        problems = shape_problems(value, schema)
    value = mended(value, problems)
    try:
        return model.model_validate(value), problems, value
    except ValidationError as error:
        problems.extend(model_problems(error, value, problems))
    return None, problems, value


def model_problems(
    error: ValidationError, value: object, told: Sequence[ModelProblem], below: Path = ()
) -> list[ModelProblem]:
    """Return what a model refuses beyond ``known`` problems, by its own account."""
    problems: list[ModelProblem] = []
    for detail in error.errors(include_url=False):
        path: Path = below
        inside: Any = value
        for step in detail["loc"]:
            ahead = inside.get(step) if isinstance(inside, dict) else None
            if isinstance(inside, list) and isinstance(step, int) and step < len(inside):
                ahead = inside[step]
            if ahead is None:
                break
            path, inside = (*path, step), ahead
        if covered(path, told):
            continue
        missing = detail["type"] == "missing" and len(detail["loc"]) == len(path) + 1 - len(below)
        problems.append(
            required((*path, detail["loc"][-1])) if missing else problem_at(path, detail["msg"])
        )
    return problems


def inside(value: Any, path: Path) -> Any:
    """Return the value at ``path``, which exists."""
    for step in path:
        value = value[step]
    return value


def covered(path: Path, problems: Iterable[ModelProblem]) -> bool:
    """Is ``path`` at or below, or right above, the place of a problem?"""
    return any(
        path[: len(p.path)] == p.path or p.path[: len(path)] == path
        for p in problems
        if not p.warning
    )


def kind_problem(value: object, expected: Sequence[tuple[str, str]]) -> ModelProblem:
    """Return why a document's apiVersion and kind are none of those ``expected``."""
    if not isinstance(value, dict):
        return ModelProblem((), "PS703", "a document must be a mapping with apiVersion and kind")
    version, kind = kind_of(value)
    for key in ("apiVersion", "kind"):
        if key not in value:
            hint = "read here: " + ", ".join(f"{k} of {v}" for v, k in expected)
            return ModelProblem((key,), "PS704", f"{key}: Required value", hint)
    kinds = {k: v for v, k in expected}
    if kind in kinds:
        wanted = kinds[kind]
        hint = f"this version reads {wanted}"
        text = f"apiVersion {version!r} of kind {kind} is not supported"
        return ModelProblem(("apiVersion",), "PS706", text, hint)
    words = ", ".join(kinds)
    hint = did_you_mean(kind, kinds) or f"kinds that are read here: {words}"
    if version in kinds.values():
        return ModelProblem(("kind",), "PS706", f"unknown kind {kind!r} of {version}", hint)
    return ModelProblem(("kind",), "PS706", f"no kind {kind!r} of {version!r} is read here", hint)


STDIN: Final = "-"
_KINDS: Final = frozenset(
    {KIND, EXPERIMENT_KIND, PROOF_KIND, ROLLOUT_KIND, *TEST_KINDS, models.KIND}
)
_STATED: Final = re.compile(
    rf"""^["']?apiVersion["']?\s*:\s*["']?(?:{"|".join(map(re.escape, GROUPS))})""", re.MULTILINE
)
_SCHEMA_FILE: Final = re.compile(r"""\bschema["']?\s*:\s*["']?([^\s"',}#]+)""")
_TEMPLATE: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def files_of_ours(paths: Iterable[str]) -> list[str]:
    """Return those of the files, and of the files in directories, that are meant for us.

    Standard input is kept.
    """
    return list(dict.fromkeys(file for path in paths for file in _below(path)))


def _below(path: str) -> Iterator[str]:
    if path == STDIN:
        yield path
        return
    for file in files_below(FilePath(path)):
        source = read_source(file)
        ours = _is_ours(source) if isinstance(source, SourceFile) else is_file_of_ours(file)
        if ours:
            yield str(file)


def _is_ours(source: SourceFile) -> bool:
    """Return whether a text holds a document of a kind that is read here, or a broken one.

    A template of Helm is none: it becomes YAML when it is rendered.
    """
    documents, problems = parse(source)
    if any(_is_our_document(marked.value) for marked in documents):
        return True
    text = source.text
    return bool(problems) and bool(_STATED.search(text)) and not _TEMPLATE.search(text)


def _is_our_document(value: Any) -> bool:
    """Return whether a document has a known apiVersion, a misspelt one, or a known kind alone."""
    version, kind = kind_of(value)
    if version.startswith(GROUPS) or has_device_objects(value):
        return True
    group = version.partition("/")[0]
    groups = [api_group.rstrip("/") for api_group in GROUPS]
    return kind in _KINDS and (not version or nearest(group, groups) is not None)


_DEVICES: Final = "resource.k8s.io/"
WITH_SELECTORS: Final = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate"})


def device_objects(value: object, root: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the objects of a document, or of its list, that may have selectors over devices."""
    version, kind = kind_of(value)
    if not isinstance(value, Mapping):
        return
    if version.startswith(_DEVICES) and kind in WITH_SELECTORS:
        yield root, value
    elif not root and kind.endswith("List") and isinstance(value.get("items"), list):
        implied = {"apiVersion": version, "kind": kind.removesuffix("List")}
        for i, item in enumerate(value["items"]):
            if isinstance(item, Mapping):
                yield from device_objects({**implied, **item}, ("items", i))


def has_device_objects(value: object) -> bool:
    """Return whether a document has an object that may have selectors over devices."""
    return any(True for _ in device_objects(value))
