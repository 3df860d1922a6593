"""How many examples a property takes: in proportion to those of the profile."""

from __future__ import annotations

from hypothesis import settings

WHOLE = 100
"""Examples of a property without settings in Hypothesis' own profile, and in ``others``."""
LEAST = 10
"""A property takes so many, or all that it names, however few the profile takes."""


def scaled(count: int) -> int:
    """Return how many examples a property takes that takes ``count`` in the profile ``others``."""
    return max(min(count, LEAST), count * settings().max_examples // WHOLE)
