"""Preemption as a pure search: which pods would have to go so that another one fits, and where."""
