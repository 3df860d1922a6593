"""Effective requests are kube-scheduler's: by hand-made cases, and on all of its decisions."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from policy_sched.model.pod import Pod
from policy_sched.model.quantity import units
from policy_sched.model.requests import (
    DEFAULT_MEMORY,
    container_units,
    is_counted,
    is_scalar_resource,
    limits,
    non_zero_requests,
    requests,
    totals,
)

CONFORMANCE = Path(__file__).parents[1] / "conformance" / "resources.jsonl.gz"

DEFAULTS = {"cpu": 100, "memory": DEFAULT_MEMORY}


def container(name: str = "c", restart: str = "", **amounts: Any) -> dict[str, Any]:
    """Return a container with requests."""
    found = {"name": name, "resources": {"requests": amounts}}
    return found | ({"restartPolicy": restart} if restart else {})


def pod(*main: dict[str, Any], status: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """Return a pod of main containers and other fields of its spec."""
    body = {"containers": list(main), **spec}
    data = {"metadata": {"name": "p"}, "spec": body, "status": status or {}}
    return msgspec.convert(data, Pod)


class TestSums:
    """Containers, init containers and sidecars."""

    @pytest.mark.parametrize(
        ("main", "init", "expected"),
        [
            ([], [], {}),
            ([container(cpu="1")], [], {"cpu": 1000}),
            (
                [container(cpu="1"), container(cpu="250m", memory="1")],
                [],
                {"cpu": 1250, "memory": 1},
            ),
            ([container(cpu="0.5m"), container(cpu="0.5m")], [], {"cpu": 1}),
            ([container(memory="1500m")] * 2, [], {"memory": 3}),
            ([container(cpu="1")], [container(cpu="3"), container(cpu="2")], {"cpu": 3000}),
            ([container(cpu="4")], [container(cpu="3", memory="1")], {"cpu": 4000, "memory": 1}),
            ([container(cpu="1")], [container(restart="Always", cpu="2")], {"cpu": 3000}),
            (
                [container(cpu="1")],
                [container(restart="Always", cpu="2"), container(cpu="3")],
                {"cpu": 5000},
            ),
            (
                [container(cpu="1")],
                [container(cpu="3"), container(restart="Always", cpu="2")],
                {"cpu": 3000},
            ),
            (
                [container(cpu="1")],
                [
                    container(restart="Always", cpu="1"),
                    container(cpu="5"),
                    container(restart="Always", cpu="2"),
                    container(cpu="4"),
                ],
                {"cpu": 7000},
            ),
            ([container(cpu="0", **{"x.io/a": 2})], [], {"cpu": 0, "x.io/a": 2}),
        ],
    )
    def test_requests_of_containers_sidecars_and_init_containers_add_up(
        self, main: list[dict[str, Any]], init: list[dict[str, Any]], expected: dict[str, int]
    ) -> None:
        """Main containers and sidecars add up; an init container counts with earlier sidecars."""
        assert requests(pod(*main, initContainers=init)) == expected

    def test_overhead_is_added_to_everything(self) -> None:
        """Overhead comes on top of everything, also of resources of the pod as a whole."""
        found = pod(container(cpu="1"), overhead={"cpu": "100m", "memory": "1Mi"})
        assert requests(found) == {"cpu": 1100, "memory": 1 << 20}
        whole = pod(container(cpu="1"), overhead={"cpu": "1"}, resources={"requests": {"cpu": "5"}})
        assert requests(whole) == {"cpu": 6000}

    def test_pod_level(self) -> None:
        """Resources of the pod as a whole replace the sum, for cpu, memory and huge pages only."""
        requested = {"cpu": "500m", "hugepages-2Mi": "4Mi", "x.io/a": 9, "ephemeral-storage": 9}
        found = pod(
            container(cpu="2", memory="1Ki", **{"x.io/a": 1}), resources={"requests": requested}
        )
        assert requests(found) == {
            "cpu": 500,
            "memory": 1024,
            "x.io/a": 1,
            "hugepages-2Mi": 4 << 20,
        }

    @pytest.mark.parametrize(
        ("name", "counted"),
        [
            ("cpu", True),
            ("memory", True),
            ("ephemeral-storage", True),
            ("nvidia.com/gpu", True),
            ("hugepages-1Gi", True),
            ("attachable-volumes-aws-ebs", True),
            ("kubernetes.io/batch-cpu", True),
            ("pods", False),
            ("storage", False),
            ("requests.nvidia.com/gpu", False),
            ("bad name/x", False),
        ],
    )
    def test_only_resources_that_kube_scheduler_counts_are_in_totals(
        self, name: str, counted: bool
    ) -> None:
        """Only resources that kube-scheduler counts are in the totals."""
        assert is_counted(name) is counted
        assert is_scalar_resource(name) is (
            counted and name not in ("cpu", "memory", "ephemeral-storage")
        )
        assert (name in requests(pod(container(**{name: 1})))) is counted
        assert (name in requests(pod(container(**{name: 1}), container()))) is counted

    @given(
        st.lists(
            st.fixed_dictionaries(
                {}, optional={"cpu": st.integers(0, 5), "memory": st.integers(0, 5)}
            ),
            max_size=4,
        ),
        st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=5),
    )
    def test_sums_by_definition(
        self, main: list[dict[str, int]], init: list[tuple[bool, int]]
    ) -> None:
        """The total is the largest amount that runs at any moment of the pod's life."""
        moments, sidecars = [], 0
        for sidecar, cpu in init:
            moments.append(sidecars + cpu)
            sidecars += cpu if sidecar else 0
        moments.append(sidecars + sum(c.get("cpu", 0) for c in main))
        found = pod(
            *(container(**amounts) for amounts in main),
            initContainers=[container(restart="Always" if s else "", cpu=cpu) for s, cpu in init],
        )
        assert requests(found).get("cpu", 0) == 1000 * max(moments)


