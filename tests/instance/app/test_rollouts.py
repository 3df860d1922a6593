"""Rollouts in a running scheduler: steps, ends, restarts, and who decides which pod."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from policy_sched import rollout
from policy_sched.client.apimachinery.object import Key
from policy_sched.errors import Diagnostic
from policy_sched.instance.app import EmbeddedInstance
from policy_sched.instance.app.rollout_storage import (
    ANNOTATION,
    CHANGED,
    Done,
    FileStorage,
    LeaseStorage,
    Record,
    RolloutStorage,
    excess,
    read_record,
)
from policy_sched.model import PodInfo
from policy_sched.rollout import Phase, StateError
from policy_sched.testing import make_pod
from tests.instance.app.rollout_worlds import (
    POLICY_TEXT,
    ROLLOUT_TEXT,
    ROLLOUTS,
    ObjectWorld,
    World,
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a scheduler at rest, whose policy lets pods go everywhere."""
    return World(tmp_path)


def test_without_a_change_nothing_is_rolled_out(world: World) -> None:
    """The files that a scheduler starts with are in force, and its state has their texts."""
    rollouts = world.instance.rollouts
    assert rollouts is not None
    assert rollouts.settled
    assert rollouts.state is None
    assert world.instance.reloader.store.staged is None
    record = read_record(Path(world.state).read_text())
    assert any("kind: Rollout" in text for text in record.sources.values())


def test_a_change_passes_its_steps_and_is_promoted(world: World) -> None:
    """An audit decides nothing, a canary its share; the end is the reload of today."""
    before = world.hash
    world.change("node.name == 'a'")
    assert (world.rolled.phase, world.rolled.step) == (Phase.PROGRESSING, 0)
    assert world.hash == before
    assert set(world.run(10).values()) > {"a"}
    assert world.rolled.counts.candidate.decisions == 9  # the last one is not counted yet
    assert world.rolled.counts.candidate.moved > 0
    world.run(12)
    assert world.rolled.step == 1
    nodes = world.run(30, pods=3)
    assert 0.3 < sum(node == "a" for node in nodes.values()) / len(nodes) < 0.8
    candidate = world.rolled.counts.candidate
    assert 0.1 < candidate.decisions / len(nodes) < 0.5
    world.run(12)
    assert world.rolled.step == 2
    world.run(42)
    assert world.rolled.phase is Phase.PROMOTED
    assert world.hash != before
    assert world.instance.reloader.store.current.generation == 2
    assert set(world.run(5).values()) == {"a"}
    assert world.events() == [*["RolloutStepped"] * 3, "RolloutPromoted"]


def test_an_abort_rule_ends_it_with_its_figures(world: World) -> None:
    """The stable set stays, byte by byte; the same files are not tried again."""
    store = world.instance.reloader.store
    before = store.current, world.instance.scheduler.profiles
    world.change("false")
    world.run(25)
    assert world.rolled.phase is Phase.ABORTED
    assert world.rolled.message.startswith("no node (candidate.unschedulable 1")
    assert (store.current, world.instance.scheduler.profiles) == before
    assert store.staged is None
    assert world.events() == ["RolloutStepped", "RolloutAborted"]
    world.instance.reload(store.prepare(), "http")
    world.settle()
    assert (world.rolled.phase, store.staged) == (Phase.ABORTED, None)
    assert all(world.run(5).values())


def test_a_candidate_that_takes_long_is_aborted_with_the_numbers(world: World) -> None:
    """In an event loop no decision is compared with it, so the audit says nothing."""
    before, numbers = world.hash, "lists.range(60 + node.podCount)"
    loops = f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c < 1000)))"
    world.change(loops)

    async def in_event_loop() -> None:
        world.run(21)

    asyncio.run(in_event_loop())
    assert (world.rolled.phase, world.rolled.reason) == (Phase.ABORTED, "NotCompared")
    told = f"the candidate takes too long for {world.rolled.figures['candidate.long']:.0f} of "
    assert world.rolled.message.startswith(told)
    assert world.hash == before
    assert world.events() == ["RolloutStepped", "RolloutAborted"]


