"""Checks policy and configuration files, together: what ``policy-sched check`` prints."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from policy_sched.errors import Diagnostic
from policy_sched.language.checker import check_policy
from policy_sched.language.sources import PolicySource
from policy_sched.profiles import models, models_policy
from policy_sched.profiles.document import (
    Place,
    files_below,
    kind_of,
    kind_problem,
    read_documents,
)
from policy_sched.profiles.load_config import LoadedConfig, load_config_document
from policy_sched.profiles.load_policies import (
    LoadedPolicy,
    duplicate_names,
    load_policies,
    load_policy_document,
)
from policy_sched.profiles.policy_source import policy_source
from policy_sched.profiles.resolve import resolve
from policy_sched.profiles.resources import default_policies
from policy_sched.source import Marked

_POLICY = (models_policy.API_VERSION, models_policy.KIND)
_CONFIGURATION = (models.API_VERSION, models.KIND)
_CONFIGURATION_GROUP = "kubescheduler.config.k8s.io/"


@dataclass(slots=True)
class _Found:
    """What the files hold, and what is wrong with them so far."""

    policies: list[LoadedPolicy] = field(default_factory=list)
    configs: list[LoadedConfig] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def read(self, marked: Marked, *, named: bool) -> None:
        """Read one document; one of another kind is refused only in a file that was named."""
        place = Place(marked.file.path, marked)
        version, kind = kind_of(marked.value)
        if kind in models_policy.TEST_KINDS:
            return
        ours = version.startswith((models_policy.GROUP, _CONFIGURATION_GROUP))
        if kind == models_policy.KIND and (named or ours):
            policy, found = load_policy_document(marked)
            self.policies += [] if policy is None else [policy]
        elif kind == models.KIND:
            config, found = load_config_document(marked.value, place)
            self.configs += [] if config is None else [config]
        elif named or ours:
            problem = kind_problem(marked.value, (_POLICY, _CONFIGURATION))
            found = [place.diagnostic(problem)]
        else:
            return
        self.diagnostics += found


def check_files(
    paths: Sequence[str], plugin_points: Mapping[str, Collection[str]] | None = None
) -> list[Diagnostic]:
    """Return every problem of the policies and configurations in ``paths``, in file order.

    Directories are read recursively. A configuration may name the policies found here, those of
    the shipped default profile, and the Python plugins of ``plugin_points``. Documents of other
    kinds are refused in a file that is named, and passed over in a directory.
    """
    found = _Found()
    for path in paths:
        root = FilePath(path)
        for file in files_below(root):
            documents, unreadable = read_documents(file)
            found.diagnostics += unreadable
            for marked in documents:
                found.read(marked, named=file == root)
    found.diagnostics += duplicate_names(found.policies)
    for policy in found.policies:
        if not policy.mended:
            found.diagnostics += _language(policy_source(policy))
    shipped = load_policies([str(default_policies())])[0] if found.configs else ()
    for config in found.configs:
        _check_config(config, (*shipped, *found.policies), plugin_points, found)
    return sorted(_once(found.diagnostics))


def _check_config(
    config: LoadedConfig,
    policies: Sequence[LoadedPolicy],
    plugin_points: Mapping[str, Collection[str]] | None,
    found: _Found,
) -> None:
    """Add what is wrong with the names and parameters of a configuration."""
    seen = {(d.file, d.line, d.column) for d in found.diagnostics}
    plans, problems = resolve(config, policies, plugin_points)
    found.diagnostics += [d for d in problems if (d.file, d.line, d.column) not in seen]
    defaults = {policy.name: policy.model.spec.params for policy in policies}
    for plan in plans:
        for name, source in plan.policies.items():
            if source.params != defaults[name]:
                found.diagnostics += _language(source)


def _language(source: PolicySource) -> list[Diagnostic]:
    """Return what the rule language says about a policy with its effective parameters."""
    return check_policy(source)[1]


def _once(diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics without repetitions."""
    return list(dict.fromkeys(diagnostics))
