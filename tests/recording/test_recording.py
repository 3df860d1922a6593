"""What is read back of a recording is what was told, wherever it begins and however it ended."""

from __future__ import annotations

import errno
import gzip
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.model.meta import SECOND, ApiObject
from policy_sched.model.pod import Pod
from policy_sched.recording.events import (
    Added,
    Decided,
    Deleted,
    Event,
    Modified,
    PolicyChanged,
    RecordedPolicies,
)
from policy_sched.recording.pseudonyms import Pseudonyms, Renaming
from policy_sched.recording.reading import Recording
from policy_sched.recording.recorder import DAY, HOUR, LARGEST, PAUSE, Kept, Recorder
from policy_sched.recording.reduction import reduced
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.recording.histories import BEGAN, State, Step, follow, history, place, replayed

KEPT = Kept(annotations=("example.com/kept",))


@contextmanager
def folder() -> Iterator[Path]:
    """Give the path of a directory that is not there yet."""
    with tempfile.TemporaryDirectory() as above:
        yield Path(above) / "traffic"


def written(
    path: Path, steps: Iterable[Step], objects: Iterable[ApiObject] = (), largest: int = LARGEST
) -> None:
    """Write a recording."""
    recorder = Recorder(path, KEPT, largest=largest)
    recorder.begin(BEGAN, objects)
    time = BEGAN
    for step in steps:
        time = step.time
        if step.gone:
            recorder.remove(time, step.object)
        else:
            recorder.put(time, step.object)
    recorder.close(time)


