"""Arguments become paths, clusters and durations.

What several verbs read the same way: lists of files, snapshots and manifests of a cluster,
durations. Options with a meaning of their own are in options/.
"""
