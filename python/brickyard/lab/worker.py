"""Duty: a process with mounts of its own that records a workload or checks states, as a line of JSON on its standard
input says. It is the first process of a PID namespace: when it dies, however it dies, all that it started is gone with
it, and its mounts, loop device and disk too.

Refusal: it decides nothing about which states there are.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from brickyard import outputs
from brickyard.errors import BadInputError, BrickyardError, one_line
from brickyard.lab import kernel, mounts
from brickyard.lab.checks import FILES, Check, Corrupt, Lost, NotJudged, Stage, check_of, workload_of
from brickyard.lab.ledger import ledger
from brickyard.lab.orders import (
    CORRUPT,
    KEPT,
    LOST,
    NOT_JUDGED,
    CheckOrder,
    Ready,
    Recording,
    RecordOrder,
    Refused,
    Serve,
    Setup,
    Show,
    State,
    Story,
    Verdict,
)
from brickyard.lab.program import Lab, serving
from brickyard.lab.rooms import own_folder

STORY = "story.json"
ROOM_BYTES = 4 << 20  # more than the largest request takes, which is what did not fit
# btrfs, where another state of the same file system is mounted at this moment; it says nothing of the content.
OF_OTHERS = (errno.EEXIST, errno.EBUSY)
MOUNT_TRIES, MOUNT_PAUSE_S = 100, 0.02
THROUGH = stat.S_IRWXU | stat.S_IXGRP | stat.S_IXOTH  # the account that runs a server passes through


def main() -> int:
    try:
        order = msgspec.json.decode(sys.stdin.buffer.readline(), type=RecordOrder | CheckOrder)
        if os.geteuid() != 0:
            raise BadInputError("the lab mounts disks, which only root may; run it as root")
        kernel.enter_private_mounts()
        _leave_disks(order)
        kernel.enter_private_processes()
        if isinstance(order, RecordOrder):
            _say(record(order))
        else:
            check_states(order)
    except BrickyardError as error:
        _say(Refused(str(error)))
        return error.exit_code
    except OSError as error:
        _say(Refused(f"{one_line(error)}; the lab needs /dev/fuse, loop devices and root"))
        return 1
    return 0


def _leave_disks(order: RecordOrder | CheckOrder, *more: str) -> None:
    """Other disks of the lab can be unmounted while we work, also where a host does not share its mounts; except what
    we need of them."""
    if isinstance(order, RecordOrder):
        needed = [order.log, *order.setup.command]
    else:
        needed = [order.recording, order.states.log, *order.command]
    needed += [*more, order.room, os.getcwd(), tempfile.gettempdir(), sys.executable, __file__]
    for mount in mounts.of_disks(mounts.all_mounts()):
        if not any(Path(place).is_relative_to(mount.place) for place in needed):
            with suppress(OSError):  # it went with what it stood on, or with what it is shared with
                kernel.leave(mount.place)


@contextmanager
def told_of_space(log: Path) -> Iterator[None]:
    """Where the log has no room, a request to the disk fails, and whatever made it knows nothing of logs."""
    try:
        yield
    except (BrickyardError, OSError) as error:
        if shutil.disk_usage(log).free >= ROOM_BYTES:
            raise
        raise BrickyardError(f"{log}: no space left for the log; name a folder with more room") from error


def _say(what: msgspec.Struct) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


def _stage(ending: ExitStack, room: Path) -> tuple[Path, Path, Path]:
    """A room, a place for the disk, and one for the file system."""
    room.chmod(THROUGH)
    places = (outputs.folder(room / "run"), outputs.folder(room / "fuse"), outputs.folder(room / "mount"))
    for place in places:
        place.chmod(0o755)
    # The disk's program has left our mounts, so that its own end unmounts it there alone.
    ending.callback(_unmounted, places[1])
    return places


def _unmounted(place: Path) -> None:
    with suppress(OSError):  # nothing was mounted there
        kernel.unmount(place)


def record(order: RecordOrder) -> Recording:
    """Runs the workload on a disk that logs; the story is in the log's folder when this returns."""
    setup, log = order.setup, Path(order.log)
    kernel.check_file_system(setup.file_system)
    with ExitStack() as ending:
        room, fuse, mount = _stage(ending, Path(order.room))
        # The medium's content is in the log; it only serves reads meanwhile.
        medium = log / "medium"
        orders = Serve(mount=str(fuse), medium=str(medium), size_bytes=setup.size_bytes, log=str(log))
        disk = ending.enter_context(serving(orders))
        ending.enter_context(told_of_space(log))  # while the disk still holds what it could write
        loop = ending.enter_context(kernel.attached(fuse / "disk"))
        kernel.make_file_system(setup.file_system, loop.path)
        told = ending.enter_context(ledger(log / "count"))
        story = Story()
        with kernel.newly_mounted(loop.path, mount, setup.file_system, setup.mount_options):
            mount.chmod(0o755)

            def began() -> None:
                kernel.sync_file_system(mount)
                os.fsync(loop.handle)  # a flush, also where the file system sends none
                story.begin = told.records()

            data, version = workload_of(setup).run(Stage(mount, room, loop.path), setup, told, began)
            # What was acknowledged last is promised at this record, and the rest is the end of the workload.
            story.end = max([told.records() if not told.promises else 0, *(p.at for p in told.promises)])
            kernel.end_others({disk.pid})
        story.promises = sorted(promise.at for promise in told.promises)
        story.marks = [(begin, min(end, story.end)) for begin, end in told.marks if begin < story.end]
        return Recording(setup, story, told.promises, data, version)


