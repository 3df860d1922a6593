"""Everything that the cache's tables hold, to compare before and after."""

from __future__ import annotations

from policy_sched.cluster.cache import Cache


def picture(cache: Cache) -> dict[str, object]:
    """Return the bytes of every column, the pods in their order, and every count."""
    nodes, pods = cache.nodes, cache.pods
    found: dict[str, object] = {
        f"node {key}": column.values[: nodes.n].tobytes()
        for key, column in nodes.materialised.items()
    }
    found |= {
        f"pod {key}": column.values[: len(cache)].tobytes()
        for key, column in pods.materialised.items()
    }
    found["pods"] = [list(nodes.pods_on(row).items()) for row in range(nodes.n)]
    found["ports"] = [nodes.usage.port_counts(row) for row in range(nodes.n)]
    found["totals"] = (nodes.pod_total, nodes.total_requested("cpu"))
    found["journal"] = nodes.journal.version
    found["selected"] = {match: dict(counts.by_row) for match, counts in cache.counts.selected}
    found["check"] = cache.check()
    return found
