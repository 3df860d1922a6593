"""Requests and limits of pods, in base units."""

from __future__ import annotations

import asyncio

import pytest

from policy_sched.instance.observability.resource_metrics import resource_pieces, unit
from policy_sched.model.pod import Pod
from policy_sched.testing import make_pod


@pytest.mark.parametrize(
    ("resource", "of"),
    [
        ("cpu", "cores"),
        ("memory", "bytes"),
        ("ephemeral-storage", "bytes"),
        ("hugepages-2Mi", "bytes"),
        ("attachable-volumes-csi-x", "integer"),
        ("nvidia.com/gpu", ""),
    ],
)
def test_resources_have_upstreams_units(resource: str, of: str) -> None:
    """An extended resource has none."""
    assert unit(resource) == of


def text(*pods: Pod, each: int = 250) -> str:
    """Return the page for some pods."""

    async def all_of_it() -> str:
        return "".join([piece async for piece in resource_pieces(pods, each)])

    return asyncio.run(all_of_it())


def test_a_pod_has_a_line_for_each_resource() -> None:
    """Cores with a fraction, no line without a request; limits are separate."""
    pod = make_pod("p", cpu="250m", memory="1Gi", limits={"cpu": "2"}, node_name="n", priority=7)
    lines = [line for line in text(pod).splitlines() if not line.startswith("#")]
    before = 'namespace="default",node="n",pod="p",priority="7"'
    after, cores, size = 'scheduler="default-scheduler"', 'unit="cores"', 'unit="bytes"'
    assert lines == [
        f'kube_pod_resource_limit{{{before},resource="cpu",{after},{cores}}} 2.0',
        f'kube_pod_resource_request{{{before},resource="cpu",{after},{cores}}} 0.25',
        f'kube_pod_resource_request{{{before},resource="memory",{after},{size}}} 1.073741824e+09',
    ]


def test_pods_that_have_ended_are_left_out() -> None:
    """They hold no resources; a pending one counts, whatever its phase."""
    ended = make_pod("done", cpu="1", node_name="n", phase="Succeeded")
    waiting = make_pod("waits", cpu="1")
    shown = text(ended, waiting)
    assert 'pod="done"' not in shown
    assert 'node="",pod="waits"' in shown
    assert 'priority=""' in shown


def test_many_pods_come_in_pieces() -> None:
    """With one head for all of them."""
    pods = [make_pod(f"p{number}", cpu="1") for number in range(5)]
    assert text(*pods, each=2) == text(*pods)
    assert text(*pods, each=2).count("# HELP") == 1