def test_an_audit_without_a_share_is_aborted(world: World) -> None:
    """With --audit-share 0 nothing is compared, however many pods there are."""
    world.instance.audit_share = 0.0
    world.change("node.name == 'a'")
    world.run(19, pods=2)
    assert world.rolled.phase is Phase.PROGRESSING
    assert world.instance.rollout is not None
    report = world.instance.rollout.report()
    assert report is not None
    assert report.measures["candidate"].skipped >= 20
    world.run(2)
    assert (world.rolled.phase, world.rolled.reason) == (Phase.ABORTED, "NotCompared")


def test_a_promotion_that_is_refused_is_an_abort(world: World) -> None:
    """A plugin may fail then; the set that is in force stays, for a process that starts, too."""
    before, store = world.hash, world.instance.reloader.store
    world.change("node.name == 'a'")
    problem = Diagnostic("sort.py", 1, 1, "PS707", "plugin Sort: no key")
    world.instance.reloader.promote = lambda: store._refuse((problem,))  # type: ignore[method-assign]
    assert world.instance.rollouts is not None
    world.instance.rollouts.request("promote", "", "")
    world.settle()
    for _ in range(2):
        assert (world.rolled.phase, world.rolled.reason) == (Phase.ABORTED, "PromotionRefused")
        assert world.rolled.message == "the candidate cannot be promoted: plugin Sort: no key"
        assert (world.hash, world.instance.reloader.store.staged) == (before, None)
        world.start()


@pytest.mark.parametrize("action", ["promote", "abort"])
def test_what_was_asked_of_a_candidate_is_not_done_to_the_next(
    world: World, action: rollout.Action
) -> None:
    """A newer change that comes before the answer begins at its first step."""
    before = world.hash
    world.change("node.name == 'a'")
    assert world.instance.rollouts is not None
    assert world.instance.rollouts.request(action, "", "admin") == ""
    world.change("node.name == 'b'")
    world.run(3)
    assert (world.rolled.phase, world.rolled.step) == (Phase.PROGRESSING, 0)
    assert world.hash == before
    assert world.messages("Another candidate begins")


def test_a_newer_change_begins_at_the_first_step(world: World) -> None:
    """It replaces the candidate."""
    world.change("node.name == 'a'")
    world.run(25)
    assert world.rolled.step == 1
    world.change("node.name == 'b'")
    assert world.rolled.step == 0
    assert world.instance.scheduler.canary is None
    assert world.messages("Another candidate begins")


def test_a_change_that_is_taken_back_ends_it(world: World) -> None:
    """The files are those in force again."""
    world.change("node.name == 'a'")
    world.run(25)
    world.change("true")
    assert world.rolled.phase is Phase.REPLACED
    assert world.instance.scheduler.canary is None
    assert world.instance.reloader.store.staged is None


def test_without_the_document_a_change_is_in_force_at_once(world: World) -> None:
    """A rollout that is deleted lets the files decide."""
    world.change("node.name == 'a'")
    world.run(25)
    (world.folder / "policies" / "rollout.yaml").unlink()
    world.change("node.name == 'b'")
    assert set(world.run(5).values()) == {"b"}
    assert world.rolled.phase is Phase.REPLACED
    world.change("node.name == 'c'")
    assert set(world.run(5).values()) == {"c"}


@pytest.mark.parametrize("seconds", [0, 10, 25, 70])
def test_a_process_that_dies_goes_on_in_its_step(world: World, seconds: int) -> None:
    """With the same sets on the same sides; counts of the last minute at most are lost."""
    before = world.hash
    world.change("node.name == 'a'")
    world.run(seconds)
    was, staged = world.rolled, world.instance.reloader.store.staged
    assert staged is not None
    sides = _sides(world)
    world.start()
    assert (world.rolled.step, world.rolled.phase) == (was.step, was.phase)
    assert world.hash == before
    again = world.instance.reloader.store.staged
    assert again is not None
    assert again.content_hash == staged.content_hash
    assert _sides(world) == sides
    lost = was.counts.candidate.decisions - world.rolled.counts.candidate.decisions
    assert 0 <= lost <= 60


