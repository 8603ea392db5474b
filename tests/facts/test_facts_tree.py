"""Facts on a server that a test writes down as files: md over NVMe and SATA, LVM, a slow slot, health and caches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brickyard import facts
from brickyard.analysis.judging.caveats import warnings
from brickyard.analysis.judging.judged import Judged
from brickyard.facts import NoTools, Roots, Tools, arrays, block, bus, health, host, stack
from brickyard.facts.cache import cache_facts
from brickyard.facts.cgroups import cgroup_facts
from brickyard.facts.gather import collect_target
from brickyard.facts.roots import entries
from brickyard.schema import TargetSheet, stored
from brickyard.schema.host_sheet import IoLimit
from brickyard.schema.target_sheet import TemperatureSheet

SAMPLES = Path(__file__).parents[1] / "samples" / "facts"
GIB = 1 << 30


class SaidTools(Tools):
    """Programs whose answers a test gives by the words of their call."""

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def find(self, program: str) -> str | None:
        return program if any(call.split()[0] == program for call in self.answers) else None

    def run(self, program: str, *arguments: str) -> tuple[str | None, str]:
        answer = self.answers.get(" ".join((program, *arguments)))
        return (answer, "") if answer is not None else (None, f"not known: {program} is not installed")


class Tree:
    """Writes /sys and /proc as the kernel lays them out: real directories under devices, links everywhere else."""

    def __init__(self, top: Path) -> None:
        self.top, self.sys, self.proc = top, top / "sys", top / "proc"

    def roots(self, tools: Tools | None = None) -> Roots:
        top = self.top
        return Roots(str(self.sys), str(self.proc), str(top / "etc"), "/dev", str(top / "run"), tools or NoTools())

    def write(self, directory: Path, **files: object) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        for name, value in files.items():
            (directory / name).write_text(f"{value}\n")
        return directory

    def link(self, place: Path, target: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)

    def pci(self, path: str, driver: str = "", **files: object) -> Path:
        here = self.write(self.sys / "devices" / path, **{"vendor": "0x8086", "device": "0x1234", **files})
        (here / "class").write_text("0x010601\n")
        if driver:
            self.link(here / "driver", self.sys / "bus" / "pci" / "drivers" / driver)
        return here

    def disk(self, directory: Path, number: str, size_bytes: int, **queue: object) -> Path:
        self.write(directory, dev=number, size=size_bytes // 512, ro=0, stat=" ".join(["0"] * 17))
        limits: dict[str, object] = {
            "rotational": 0, "scheduler": "[none] mq-deadline", "write_cache": "write through", "fua": 0, "io_poll": 0,
            "iostats": 1, "logical_block_size": 512, "physical_block_size": 4096, "optimal_io_size": 0,
            "minimum_io_size": 4096, "nr_requests": 1023, "max_sectors_kb": 1280, "max_hw_sectors_kb": 2048,
            "max_segments": 128, "rq_affinity": 1, "nomerges": 0, "wbt_lat_usec": 2000, "read_ahead_kb": 128,
            "discard_max_bytes": 2199023255040,
        }  # fmt: skip
        self.write(directory / "queue", **{**limits, **queue})
        for place in (self.sys / "class" / "block" / directory.name, self.sys / "dev" / "block" / number):
            self.link(place, directory)
        return directory

    def slave(self, above: Path, below: Path) -> None:
        self.link(above / "slaves" / below.name, below)
        self.link(below / "holders" / above.name, above)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Two NVMe drives (one in a narrow slot) and two SATA disks; RAID-1 of the first, degraded RAID-5 of the others."""
    made = Tree(tmp_path)
    made.write(tmp_path / "etc")
    (tmp_path / "etc" / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    nvmes = [nvme(made, index) for index in range(2)]
    disks = [sata(made, index) for index in range(2)]
    mirror = made.disk(made.sys / "devices/virtual/block/md0", "9:0", 900 * GIB)
    made.write(
        mirror / "md", level="raid1", raid_disks=2, array_state="clean", sync_action="idle", sync_completed="none",
        degraded=0, chunk_size=0, mismatch_cnt=0, metadata_version="1.2",
    )  # fmt: skip
    parity = made.disk(made.sys / "devices/virtual/block/md1", "9:1", 8000 * GIB, rotational=1)
    made.write(
        parity / "md", level="raid5", raid_disks=3, array_state="active", sync_action="recover", degraded=1,
        sync_completed="1000000 / 4000000", sync_speed=182000, chunk_size=524288, layout=2, stripe_cache_size=256,
    )  # fmt: skip
    for above, members in ((mirror, nvmes), (parity, disks)):
        for slot, member in enumerate(members):
            made.slave(above, member)
            made.write(above / "md" / f"dev-{member.name}", state="in_sync", slot=slot, errors=0)
    return made


def nvme(made: Tree, index: int) -> Path:
    port = f"pci0000:00/0000:00:0{index + 1}.0"
    made.pci(port, current_link_speed="8.0 GT/s PCIe", current_link_width=2 if index else 4, vendor="0x8086")
    here = made.pci(
        f"{port}/0000:0{index + 1}:00.0", "nvme", vendor="0x144d", device="0xa80a", numa_node=index,
        current_link_speed="8.0 GT/s PCIe", current_link_width=2 if index else 4,
        max_link_speed="16.0 GT/s PCIe", max_link_width=4,
    )  # fmt: skip
    controller = made.write(
        here / "nvme" / f"nvme{index}", model="Samsung SSD 980 PRO 1TB   ", serial=f"S5GXNX0T10000{index}",
        firmware_rev="5B2QGXA7", transport="pcie",
    )  # fmt: skip
    made.write(controller / f"hwmon{index}", name="nvme", temp1_input=41850, temp1_max=81850, temp1_crit=84850)
    disk = made.disk(
        controller / f"nvme{index}n1", f"259:{index}", 1000 * GIB, write_cache="write back", fua=1, io_poll=index
    )
    made.link(disk / "device", controller)
    return disk


def sata(made: Tree, index: int) -> Path:
    name, ata = ("sda", "sdb")[index], f"ata{index + 1}"
    made.pci("pci0000:00/0000:00:17.0", "" if index else "ahci", vendor="0x8086", device="0xa352")
    scsi = made.write(
        made.sys / f"devices/pci0000:00/0000:00:17.0/{ata}/host{index}/target{index}:0:0/{index}:0:0:0",
        vendor="ATA     ", model="WDC WD4003FFBX-6", rev="0A83", queue_depth=32,
    )  # fmt: skip
    serial = f"V1J{index}ABCD".encode()
    (scsi / "vpd_pg80").write_bytes(bytes([0, 0x80, 0, len(serial)]) + serial)
    made.write(made.sys / "class" / "ata_link" / f"link{index + 1}", sata_spd="6.0 Gbps", hw_sata_spd_limit="<unknown>")
    disk = made.disk(scsi / "block" / name, f"8:{16 * index}", 4000 * GIB, write_cache="write back", rotational=1)
    made.link(disk / "device", scsi)
    return disk


def target(tree: Tree, name: str, tools: Tools | None = None, show_serial: bool = False) -> Any:
    """The sheet of a device of the tree, as collect_target() makes it of a real one."""
    roots = tree.roots(tools)
    node = stack.device_node(roots, name, show_serial)
    made = TargetSheet(path=f"/dev/{name}", kind="block", stack=[node], size_bytes=node.size_bytes)
    for drive in stack.bottom(made.stack):
        made.leaf_devices.append(drive.number)
        drive.health = health.smart(roots, drive.path or "")
        drive.temperature = health.temperature(roots, drive.name)
    made.cache_bytes, made.unknown["cache_bytes"] = cache_facts(made, roots)
    assert msgspec.convert(json.loads(json.dumps(stored(made))), TargetSheet) == made
    return made


def test_mirror_of_nvme_drives(tree: Tree) -> None:
    seen = target(tree, "md0")
    top = seen.stack[0]
    assert top.type == "md"
    assert (top.md.level, top.md.raid_disks, top.md.degraded) == ("raid1", 2, 0)
    assert arrays.under_way(top.md.sync_action) is None
    assert [member.name for member in top.md.members] == ["nvme0n1", "nvme1n1"]
    assert seen.leaf_devices == ["259:0", "259:1"]
    fast, slow = top.below
    assert (fast.model, fast.firmware, fast.transport) == ("Samsung SSD 980 PRO 1TB", "5B2QGXA7", "nvme")
    assert fast.adapter.driver == "nvme"
    assert fast.adapter.vendor_id == "0x144d"
    assert fast.adapter.vendor is None
    assert fast.adapter.unknown["vendor"] == "not known: lspci is not installed"
    # 8 GT/s by four lanes at 128b/130b, and 16 GT/s where the slot would allow it.
    assert fast.adapter.link.current_bytes_per_s == 3938461538
    assert fast.adapter.link.max_bytes_per_s == 7876923076
    assert slow.adapter.link.current_width == 2
    assert slow.adapter.numa_node == 1
    assert slow.adapter.narrowest_link.bytes_per_s == 1969230769
    assert fast.queue.scheduler == "none"
    assert fast.queue.discard is True
    assert fast.queue.fua is True
    assert fast.temperature == TemperatureSheet(celsius=41.85, max_celsius=81.85, critical_celsius=84.85, sensor="nvme")
    assert fast.health.unknown["passed"] == "not known: smartctl is not installed"


def test_recovering_raid5_of_sata_disks_is_warned_of(tree: Tree) -> None:
    seen = target(tree, "md1")
    md = seen.stack[0].md
    assert (md.chunk_bytes, md.sync_done_share, md.sync_speed_kib_per_s) == (524288, 0.25, 182000)
    disk = seen.stack[0].below[0]
    assert disk.transport == "sata"
    assert disk.port.words == "6.0 Gbps"
    assert disk.queue.rotational is True
    assert disk.device_queue_depth == 32
    assert disk.adapter.driver == "ahci"
    found = {item.id: item.text for item in warnings(Judged(targets=[seen]))}
    assert found["array_syncing"] == "The array md1 (raid5) was busy with recover during the run, 25.0% done."
    assert found["array_degraded"] == "The array md1 (raid5) is degraded: 1 of 3 members are missing."
    assert "sda and 1 more" in found["volatile_write_cache"]


def test_serial_is_hidden_and_stable_unless_asked_for(tree: Tree) -> None:
    hidden = target(tree, "md1").stack[0].below
    again = target(tree, "md1").stack[0].below
    assert hidden[0].serial == again[0].serial
    assert hidden[0].serial.startswith("sha256:")
    assert hidden[0].serial != hidden[1].serial
    assert hidden[0].serial_salt == "machine-id"
    assert "V1J0ABCD" not in json.dumps(stored(hidden))
    shown = target(tree, "md1", show_serial=True).stack[0].below
    assert [node.serial for node in shown] == ["V1J0ABCD", "V1J1ABCD"]
    (tree.top / "etc" / "machine-id").write_text("another\n")
    assert target(tree, "md1").stack[0].below[0].serial != hidden[0].serial


def test_caches_of_all_members_count_and_one_unknown_makes_the_sum_unknown(tree: Tree) -> None:
    hdparm = (SAMPLES / "hdparm-wd4003.txt").read_text()
    both = SaidTools({"hdparm -I /dev/sda": hdparm, "hdparm -I /dev/sdb": hdparm})
    assert target(tree, "md1", both).cache_bytes == 2 * 256 * 2**20
    one = SaidTools({"hdparm -I /dev/sda": hdparm, "hdparm -I /dev/sdb": "cache/buffer size  = unknown\n"})
    seen = target(tree, "md1", one)
    assert seen.cache_bytes is None
    assert target(tree, "md0", both).unknown["cache_bytes"] == "not known: nvme drives do not tell their cache"
    assert "cache_unknown" in {item.id for item in warnings(Judged(targets=[seen]))}


def test_controller_cache_goes_before_that_of_its_drives(tree: Tree) -> None:
    storcli = (SAMPLES / "storcli-show-all.json").read_text().replace("00:65:00:00", "00:00:17:00")
    seen = target(tree, "md1", SaidTools({"storcli64 /call show all J": storcli}))
    # Both disks hang on the one controller, whose cache is there once.
    assert seen.cache_bytes == 4 * GIB
    seen.size_bytes = 10 * GIB
    found = {item.id: item for item in warnings(Judged(targets=[seen]))}
    assert "only 2.5 times the 4.0 GiB" in found["smaller_than_cache"].text


def test_health_and_endurance_of_an_nvme_drive(tree: Tree) -> None:
    told = (SAMPLES / "smartctl-nvme.json").read_text()
    tools = SaidTools({"smartctl -j -x /dev/nvme0n1": told, "smartctl -j -x /dev/nvme1n1": told})
    seen = target(tree, "md0", tools)
    drive = seen.stack[0].below[0].health
    assert (drive.passed, drive.percentage_used, drive.temperature_celsius) == (True, 12, 43)
    assert drive.bytes_written == 141_000_000 * 512_000
    cost = facts.endurance(seen, 601_600_000_000, roots=tree.roots(tools))
    # 72.192 TB have used 12 % of its life.
    assert cost.rated_bytes == 601_600_000_000_000
    assert cost.share == pytest.approx(0.001)
    assert "estimated" in cost.text
    rated = facts.endurance(seen, 6 * 10**12, rated=600 * 10**12)
    assert rated.text == "writing 6.0 TB costs 1.00% of the rated endurance of 600.0 TB (the caller)"


def test_endurance_log_goes_before_the_estimate_and_silence_is_unknown(tree: Tree) -> None:
    call = "nvme endurance-log /dev/nvme{} -g 1 -o json"
    tools = SaidTools({call.format(index): '{"endurance_estimate": 1200000}' for index in range(2)})
    cost = facts.endurance(target(tree, "md0"), 12 * 10**12, roots=tree.roots(tools))
    assert cost.share == pytest.approx(0.01)
    assert cost.source == "the drive's endurance group log"
    unknown = facts.endurance(target(tree, "md0"), 10**12, roots=tree.roots())
    assert unknown.text == "rated endurance unknown (nvme is not installed)"
    assert unknown.share is None


def test_logical_volume_over_crypt_over_partition(tree: Tree) -> None:
    disk = tree.sys / "class" / "block" / "sda"
    part = tree.write(disk.resolve() / "sda1", dev="8:1", size=2048 * 8, start=34, partition=1, ro=0)
    tree.link(tree.sys / "class/block/sda1", part)
    tree.link(tree.sys / "dev/block/8:1", part)
    crypt = tree.disk(tree.sys / "devices/virtual/block/dm-0", "252:0", GIB)
    tree.write(crypt / "dm", name="secret", uuid="CRYPT-LUKS2-0123-secret", suspended=0)
    volume = tree.disk(tree.sys / "devices/virtual/block/dm-1", "252:1", GIB)
    tree.write(volume / "dm", name="vg-data", uuid="LVM-abcdef", suspended=0)
    tree.slave(volume, crypt)
    tree.slave(crypt, part)
    tools = SaidTools(
        {"dmsetup table vg-data": "0 2097152 linear 252:0 2048\n", "dmsetup table secret": "0 1 crypt x\n"}
    )
    node = target(tree, "dm-1", tools).stack[0]
    assert [one.type for one in stack.walk([node])] == ["dm", "dm", "partition", "disk"]
    assert (node.dm.owner, node.dm.targets) == ("lvm", ["linear"])
    assert node.below[0].dm.owner == "crypt"
    partition = node.below[0].below[0]
    assert partition.start_bytes == 34 * 512
    # A partition has the queue of its disk.
    assert partition.queue.rotational is True
    assert target(tree, "dm-1").stack[0].dm.unknown["targets"] == "not known: dmsetup is not installed"


def test_a_stack_that_runs_in_a_circle_ends(tree: Tree) -> None:
    one = tree.disk(tree.sys / "devices/virtual/block/dm-8", "252:8", GIB)
    two = tree.disk(tree.sys / "devices/virtual/block/dm-9", "252:9", GIB)
    tree.write(one / "dm", name="one")
    tree.write(two / "dm", name="two")
    tree.link(one / "slaves" / "dm-9", two)
    tree.link(two / "slaves" / "dm-8", one)
    assert len(list(stack.walk(target(tree, "dm-8").stack))) == 3


def test_nvme_over_tcp_with_two_paths(tree: Tree) -> None:
    subsystem = tree.sys / "devices/virtual/nvme-subsystem/nvme-subsys4"
    for index in (4, 5):
        here = tree.write(
            tree.sys / f"devices/virtual/nvme-fabrics/ctl/nvme{index}", transport="tcp", model="Linux", serial="abc"
        )
        tree.link(subsystem / f"nvme{index}", here)
    disk = tree.disk(subsystem / "nvme4n1", "259:9", GIB)
    tree.link(disk / "device", subsystem)
    node = target(tree, "nvme4n1").stack[0]
    assert (node.transport, node.controller_paths, node.adapter) == ("nvme-tcp", 2, None)


@pytest.mark.parametrize(
    ("path", "vendor", "words"),
    [
        ("pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdx", "Kingston", "usb"),
        ("pci0000:00/0000:03:00.0/host7/port-7:0/end_device-7:0/target7:0:0/7:0:0:0/block/sdx", "SEAGATE", "sas"),
        ("pci0000:00/0000:03:00.0/host7/port-7:0/end_device-7:0/target7:0:0/7:0:0:0/block/sdx", "ATA", "sata on sas"),
        ("platform/host8/session1/target8:0:0/8:0:0:1/block/sdx", "LIO-ORG", "iscsi"),
        ("pci0000:00/0000:00:05.0/virtio2/host2/target2:0:0/2:0:0:0/block/sdx", "QEMU", "virtio-scsi"),
        ("LNXSYSTM:00/VMBUS:00/uuid/host0/target0:0:0/0:0:0:0/block/sdx", "Msft", "hyper-v"),
    ],
)
def test_transports(tree: Tree, path: str, vendor: str, words: str) -> None:
    disk = tree.disk(tree.sys / "devices" / path, "65:0", GIB)
    scsi = tree.write(disk.parent.parent, vendor=vendor, model="Virtual Disk" if vendor == "Msft" else "X1")
    tree.link(disk / "device", scsi)
    node = target(tree, "sdx").stack[0]
    assert node.transport == words
    assert node.virtual is (words in ("virtio-scsi", "hyper-v"))


def test_link_speeds_of_sas_and_usb(tree: Tree) -> None:
    sas = tree.disk(tree.sys / "devices/pci0/host7/port-7:0/end_device-7:0/target7:0:0/7:0:0:0/block/sdx", "65:0", GIB)
    port = tree.sys / "devices/pci0/host7/port-7:0"
    tree.write(port / "phy-7:0" / "sas_phy" / "phy-7:0", negotiated_linkrate="12.0 Gbit")
    usb = tree.disk(tree.sys / "devices/pci0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/block/sdy", "65:16", GIB)
    tree.write(tree.sys / "devices/pci0/usb2/2-1", idVendor="0951", speed="5000")
    assert bus.port_speed(tree.roots(), sas.name).words == "12.0 Gbit"
    assert bus.port_speed(tree.roots(), usb.name).words == "5000 Mbit/s"


def test_host_out_of_its_files(tree: Tree) -> None:
    tree.write(tree.proc, cpuinfo=(SAMPLES / "cpuinfo-xeon.txt").read_text(), uptime="93784.22 1.0")
    tree.write(tree.proc, meminfo="MemTotal: 65536 kB\nMemAvailable: 1024 kB\nSwapTotal: 0 kB\nHugePages_Total: 8\n")
    tree.write(tree.proc / "sys" / "kernel", io_uring_disabled=2, osrelease="6.12.9", hostname="db1")
    (tree.proc / "cmdline").write_text("root=/dev/sda password=geheim mitigations=off isolcpus=2-3\n")
    (tree.top / "etc" / "os-release").write_text('NAME="X"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n')
    for core, words in enumerate(("performance", "powersave", "powersave")):
        tree.write(tree.sys / f"devices/system/cpu/cpu{core}/cpufreq", scaling_governor=words, scaling_max_freq=3900000)
    tree.write(tree.sys / "class/dmi/id", product_name="KVM Virtual Machine", sys_vendor="QEMU")
    told: Any = host.host_facts(tree.roots())
    assert told.cpu.model == "Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz"
    assert (told.cpu.sockets, told.cpu.physical_cores) == (2, 2)
    assert told.cpu.invariant_tsc is True
    assert told.memory.total_bytes == 64 * 2**20
    assert told.memory.huge_pages == 8
    assert told.frequency.governors == {"performance": 1, "powersave": 2}
    assert told.os == "Debian GNU/Linux 13 (trixie)"
    assert told.boot_options == ["mitigations=off", "isolcpus=2-3"]
    assert told.virtualization.product == "KVM Virtual Machine"
    assert told.io_uring.disabled == 2
    assert told.uptime_s == 93784.22
    assert told.clock_source is None
    assert told.unknown["clock_source"].startswith("not known")


@pytest.mark.parametrize("version", [1, 2])
def test_control_group_limits_of_groups_above_count(tree: Tree, version: int) -> None:
    top = tree.top / "cgroup"
    if version == 2:
        (tree.proc / "self").mkdir(parents=True)
        (tree.proc / "self" / "cgroup").write_text("0::/pod/app\n")
        mount = f"30 20 0:26 / {top} rw - cgroup2 cgroup2 rw\n"
        tree.write(top / "pod", **{"cpu.max": "150000 100000", "io.max": "8:0 rbps=1048576 wiops=max"})
        tree.write(top / "pod/app", **{"cpu.max": "400000 100000", "memory.max": 1073741824})
    else:
        (tree.proc / "self").mkdir(parents=True)
        (tree.proc / "self" / "cgroup").write_text(
            "4:memory:/docker/a/sub\n3:cpu,cpuacct:/docker/a/sub\n2:blkio:/docker/a\n"
        )
        # A container sees its own branch only.
        mount = "".join(
            f"3{index} 20 0:2{index} /docker/a {top}/{words} rw - cgroup cgroup rw,{words}\n"
            for index, words in enumerate(("cpu,cpuacct", "memory", "blkio"))
        )
        tree.write(top / "cpu,cpuacct", **{"cpu.cfs_quota_us": 150000, "cpu.cfs_period_us": 100000})
        tree.write(top / "memory" / "sub", **{"memory.limit_in_bytes": 1073741824})
        tree.write(top / "blkio", **{"blkio.throttle.read_bps_device": "8:0 1048576"})
    (tree.proc / "self" / "mountinfo").write_text(mount)
    told = cgroup_facts(tree.roots())
    assert told.cpu_cores_limit == 1.5
    assert told.memory_limit_bytes == GIB
    assert told.io_limits == [IoLimit(device="8:0", rbps=1048576)]


def test_targets_that_are_no_path() -> None:
    assert collect_target("sim:cheetah", roots=Roots(tools=NoTools())).kind == "sim"
    assert collect_target("postgresql://localhost/x", roots=Roots(tools=NoTools())).kind == "service"


def test_an_empty_system_gives_reasons_and_no_exception(tmp_path: Path) -> None:
    roots = Tree(tmp_path).roots()
    collected = facts.collect("/nowhere/at/all", roots=roots)
    json.dumps(stored([collected.host, collected.target]))
    assert collected.target.stack == []
    assert collected.host.unknown["kernel"].startswith("not known")
    assert entries(str(tmp_path), "nothing") == []
    assert block.queue_facts(roots, "sdz").unknown["scheduler"] == "not known: this device has no queue in sysfs"
    assert all(line.state in ("ok", "limited", "missing") for line in facts.doctor("/nowhere", roots=roots))
