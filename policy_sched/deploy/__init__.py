"""What a cluster needs so that policy_sched runs on it: manifests, and a recipe for the image."""
