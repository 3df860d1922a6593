"""Recorded traffic, decided again: yesterday's pods as a test of policies.

`agreement` holds recorded decisions against the policies of then. `replay` decides the traffic with
any set of policies and measures windows of time; `compare_replays` sets two replays beside each
other; `replay_rollout` rolls one set out beside another.
"""

from policy_sched.replay.agreement import (
    AgreementReport as AgreementReport,
    agreement as agreement,
    difference_text as difference_text,
)
from policy_sched.replay.comparison import (
    Contender as Contender,
    ReplayDiff as ReplayDiff,
    compare_replays as compare_replays,
    traffic_notes as traffic_notes,
)
from policy_sched.replay.decision_logs import (
    logged_decisions as logged_decisions,
    with_decisions as with_decisions,
)
from policy_sched.replay.decisions import (
    OthersDecisions as OthersDecisions,
    OwnDecisions as OwnDecisions,
    Tally as Tally,
)
from policy_sched.replay.page import agreement_page as agreement_page, replay_page as replay_page
from policy_sched.replay.policies import (
    PolicySet as PolicySet,
    compiled as compiled,
    compiled_recorded as compiled_recorded,
    in_force_at as in_force_at,
)
from policy_sched.replay.rollout import (
    RolloutReplay as RolloutReplay,
    replay_rollout as replay_rollout,
)
from policy_sched.replay.runs import Replay as Replay, Window as Window, replay as replay