class TestNonZero:
    """For scoring, containers without requests have defaults."""

    def test_the_default_request_counts_for_each_container_that_has_none(self) -> None:
        """Each container counts the default of a missing request, not of one that is zero."""
        assert non_zero_requests(pod(container())) == DEFAULTS
        assert non_zero_requests(pod(container(cpu=0, memory=0))) == {"cpu": 0, "memory": 0}
        assert non_zero_requests(pod(container(), container(cpu="1"))) == {
            "cpu": 1100,
            "memory": 2 * DEFAULT_MEMORY,
        }
        assert non_zero_requests(pod(container(**{"x.io/a": 1}))) == {**DEFAULTS, "x.io/a": 1}

    def test_sidecars_and_overhead(self) -> None:
        """Sidecars count for defaults too, and overhead is added."""
        found = pod(container(), initContainers=[container(restart="Always")], overhead={"cpu": 1})
        assert non_zero_requests(found) == {"cpu": 1200, "memory": 2 * DEFAULT_MEMORY}

    def test_pod_level(self) -> None:
        """A pending pod counts without its resources as a whole, on a node it counts with them."""
        found = totals(pod(container(), resources={"requests": {"cpu": "2"}}))
        assert found.non_zero == DEFAULTS
        assert found.non_zero_added == {"cpu": 2000, "memory": DEFAULT_MEMORY}

    def test_pod_level_and_a_named_resource(self) -> None:
        """On a node, a resource that any container of such a pod requests has no default."""
        found = totals(
            pod(container(memory="1Ki"), container(), resources={"requests": {"cpu": "2"}})
        )
        assert found.non_zero_added == {"cpu": 2000, "memory": 1024}
        assert found.non_zero == {"cpu": 200, "memory": 1024 + DEFAULT_MEMORY}

    def test_equal_pods_share(self) -> None:
        """Simple pods with equal requests share one result."""
        assert totals(pod(container(cpu="1"))) is totals(pod(container(cpu="1")))
        two = [pod(container(cpu="1"), container(memory="1Ki")) for _ in range(2)]
        assert totals(two[0]) is totals(two[1])


