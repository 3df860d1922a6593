"""Policies that are objects of a cluster: the same document as a file, with places of its own.

Problems are told at lines of the object's YAML as ``kubectl get -o yaml`` prints it: keys in order,
lines folded at 80 characters. What only an API server writes is part of that text, and read by
nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
import yaml

from policy_sched.errors import Diagnostic, Severity
from policy_sched.profiles import models
from policy_sched.profiles.load.document import DocumentPosition, parse
from policy_sched.profiles.load.policies import (
    HIDING_COMMENT,
    LoadedPolicy,
    load_policy_document,
    read_rollout,
    too_much_rule_text,
)
from policy_sched.source import MAX_POLICY_BYTES, Marked, SourceFile

MOST_OBJECTS: Final = 2000
"""Policies that are objects, at most: each takes a few milliseconds to check."""
MOST_BYTES: Final = 16 << 20
"""Bytes of all of them as JSON."""
LONGEST: Final = 4096
"""Characters of a message in a status."""
_GROUP: Final = models.GROUP.rstrip("/")
OBJECTS: Final = f"policies.{_GROUP}"
"""What messages call all of them."""
_OF_FILE: Final = ("name", "labels", "annotations")
"""Metadata that a file has, too."""


class PolicyObject(msgspec.Struct, frozen=True):
    """An object of a kind of ours, a Policy unless stated.

    ``raw``: apiVersion, kind, metadata and spec as JSON.
    """

    name: str
    raw: bytes
    generation: int = 0
    kind: str = models.POLICY_KIND

    @property
    def file(self) -> str:
        """What messages call it, as kubectl does."""
        return f"{self.kind.lower()}.{_GROUP}/{self.name}"

    @property
    def text(self) -> str:
        """The document that a file would have, as JSON."""
        return msgspec.json.encode(_as_in_a_file(msgspec.json.decode(self.raw))).decode()


class LoadedObject(msgspec.Struct, frozen=True):
    """An object that was read: its policy, mended if possible, and its problems."""

    policy: LoadedPolicy | None
    problems: tuple[Diagnostic, ...]
    marked: Marked | None = None


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes YAML as Go's clients do: texts of several lines as blocks, nothing as an alias."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Write everything where it belongs."""
        return True


def _text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def yaml_text(given: PolicyObject) -> str:
    """Return an object as YAML."""
    data = msgspec.json.decode(given.raw)
    return str(yaml.dump(data, Dumper=_Dumper, allow_unicode=True, width=80))


@lru_cache(maxsize=MOST_OBJECTS)
def read_object(given: PolicyObject) -> LoadedObject:
    """Read an object as a file that holds it alone; it names no file beside it.

    The result for the same object is kept: of a thousand, one changes at a time.
    """
    if len(given.raw) > MAX_POLICY_BYTES:
        text = f"the object has {len(given.raw)} bytes, more than {MAX_POLICY_BYTES}"
        return LoadedObject(None, (Diagnostic(given.file, 1, 1, models.TOO_LARGE, text),))
    documents, problems = parse(SourceFile(given.file, yaml_text(given)))
    if not documents:
        return LoadedObject(None, tuple(problems))
    marked = documents[0]
    marked.value = _as_in_a_file(marked.value)
    if given.kind == models.ROLLOUT_KIND:
        position = DocumentPosition(given.file, marked)
        told = position.diagnostics(read_rollout(marked)[1])
        return LoadedObject(None, (*problems, *told), marked)
    policy, wrong = load_policy_document(marked)
    problems += (problem for problem in wrong if problem.code != HIDING_COMMENT)
    if policy is not None:
        named = policy.place.diagnostics(_named_files(policy.model.spec.inputs))
        beyond = too_much_rule_text([policy])
        refused = named if beyond is None else [*named, beyond]
        if refused:  # nothing else is read of it
            return LoadedObject(None, (*problems, *refused), marked)
    return LoadedObject(policy, tuple(problems), marked)


