"""The queue of a scheduler: its order, its gates and its hints are those of the profiles' plugins.

Any exception of a plugin becomes a PluginError: a gate that fails keeps the pod
out, a hint that fails lets it in, a sort that fails puts it last. Where an order of queues fails, a
pod belongs to the queue "", a queue goes last, or it is not strict. A plugin that names no events
is woken by every one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, Final, TypeAlias, cast

from msgspec.structs import replace

from policy_sched import model
from policy_sched.errors import PluginError
from policy_sched.framework import EXTENDER, Code, Status
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.queue import (
    Gate,
    HintTable,
    QueueOrder,
    SchedulingQueue,
    SortKey,
    Timing,
    only_nominated,
)
from policy_sched.scheduler.attempt import Profile
from policy_sched.scheduler.canary import Canary, side_hint

LOG: Final = logging.getLogger(__name__)

#: Points at which a plugin can reject a pod (kube-scheduler's, buildQueueingHintMap)
#: or keep it with its group.
REJECTING: Final = (
    *("pre_enqueue", "pre_filter", "filter", "placement_generate"),
    *("reserve", "permit", "pre_bind", "bind"),
)
#: Pseudo plugin that gates the pods whose profile was removed.
NO_PROFILE: Final = "NoProfile"
Events: TypeAlias = tuple[model.ClusterEventWithHint, ...]


def _is_news(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
    """Leave out that the pod itself was nominated, or is no more: its own attempt wrote that."""
    if (
        isinstance(old, model.PodInfo)
        and isinstance(new, model.PodInfo)
        and new.uid == pod.uid
        and only_nominated(old, new)
    ):
        return model.QueueingHint.SKIP
    return model.QueueingHint.QUEUE


_ANYTHING: Final = (
    model.ClusterEventWithHint(
        model.ClusterEvent(model.EventResource.WILDCARD, model.ALL), _is_news
    ),
)


def build_queue(
    profiles: Mapping[str, Profile], now: Callable[[], int], timing: Timing | None = None
) -> SchedulingQueue:
    """Return an empty queue for the pods of these profiles; ``now`` returns nanoseconds."""
    sort_key = queue_sort(profiles)
    gate, hints = queue_gate(profiles), queue_hints(profiles)
    return SchedulingQueue(
        sort_key, now, gate=gate, hints=hints, timing=timing, order=queue_order(profiles)
    )


class _Last(tuple[int | float | str, ...]):
    """The sort key of pods behind all others: plugins' keys are plain tuples."""

    __slots__ = ()

    def __lt__(self, _other: tuple[object, ...]) -> bool:
        return False

    def __gt__(self, other: tuple[object, ...]) -> bool:
        return not isinstance(other, _Last)


_LAST: Final = _Last()


def queue_sort(
    profiles: Mapping[str, Profile], *, strict: bool = False
) -> Callable[[model.QueuedPod], SortKey]:
    """Return the sort key of the profiles' QueueSort plugin, which is one for all of them.

    A pod for which the plugin fails goes behind all others; ``strict``: PluginError is raised.
    """
    runner = next(iter(profiles.values())).runner
    (hook,) = runner.pipeline.at("queue_sort")
    function = cast("Callable[[model.QueuedPod], SortKey]", hook.function)

    def sort_key(queued: model.QueuedPod) -> SortKey:
        try:
            return function(queued)
        except Exception as error:
            failure = runner.failure("queue_sort", hook, error)
            if strict:
                raise failure from error
            LOG.warning("%s (pod %s)", failure, queued.info.key)
            return _LAST

    return sort_key


_IN_PLACE: Final[Mapping[str, Any]] = {
    "queue_of": "",
    "queue_key": _LAST,
    "strict": False,
    "take_stale_pods": (),
    "take_stale_queues": (),
    "forget_pod": None,
    "forget_queue": None,
}
"""What counts where a function of a QueueOrder fails."""


def queue_order(profiles: Mapping[str, Profile], *, strict: bool = False) -> QueueOrder | None:
    """Return the order of several queues that the profiles' QueueSort plugin has, if it has one.

    Raises PluginError if the hook fails; ``strict``: also where a function of the order fails.
    """
    runner = next(iter(profiles.values())).runner
    hooks = runner.pipeline.at("queue_order")
    order = runner.call("queue_order", hooks[0]) if hooks else None
    if order is None:
        return None

    def guarded(function: Callable[..., Any], in_place: object) -> Callable[..., Any]:
        def call(*args: object) -> Any:
            try:
                return function(*args)
            except Exception as error:
                failure = runner.failure("queue_order", hooks[0], error)
                if strict:
                    raise failure from error
                LOG.warning("%s", failure)
                return in_place

        return call

    functions = {name: guarded(getattr(order, name), value) for name, value in _IN_PLACE.items()}
    return cast("QueueOrder", SimpleNamespace(**functions))


def first_objection(runner: Runner, pod: model.PodInfo, first: str = "") -> Status:
    """Run PreEnqueue plugins until one rejects, beginning with ``first``; Success if none does."""
    hooks = None
    if first:
        hooks = tuple(sorted(runner.pipeline.at("pre_enqueue"), key=lambda h: h.plugin != first))
    return runner.run("pre_enqueue", pod, hooks=hooks).status


