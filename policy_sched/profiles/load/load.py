"""`load`: a file's text becomes documents, models and problems.

The scheduler, `policy-sched check` and the language server all read files with it. They differ in
the kinds of documents that they expect, and in what they do with the result: the scheduler compiles
it, `check` adds lints, and the language server adds positions of the cursor.

Selectors in device classes and resource claims of manifests are read with their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Flag, auto
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.diagnostics import Text
from policy_sched.profiles import models
from policy_sched.profiles.load import document
from policy_sched.profiles.load.configuration import LoadedConfig, load_config_document
from policy_sched.profiles.load.document import DocumentPosition, device_objects, locator
from policy_sched.profiles.load.policies import (
    LoadedPolicy,
    duplicate_names,
    load_policy_document,
    policies_of_test,
    read_proof,
    read_rollout,
    test_problems,
    too_much_rule_text,
)
from policy_sched.source import Marked, SourceFile, leads_out, root_of


class Kinds(Flag):
    """The kinds of documents that are read. With all of them, tests of policies and the device
    selectors of manifests are read, too."""

    POLICIES = auto()
    CONFIGURATIONS = auto()
    EVERYTHING = POLICIES | CONFIGURATIONS

    @property
    def expected(self) -> tuple[tuple[str, str], ...]:
        """The apiVersion and kind of each."""
        pairs = {
            Kinds.POLICIES: (models.POLICY_API_VERSION, models.POLICY_KIND),
            Kinds.CONFIGURATIONS: (models.API_VERSION, models.KIND),
        }
        return tuple(pair for kind, pair in pairs.items() if kind in self)


_GROUPS: Final = {
    Kinds.POLICIES: models.GROUP,
    Kinds.CONFIGURATIONS: f"{models.API_VERSION.partition('/')[0]}/",
}


class LoadedDocument(msgspec.Struct, frozen=True):
    """One document: its data, and its model if it is of a kind that is read.

    A model with errors is mended as far as possible. ``recognized``: the document is of such a
    kind, or has a problem because it is not. ``experiment``: it is an Experiment, whose problems
    `check` finds.
    """

    marked: Marked
    problems: tuple[Diagnostic, ...] = ()
    policy: LoadedPolicy | None = None
    config: LoadedConfig | None = None
    selectors: tuple[DeviceSelectorText, ...] = ()
    experiment: bool = False
    recognized: bool = True


class LoadedFile(msgspec.Struct, frozen=True):
    """Everything that a file holds. ``problems`` are those that do not belong to a document."""

    name: str
    source: SourceFile | None
    documents: tuple[LoadedDocument, ...] = ()
    problems: tuple[Diagnostic, ...] = ()

    @property
    def all_problems(self) -> list[Diagnostic]:
        """The problems of the file and of its documents."""
        return [*self.problems, *(problem for each in self.documents for problem in each.problems)]

    @property
    def policies(self) -> list[LoadedPolicy]:
        """The policies in the file's order."""
        return [document.policy for document in self.documents if document.policy is not None]

    @property
    def configs(self) -> list[LoadedConfig]:
        """The configurations in the file's order."""
        return [document.config for document in self.documents if document.config is not None]

    @property
    def recognized(self) -> bool:
        """Whether the file cannot be read, or a document of it is recognized."""
        return bool(self.problems) or any(document.recognized for document in self.documents)


def load(source: SourceFile, kinds: Kinds = Kinds.EVERYTHING, *, named: bool = False) -> LoadedFile:
    """Return what a text holds, and every problem of its form.

    Documents of other kinds are passed over, or, in a file that is ``named``, refused. The result
    for the same text is kept, as commands and editors read a file several times.
    """
    file: LoadedFile = _load(source.path, source.text, source.first_line, kinds, named)
    return file


def load_file(
    path: FilePath, kinds: Kinds = Kinds.EVERYTHING, *, named: bool = False
) -> LoadedFile:
    """Return what a file holds; a file that cannot be read has that problem."""
    source = document.read_source(path)
    if isinstance(source, Diagnostic):
        return LoadedFile(str(path), None, problems=(source,))
    return load(source, kinds, named=named)


