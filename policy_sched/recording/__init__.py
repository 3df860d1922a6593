"""Recordings: what came, changed, went and was decided in a cluster, in a directory of segments.

A recording begins with a snapshot: the objects in their reduced form, which snapshots in one file
have, too. Changes follow in the order of arrival, each with its time and only with the fields that
differ, and the decisions that were seen. A segment ends after an hour or 64 MiB; once a day one
begins with a snapshot again, so that older ones may be deleted.

Writing, without threads or clocks; each call has its time in ns since 1970::

    recorder = Recorder("traffic")
    recorder.policies(now, RecordedPolicies(content_hash, ...))
    recorder.begin(now, objects)              # the snapshot
    recorder.put(now, pod)                    # came or changed: what does not differ is no line
    recorder.decided(Decided(time=now, pod="default/web-1", node="n1"))
    recorder.remove(now, pod)
    recorder.flush(now)                       # every five seconds
    recorder.close(now)

Reading::

    recording = Recording.open("traffic")     # PolicyError with file and line for other bytes
    recording.began, recording.ended          # ns since 1970
    recording.policies["5c9f..."].files       # texts of configuration and policies, by name
    for event in recording.events(start, end):
        ...                                   # Added, Modified, Deleted, Decided, PolicyChanged
    recording.notes                           # what is missing, in sentences

Events begin with `PolicyChanged`, where policies are known, and an `Added` for each object that was
there at ``start``. Objects are those of `model`; of pods that wait, the condition's message is in
`Decided` alone. A binding of another scheduler is a `Modified` and a `Decided` of one time, one of
our own is a `Decided` first. A pod that ended is `Deleted` with its last phase, as far as the
recorder saw it.
"""

from policy_sched.recording.events import (
    FAILED as FAILED,
    REJECTED as REJECTED,
    Added as Added,
    Decided as Decided,
    Deleted as Deleted,
    Event as Event,
    Modified as Modified,
    PolicyChanged as PolicyChanged,
    RecordedPolicies as RecordedPolicies,
)
from policy_sched.recording.pseudonyms import (
    Pseudonyms as Pseudonyms,
    Renaming as Renaming,
    renamed as renamed,
)
from policy_sched.recording.reading import Recording as Recording
from policy_sched.recording.recorder import EVERY as EVERY, Kept as Kept, Recorder as Recorder
from policy_sched.recording.reduction import TAKEN as TAKEN, reduced as reduced