def texts(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a segment as plain data."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


SEEDS = st.integers(0, 2**24)


@given(seed=SEEDS, largest=st.sampled_from((400, 3000, LARGEST)))
@settings(max_examples=scaled(100))
def test_what_is_read_is_what_was_told(seed: int, largest: int) -> None:
    """At each time, over the boundaries of segments, and without an event that changes nothing."""
    random = Random(seed)
    steps = list(history(random, random.randrange(1, 60)))
    at_first = [*{place(one.object): one.object for one in history(random, 5)}.values()]
    with folder() as path:
        written(path, steps, at_first, largest)
        recording = Recording.open(path)
        events = list(recording.events())
    assert recording.notes == []
    assert (recording.began, recording.ended) == (BEGAN, steps[-1].time)
    state: State = {}
    for obj in at_first:
        follow(state, Step(BEGAN, obj))
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        follow(state, step)
        if following is None or following.time > step.time:
            assert replayed(events, step.time) == state


@given(seed=SEEDS, part=st.floats(0, 1))
@settings(max_examples=scaled(60))
def test_a_start_in_the_middle_has_the_state_then(seed: int, part: float) -> None:
    """And then the same events as from the beginning; an end takes the rest away."""
    random = Random(seed)
    steps = list(history(random, 40))
    with folder() as path:
        written(path, steps, largest=random.choice((500, LARGEST)))
        recording = Recording.open(path)
        start = BEGAN + int((steps[-1].time - BEGAN) * part)
        end = start + random.randrange(1, 2 * DAY)
        every = list(recording.events())
        some = list(recording.events(start, end))
    before = [event for event in every if event.time < start]
    after = [event for event in every if start <= event.time < end]
    at_start = len(some) - len(after)
    assert all(isinstance(one, Added) and one.time == start for one in some[:at_start])
    assert replayed(some[:at_start]) == replayed(before)
    assert some[at_start:] == after


def test_an_hour_is_a_segment_and_a_day_begins_with_a_snapshot(tmp_path: Path) -> None:
    """So that what is older than a day can be deleted, and the rest is read."""
    path = tmp_path / "traffic"
    recorder = Recorder(path, KEPT)
    recorder.begin(BEGAN, [make_node("n0")])
    for hour in range(60):
        recorder.put(BEGAN + hour * HOUR, make_pod(f"p{hour}"))
    recorder.close(BEGAN + 60 * HOUR)
    files = sorted(path.glob("*.jsonl.gz"))
    headers = [texts(file)[0] for file in files]
    assert len(files) == 60
    assert [one["number"] for one in headers if one.get("snapshot")] == [1, 25, 49]
    whole = replayed(Recording.open(path).events())
    for file in files[:30]:
        file.unlink()
    rest = Recording.open(path)
    assert rest.began == BEGAN + 48 * HOUR
    (note,) = rest.notes
    assert note.startswith("000031.jsonl.gz to 000048.jsonl.gz: what they continue is not there")
    assert replayed(rest.events()) == whole


def test_a_missing_segment_is_told(tmp_path: Path) -> None:
    """What continues it is left out, to the next snapshot; then the state is right again."""
    path = tmp_path / "traffic"
    recorder = Recorder(path, KEPT)
    recorder.begin(BEGAN, [make_node("n0")])
    for hour in range(30):
        recorder.put(BEGAN + hour * HOUR, make_pod(f"p{hour % 5}", labels={"hour": str(hour)}))
    recorder.close(BEGAN + 30 * HOUR)
    whole = replayed(Recording.open(path).events())
    (path / "000002.jsonl.gz").unlink()
    recording = Recording.open(path)
    events = list(recording.events())
    assert replayed(events) == whole
    without = "000003.jsonl.gz to 000024.jsonl.gz: what they continue is not there"
    assert sum(note.startswith(without) for note in recording.notes) == 1
    assert any("nothing was recorded between" in note for note in recording.notes)
    assert not [event for event in events if BEGAN < event.time < BEGAN + 24 * HOUR]


def a_small_one(path: Path) -> list[Event]:
    """Write a recording of one segment, flushed often; return its events."""
    recorder = Recorder(path, KEPT)
    recorder.policies(BEGAN, RecordedPolicies("abc", files={"p.yaml": "x"}))
    recorder.begin(BEGAN, [make_node("n0"), make_pod("a"), make_pod("b", node_name="n0")])
    for number in range(6):
        recorder.put(BEGAN + number * SECOND, make_pod("a", labels={"n": str(number)}))
        recorder.put(BEGAN + number * SECOND, make_pod(f"c{number}", cpu=number))
    decided = Decided(time=BEGAN + 7 * SECOND, pod="default/a", node="n0", policies="abc")
    recorder.decided(decided)
    recorder.close(BEGAN + 8 * SECOND)
    return list(Recording.open(path).events())


def test_every_cut_is_read_to_the_last_whole_line(tmp_path: Path) -> None:
    """Or refused with its place, where not even the snapshot is whole."""
    path = tmp_path / "traffic"
    events = a_small_one(path)
    file = path / "000001.jsonl.gz"
    whole, most, refused = file.read_bytes(), 0, 0
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        plain = zlib.decompressobj(31).decompress(whole[:size])
        lines = plain.split(b"\n")[:-1]
        if not any(b'"complete"' in line for line in lines):
            with pytest.raises(PolicySchedError, match=str(path)):
                list(Recording.open(path).events())
            refused += 1
            continue
        recording = Recording.open(path)
        read = list(recording.events())
        assert read == events[: len(read)]
        assert len(read) >= most
        most = len(read)
        assert any("000001.jsonl.gz" in note for note in recording.notes)
        told = [line for line in lines if b'"at":' in line and b'"end"' not in line]
        assert len(read) == 1 + len(told)  # the policies
    assert most == len(events)
    assert refused > 100


def test_every_changed_byte_is_read_or_refused(tmp_path: Path) -> None:
    """Never a traceback, and never more than an error with its place."""
    path = tmp_path / "traffic"
    a_small_one(path)
    file = path / "000001.jsonl.gz"
    whole = file.read_bytes()
    plain = gzip.decompress(whole)
    random, told = Random(7), list[str]()
    for number in range(600):
        data = bytearray(whole if number % 3 == 0 else plain)
        for _ in range(random.choice((1, 1, 2, 8))):
            data[random.randrange(len(data))] = random.choice((random.randrange(256), 48, 44, 125))
        file.write_bytes(bytes(data) if number % 3 == 0 else gzip.compress(bytes(data)))
        try:
            list(Recording.open(path).events())
        except PolicySchedError as error:
            told.append(str(error))
    assert len(told) > 100
    assert all(str(path) in text for text in told)


HEADER = {
    "type": "segment",
    "format": "policysched.dev/recording/v2",
    "number": 1,
    "began": BEGAN,
    "snapshot": True,
}
COMPLETE = {"type": "complete", "objects": 0}
SPEC = {"type": "spec", "number": 0, "spec": {}}
META = {"type": "meta", "number": 0, "meta": {}}
NODE = {"type": "object", "at": 0, "id": 0, "object": {"apiVersion": "v1", "kind": "Node"}}
CHANGED = {"type": "changed", "at": 0, "id": 0}
STATUS = {"type": "status", "number": 0, "status": {}}
POD = {"type": "pod", "at": 0, "id": 0, "name": "p", "meta": 0, "spec": 0, "status": 0}
SHARED = [HEADER, COMPLETE, SPEC, META, STATUS]
CAME = [*SHARED, POD]


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        ([{"apiVersion": "v1"}], 1, "no segment of a recording"),
        ([HEADER | {"format": "x/v9"}], 1, "its format is 'x/v9'; policysched.dev/recording/v2"),
        ([HEADER | {"number": 7}], 1, "it is segment 7: a file was renamed"),
        ([HEADER | {"began": -1}], 1, "out of range"),
        ([HEADER, {"type": "odd"}], 2, "Invalid value 'odd'"),
        ([HEADER, COMPLETE | {"objects": 3}], 2, "not the end of a snapshot of so many objects"),
        ([HEADER, COMPLETE, COMPLETE], 3, "not the end of a snapshot"),
        ([HEADER, COMPLETE, HEADER], 3, "one first line"),
        ([HEADER, POD], 2, "there is no spec 0, or no meta 0"),
        ([HEADER, COMPLETE, SPEC, META, POD], 5, "there is no status 0"),
        ([*SHARED, POD | {"id": 9}], 6, "the next object is 0, not 9"),
        ([*SHARED, POD | {"at": -1}], 6, "-1 is no time"),
        ([*SHARED, POD | {"at": 2**70}], 6, "is no time"),
        ([HEADER, COMPLETE, {"type": "gone", "at": 0, "id": 0}], 3, "there is no object 0"),
        ([HEADER, COMPLETE, {"type": "end", "at": 1}, COMPLETE], 4, "and one last one"),
        (
            [HEADER, COMPLETE, SPEC | {"spec": {"overhead": {"cpu": "many"}}}],
            3,
            "a quantity of the spec is not valid",
        ),
        (
            [*CAME, CHANGED | {"set": {"spec.color": 1}}],
            7,
            "there is no field color",
        ),
        (
            [*CAME, CHANGED | {"set": {"status.conditions[3:4]": []}}],
            7,
            "the list has 0 items",
        ),
        (
            [*CAME, CHANGED | {"set": {"spec.overhead": {"cpu": "-1"}}}],
            7,
            "a quantity is not valid",
        ),
        (
            [HEADER, COMPLETE, {"type": "object", "at": 0, "id": 0, "object": {"kind": []}}],
            3,
            "Expected `str`, got `array`",
        ),
        (
            [HEADER, COMPLETE, NODE, {"type": "decided", "at": 0, "id": 0}],
            4,
            "object 0 is no pod",
        ),
        ([HEADER, COMPLETE, NODE, CHANGED | {"node": "n1"}], 4, "object 0 is no pod"),
        ([*CAME, CHANGED | {"status": 1}], 7, "there is no status 1"),
        (
            [*SHARED, STATUS | {"status": {"allocatedResources": {"cpu": "many"}}}],
            6,
            "a quantity of the status is not valid",
        ),
    ],
)
def test_ps715_bytes_that_are_no_recording_are_refused(
    lines: list[dict[str, Any]], line: int, message: str, tmp_path: Path
) -> None:
    """With file, line and why."""
    text = "".join(json.dumps(one) + "\n" for one in lines)
    file = tmp_path / "000001.jsonl.gz"
    file.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(PolicyError) as caught:
        list(Recording.open(tmp_path).events())
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.render().startswith(f"{file}:{line}:1: error PS715: ")
    assert message in diagnostic.message


