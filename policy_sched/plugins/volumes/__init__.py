"""Volumes: which nodes reach a pod's volumes, which can take them, and how claims are bound."""
