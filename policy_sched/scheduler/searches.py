"""Searches: finishes decisions for which PostFilter is asked, in pieces where that may take long.

Theory of operation. To do something in pieces means to do it on a strand (`framework/strand.py`),
and costs some ten microseconds each time. Most searches are short, as those for pods of one kind
share what is known of the nodes. So one is done at once if the last one of its kind did not take
longer than a slice; the first of a kind, and those that go node by node, are done in pieces.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from policy_sched.framework.runtime import Pieces
from policy_sched.queue import Agenda, Finding, never
from policy_sched.scheduler.attempt import Decision, PendingDecision

#: Kinds of pods that are remembered.
KINDS: Final = 1000


class Searches:
    """Finishes decisions as work on an agenda."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._pieces = Pieces(lambda: agenda.over())  # noqa: PLW0108 - it is set anew
        self._short: OrderedDict[Hashable, None] = OrderedDict()

    def finished(self, decision: Decision | PendingDecision) -> Finding[Decision]:
        """Return the decision when it is made."""
        if not isinstance(decision, PendingDecision):
            return decision
        over, kind = self._agenda.over, decision.kind
        if over is never:
            return decision.finish()
        yield
        if not decision.pausing or kind in self._short:
            fresh = not self._agenda.over()
            found = decision.finish()
            if fresh and self._agenda.over():
                self._short.pop(kind, None)
            return found
        pieces = self._pieces.of(decision.finish)
        found = yield from pieces
        if kind is not None:
            self._short[kind] = None
            if len(self._short) > KINDS:
                self._short.popitem(last=False)
        return found
