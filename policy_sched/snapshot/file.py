"""The file of a snapshot: one object a line, compressed, and readable as manifests."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from policy_sched.errors import PolicySchedError
from policy_sched.model import ApiObject, Node, Pod, counted
from policy_sched.source import replacing, write_file

SUFFIX: Final = ".jsonl.gz"
LEVEL: Final = 6
"""Level of compression: higher ones take several times as long for a few per cent."""


def check_path(path: str) -> None:
    """Raise PolicySchedError unless a snapshot can be written there and read by its name."""
    if not path.endswith(SUFFIX):
        raise PolicySchedError(f"{path}: the name of a snapshot ends in {SUFFIX}")
    folder = Path(path).parent
    if not folder.is_dir():
        raise PolicySchedError(f"{path}: there is no directory {folder}")
    if Path(path).is_dir():
        raise PolicySchedError(f"{path}: it is a directory")


def write_objects(path: str, objects: Iterable[ApiObject]) -> int:
    """Write objects, and return the size in bytes; the same objects give the same bytes.

    Only the owner may read the file. An existing one is replaced when the new one is complete.
    """
    encode = msgspec.json.Encoder().encode
    with replacing(path, private=True) as raw:
        with gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
            for one in objects:
                packed.write(encode(one) + b"\n")
        return raw.tell()


def write_names(path: str, names: Mapping[str, str]) -> None:
    """Write names by their pseudonyms as JSON; only the owner may read the file."""
    text = json.dumps(names, indent=0, ensure_ascii=False)
    write_file(path, f"{text}\n".encode(), private=True)


def summary(objects: Sequence[ApiObject]) -> str:
    """Return the numbers of nodes, pods and other objects in words."""
    pods = [one for one in objects if isinstance(one, Pod)]
    pending = sum(not pod.spec.node_name for pod in pods)
    nodes = sum(isinstance(one, Node) for one in objects)
    others = Counter(one.kind for one in objects if not isinstance(one, Pod | Node))
    text = f"{counted(nodes, 'node')}, {counted(len(pods), 'pod')} ({pending:,} pending)"
    return f"{text}, {counted(others.total(), 'other object')}"
