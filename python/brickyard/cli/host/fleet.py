"""Duty: `brickyard fleet`. Refusal: what is started where is known to `brickyard.fleet` alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stderr, stdout, table
from brickyard.errors import DONE, FAILED, BadInputError, BrickyardError
from brickyard.store import Store, command_on
from brickyard.units import format_size

if TYPE_CHECKING:
    from brickyard.fleet.cluster import Cluster
    from brickyard.fleet.up import Stopped

app = App(
    name="fleet", help="Many hosts: start Ray on them, show their state, collect or remove the records that they kept."
)
KUBERNETES_HOSTS = 3


@app.command
def up(
    *,
    hosts: Annotated[
        Path | None,
        Parameter(
            name="--hosts",
            validator=options.READ,
            help="File such as hosts.toml with the name and address of each host, and the head.",
        ),
    ] = None,
    address: Annotated[
        str | None, Parameter(help="A Ray cluster that is already running, such as 10.0.0.1:6379.")
    ] = None,
    token: Annotated[
        Path | None,
        Parameter(validator=options.READ, help="Token file of that cluster; a cluster without a token is refused."),
    ] = None,
    tls: Annotated[
        bool, Parameter(help="Encrypt the traffic between nodes with TLS, with a certificate made for this fleet.")
    ] = True,
    kubernetes: Annotated[
        str | None, Parameter(help="Print a Kubernetes Job whose pods join the head at this address; start nothing.")
    ] = None,
    count: Annotated[
        int, Parameter(validator=options.Count(1, 10_000), help="Number of pods in the Job.")
    ] = KUBERNETES_HOSTS,
    volume: Annotated[
        str | None, Parameter(help="Size of a volume for each pod of the Job, such as 100Gi, mounted at /brick.")
    ] = None,
    storage_class: Annotated[str | None, Parameter(help="Storage class of the pods' volumes.")] = None,
    json: options.Json = False,
) -> int:
    """Start a fleet: start Ray on every host, with a new token and without a dashboard. If the fleet is up, start Ray
    again on those hosts of the file that are down."""
    from brickyard.fleet import kubernetes as kubernetes_job
    from brickyard.fleet import up as starting
    from brickyard.fleet.hosts import read_hosts

    if sum(given is not None for given in (hosts, address, kubernetes)) != 1:
        raise BadInputError("name one of --hosts hosts.toml, --address HOST:PORT and --kubernetes HOST:PORT")
    if volume is not None and kubernetes is None:
        raise BadInputError("--volume needs --kubernetes")
    if volume is None and storage_class is not None:
        raise BadInputError("--storage-class: name the size of a volume as well, with --volume")
    if kubernetes is not None:
        wanted = kubernetes_job.PodVolume(volume, storage_class) if volume is not None else None
        print(kubernetes_job.manifest(count, kubernetes, wanted), end="")
        return DONE
    started: list[str] = []
    if address is not None:
        if token is None:
            raise BadInputError("--address: name its token file with --token")
        fleet = starting.join(address, token)
    elif hosts is not None:
        found = starting.up(read_hosts(hosts), with_tls=tls, tell=lambda text: print_line(stderr(), text, "dim"))
        fleet, started = found.fleet, found.hosts
    if json:
        emit({"address": fleet.address, "hosts": [host.name for host in fleet.hosts], "started": started})
    else:
        on = f"started on {', '.join(started)}; " if started else ""
        print_line(stdout(), f"the fleet is up at {fleet.address}; {on}see `brickyard fleet status`")
    return DONE


@app.command
def status(*, json: options.Json = False) -> int:
    """List the hosts of the fleet, and whether Ray sees them; if Ray does not answer, the state of the hosts is not
    known."""
    from brickyard.fleet import cluster

    fleet = cluster.load()
    try:
        known = cluster.known_hosts(cluster.enter(fleet), fleet)
    except BrickyardError as error:
        if isinstance(error, BadInputError):
            raise
        _print_unknown(fleet, error, json=json)
        return FAILED
    if json:
        emit({"address": fleet.address, "hosts": known})
    else:
        rows = [[name, host.address, "up" if host.alive else "down"] for name, host in sorted(known.items())]
        stdout().print(table(f"Fleet at {fleet.address}", [(n, "left") for n in ("host", "address", "state")], rows))
    down = [name for name, host in sorted(known.items()) if not host.alive]
    if down and not fleet.joined:
        print_line(
            stderr(),
            f"{', '.join(down)}: down; start again with `brickyard fleet up --hosts hosts.toml`, which leaves the other"
            " hosts alone",
        )
    return FAILED if down else DONE


def _print_unknown(fleet: Cluster, error: BrickyardError, *, json: bool) -> None:
    if json:
        unknown = {host.name: {"address": host.address, "alive": None} for host in fleet.hosts}
        emit({"address": fleet.address, "hosts": unknown, "error": str(error)})
        return
    rows = [[host.name, host.address, "not known"] for host in fleet.hosts]
    stdout().print(table(f"Fleet at {fleet.address}", [(n, "left") for n in ("host", "address", "state")], rows))
    print_line(stderr(), str(error))


@app.command
def down(
    *,
    forget: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Also remove hosts that cannot be reached from the list; Ray may still run there.",
        ),
    ] = False,
    json: options.Json = False,
) -> int:
    """Stop what `up` started on the hosts; hosts that cannot be reached stay on the list for another `down`."""
    from brickyard.fleet import up as starting

    stopped = starting.down(forget=forget)
    if json:
        emit({"stopped": stopped.names, "failures": stopped.failures})
    else:
        print_line(stdout(), _stopped_words(stopped, forget=forget))
    for failure in stopped.failures:
        print_line(stderr(), failure)
    return FAILED if stopped.failures else DONE


def _stopped_words(stopped: Stopped, *, forget: bool) -> str:
    if stopped.fleet.joined:
        return f"left the cluster at {stopped.fleet.address}, which goes on"
    on = f"Ray is stopped on {', '.join(stopped.names)}" if stopped.names else "Ray was stopped on no host"
    if not stopped.failures:
        return f"{on}; no fleet is up"
    return f"{on}; the others are {'forgotten' if forget else 'still on the list'}"


@app.command
def collect(
    *places: Annotated[Path, Parameter(validator=options.READ)],
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Make runs from the records that hosts kept because they could not be transferred. The records come from the hosts
    of the fleet, or from files.

    Parameters
    ----------
    places
        Records of hosts, or folders of records; without any, the records come from the hosts of the fleet.
    """
    from brickyard.fleet import cluster
    from brickyard.fleet import collect as collecting

    if places:
        found = collecting.from_files(places)
    else:
        ray = cluster.enter(cluster.load())
        up, down = cluster.up_and_down(ray)
        found = collecting.from_hosts(ray, up)
        found.left.update(dict.fromkeys(down, "is down; what it kept can be collected when it is back"))
    made, left = {}, found.left
    with Store(store) as runs:
        for name, items in sorted(collecting.by_run(found.kept).items()):
            if why := collecting.known(runs, name, items):
                left[name] = why
            else:
                made[name] = collecting.merge(runs, name, items)
    for name, why in left.items():
        print_line(stderr(), f"{name}: {why}")
    if json:
        emit({"runs": made, "left": left})
    else:
        for name, number in made.items():
            see = command_on(runs.place, f"show {number}")
            print_line(stdout(), f"{name}: run {number}; see {see}")
        if not made:
            stdout().print("no host kept anything new", markup=False)
    return DONE