def _sides(world: World) -> list[bool]:
    canary = world.instance.scheduler.canary
    pods = [PodInfo.of(make_pod(f"q{i}")) for i in range(50)]
    return [canary is not None and canary.chosen(pod) for pod in pods]


def test_a_process_that_starts_after_an_abort_keeps_the_stable_set(world: World) -> None:
    """The files still hold what was aborted."""
    before = world.hash
    world.change("false")
    world.run(25)
    world.start()
    assert world.hash == before
    assert world.rolled.phase is Phase.ABORTED
    assert all(world.run(5).values())


def test_a_change_while_no_process_runs_is_rolled_out(world: World) -> None:
    """What was in force before is in force again, and the files begin at the first step."""
    before = world.hash
    world.write("node.name == 'a'")
    world.start()
    assert world.hash == before
    assert (world.rolled.phase, world.rolled.step) == (Phase.PROGRESSING, 0)


def test_a_state_that_cannot_be_read_lets_the_files_decide(world: World) -> None:
    """It is told, and the next change is rolled out again."""
    Path(world.state).write_text("{")
    world.start()
    text = "The state of the rollout is refused; the files are in force"
    assert world.messages(text)
    assert all(world.run(3).values())


def test_what_no_step_tries_has_its_place_though_another_process_compiled_it(world: World) -> None:
    """What that returns knows no lines, so the file is read again."""
    store = world.instance.reloader.store
    store.compiler = lambda files: pickle.loads(pickle.dumps(files.compile()))
    path = world.folder / "policies" / "only.yaml"
    path.write_text(POLICY_TEXT % "true" + "  evict: {every: 1h, victim: pod.priority < 0}\n")
    world.read(world.instance)
    world.settle()
    (line,) = [line for line in world.lines if line.get("code") == "PS718"]
    assert (line["file"], line["line"], line["column"]) == (str(path), 7, 30)
    assert world.rolled.step == 0
    assert world.instance.rollout is not None
    report = world.instance.rollout.report()
    assert report is not None
    assert report.untried[0].startswith(f"{path}:7:30: no step")


@pytest.mark.parametrize("make", [World, ObjectWorld])
def test_a_state_of_a_newer_scheduler_leaves_the_stable_set_in_force(
    make: type[World], tmp_path: Path
) -> None:
    """Its texts are read all the same; the candidate begins at the first step, and it is told."""
    world = make(tmp_path)
    stable = world.hash
    world.change("node.name == 'a'")
    world.run(25)
    assert world.rolled.step == 1
    if isinstance(world, ObjectWorld):
        stored = world.home.store.get(ROLLOUTS, "", "careful").data
        newer = {**stored["status"], "state": {**stored["status"]["state"], "version": 99}}
        world.home.store.update({**stored, "status": newer}, "status")
    else:
        path = Path(str(world.state))
        path.write_text(path.read_text().replace('\\"version\\":1', '\\"version\\":99'))
    world.start()
    assert (world.hash, world.rolled.phase, world.rolled.step) == (stable, Phase.PROGRESSING, 0)
    (line,) = world.messages("The state of the rollout is refused; its candidate begins anew")
    assert "of a newer scheduler" in line["error"]


def test_a_state_that_cannot_be_written_stops_the_rollout(world: World) -> None:
    """The effects follow only a write: nothing begins before."""
    folder = world.folder / "state.json"
    folder.unlink()
    folder.mkdir()
    world.change("node.name == 'a'")
    world.run(25)
    assert world.instance.scheduler.canary is None
    assert len(world.messages("Failed to write the state of the rollout")) == 1
    folder.rmdir()
    world.run(25)
    assert world.messages("A step of the rollout begins")


