"""Namespaces: their labels decide which pods a term of pod affinity means."""

from __future__ import annotations

from policy_sched.model.meta import ApiObject


class Namespace(ApiObject):
    """A namespace; only its metadata is read."""
