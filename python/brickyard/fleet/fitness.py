"""Duty: whether Ray can be started on hosts, asked of all of them at once before anything is started on any.

Refusal: nothing is made or changed on a host.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

from brickyard.fleet.hosts import HostEntry, command_of
from brickyard.fleet.shells import ShellError, answer, filled

FIT_S = 30.0
RAY_IN_LOCK = re.compile(r"^ray==([\w.]+)", re.MULTILINE)
LOOK = r"""
import sys

def version(name):
    try:
        from importlib import metadata
        return metadata.version(name)
    except Exception:
        return None

python, own, ray, makes = "%d.%d" % sys.version_info[:2], sys.argv[1], sys.argv[2], sys.argv[3] == "makes"
if python != own:
    sys.exit("its Python (%s) is %s, and this host has %s; Ray needs the same on all hosts: name another as `python` "
             "in hosts.toml" % (sys.executable, python, own))
if makes:
    try:
        import ensurepip, venv
    except ImportError as error:
        sys.exit("its Python (%s) cannot make an environment (%s); install its venv package (python3-venv), or name a "
                 "Python that has Ray as `python` in hosts.toml" % (sys.executable, error))
elif version("ray") is None:
    sys.exit("its Python (%s) has no Ray; install it with `%s -m pip install ray==%s`, or leave `python` out in "
             "hosts.toml so that an environment is made" % (sys.executable, sys.executable, ray))
elif version("ray") != ray:
    sys.exit("its Python (%s) has Ray %s, and this host has %s; install it with `%s -m pip install ray==%s`"
             % (sys.executable, version("ray"), ray, sys.executable, ray))
"""
SCRIPT = """
set -u
python=@PYTHON@
makes=named
if [ -z "$python" ]; then
  makes=makes
  python="${XDG_STATE_HOME:-$HOME/.local/state}/@ENVIRONMENT@/bin/python"
  if "$python" -c 'import importlib.metadata as m, sys
sys.exit(m.version("ray") != "@RAY@")' 2>/dev/null; then
    exit 0  # made by an earlier fleet
  fi
  python=python3
fi
if ! command -v "$python" >/dev/null 2>&1; then
  if [ "$makes" = makes ]; then
    echo "has no python3; install Python @OWN@ with its venv package, or name a Python that has Ray as" \\
      "\\`python\\` in hosts.toml" >&2
  else
    echo "has no Python at $python; correct \\`python\\` in hosts.toml, or leave it out so that an environment" \\
      "is made" >&2
  fi
  exit 1
fi
"$python" - @OWN@ @RAY@ "$makes" <<'LOOK'
@LOOK@
LOOK
"""


def own_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def unfit(hosts: Sequence[HostEntry], environment: str) -> dict[str, str]:
    """The hosts on which Ray cannot be started, and why."""
    with ThreadPoolExecutor(16) as pool:
        found = zip(hosts, pool.map(lambda host: _why_unfit(host, environment), hosts), strict=True)
        return {host.name: why for host, why in found if why}


def _why_unfit(host: HostEntry, environment: str) -> str:
    script = filled(
        SCRIPT,
        LOOK=LOOK.strip(),
        PYTHON=shlex.quote(host.python),
        ENVIRONMENT=environment,
        OWN=own_python(),
        RAY=metadata.version("ray"),
    )
    try:
        answer(host.name, command_of(host), script, FIT_S)
    except ShellError as error:
        return str(error).removesuffix(" (exit code 1)")
    return ""