ProfileOf: TypeAlias = Callable[[model.PodInfo], Profile | None]
"""Returns the profile that decides a pod; None if there is none of that name any more."""


def objection(profile_of: ProfileOf, pod: model.PodInfo, first: str = "") -> Status:
    """Run the PreEnqueue plugins of a pod's profile; without a profile the pod has to wait."""
    profile = profile_of(pod)
    if profile is None:
        return Status(Code.UNSCHEDULABLE, (no_profile(pod),), NO_PROFILE)
    return first_objection(profile.runner, pod, first)


def worth_judging(
    uids: Iterable[str], queue: SchedulingQueue, profile_of: ProfileOf
) -> Iterator[str]:
    """Yield the pods of a group that another pod of it may help.

    A plugin that gates pods for what their group lacks is asked for one of them: a gang of many
    pods would ask for all of them whenever one comes.
    """
    still: dict[tuple[str, str], bool] = {}
    for uid in uids:
        queued = queue.get(uid)
        if queued is None:
            continue
        name, plugin = queued.info.scheduler_name, queued.gated_by
        profile = profile_of(queued.info) if plugin else None
        if profile is not None:
            stays = still.get((name, plugin))
            if stays is None:
                runner = profile.runner
                signature = runner.pipeline.signatures.get(plugin)
                stays = still[name, plugin] = (
                    signature is not None
                    and signature.gate.by_group
                    and first_objection(runner, queued.info, plugin).plugin == plugin
                )
            if stays:
                continue
        yield uid


def no_profile(pod: model.PodInfo) -> str:
    """Return why a pod waits whose profile is gone."""
    return f'no profile has schedulerName "{pod.scheduler_name}" any more'


def queue_gate(profiles: Mapping[str, Profile], canary: Canary | None = None) -> Gate:
    """Return what runs the PreEnqueue plugins of a pod's profile."""

    def gate(pod: model.PodInfo, first: str) -> str:
        profile = profiles.get(pod.scheduler_name)
        if canary is not None:
            profile = canary.profile_of(pod) or profile
        if profile is None:
            return NO_PROFILE
        runner = profile.runner
        return first_objection(runner, pod, first).plugin if runner.may_gate(pod) else ""

    return gate


def queue_hints(
    profiles: Mapping[str, Profile],
    earlier: dict[Hook, Events] | None = None,
    canary: Canary | None = None,
) -> HintTable:
    """Return the events that the profiles' plugins registered for, with their hints.

    ``earlier``: the plugins whose events are known already; new ones are added, and those that are
    in no profile any more are dropped. With a ``canary`` the hints are those of a pod's side.
    """
    current: dict[Hook, Events] = {}
    earlier = {} if earlier is None else earlier
    registered = {n: _registered(profile, earlier, current) for n, profile in profiles.items()}
    if canary is not None:
        for name, profile in canary.profiles.items():
            candidate = _registered(profile, {**earlier, **current}, current)
            registered[name] = _of_both(registered[name], candidate, canary.chosen)
    table = HintTable(registered)
    earlier.clear()
    earlier.update(current)
    return table


Registered: TypeAlias = dict[str, Iterable[model.ClusterEventWithHint]]


def _of_both(
    stable: Registered, candidate: Registered, chosen: Callable[[model.PodInfo], bool]
) -> Registered:
    """Return what the plugins of both sides of a profile registered for.

    Where one name stands for different plugins, each of them has a say about the pods of its side.
    """
    both = {**stable, **candidate}
    for plugin in stable.keys() & candidate.keys():
        if stable[plugin] is not candidate[plugin]:
            both[plugin] = (
                *(side_hint(hint, lambda pod: not chosen(pod)) for hint in stable[plugin]),
                *(side_hint(hint, chosen) for hint in candidate[plugin]),
            )
    return both


def _registered(
    profile: Profile, earlier: Mapping[Hook, Events], current: dict[Hook, Events]
) -> Registered:
    runner = profile.runner
    pipeline = runner.pipeline
    registered: Registered = {
        hook.plugin: _ANYTHING for point in REJECTING for hook in pipeline.at(point)
    }
    if profile.evaluator.extended:
        registered[EXTENDER] = _ANYTHING
    for hook in pipeline.at("events_to_register"):
        events = earlier.get(hook)
        if events is None:
            hints = cast("Events", runner.call("events_to_register", hook))
            events = tuple(
                replace(hint, hint=_guarded(runner, hook.plugin, hint.hint)) for hint in hints
            )
        registered[hook.plugin] = current[hook] = events
    return registered


def _guarded(runner: Runner, plugin: str, hint: model.Hint | None) -> model.Hint | None:
    """Return the hint as the queue may call it."""
    if hint is None:
        return None
    hook = Hook(plugin, hint)

    def evaluate(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
        hint = runner.call("events_to_register", hook, pod, old, new)
        if not isinstance(hint, model.QueueingHint):
            raise PluginError(f'the hint of plugin "{plugin}" returned {hint!r}')
        return hint

    return evaluate
