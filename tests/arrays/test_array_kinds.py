"""What the tools of btrfs, LVM, ZFS and of controllers tell, as their manuals describe it, and anything else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from array_support import asked, host, storcli_host, storcli_reply
from brickyard.arrays import Host, btrfs, lvm, named, zfs
from brickyard.arrays.controllers import CONTROLLERS, arcconf, controller_arrays, ssacli, storcli, tw_cli
from brickyard.errors import BadInputError, BrickyardError


def test_storcli_volume_in_every_state(tmp_path: Path) -> None:
    sheet = named("storcli:/c0/v1", storcli_host(tmp_path, "Optl", ["Onln"] * 3)).sheet()
    assert (sheet.level, sheet.state.name, sheet.size_bytes) == ("raid5", "normal", 3905945600 * 512)
    assert [member.name for member in sheet.members] == ["252:0", "252:1", "252:2"]
    assert sheet.extra.device == "/dev/sdb"
    degraded = named("storcli:/c0/v1", storcli_host(tmp_path, "Dgrd", ["Onln", "Onln", "Offln"])).state()
    assert (degraded.name, degraded.missing) == ("degraded", 1)
    rebuild = storcli_reply([{"Drive-ID": "/c0/e252/s2", "Progress%": 37, "Status": "In progress"}])
    busy = storcli_host(tmp_path, "Dgrd", ["Onln", "Onln", "Rbld"], **{"storcli64 /c0/e252/s2 show rebuild J": rebuild})
    state = named("storcli:/c0/v1", busy).state()
    assert (state.name, state.progress_share) == ("rebuilding", 0.37)
    checked = storcli_reply([{"VD": 1, "Operation": "CC", "Progress%": 5, "Status": "In progress"}])
    state = named(
        "storcli:/c0/v1",
        storcli_host(tmp_path, "Optl", ["Onln"] * 3, **{"storcli64 /c0/v1 show cc J": checked}),
    ).state()
    assert (state.name, state.progress_share) == ("scrubbing", 0.05)


def test_storcli_is_told_what_to_do_in_its_own_words(tmp_path: Path) -> None:
    done = storcli_reply([])
    place = storcli_host(
        tmp_path,
        "Optl",
        ["Onln"] * 3,
        **{"storcli64 /c0/e252/s2 set offline J": done, "storcli64 /c0/e252/s2 start rebuild J": done},
    )
    array = named("storcli:/c0/v1", place)
    assert (array.redundancy(), array.failable()) == (1, "252:2")
    array.check_redundant()
    array.fail("252:2")
    array.give_back("252:2")
    orders = [line for line in asked(tmp_path) if " set " in line or " start " in line]
    assert orders == ["storcli64 /c0/e252/s2 set offline J", "storcli64 /c0/e252/s2 start rebuild J"]
    with pytest.raises(BadInputError, match="cannot make storcli accept a rebuild rate"):
        array.limit_settings(1 << 20)


def test_a_refusal_of_storcli_is_passed_on(tmp_path: Path) -> None:
    no = json.loads(storcli_reply([], "Failure", "Un-supported command"))
    no["Controllers"][0]["Command Status"]["Detailed Status"] = [{"ErrMsg": "VD doesn't exist", "ErrCd": 2}]
    with pytest.raises(BrickyardError, match="VD doesn't exist"):
        named("storcli:/c0/v1", host(tmp_path, {"storcli64 /c0/v1 show all J": json.dumps(no)})).sheet()


UNITS = """
Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
------------------------------------------------------------------------------
u0    RAID-5    {status:<14} {share:<7} -       64K     931.303   RiW    ON
u1    SPARE     OK             -       -       -       465.753   -      OFF
"""
SUBUNITS = """
Unit     UnitType  Status         %RCmpl  %V/I/M  Port  Stripe  Size(GB)
------------------------------------------------------------------------
u0       RAID-5    {unit:<14} 12%     -       -     64K     931.303
u0-0     DISK      OK             -       -       p0    -       465.651
u0-1     DISK      OK             -       -       p1    -       465.651
u0-2     DISK      {disk:<14} -       -       {port}    -       465.651
"""


@pytest.mark.parametrize(
    ("unit", "share", "disk", "port", "state", "missing"),
    [
        ("OK", "-", "OK", "p2", "normal", 0),
        ("DEGRADED", "-", "DEGRADED", "- ", "degraded", 1),
        ("REBUILDING", "12%", "REBUILDING", "p2", "rebuilding", 1),
        ("REBUILD-PAUSED", "12%", "REBUILDING", "p2", "delayed", 1),
        ("INOPERABLE", "-", "DEGRADED", "- ", "failed", 1),
    ],
)
def test_3ware_units(tmp_path: Path, unit: str, share: str, disk: str, port: str, state: str, missing: int) -> None:
    place = host(
        tmp_path,
        {
            "tw_cli /c0 show unitstatus": UNITS.format(status=unit, share=share),
            "tw_cli /c0/u0 show": SUBUNITS.format(unit=unit, disk=disk, port=port),
        },
    )
    sheet = named("tw_cli:/c0/u0", place).sheet()
    assert (sheet.level, sheet.state.name, sheet.state.missing) == ("raid-5", state, missing)
    assert sheet.state.progress_share == (None if share == "-" else 0.12)
    assert [member.name for member in sheet.members] == ["p0", "p1", port.strip().replace("-", "–")]


def test_3ware_controllers_are_found_and_obeyed(tmp_path: Path) -> None:
    place = host(
        tmp_path,
        {
            "tw_cli show": "\nCtl   Model        (V)Ports  Drives   Units\n----\nc0    9650SE-4LPML  4  4  2\n",
            "tw_cli /c0 show unitstatus": UNITS.format(status="OK", share="-"),
            "tw_cli /c0/p2 remove quiet": "Removing port /c0/p2 ... Done.",
            "tw_cli /c0 rescan noscan": "Done.",
            "tw_cli /c0/u0 start rebuild disk=2": "Sending rebuild start request ... Done.",
        },
    )
    assert [array.name for array in controller_arrays(place, "tw_cli")] == ["tw_cli:/c0/u0", "tw_cli:/c0/u1"]
    array = named("tw_cli:/c0/u0", place)
    array.fail("p2")
    array.give_back("p2")
    assert asked(tmp_path)[-3:] == [
        "tw_cli /c0/p2 remove quiet",
        "tw_cli /c0 rescan noscan",
        "tw_cli /c0/u0 start rebuild disk=2",
    ]


LOGICAL = """Controllers found: 1
----------------------------------------------------------------------
Logical device information
----------------------------------------------------------------------
Logical Device number 0
   Logical Device name                      : data
   RAID level                               : 5
   Status of Logical Device                 : {status}
   Size                                     : 1906678 MB
   Stripe-unit size                         : 256 KB
   Write-cache status                       : On
   Disk Name                                : /dev/sdc (Disk0)
   --------------------------------------------------------
   Logical Device segment information
   --------------------------------------------------------
   Segment 0                                : Present (953869MB, SATA, HDD, Enclosure:0, Slot:0)  WD-AAA1
   Segment 1                                : Present (953869MB, SATA, HDD, Enclosure:0, Slot:1)  WD-AAA2
   Segment 2                                : {segment} (953869MB, SATA, HDD, Enclosure:0, Slot:2)  WD-AAA3

