"""Makes the profiles of one cluster from compiled plans, at the start and at every reload.

Theory of operation. A profile whose plan is unchanged keeps its runner, its evaluations and
its plugins, and only its generation is new; of a changed one the plugins that are unchanged
are kept. Nothing that runs is touched before `settle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from policy_sched.framework import Extender, Handle
from policy_sched.framework.evaluate import Evaluator, Nominations, Rotation, Sample, looks_at_all
from policy_sched.framework.runtime import Pipeline, Runner
from policy_sched.plugins.extenders import ExtenderSettings, HttpExtender
from policy_sched.profiles.build import CompiledPlan, PluginCache, build_pipeline
from policy_sched.scheduler import Profile


class Assembled(msgspec.Struct, frozen=True):
    """The profiles of a set of plans, by schedulerName, and what they share."""

    profiles: dict[str, Profile]
    extenders: dict[ExtenderSettings, HttpExtender]
    audits: dict[str, dict[str, Profile]] = {}
    """By schedulerName, for each audited policy the profile in which it decides."""
    candidates: dict[str, Profile] = {}
    """By schedulerName, what the candidate of a rollout decides pods with."""
    compared: dict[str, Profile] = {}
    """The same to be held against decisions: it looks at all nodes and measures nothing."""


class Assembly:
    """Builds profiles for the cluster behind `handle`.

    ``extenders`` is the list that the handle has, which changes with the profiles.
    ``cached=False`` evaluates every pod from scratch; ``all_nodes`` looks at every node, also where
    the first feasible one would do. ``runner`` makes what runs a pipeline.
    """

    def __init__(
        self,
        handle: Handle,
        extenders: list[Extender],
        *,
        cached: bool = True,
        all_nodes: bool = False,
        runner: Callable[[Pipeline], Runner] = Runner,
    ) -> None:
        self._handle = handle
        self._extenders = extenders
        self._cached = cached
        self._all_nodes = all_nodes
        self._runner = runner
        self._rotation = Rotation()
        self._nominations = Nominations(handle.cache, handle.nominator)
        self._made = PluginCache()
        self._current = Assembled({}, {})

    def build(
        self,
        plans: Sequence[CompiledPlan],
        generation: int = 1,
        candidate: Sequence[CompiledPlan] = (),
    ) -> Assembled:
        """Return the profiles of `plans`; the first plan's extenders are everybody's.

        ``candidate``: plans of the set that is to come after them, with the same extenders; those
        of other names than `plans` have are left out. Raises PolicyError or PluginError if a
        plugin refuses; nothing has changed then.
        """
        current = self._current.extenders
        settings = plans[0].plan.extenders
        extenders = {setting: current.get(setting) or HttpExtender(setting) for setting in settings}
        self._made.begin()
        profiles = {
            ready.plan.scheduler_name: self._profile(ready, tuple(extenders.values()), generation)
            for ready in plans
        }
        audits = {
            ready.plan.scheduler_name: self._audited(ready, generation)
            for ready in plans
            if ready.audits
        }
        coming = [ready for ready in candidate if ready.plan.scheduler_name in profiles]
        candidates = {
            ready.plan.scheduler_name: self._profile(
                ready, tuple(extenders.values()), generation + 1
            )
            for ready in coming
        }
        compared = {ready.plan.scheduler_name: self._compared(ready) for ready in coming}
        return Assembled(profiles, extenders, audits, candidates, compared)

    @property
    def current(self) -> Assembled:
        """What is in force."""
        return self._current

    def _compared(self, ready: CompiledPlan) -> Profile:
        current = self._current.compared.get(ready.plan.scheduler_name)
        if current is not None and current.pipeline.content_hash == ready.content_hash:
            return current
        return self.beside(ready)

    def _audited(self, ready: CompiledPlan, generation: int) -> dict[str, Profile]:
        """Return the profiles of a plan's audited policies; they are evaluated, and decide nothing.

        Plugins that are the same are shared with the profile that decides.
        """
        name = ready.plan.scheduler_name
        current = self._current.profiles.get(name)
        if current is not None and current.pipeline.content_hash == ready.content_hash:
            for audit in ready.audits.values():
                self._made.keep(audit.content_hash)
            return self._current.audits[name]
        return {policy: self.beside(audit, generation) for policy, audit in ready.audits.items()}

    def beside(self, ready: CompiledPlan, generation: int = 1) -> Profile:
        """Return a profile that looks at all nodes and measures nothing."""
        pipeline = build_pipeline(ready, self._handle, generation, self._made)
        runner = Runner(pipeline)
        evaluator = Evaluator(
            runner, self._handle.nodes, cached=self._cached, nominations=self._nominations
        )
        return Profile(pipeline, runner, evaluator)

    def settle(self, built: Assembled) -> None:
        """Activate the profiles that were built; release what only older profiles used.

        An attempt that is under way may call an older extender yet, which connects again then.
        """
        for settings, extender in self._current.extenders.items():
            if settings not in built.extenders:
                extender.close()
        self._current = built
        self._extenders[:] = built.extenders.values()
        self._made.settle()

    def _profile(
        self, ready: CompiledPlan, extenders: tuple[Extender, ...], generation: int
    ) -> Profile:
        name = ready.plan.scheduler_name
        for current in (self._current.profiles.get(name), self._current.candidates.get(name)):
            if current is not None and current.pipeline.content_hash == ready.content_hash:
                self._made.keep(ready.content_hash)
                if current.pipeline.generation == generation:
                    return current
                return replace(current, pipeline=replace(current.pipeline, generation=generation))
        pipeline = build_pipeline(ready, self._handle, generation, self._made)
        runner = self._runner(pipeline)
        evaluator = Evaluator(
            runner,
            self._handle.nodes,
            cached=self._cached,
            nominations=self._nominations,
            sample=self._sample(pipeline, extenders),
            extenders=extenders,
        )
        return Profile(pipeline, runner, evaluator, extenders)

    def _sample(self, pipeline: Pipeline, extenders: Sequence[Extender]) -> Sample | None:
        """Return how a profile leaves nodes out; None if it looks at all."""
        percentage = pipeline.percentage_of_nodes_to_score
        chosen_otherwise = any(e.filters or e.prioritizes for e in extenders)
        any_will_do = not (pipeline.at("score") or chosen_otherwise or self._all_nodes)
        if looks_at_all(percentage) and not any_will_do:
            return None
        return Sample(self._handle.nodes, percentage, self._rotation, any_will_do=any_will_do)
