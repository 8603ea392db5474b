"""The page on real arrays: an action is asked for by its requests, done, shown and noted."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from md_disks import DISKS, clean_disks, create

sys.path.insert(0, str(Path(__file__).parent.parent))

from web_support import READER, Client, serving

__all__ = ["clean_disks"]
pytestmark = pytest.mark.usefixtures("clean_disks")


def only_array(client: Client) -> tuple[str, str]:
    """Nobody waits for a look longer than some seconds, and the first one takes longer in an emulated guest."""
    end_s = time.monotonic() + 90
    while not (told := client.get("/api/arrays").json)["looked_unix_s"] or not told["arrays"]:
        assert time.monotonic() < end_s, told
        time.sleep(1)
    (found,) = told["arrays"]
    return found["id"], found["health"]


def until(client: Client, health: str, within_s: float = 120) -> None:
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        if only_array(client)[1] == health:
            return
        time.sleep(2.1)
    raise AssertionError(f"the array did not become {health}: {client.get('/api/arrays').text}")


def until_scrubbing(client: Client, array: str) -> None:
    """The page has the state of its last look, and an emulated guest may be late with the next one."""
    end_s = time.monotonic() + 20
    while (state := client.get(f"/api/arrays/{array}").json["state"]) != "scrubbing":
        assert time.monotonic() < end_s, state
        time.sleep(1)


def test_an_array_is_degraded_given_a_spare_and_scrubbed_from_the_page(tmp_path: Path) -> None:
    create(1, 2)
    with serving(tmp_path, manage=True) as served:
        client, reader = served.login(), served.login(READER)
        array, health = only_array(client)
        assert health == "well"
        fail = {"action": "fail", "array": array, "confirm": "/dev/md0", "device": DISKS[1]}
        assert reader.post("/api/arrays/do", fail).status == 403
        assert client.post("/api/arrays/do", {**fail, "confirm": "md0"}).status == 400
        assert client.post("/api/arrays/do", {**fail, "device": DISKS[5]}).status == 400
        assert only_array(client)[1] == "well"
        done = client.post("/api/arrays/do", fail)
        assert (done.status, DISKS[1] in done.text) == (200, True)
        until(client, "degraded")
        assert client.post("/api/arrays/do", {**fail, "device": DISKS[0]}).status == 400, "beyond the redundancy"
        page = client.get(f"/arrays/{array}").text
        assert "a member is" in page or "degraded" in page
        spare = {"action": "spare", "array": array, "confirm": "/dev/md0", "device": DISKS[2]}
        assert client.post("/api/arrays/do", spare).status == 200
        until(client, "well")
        Path("/sys/block/md0/md/sync_speed_max").write_text("1000\n")  # a scrub of 40 s, which outlasts what follows
        scrub = {"action": "scrub", "array": array, "confirm": "/dev/md0"}
        assert client.post("/api/arrays/do", scrub).status == 200
        until_scrubbing(client, array)
        for _ in range(3):  # a read by users between two looks, while the scrub goes on
            subprocess.run(["dd", "if=/dev/md0", "of=/dev/null", "bs=64k", "count=16", "iflag=direct"], check=True)
            time.sleep(2.1)
            client.get("/api/arrays")
        paces = client.get(f"/api/arrays/{array}/pace").json["samples"]
        beside = [one for one in paces if one["state"] == "scrubbing" and one["requests_per_s"] > 0]
        assert beside, paces
        assert all(one["service_ns"] > 0 for one in beside)
        assert client.post("/api/arrays/do", {**scrub, "action": "stop-scrub"}).status == 200
        plan = {**scrub, "action": "schedule", "days": 7, "window": "22:00-06:00", "rate": "20MiB/s"}
        assert reader.post("/api/arrays/do", plan).status == 403
        assert client.post("/api/arrays/do", {**plan, "confirm": "md0"}).status == 400
        assert client.post("/api/arrays/do", {**plan, "window": "night"}).status == 400
        assert client.post("/api/arrays/do", plan).status == 200
        kept = client.get(f"/api/arrays/{array}").json["schedule"]
        assert (kept["every_s"], kept["rate_bytes_per_s"]) == (7 * 86400.0, 20 << 20)
        assert "between 22:00 and 06:00" in client.get(f"/arrays/{array}").text
        assert client.post("/api/arrays/do", {**plan, "days": 0}).status == 200
        assert client.get(f"/api/arrays/{array}").json["schedule"] is None
        lines = [line for line in client.get("/api/audit").json["audit"] if line["what"] != "login"]
    deeds = [(line["what"], line["asked"]["action"]) for line in reversed(lines) if line["what"] != "asked"]
    refused = [("refused", "fail")] * 3  # a reader's too
    assert deeds == [
        *refused, ("done", "fail"), ("refused", "fail"), ("done", "spare"), ("done", "scrub"), ("done", "stop-scrub"),
        *[("refused", "schedule")] * 3, ("done", "schedule"), ("done", "schedule"),
    ]  # fmt: skip
    readers = [line["what"] for line in lines if line["by"].startswith("reader")]
    assert readers == ["refused", "refused"]
    assert all(line["by"].startswith(("operator", "reader")) for line in lines)