def test_of_two_schedulers_one_is_refused(tmp_path: Path) -> None:
    """A file is written as it was read or written last, or not at all."""
    path = str(tmp_path / "state")
    one, other = FileStorage(path), FileStorage(path)
    said: list[str] = []
    assert (one.read(), other.read()) == (None, None)
    first, second = Record(None, {"/0/a": "a"}), Record(None, {"/0/a": "b"})
    one.write(first, said.append)
    other.write(second, said.append)
    assert other.read() == first
    other.write(second, said.append)
    assert said == ["", CHANGED, ""]
    assert one.read() == second


def test_requests_promote_and_abort(world: World) -> None:
    """They name the candidate; what cannot be is said at once."""
    rollouts = world.instance.rollouts
    assert rollouts is not None
    assert rollouts.report() is None
    assert rollouts.request("promote", "", "admin") == "no rollout is under way"
    world.change("node.name == 'a'")
    other = rollouts.request("abort", "0123", "admin")
    assert other.startswith("the candidate is ")
    assert rollouts.request("abort", world.rolled.candidate[:12], "admin") == ""
    assert world.rolled.phase is Phase.PROGRESSING
    world.settle()
    assert world.rolled.phase is Phase.ABORTED
    assert world.rolled.message == "aborted in step 1 by admin"
    assert rollouts.request("abort", "", "") == "the rollout has ended: Aborted"
    world.change("node.name == 'b'")
    assert rollouts.request("promote", "", "admin") == ""
    world.settle()
    assert world.rolled.phase is Phase.PROMOTED
    assert set(world.run(3).values()) == {"b"}


def test_the_report_has_both_sides_and_the_last_differences(world: World) -> None:
    """Where the rollout is, what was measured, and which pods would go elsewhere."""
    world.change("node.name == 'a'")
    nodes = world.run(10)
    assert world.instance.rollout is not None
    report = world.instance.rollout.report()
    assert report is not None
    assert (report.name, report.phase, report.step) == ("careful", "Progressing", 1)
    assert {side: m.decisions for side, m in report.measures.items()} == {
        "stable": 10,
        "candidate": 10,
    }
    moved = [each for each in report.differences if each.result == "moved"]
    assert {each.candidate for each in moved} == {"a"}
    assert [each.pod for each in moved] == [f"default/{p}" for p in nodes if nodes[p] != "a"]


def test_a_reload_without_a_change_begins_no_step(world: World) -> None:
    """A comment, or SIGHUP: the step goes on with what was counted, and is told of once."""
    world.change("node.name == 'a'")
    for seconds in (10, 20):
        world.run(seconds)
        control, steps = world.instance.rollout, world.events()
        assert control is not None
        before = control.report()
        world.read(world.instance)
        world.settle()
        after = control.report()
        assert before is not None
        assert after is not None
        assert after.measures["candidate"].decisions == before.measures["candidate"].decisions > 0
        assert world.events() == steps
        assert (world.instance.scheduler.canary is None) == (world.rolled.step == 0)
    world.change("true")
    world.change("node.name == 'a'")
    assert world.events() == [*steps, "RolloutStepped"]


def test_differences_are_those_of_this_candidate(world: World) -> None:
    """A newer one begins without those of the one before."""
    control = world.instance.rollout
    assert control is not None
    shown = []
    for node in ("a", "b"):
        world.change(f"node.name == '{node}'")
        world.run(10)
        report = control.report()
        assert report is not None
        shown.append({each.candidate for each in report.differences})
    assert shown == [{"a"}, {"b"}]


def test_a_record_is_read_as_it_was_written() -> None:
    """With a state, or only with the texts in force."""
    state = rollout.State("r", "p", "s", "c", began=1, seen=2)
    for held in (state, None):
        assert read_record(Record(held, {"/0/a": "b"}).text()) == Record(held, {"/0/a": "b"})


