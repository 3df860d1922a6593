"""Checks policy and configuration files, together: what ``policy-sched check`` prints."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Final, TextIO

import msgspec

from policy_sched.errors import Diagnostic, Severity, bounded
from policy_sched.language import problems_of
from policy_sched.language.cel import DeviceNames, check_selector, unknown_attributes
from policy_sched.language.check import CheckedPolicy, check_policy, diagnostic
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST, PolicySource
from policy_sched.profiles.check.lint import lint_policy, without_suppressed
from policy_sched.profiles.check.proofs import proof_problems
from policy_sched.profiles.check.rollouts import another_rollout, is_rollout, rollout_problems
from policy_sched.profiles.load import (
    SUFFIXES,
    DeviceSelectorText,
    LoadedConfig,
    LoadedFile,
    LoadedPolicy,
    beyond_ceiling,
    duplicate_names,
    experiment_shape,
    files_below,
    load,
    load_file,
    load_policies,
    policy_source,
)
from policy_sched.profiles.models import MISSING_KEY, default_policies, path_text
from policy_sched.source import Marked, SourceFile, read_text

_NAMES: Final = frozenset(
    {(), ("spec",), ("spec", "params"), ("spec", "variables"), ("spec", "functions")}
)
"""Paths whose placeholder would cause errors about undefined names in rules."""
STDIN: Final = "-"


Further = Callable[
    [LoadedPolicy, PolicySource, CheckedPolicy, Sequence[Mapping[str, Any]]], list[Diagnostic]
]
"""From a policy, its source, its checked form and the arguments that configurations give it."""


CheckExperiment = Callable[[Marked], list[Diagnostic]]
"""Returns every problem of a document that is an Experiment."""


CheckOne = Callable[[LoadedPolicy], tuple[list[Diagnostic], float]]
"""Returns the problems of one policy, and the seconds that the check took."""
CheckEach = Callable[[CheckOne, Sequence[LoadedPolicy]], list[tuple[list[Diagnostic], float]]]
"""Applies the check of one policy to many, in their order."""


class Checkup(msgspec.Struct, frozen=True):
    """The files and policies that were checked, and their diagnostics in file order.

    ``seconds``: how long reading and checking each file took.
    """

    files: list[str]
    policies: tuple[LoadedPolicy, ...]
    diagnostics: list[Diagnostic]
    seconds: Mapping[str, float]


def check_files(paths: Sequence[str]) -> list[Diagnostic]:
    """Return every problem of the policies and configurations in ``paths``; see `check_all`."""
    return check_all(paths).diagnostics


def one_by_one(
    work: CheckOne, policies: Sequence[LoadedPolicy]
) -> list[tuple[list[Diagnostic], float]]:
    """Check policies one after the other."""
    return [work(policy) for policy in policies]


def check_all(  # noqa: PLR0913 - most are keywords
    paths: Sequence[str],
    further: Further | None = None,
    stdin: TextIO | None = None,
    each: CheckEach = one_by_one,
    *,
    refuse_others: bool = True,
    max_cost_limit: int = MAX_ANNOTATED_COST,
    devices: DeviceNames | None = None,
    experiments: CheckExperiment = experiment_shape,
) -> Checkup:
    """Return every problem of the policies and configurations in ``paths``, in file order.

    Directories are read recursively, a file only once; ``-`` is ``stdin``. A configuration may name
    the policies found here, those of the shipped default profile, and installed Python plugins.
    Tests of policies are looked at for their shape. Documents of other kinds are refused in a file
    that is named, and passed over in a directory; but a path without anything to check is a
    problem. Without ``refuse_others`` they are passed over in files that are named, too.
    ``further``: further checks of policies without errors. ``each``: how policies are gone
    through. ``max_cost_limit``: the most that a policy's annotation may let its rules cost.
    ``devices``: the names that selectors over devices may read, all if there is no snapshot.
    ``experiments`` checks an Experiment; only its shape unless given.
    """
    check = _Check(further, each, devices, experiments, makes_plugins=True)
    read: dict[FilePath, LoadedFile] = {}
    for path in dict.fromkeys(paths):
        stream = stdin if path == STDIN else None
        root = FilePath(path)
        recognized = False
        for file in [root] if stream is not None else files_below(root):
            key = file.resolve()
            if key in read:
                recognized = True
                continue
            started = time.perf_counter()
            named = refuse_others and file == root
            read[key] = load_file(file, named=named) if stream is None else _load_stdin(stream)
            check.seconds[str(file)] += time.perf_counter() - started
            recognized |= read[key].recognized
        if not recognized:
            check.diagnostics.append(_nothing_in(path))
    policies = [policy for file in read.values() for policy in file.policies]
    check.diagnostics += beyond_ceiling(policies, max_cost_limit)
    return check.run(tuple(read.values()))


def _load_stdin(stream: TextIO) -> LoadedFile:
    text = read_text(stream, STDIN)
    if isinstance(text, Diagnostic):
        return LoadedFile(STDIN, None, problems=(text,))
    return load(SourceFile(STDIN, text), named=True)


def _nothing_in(path: str) -> Diagnostic:
    """Return that a path holds nothing to check: a mistyped path would look like success."""
    folder = FilePath(path).is_dir()
    where = "directory" if folder else "file"
    message = f"there is no policy, configuration, test, experiment or selector in this {where}"
    hint = f"files that are read in a directory: {', '.join(SUFFIXES)}" if folder else ""
    return Diagnostic(path, 1, 1, MISSING_KEY, message, hint)


def check_open(
    path: str,
    text: str,
    beside: Sequence[str] = (),
    experiments: CheckExperiment = experiment_shape,
) -> list[Diagnostic]:
    """Return every problem of a file that an editor has open, as its text is there.

    Documents of other kinds are passed over. A configuration may name the policies in the files
    and directories ``beside`` it; errors of those are not reported. ``experiments`` as in
    `check_all`.
    """
    file = load(SourceFile(path, text))
    check = _Check(experiments=experiments)
    if file.configs:
        names = {policy.name for policy in file.policies}
        check.others = tuple(
            policy for policy in load_policies(beside)[0] if policy.name not in names
        )
    return [problem for problem in check.run((file,)).diagnostics if problem.file == path]


@dataclass(slots=True)
class _Check:
    """One check: its options, and what was found so far.

    ``others`` are sound policies; ``makes_plugins``: those in Python that profiles enable.
    """

    further: Further | None = None
    each: CheckEach = one_by_one
    devices: DeviceNames | None = None
    experiments: CheckExperiment = experiment_shape
    others: tuple[LoadedPolicy, ...] = ()
    makes_plugins: bool = False
    diagnostics: list[Diagnostic] = field(default_factory=list)
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def run(self, files: Sequence[LoadedFile]) -> Checkup:
        """Check what the files hold."""
        policies = tuple(policy for file in files for policy in file.policies)
        configs = [config for file in files for config in file.configs]
        rollouts: list[Marked] = []
        for file in files:
            self.diagnostics += file.all_problems
            for document in file.documents:
                self.diagnostics += selector_problems(document.selectors, self.devices)
                self.diagnostics += proof_problems(document.marked)
                if is_rollout(document.marked):
                    self.diagnostics += rollout_problems(document.marked, policies)
                    rollouts.append(document.marked)
                if document.experiment:
                    self.diagnostics += self.experiments(document.marked)
        self.diagnostics += duplicate_names(policies)
        for other in rollouts[1:]:
            self.diagnostics += another_rollout(rollouts[0], other)
        work = partial(_timed, configs=configs, further=self.further)
        for policy, (problems, seconds) in zip(policies, self.each(work, policies), strict=True):
            self.diagnostics += problems
            self.seconds[policy.place.name] += seconds
        so_far = tuple(self.diagnostics)
        for config in configs:
            others = (*policies, *self.others)
            self.diagnostics += config_errors(config, others, so_far, make=self.makes_plugins)
        sources = {file.name: file.source for file in files if file.source and file.documents}
        diagnostics = _without_suppressed(sources, self.diagnostics)
        return Checkup(sorted(sources), policies, diagnostics, self.seconds)


def _arguments(policy: str, configs: Sequence[LoadedConfig]) -> Iterator[Mapping[str, Any]]:
    """Yield the parameters that configurations give a policy."""
    for config in configs:
        for profile in config.model.profiles:
            yield from (entry.args for entry in profile.plugin_config if entry.name == policy)


def _without_suppressed(
    files: Mapping[str, SourceFile], problems: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """Return all diagnostics in file order, without those that comments of their file silence."""
    by_file: dict[str, list[Diagnostic]] = {path: [] for path in files}
    for problem in dict.fromkeys(problems):
        by_file.setdefault(problem.file, []).append(problem)
    kept: list[Diagnostic] = []
    for path, diagnostics in by_file.items():
        file = files.get(path)
        kept += diagnostics if file is None else without_suppressed(file, diagnostics)
    return bounded(kept)


def selector_problems(
    selectors: Iterable[DeviceSelectorText], device_names: DeviceNames | None = None
) -> list[Diagnostic]:
    """Return the problems of selectors over devices.

    ``known``: the names that the devices of a snapshot have.
    """
    selector_faults: list[Diagnostic] = []
    for text in selectors:
        problems = check_selector(text.text.text)
        if not problems and device_names is not None:
            problems = unknown_attributes(text.text.text, device_names)
        context = f"{text.object}, {text.text.path}"
        selector_faults += [diagnostic(problem, text.text, context) for problem in problems]
    return selector_faults


def _timed(
    policy: LoadedPolicy, configs: Sequence[LoadedConfig], further: Further | None
) -> tuple[list[Diagnostic], float]:
    started = time.perf_counter()
    problems = _policy(policy, configs, further)
    return problems, time.perf_counter() - started


def _policy(
    policy: LoadedPolicy, configs: Sequence[LoadedConfig], further: Further | None
) -> list[Diagnostic]:
    """Return the errors of a policy's rules, as far as the rest of it is valid.

    Placeholders that stand for rules are left alone; ranges are checked only in a sound document,
    as a misspelt ``normalize`` would be blamed on the rule; lints only where there is no error.
    """
    if not _NAMES.isdisjoint(policy.filled):
        return []
    source = policy_source(policy)
    checked, problems = check_policy(source)
    problems = [
        _as_written(problem, policy)
        for problem in problems
        if not _about_placeholder(problem, policy)
    ]
    if not policy.sound or checked is None or _failed(problems):
        return problems
    problems += problems_of(checked)
    if _failed(problems):
        return problems
    problems += lint_policy(policy, source, checked)
    if further is not None:
        problems += further(policy, source, checked, list(_arguments(policy.name, configs)))
    return problems


def rule_errors(policies: Iterable[LoadedPolicy]) -> list[Diagnostic]:
    """Return the errors of the rules of policies, as far as the rest of each is valid."""
    return [p for p in rule_problems(policies) if p.severity is Severity.ERROR]


def rule_problems(policies: Iterable[LoadedPolicy]) -> list[Diagnostic]:
    """Return the errors and the lints of the rules of policies."""
    return [problem for policy in policies for problem in _policy(policy, (), None)]


def _about_placeholder(problem: Diagnostic, policy: LoadedPolicy) -> bool:
    """Return whether a problem of a rule is about its placeholder, not about the rule."""
    text = problem.context.partition("; ")[0].removeprefix(f"policy {policy.name}, ")
    return any(
        text == path or text.startswith((f"{path}.", f"{path}["))
        for path in (path_text(filled[1:]) for filled in policy.filled)
    )


def _as_written(problem: Diagnostic, policy: LoadedPolicy) -> Diagnostic:
    """Return a problem with the name that the policy has in its file, though it be none."""
    marked = policy.place.marked
    metadata = None if marked is None else marked.value.get("metadata")
    written = metadata.get("name") if isinstance(metadata, dict) else None
    if marked is None or written == policy.name:
        return problem
    shown = f"policy {written}, " if isinstance(written, str) else ""
    return replace(problem, context=problem.context.replace(f"policy {policy.name}, ", shown, 1))


def _failed(problems: Sequence[Diagnostic]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


def config_errors(
    config: LoadedConfig,
    policies: Sequence[LoadedPolicy],
    so_far: Iterable[Diagnostic],
    *,
    make: bool = False,
) -> list[Diagnostic]:
    """Return the errors of a configuration's names and parameters that are not ``known``.

    ``make``: plugins in Python are made, and what they refuse is an error, too.
    """
    seen = {(problem.file, problem.line, problem.column) for problem in so_far}
    problems = _resolved(config, policies, make=make)
    return [
        problem for problem in problems if (problem.file, problem.line, problem.column) not in seen
    ]


def _resolved(
    config: LoadedConfig, policies: Sequence[LoadedPolicy], *, make: bool
) -> list[Diagnostic]:
    """Return the problems of a configuration's names and parameters.

    Rules are compiled with a profile's parameters only if nothing else is wrong, and then plugins
    in Python are made, if ``make``.
    """
    # Plugins and the framework take 100 ms to import, and policies alone need none of them.
    from policy_sched.plugins import plugin_points  # noqa: PLC0415  see above
    from policy_sched.profiles.build import compile_profiles, foreign_problems  # noqa: PLC0415  see above
    from policy_sched.profiles.resolve import resolve  # noqa: PLC0415  see above

    shipped, _ = load_policies([str(default_policies())])
    plans, problems = resolve(config, (*shipped, *policies), plugin_points())
    unsound = {policy.name for policy in policies if not policy.sound}
    enabled = {name for plan in plans for name in (*plan.policies, *plan.audits)}
    if not plans or not config.sound or enabled & unsound:
        return problems
    compiled, problems = compile_profiles(config, policies, runs=False)
    return [*problems, *foreign_problems(config, compiled)] if compiled and make else problems
