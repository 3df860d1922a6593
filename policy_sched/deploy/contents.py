"""The files of a deployment: checked, and by the names that they have in a ConfigMap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from policy_sched import __version__
from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.profiles import models
from policy_sched.profiles.build import raise_errors, reads_pod_groups
from policy_sched.profiles.load import files_below, kind_of, read_documents
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.profiles.resolve import lease_of

NAME: Final = "policy-sched"
SYSTEM: Final = "kube-system"
APP: Final = "app.kubernetes.io/name"
IMAGE: Final = f"policy-sched:{__version__}"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)


@dataclass(frozen=True, slots=True)
class Options:
    """One deployment. ``shadow``: whose shadow it is, None for a scheduler that binds.

    ``tls_secret``: the Secret with the certificate of the endpoints, None to make one at the start.
    ``max_cost_limit``: the most that a policy's annotation may let its rules cost.
    ``feature_gates`` come before those of the configuration.
    """

    namespace: str = SYSTEM
    name: str = NAME
    image: str = IMAGE
    scheduler_name: str | None = None
    replicas: int | None = None
    shadow: str | None = None
    service_monitor: bool = False
    alerts: bool = False
    dashboard: bool = False
    tls_secret: str | None = None
    max_cost_limit: int = MAX_ANNOTATED_COST
    feature_gates: Mapping[str, bool] = field(default_factory=dict)

    @property
    def profile(self) -> str:
        """The schedulerName of a configuration that is made."""
        return self.scheduler_name or self.shadow or self.name

    def check(self) -> None:
        """Raise PolicySchedError for what no API server would take."""
        for option, value, rule in (
            ("--namespace", self.namespace, _LABEL),
            ("--name", self.name, _LABEL),
            ("--scheduler-name", self.scheduler_name, _SUBDOMAIN),
            ("--shadow", self.shadow, _SUBDOMAIN),
            ("--tls-secret", self.tls_secret, _SUBDOMAIN),
        ):
            if value is not None and not rule.fullmatch(value):
                raise PolicySchedError(f"{option} {value!r} is no name of Kubernetes")
        if not self.image or any(mark.isspace() for mark in self.image):
            raise PolicySchedError(f"--image {self.image!r} is no name of an image")
        if self.replicas is not None and self.replicas < 1:
            raise PolicySchedError("--replicas must be 1 at least")
        if self.shadow is not None and (self.replicas or 1) > 1:
            raise PolicySchedError("a shadow holds no lease: one replica is enough")


CONFIG_FILE: Final = "config.yaml"
LARGEST: Final = 1 << 20
"""Bytes that a ConfigMap holds at most, as the API server has it."""
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")


@dataclass(frozen=True, slots=True)
class Contents:
    """Texts of the configuration and the policies by file name.

    ``lease``: namespace and name of the lease, None without leader election. ``warnings``: of the
    files. ``pod_groups``: whether a feature gate or a policy is about them.
    """

    config: Mapping[str, str]
    policies: Mapping[str, str]
    lease: tuple[str, str] | None
    warnings: tuple[Diagnostic, ...] = ()
    pod_groups: bool = False


def contents(options: Options, config: str | None, policies: tuple[str, ...]) -> Contents:
    """Read and check the files; a configuration that is not given is made.

    Raises PolicyError with every problem of the files, PolicySchedError for what does not fit
    into a ConfigMap, or together.
    """
    if config is not None and options.scheduler_name is not None:
        text = "--scheduler-name is for when there is no --config; that names its profiles itself"
        raise PolicySchedError(text)
    gates = options.feature_gates
    compilation = PolicyFiles(config, policies, options.max_cost_limit, gates).compile()
    raise_errors(compilation.problems)
    assert compilation.settings is not None, "what has no errors has settings"
    named = list(_policies(policies))
    election = compilation.settings.leader_election
    if config is None:
        lease: tuple[str, str] | None = (options.namespace, options.name)
        text = _configuration(options, [name for _, name in named])
    else:
        lease = lease_of(election) if election.leader_elect else None
        text = Path(config).read_text(encoding="utf-8")
    files = _by_name(dict.fromkeys(file for file, _ in named))
    for what, texts in ((CONFIG_FILE, [text]), ("--policies", list(files.values()))):
        size = sum(len(content.encode()) for content in texts)
        if size > LARGEST:
            raise PolicySchedError(f"{what}: {size} bytes; a ConfigMap holds {LARGEST} at most")
    held = None if options.shadow is not None else lease
    groups = reads_pod_groups(compilation.plans)
    return Contents({CONFIG_FILE: text}, files, held, compilation.problems, pod_groups=groups)


def _policies(paths: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield file and name of each policy; other documents stay at home."""
    for path in paths:
        for file in files_below(Path(path)):
            for marked in read_documents(file)[0]:
                if kind_of(marked.value) == (models.POLICY_API_VERSION, models.POLICY_KIND):
                    yield file, str(marked.value["metadata"]["name"])


def _by_name(files: Iterable[Path]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for file in files:
        name = file.name
        if not _KEY.fullmatch(name):
            raise PolicySchedError(
                f"{file}: {name!r} can be no key of a ConfigMap; rename the file"
            )
        if name in texts:
            name = f"{file.parent.name}-{name}"  # as in policies/NAME/policy.yaml
        if name in texts or not _KEY.fullmatch(name):
            raise PolicySchedError(f"{file}: a ConfigMap has {name!r} already; rename the file")
        texts[name] = file.read_text(encoding="utf-8")
    return texts


def _configuration(options: Options, policies: Iterable[str]) -> str:
    """Return the configuration that enables the policies for pods of one schedulerName."""
    default = {name for name, _ in models.DEFAULT_PLUGINS}
    enabled = [{"name": name} for name in policies if name not in default]
    plugins = {"plugins": {"multiPoint": {"enabled": enabled}}} if enabled else {}
    election: dict[str, object] = {"leaderElect": False}
    if options.shadow is None:
        election = {"resourceName": options.name, "resourceNamespace": options.namespace}
    document = {
        "apiVersion": models.API_VERSION,
        "kind": models.KIND,
        "leaderElection": election,
        "profiles": [{"schedulerName": options.profile, **plugins}],
    }
    return yaml.safe_dump(document, sort_keys=False)
