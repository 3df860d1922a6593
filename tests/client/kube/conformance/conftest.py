"""The suite of our client against an API server: how to run it, what it needs, what it makes.

Without anything it runs against the embedded API server, in three moods (``servers``). With

    POLICY_SCHED_KUBECONFIG=FILE python -m pytest tests/client/kube/conformance

it runs against the server of that kubeconfig's current context too (with ``-k named`` against that
one alone): a kube-apiserver with nothing else, as envtest starts one, or a whole cluster. What does
not hold on one kind of them is not promised.

It needs the rights of ``role.yaml``, a ClusterRole, or those of a cluster's administrator; against
the embedded server it has those of the role and no others.

The scheduler itself is run there as well, as a process that has a lease of its own and decides the
pods of a name of its own, which ask for a node that is nowhere.

Each test makes a namespace ``policy-sched-`` with eight hexadecimal digits, and in it pods (of a
scheduler that is absent), events, leases, claims, and a few other objects, not run. Outside of it
it makes volumes, storage classes, a CSI driver, a CSI node, a volume attachment, a device class and
a resource slice, named after the namespace. No node is made, and nothing else is touched; what a
scheduler reads is read in the whole cluster. Everything is deleted in the end, after a failure too;
what remains, for an hour, is what a cluster's controllers say of our volumes, in ``default``. A
namespace goes when the cluster's controller has emptied it, and the run waits for that; on a server
without controllers the suite ends it itself. What a run that was killed has left behind is found by
its label:

    kubectl delete ns,pv,sc,csidrivers,csinodes,volumeattachments,deviceclasses,resourceslices \\
        --selector app.kubernetes.io/part-of=policy-sched-conformance

A test is skipped, with the reason, where a server does not serve a kind (pod groups, by default),
or has not forgotten any version yet (one that has just begun).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest

from tests.client.kube.conformance import leaving
from tests.client.kube.conformance.servers import NAMED, SERVERS, VARIABLE

_NOT_NAMED = pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} is not set")


def _all(*names: str) -> list[object]:
    return [pytest.param(name, marks=_NOT_NAMED if name == NAMED else ()) for name in names]


@pytest.fixture(params=_all(*SERVERS))
def server(request: pytest.FixtureRequest) -> str:
    """Which server."""
    return str(request.param)


@pytest.fixture(params=_all("embedded", NAMED))
def one_server(request: pytest.FixtureRequest) -> str:
    """Which server, for what takes seconds: the embedded one in one mood only."""
    return str(request.param)


@pytest.fixture(scope="session", autouse=True)
def _namespaces_go() -> Iterator[None]:
    """Wait in the end until the named server has no namespace of ours."""
    yield
    asyncio.run(leaving.see_off())
