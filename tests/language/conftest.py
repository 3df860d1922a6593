"""Hypothesis' profiles: few, always the same examples by default; `--hypothesis-profile=deep`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "deep", settings.get_profile("steady"), derandomize=False, max_examples=3000
)
if settings.get_current_profile_name() in {"default", "ci"}:
    settings.load_profile("steady")