@app.command
def clean(
    *,
    uncollected: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Also remove records that no run in the store has; what they contain is lost.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, Parameter(negative="", show_default=False, help="List what would be removed, and remove nothing.")
    ] = False,
    store: options.StorePlace = None,
    json: options.Json = False,
) -> int:
    """Remove records that hosts kept and that have been collected; the others stay, each with the reason."""
    from brickyard.fleet import cluster
    from brickyard.fleet import collect as collecting

    ray = cluster.enter(cluster.load())
    up, down = cluster.up_and_down(ray)
    found = collecting.from_hosts(ray, up)
    found.left.update(dict.fromkeys(down, "is down; its records stay"))
    with Store(store) as runs:
        removal = collecting.to_remove(runs, found, uncollected=uncollected)
    done = removal if dry_run else collecting.remove(ray, found, removal)
    for place, why in done.stays.items():
        print_line(stderr(), f"{place}: {why}; stays")
    if json:
        emit(
            {"removed": {} if dry_run else done.goes, "would_remove": done.goes if dry_run else {}, "left": done.stays}
        )
    else:
        word = "would be removed" if dry_run else "removed"
        for place, why in done.goes.items():
            size = format_size(found.sizes[place])
            print_line(stdout(), f"{place}: {word} ({size}; {why})")
        if not done.goes:
            stdout().print("no host keeps a record that has been collected", markup=False)
    return FAILED if done.stays else DONE
