"""What tests see of the order of nodes: a search for victims whose keys are looked at.

Theory of operation. Which nodes a key is body about, and with which victims, only the search
itself knows. So it is made once more with rules that tell a witness before they answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from policy_sched.errors import PluginError
from policy_sched.framework import Code, Handle, rows_with
from policy_sched.framework.evaluate import Nominations
from policy_sched.language import CompiledPolicy, RuleError
from policy_sched.model import PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.preemption import (
    CandidateLimit,
    Case,
    NodeKey,
    PreemptionAttempt,
    PreemptionSearch,
    Spots,
    rules_of,
)
from policy_sched.scheduler import Profile

Witness: TypeAlias = Callable[[int, Case, int], None]
"""Is told the number of a key, what it sees of a node, and the node's row."""

_ALL = CandidateLimit(100, 1)


def watch_search(
    policy: CompiledPolicy, pod: PodInfo, profile: Profile, handle: Handle, witness: Witness
) -> None:
    """Search for victims as the policy does; nothing is evicted. A rule that fails ends it."""
    bound = bind(policy, handle.nodes, handle.pods).preemption
    assert bound is not None, "the policy has the section"
    evaluation = profile.evaluator.evaluate(pod)
    trial = evaluation.filtering.filter_dry_run()
    evaluation.state.write(trial)
    rules = rules_of(bound, handle.pods, handle.now)
    keys = [partial(_told, i, key, handle, witness) for i, key in enumerate(rules.node_order)]
    watched = replace(rules, node_order=tuple(keys))
    nominations = Nominations(handle.cache, handle.nominator)
    attempt = PreemptionAttempt(pod, evaluation.state, trial, handle.cache, nominations)
    rows = rows_with(evaluation.filtering.statuses(), Code.UNSCHEDULABLE)
    search = PreemptionSearch(handle.cache, handle.objects, watched, _ALL, handle.extenders)
    with suppress(RuleError, PluginError):
        search.search(attempt, rows, handle.random)


def _told(  # the first four are given beforehand
    number: int, key: NodeKey, handle: Handle, witness: Witness, pod: PodInfo, locations: Spots
) -> npt.NDArray[Any]:
    """Tell what a key is body, and answer as it does."""
    places = zip(locations.rows.tolist(), np.asarray(locations.violations).tolist(), strict=True)
    for place, (row, violations) in enumerate(places):
        witness(number, Case(handle.now(), None, locations.listed(place), violations), row)
    return key(pod, locations)