def check_states(order: CheckOrder) -> None:
    """A verdict for each line that comes in: a seed, with `@RECORDS` where only what was acknowledged by then counts,
    and volatile writes that its state has besides.
    """
    recording = msgspec.json.decode(Path(order.recording).read_bytes(), type=Recording)
    check = check_of(order.check, recording, order.command)
    with ExitStack() as ending:
        room, fuse, mount = _stage(ending, Path(order.room))
        lab = ending.enter_context(Lab("show", Show(order.states, str(fuse))))
        lab.heard(Ready)
        loop = ending.enter_context(kernel.attached(fuse / "disk"))
        stage = Stage(mount, room, loop.path)
        _say(Ready())
        for line in sys.stdin.buffer:
            first, *more = line.split()
            seed, _, told = first.partition(b"@")
            lab.tell(b" ".join([seed, *more]))
            state = lab.heard(State)
            if told:
                state = msgspec.structs.replace(state, cut=min(state.cut, int(told)))
            loop.forget()
            verdict = judged(check, stage, recording, state, lab.pid)
            if verdict.kind == KEPT and order.check == FILES:
                verdict = structure(verdict, recording.setup.file_system, loop.path)
            if verdict.kind in (LOST, CORRUPT):
                verdict = _of_a_disk_that_lives(verdict, lab, b" ".join([seed, *more]))
            _say(verdict)
            if verdict.is_last:
                return


def _of_a_disk_that_lives(verdict: Verdict, lab: Lab, wish: bytes) -> Verdict:
    """Where the program that shows the state has been killed, every read fails, which is no fault of the state."""
    try:
        lab.tell(wish)
        lab.heard(State)
    except BrickyardError as error:
        return Verdict(verdict.seed, NOT_JUDGED, f"the disk of the state is gone: {error}", is_last=True)
    return verdict


def structure(verdict: Verdict, kind: str, device: str) -> Verdict:
    """Whether the file system is whole beneath its files."""
    try:
        found = kernel.damage(kind, device)
    except BrickyardError as error:
        return Verdict(verdict.seed, NOT_JUDGED, str(error))
    return Verdict(verdict.seed, CORRUPT, found) if found else verdict


def look(order: CheckOrder, wish: str, command: list[str]) -> int:
    """Mounts one state for a command, in mounts that only this process and the command see; nothing is kept of it."""
    recording = msgspec.json.decode(Path(order.recording).read_bytes(), type=Recording)
    setup = recording.setup
    kernel.enter_private_mounts()
    _leave_disks(order, *command)
    with ExitStack() as ending:
        _, fuse, mount = _stage(ending, ending.enter_context(own_folder()))
        lab = ending.enter_context(Lab("show", Show(order.states, str(fuse))))
        lab.heard(Ready)
        loop = ending.enter_context(kernel.attached(fuse / "disk"))
        lab.tell(wish.encode())
        lab.heard(State)
        loop.forget()
        try:
            ending.enter_context(kernel.mounted(loop.path, mount, setup.file_system, setup.mount_options))
        except OSError as error:
            raise BrickyardError(f"{setup.file_system} of this state cannot be mounted: {one_line(error)}") from error
        environment = {**os.environ, "BRICKYARD_LAB_MOUNT": str(mount), "BRICKYARD_LAB_DEVICE": loop.path}
        try:
            return subprocess.run(command, cwd=mount, env=environment, check=False).returncode
        except OSError as error:
            raise BadInputError(f"{command[0]}: cannot be started: {error.strerror}") from error


def judged(check: Check, stage: Stage, recording: Recording, state: State, disk: int) -> Verdict:
    """What the check says, after which nothing of it is left; where something is, it says nothing of this state."""
    setup = recording.setup
    try:
        _mount(stage, setup)
    except OSError as error:
        kind = NOT_JUDGED if error.errno in OF_OTHERS else CORRUPT
        return Verdict(state.seed, kind, f"{setup.file_system} cannot be mounted: {os.strerror(error.errno or 0)}")
    try:
        verdict = _said(check, stage, recording, state)
    finally:
        ended = kernel.end_others({disk})
        left = kernel.unmount(stage.mount)
    if ended and left:
        return verdict
    return Verdict(state.seed, NOT_JUDGED, "its file system is still in use after the check", is_last=True)


def _mount(stage: Stage, setup: Setup) -> None:
    for left in reversed(range(MOUNT_TRIES)):
        try:
            kernel.mount(stage.device, stage.mount, setup.file_system, setup.mount_options)
        except OSError as error:
            if error.errno not in OF_OTHERS or not left:
                raise
        else:
            return
        time.sleep(MOUNT_PAUSE_S)


def _said(check: Check, stage: Stage, recording: Recording, state: State) -> Verdict:
    try:
        check(stage, recording, state)
    except Lost as found:
        return Verdict(state.seed, LOST, str(found), found.missing)
    except Corrupt as found:
        return Verdict(state.seed, CORRUPT, str(found))
    except NotJudged as found:
        return Verdict(state.seed, NOT_JUDGED, str(found))
    except OSError as error:
        return Verdict(state.seed, CORRUPT, f"what is there cannot be read: {one_line(error)}")
    return Verdict(state.seed, KEPT)


if __name__ == "__main__":
    sys.exit(main())
