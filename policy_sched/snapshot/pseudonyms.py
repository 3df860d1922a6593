"""Pseudonyms of names: the same name has the same one wherever it stands.

Theory of operation. A pseudonym is made of the name and a secret key with HMAC-SHA256, so it is
stable for a key and tells nothing without it. Names, label values and what selectors compare with
them share one mapping: whatever was equal stays equal. Not replaced are the names of Kubernetes'
own things, numbers (Gt and Lt compare them), and what the caller keeps.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import uuid
from base64 import b32encode
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final

from policy_sched.errors import PolicySchedError

LENGTH: Final = 11
"""Characters of a pseudonym after its first letter: 55 bits."""
SEPARATOR: Final = "__"
"""Separates the zones of a volume with several."""

KEPT: Final = frozenset(
    {
        *("", "default", "kube-system", "kube-public", "kube-node-lease", "metadata.name"),
        *("system-node-critical", "system-cluster-critical", "true", "false"),
        *("linux", "windows", "amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64"),
    }
)
"""Names and values that Kubernetes gives."""
KEPT_KEYS: Final = frozenset(
    {"pod-template-hash", "controller-revision-hash", "job-name", "controller-uid"}
)
"""Keys of labels without a prefix that Kubernetes gives."""
_DOMAINS: Final = ("kubernetes.io", "k8s.io", "policysched.dev")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")


class Pseudonyms:
    """The pseudonyms under one key; ``keep`` are shell patterns of what is not replaced."""

    def __init__(self, key: bytes, keep: Sequence[str] = ()) -> None:
        self._key = key
        self._keep = tuple(keep)
        self._known: dict[str, str] = {}
        self._owners: dict[str, str] = {}

    @property
    def names(self) -> dict[str, str]:
        """The replaced names by their pseudonyms, sorted."""
        return {
            pseudonym: name for pseudonym, name in sorted(self._owners.items()) if pseudonym != name
        }

    def name(self, text: str) -> str:
        """Return the pseudonym of a name or of a label's value. Raises PolicySchedError."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._new(text)
            other = self._owners.setdefault(found, text)
            if other != text:
                raise PolicySchedError("two names have the same pseudonym; take another key")
        return found

    def derive(self, text: str, parts: Sequence[str]) -> None:
        """Note that a name consists of others: its pseudonym consists of theirs, with hyphens."""
        derived = "-".join(map(self.name, parts))
        self._known[text] = derived
        self._owners[derived] = text

    def number(self, texts: Iterable[str]) -> None:
        """Give names pseudonyms in the order of the names: each begins with its number."""
        for number, text in enumerate(sorted(set(texts))):
            pseudonym = self.name(text)
            if pseudonym != text:
                self._known[text] = numbered = f"n{number:05d}-{pseudonym}"
                self._owners[numbered] = text

    def key(self, text: str) -> str:
        """Return the pseudonym of a label's or a taint's key."""
        prefix, slash, _ = text.rpartition("/")
        known = prefix.endswith(_DOMAINS) or prefix.startswith("topology.")
        return text if (slash and known) or text in KEPT_KEYS else self.name(text)

    def image(self, text: str) -> str:
        """Return the pseudonym of an image: its tag stays apart."""
        if text.rfind(":") > text.rfind("/"):
            repository, _, tag = text.rpartition(":")
            return f"{self.name(repository)}:{tag if tag == 'latest' else self.name(tag)}"
        return self.name(text)

    def path(self, text: str) -> str:
        """Return the pseudonym of a disk's identity: its parts and their prefixes stay apart."""
        return "/".join(map(self._part, text.split("/")))

    def uid(self, text: str) -> str:
        """Return the pseudonym of a UID; one that is made of names is made of pseudonyms."""
        if not text:
            return ""
        if "/" in text:
            return "/".join(map(self.name, text.split("/")))
        return str(uuid.UUID(bytes=self._digest(f"uid {text}")[:16]))

    def _part(self, text: str) -> str:
        if text.startswith("vol-"):
            return f"vol-{self.name(text[4:])}"
        return text if text == "aws:" else self.name(text)

    def _new(self, text: str) -> str:
        if text in KEPT or _NUMBER.fullmatch(text) or self._stays(text):
            return text
        if SEPARATOR in text:
            return SEPARATOR.join(map(self.name, text.split(SEPARATOR)))
        letters = b32encode(self._digest(text)).decode().lower()
        return f"n{letters[:LENGTH]}"

    def _stays(self, text: str) -> bool:
        return any(fnmatchcase(text, pattern) for pattern in self._keep)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha256)
