"""Recorded cases of kube-scheduler's DynamicResources come out as they did there."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.language.cel import CelError, compile_selector

from .allocation import allocate
from .cases import DEVICE, Case, params
from .replay import Replay, without_nulls


@pytest.mark.parametrize("case", params("cel-cases", "expression"))
def test_selectors_over_a_device(case: Case) -> None:
    """A selector matches, fails or does not compile, with upstream's type and words."""
    selector = compile_selector(case["expression"])
    found: dict[str, Any] = {"expression": case["expression"]}
    if selector.error:
        found["compileError"] = selector.error
    else:
        found["type"] = selector.result_type
        try:
            found["matches"], _ = selector.evaluate(DEVICE)
        except CelError as error:
            found["error"] = str(error)
    assert found == {key: value for key, value in case.items() if key != "cost"}


@pytest.mark.parametrize("case", params("allocator-cases", "name"))
def test_allocations_on_a_node(case: Case) -> None:
    """The allocator finds upstream's first solution, or fails in upstream's words."""
    assert allocate(case) == without_nulls(case["expect"])


@pytest.mark.parametrize("case", params("plugin-cases", "name"))
def test_points_of_the_plugin(case: Case) -> None:
    """Every point answers as recorded, and leaves the claims as recorded."""
    for point, found, expected in Replay(case).points():
        assert found == expected, point
