"""Duty: `brickyard web`. Refusal: what is served is decided in `brickyard.web`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from brickyard import managing
from brickyard.cli.parts import options
from brickyard.cli.parts.output import stderr
from brickyard.databases.connect import refuse_password, refuse_twice, split_dsns, spoken
from brickyard.errors import DONE, BadInputError
from brickyard.store import Store


def web(
    *,
    port: Annotated[int, Parameter(help="Port; 0 takes a free one.", validator=options.Count(0, 65535))] = 8737,
    listen: Annotated[
        str,
        Parameter(help="Address to listen on; any other than this host's own needs --tls-certificate and --tls-key."),
    ] = "127.0.0.1",
    host: Annotated[
        tuple[str, ...],
        Parameter(
            negative="", show_default=False, help="A host name by which browsers address the server. May be repeated."
        ),
    ] = (),
    token_file: Annotated[
        Path | None,
        Parameter(
            validator=options.FILE,
            help="File with the tokens of operator and reader, mode 600; created if it does not exist.",
        ),
    ] = None,
    tls_certificate: Annotated[Path | None, Parameter(validator=options.READ, help="Certificate chain, PEM.")] = None,
    tls_key: Annotated[
        Path | None, Parameter(validator=options.READ, help="Private key of the certificate, PEM.")
    ] = None,
    allow_target: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="A file or device that may be measured and, if its name is typed, overwritten. May be repeated.",
        ),
    ] = (),
    allow_trace: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="A trace (.byt) that may be replayed. May be repeated."),
    ] = (),
    allow_log: Annotated[
        tuple[str, ...],
        Parameter(negative="", show_default=False, help="A web log that may be replayed. May be repeated."),
    ] = (),
    allow_mapping: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="A mapping of a log's requests to calls, as for `brickyard replay --map`. May be repeated.",
        ),
    ] = (),
    allow_database: Annotated[
        tuple[str, ...],
        Parameter(
            negative="",
            show_default=False,
            help="Connection string, without password, of a database for replays of logs. May be repeated.",
        ),
    ] = (),
    manage: Annotated[
        bool, Parameter(negative="", show_default=False, help="Operators may change arrays from the page.")
    ] = False,
    store: options.StorePlace = None,
) -> int:
    """Serve runs, results, modelled bricks and arrays to browsers.

    Ends with Ctrl-C; runs that were started from the pages continue. In a terminal, the printed address logs you in as
    operator.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise BadInputError(f"{error.name} is missing; install brickyard[web]") from error
    from brickyard.web import tokens
    from brickyard.web.context import Web
    from brickyard.web.serve import Listening, serve
    from brickyard.web.sessions import Sessions

    for path in allow_target:
        if not os.path.exists(path) or os.path.isdir(path):
            raise BadInputError(f"--allow-target {path}: no such file or device")
    _check_traces(allow_trace)
    databases = _checked_databases(allow_log, allow_mapping, allow_database)
    place = Listening(listen, port, host, tls_certificate, tls_key)
    place.check()
    state = managing.state_home()
    token_place = token_file or state / "web-tokens"
    known = tokens.read_or_make(token_place)
    with Store(store) as kept:  # a store that cannot be used is refused before anybody connects
        where = kept.place.absolute()
    served = Web(
        store=where,
        sessions=Sessions(known, state / "web-sessions.json"),
        state=state,
        manage=manage,
        traces=tuple(os.path.abspath(path) for path in allow_trace),
        logs=tuple(dict.fromkeys(os.path.abspath(path) for path in allow_log)),
        mappings=tuple(dict.fromkeys(os.path.abspath(path) for path in allow_mapping)),
        databases=tuple(databases),
        allowed=tuple(os.path.abspath(path) for path in allow_target),
        secure=place.scheme == "https",
    )
    console = stderr()
    token = known.of.get(tokens.Role.OPERATOR) or known.of[tokens.Role.READER]
    # A journal or a log keeps what is printed; a terminal does not.
    login = f"#{token}" if sys.stderr.isatty() else f"; tokens are in {token_place}"
    serve(served, place, lambda text: console.print(text, markup=False, soft_wrap=True), login)
    return DONE


def _check_traces(paths: tuple[str, ...]) -> None:
    if paths:
        from brickyard import traces
    for path in paths:
        if not traces.is_trace(path):
            raise BadInputError(f"--allow-trace {path}: is not a trace; make one with `brickyard trace import`")


def _checked_databases(logs: tuple[str, ...], mappings: tuple[str, ...], dsns: tuple[str, ...]) -> list[str]:
    """The databases that logs may be replayed against; what is wrong is refused before anybody connects."""
    for option, paths in (("--allow-log", logs), ("--allow-mapping", mappings)):
        for path in paths:
            if not os.path.isfile(path):
                raise BadInputError(f"{option} {path}: no such file")
    databases = split_dsns(*dsns, option="--allow-database")
    for dsn in databases:
        refuse_password(dsn, "--allow-database")
    refuse_twice([spoken(dsn) for dsn in databases], "--allow-database")
    return databases
