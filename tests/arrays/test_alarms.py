"""Alarms: raised once, acknowledged by people, reminded of, silenced where we are the cause, cleared by repair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brickyard.arrays.alarms import AlarmBook, AlarmState
from brickyard.arrays.health import Notice
from brickyard.arrays.keys import AlarmKey, AlarmKind
from brickyard.arrays.notify import relay
from brickyard.errors import BadInputError, BrickyardError

DEGRADED = Notice(
    AlarmKey.read("array /dev/md0"), "begins", "error", "/dev/md0 (raid5) is degraded: a member is missing"
)
REBUILDS = Notice(
    AlarmKey.read("array /dev/md0"), "changes", "note", "/dev/md0 (raid5) is degraded, and a rebuild is under way"
)
WELL = Notice(AlarmKey.read("array /dev/md0"), "ends", "note", "/dev/md0 has all its members again")
SCRUB = Notice(
    AlarmKey.read("array /dev/md0 scrub"),
    "changes",
    "warning",
    "/dev/md0: the scrub stopped near 40%: it is not complete",
)
ERRORS = Notice(
    AlarmKey.read("drive sda media_errors"), "counts", "error", "media errors of the drive sda: 2 more, 2 in all"
)


@pytest.fixture
def book(tmp_path: Path) -> AlarmBook:
    return AlarmBook(tmp_path / "alarms.json")


def states(book: AlarmBook) -> dict[AlarmKey, str]:
    return {alarm.key: alarm.state.value for alarm in book.all()}


def test_an_alarm_lasts_until_the_repair_and_no_longer(book: AlarmBook) -> None:
    assert book.take([DEGRADED], {}, 100.0) == [DEGRADED]
    assert book.take([REBUILDS], {}, 200.0) == [REBUILDS]
    (alarm,) = book.all()
    assert (alarm.state, alarm.text, alarm.since_s) == (AlarmState.RAISED, REBUILDS.text, 100.0)
    assert book.take([WELL], {}, 300.0) == [WELL]
    assert states(book) == {DEGRADED.key: "cleared"}
    assert book.remind(1.0, 10_000.0) == []
    book.take([DEGRADED], {}, 400.0)
    (alarm,) = book.all()
    assert (alarm.state, alarm.times, alarm.since_s) == (AlarmState.RAISED, 1, 400.0)


def test_what_nobody_has_acknowledged_is_reminded_of(book: AlarmBook) -> None:
    book.take([DEGRADED], {}, 0.0)
    assert book.remind(3600.0, 3599.0) == []
    (again,) = book.remind(3600.0, 3600.0)
    assert (again.kind, again.severity) == ("reminds", "error")
    assert book.remind(3600.0, 3700.0) == []
    assert book.remind(3600.0, -5000.0) == []  # the clock was set back
    assert len(book.remind(3600.0, -1400.0)) == 1
    assert book.acknowledge(str(DEGRADED.key), "operator a", 8000.0).by == "operator a"
    assert book.remind(3600.0, 100_000.0) == []
    assert states(book) == {DEGRADED.key: "acknowledged"}
    worse = Notice(DEGRADED.key, "changes", "error", "/dev/md0 (raid5) has failed")
    assert book.take([worse], {}, 9000.0) == [worse]
    assert states(book) == {DEGRADED.key: "raised"}
    with pytest.raises(BadInputError, match="no such alarm"):
        book.acknowledge("array /dev/md9", "operator a")


def test_our_own_work_silences_warnings_and_never_errors(book: AlarmBook) -> None:
    ours = {"/dev/md0": "held by `brickyard run` (pid 1)"}
    assert book.take([SCRUB, DEGRADED], ours, 0.0) == [DEGRADED]
    assert states(book) == {DEGRADED.key: "raised", SCRUB.key: "silenced"}
    assert book.take([], ours, 10.0) == []
    (told,) = book.take([], {}, 20.0)
    assert (told.key, told.text) == (SCRUB.key, SCRUB.text)
    assert states(book)[SCRUB.key] == "raised"
    assert book.take([Notice(SCRUB.key, "ends", "note", "over")], {}, 30.0)
    assert states(book)[SCRUB.key] == "cleared"


def test_a_silenced_alarm_that_ends_is_never_told(book: AlarmBook) -> None:
    ours = {"/dev/md0": "its scheduled scrub is under way"}
    assert book.take([SCRUB], ours, 0.0) == []
    assert book.take([Notice(SCRUB.key, "ends", "note", "over")], ours, 1.0) == []
    assert book.take([], {}, 2.0) == []


def test_counts_are_cleared_by_whoever_has_seen_them_and_raised_by_more(book: AlarmBook) -> None:
    book.take([ERRORS], {}, 0.0)
    book.take([ERRORS], {}, 1.0)
    assert book.all()[0].times == 2
    assert book.acknowledge(str(ERRORS.key), "operator", 2.0).state is AlarmState.CLEARED
    assert book.take([ERRORS], {}, 3.0) == [ERRORS]
    assert states(book) == {ERRORS.key: "raised"}


def test_what_happened_is_kept_newest_first_and_not_without_end(book: AlarmBook) -> None:
    book.take([DEGRADED], {}, 1.0)
    book.take([REBUILDS], {"/dev/md0": "a run"}, 2.0)
    book.take([WELL], {}, 3.0)
    assert [(event.at_s, event.text) for event in book.events] == [
        (3.0, WELL.text), (2.0, REBUILDS.text), (1.0, DEGRADED.text),
    ]  # fmt: skip
    book.take([ERRORS] * 700, {}, 4.0)
    assert len(book.events) == 500


def test_the_worst_stands_first(book: AlarmBook) -> None:
    full = Notice(AlarmKey.read("file system /srv full"), "begins", "warning", "the file system at /srv is 96% full")
    member = Notice(AlarmKey.read("member /dev/sdb"), "begins", "error", "/dev/sdb, a member of /dev/md0, is faulty")
    book.take([full, member, DEGRADED], {}, 0.0)
    book.acknowledge(str(member.key), "operator", 1.0)
    assert [alarm.key for alarm in book.all()] == [DEGRADED.key, member.key, full.key]
    book.take([WELL], {}, 2.0)
    assert book.all()[-1].key == DEGRADED.key


def test_addresses_of_apprise_are_checked_and_kept_secret(tmp_path: Path) -> None:
    place = tmp_path / "addresses"
    place.write_text("# mail\njson://user:geheim@127.0.0.1:9/\n")
    place.chmod(0o644)
    with pytest.raises(BadInputError, match="chmod 600"):
        relay(place)
    place.chmod(0o600)
    assert "geheim" not in repr(relay(place))
    place.write_text("nothing://known\n")
    with pytest.raises(BadInputError, match="address 1") as error:
        relay(place)
    assert "nothing" not in str(error.value)


KEYS = {
    "array /dev/md0": ("array", "/dev/md0", ""),
    "array /dev/md0 'initial resync'": ("array", "/dev/md0", "initial resync"),
    "array 'my pool' scrub": ("array", "my pool", "scrub"),
    "slow /dev/md0 /dev/sda": ("slow", "/dev/md0", "/dev/sda"),
    "file system '/srv/my data' read-only": ("file system", "/srv/my data", "read-only"),
    "look storcli": ("look", "storcli", ""),
}
OLDER = {
    "array /dev/md0 initial resync": ("array", "/dev/md0", "initial resync"),
    "array my pool": ("array", "my pool", ""),
    "array my pool scrub": ("array", "my pool", "scrub"),
    "file system /srv/my data full": ("file system", "/srv/my data", "full"),
    "file system /srv/it's full": ("file system", "/srv/it's", "full"),
    "look a b": ("look", "a b", ""),
}
"""As versions wrote them that put names with spaces as they are."""


def test_a_key_is_read_as_it_was_written_and_as_earlier_versions_wrote_it(book: AlarmBook) -> None:
    for text, parts in {**KEYS, **OLDER}.items():
        key = AlarmKey.read(text)
        assert (key.kind, key.name, key.part) == parts, text
        assert AlarmKey.read(str(key)) == key
        assert str(key) == text or text in OLDER
    kept = {"severity": "warning", "text": "t", "state": "raised", "since_s": 0, "changed_s": 0, "reminded_s": 0}
    book.place.write_text(json.dumps({"book": "alarms", "alarms": [{"key": "array my pool scrub", **kept}]}))
    book.take([Notice(AlarmKey(AlarmKind.ARRAY, "my pool", "scrub"), "ends", "note", "over")], {}, 1.0)
    assert states(book) == {AlarmKey.read("array 'my pool' scrub"): "cleared"}
    book.place.write_text(json.dumps({"book": "alarms", "alarms": [{"key": "bogus", **kept}]}))
    with pytest.raises(BrickyardError, match="`bogus` names no kind of alarm"):
        book.all()