def test_what_is_not_compressed_is_refused(tmp_path: Path) -> None:
    """And a directory without segments, and one that is not there."""
    with pytest.raises(PolicySchedError, match=r"begins with 000001\.jsonl\.gz"):
        Recording.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        Recording.open(tmp_path / "other")
    (tmp_path / "000001.jsonl.gz").write_text(json.dumps(HEADER))
    with pytest.raises(PolicyError, match="not gzip"):
        Recording.open(tmp_path)


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line, and a file, has a bound; it holds before all of it is in memory."""
    file = tmp_path / "000001.jsonl.gz"
    monkeypatch.setattr("policy_sched.recording.segments.LONGEST_LINE", 1 << 20)
    file.write_bytes(gzip.compress(json.dumps(HEADER).encode() + b"\n" + b" " * (4 << 20)))
    with pytest.raises(PolicyError, match="a line has more than 1,048,576 bytes"):
        Recording.open(tmp_path)
    monkeypatch.setattr("policy_sched.recording.segments.MOST_BYTES", 1 << 20)
    file.write_bytes(gzip.compress(json.dumps(HEADER).encode() + b"\n" + b"\n" * (4 << 20)))
    with pytest.raises(PolicyError, match="it is larger than"):
        Recording.open(tmp_path)


def full(at: int, room: int) -> tuple[Callable[[int, bytes], int], Callable[[], None]]:
    """Return a function that writes until so many bytes are written, and one that makes room."""
    left = [at]

    def write(handle: int, data: bytes) -> int:
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        some = data[: left[0]]
        left[0] -= len(some)
        return os.write(handle, some)

    def make_room() -> None:
        left[0] = room

    return write, make_room


@pytest.mark.parametrize("room", [300, 700, 1500, 2500])
def test_a_full_disk_stops_nothing(room: int, tmp_path: Path) -> None:
    """It is told once, lines are counted, and a new segment has a snapshot when there is room."""
    path, troubles = tmp_path / "traffic", list[str]()
    write, make_room = full(room, 1 << 30)
    recorder = Recorder(path, KEPT, troubles.append, write)
    recorder.begin(BEGAN, [])
    state: State = {}
    for step in history(Random(3), 200):
        time = BEGAN + (step.time - BEGAN) % (600 * SECOND)
        if not recorder.lost:
            time = BEGAN
        recorder.put(time, step.object) if not step.gone else recorder.remove(time, step.object)
        recorder.flush(time)
        follow(state, step)
    assert [text.startswith(str(path)) for text in troubles] == [True]
    lost = recorder.lost
    assert lost
    make_room()
    late = BEGAN + 700 * SECOND
    recorder.flush(late + PAUSE)
    assert troubles[1:] == [""]
    recorder.put(late + 2 * PAUSE, make_pod("new"))
    follow(state, Step(0, make_pod("new")))
    recorder.close(late + 3 * PAUSE)
    recording = Recording.open(path)
    assert replayed(recording.events()) == state
    assert f"{lost:,} lines before 000002.jsonl.gz could not be written" in recording.notes
    assert recorder.lost == lost


def test_what_cannot_be_begun_is_an_error(tmp_path: Path) -> None:
    """A recording that is full from the start leaves no file; two cannot write one."""
    path = tmp_path / "traffic"
    write, _ = full(0, 0)
    recorder = Recorder(path, KEPT, write=write)
    with pytest.raises(OSError, match="No space"):
        recorder.begin(BEGAN, [make_node("n")])
    assert list(path.iterdir()) == []
    with pytest.raises(PolicySchedError, match="another process records there"):
        Recorder(path, KEPT)
    recorder.close(BEGAN)
    Recorder(path, KEPT).close(BEGAN)


def test_a_link_out_of_a_repository_is_refused(tmp_path: Path) -> None:
    """A folder was made wherever a link in a stranger's repository led."""
    (tmp_path / "repository/.git").mkdir(parents=True)
    (tmp_path / "repository/traffic").symlink_to("..")
    with pytest.raises(PermissionError, match=r"traffic is a symbolic link to .*, which is outsid"):
        Recorder(tmp_path / "repository/traffic/here", KEPT)
    assert [path.name for path in tmp_path.iterdir()] == ["repository"]


