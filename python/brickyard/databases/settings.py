"""Duty: which settings of PostgreSQL a server of ours may be given. Refusal: no setting is interpreted."""

from __future__ import annotations

import re

from brickyard.errors import BadInputError

# A server that is told of another folder, file, command, library or address works outside its own.
OUTSIDE = re.compile(
    r"(?i)(.*_(file|files|directory|directories|command|path|library|libraries|dir|tablespace|tablespaces)"
    r"|include.*|port|listen_addresses|logging_collector|log_destination|log_filename|syslog_.*|recovery_.*|restore_.*"
    r"|primary_.*|ssl.*|krb_.*|extension_control_path)"
)


def refuse_outside(name: str, shown: str) -> None:
    """Raises BadInputError for a setting that would let the server use what is not in its own folder. `shown` is how
    the user wrote it."""
    if OUTSIDE.fullmatch(name):
        raise BadInputError(
            f"{shown}: {name} leads outside the folder of the server that is made here (a file, a command, a library or"
            " an address), so it cannot be set"
        )