Command completed successfully.
"""
TASK = """Controllers found: 1
Logical device Task:
   Logical device                 : 0
   Task ID                        : 101
   Current operation              : Rebuild
   Status                         : In Progress
   Priority                       : High
   Percentage complete            : 44

Command completed successfully.
"""
PHYSICAL = """
      Device #2
         Device is a Hard drive
         State                              : Online
         Reported Channel,Device(T:L)       : 0,2(2:0)
         Vendor                             : WDC
         Serial number                      : WD-AAA3
"""


def test_adaptec_devices(tmp_path: Path) -> None:
    quiet = "Controllers found: 1\nCurrent operation              : None\n"

    def told(status: str, segment: str, task: str = quiet) -> Host:
        config = LOGICAL.format(status=status, segment=segment)
        return host(tmp_path, {"arcconf getconfig 1 ld": config, "arcconf getstatus 1": task})

    sheet = named("arcconf:1/0", told("Optimal", "Present")).sheet()
    assert (sheet.level, sheet.state.name, sheet.size_bytes) == ("raid5", "normal", 1906678 << 20)
    assert [member.name for member in sheet.members] == ["WD-AAA1", "WD-AAA2", "WD-AAA3"]
    assert sheet.extra.device == "/dev/sdc"
    degraded = named("arcconf:1/0", told("Degraded", "Missing")).state()
    assert (degraded.name, degraded.missing) == ("degraded", 1)
    rebuilding = named("arcconf:1/0", told("Degraded, Rebuilding", "Rebuilding", TASK)).state()
    assert (rebuilding.name, rebuilding.progress_share) == ("rebuilding", 0.44)


def test_adaptec_drives_are_addressed_by_channel_and_number(tmp_path: Path) -> None:
    place = host(
        tmp_path,
        {
            "arcconf getconfig 1 pd": PHYSICAL,
            "arcconf setstate 1 device 0 2 ddd noprompt": "ok",
            "arcconf setstate 1 device 0 2 rdy noprompt": "ok",
            "arcconf setstate 1 device 0 2 hsp logicaldrive 0 noprompt": "ok",
        },
    )
    array = named("arcconf:1/0", place)
    array.fail("WD-AAA3")
    array.give_back("WD-AAA3")
    assert [line.split()[-2] for line in asked(tmp_path) if "setstate" in line] == ["ddd", "rdy", "0"]
    with pytest.raises(BadInputError, match="no drive of controller 1 has this serial number"):
        array.fail("WD-ZZZ9")


SMART_ARRAY = """
Smart Array P440ar in Slot 0 (Embedded)

   Array A

      Logical Drive: 1
         Size: 1.8 TB
         Fault Tolerance: {level}
         Strip Size: 256 KB
         Status: {status}
         Parity Initialization Status: {parity}
         Disk Name: /dev/sda
         Mount Points: / 1.7 TB Partition Number 2
