"""Arrays, disks and alarms as the page has them, and the watch that it talks to: slow members, trends, schedules, LEDs,
tests of alarms."""

from __future__ import annotations

import html
import json
import math
import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from array_support import storcli_host, storcli_reply
from brickyard import managing
from brickyard.arrays import Member, Sheet, State, notify
from brickyard.arrays.alarms import AlarmBook
from brickyard.arrays.array import KindFacts, StateName
from brickyard.arrays.guarding import Guard, Schedule
from brickyard.arrays.health import Notice
from brickyard.arrays.host import Host
from brickyard.arrays.inventory import controllers, disks
from brickyard.arrays.keys import AlarmKey
from brickyard.arrays.looking import Drive, Seen, StoreSeen, look_at_members, look_at_store
from brickyard.arrays.peers import MemberCounters, PeersMemory, Window, paces
from brickyard.arrays.scrubs import ScrubBook, ScrubPlan, window_minutes
from brickyard.arrays.trends import TrendBook
from brickyard.arrays.watching import ArrayWatcher, WatchMemory
from brickyard.errors import BadInputError
from brickyard.facts.roots import NoTools, Roots
from brickyard.managing import AuditLog, Deed
from brickyard.schema.target_sheet import HealthSheet
from brickyard.store import Store
from brickyard.web import estate
from mirrors import DISKS, LookClock, Mirror, looks, restarted, watched
from web_support import READER, Client, Served, serving

DAY_S = 86_400.0


def sheet(state: StateName = "normal", members: int = 4) -> Sheet:
    found = tuple(Member(f"/dev/sd{letter}", "active", slot) for slot, letter in enumerate("abcdef"[:members]))
    return Sheet("md", "/dev/md0", "raid6", 1 << 40, State(state), found, members, KindFacts(component_bytes=1 << 39))


