"""The files that a scheduler is started with, read and compiled together, all or nothing.

A policy set can also be given as one path: policies, and perhaps the configuration that enables
them.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched.errors import Diagnostic, PolicySchedError, Severity, bounded
from policy_sched.language import SCHEMA_DIFFERS, Input, schema_hint
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST, PolicySource
from policy_sched.model import ApiObject, Kind
from policy_sched.profiles import load, models
from policy_sched.profiles.build import CompiledPlan, compile_profiles, raise_errors
from policy_sched.profiles.resolve import named_policies
from policy_sched.source import SourceFile, read_bytes, write_file

if TYPE_CHECKING:
    from policy_sched.profiles.check import CheckedRollout

Config = str | Mapping[str, Any] | None

INPUT_NOT_THERE: Final = "PS807"
"""Code of a kind that the cluster has not, or that cannot be read."""

MOST_ROLLOUTS: Final = 64
"""Rollouts that are objects of which any is read: the first ones by name."""

#: How often files that change while they are read are read again.
TRIES: Final = 3
_PLACE: Final = re.compile(r"/(?:config|rollout|\d+(?:-file)?)/.")


class RolloutText(msgspec.Struct, frozen=True):
    """A Rollout: the text of its file, and which of its documents it is; or its object."""

    path: str
    text: str = ""
    number: int = 0
    given: load.PolicyObject | None = None

    @property
    def uid(self) -> str:
        """The uid of the object; of a file's document there is none."""
        if self.given is None:
            return ""
        return str(msgspec.json.decode(self.given.raw)["metadata"].get("uid") or self.given.name)

    def checked(self) -> CheckedRollout | None:
        """Return it with its rules compiled; None for an object with errors."""
        if self.given is not None:
            return checked_rollout(self.given)[0]
        from policy_sched.profiles.check import check_rollout  # noqa: PLC0415 - for rollouts alone

        file = load.load(SourceFile(self.path, self.text), load.Kinds.POLICIES)
        checked, _ = check_rollout(file.documents[self.number].marked)
        assert checked is not None, "it had no problems when it was compiled"
        return checked