"""
DRIVES = """
Smart Array P440ar in Slot 0 (Embedded)

   Array A

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 900 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 900 GB, {drive})
      physicaldrive 1I:1:3 (port 1I:box 1:bay 3, SAS HDD, 900 GB, OK, spare)

   Unassigned

      physicaldrive 1I:1:4 (port 1I:box 1:bay 4, SAS HDD, 900 GB, OK)
"""


@pytest.mark.parametrize(
    ("status", "parity", "state", "share"),
    [
        ("OK", "Initialization Completed", "normal", None),
        ("OK", "In Progress, 30% complete", "initializing", 0.3),
        ("Interim Recovery Mode", "", "degraded", None),
        ("Recovering, 12.5% complete", "", "rebuilding", 0.125),
        ("Ready for Rebuild", "", "delayed", None),
        ("Failed", "", "failed", None),
        ("Transforming, 3% complete", "", "reshaping", 0.03),
    ],
)
def test_smart_array_drives(tmp_path: Path, status: str, parity: str, state: str, share: float | None) -> None:
    place = host(
        tmp_path,
        {
            "ssacli ctrl slot=0 ld all show detail": SMART_ARRAY.format(level="1+0", status=status, parity=parity),
            "ssacli ctrl slot=0 pd all show": DRIVES.format(drive="OK"),
        },
    )
    array = named("ssacli:0/1", place)
    sheet = array.sheet()
    assert (sheet.level, sheet.state.name, sheet.state.progress_share) == ("raid10", state, share)
    assert [member.state for member in sheet.members] == ["active", "active", "spare"]
    assert (sheet.wanted, sheet.extra.device) == (2, "/dev/sda")
    with pytest.raises(BadInputError, match="cannot make ssacli take a member out"):
        array.fail("1I:1:1")


def test_addresses_that_name_nothing_are_refused() -> None:
    for address in ("storcli:/c0", "tw_cli:0", "arcconf:1", "ssacli:0", "zfs:", "/nowhere/md9"):
        with pytest.raises(BadInputError):
            named(address)


POOL = {
    "name": "tank",
    "state": "DEGRADED",
    "pool_guid": "1234",
    "scan_stats": {"function": "RESILVER", "state": "SCANNING", "to_examine": 1000, "examined": 900, "issued": 250},
    "vdevs": {
        "tank": {
            "vdev_type": "root",
            "vdevs": {
                "raidz2-0": {
                    "name": "raidz2-0",
                    "vdev_type": "raidz",
                    "vdevs": {
                        "a": {"vdev_type": "disk", "path": "/dev/sda1", "state": "ONLINE", "read_errors": 0},
                        "replacing-1": {
                            "vdev_type": "replacing",
                            "vdevs": {"b": {"vdev_type": "disk", "path": "/dev/sdb1", "state": "OFFLINE"}},
                        },
                        "c": {"vdev_type": "disk", "path": "/dev/sdc1", "state": "ONLINE", "checksum_errors": 3},
                    },
                }
            },
        }
    },
}


def pool(told: object) -> zfs.Pool:
    return zfs.parse_status(json.dumps({"pools": {"tank": told}}))["tank"]


def test_zfs_pool_that_resilvers(tmp_path: Path) -> None:
    told = json.dumps({"output_version": {"command": "zpool status"}, "pools": {"tank": POOL}})
    place = host(tmp_path, {"zpool status -j --json-int -P tank": told})
    sheet = named("zfs:tank", place).sheet()
    assert (sheet.level, sheet.state.name, sheet.state.progress_share) == ("raidz2", "rebuilding", 0.25)
    assert [(member.name, member.state) for member in sheet.members] == [
        ("/dev/sda1", "active"),
        ("/dev/sdb1", "missing"),
        ("/dev/sdc1", "active"),
    ]
    assert sheet.members[2].errors == 3
    assert named("zfs:tank", place).redundancy() == 2
    assert zfs.pool_state(pool({**POOL, "scan_stats": {"function": "SCRUB", "state": "FINISHED"}})).name == "degraded"


def test_lvm_states_by_its_report() -> None:
    def state(**row: str) -> tuple[str, float | None]:
        content = json.dumps({"report": [{"lv": [{"lv_name": "data", "segtype": "raid5_ls", **row}]}]})
        [told] = lvm.parse_lvs(content) or []
        found = lvm.state_of(told)
        return found.name, found.progress_share

    assert state(raid_sync_action="idle", sync_percent="100.00") == ("normal", None)
    assert state(raid_sync_action="recover", sync_percent="12.50") == ("rebuilding", 0.125)
    assert state(raid_sync_action="check", sync_percent="3.00") == ("scrubbing", 0.03)
    assert state(raid_sync_action="idle", lv_health_status="partial") == ("degraded", None)
    assert lvm.split_mapping("my--shop-data--1") == ["my-shop", "data-1"]
    assert lvm.mapping_of("my-shop/data-1") == "my--shop-data--1"


@pytest.mark.parametrize(
    ("profile", "sizes", "usable"),
    [
        ("raid1", [400, 400], 400),
        ("raid1", [400, 100, 100], 200),
        ("raid1c3", [300, 300, 300], 300),
        ("raid10", [100] * 4, 200),
        ("raid6", [100] * 5, 300),
        ("single", [100, 50], 150),
        ("raid9", [100, 100], None),
    ],
)
def test_the_size_of_a_btrfs_is_room_for_data(profile: str, sizes: list[int], usable: int | None) -> None:
    """`df` reports 400 MiB of a raid1 of twice 400 MiB."""
    assert btrfs.usable_bytes(sizes, profile) == usable


def test_text_of_btrfs() -> None:
    assert btrfs.parse_replace_status("0.9% done, 0 write errs, 0 uncorr. read errs") == pytest.approx(0.009)
    assert btrfs.parse_replace_status("Started on 1.Jan 10:00:00, finished on 1.Jan 10:01:00, 0 write errs") is None
    assert btrfs.parse_replace_status("Never started") is None
    running = "Status:           running\nTotal to scrub:   1.00GiB\nBytes scrubbed:   512.00MiB  (50.00%)\n"
    assert btrfs.parse_scrub_status(running) == 0.5
    assert btrfs.parse_scrub_status("\tno stats available\nTime left:        0:00:00\n") == 0.0
    assert btrfs.parse_scrub_status("Status:           finished\nTotal to scrub:   1.00GiB\n") is None
    show = (
        "Label: none  uuid: 8b6569e5-8d0e-4345-be76-ec4235587561\n\tTotal devices 2 FS bytes used 196608\n"
        "\tdevid    1 size 3221225472 used 440401920 path /dev/loop0\n"
        "\tdevid    2 size 0 used 0 path <missing disk> MISSING\n"
    )
    assert btrfs.parse_show(show) == {1: "/dev/loop0", 2: None}


def test_what_other_kinds_report_of_their_last_scrub() -> None:
    def of_btrfs(status: str, summary: str) -> tuple[int | None, bool | None]:
        found = btrfs.parse_scrub(f"Status:           {status}\nError summary:    {summary}\n")
        return found.mismatches, found.complete

    assert of_btrfs("finished", "no errors found") == (0, True)
    assert of_btrfs("finished", "csum=2 verify=1") == (3, True)
    assert of_btrfs("aborted", "no errors found") == (0, False)
    assert of_btrfs("running", "no errors found") == (None, None)
    assert btrfs.parse_scrub("\tno stats available\n").complete is None

    def of_zfs(**scan: object) -> tuple[int | None, bool | None]:
        found = zfs.scrub_of(pool({"scan_stats": scan}))
        return found.mismatches, found.complete

    assert of_zfs(function="SCRUB", state="FINISHED", errors=0) == (0, True)
    assert of_zfs(function="SCRUB", state="FINISHED", errors=4) == (4, True)
    assert of_zfs(function="SCRUB", state="CANCELED", errors=0) == (0, False)
    assert of_zfs(function="RESILVER", state="FINISHED", errors=0) == (None, None)
    assert lvm.scrub_of(lvm.LvRow(raid_mismatch_count="128", raid_sync_action="idle")).mismatches == 128
    assert lvm.scrub_of(lvm.LvRow(raid_mismatch_count="0", raid_sync_action="idle")).complete is None


KEYS = ["Controllers", "Command Status", "Response Data", "report", "lv", "pools", "vdevs", "state"]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(ANY_JSON)
def test_no_json_is_too_strange(told: Any) -> None:
    content = json.dumps(told)
    for reply in storcli.parse_replies(content):
        storcli.parse_volume(reply, "/c0/v1")
        storcli.parse_progress([reply])
    for row in lvm.parse_lvs(content) or []:
        lvm.state_of(row)
    for found in zfs.parse_status(json.dumps({"pools": {"tank": told}})).values():
        zfs.pool_state(found)
        list(zfs.groups(found))
    if isinstance(told, dict):
        data = {"/c0/v1": told.get("lv"), "PDs for VD 1": told.get("vdevs"), **told}
        [reply] = storcli.parse_replies(storcli_reply(data))
        storcli.parse_volume(reply, "/c0/v1")


SAMPLES = [UNITS, SUBUNITS, LOGICAL, TASK, DRIVES, SMART_ARRAY, PHYSICAL]
LINES = [line for sample in SAMPLES for line in sample.splitlines()]


@given(st.lists(st.sampled_from(LINES) | st.text(max_size=40), max_size=30))
def test_no_text_is_too_strange(lines: list[str]) -> None:
    content = "\n".join(lines)
    for share in (btrfs.parse_replace_status(content), btrfs.parse_scrub_status(content)):
        assert share is None or 0 <= share <= 1
    btrfs.parse_show(content)
    for unit in tw_cli.parse_units(content).values():
        assert unit.share is None or 0 <= unit.share <= 1
    list(tw_cli.parse_subunits(content))
    arcconf.parse_logical(content)
    arcconf.parse_drives(content)
    for task in arcconf.parse_tasks(content).values():
        assert task.share is None or 0 <= task.share <= 1
    for drive in ssacli.parse_logical(content).values():
        share = ssacli.drive_state(drive, 0).progress_share
        assert share is None or 0 <= share <= 1
    ssacli.parse_drives(content)


def test_without_any_tool_there_is_no_controller(tmp_path: Path) -> None:
    assert [list(controller_arrays(host(tmp_path, {}), kind)) for kind in CONTROLLERS] == [[]] * 5
    assert set(CONTROLLERS) == {"storcli", "perccli", "tw_cli", "arcconf", "ssacli"}
