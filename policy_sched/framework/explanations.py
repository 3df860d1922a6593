"""Why rows were rejected, kept from one attempt to the next: words cost more than verdicts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework.status import Status


class Explanations:
    """The statuses of rejected rows [0, n); rows that changed are explained anew."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._known: dict[int, Status] | None = None
        self._stale: set[int] = set()

    def forget(self, rows: NDArray[np.intp] | None = None) -> None:
        """Explain these rows anew, or all."""
        if rows is None:
            self._known = None
        elif self._known is not None:
            self._stale.update(rows.tolist())

    def of(self, explain: Callable[[NDArray[np.intp]], dict[int, Status]]) -> dict[int, Status]:
        """Return the statuses by row, ascending; ``explain`` finds those of ascending rows."""
        if self._known is None:
            self._known = explain(np.arange(self._n))
        elif self._stale:
            known, fresh = self._known, explain(np.array(sorted(self._stale), np.intp))
            if fresh.keys() == known.keys() & self._stale:
                known.update(fresh)
            else:
                kept = {row: found for row, found in known.items() if row not in self._stale}
                self._known = dict(sorted((kept | fresh).items()))
        self._stale.clear()
        return dict(self._known)
