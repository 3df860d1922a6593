"""Nodes that a few words describe: "160*cpu=96,memory=512Gi,nvidia.com/gpu=8"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from policy_sched.errors import PolicySchedError
from policy_sched.model import Node, parse
from policy_sched.simulate.trace_rows import node_of

DEFAULT_PODS: Final = "110"
"""Pods that a node takes unless it says otherwise: the kubelet's own limit."""
_FORM: Final = re.compile(r"([0-9]{1,7})\*([^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)*)")


def generated_nodes(texts: Sequence[str]) -> Iterator[Node]:
    """Yield the nodes of all texts, numbered through: node-0001, node-0002, ...

    Raises PolicySchedError if a text is not a number, "*" and resource=quantity pairs.
    """
    number = 0
    for text in texts:
        count, amounts = _parsed(text)
        for _ in range(count):
            number += 1
            name = f"node-{number:04d}"
            yield node_of(name, amounts, {"kubernetes.io/hostname": name})


def _parsed(text: str) -> tuple[int, dict[str, str]]:
    found = _FORM.fullmatch(text)
    if found is None:
        raise PolicySchedError(
            f'--nodes "{text}": write a number, "*" and amounts, as in "10*cpu=4,memory=32Gi"'
        )
    amounts = {"pods": DEFAULT_PODS}
    for part in found[2].split(","):
        name, _, amount = part.partition("=")
        try:
            parse(amount)
        except ValueError as error:
            raise PolicySchedError(f'--nodes "{text}": {part!r}: {error}') from None
        amounts[name] = amount
    return int(found[1]), amounts