class TestResize:
    """A pod that is resized in place uses the larger of requested and allocated amounts."""

    @staticmethod
    def status(cpu: str, *conditions: dict[str, str]) -> dict[str, Any]:
        """Return a status in which container c was given cpu."""
        given = {
            "name": "c",
            "allocatedResources": {"cpu": cpu},
            "resources": {"requests": {"cpu": "1"}},
        }
        return {"containerStatuses": [given], "conditions": list(conditions)}

    def test_growing_and_shrinking(self) -> None:
        """The allocated amount counts while it is larger, else the requested one."""
        assert requests(pod(container(cpu="2"), status=self.status("3"))) == {"cpu": 3000}
        assert requests(pod(container(cpu="4"), status=self.status("3"))) == {"cpu": 4000}

    def test_a_pod_that_has_what_it_requests_counts_like_one_that_waits(self) -> None:
        """And shares the result; one container of two that has more counts with that."""
        waits, runs = pod(container(cpu="1")), pod(container(cpu="1"), status=self.status("1"))
        assert totals(runs) is totals(waits)
        both = container(cpu="1"), container("d", cpu="1")
        statuses = self.status("1")["containerStatuses"]
        more = {**self.status("3")["containerStatuses"][0], "name": "d"}
        assert requests(pod(*both, status={"containerStatuses": [*statuses, more]})) == {
            "cpu": 4000
        }

    def test_a_resize_that_the_node_refuses_does_not_count(self) -> None:
        """A resize that the node refuses does not count."""
        refused = {"type": "PodResizePending", "reason": "Infeasible"}
        assert requests(pod(container(cpu="4"), status=self.status("3", refused))) == {"cpu": 3000}
        deferred = {"type": "PodResizePending", "reason": "Deferred"}
        assert requests(pod(container(cpu="4"), status=self.status("3", deferred))) == {"cpu": 4000}

    def test_sidecars_have_statuses_and_init_containers_do_not(self) -> None:
        """Only containers that keep running are resized."""
        status = {"initContainerStatuses": self.status("3")["containerStatuses"]}
        sidecar = pod(initContainers=[container(restart="Always", cpu="1")], status=status)
        assert requests(sidecar) == {"cpu": 3000}
        assert requests(pod(initContainers=[container(cpu="1")], status=status)) == {"cpu": 1000}

    def test_a_pod_resized_as_a_whole_keeps_its_overhead(self) -> None:
        """A pod that was resized as a whole lost its overhead; an allocation alone counted."""

        def of(**status: Any) -> dict[str, int]:
            whole = {"requests": {"cpu": "2"}}
            return requests(pod(container(), resources=whole, overhead={"cpu": "1"}, status=status))

        allocated, running = {"cpu": "4", "memory": "1Gi"}, {"requests": {"cpu": "3"}}
        assert of(allocatedResources=allocated, resources=running) == {"cpu": 5000}
        assert of(resources=running) == {"cpu": 4000}
        assert of(allocatedResources=allocated) == {"cpu": 3000}
        refused = [{"type": "PodResizePending", "reason": "Infeasible"}]
        assert of(resources={"requests": {"cpu": "1"}}, conditions=refused) == {"cpu": 2000}


