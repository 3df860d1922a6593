"""Audits: what a policy that decides nothing would have changed.

Theory of operation. When a node was chosen for a pod, and before anything is done about it, the
profile in which the audited policy decides is evaluated on the same tables. Its plugins, runner and
evaluator are its own; the budget of the attempt and the steps of rules are put back afterwards, and
no random number is drawn. So the decisions are those of a scheduler without audits.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Final

from policy_sched.errors import PluginError, TakesLong
from policy_sched.instance import observability
from policy_sched.language.values import remaining
from policy_sched.scheduler import Attempt, Bind, Decision, Profile, Scheduler
from policy_sched.scheduler.setup import Assembly

SHARE: Final = 0.1
"""The part of the time since the first audit that audits take at most."""
DIFFERENT: Final = frozenset({"moved", "unschedulable", "error"})


class Audits:
    """Evaluates the audited policies of a scheduler's profiles, from now on.

    ``counts``: by profile, policy and result. ``log``: is told what would have been different.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        assembly: Assembly,
        counts: MutableMapping[tuple[str, ...], float],
        log: observability.DecisionLog,
    ) -> None:
        self._scheduler = scheduler
        self._assembly = assembly
        self._counts = counts
        self._log = log
        self._began = scheduler.observers.timer()
        self._spent = 0.0
        scheduler.observers.decided.append(self._decided)

    def _decided(self, attempt: Attempt, decision: Decision, _start: float) -> None:
        name = attempt.queued.info.scheduler_name
        audits = self._assembly.audits.get(name)
        if not audits or not isinstance(decision, Bind) or attempt.queued.info.may_use_devices:
            return
        timer, pod = self._scheduler.observers.timer, attempt.queued.info.key
        for policy, profile in audits.items():
            start = timer()
            result, better = "skipped", ""
            if self._spent <= SHARE * (start - self._began):
                result, better = self._result(attempt, decision, profile)
                self._spent += timer() - start
            key = (name, policy, result)
            self._counts[key] = self._counts.get(key, 0) + 1
            if result in DIFFERENT:
                self._log.write(
                    observability.INFO,
                    "An audited policy would have decided differently",
                    pod=pod,
                    policy=policy,
                    result=result,
                    node=decision.node,
                    **({"better": better} if better else {}),
                )

    def _result(self, attempt: Attempt, decision: Bind, profile: Profile) -> tuple[str, str]:
        """Return the result, and the better node or the error if there is one."""
        steps, budget = remaining(), self._scheduler.handle.budget
        exceeded, total, paid = steps.exceeded, steps.total, dict(vars(budget))
        try:
            evaluation = profile.evaluator.evaluate(attempt.queued.info)
        except TakesLong:
            return "skipped", ""
        except PluginError as error:
            return "error", str(error)
        finally:
            steps.exceeded, steps.total = exceeded, total
            vars(budget).update(paid)
        if evaluation.broken is not None:
            return "error", str(evaluation.broken)
        if evaluation.scoring is None:
            return "unschedulable", ""
        totals = evaluation.scoring.total
        # Where nodes are sampled, other ones were not looked at.
        rows = decision.evaluation.filtering.feasible_rows()
        best = rows[totals[rows] == totals[rows].max()]
        if totals[decision.row] < 0 or decision.row not in best:
            feasible = totals[best[0]] >= 0
            return "moved", self._scheduler.cache.nodes.names[best[0]] if feasible else ""
        return ("same" if best.size == 1 else "tie"), ""