class Annotated:
    """A lease in memory."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}

    def annotation(self, name: str) -> str | None:
        """Return an annotation."""
        return self.annotations.get(name)

    def annotate(self, name: str, value: str, done: Callable[[str], None]) -> None:
        """Write an annotation."""
        self.annotations[name] = value
        done("")


def test_a_lease_has_the_record_packed() -> None:
    """What is no record is an error, and a bomb is cut off."""
    lease, said = Annotated(), list[str]()
    storage = LeaseStorage(lease)
    assert storage.read() is None
    record = Record(None, {"/0/policy.yaml": "a: b\n" * 10_000})
    assert storage.excess(record) == ""
    storage.write(record, said.append)
    assert (storage.read(), said) == (record, [""])
    assert len(lease.annotations[ANNOTATION]) < len(record.text()) / 50
    for wrong in ("%%", "YWJj"):
        lease.annotations[ANNOTATION] = wrong
        with pytest.raises(StateError, match=r"annotation policysched\.dev/rollout of the lease"):
            storage.read()


@pytest.mark.parametrize("make", [World, ObjectWorld])
def test_a_plan_that_becomes_shorter_begins_anew(make: type[World], tmp_path: Path) -> None:
    """Also while the state of a step that it has no more is being written."""
    world = make(tmp_path)
    world.change("node.name == 'a'")
    world.run(25)
    rollouts = world.instance.rollouts
    assert rollouts is not None
    assert (rollouts.percent(), world.rolled.step) == (30, 1)
    plan = yaml.safe_load(ROLLOUT_TEXT)
    plan["spec"]["steps"] = [{"canary": {"percent": 70, "decisions": 1000}}]
    world.write_rollout(yaml.safe_dump(plan))
    world.read(world.instance)
    assert rollouts.percent() == 0
    assert rollouts.report() is not None
    world.run(3)
    assert (rollouts.percent(), world.rolled.step) == (70, 0)


class Slow(RolloutStorage):
    """A storage whose writes end when the test says so, as those in a lease."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[tuple[Record, Done]] = []

    def write(self, record: Record, done: Done) -> None:
        """Have it written later."""
        self.waiting.append((record, done))

    def finish(self) -> None:
        """Write what waits."""
        waiting, self.waiting = self.waiting, []
        for record, done in waiting:
            super().write(record, done)


@pytest.mark.parametrize("ends", ["promote", "abort", "step"])
def test_a_change_that_comes_while_a_state_is_written_begins_at_its_first_step(
    world: World, ends: str
) -> None:
    """What was written is about the candidate before: it is not done to the newer one."""
    before, rollouts = world.hash, world.instance.rollouts
    assert rollouts is not None
    world.change("node.name == 'a'")
    slow = rollouts._storage = Slow()
    if ends == "step":
        while not any(record.state and record.state.step for record, _ in slow.waiting):
            slow.finish()
            world.run(1)
    else:
        assert rollouts.request("promote" if ends == "promote" else "abort", "", "") == ""
        world.settle()
    assert slow.waiting
    world.change("node.name == 'b'")
    newer = world.instance.reloader.store.staged
    assert newer is not None
    for _ in range(4):
        slow.finish()
        world.run(1)
        assert world.instance.scheduler.canary is None
    assert (world.hash, world.instance.reloader.store.staged) == (before, newer)
    assert (world.rolled.candidate, world.rolled.phase, world.rolled.step) == (
        newer.content_hash,
        Phase.PROGRESSING,
        0,
    )
    assert world.rolled.counts.candidate.decisions > 0


class Full(RolloutStorage):
    """A storage with too little room."""

    def excess(self, record: Record) -> str:
        """Return why a record is too large."""
        return excess(len(record.text()), 100, "use --rollout-state")


def test_a_set_that_is_too_large_to_be_kept_is_not_rolled_out(world: World) -> None:
    """The candidate is given up, and the error says what helps."""
    rollouts = world.instance.rollouts
    assert rollouts is not None
    before = world.hash
    rollouts._storage = Full()
    world.change("node.name == 'a'")
    assert world.hash == before
    assert world.instance.reloader.store.staged is None
    (line,) = world.messages("The rollout is refused: its state would be lost with the leader")
    assert line["error"].endswith("the limit is 100; use --rollout-state")


