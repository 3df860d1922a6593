"""Deciding without a cluster: manifests in, placements out; scenarios and benchmarks."""