class Compilation(msgspec.Struct, frozen=True):
    """The result of compiling files: plans and settings if there is no error among the problems.

    The settings are those of the configuration; the plans have the feature gates that are on.
    ``rollout``: by which steps the plans come in force. With it come the texts of the files, by
    path, of which a scheduler that starts later makes the plans again.
    """

    plans: tuple[CompiledPlan, ...]
    problems: tuple[Diagnostic, ...]
    settings: models.KubeSchedulerConfiguration | None = None
    paths: Mapping[load.Place, str] = msgspec.field(default_factory=dict)
    """The fields of policies as objects that problems are about."""
    rollout: RolloutText | None = None
    sources: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) of all profiles: equal sets decide alike, wherever their files are."""
        return load.content_hash([plan.content_hash for plan in self.plans])

    @property
    def failed(self) -> bool:
        """Is one of the problems an error?"""
        return any(d.severity is Severity.ERROR for d in self.problems)


class PolicyFiles(msgspec.Struct, frozen=True):
    """A configuration and the policies that it may name."""

    config: Config = None
    """A file, data, or None: all policies are enabled after the default plugins."""
    policies: tuple[str, ...] = ()
    """Files and directories."""
    max_cost_limit: int = MAX_ANNOTATED_COST
    """The most that a policy's annotation may let its rules cost."""
    feature_gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """Those that come before the configuration's."""
    enforce_audits: bool = False
    """Whether policies that are audited decide, as in tests of them."""
    objects: tuple[load.PolicyObject, ...] = ()
    """Policies that are objects of the cluster; policies in files come first."""
    rollout: str | None = None
    """A file with a Rollout; there may be one among the policies instead."""
    rollouts: tuple[load.PolicyObject, ...] = ()
    """Rollouts that are objects, by name: the first sound one counts, unless a file has one."""
    keeps_texts: bool = False
    """Whether the texts of the files are kept, for a rollout that may come later."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The files and directories that are read."""
        own = (self.config,) if isinstance(self.config, str) else ()
        return (*own, *self.policies, *self._rollout_paths)

    @property
    def _rollout_paths(self) -> tuple[str, ...]:
        return () if self.rollout is None else (self.rollout,)

    def fingerprint(self) -> load.Fingerprint:
        """Return the state of the files, and of the schemas beside policies that are named."""
        return load.fingerprint(self.paths, load.with_schemas)

    def input_kinds(self) -> dict[Kind, type[ApiObject]]:
        """Return how the kinds are decoded that the policies read; see `load.input_kinds`."""
        return load.input_kinds(self.loaded())

    def loaded(self) -> tuple[load.LoadedPolicy, ...]:
        """Return the policies of the files, and the shipped ones that the configuration names."""
        policies, _ = load.load_policies(self.policies)
        policies += tuple(policy for policy in self._read_objects(policies)[0] if policy.sound)
        config, _ = (None, []) if self.config is None else _read_config(self.config)
        if config is None:
            return policies
        return (*policies, *named_policies(config.model, {policy.name for policy in policies}))

    def problems_of_input(self, kind: Kind, message: str) -> list[Diagnostic]:
        """Return a problem at each input that declares a kind, with the schema to apply."""
        problems = []
        for policy in self.loaded():
            for number, given in enumerate(policy.model.spec.inputs):
                if (given.api_version, given.kind) == kind:
                    path: models.Path = ("spec", "inputs", number, "kind")
                    file = Path(policy.place.name).parent / given.schema_file
                    what = "apply its CustomResourceDefinition"
                    what += f": kubectl apply -f {file}" if _is_definition(file) else ""
                    hint = f"{what}; or write optional: true"
                    problem = models.ModelProblem(path, INPUT_NOT_THERE, message, hint)
                    problems += policy.place.diagnostics([problem])
        return problems or [Diagnostic("<policies>", 1, 1, INPUT_NOT_THERE, message)]

    def problems_of_schema(self, given: Input, message: str) -> list[Diagnostic]:
        """Return a problem at each input of that name and kind, whose schema to renew."""
        problems = []
        for policy in self.loaded():
            for number, declared in enumerate(policy.model.spec.inputs):
                same = (declared.api_version, declared.kind) == given.object_kind
                if same and declared.name == given.name:
                    stated = "schema" if declared.schema_file else "fields"
                    path: models.Path = ("spec", "inputs", number, stated)
                    hint = schema_hint(given, declared.schema_file)
                    problem = models.ModelProblem(path, SCHEMA_DIFFERS, message, hint)
                    problems += policy.place.diagnostics([problem])
        return problems or [Diagnostic("<policies>", 1, 1, SCHEMA_DIFFERS, message)]

    def compile(self) -> Compilation:
        """Load, resolve and compile everything; every problem of every file is reported."""
        of_files, problems_read = load.read_policies(self.policies)
        objects, problems_of_objects = self._read_objects(of_files)
        read = (*of_files, *objects)
        if self.enforce_audits:
            read = tuple(map(load.enforced, read))
        problems_read += problems_of_objects
        policies = tuple(policy for policy in read if policy.sound)
        problems_read += load.beyond_ceiling(policies, self.max_cost_limit)
        problems = [*problems_read, *self._empty_paths(policies, problems_read)]
        config: load.LoadedConfig | None
        if self.config is None:
            names = [policy.name for policy in of_files if policy.sound]
            config = load.default_config(list(dict.fromkeys(names)))
        else:
            config, refused = _read_config(self.config)
            problems += refused
        plans: tuple[CompiledPlan, ...] = ()
        settings = None if config is None else config.model
        if config is not None and self.feature_gates:
            config, refused = self._with_gates(config)
            problems += refused
        broken = {problem.file for problem in problems_read if problem.severity is Severity.ERROR}
        if config is not None and config.sound:
            plans, refused = compile_profiles(config, policies)
            problems += refused
            # What is not compiled is checked below: policies with errors of form, and, where the
            # configuration enables something that cannot be, all.
            if plans or not {problem.file for problem in refused}.isdisjoint(
                policy.place.name for policy in read
            ):
                read = tuple(policy for policy in read if policy.place.name in broken)
        elif config is not None:
            # A configuration with one error may have others, which show where it is mended.
            problems += _unsound_problems(config, read, problems)
        problems += _rule_problems(read)
        enabled = {name for ready in plans for name in (*ready.policies, *ready.audits)}
        for given in self.objects if objects else ():  # their authors read what is wrong
            problems += () if given.name in enabled else _errors_of_object(given)
        rollout, refused = self._read_rollout()
        problems += refused
        told = tuple(sorted(set(problems)))
        paths = load.paths_of(self.objects, told)
        result = Compilation(plans, told, settings, paths, rollout)
        if result.failed:
            return Compilation((), told, None, paths)
        keeps = self.keeps_texts or rollout is not None
        return replace(result, sources=self._sources()) if keeps else result

    def _read_objects(
        self, of_files: Sequence[load.LoadedPolicy]
    ) -> tuple[tuple[load.LoadedPolicy, ...], list[Diagnostic]]:
        """Return the policies that are objects and that no file stands in for."""
        files = {policy.name: policy.place.name for policy in of_files}
        return load.read_objects(self.objects, files)

    def _read_rollout(self) -> tuple[RolloutText | None, list[Diagnostic]]:
        """Return the Rollout, of which there is one at most, and its problems."""
        documents = load.rollouts_of((*self.policies, *self._rollout_paths))
        if not documents and self.rollouts:
            # An object with errors holds changes back, and keeps no set from being read.
            read = [(given, *checked_rollout(given)) for given in self.rollouts[:MOST_ROLLOUTS]]
            given = next((given for given, checked, _ in read if checked), self.rollouts[0])
            every = (problem for _, _, problems in read for problem in problems)
            told = [dataclasses.replace(p, severity=Severity.WARNING) for p in every]
            return RolloutText(given.file, given=given), told
        if not documents:
            code, message = models.MISSING_KEY, "there is no Rollout in this file"
            return None, [Diagnostic(path, 1, 1, code, message) for path in self._rollout_paths]
        from policy_sched.profiles.check import another_rollout, check_rollout  # noqa: PLC0415 - for rollouts alone

        first, *others = documents
        checked, problems = check_rollout(first)
        for other in others:
            problems += another_rollout(first, other)
        if checked is None:
            return None, problems
        file = load.load(first.file, load.Kinds.POLICIES)
        number = [held.marked.value for held in file.documents].index(first.value)
        return RolloutText(first.file.path, first.file.text, number), problems

    def places(self) -> dict[str, str]:
        """Return the files by places, which are the same wherever the files are kept.

        ``/config/FILE``, ``/0/FILE`` below the first of the policies, ``/1-file/FILE`` where the
        second is a file (after it the schemas that it names), and ``/rollout/FILE``.
        """
        files: dict[str, str] = {}
        for kind, path in (("config", self.config), ("rollout", self.rollout)):
            if isinstance(path, str):
                files[f"/{kind}/{Path(path).name}"] = path
        for number, path in enumerate(self.policies):
            given = Path(path)
            top, root = (number, given) if given.is_dir() else (f"{number}-file", given.parent)
            for file in map(str, load.with_schemas(given)):
                files[f"/{top}/{os.path.relpath(file, root)}"] = file
        # names are bytes to the system, and text in a record
        return {
            os.fsencode(place).decode("utf-8", "backslashreplace"): file
            for place, file in files.items()
        }

    def _sources(self) -> dict[str, str]:
        """Return the texts of all files by their places, and of objects by their names."""
        return {given.file: given.text for given in self.objects} | {
            place: text_of(file) for place, file in self.places().items() if Path(file).is_file()
        }

    def compile_texts(self, sources: Mapping[str, str]) -> Compilation:
        """Compile texts by place (see `places`), wherever the files are now."""
        objects = tuple(
            load.PolicyObject(name.rpartition("/")[2], text.encode())
            for name, text in sources.items()
            if not name.startswith("/")
        )
        places = [name for name in sources if is_place(name)]
        with TemporaryDirectory(prefix="policy-sched-") as folder:
            for place in places:
                write_file(folder + place, sources[place].encode(), parents=True)
            named, policies = given_by(places)
            config = None if isinstance(self.config, str) else self.config
            paths = tuple(folder + path for path in policies)
            files = replace(self, config=folder + named if named else config, policies=paths)
            files = replace(files, rollout=None, objects=objects, rollouts=())
            return replace(files.compile(), rollout=None, sources=sources)

    def _with_gates(self, config: load.LoadedConfig) -> tuple[load.LoadedConfig, list[Diagnostic]]:
        """Return the configuration with the feature gates of the command line."""
        gates = {**config.model.feature_gates, **self.feature_gates}
        model = config.model.model_copy(update={"feature_gates": gates})
        problems = [
            Diagnostic("--feature-gates", 1, 1, models.BAD_VALUE, text, hint)
            for name, text, hint in models.gate_faults(gates)
            if name in self.feature_gates
        ]
        return replace(config, model=model), problems

    def _empty_paths(
        self, policies: Sequence[load.LoadedPolicy], problems: Iterable[Diagnostic]
    ) -> Iterator[Diagnostic]:
        """Yield a warning for each path without a policy: a mistyped path would look like success.

        A directory that holds the configuration is there for that, too.
        """
        held = {policy.place.name for policy in policies} | {problem.file for problem in problems}
        if isinstance(self.config, str):
            held.add(self.config)
        for path in self.policies:
            if held.isdisjoint(map(str, load.files_below(Path(path)))):
                where = "directory" if Path(path).is_dir() else "file"
                message = f"there is no policy in this {where}"
                yield Diagnostic(path, 1, 1, models.MISSING_KEY, message, severity=Severity.WARNING)


