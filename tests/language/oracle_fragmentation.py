"""Fragmentation by its definition, for each way to place a pod from the start."""

from __future__ import annotations

from collections.abc import Sequence

from .oracle_values import OracleError

PARTS = ("both", "devices", "cpu", "none", "none short", "elsewhere")


def fragmentation(
    cpu: int,
    devices: Sequence[int],
    model: str,
    kinds: Sequence[Sequence[int]],
    models: Sequence[str],
    weights: Sequence[float],
) -> float:
    """Return the sum over the usual pods, part by part."""
    if not (len(kinds) == len(models) == len(weights) and all(len(k) == 3 for k in kinds)):
        raise OracleError("index_out_of_range")
    parts = dict.fromkeys(PARTS, 0.0)
    whole = sum(devices)
    for (wanted, count, amount), allowed, weight in zip(kinds, models, weights, strict=True):
        lost = whole
        fits = len([one for one in devices if one >= amount]) >= count
        if allowed != "" and model not in allowed.split("|"):
            part = "elsewhere"
        elif count <= 0:
            part = "none" if cpu >= wanted else "none short"
        elif fits and cpu >= wanted:
            part, lost = "devices", sum([one for one in devices if one < amount])
        elif cpu >= wanted:
            part = "devices"
        else:
            part = "cpu" if fits else "both"
        parts[part] += weight * lost
    total = 0.0
    for part in PARTS:
        total += parts[part]
    return total


def fragmentations(  # noqa: PLR0913, PLR0917 - a function of the rule language
    cpu: int,
    devices: Sequence[int],
    model: str,
    kinds: Sequence[Sequence[int]],
    models: Sequence[str],
    weights: Sequence[float],
    count: int,
    amount: int,
) -> list[float]:
    """Return the fragmentation after each way to take devices."""
    usual = (kinds, models, weights)
    fragmentation(cpu, devices, model, *usual)
    fitting = [place for place, one in enumerate(devices) if one >= amount]
    ways: list[list[int]] = [[place] for place in fitting]
    if count != 1:
        ways = [fitting[: max(count, 0)]] if len(fitting) >= count else []
    return [
        fragmentation(
            cpu, [one - amount * (n in way) for n, one in enumerate(devices)], model, *usual
        )
        for way in ways
    ]


CALLS = {
    "fragmentation_int_list_string_list_list_list": fragmentation,
    "fragmentations_int_list_string_list_list_list_int_int": fragmentations,
}
