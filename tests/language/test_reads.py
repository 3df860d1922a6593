"""Promises about read-sets: what a policy does not name as read never changes its result."""

from __future__ import annotations
