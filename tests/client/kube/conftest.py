"""What several tests of the client need."""

from __future__ import annotations

import shutil

import pytest

from tests.client.kube.authority import Authority


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One authority, a server called kubernetes, a client, and a stranger."""
    if not shutil.which("openssl"):
        pytest.skip("needs the openssl program")
    made = Authority(tmp_path_factory.mktemp("pki"))
    made.make("ca")
    made.make("server", names="DNS:kubernetes", ca="ca")
    made.make("client", ca="ca")
    made.make("stranger")
    return made
