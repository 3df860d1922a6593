"""One running process: a scheduler, its inputs and its endpoints.

app/ drives the scheduler in an event loop, http/ serves endpoints, observability/ has metrics,
logs and health, shadow/ compares decisions with another scheduler's.
"""