def _unsound_problems(
    config: load.LoadedConfig, policies: Sequence[load.LoadedPolicy], problems: Sequence[Diagnostic]
) -> list[Diagnostic]:
    """Return the further problems of a configuration that has some; its checks are imported."""
    from policy_sched.profiles.check import config_errors  # noqa: PLC0415 - where there are errors

    return config_errors(config, policies, problems)


def _rule_problems(policies: Sequence[load.LoadedPolicy]) -> list[Diagnostic]:
    """Return the problems of rules that were not compiled; for some, their checks are imported."""
    if not policies:
        return []
    from policy_sched.profiles.check import rule_errors  # noqa: PLC0415 - where there are errors

    return rule_errors(policies)


@lru_cache(maxsize=load.MOST_OBJECTS)
def _errors_of_object(given: load.PolicyObject) -> tuple[Diagnostic, ...]:
    """Return the errors of the rules of an object that no profile enables; kept, as it is read."""
    policy = load.read_object(given).policy
    return () if policy is None else tuple(_rule_problems((policy,)))


@lru_cache(maxsize=MOST_ROLLOUTS)
def checked_rollout(
    given: load.PolicyObject,
) -> tuple[CheckedRollout | None, tuple[Diagnostic, ...]]:
    """Return a Rollout that is an object with its rules compiled, or None with its problems."""
    from policy_sched.profiles.check import check_rollout  # noqa: PLC0415 - for rollouts alone

    read = load.read_object(given)
    if read.marked is None:
        return None, read.problems
    checked, problems = check_rollout(read.marked)
    return checked, tuple(problems)


