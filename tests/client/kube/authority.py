"""A certificate authority of the tests, made with the openssl program."""

from __future__ import annotations

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path

from policy_sched.client.kube.auth.credentials import Certificate


@dataclass
class Authority:
    """A certificate authority of this test."""

    folder: Path

    def run(self, *words: str) -> None:
        """Run openssl."""
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def make(self, name: str, *, names: str = "", ca: str = "") -> None:
        """Make a key and a certificate: signed by ``ca``, or by itself."""
        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
        new += ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        new += ["-addext", f"subjectAltName={names}"] if names else []
        new += ["-addext", "basicConstraints=critical,CA:FALSE"] if ca else []
        new += ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key"] if ca else []
        self.run(*new, "-days", "2")

    def read(self, file: str) -> bytes:
        """Return a file."""
        return (self.folder / file).read_bytes()

    def certificate(self, name: str) -> Certificate:
        """Return a certificate with its key."""
        return Certificate(self.read(f"{name}.pem"), self.read(f"{name}.key"))

    def server(self, *, asks: bool = False) -> ssl.SSLContext:
        """Return the server's side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.folder / "ca.pem")
        return context
