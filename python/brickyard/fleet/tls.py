"""Duty: the certificate of a fleet, under which its nodes alone speak to each other.

One key and one certificate that signs itself serve all nodes, as the token does: who has the file belongs to the fleet.
Ray takes it for its own certificate, its key and the authority, so that both sides of each connection must show it.

Refusal: it is made for one fleet, trusted by nobody else, and goes with it.
"""

from __future__ import annotations

import ipaddress
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from brickyard.errors import BadInputError, one_line
from brickyard.outputs import Mark

HEAD = "# brickyard fleet\n"
MARK: Mark = re.compile(rb"^# brickyard fleet\n")
DAYS = 365
OPENSSL_S = 30.0


def made(addresses: Iterable[str]) -> str:
    """Key and certificate for these addresses, as PEM; raises BadInputError where there is no openssl."""
    names = ["IP:127.0.0.1", "DNS:localhost", *map(_name, addresses)]
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    words += ["-days", str(DAYS), "-subj", "/CN=brickyard-fleet", "-keyout", "-", "-out", "-"]
    words += ["-addext", f"subjectAltName={','.join(dict.fromkeys(names))}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=OPENSSL_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInputError(
            f"no certificate can be made: openssl: {one_line(error)}; install openssl, or use --no-tls"
        ) from error
    if done.returncode != 0:
        raise BadInputError(f"no certificate can be made: openssl: {one_line(done.stderr)[-200:]}; or use --no-tls")
    return HEAD + done.stdout


def settings(place: Path | str) -> dict[str, str]:
    """What Ray reads from its environment where the file lies at this place."""
    names = ("RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY", "RAY_TLS_CA_CERT")
    return {"RAY_USE_TLS": "1", **dict.fromkeys(names, str(place))}


def _name(address: str) -> str:
    try:
        return f"IP:{ipaddress.ip_address(address)}"
    except ValueError:
        return f"DNS:{address}"