def test_a_second_run_continues_in_the_directory(tmp_path: Path) -> None:
    """With a snapshot; what changed in between changes then, and the gap is told."""
    path = tmp_path / "traffic"
    written(path, [Step(BEGAN + 1, make_pod("a"))], [make_node("n0"), make_pod("gone")])
    recorder = Recorder(path, KEPT)
    recorder.begin(BEGAN + HOUR, [make_node("n0", cpu="8"), make_pod("a"), make_pod("b")])
    recorder.close(BEGAN + HOUR)
    recording = Recording.open(path)
    events = list(recording.events())
    assert [(type(event), event.time - BEGAN) for event in events] == [
        *[(Added, 0)] * 2,
        (Added, 1),
        (Deleted, HOUR),
        (Modified, HOUR),
        (Added, HOUR),
    ]
    assert [note for note in recording.notes if "nothing was recorded between" in note]


def test_decisions_of_others_are_concluded(tmp_path: Path) -> None:
    """Bindings, nominations, conditions and evictions, each once; ours are told."""
    path = tmp_path / "traffic"

    def conditions(pod: Pod, *given: dict[str, str]) -> Pod:
        plain = msgspec.to_builtins(pod)
        plain["status"]["conditions"] = list(given)
        return msgspec.convert(plain, Pod)

    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    other = {"scheduler_name": "other"}
    states = [
        make_pod("p", **other),
        conditions(make_pod("p", **other), waits | {"message": "0/3 nodes are available"}),
        conditions(make_pod("p", **other), waits | {"message": "0/4 nodes are available"}),
        conditions(
            make_pod("p", nominated_node_name="n1", **other), waits | {"message": "0/4 nodes"}
        ),
        make_pod("p", nominated_node_name="n1", node_name="n1", **other),
        conditions(make_pod("p", node_name="n1", **other), evicted),
    ]
    recorder = Recorder(path, KEPT)
    recorder.policies(BEGAN, RecordedPolicies("abc"))
    recorder.begin(BEGAN, [])
    for number, state in enumerate(states):
        recorder.put(BEGAN + number, state)
        recorder.put(BEGAN + number, state)
    recorder.put(BEGAN, make_pod("ours"))
    ours = Decided(
        time=BEGAN + 9,
        pod="default/ours",
        nominated_node="n2",
        reason="Unschedulable",
        message="0/4",
        victims=("default/p",),
        scheduler="default-scheduler",
        policies="abc",
    )
    recorder.decided(ours)
    waiting = conditions(make_pod("ours", nominated_node_name="n2"), waits | {"message": "0/4"})
    recorder.put(BEGAN + 9, waiting)
    own = {"scheduler": "default-scheduler", "policies": "abc"}
    bound = Decided(time=BEGAN + 10, pod="default/ours", node="n2", **own)
    recorder.decided(bound)
    recorder.put(BEGAN + 10, make_pod("ours", node_name="n2"))
    recorder.close(BEGAN + 10)
    decided = [e for e in Recording.open(path).events() if isinstance(e, Decided)]
    head = {"pod": "default/p", "uid": "default/p", "scheduler": "other"}
    told = {"reason": "Unschedulable", **head}
    assert decided[:-2] == [
        Decided(time=BEGAN + 1, message="0/3 nodes are available", **told),
        Decided(time=BEGAN + 2, message="0/4 nodes are available", **told),
        Decided(time=BEGAN + 3, nominated_node="n1", **head),
        Decided(time=BEGAN + 3, message="0/4 nodes", **told),
        Decided(time=BEGAN + 4, node="n1", **head),
        Decided(time=BEGAN + 5, reason="EvictionByEvictionAPI", evicted=True, **head),
    ]
    named = [msgspec.structs.replace(one, uid="default/ours") for one in (ours, bound)]
    assert decided[-2:] == named


