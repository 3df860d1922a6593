"""The controllers of a cluster: workloads get their pods, claims their volumes, budgets counts."""
