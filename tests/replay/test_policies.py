"""The policies of a recording."""

from __future__ import annotations

from msgspec.structs import replace

from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.recording import RecordedPolicies
from policy_sched.replay.policies import compiled, compiled_recorded

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Room}
spec:
  filter:
  - {expression: node.podCount < 50, message: node(s) are full}
"""


def recorded(policy: str) -> RecordedPolicies:
    """Return the record of a policy, by a hash that is not its own."""
    return RecordedPolicies("0" * 64, "", ("room.yaml",), {"room.yaml": policy})


def test_texts_that_are_not_those_of_their_hash_are_told() -> None:
    """Somebody may have changed the file; who replays it has to know. A comment is no change."""
    sets, notes = compiled_recorded({"0" * 64: recorded(POLICY)})
    own = sets["0" * 64].compilation.content_hash
    assert notes[0].startswith("the policies 000000000000 are others than those that decided: ")
    record = replace(recorded(f"# the same\n{POLICY}"), hash=own)
    assert compiled_recorded({own: record})[1] == []
    changed = replace(record, files={"room.yaml": POLICY.replace("50", "49")})
    assert len(compiled_recorded({own: changed})[1]) == 1


def test_policies_that_do_not_compile_are_told() -> None:
    """The rest is decided by the others."""
    default = compiled(PolicyFiles()).compilation.content_hash
    broken = recorded(POLICY.replace("podCount", "pods"))
    sets, notes = compiled_recorded({"1" * 64: broken, default: RecordedPolicies(default)})
    assert list(sets) == [default]
    assert len(notes) == 1
    assert notes[0].startswith("the policies 111111111111 cannot be compiled any more: ")
