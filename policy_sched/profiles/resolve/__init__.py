"""Configuration and policies become one plan per profile.

MultiPoint expansion, weights, params and extenders, as kube-scheduler resolves them.
"""

from policy_sched.profiles.resolve.plan import (
    ProfilePlan,
    certificate_problems,
    lease_of,
    place_of,
    resolve,
)

__all__ = [
    "ProfilePlan",
    "certificate_problems",
    "lease_of",
    "place_of",
    "resolve",
]
