"""Elections under a clock that stands still: two candidates, jumps, thieves and dead servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from policy_sched.client.kube.leaderelection import state_machine
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.testing import SECOND, FakeClock
from tests.examples import scaled

WALL = 1_800_000_000 * SECOND


@dataclass
class Server:
    """A lease and its version, as an API server keeps it."""

    record: state_machine.LeaseRecord | None = None
    version: int = 0
    down: bool = False
    writes: list[str] = field(default_factory=list)


@dataclass
class Candidate:
    """An election and what its client knows of the lease."""

    server: Server
    election: state_machine.Election
    seen: int = -1

    def respond(self, request: state_machine.Request) -> state_machine.Response:
        """Ask the server."""
        server = self.server
        if server.down:
            return state_machine.Failed()
        if isinstance(request, state_machine.Get):
            self.seen = server.version
            return (
                state_machine.NotThere()
                if server.record is None
                else state_machine.ObservedLease(server.record)
            )
        missing = server.record is None
        if missing is not isinstance(request, state_machine.Create):
            return state_machine.Failed()
        if not missing and self.seen != server.version:
            return state_machine.Failed()
        server.version += 1
        server.record, self.seen = request.record, server.version
        server.writes.append(request.record.holder)
        return state_machine.ObservedLease(request.record)

    def attempt(self) -> bool:
        """Make one attempt."""
        return self.drive(self.election.attempt())

    def drive(self, attempt: state_machine.Attempt) -> bool:
        """Answer all that an attempt asks."""
        try:
            request = next(attempt)
            while True:
                request = attempt.send(self.respond(request))
        except StopIteration as end:
            return bool(end.value)


@dataclass
class World:
    """Candidates of one lease, each with a wall clock of its own."""

    monotonic: FakeClock = field(default_factory=FakeClock)
    server: Server = field(default_factory=Server)
    walls: list[FakeClock] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)

    def candidate(self, name: str) -> Candidate:
        """Add a candidate."""
        wall = FakeClock(WALL)
        election = state_machine.Election(
            name, Clocks(wall, self.monotonic), Random(name), state_machine.ElectionSettings()
        )
        self.walls.append(wall)
        self.candidates.append(Candidate(self.server, election))
        return self.candidates[-1]

    def run(self, seconds: float) -> None:
        """Advance the time; candidates that are due try. Never do two lead."""
        until = self.monotonic() + round(seconds * SECOND)
        while self.candidates:
            due = min(self.candidates, key=lambda c: c.election.due)
            if due.election.due > until:
                break
            self._to(max(self.monotonic(), due.election.due))
            due.attempt()
            assert len(self.leaders) <= 1
        self._to(until)

    def _to(self, moment: int) -> None:
        gone = (moment - self.monotonic()) / SECOND
        for clock in (self.monotonic, *self.walls):
            clock.advance(gone)

    @property
    def leaders(self) -> list[str]:
        """The present leader."""
        return [c.election.identity for c in self.candidates if c.election.leading]


def test_the_first_candidate_leads_and_renews() -> None:
    """A lease that is not there is made, and renewed every two seconds in one request."""
    world = World()
    world.candidate("a")
    world.candidate("b")
    world.run(60)
    assert world.leaders == ["a"]
    assert set(world.server.writes) == {"a"}
    assert len(world.server.writes) == 31
    record = world.server.record
    assert record is not None
    assert (record.duration, record.transitions, record.acquired) == (15, 0, WALL)
    assert world.candidates[1].election.holder == "a"


def test_a_leader_that_dies_is_followed_when_its_lease_has_run_out() -> None:
    """The other one leads 15 to 20 seconds after the last renewal, and counts the transition."""
    world = World()
    dead, other = world.candidate("a"), world.candidate("b")
    world.run(20)
    world.candidates.remove(dead)
    world.run(14)
    assert world.leaders == []
    world.run(6)
    assert world.leaders == ["b"]
    record = world.server.record
    assert record is not None
    assert record.transitions == 1
    assert not dead.election.leading
    assert other.election.holder == "b"


def test_a_leader_without_a_server_gives_up_before_its_lease_runs_out() -> None:
    """Renewals that fail for ten seconds end the leadership; no other leads meanwhile."""
    world = World()
    world.candidate("a")
    world.candidate("b")
    world.run(20)
    world.server.down = True
    world.run(9)
    assert world.leaders == ["a"]
    world.run(4)
    assert world.leaders == []
    world.server.down = False
    world.run(10)
    assert len(world.leaders) == 1


def test_a_process_that_stood_still_does_not_lead_when_it_wakes() -> None:
    """Leading ends with the lease, even if no timer fired: nothing is written on old authority."""
    world = World()
    leader = world.candidate("a").election
    world.run(20)
    world.monotonic.advance(14)
    assert leader.leading
    world.monotonic.advance(2)
    assert not leader.leading


def test_a_stolen_lease_ends_the_leadership_in_time() -> None:
    """A lease that another holder was written into is respected: the leader gives up, and waits."""
    world = World()
    leader = world.candidate("a").election
    world.run(20)
    thief = state_machine.LeaseRecord("thief", 15, WALL, WALL, 7)
    world.server.record = thief
    world.server.version += 1
    world.run(12)
    assert not leader.leading
    assert leader.holder == "thief"
    world.run(10)
    assert world.leaders == ["a"], "the thief did not renew"
    record = world.server.record
    assert record is not None
    assert record.transitions == 8


def test_jumps_of_the_wall_clock_change_nothing() -> None:
    """Hours forwards or back on any wall clock: the same leader, without a pause."""
    world = World()
    world.candidate("a")
    world.candidate("b")
    world.run(10)
    for hours in (5, -12, 24):
        world.walls[0].advance(hours * 3600)
        world.walls[1].advance(-hours * 3600)
        world.run(30)
        assert world.leaders == ["a"]
    assert set(world.server.writes) == {"a"}


def test_a_released_lease_is_acquired_at_once() -> None:
    """After a release the next try of another candidate succeeds."""
    world = World()
    leader = world.candidate("a")
    world.candidate("b")
    world.run(20)
    assert released(leader)
    assert not leader.election.leading
    world.candidates.remove(leader)
    world.run(5)
    assert world.leaders == ["b"]


def released(candidate: Candidate) -> bool:
    """Let it give the lease back."""
    return candidate.drive(candidate.election.release())


def test_a_lease_is_given_back_although_its_last_renewal_had_no_answer() -> None:
    """What is in the lease is read first: it may be ours in a version that we do not know."""
    world = World()
    leader = world.candidate("a")
    world.run(20)
    world.server.down = True
    world.run(3)
    assert not released(leader)
    world.server.down = False
    world.server.version += 1  # the renewal was written after all
    assert released(leader)
    assert world.server.writes[-1] == ""
    assert released(leader), "it is not ours any more"
    assert world.server.writes[-2:].count("") == 1


def test_an_expired_lease_is_acquired_at_once() -> None:
    """A candidate that saw the last renewal does not sleep past the end of the lease."""
    for seed in range(20):
        world = World()
        dead, other = world.candidate("a"), world.candidate(f"b{seed}")
        world.run(20)
        world.candidates.remove(dead)
        other.election.observe_holder("a")
        world.run(14.9)
        assert world.leaders == []
        world.run(0.2)
        assert world.leaders == [f"b{seed}"]


def test_another_holder_in_the_lease_causes_a_read_at_once() -> None:
    """A candidate takes what was given back, a leader gives up; its own name changes nothing."""
    world = World()
    leader, other = world.candidate("a"), world.candidate("b")
    world.run(20)
    due = leader.election.due
    leader.election.observe_holder("a")
    assert leader.election.due == due
    assert released(leader)
    world.candidates.remove(leader)
    other.election.observe_holder("")
    world.run(0)
    assert world.leaders == ["b"]
    world.server.record = state_machine.LeaseRecord("thief", 15, WALL, WALL, 7)
    world.server.version += 1
    other.election.observe_holder("thief")
    world.run(0)
    assert world.leaders == []


def test_tries_that_fail_are_repeated_soon_and_then_less_often() -> None:
    """The first after a twentieth of the period, later ones up to it (and its jitter) apart."""
    world = World()
    one = world.candidate("a")
    world.server.down = True
    pauses = []
    for _ in range(9):
        one.attempt()
        pauses.append((one.election.due - world.monotonic()) / SECOND)
        world.monotonic.advance(pauses[-1])
    assert 0.1 <= pauses[0] <= 0.22
    assert all(pause <= 4.4 for pause in pauses)
    assert pauses[-1] >= 2


def test_settings_that_cannot_work_are_refused() -> None:
    """Durations must leave room for renewals before the lease ends (client-go's checks)."""
    with pytest.raises(ValueError, match="renew deadline"):
        state_machine.ElectionSettings(10, 10, 2)
    with pytest.raises(ValueError, match=r"1\.2 retry periods"):
        state_machine.ElectionSettings(15, 2, 2)
    with pytest.raises(ValueError, match="above 0"):
        state_machine.ElectionSettings(15, 10, 0)


@settings(max_examples=scaled(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["run", "down", "up", "steal", "jump", "delete", "heard"]),
            st.floats(0.1, 30),
        ),
        max_size=25,
    )
)
def test_never_do_two_lead(events: list[tuple[str, float]]) -> None:
    """Whatever befalls server, lease and wall clocks: at no attempt are there two leaders."""
    world = World()
    for name in "abc":
        world.candidate(name)
    world.run(3)
    for what, seconds in events:
        server = world.server
        match what:
            case "down" | "up":
                server.down = what == "down"
            case "steal" if server.record is not None:
                server.record = replace(server.record, holder="thief")
                server.version += 1
            case "heard" if server.record is not None:
                for candidate in world.candidates:
                    candidate.election.observe_holder(server.record.holder)
            case "jump":
                world.walls[0].advance((seconds - 15) * 3600)
            case _:
                pass
        world.run(seconds)
    world.server.down = False
    world.run(45)
    assert len(world.leaders) == 1
