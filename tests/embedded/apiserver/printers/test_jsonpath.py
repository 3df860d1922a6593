"""Paths of printer columns."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.embedded.apiserver.printers.jsonpath import MOST, values_at

DATA: dict[str, Any] = {
    "spec": {"a": 1, "b.c": "dotted", "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other"}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.a", [1]),
        (".spec.none.deeper", []),
        (r".spec.b\.c", ["dotted"]),
        (".spec['b.c']", ["dotted"]),
        (".spec.list[0].n", ["x"]),
        (".spec.list[-1].n", ["y"]),
        (".spec.list[7].n", []),
        (".spec.list[*].n", ["x", "y"]),
        (".spec.list[0:1].n", ["x"]),
        ("..n", ["x", "y"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".spec.list[?(@.v > 1)].n", ["y"]),
        (".status.conditions[?(@.status)].type", ["Ready"]),
        (".", [DATA]),
    ],
)
def test_a_path_leads_to_values(path: str, values: list[Any]) -> None:
    """Columns of custom resources were not shown."""
    assert values_at(path, DATA) == values


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[?(@.b == x)]"])
def test_a_path_that_cannot_be_read_is_an_error(path: str) -> None:
    """Its column stays empty."""
    with pytest.raises(ValueError, match="cannot read"):
        values_at(path, DATA)


def test_a_path_that_leads_everywhere_has_an_end() -> None:
    """Each step multiplied the values."""
    data: Any = {}
    for _ in range(60):
        data = {"a": data, "b": [data]} if len(str(data)) < 20_000 else {"a": data}
    assert values_at("..*..*..*", data) == []
    assert len(values_at("..a", data)) < MOST