def _read_config(
    config: str | Mapping[str, Any],
) -> tuple[load.LoadedConfig | None, list[Diagnostic]]:
    """Return a configuration, which is a file or data, and its problems."""
    return load.read_config(config) if isinstance(config, str) else load.config_from_value(config)


def _is_definition(file: Path) -> bool:
    """Return whether a schema is what an API server takes, and not only what rules read of it."""
    try:
        return "CustomResourceDefinition" in read_bytes(str(file)).decode("utf-8", "replace")
    except (OSError, ValueError, EOFError):
        return False


def compile_consistently(files: PolicyFiles) -> Compilation:
    """Compile the files from one consistent read, even while they are being written.

    After `TRIES` attempts, from the last read.
    """
    before = files.fingerprint()
    compilation = files.compile()
    for _ in range(TRIES - 1):
        after = files.fingerprint()
        if after == before:
            break
        before, compilation = after, files.compile()
    return compilation


def first_compilation(
    files: PolicyFiles, compiler: Callable[[PolicyFiles], Compilation] = compile_consistently
) -> tuple[PolicyFiles, Compilation]:
    """Compile files for the first time, and return what was compiled.

    No set is in force yet that could stay, and an object that is broken, or goes beyond the limits
    of a compiler process, must not keep a scheduler from its start: it is left out.
    """
    compilation, looked = compiler(files), False
    while compilation.failed and files.objects:
        broken = {p.file for p in compilation.problems if p.severity is Severity.ERROR}
        kept = tuple(given for given in files.objects if given.file not in broken)
        if load.OBJECTS in broken:
            kept = ()
        if len(kept) == len(files.objects) and not looked:
            looked = True
            kept = tuple(
                given for given in kept if not compiler(alone(given, files.max_cost_limit)).failed
            )
        if len(kept) == len(files.objects):
            break
        files = replace(files, objects=kept)
        compilation = compiler(files)
    return files, compilation


def alone(given: load.PolicyObject, max_cost_limit: int = MAX_ANNOTATED_COST) -> PolicyFiles:
    """Return an object as the only policy beside the default plugins, for a judgement of its own.

    One that sorts the queue does so in place of PrioritySort.
    """
    spec = msgspec.json.decode(given.raw).get("spec") or {}
    sorts = isinstance(spec, dict) and not spec.keys().isdisjoint(("queueSort", "queueOrder"))
    plugins: dict[str, Any] = {"enabled": [{"name": given.name}]}
    if sorts:
        plugins["disabled"] = [{"name": "PrioritySort"}]
    head = {"apiVersion": models.API_VERSION, "kind": models.KIND}
    config = {**head, "profiles": [{"plugins": {"multiPoint": plugins}}]}
    return PolicyFiles(config, (), max_cost_limit, objects=(given,))


