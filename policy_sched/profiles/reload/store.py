"""The active policies: the loaded set, the result of the last reload, and how to reload.

Theory of operation. A set is frozen: plans, generation and content hash never change. A reload
compiles everything beside the set in force; any problem keeps that set, and all are reported.
Where nothing that decides has changed (comments and places do not decide), there is no new
generation. Otherwise the new set is offered to `enact`, which builds and swaps, or refuses by
raising; only then does it become the set in force, or the candidate of a rollout. `prepare` touches
nothing that runs, so it may work in a thread; all else belongs between two cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from policy_sched.errors import Diagnostic, PluginError, PolicyError, bounded
from policy_sched.profiles import build
from policy_sched.profiles.load import content_hash
from policy_sched.profiles.models import NOT_BUILT, KubeSchedulerConfiguration, settled_gates
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles, compile_consistently


class ActivePolicies(msgspec.Struct, frozen=True):
    """Everything that decides, frozen; generations count from 1."""

    plans: tuple[build.CompiledPlan, ...]
    settings: KubeSchedulerConfiguration
    generation: int = 1
    warnings: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The texts of its files by path, where a rollout is to be begun."""

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) of all profiles: equal sets decide alike, wherever their files are."""
        return content_hash([plan.content_hash for plan in self.plans])


class ReloadResult(StrEnum):
    """The result of a reload; the values are metric labels."""

    LOADED = "loaded"
    """A new set is active."""
    UNCHANGED = "unchanged"
    """The files have the same content as before."""
    STAGED = "staged"
    """A new set is the candidate of a rollout; the old one stays in force meanwhile."""
    REFUSED = "refused"
    """There are problems; the old set stays."""


class Reload(msgspec.Struct, frozen=True):
    """One reload: its result, the active set afterwards, and the changes.

    ``restart``: changed settings that take effect only after a restart.
    """

    result: ReloadResult
    policies: ActivePolicies
    problems: tuple[Diagnostic, ...] = ()
    changes: build.PlanDiff = msgspec.field(default_factory=build.PlanDiff)
    restart: tuple[str, ...] = ()


class StoreStatus(msgspec.Struct, frozen=True):
    """Status for operators; times are nanoseconds since 1970."""

    generation: int
    content_hash: str
    loaded_at: int
    """Since when the set is in force."""
    succeeded_at: int
    """When files last loaded without an error, whether their content was new or not."""
    refused_at: int = 0
    """When the last reload was refused, 0 if it was not."""
    problems: tuple[Diagnostic, ...] = ()
    """Those of the last reload if it was refused."""
    restart: tuple[str, ...] = ()
    """Settings of the files that wait for a restart."""
    counts: dict[ReloadResult, int] = msgspec.field(
        default_factory=lambda: dict.fromkeys(ReloadResult, 0)
    )

    @property
    def healthy(self) -> bool:
        """Did the last reload succeed?"""
        return not self.refused_at


Enact = Callable[[ActivePolicies, build.PlanDiff], None]
"""Builds a set's pipelines and activates them, or raises PolicyError or PluginError and
leaves everything as it was."""


def _nothing(_policies: ActivePolicies, _changes: build.PlanDiff) -> None:
    """No-op: no scheduler uses the set."""


class PolicyStore:
    """The active set; the constructor loads ``files`` for the first time.

    ``compilation``: what was compiled of them already. ``now`` returns nanoseconds since 1970.
    Raises PolicyError with every problem of the files.
    """

    def __init__(
        self, files: PolicyFiles, now: Callable[[], int], compilation: Compilation | None = None
    ) -> None:
        self.seen = files.fingerprint()
        """The state of the files before they were loaded for the first time."""
        compilation = compilation or compile_consistently(files)
        build.raise_errors(compilation.problems)
        assert compilation.settings is not None, "there are no errors"
        # As in kube-scheduler, feature gates are those of the start as long as the process runs.
        gates = compilation.plans[0].plan.feature_gates
        self.files = replace(files, feature_gates=settled_gates(gates))
        self.compiler: Callable[[PolicyFiles], Compilation] = compile_consistently
        """Reads and compiles the files at a reload, here or in another process."""
        self._now = now
        self.staged: ActivePolicies | None = None
        """The candidate of a rollout, if there is one."""
        self.loaded = compilation
        """What the files held when they were last read without an error."""
        self.current = ActivePolicies(
            compilation.plans,
            compilation.settings,
            1,
            compilation.problems,
            compilation.sources,
        )
        self.status = StoreStatus(1, self.current.content_hash, now(), now())

    def reload(self, enact: Enact = _nothing) -> Reload:
        """Reload the files; afterwards the new set is active, or nothing has changed."""
        return self.commit(self.prepare(), enact)

    def prepare(self) -> Compilation:
        """Read and compile the files; nothing that runs notices."""
        return self.compiler(self.files)

    def commit(self, compilation: Compilation, enact: Enact = _nothing) -> Reload:
        """Activate what was compiled if it has no errors and is different."""
        return self._take(compilation, enact, ReloadResult.LOADED)

    def stage(self, compilation: Compilation, enact: Enact = _nothing) -> Reload:
        """Make what was compiled the candidate if it has no errors and is different."""
        return self._take(compilation, enact, ReloadResult.STAGED)

    def promote(self, enact: Enact = _nothing) -> Reload:
        """Activate the candidate."""
        new = self.staged
        assert new is not None, "there is a candidate"
        return self._offer(new, enact, Reload(ReloadResult.LOADED, new, new.warnings))

    def unstage(self) -> None:
        """Give the candidate up."""
        self.staged = None

    def _take(self, compilation: Compilation, enact: Enact, result: ReloadResult) -> Reload:
        old = self.current
        if compilation.failed or compilation.settings is None:
            return self._refuse(compilation.problems)
        self.loaded = compilation
        restart = build.restarts_between(old.settings, compilation.settings)
        if not build.diff_plans(old.plans, compilation.plans):
            unchanged = ReloadResult.UNCHANGED
            return self._done(Reload(unchanged, old, compilation.problems, restart=restart))
        # Settings that need a restart are compared with the active ones, not with the last file.
        settings = old.settings
        new = ActivePolicies(
            compilation.plans,
            settings,
            old.generation + 1,
            compilation.problems,
            compilation.sources,
        )
        return self._offer(new, enact, Reload(result, new, compilation.problems, restart=restart))

    def _offer(self, new: ActivePolicies, enact: Enact, reload: Reload) -> Reload:
        """Offer a set to what builds it; ``reload`` is the result if it does not refuse."""
        changes = build.diff_plans(self.current.plans, new.plans)
        try:
            enact(new, changes)
        except PolicyError as error:
            return self._refuse((*reload.problems, *error.diagnostics))
        except PluginError as error:
            name = self.files.paths[0] if self.files.paths else "<default configuration>"
            refusal = Diagnostic(name, 1, 1, NOT_BUILT, str(error))
            return self._refuse((*reload.problems, refusal))
        if reload.result is ReloadResult.STAGED:
            self.staged = new
            return self._done(replace(reload, policies=self.current, changes=changes))
        self.current, self.staged = new, None
        return self._done(replace(reload, changes=changes))

    def _done(self, reload: Reload) -> Reload:
        policies, last = reload.policies, self.status
        now = self._now()
        loaded_at = now if reload.result is ReloadResult.LOADED else last.loaded_at
        self.status = StoreStatus(
            policies.generation,
            policies.content_hash,
            loaded_at,
            now,
            restart=reload.restart,
            counts=_counted(last, reload.result),
        )
        return reload

    def _refuse(self, problems: tuple[Diagnostic, ...]) -> Reload:
        ordered = tuple(bounded(problems))
        self.status = replace(
            self.status,
            refused_at=self._now(),
            problems=ordered,
            counts=_counted(self.status, ReloadResult.REFUSED),
        )
        return Reload(ReloadResult.REFUSED, self.current, ordered)


def _counted(status: StoreStatus, result: ReloadResult) -> dict[ReloadResult, int]:
    return {**status.counts, result: status.counts[result] + 1}
