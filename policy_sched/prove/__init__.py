"""`policy-sched prove`: what holds of policies for every pod and every node (extra `[prove]`).

Rules become terms of a solver (`printer`), over a model of a pod and a node (`world`). What the
solver finds is run through the scheduler before it is shown.
"""

from policy_sched.prove.counterexample import text_of as text_of
from policy_sched.prove.decisions import all_alike as all_alike, decide_alike as decide_alike
from policy_sched.prove.printer import WITHOUT_TERM as WITHOUT_TERM
from policy_sched.prove.prover import (
    Prover as Prover,
    Settings as Settings,
    Verdict as Verdict,
    parts_of as parts_of,
    prove as prove,
)
from policy_sched.prove.report import (
    ProofReport as ProofReport,
    answer_text as answer_text,
    refutation as refutation,
)
from policy_sched.prove.world import ASSUMPTIONS as ASSUMPTIONS