def looks_of(slow: float, looks: int, seed: int, jitter: float = 0.15, state: StateName = "normal") -> Iterator[Seen]:
    """Four disks under a load that changes; the first takes so many times as long from half of the looks on."""
    dice = random.Random(seed)
    array = sheet(state)
    sums = {member.name: [0, 0] for member in array.members}
    for look in range(looks):
        rate = dice.uniform(20, 400)
        for place, counted in enumerate(sums.values()):
            requests = int(rate * 30 * dice.uniform(0.9, 1.1))
            service_ms = (4 + rate / 50) * math.exp(dice.gauss(0, jitter))
            counted[0] += requests
            counted[1] += int(requests * service_ms * (slow if place == 0 and look >= looks // 2 else 1))
        yield Seen((array,), counted={array.key: {name: MemberCounters(*both) for name, both in sums.items()}})


class Clock:
    def __init__(self) -> None:
        self.now_s = 1e9

    def __call__(self) -> float:
        self.now_s += 30
        return self.now_s


def notices_of(watcher: ArrayWatcher, looks: Iterator[Seen]) -> list[Notice]:
    return [notice for seen in looks for notice in watcher.look(seen)]


def test_a_member_that_is_three_times_as_slow_as_its_peers_is_told_and_one_that_is_well_again_too() -> None:
    watcher = ArrayWatcher(clock=Clock())
    (told,) = notices_of(watcher, looks_of(3, 80, 1))
    assert (str(told.key), told.severity) == ("slow /dev/md0 /dev/sda", "warning")
    assert "times as long" in told.text
    kept = restarted(watcher.memory)  # a restart of the watch
    again = ArrayWatcher(memory=kept, clock=watcher.clock)
    (ended,) = notices_of(again, looks_of(1, 120, 2))
    assert (ended.key, ended.kind) == (told.key, "ends")


def test_a_busy_array_and_members_that_differ_a_little_are_no_alarm() -> None:
    for seed in range(4):
        assert notices_of(ArrayWatcher(clock=Clock()), looks_of(1.0, 80, seed, jitter=0.4)) == []
        assert notices_of(ArrayWatcher(clock=Clock()), looks_of(1.3, 80, seed)) == []
    # While an array rebuilds or scrubs its members are asked for different things.
    assert [
        n
        for n in notices_of(ArrayWatcher(clock=Clock()), looks_of(5, 80, 1, state="scrubbing"))
        if "slow" in str(n.key)
    ] == []


def test_an_idle_array_and_a_clock_that_jumps_judge_nobody() -> None:
    clock = Clock()
    watcher = ArrayWatcher(clock=clock)
    for place, seen in enumerate(looks_of(1, 60, 3)):
        if place % 5 == 0:
            clock.now_s += (-1) ** place * 20 * DAY_S
        assert watcher.look(seen) == []
    assert [str(notice.key) for notice in notices_of(watcher, looks_of(3, 80, 4))] == ["slow /dev/md0 /dev/sda"]
    array = sheet()
    still = Seen((array,), counted={array.key: {member.name: MemberCounters(5, 5) for member in array.members}})
    assert notices_of(ArrayWatcher(clock=Clock()), iter([still] * 60)) == []


def test_the_slow_one_of_a_mirror_is_told_stays_told_and_ends_when_it_is_well() -> None:
    slow = Mirror(5, slow=3)
    for seed in range(3):
        watcher = ArrayWatcher(clock=LookClock(slow.every_s))
        told = notices_of(watcher, looks(slow, seed))
        # It stays slow for longer than any memory of the watch, and is not forgiven.
        assert [(str(n.key), n.kind) for n in told] == [("slow /dev/md0 /dev/sda", "begins")], seed
        assert "times as long as they did" in told[0].text
        kept = restarted(watcher.memory)
        again = ArrayWatcher(memory=kept, clock=watcher.clock)
        (ended,) = notices_of(again, looks(Mirror(0.5), seed + 50))
        assert (ended.key, ended.kind) == (told[0].key, "ends")


WELL = {
    "scatter": Mirror(2, jitter=0.4),
    "a little slower": Mirror(2, slow=1.3),
    "both slower": Mirror(2, both=5),
    "a stream to one": Mirror(3, stream=4),
    "reads to one": Mirror(3, skew=0.97),
    "larger requests": Mirror(2, size=4),
}


@pytest.mark.parametrize("mirror", WELL.values(), ids=WELL)
def test_a_mirror_that_is_well_is_no_alarm_whatever_it_is_asked_for(mirror: Mirror) -> None:
    assert [watched(mirror, seed) for seed in range(2)] == [[], []]


def test_without_a_past_nobody_is_judged() -> None:
    assert watched(Mirror(1, since_day=0.3, slow=5), 1) == []


def test_a_mirror_that_becomes_slow_over_weeks_is_told_by_its_first_day() -> None:
    declining = Mirror(32, every_s=3000, since_day=8, slow=3, slow_in_days=20)
    (raised,) = watched(declining, 1)
    assert raised.member == "/dev/sda"
    assert raised.day > 15, "less than twice as slow before"


def test_a_slow_member_that_is_lost_is_slow_no_more_and_its_successor_has_a_past_of_its_own() -> None:
    watcher = ArrayWatcher(clock=LookClock(600))
    (told,) = notices_of(watcher, looks(Mirror(1.5, slow=3), 1))
    whole = Sheet("md", "/dev/md0", "raid1", 1 << 40, State("normal"), tuple(Member(n, "active") for n in DISKS), 2)
    first, second = whole.members
    idle = Seen((whole,), unread={})
    assert notices_of(watcher, iter([idle] * 5)) == []  # silence is no recovery
    degraded = Sheet(
        "md", "/dev/md0", "raid1", 1 << 40, State("degraded", missing=1), (Member("–", "missing", 0), second), 2
    )
    assert degraded.key == whole.key
    texts = [notice.text for notice in notices_of(watcher, iter([Seen((degraded,))] * 4))]
    assert any(first.name in text and "is no longer one of them" in text for text in texts), texts
    # Slower than its predecessor from its first day on: that is how it is.
    assert [n for n in notices_of(watcher, looks(Mirror(2, since_day=0, slow=3), 2)) if n.key == told.key] == []


def test_what_an_earlier_watch_kept_without_sizes_judges_nobody() -> None:
    """Its windows are forgotten, and half a day later members are judged again."""
    old = {name: Window(50.0, 5.0) for name in DISKS}
    memory = PeersMemory(windows={name: [window] * 30 for name, window in old.items()}, past=[old] * 100)
    assert paces(memory) == []
    (array,) = next(looks(Mirror(1), 0)).arrays
    watcher = ArrayWatcher(memory=WatchMemory(peers={array.key: memory}), clock=LookClock(600))
    (told,) = notices_of(watcher, looks(Mirror(2, slow=3), 3))
    assert str(told.key) == "slow /dev/md0 /dev/sda"
    of_flushes = {name: [Window(5.0, 500.0)] * 20 for name in DISKS}  # some kernels count them as writes of nothing
    assert [pace.slow_share for pace in paces(msgspec.structs.replace(memory, windows=of_flushes))] == [0.0, 0.0]


def test_old_defects_of_a_drive_are_told_once_and_new_ones_as_errors() -> None:
    def seen(**told: int) -> Seen:
        return Seen(drives=(Drive("sda", msgspec.convert(told, HealthSheet)),))

    watcher = ArrayWatcher()
    first = watcher.look(seen(reallocated_sectors=8, media_errors=0))
    assert [(n.kind, n.severity) for n in first] == [("counts", "warning")]
    assert "8 when the watch looked for the first time" in first[0].text
    assert watcher.look(seen(reallocated_sectors=8, media_errors=0)) == []
    (more,) = watcher.look(seen(reallocated_sectors=9, media_errors=0))
    assert more.severity == "error"
    (media,) = watcher.look(seen(reallocated_sectors=9, media_errors=2))
    assert "media errors of the drive sda: 2 more" in media.text


def test_a_store_that_is_damaged_or_has_no_room_is_an_alarm(tmp_path: Path) -> None:
    place = tmp_path / "runs.db"
    assert look_at_store(place) is None
    Store(place).close()
    well = look_at_store(place)
    assert well is not None
    assert (well.problem, bool(well.free_bytes)) == ("", True)
    place.write_bytes(b"this is no store" * 1000)
    watcher = ArrayWatcher()
    bad = look_at_store(place)
    told = notices_of(watcher, iter([Seen(store=bad), Seen(store=bad)]))
    assert [(n.kind, n.severity) for n in told] == [("begins", "error")]
    assert [n.kind for n in notices_of(watcher, iter([Seen(store=well)] * 3))] == ["ends"]
    short = Seen(store=StoreSeen("/x/runs.db", "", 5 << 20))
    (room,) = notices_of(watcher, iter([short, short]))
    assert room.text == "the store /x/runs.db has room for 5 MiB more; a run ends where it is full"


def write(place: Path, text: str) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A tree as the kernel shows it: a host adapter with two disks, one of them in an enclosure with an LED."""
    sys = tmp_path / "sys"
    adapter = sys / "devices/pci0000:00/0000:03:00.0"
    for name, text in (("vendor", "0x1000"), ("device", "0x0097"), ("class", "0x010700")):
        write(adapter / name, text)
    write(sys / "class/scsi_host/host0/version_fw", "16.00.10.00\n")
    for name, number in (("sda", 0), ("sdb", 1)):
        device = adapter / f"host0/target0:0:{number}/0:0:{number}:0"
        for field, text in (
            ("vendor", "SEAGATE "),
            ("model", "ST4000NM0023"),
            ("rev", "0004"),
            ("serial", f"Z1{name}"),
        ):
            write(device / field, text)
        block = device / "block" / name
        for field, text in (("size", "7814037168"), ("queue/rotational", "1")):
            write(block / field, text)
        write(block / "stat", f"{100 * (number + 1)} 0 800 400 50 0 400 100 0 300 500")
        (block / "device").symlink_to(device)
        (sys / "class/block").mkdir(parents=True, exist_ok=True)
        (sys / "class/block" / name).symlink_to(block)
    slot = sys / "class/enclosure/0:0:9:0/Slot 07"
    for name, text in (("slot", "7"), ("locate", "0"), ("fault", "0")):
        write(slot / name, text)
    write(slot.parent / "id", "0x500605b0")
    (slot / "device").symlink_to(adapter / "host0/target0:0:0/0:0:0:0")
    return Host(Roots(sys=str(sys), proc=str(tmp_path / "proc"), tools=NoTools()))


def test_disks_and_controllers_are_listed_with_their_places(host: Host) -> None:
    first, second = disks(host)
    assert (first.name, first.model, first.serial, first.firmware) == ("sda", "SEAGATE ST4000NM0023", "Z1sda", "0004")
    assert (first.size_bytes, first.rotates, first.controller) == (7814037168 * 512, True, "0000:03:00.0")
    assert first.slot is not None
    assert (first.slot.enclosure, first.slot.slot, first.slot.locate) == ("0x500605b0", "7", False)
    assert second.slot is None
    (controller,) = controllers(host, [first, second])
    assert (controller.firmware, controller.disks) == ("16.00.10.00", ["sda", "sdb"])
    array = Sheet(
        "md", "/dev/md0", "raid1", 1, State("normal"), (Member("/dev/sda", "active"), Member("/dev/sdb", "active")), 2
    )
    assert look_at_members(host, array) == {
        "/dev/sda": MemberCounters(150, 500, 1200 * 512, 100),
        "/dev/sdb": MemberCounters(250, 500, 1200 * 512, 200),
    }


def test_the_led_of_a_disk_blinks_with_consent_alone_and_the_audit_log_has_it(host: Host, tmp_path: Path) -> None:
    audit = AuditLog(tmp_path / "audit.jsonl")
    led = Path(host.roots.sys) / "class/enclosure/0:0:9:0/Slot 07/locate"
    with pytest.raises(BadInputError, match="--manage"):
        managing.do(Deed("locate", "sda", ""), "operator x", audit, manage=False, host=host)
    assert led.read_text() == "0"
    assert "blinks" in managing.do(Deed("locate", "sda", ""), "operator x", audit, manage=True, host=host)
    assert led.read_text().strip() == "1"
    managing.do(Deed("locate-off", "sda", ""), "operator x", audit, manage=True, host=host)
    assert led.read_text().strip() == "0"
    for name, words in (("sdb", "no enclosure"), ("../../etc/passwd", "no such disk")):
        with pytest.raises(BadInputError, match=words):
            managing.do(Deed("locate", name, ""), "operator x", audit, manage=True, host=host)
    assert [line.what for line in audit.newest()][-2:] == ["refused", "asked"]


def test_trends_keep_what_changes_and_little_else(tmp_path: Path) -> None:
    book = TrendBook(tmp_path / "state" / "health.json")

    def look(at_s: float, **told: int) -> list[str]:
        return book.take({"Z1": msgspec.convert(told, HealthSheet)}, at_s)

    for look_number in range(200):  # a day and a half, every ten minutes
        look(1e9 + 600 * look_number, temperature_celsius=30 + look_number % 5, reallocated_sectors=look_number // 150)
    kept = book.of("Z1")
    assert 6 <= len(kept) <= 8
    assert [one.reallocated_sectors for one in kept][-1] == 1
    assert kept[-1].unix_s > kept[0].unix_s
    before = book.place.read_bytes()
    assert "a sample of a later time" in look(9e8, temperature_celsius=20)[0]  # it was set back by years
    assert book.place.read_bytes() == before
    assert look(1e9 + 2 * DAY_S, temperature_celsius=20) == []
    assert len(book.of("Z1")) == len(kept) + 1


def test_trends_that_cannot_be_read_are_set_aside_and_not_written_over(tmp_path: Path) -> None:
    book = TrendBook(tmp_path / "health.json")
    told = {"Z1": HealthSheet(temperature_celsius=30)}
    book.take(told, 1e9)
    cut = book.place.read_bytes()[:-9]
    for number in (1, 2):
        book.place.write_bytes(cut)
        assert book.of("Z1") == []
        assert f"health.json.damaged-{number}" in book.take(told, 1e9)[0]
        assert (tmp_path / f"health.json.damaged-{number}").read_bytes() == cut
        assert len(book.of("Z1")) == 1


def test_windows_of_the_day_are_read_and_kept() -> None:
    assert window_minutes("") == (0, 0)
    assert window_minutes("22:00-06:30") == (1320, 390)
    for wrong in ("22-06", "24:00-01:00", "05:00-05:00", "x"):
        with pytest.raises(BadInputError, match="window"):
            window_minutes(wrong)

    def at(hour: int, minute: int = 0) -> float:
        return time.mktime((2026, 3, 10, hour, minute, 0, 0, 0, -1))

    night = ScrubPlan(DAY_S, 1320, 390)
    assert [night.is_open(at(*when)) for when in ((21, 59), (22, 0), (3, 0), (6, 29), (6, 30))] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert ScrubPlan(DAY_S).is_open(at(12))


class Work:
    """A scrub that goes on elsewhere."""

    def __init__(self, said: list[str], name: str, rate: int | None) -> None:
        self.said = said
        said.append(f"begins {name} {rate}")

    def __enter__(self) -> Work:
        return self

    def begin(self) -> None:
        self.said.append("runs")

    def __exit__(self, *_: object) -> None:
        self.said.append("ended")


def test_a_plan_of_the_page_is_kept_to_by_the_watch_within_its_window(tmp_path: Path) -> None:
    book, done = ScrubBook(tmp_path / "scrubs.json"), list[str]()
    schedule = Schedule(None, lambda name, rate: Work(done, name, rate), book=book)
    last: dict[str, Any] = {}

    def at(hour: int, day: int = 10) -> float:
        return time.mktime((2026, 3, day, hour, 0, 0, 0, 0, -1))

    def look(state: StateName, hour: int, day: int = 10) -> None:
        schedule.look(Seen((sheet(state),)), last, at(hour, day), lambda _: None)

    look("normal", 23)
    assert done == []  # without a plan nothing is scrubbed
    book.set(sheet().key, ScrubPlan(7 * DAY_S, 22 * 60, 6 * 60, 20 << 20, "operator x"))
    look("normal", 12)
    assert done == []
    look("normal", 23)
    assert done == [f"begins /dev/md0 {20 << 20}", "runs"]
    look("scrubbing", 2, 11)
    look("scrubbing", 7, 11)
    assert done[2:] == ["ended"]  # its time of day is over
    assert last == {}
    look("normal", 23, 11)
    look("scrubbing", 1, 12)
    look("normal", 2, 12)
    assert done[3:] == [f"begins /dev/md0 {20 << 20}", "runs", "ended"]
    assert list(last) == ["/dev/md0"]
    look("normal", 23, 14)
    assert len(done) == 6  # a week has not gone by
    last["/dev/md0"] = at(23, 14) + 400 * DAY_S  # the clock was set back: it must not wait for a year
    look("normal", 23, 14)
    assert len(done) == 8
    book.set(sheet().key, None)
    look("scrubbing", 0, 15)
    assert done[8:] == ["ended"]


def test_a_schedule_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    book = ScrubBook(tmp_path / "scrubs.json")
    with pytest.raises(BadInputError, match="once an hour"):
        book.set("md x", ScrubPlan(60.0))
    assert book.all() == {}


class Receiver(ThreadingHTTPServer):
    """Keeps what is posted to it."""

    def __init__(self) -> None:
        self.got: list[Any] = []
        super().__init__(("127.0.0.1", 0), Receiving)


class Receiving(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def relay_to(receiver: Receiver, tmp_path: Path) -> notify.Relay:
    place = tmp_path / "addresses"
    place.write_text(f"json://127.0.0.1:{receiver.server_address[1]}/alarms\n")
    place.chmod(0o600)
    return notify.relay(place)


def test_apprise_sends_to_a_real_receiver_and_a_dead_one_is_said(receiver: Receiver, tmp_path: Path) -> None:
    way = relay_to(receiver, tmp_path)
    way.send(
        Notice(AlarmKey.read("array /dev/md0"), "begins", "error", "/dev/md0 (raid5) is degraded: a member is missing")
    )
    (got,) = receiver.got
    assert got["message"] == "/dev/md0 (raid5) is degraded: a member is missing"
    assert (got["type"], "error" in got["title"]) == ("failure", True)
    receiver.shutdown()
    receiver.server_close()
    with pytest.raises(Exception, match="not all of 1 addresses"):
        way.send(Notice(AlarmKey.read("store x room"), "begins", "warning", "y"))


def test_the_test_button_sends_by_the_ways_of_the_watch(receiver: Receiver, tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        client = served.login()
        assert "no watch is running" in client.post("/api/alarms/test", {}).json["error"]
        book = AlarmBook(served.web.alarms.place)
        dead = notify.webhook("http://127.0.0.1:1/none")
        nowhere = Host(Roots(sys=str(tmp_path / "nosys"), proc=str(tmp_path / "noproc"), tools=NoTools()))
        guard = Guard(ArrayWatcher(), [relay_to(receiver, tmp_path), dead], lambda _: None, host=nowhere, book=book)
        guard.look()
        asked = client.post("/api/alarms/test", {})
        assert asked.status == 200
        assert client.post("/api/alarms/test", {}).status == 409  # one at a time, whoever asks
        assert "Send a test message" in client.get("/alarms").text
        guard.look()
        told = client.get("/api/alarms").json["test"]
        assert told["lines"][0] == "apprise: sent"
        assert told["lines"][1].startswith("webhook: webhook at 127.0.0.1: ")
        assert "a test message for operator" in receiver.got[0]["message"]
        guard.look()
        assert len(receiver.got) == 1
        assert "apprise: sent" in client.get("/alarms").text


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("web"), manage=True) as found:
        yield found


@pytest.fixture(scope="module")
def client(served: Served) -> Client:
    return served.login()


def test_every_disk_of_this_host_has_a_page_with_its_trends(client: Client, served: Served) -> None:
    listed = client.get("/api/disks").json["disks"]
    assert {f"/dev/{disk['name']}" for disk in listed} <= set(managing.devices())
    assert client.get("/disks/none").status == 404
    assert client.get("/api/disks/..%2fx/trends").status == 404
    for disk in listed[:1]:
        who = disk["serial"] or disk["name"]
        for day in range(3):
            told = msgspec.convert({"reallocated_sectors": day, "temperature_celsius": 30 + day}, HealthSheet)
            served.web.trends.take({who: told}, 1e9 + day * DAY_S)
        page = client.get(f"/disks/{disk['name']}").text
        assert "Reallocated sectors: 0 → 2" in page
        assert len(client.get(f"/api/disks/{disk['name']}/trends").json["samples"]) == 3


def test_what_users_get_is_reckoned_from_the_counters() -> None:
    names = ("read_requests", "read_bytes", "read_ms", "write_requests", "write_bytes", "write_ms")
    before = dict.fromkeys(names, 100)
    after = {**before, "read_requests": 200, "read_ms": 300, "read_bytes": 100 + (1 << 20), "write_requests": 200}
    load = managing.user_load(before, after, 2.0)
    assert load is not None
    assert (load.requests_per_s, load.bytes_per_s, load.service_ns) == (100.0, (1 << 20) / 2, 1e6)
    idle = managing.user_load(before, before, 2.0)
    assert idle is not None
    assert (idle.requests_per_s, idle.service_ns) == (0.0, None)
    assert managing.user_load(after, before, 2.0) is None  # the counters began anew


def test_arrays_and_disks_whose_names_begin_alike_are_told_apart() -> None:
    first, twelfth = sheet(), Sheet("md", "/dev/md12", "raid1", 1 << 40, State("normal"), (), 2)
    for name, mine, other in (("/dev/md1", "/dev/md1", first), ("/dev/md12", "/dev/md12", twelfth)):
        own = Sheet("md", name, "raid1", 1 << 40, State("normal"), (Member("/dev/sdaa", "active", 0),), 2)
        texts = {
            f"array {mine}": f"{mine} (raid1) is degraded",
            f"array {mine} initial resync": f"{mine}: an initial resync has begun",
            f"slow {mine} /dev/sdaa": f"/dev/sdaa is slow beside the other members of {mine}: its requests",
            f"errors {mine} /dev/sdaa": f"errors of /dev/sdaa in {mine}: 3 more",
            f"member {mine} /dev/sdx": f"/dev/sdx, a member of {mine}, is faulty",
        }
        for text in texts:
            key = AlarmKey.read(text)
            assert estate._is_about(own, key), key
            for stranger in ("/dev/md", "/dev/md123", "/dev/md0"):
                alike = Sheet("md", stranger, "raid1", 1 << 40, State("normal"), (), 2)
                assert not estate._is_about(alike, key), (stranger, key)
            assert not estate._is_about(other if other.name != mine else first, key)
    on = [("/dev/sda", "sda"), ("/dev/sda12", "sda"), ("/dev/nvme0n1p3", "nvme0n1")]
    assert all(estate._is_on(member, disk) for member, disk in on)
    off = [("/dev/sdaa", "sda"), ("/dev/sdaa1", "sda"), ("/dev/nvme0n10", "nvme0n1"), ("/dev/nvme0n10p1", "nvme0n1")]
    assert not any(estate._is_on(member, disk) for member, disk in off)


def test_every_request_to_change_an_array_is_noted_also_where_it_is_refused(tmp_path: Path) -> None:
    def asked(action: str, array: str) -> dict[str, Any]:
        return {"action": action, "array": array, "confirm": array, "names": ["/dev/sdz"], "level": "raid1"}

    with serving(tmp_path, manage=True) as served:
        operator, reader = served.login(), served.login(READER)
        assert operator.post("/api/arrays/do", asked("destroy", "nobody")).status == 404
        assert reader.post("/api/arrays/do", asked("scrub", "nobody")).status == 403
        assert operator.post("/api/arrays/do", asked("create", "/dev/\ud800")).status == 400
        assert operator.post("/api/arrays/do", asked("stop-scrub", "x"), X_CSRF_Token="old").status == 403
        assert operator.post("/api/arrays/do", {"action": "fail"}).status == 400
        served.web.audit.note("x", "asked", {"action": "locate", "names": ("/dev/\udfff",)})
        with served.web.audit.place.open("ab") as file:
            file.write(b'[1, 2]\n"text"\n{"at_unix_ns": "soon"}\n')
        assert operator.get("/arrays").status == 200
        lines = [one for one in operator.get("/api/audit").json["audit"] if one["what"] != "login"]
    actions = [(line["what"], line["asked"].get("action")) for line in reversed(lines)]
    refused = [("refused", name) for name in ("destroy", "scrub", None, "stop-scrub", "fail")]
    assert actions == [*refused, ("asked", "locate")]
    assert lines[-2]["by"].startswith("reader ")


@pytest.mark.parametrize(
    ("kind", "able", "unable"),
    [
        ("md", {"scrub", "rebuild-rate", "spare", "fail", "remove", "replace", "schedule"}, {"create"}),
        ("zfs", {"scrub", "schedule", "fail"}, {"spare", "replace", "remove", "rebuild-rate"}),
        ("perccli", {"scrub", "stop-scrub", "fail"}, {"spare", "replace", "remove", "destroy"}),
        ("ssacli", set(), {"scrub", "schedule", "fail", "spare"}),
    ],
)
def test_of_each_kind_of_array_only_what_it_can_do_is_offered(kind: str, able: set[str], unable: set[str]) -> None:
    offered = set(managing.possible(replace(sheet(), kind=kind)))
    assert (able - offered, unable & offered) == (set(), set())


def test_without_a_watch_a_degraded_array_stands_on_every_page_until_it_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = json.loads(storcli_reply({"Virtual Drives": [{"DG/VD": "0/1"}]}))
    name = "storcli:/c0/v1"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def controller(state: str, drives: list[str]) -> None:
        storcli_host(tmp_path, state, drives, **{"storcli64 /call/vall show J": json.dumps(listed)})

    monkeypatch.setattr(estate, "PATIENCE_S", 60.0)

    def told(client: Client) -> tuple[str, str]:
        estate.looks.forget()
        assert any(one["name"] == name for one in client.get("/api/arrays").json["arrays"])
        found = client.get("/api/session").json["standing"]
        assert found["text"] in html.unescape(client.get("/results").text)
        return found["severity"], found["text"]

    controller("Dgrd", ["Onln", "Onln", "Offln"])
    with serving(tmp_path) as served:
        client = served.login()
        assert told(client) == ("error", f"{name} (raid5): degraded; no watch is running")
        controller("Optl", ["Onln"] * 3)
        assert told(client) == ("note", "no watch is running")
        begun = Notice(
            AlarmKey.read(f"array {name}"), "begins", "error", f"{name} (raid5) is degraded: a member is missing"
        )
        served.web.alarms.take([begun], {}, 1e9)  # by a watch that stopped years ago
        assert told(client) == ("warning", f"{begun.text} (the watch has stopped since; the array looks well now)")
        controller("Dgrd", ["Onln", "Onln", "Offln"])
        assert told(client) == ("error", f"{begun.text} (the watch has stopped since)")
        served.web.alarms.take([], {}, time.time())
        assert told(client) == ("error", begun.text)  # a watch is there again, and has better words
        served.web.alarms.take([Notice(begun.key, "ends", "note", "all members again")], {}, time.time())
        assert told(client) == ("error", f"{name} (raid5): degraded")
        controller("Optl", ["Onln"] * 3)
        assert told(client) == ("well", "no alarm")
    estate.looks.forget()