@lru_cache(maxsize=1024)
def _load(path: str, text: str, first_line: int, kinds: Kinds, named: bool) -> LoadedFile:
    source = SourceFile(path, text, first_line)
    documents, unreadable = document.parse(source)
    if kinds is Kinds.EVERYTHING:
        # A file with device classes or claims is one of manifests, which may be of any kind.
        named = named and not any(document.has_device_objects(marked.value) for marked in documents)
    loaded = tuple(_document(marked, kinds, named=named) for marked in documents)
    beyond = too_much_rule_text(
        [loaded_document.policy for loaded_document in loaded if loaded_document.policy is not None]
    )
    if beyond is not None:
        loaded = tuple(replace(loaded_document, policy=None) for loaded_document in loaded)
        unreadable.append(beyond)
    return LoadedFile(path, source, loaded, tuple(unreadable))


def _document(marked: Marked, kinds: Kinds, *, named: bool) -> LoadedDocument:
    """Return the document that ``marked`` holds."""
    version, kind = document.kind_of(marked.value)
    everything = kinds is Kinds.EVERYTHING
    named = named or version.startswith(
        tuple(group for kind_flag, group in _GROUPS.items() if kind_flag in kinds)
    )
    if kind in models.TEST_KINDS and Kinds.POLICIES in kinds:
        problems = test_problems(marked, _inputs_of_test(marked)) if everything else []
        return LoadedDocument(marked, tuple(problems))
    if kind == models.PROOF_KIND and Kinds.POLICIES in kinds:
        problems = read_proof(marked)[1] if everything else []
        return LoadedDocument(marked, tuple(problems))
    if (
        kind == models.ROLLOUT_KIND
        and Kinds.POLICIES in kinds
        and (not version or version.startswith(models.GROUP))
    ):
        position = document.DocumentPosition(marked.file.path, marked)
        problems = position.diagnostics(read_rollout(marked)[1]) if everything else []
        return LoadedDocument(marked, tuple(problems))
    if kind == models.EXPERIMENT_KIND and Kinds.POLICIES in kinds and named:
        return LoadedDocument(marked, experiment=True)
    if everything and document.has_device_objects(marked.value):
        selectors, problems = device_selectors(marked)
        return LoadedDocument(marked, tuple(problems), selectors=tuple(selectors))
    if kind == models.POLICY_KIND and Kinds.POLICIES in kinds and named:
        policy, problems = load_policy_document(marked)
        return LoadedDocument(marked, tuple(problems), policy)
    position = document.DocumentPosition(marked.file.path, marked)
    if kind == models.KIND and Kinds.CONFIGURATIONS in kinds:
        config, problems = load_config_document(marked.value, position)
        return LoadedDocument(marked, tuple(problems), config=config)
    if named:
        problem = document.kind_problem(marked.value, kinds.expected)
        return LoadedDocument(marked, (position.diagnostic(problem),))
    return LoadedDocument(marked, recognized=False)


def _inputs_of_test(marked: Marked) -> frozenset[str]:
    """Return the names of the inputs of the policies that a test names."""
    folder = FilePath(marked.file.path).parent
    paths = [str(folder / name) for name in policies_of_test(marked.value) if "\0" not in name]
    roots = (root_of(marked.file.path), folder)
    policies, _ = load_policies([path for path in paths if not leads_out(path, roots)])
    return frozenset(given.name for policy in policies for given in policy.model.spec.inputs)


def load_policies(paths: Sequence[str]) -> tuple[tuple[LoadedPolicy, ...], list[Diagnostic]]:
    """Read every Policy of ``paths`` as `read_policies` does; policies with errors are left out."""
    policies, problems = read_policies(paths)
    return tuple(policy for policy in policies if policy.sound), problems


def read_policies(paths: Sequence[str]) -> tuple[tuple[LoadedPolicy, ...], list[Diagnostic]]:
    """Read every Policy of ``paths``: files, and directories recursively.

    Documents of other kinds are passed over in a directory and refused in a file that is named;
    tests of policies are passed over everywhere. Policies with errors are mended where possible.
    One name defined twice is an error.
    """
    files = list(_policy_files(paths))
    policies = tuple(policy for file in files for policy in file.policies)
    problems = [problem for file in files for problem in file.all_problems]
    problems += duplicate_names([policy for policy in policies if policy.sound])
    return policies, sorted(problems)