def test_what_a_deleted_object_would_have_brought_stays_out(tmp_path: Path) -> None:
    """Also after a restart, until another change comes; a new Rollout begins at its first step."""
    world = ObjectWorld(tmp_path)
    stable = world.hash
    world.change("node.name == 'a'")
    world.run(25)
    assert world.rolled.step == 1
    world.write_rollout(None)
    world.settle()
    assert world.rolled.reason == "RolloutDeleted"
    for _ in range(2):
        world.start()
        assert world.hash == stable
    world.write_rollout(ROLLOUT_TEXT)
    world.start()
    assert (world.hash, world.rolled.phase, world.rolled.step) == (stable, Phase.PROGRESSING, 0)
    world.write_rollout(None)
    world.settle()
    world.change("node.name == 'b'")
    assert set(world.run(3).values()) == {"b"}
    world.change("node.name == 'a'")
    world.start()
    assert set(world.run(3).values()) == {"a"}


@pytest.mark.parametrize("make", [World, ObjectWorld])
def test_a_rollout_that_is_gone_is_told_by_its_name(make: type[World], tmp_path: Path) -> None:
    """In the log, and by the metrics, which do not call it progressing for ever."""
    world = make(tmp_path)
    world.change("node.name == 'a'")
    world.run(2)
    phases = world.instance.metrics.policies.rollout_phase.values
    assert phases["careful", "Progressing"]
    world.write_rollout(None)
    world.change("node.name == 'b'")
    assert {phase for (_, phase), holds in phases.items() if holds} == {str(world.rolled.phase)}
    assert {name for name, _ in phases} == {"careful"}
    told = {"The change was taken back", "Another candidate begins", "Aborted the rollout"}
    assert {line["rollout"] for line in world.lines if line["msg"] in told} <= {"careful"}


@pytest.mark.parametrize("seen", [False, True])
def test_without_a_storage_the_status_of_policies_keeps_the_stable_set(
    tmp_path: Path, seen: bool
) -> None:
    """A Rollout is deleted while a process runs, or while none does; the next ones keep to it."""
    world = ObjectWorld(tmp_path)
    world.state = None
    world.start()
    stable = world.hash
    world.change("node.name == 'a'")
    world.run(2)
    world.write_rollout(None)
    if seen:
        world.settle()
    for _ in range(2):
        world.start()
        assert world.hash == stable
        assert world.in_force() == ("False", "RolloutAborted")
    assert world.events() == ["RolloutStepped", "RolloutAborted"]
    world.change("node.name == 'b'")
    assert set(world.run(3).values()) == {"b"}
    world.start()
    assert set(world.run(3).values()) == {"b"}


def test_a_new_rollout_begins_beside_the_stable_set_of_a_deleted_one(tmp_path: Path) -> None:
    """Though neither of them kept what was in force."""
    world = ObjectWorld(tmp_path)
    world.state = None
    world.start()
    stable = world.hash
    world.change("node.name == 'a'")
    world.run(25)
    world.write_rollout(None)
    world.write_rollout(ROLLOUT_TEXT)
    world.start()
    assert (world.hash, world.rolled.phase, world.rolled.step) == (stable, Phase.PROGRESSING, 0)


def test_a_stable_set_that_is_not_known_is_told(tmp_path: Path) -> None:
    """What the candidate has not is nowhere: the objects are in force, and it is said."""
    world = ObjectWorld(tmp_path)
    world.state = None
    other = yaml.safe_load(POLICY_TEXT % "node.name != 'c'")
    world.home.apply({**other, "metadata": {"name": "other"}})
    world.write_rollout(None)
    world.start()
    world.write_rollout(ROLLOUT_TEXT)
    world.settle()
    stable = world.hash
    world.home.store.delete(Key(("policysched.dev", "Policy"), "", "other"))
    world.change("node.name == 'a'")
    candidate = world.rolled.candidate
    assert world.hash == stable
    world.write_rollout(None)
    world.start()
    assert world.hash == candidate
    assert world.messages("The Rollout is gone, and what was in force before it is not known")


