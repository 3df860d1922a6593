"""A self-signed certificate for an API that authenticates its clients and was given none.

Kubernetes clients send no token over plain HTTP: kubectl would be anonymous.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from policy_sched.embedded.apiserver.security import Access, Address
from policy_sched.instance.http import self_signed


@contextmanager
def certified(access: Access, address: Address, now: int) -> Iterator[Access]:
    """Yield access with a certificate if it authenticates clients; ``now``: ns since 1970.

    The files are in a folder that only this user can read, and go with the context.
    """
    if not access.knows or access.certificate is not None:
        yield access
        return
    certificate, key = self_signed([address.reached.host, "localhost", "127.0.0.1", "::1"], now)
    with TemporaryDirectory(prefix="policy-sched-") as folder:
        files = Path(folder, "tls.crt"), Path(folder, "tls.key")
        for path, content in zip(files, (certificate, key), strict=True):
            path.write_bytes(content)
        yield replace(access, certificate=str(files[0]), key=str(files[1]))
