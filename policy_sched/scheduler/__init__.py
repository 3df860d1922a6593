"""The story of a pod, from the queue to its binding."""