class TestLimits:
    """Effective limits."""

    def test_sum_and_pod_level(self) -> None:
        """Limits add up like requests; those of the whole pod replace cpu and memory."""
        limited = {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Ki"}}}
        assert limits(pod(limited, limited)) == {"cpu": 2000, "memory": 2048}
        assert limits(pod(limited, resources={"limits": {"cpu": "5"}})) == {
            "cpu": 5000,
            "memory": 1024,
        }

    def test_overhead_counts_where_there_is_a_limit(self) -> None:
        """Overhead is added to limits that are there and not zero."""
        limited = {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "0"}}}
        found = pod(limited, overhead={"cpu": "1", "memory": "1Ki", "x.io/a": "1"})
        assert limits(found) == {"cpu": 2000, "memory": 0}

    def test_the_larger_of_requested_and_actual_limit_counts(self) -> None:
        """The larger of the requested and the actual limit counts."""
        limited = {"name": "c", "resources": {"limits": {"cpu": "1"}}}
        status = {"containerStatuses": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}
        assert limits(pod(limited, status=status)) == {"cpu": 2000}


def test_amounts_of_a_container_are_in_scheduler_units() -> None:
    """One container's amounts are in scheduler units, whatever the resource."""
    assert container_units({"cpu": "1", "pods": "2"}) == {"cpu": 1000, "pods": 2}


def scenarios() -> list[Any]:
    """Return kube-scheduler's decisions on resources."""
    with gzip.open(CONFORMANCE, "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [pytest.param(scenario, id=scenario["name"]) for scenario in found]


def ignored_resources(scenario: dict[str, Any]) -> Callable[[str], bool]:
    """Return the filter of extended resources that the configuration allows."""
    names: set[str] = set()
    groups: set[str] = set()
    for profile in (scenario.get("config") or {}).get("profiles", ()):
        for config in profile.get("pluginConfig", ()):
            names |= set(config["args"].get("ignoredResources") or ())
            groups |= set(config["args"].get("ignoredResourceGroups") or ())
    return lambda name: name in names or ("/" in name and name.partition("/")[0] in groups)


def reasons(
    node: dict[str, Any], used: dict[str, int], count: int, requested: dict[str, int]
) -> list[str]:
    """Return the reasons of NodeResourcesFit for a node."""
    allocatable = node["status"]["allocatable"]
    free = {name: units(name, amount) - used.get(name, 0) for name, amount in allocatable.items()}
    found = ["Too many pods"] if count + 1 > units("pods", allocatable.get("pods", 0)) else []
    order = ["cpu", "memory", "ephemeral-storage"]
    order += sorted(set(requested) - {*order})
    return found + [
        f"Insufficient {name}"
        for name in order
        if requested.get(name, 0) > max(0, free.get(name, 0))
    ]


@pytest.mark.parametrize("scenario", scenarios())
def test_rejections_of_kube_scheduler(scenario: dict[str, Any]) -> None:
    """NodeResourcesFit rejects exactly the pods that kube-scheduler rejects, for its reasons."""
    nodes = {o["metadata"]["name"]: o for o in scenario["objects"] if o["kind"] == "Node"}
    used: dict[str, dict[str, int]] = {name: defaultdict(int) for name in nodes}
    counts = dict.fromkeys(nodes, 0)

    def add(name: str, amounts: dict[str, int]) -> None:
        counts[name] += 1
        for resource, amount in amounts.items():
            used[name][resource] += amount

    for data in scenario["objects"]:
        if data["kind"] == "Pod":
            add(data["spec"]["nodeName"], requests(msgspec.convert(data, Pod)))
    ignored = ignored_resources(scenario)
    pending = {
        f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in scenario["pending"]
    }
    for step in scenario["expect"]:
        requested = requests(msgspec.convert(pending[step["pod"]], Pod))
        checked = {name: a for name, a in requested.items() if not ignored(name)}
        expected = {
            name: sorted(status["reasons"])
            for name, status in step.get("rejected", {}).items()
            if status["plugin"] == "NodeResourcesFit"
        }
        found = {
            name: sorted(reasons(node, used[name], counts[name], checked))
            for name, node in nodes.items()
        }
        assert {name: r for name, r in found.items() if r} == expected
        if "chosen" in step:
            add(step["chosen"], requested)