def test_an_audit_measures_no_times_and_a_canary_those_of_both_sides(world: World) -> None:
    """What an audit takes beside a decision says nothing about the candidate."""
    world.change("node.name == 'a'")
    world.run(10)
    counts = world.rolled.counts
    for side in (counts.stable, counts.candidate):
        assert (side.decisions, side.waiting, side.deciding) == (9, {}, {})
    world.run(25, pods=2)
    counts = world.rolled.counts
    assert world.rolled.step == 1
    for side in (counts.stable, counts.candidate):
        assert sum(side.waiting.values()) == sum(side.deciding.values()) == side.decisions > 0


def test_a_clock_that_is_set_back_holds_nothing_up(tmp_path: Path) -> None:
    """What is due once a second stays so."""
    world = ObjectWorld(tmp_path)
    world.change("node.name == 'a'")
    world.clock.advance(-3600)
    world.annotate({rollout.ANNOTATIONS["promote"]: world.rolled.candidate})
    world.run(2)
    assert world.rolled.phase is Phase.PROMOTED


def test_texts_that_cannot_be_files_are_told(world: World) -> None:
    """No pod is decided, and the process goes on."""
    path = Path(str(world.state))
    path.write_text(Record(None, {"/0/a.yaml": "", "/0/a.yaml/b.yaml": ""}).text())
    world.start()
    text = "Failed to restore the policies in force before the rollout; no pod is decided"
    assert world.messages(text)
    assert not any(world.run(2).values())
    path.unlink()
    world.start()
    assert all(world.run(2).values())


class Refusing(World):
    """A plugin fails in a process that starts, until it is mended."""

    mended = True

    def started(self, instance: EmbeddedInstance) -> None:
        """Refuse what is to be in force again."""
        commit, store = instance.reloader.commit, instance.reloader.store
        problem = Diagnostic("sort.py", 1, 1, "PS707", "plugin Sort: no key")
        instance.reloader.commit = (  # type: ignore[method-assign]
            lambda compiled: commit(compiled) if self.mended else store._refuse((problem,))
        )


def test_a_set_that_is_refused_again_decides_no_pod(tmp_path: Path) -> None:
    """Nor does the candidate, which is what the process has read; it is tried again."""
    world = Refusing(tmp_path)
    stable = world.hash
    world.change("node.name == 'a'")
    world.mended = False
    world.start()
    assert not any(world.run(3).values())
    text = "Failed to restore the policies in force before the rollout; no pod is decided"
    assert {line["error"] for line in world.messages(text)} == {"plugin Sort: no key"}
    world.mended = True
    assert all(world.run(3).values())
    assert (world.hash, world.rolled.phase) == (stable, Phase.PROGRESSING)


@pytest.mark.parametrize("changed", [False, True])
def test_policies_that_are_moved_stay_in_force(world: World, changed: bool) -> None:
    """A process that starts finds them in another folder; the state has the texts of the first."""
    world.change("node.name == 'a'")
    assert world.instance.rollouts is not None
    world.instance.rollouts.request("promote", "", "")
    world.settle()
    force = world.hash
    if changed:
        world.write("node.name == 'b'")
    (world.folder / "policies").rename(world.folder / "moved")
    world.policies = "moved"
    world.start()
    assert (world.hash, world.rolled.phase is Phase.PROMOTED) == (force, not changed)
    assert set(world.run(3).values()) == {"a"}


@pytest.mark.parametrize(
    "place",
    ["/0/../../x.yaml", "/tmp/only.yaml", "/0//x.yaml", "/one/x.yaml", "/0/./x", "/0/\0"],
)
def test_a_record_has_its_texts_in_places_of_ours(place: str) -> None:
    """They become files of a folder: none is written elsewhere, or passed over."""
    with pytest.raises(StateError, match="no place"):
        read_record(Record(None, {place: "a: b"}).text())
