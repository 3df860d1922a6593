"""Whatever pods name in the life of a cluster, the tables keep no more than what is read."""

from __future__ import annotations

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.column import Eviction
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

MOST = 50


def cache() -> Cache:
    """Return a cache that gives up idle columns from 50 on, with one node."""
    made = Cache()
    made.nodes.eviction, made.pods.eviction = Eviction(MOST), Eviction(MOST)
    made.add_node(make_node("n"))
    return made


def test_columns_come_and_go() -> None:
    """Thousands of label keys, resources and images leave a few columns behind."""
    made = cache()
    kept = made.nodes.column(("label", "pool"))
    for number in range(2000):
        made.add_node(make_node("n", labels={f"only-{number}": "x"}))
        made.nodes.lookup(("label", f"only-{number}"))
        made.nodes.lookup(("free", f"example.com/{number}"))
        made.nodes.lookup(("imageSize", f"registry/{number}"))
        made.pods.lookup(("label", f"job-{number}"))
        made.nodes.image_nodes(f"registry/{number}")
        made.nodes.lookup(("requested", "cpu"))
        made.add_node(make_node("n", labels={"beat": str(number), "pool": str(number)}))
    nodes = made.nodes
    assert len(nodes.materialised) < 4 * MOST
    assert len(made.pods.materialised) < 4 * MOST
    assert len(nodes.images.watched) < 4 * MOST
    assert len(nodes.usage.amounts) < 4 * MOST
    assert nodes.column(("label", "pool")) is kept
    assert nodes.strings.text(kept.view[0]) == "1999"
    assert ("requested", "cpu") in nodes.materialised
    assert made.check() == []


def test_a_column_that_is_made_again_is_another_one() -> None:
    """A version of the old column never equals one of the new column."""
    made = cache()
    made.add_node(make_node("n", labels={"zone": "a"}))
    before = made.nodes.lookup(("label", "zone")).version
    for number in range(3):
        others = range(MOST * 4**number)
        made.add_node(make_node("n", labels={f"{number}-{other}": "x" for other in others}))
        for other in others:
            made.nodes.lookup(("label", f"{number}-{other}"))
        made.add_node(make_node("n", labels={"beat": str(number)}))
    assert ("label", "zone") not in made.nodes.materialised
    assert made.nodes.lookup(("label", "zone")).version > before


def test_one_amount_of_a_resource_keeps_the_others() -> None:
    """A rule that reads what is free goes on seeing what pods take."""
    made = cache()
    free = made.nodes.column(("free", "cpu"))
    for number in range(4 * MOST):
        made.add_node(make_node("n", labels={f"only-{number}": "x"}))
        made.nodes.lookup(("label", f"only-{number}"))
    made.add_pod(PodInfo.of(make_pod("p", cpu="1", node_name="n")))
    assert free.view[0] == 3000
    assert made.nodes.lookup(("requested", "cpu")).view[0] == 1000
    assert made.check() == []


def test_a_column_that_is_held_stays() -> None:
    """A rule or a plugin that opened a column goes on reading what nodes and pods say."""
    made = cache()
    zone, jobs = made.nodes.column(("label", "zone")), made.pods.column(("label", "job"))
    image = made.nodes.column(("imagePresent", "registry/one:latest"))
    for number in range(8 * MOST):
        made.nodes.lookup(("label", f"only-{number}"))
        made.pods.lookup(("label", f"job-{number}"))
        made.add_node(make_node("n", labels={"zone": str(number)}))
    made.add_pod(PodInfo.of(make_pod("p", labels={"job": "x"}, node_name="n")))
    assert made.nodes.lookup(("label", "zone")) is zone
    assert made.nodes.lookup(("imagePresent", "registry/one:latest")) is image
    assert made.nodes.strings.text(zone.view[0]) == str(8 * MOST - 1)
    assert made.pods.strings.text(jobs.view[0]) == "x"
    assert len(made.nodes.materialised) < 4 * MOST


def test_unused_sets_of_ports_are_reused() -> None:
    """Game servers take other ports of a node all the time: the sets are those of now."""
    made = cache()
    made.nodes.port_sets.many = made.nodes.port_sets._due = MOST
    for number in range(1000):
        ports = (7000 + number % 40, 7100 + number % 37)
        info = PodInfo.of(make_pod(f"p{number}", uid="u", host_ports=ports, node_name="n"))
        made.add_pod(info)
        made.add_node(make_node("n", labels={"beat": str(number)}))
        column = made.nodes.column(("usedPorts",))
        held = {port.port for port in made.nodes.port_sets.members(column.view[0])}
        assert held == set(ports)
        made.remove_pod(info)
    assert len(made.nodes.port_sets.sets) < 4 * MOST
    assert made.check() == []


def test_what_only_a_pod_names_takes_no_column() -> None:
    """A pod of 10,000 resources, topology keys or selectors stopped all decisions for 80 s.

    What no node and no pod on one has is a column of zeros for all, until it is there.
    """
    made = cache()
    before = len(made.nodes.materialised), len(made.pods.materialised)
    gpu, rack, job = ("free", "example.com/gpu"), ("label", "rack"), ("label", "job")
    for number in range(1000):
        for family in ("free", "requested", "nonZeroRequested", "allocatable", "allocatable?"):
            assert not made.nodes.lookup((family, f"example.com/{number}")).values.any()
        assert not made.nodes.lookup(("label", f"only-{number}")).values.any()
        assert not made.pods.lookup(("label", f"only-{number}")).values.any()
    assert (len(made.nodes.materialised), len(made.pods.materialised)) == before
    empty = [made.nodes.lookup(key).version for key in (gpu, rack)]
    no_job = made.pods.lookup(job).version
    made.add_pod(PodInfo.of(make_pod("p", requests={"example.com/gpu": "1"}, node_name="n")))
    assert made.nodes.lookup(gpu).view[0] == -1
    made.add_node(make_node("n", labels={"rack": "r1"}, resources={"example.com/gpu": "4"}))
    made.add_pod(PodInfo.of(make_pod("q", labels={"job": "j"}, node_name="n")))
    assert made.nodes.lookup(gpu).view[0] == 3
    assert made.nodes.strings.text(made.nodes.lookup(rack).view[0]) == "r1"
    assert [made.nodes.lookup(key).version for key in (gpu, rack)] != empty
    assert made.pods.lookup(job).version != no_job
    assert made.check() == []