def rollouts_of(paths: Sequence[str]) -> list[Marked]:
    """Return the Rollout documents of files and directories, whatever is wrong with them."""
    ours = (models.POLICY_API_VERSION, models.ROLLOUT_KIND)
    return [
        held.marked
        for file in _policy_files(paths)
        for held in file.documents
        if document.kind_of(held.marked.value) == ours
    ]


def _policy_files(paths: Sequence[str]) -> Iterator[LoadedFile]:
    for root in map(FilePath, paths):
        for file in document.files_below(root):
            yield load_file(file, Kinds.POLICIES, named=file == root)


def load_config(path: str) -> tuple[LoadedConfig | None, list[Diagnostic]]:
    """Read a configuration file as `read_config` does. None if there are errors."""
    loaded, problems = read_config(path)
    failed = any(d.severity is Severity.ERROR for d in problems)
    return None if failed else loaded, problems


def read_config(path: str) -> tuple[LoadedConfig | None, list[Diagnostic]]:
    """Read a configuration file; it must hold one document, which is mended where possible."""
    file = load_file(FilePath(path), Kinds.CONFIGURATIONS, named=True)
    problems = list(file.problems)
    for further in file.documents[1:]:
        text = "a configuration file holds one document"
        position = document.DocumentPosition(path, further.marked)
        problems.append(position.diagnostic(models.ModelProblem((), "PS701", text)))
    if file.documents:
        problems += file.documents[0].problems
        return file.documents[0].config, sorted(problems)
    if not problems:
        problems.append(Diagnostic(path, 1, 1, "PS704", "the file holds no configuration"))
    return None, problems


#: Where the requests of a kind are; a device class has selectors of its own.
_REQUESTS: Final[Mapping[str, models.Path]] = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}
_CLASS: Final = "DeviceClass"


class DeviceSelectorText(msgspec.Struct, frozen=True):
    """A selector's text with its place, and the object that it is of."""

    text: Text
    object: str


def device_selectors(marked: Marked) -> tuple[list[DeviceSelectorText], list[Diagnostic]]:
    """Return the selectors of the objects of a document, and what is not a text in their place."""
    position = DocumentPosition(marked.file.path, marked)
    texts: list[DeviceSelectorText] = []
    problems: list[Diagnostic] = []
    for root, value in device_objects(marked.value):
        for path, expression in selectors_in(value, root):
            if isinstance(expression, models.ModelProblem):
                problems.append(position.diagnostic(expression))
            else:
                locate = locator(marked, path)
                text = Text(expression, position.name, locate, models.path_text(path[len(root) :]))
                texts.append(DeviceSelectorText(text, _title(value)))
    return texts, problems


def _title(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{value['kind']} {name}" if isinstance(name, str) else str(value["kind"])


def selectors_in(
    value: Mapping[str, Any], root: models.Path = ()
) -> Iterator[tuple[models.Path, str | models.ModelProblem]]:
    """Yield the expressions of an object, or the problem of each that is not a text."""
    if value["kind"] == _CLASS:
        yield from _of_selectors(_at(value, ("spec",)), (*root, "spec"))
        return
    path = _REQUESTS[value["kind"]]
    requests = _at(value, path)
    for i, request in enumerate(requests if isinstance(requests, list) else ()):
        at = (*root, *path, i)
        yield from _of_selectors(request, at)  # as v1beta1 has it
        exactly = _at(request, ("exactly",))
        yield from _of_selectors(exactly, (*at, "exactly"))
        choices = _at(request, ("firstAvailable",))
        for k, choice in enumerate(choices if isinstance(choices, list) else ()):
            yield from _of_selectors(choice, (*at, "firstAvailable", k))


def _of_selectors(
    value: object, path: models.Path
) -> Iterator[tuple[models.Path, str | models.ModelProblem]]:
    selectors, path = _at(value, ("selectors",)), (*path, "selectors")
    if selectors is None:
        return
    if not isinstance(selectors, list):
        yield path, models.problem_at(path, "Invalid value: must be a list", models.WRONG_TYPE)
        return
    for i, selector in enumerate(selectors):
        at = (*path, i, "cel", "expression")
        expression = _at(selector, ("cel", "expression"))
        if expression is None or expression == "":
            yield at, models.required(at)
        elif isinstance(expression, str):
            yield at, expression
        else:
            yield (
                at,
                models.problem_at(at, "Invalid value: must be a text: quote it", models.WRONG_TYPE),
            )


def _at(value: object, path: models.Path) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