def text_of(file: str) -> str:
    """Return the text of a file. Raises OSError."""
    return read_bytes(file).decode("utf-8", "replace")


def is_place(name: str) -> bool:
    """Return whether a name is one that `PolicyFiles.places` gives: it leaves no folder."""
    normal = os.path.normpath(name) == name and "\0" not in name
    return normal and _PLACE.match(name) is not None


def given_by(places: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return the configuration among places, "" for none, and the policies in their order."""
    first: dict[str, str] = {}
    for place in places:
        first.setdefault(place.split("/")[1], place)
    policies = (
        place if top.endswith("-file") else f"/{top}"
        for top, place in first.items()
        if top[0].isdigit()
    )
    return first.get("config", ""), tuple(policies)


def judged_alone(given: load.PolicyObject, max_cost_limit: int) -> tuple[load.ObjectProblem, ...]:
    """Return every problem of an object, whatever else there is; of a sound policy, its lints."""
    if given.kind == models.POLICY_KIND:
        compilation = alone(given, max_cost_limit).compile()
        told = list(compilation.problems)
        policy = load.read_object(given).policy
        if not compilation.failed and policy is not None:
            from policy_sched.profiles.check import rule_problems  # noqa: PLC0415 - see above

            told += rule_problems((policy,))
    else:
        told = list(load.read_object(given).problems)
    paths = load.paths_of((given,), told)
    return tuple(load.problem_of(problem, paths) for problem in bounded(dict.fromkeys(told)))


def warmed() -> None:
    """Compile the default profile, so that the first object is judged at once."""
    PolicyFiles().compile()


class CompiledFiles(msgspec.Struct, frozen=True):
    """A policy set, compiled.

    ``config``: the KubeSchedulerConfiguration that decides which policies are enabled; None: each
    one is. ``idle``: the policies of the set that no profile enables, by name. ``warnings``: of
    the files that were read. ``rollout``: the name of the Rollout among them.
    """

    config: str | None
    plans: Sequence[CompiledPlan]
    idle: dict[str, PolicySource]
    warnings: Sequence[Diagnostic] = ()
    rollout: str = ""


def read_policy_set(path: str, max_cost_limit: int = MAX_ANNOTATED_COST) -> CompiledFiles:
    """Read and compile a policy set. Raises PolicyError with every problem if one is an error.

    ``max_cost_limit``: the most that a policy's annotation may let its rules cost.
    """
    return compiled_set(replace(policy_set(path), max_cost_limit=max_cost_limit))


def compiled_set(files: PolicyFiles) -> CompiledFiles:
    """Read and compile files. Raises PolicyError with every problem if one is an error."""
    compilation = files.compile()
    raise_errors(compilation.problems)
    plans = compilation.plans
    enabled = {name for ready in plans for name in ready.plan.policies}
    policies, _ = load.load_policies(files.policies)
    idle = {
        policy.name: load.policy_source(policy) for policy in policies if policy.name not in enabled
    }
    config = files.config if isinstance(files.config, str) else None
    rollout = None if compilation.rollout is None else compilation.rollout.checked()
    name = "" if rollout is None else rollout.model.metadata.name
    return CompiledFiles(config, plans, dict(sorted(idle.items())), compilation.problems, name)


def policy_set(path: str) -> PolicyFiles:
    """Return the files of a policy set: of a directory, or of one file.

    A KubeSchedulerConfiguration among them enables the policies; without one each is enabled
    after the default plugins. Raises PolicySchedError if there are several.
    """
    root = Path(path)
    configurations = [str(file) for file in load.files_below(root) if _is_configuration(file)]
    if len(configurations) > 1:
        message = f"{path} has several KubeSchedulerConfigurations: {', '.join(configurations)}"
        raise PolicySchedError(message)
    if configurations == [path]:
        return PolicyFiles(path)
    return PolicyFiles(configurations[0] if configurations else None, (path,))


def _is_configuration(file: Path) -> bool:
    documents, _ = load.read_documents(file)
    return any(
        load.kind_of(marked.value) == (models.API_VERSION, models.KIND) for marked in documents
    )
