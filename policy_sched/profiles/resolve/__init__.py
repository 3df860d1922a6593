"""Configuration and policies become one plan per profile.

MultiPoint expansion, weights, params and extenders, as kube-scheduler resolves them.
"""

from policy_sched.profiles.resolve.plan import (
    ProfilePlan as ProfilePlan,
    certificate_problems as certificate_problems,
    lease_of as lease_of,
    named_policies as named_policies,
    place_of as place_of,
    resolve as resolve,
    shipped_policies as shipped_policies,
)