def test_policies_are_kept_by_their_hash(tmp_path: Path) -> None:
    """Those in force come first, wherever events begin; a replay needs no other file."""
    path = tmp_path / "traffic"
    first = RecordedPolicies("abc", "c.yaml", ("p",), {"c.yaml": "kind: C", "p/q.yaml": "ä"})
    recorder = Recorder(path, KEPT)
    recorder.policies(BEGAN, first)
    recorder.begin(BEGAN, [make_node("n")])
    recorder.policies(BEGAN + HOUR // 2, RecordedPolicies("def"))
    recorder.policies(BEGAN + 2 * HOUR, first)
    recorder.close(BEGAN + 3 * HOUR)
    recording = Recording.open(path)
    assert recording.policies == {"abc": first, "def": RecordedPolicies("def")}
    changes = [e for e in recording.events() if isinstance(e, PolicyChanged)]
    assert [(e.time - BEGAN, e.hash) for e in changes] == [
        (0, "abc"),
        (HOUR // 2, "def"),
        (2 * HOUR, "abc"),
    ]
    begin = list(recording.events(BEGAN + HOUR, BEGAN + HOUR + 1))
    assert begin == [PolicyChanged(BEGAN + HOUR, "def"), Added(BEGAN + HOUR, make_node("n"))]
    evil = path / "policies-bad.json"
    evil.write_text('{"hash": "bad", "files": {"../x": ""}}')
    with pytest.raises(PolicyError, match="no relative path"):
        Recording.open(path)


def test_a_bound_pod_is_a_short_line(tmp_path: Path) -> None:
    """A heartbeat is no line, and pods of one owner share their spec."""
    path = tmp_path / "traffic"
    recorder = Recorder(path, KEPT)
    recorder.begin(BEGAN, [make_node("node-0001", annotations={"beat": "1"})])
    for number in range(9):
        recorder.put(BEGAN, make_pod(f"p{number}", cpu="1"))
        recorder.put(BEGAN + SECOND // 2, make_pod(f"p{number}", cpu="1", node_name="node-0001"))
        recorder.put(BEGAN, make_node("node-0001", annotations={"beat": "2"}))
    recorder.close(BEGAN + 1)
    lines = gzip.decompress((path / "000001.jsonl.gz").read_bytes()).splitlines()
    bound = [line for line in lines if b'"node":' in line and b'"changed"' in line]
    assert len(bound) == 9
    assert max(map(len, bound)) < 90
    assert sum(b'"type":"spec"' in line for line in lines) == 1
    assert not any(b"beat" in line for line in lines)
    assert len(lines) == 1 + 2 + 3 + 9 + 9 + 9 + 1
    shutil.rmtree(path)


def names_in(value: Any) -> Iterator[str]:
    """Yield all texts and keys in plain data."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)
    elif isinstance(value, str):
        yield value


@given(seed=SEEDS)
@settings(max_examples=scaled(60))
def test_pseudonyms_hide_every_name_all_along(seed: int) -> None:
    """And tell the same story: what is read is what was told, with pseudonyms."""
    random = Random(seed)
    steps = list(history(random, 40))
    at_first = [*{place(one.object): one.object for one in history(random, 5)}.values()]
    renaming = Renaming(Pseudonyms(b"0123456789abcdef"))
    with folder() as path:
        recorder = Recorder(path, Kept(renamed=renaming), largest=900)
        recorder.begin(BEGAN, at_first)
        state: State = {}
        for step in [*(Step(BEGAN, obj) for obj in at_first), *steps]:
            if step.gone:
                recorder.remove(step.time, step.object)
            else:
                recorder.put(step.time, step.object)
            follow(state, step, ())
        recorder.close(steps[-1].time)
        told = {word for file in path.glob("*.gz") for word in names_in(texts(file))}
        read = replayed(Recording.open(path).events())
    hidden = {f"o{number}" for number in range(4)} | {"prod", "app", "zone", "x", "y", "n0", "n1"}
    hidden |= {f"o{number}-{other}" for number in range(4) for other in range(4)} | {"pv", "r", "u"}
    assert not told & hidden
    assert not any("example/app" in word or "kube-api-access" in word for word in told)
    expected = renaming(list(state.values()))
    assert read == {place(obj): obj for obj in expected}


@given(seed=SEEDS)
@settings(max_examples=scaled(30))
def test_the_same_history_gives_the_same_bytes(seed: int) -> None:
    """Whatever was written before by the same process."""
    steps = list(history(Random(seed), 30))
    sizes = []
    for _ in range(2):
        with folder() as path:
            written(path, steps, largest=900)
            sizes.append([file.read_bytes() for file in sorted(path.iterdir())])
    assert sizes[0] == sizes[1]


def test_reduced_objects_are_read_back(tmp_path: Path) -> None:
    """A pod that comes is its reduced form, without messages and volumes that nothing reads."""
    path = tmp_path / "traffic"
    pods = [step.object for step in history(Random(5), 200) if isinstance(step.object, Pod)]
    pods = [pod for pod in pods if pod.status.phase != "Succeeded"]
    written(path, [Step(BEGAN, pod) for pod in pods])
    last = reduced({place(pod): pod for pod in pods}.values(), KEPT.annotations)
    assert replayed(Recording.open(path).events()) == {place(pod): pod for pod in last}
