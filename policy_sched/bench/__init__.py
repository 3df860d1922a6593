"""Benchmarks: `policy-sched bench`.

Workloads modelled on scheduler_perf, run in process or against an API server in another process.
Benchmarks print figures; they assert nothing about time.
"""
