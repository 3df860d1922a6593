"""Recording of an instance's traffic: told in the event loop, written by a thread.

Theory of operation. The event loop appends what changed, or was decided, with its time to a queue,
which takes a microsecond; a thread compares, compresses and writes what has come, every five
seconds. Objects are never changed in place, so the thread needs no lock, and the loop never waits
for it. A disk that hangs lets the queue grow up to a bound; beyond it changes are missed and
counted, and once the thread has caught up it is given all objects anew.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from threading import Event, Thread
from typing import Any, Final

import msgspec

from policy_sched import recording
from policy_sched.instance.app.worker import GIVE_WAY
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.model import SECOND, ApiObject
from policy_sched.profiles.build import declared_kinds
from policy_sched.profiles.reload import ActivePolicies, PolicyFiles, PolicyStore, given_by, text_of
from policy_sched.scheduler import Attempt, Bind, Decision, GroupDecision, Preempt

MOST_WAITING: Final = 200_000
"""Changes that wait to be written."""
LAST_WORDS: Final = 10.0
"""Seconds in which the rest is written at the end."""


class RecordingThread:
    """Feeds a recorder, from `begin` on.

    ``store`` has the policies; ``now``: ns since 1970; ``everything`` returns all objects that are
    there; ``trouble`` is called
    in the loop's thread with the reason why nothing is written, and with "" when it goes on.
    """

    def __init__(
        self,
        recorder: recording.Recorder,
        store: PolicyStore,
        now: Callable[[], int],
        everything: Callable[[], Iterable[ApiObject]],
        trouble: Callable[[str], None],
        most: int = MOST_WAITING,
    ) -> None:
        self.recorder = recorder
        self.begun = False
        self._store = store
        self._current: ActivePolicies | None = None
        self._staged: ActivePolicies | None = None
        """The policies in force, and the candidate, that were told of last; and their hashes."""
        self._hash = self._staged_hash = ""
        self._missed = 0
        self._now, self._everything, self._most = now, everything, most
        self._tell_trouble = trouble
        self._troubles: deque[str] = deque()
        recorder.trouble = self._troubles.append
        self._told: deque[tuple[Callable[[int, Any], None], int, Any]] = deque()
        """What the thread is to call, with the time and what it is about."""
        self._put, self._remove = recorder.put, recorder.remove
        self._behind = False
        """Whether the recorder misses changes until all before are written."""
        self._woken = False
        self._something, self._end = Event(), Event()
        # A daemon: a disk that hangs does not keep the process from ending.
        self._thread = Thread(target=self._run, name="recording", daemon=True)

    @property
    def lost(self) -> int:
        """Lines that are not written."""
        return self.recorder.lost + self._missed

    # In the event loop.

    def begin(self) -> None:
        """Begin with a snapshot of what is there."""
        self.begun = True
        sys.setswitchinterval(GIVE_WAY)  # else the loop waits for the thread's turns
        self._tell(self._begin, [*self._everything()])
        self._thread.start()

    def look(self) -> None:
        """Tell of the policies in force, if they are others than before."""
        current = self._store.current
        if current is self._current:
            return
        self._current, self._hash = current, current.content_hash
        kinds = frozenset(declared_kinds(current.plans, polled=True))
        self.recorder.kept = replace(self.recorder.kept, inputs=kinds)
        self._tell_policies(self.recorder.policies, self._hash)

    def _hash_of(self, generation: int) -> str:
        """Return the hash of the policies of a generation: those in force, or the candidate."""
        if self._store.current is not self._current:
            self.look()
        assert self._current is not None, "it was looked at"
        if generation == self._current.generation:
            return self._hash
        staged = self._store.staged
        if staged is None or staged.generation != generation:
            return ""
        if staged is not self._staged:
            self._staged, self._staged_hash = staged, staged.content_hash
            self._tell_policies(self._keep, self._staged_hash)
        return self._staged_hash

    def _tell_policies(
        self, what: Callable[[int, recording.RecordedPolicies], None], content_hash: str
    ) -> None:
        try:
            policies = recorded_policies(self._store.files, content_hash)
        except OSError as error:
            self._tell_trouble(f"the policies cannot be read: {error}")
        else:
            self._told.append((what, self._now(), policies))

    def changed(self, obj: ApiObject, *, gone: bool = False) -> None:
        """Tell of an object that came or changed, or was deleted."""
        if self.begun:
            self._tell(self._remove if gone else self._put, obj)

    def decided(self, attempt: Attempt, decision: Decision, _start: float) -> None:
        """Tell of a decision, as an observer of the scheduler."""
        if self.begun:
            self._tell(self._decided, self._decision(attempt, decision))

    def group_decided(self, decision: GroupDecision, start: float) -> None:
        """Tell of the decisions about a group's pods, as an observer of the scheduler."""
        for member in decision.members:
            self.decided(member.attempt, member.decision, start)

    def close(self) -> None:
        """Write the rest."""
        self._end.set()
        self._something.set()
        if self.begun:
            self._thread.join(LAST_WORDS)
        else:
            self.recorder.close(self._now())
        self._say()

    def _tell(self, what: Callable[[int, Any], None], about: Any) -> None:
        told = self._told
        if self._behind or len(told) >= self._most:
            self._behind = bool(told)
            if self._behind:
                self._missed += 1
                return
            what, about = self._replace, (self._missed, [*self._everything()])
            self._missed = 0
        told.append((what, self._now(), about))
        if not self._woken:
            self._woken = True
            self._something.set()
        if self._troubles:
            self._say()

    def _say(self) -> None:
        while self._troubles:
            self._tell_trouble(self._troubles.popleft())

    def _decision(self, attempt: Attempt, decision: Decision) -> recording.Decided:
        pod, pipeline = attempt.queued.info, attempt.profile.pipeline
        scheduler, policies = pipeline.scheduler_name, self._hash_of(pipeline.generation)
        if isinstance(decision, Bind):
            return recording.Decided(
                time=self._now(),
                pod=pod.key,
                scheduler=scheduler,
                policies=policies,
                node=decision.node,
            )
        node, victims = "", tuple[str, ...]()
        if isinstance(decision, Preempt):
            node, victims = decision.node, tuple(sorted(v.key for v in decision.victims))
        return recording.Decided(
            time=self._now(),
            pod=pod.key,
            scheduler=scheduler,
            policies=policies,
            nominated_node=node,
            reason=recording.REJECTED if decision.status.rejected else recording.FAILED,
            message=decision.message,
            victims=victims,
        )

    # In the thread.

    def _run(self) -> None:
        try:
            while not self._end.is_set():
                self._something.wait()
                self._something.clear()
                self._end.wait(recording.EVERY / SECOND)
                self._woken = False
                self._take()
            self._take()
            self.recorder.close(self._now())
        except Exception as error:  # noqa: BLE001 - scheduling goes on without a recording
            self._troubles.append(f"{self.recorder.folder}: {error!r}; the recording ends")

    def _take(self) -> None:
        """Write what has come by now."""
        told = self._told
        for _ in range(len(told)):
            what, time, about = told.popleft()
            what(time, about)
        self.recorder.flush(self._now())

    def _begin(self, time: int, objects: Iterable[ApiObject]) -> None:
        with suppress(OSError):  # it was told, and is tried again
            self.recorder.begin(time, objects)

    def _replace(self, time: int, given: tuple[int, Iterable[ApiObject]]) -> None:
        missed, objects = given
        self.recorder.replace(time, objects, missed)

    def _decided(self, _time: int, decision: recording.Decided) -> None:
        self.recorder.decided(decision)

    def _keep(self, _time: int, policies: recording.RecordedPolicies) -> None:
        self.recorder.keep(policies)


def recorded_policies(files: PolicyFiles, content_hash: str) -> recording.RecordedPolicies:
    """Return the texts of a configuration and policies, with the schemas that they name.

    Policies that are objects of the cluster become files of a directory, after the others. Shipped
    policies that a configuration names are not among them: each installation has its own.
    Raises OSError.
    """
    places = msgspec.structs.replace(files, rollout=None).places()
    texts = {place[1:]: text_of(file) for place, file in places.items()}
    config, given = given_by(places)
    if files.config is not None and not config:
        config = "/config/config.json"
        texts[config[1:]] = msgspec.json.encode(files.config).decode()
    for applied in files.objects:  # JSON is YAML
        texts[f"objects/{applied.name}.yaml"] = applied.raw.decode("utf-8", "replace")
    paths = [path[1:] for path in given] + (["objects"] if files.objects else [])
    return recording.RecordedPolicies(
        content_hash,
        config[1:],
        tuple(paths),
        texts,
        dict(files.feature_gates),
        0 if files.max_cost_limit == MAX_ANNOTATED_COST else files.max_cost_limit,
    )