def _as_in_a_file(value: Any) -> Any:
    """Return a document without what only API servers write."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return value
    kept = {key: item for key, item in value["metadata"].items() if key in _OF_FILE}
    return {key: item for key, item in value.items() if key != "status"} | {"metadata": kept}


def _named_files(inputs: Sequence[models.Input]) -> Iterable[models.ModelProblem]:
    """Yield the schemas of inputs: there is no file beside an object."""
    for i, given in enumerate(inputs):
        if given.schema_file:
            path: models.Path = ("spec", "inputs", i, "schema")
            why = "Forbidden: an object has no file beside it"
            hint = "state the types under fields, or keep the policy in a file"
            yield models.problem_at(path, why, hint=hint)


def read_objects(
    objects: Sequence[PolicyObject], files: Mapping[str, str]
) -> tuple[tuple[LoadedPolicy, ...], list[Diagnostic]]:
    """Return the policies of objects, mended if possible, and the problems of their form.

    One whose name a policy in a file has takes no part; ``files``: the files by those names.
    """
    size = sum(len(given.raw) for given in objects)
    if len(objects) > MOST_OBJECTS or size > MOST_BYTES:
        text = f"there are {len(objects)} policies as objects, of {size} bytes"
        text += f"; at most {MOST_OBJECTS} are read, of {MOST_BYTES} bytes"
        hint = "choose some with --policy-objects SELECTOR"
        return (), [Diagnostic(OBJECTS, 1, 1, models.TOO_LARGE, text, hint)]
    policies: list[LoadedPolicy] = []
    problems: list[Diagnostic] = []
    for given in objects:
        if given.name in files:
            problems.append(_taken(given, files[given.name]))
            continue
        read = read_object(given)
        problems += read.problems
        if read.policy is not None:
            policies.append(read.policy)
    return tuple(policies), problems


def _taken(given: PolicyObject, file: str) -> Diagnostic:
    """Return the problem of an object that a file stands in for; it keeps nothing from loading."""
    text = f'policy "{given.name}" is defined twice'
    hint = f"the other one is in {file}, and files come first"
    at: models.Path = ("metadata", "name")
    problem = models.ModelProblem(at, models.DUPLICATE, text, hint, warning=True)
    marked = read_object(given).marked
    return DocumentPosition(given.file, marked).diagnostic(problem)


Place = tuple[str, int, int]
"""Where a problem is: file, line and column."""


def paths_of(objects: Iterable[PolicyObject], problems: Iterable[Diagnostic]) -> dict[Place, str]:
    """Return the fields of objects that problems are about, by the places of those."""
    by_file = {given.file: given for given in objects}
    paths: dict[Place, str] = {}
    for problem in problems:
        given = by_file.get(problem.file)
        marked = None if given is None else read_object(given).marked
        if marked is not None:
            path = marked.path_at(problem.line, problem.column)
            paths[problem.file, problem.line, problem.column] = models.path_text(path)
    return paths


class ObjectProblem(msgspec.Struct, frozen=True):
    """A problem of an object as a status shows it, with the field that it is about."""

    code: str
    severity: Severity
    path: str
    line: int
    column: int
    message: str
    hint: str

    @property
    def place(self) -> str:
        """The field and the line."""
        return f"{self.path or 'the object'}, line {self.line}"

    @property
    def text(self) -> str:
        """The problem on one line."""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.place}: {self.code}: {self.message}{hint}"


def problem_of(problem: Diagnostic, paths: Mapping[Place, str]) -> ObjectProblem:
    """Return a problem with its field."""
    path = paths.get((problem.file, problem.line, problem.column), "")
    told = cut(problem.message), cut(problem.hint)
    return ObjectProblem(problem.code, problem.severity, path, problem.line, problem.column, *told)


def cut(text: str) -> str:
    """Return a text as a status shows it."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
