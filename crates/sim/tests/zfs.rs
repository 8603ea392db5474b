//! ZFS's levels against OpenZFS's formulas and documentation, and against what can be counted by hand.

mod common;
#[path = "common/loops.rs"]
mod loops;

use loops::{Places, brick, closed_loop, random_rate};
use proptest::prelude::*;
use sim::brick::{Brick, resolve};
use sim::member::Kind;
use sim::system::{Request, System};
use sim::zfs::layout::{Column, Layout};

const TB: u64 = 1_000_000_000_000;

fn layout(brick: &Brick, member_bytes: u64) -> Layout {
    Layout::new(brick, brick.zfs().expect("of ZFS"), member_bytes).expect("a layout")
}

/// A pool of so many 4 TB disks, with records of so many bytes and sectors of 4 KiB.
fn pool(level: &str, members: u32, more: &str) -> Brick {
    brick(&format!("zfs-raidz2,level={level},members={members}{more}"))
}

/// Sectors of a raidz block, counted row by row.
fn counted(sectors: u64, width: u64, parity: u64) -> u64 {
    let (mut left, mut taken) = (sectors, 0);
    while left > 0 {
        let data = left.min(width - parity);
        taken += data + parity;
        left -= data;
    }
    while !taken.is_multiple_of(parity + 1) {
        taken += 1;
    }
    taken
}

proptest! {
    #[test]
    fn a_raidz_block_takes_data_parity_and_padding(
        parity in 1u64..=3, more in 1u64..20, ashift in prop::sample::select(vec![9u64, 12, 13]), record in 13u32..=20,
    ) {
        let (width, record) = (parity + more, 1u64 << record);
        let spoken = format!(",software.zfs_ashift={ashift},software.zfs_recordsize={record}B");
        let brick = pool(&format!("raidz{parity}"), width as u32, &spoken);
        let layout = layout(&brick, 4 * TB);
        for psize in [record, record / 2, 1 << ashift, 3 << ashift, 7 << ashift] {
            let sectors = psize.div_ceil(1 << ashift);
            let asize = layout.asize(psize);
            prop_assert_eq!(asize, counted(sectors, width, parity) << ashift);
            // Data and parity on the columns, each on another disk; the run of it has the padding as well.
            let mut columns = Vec::new();
            let (_, offset) = layout.place(12_345);
            layout.columns(0, offset, psize, &mut columns);
            let data: u64 = columns.iter().filter(|c| !c.parity).map(|c| c.bytes).sum();
            let of_parity: u64 = columns.iter().filter(|c| c.parity).map(|c| c.bytes).sum();
            prop_assert_eq!(data, sectors << ashift);
            prop_assert_eq!(of_parity, (parity * sectors.div_ceil(width - parity)) << ashift);
            let mut members: Vec<u32> = columns.iter().map(|c| c.member).collect();
            members.sort_unstable();
            members.dedup();
            prop_assert_eq!(members.len(), columns.len());
            let mut whole = 0;
            layout.range(0, offset, asize, |c| whole += c.bytes);
            prop_assert_eq!(whole, asize);
            // No piece of it lies outside of what a run of its space has.
            let mut runs: Vec<Column> = Vec::new();
            layout.range(0, offset, asize, |c| runs.push(c));
            for column in &columns {
                let own = runs.iter().find(|r| r.member == column.member).expect("a piece of each disk");
                prop_assert!(own.offset_bytes <= column.offset_bytes);
                prop_assert!(column.offset_bytes + column.bytes <= own.offset_bytes + own.bytes);
            }
        }
    }

    #[test]
    fn a_draid_block_fills_rows_of_its_group(
        parity in 1u64..=3, data in 1u64..=12, spares in 0u64..=3, more in 0u64..30, record in 13u32..=20,
    ) {
        let (width, record) = (parity + data + spares + more, 1u64 << record);
        let spoken = format!(",draid_data={data},draid_spares={spares},software.zfs_recordsize={record}B");
        let brick = pool(&format!("draid{parity}"), width as u32, &spoken);
        let layout = layout(&brick, 4 * TB);
        let rows = (record / 4096).div_ceil(data);
        prop_assert_eq!(layout.asize(record), rows * (data + parity) * 4096);
        for number in [0, 1, 999, 54_321, layout.places() - 1] {
            let (vdev, offset) = layout.place(number);
            let (mut columns, mut members, mut bytes) = (Vec::new(), Vec::new(), 0);
            layout.columns(vdev, offset, record, &mut columns);
            prop_assert_eq!(columns.iter().filter(|c| !c.parity).map(|c| c.bytes).sum::<u64>(), record);
            layout.range(vdev, offset, layout.asize(record), |c| {
                members.push(c.member);
                bytes += c.bytes;
                assert!(c.offset_bytes + c.bytes <= 4 * TB - (512 << 10), "within the disk");
            });
            prop_assert_eq!(bytes, layout.asize(record));
            // A spare of the slice holds none of it.
            members.extend((0..spares).map(|spare| layout.spare_member(vdev, columns[0].slice, spare)));
            let all = members.len();
            members.sort_unstable();
            members.dedup();
            prop_assert_eq!(members.len(), all);
        }
    }
}

#[test]
fn no_two_records_share_a_sector() {
    for spoken in ["raidz1,members=5", "raidz2,members=8,vdevs=2", "draid1,members=7,draid_data=3,draid_spares=1"] {
        let (level, more) = spoken.split_once(',').expect("a level");
        let brick = brick(&format!("zfs-raidz2,level={level},{more},software.zfs_recordsize=32KiB"));
        let layout = layout(&brick, 8 << 30);
        let mut pieces: Vec<(u32, u64, u64)> = Vec::new();
        for number in 0..20_000 {
            let (vdev, offset) = layout.place(number);
            let asize = layout.asize(32 << 10);
            layout.range(vdev, offset, asize, |c| pieces.push((c.member, c.offset_bytes, c.offset_bytes + c.bytes)));
        }
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|w| w[0].0 != w[1].0 || w[0].2 <= w[1].1), "{spoken}");
    }
}

#[test]
fn published_overheads_come_out() {
    let share = |level: &str, members: u32, kib: u64| {
        let brick = pool(level, members, &format!(",software.zfs_recordsize={kib}KiB"));
        layout(&brick, 4 * TB).asize(kib << 10) as f64 / (kib << 10) as f64
    };
    // OpenZFS documentation, RAIDZ, "Space efficiency": raidz1 of 3 disks, sectors of 4 KiB.
    assert_eq!(share("raidz1", 3, 4), 2.0);
    assert_eq!(share("raidz1", 3, 128), 192.0 / 128.0);
    // Gerdts, "RAIDZ on-disk format vs. small blocks", 2019: below four sectors raidz1 takes as much as a mirror, raidz2 as
    // much as a mirror of three.
    for kib in [4, 8] {
        assert_eq!((share("raidz1", 8, kib), share("raidz2", 8, kib)), (2.0, 3.0), "{kib} KiB");
    }
    assert_eq!((share("raidz1", 8, 16), share("raidz2", 8, 16)), (1.5, 1.5));
    // dRAID howto: with 8 data disks and sectors of 4 KiB the least allocation is 32 KiB of data.
    let brick = pool("draid2", 14, ",draid_spares=2,software.zfs_recordsize=4KiB");
    assert_eq!(layout(&brick, 4 * TB).asize(4096), 10 * 4096);
}

#[test]
fn capacities_are_as_documented() {
    let usable = |level: &str, members: u32, more: &str| {
        let brick = pool(level, members, &format!("{more},software.zfs_recordsize=1MiB"));
        layout(&brick, 4 * TB).usable_bytes() as f64 / (4 * TB) as f64
    };
    // zpoolconcepts(7): (N - P) * X; less slop (at most 128 GiB), a metaslab for the log, and padding of records.
    for (level, members, disks) in [("raidz1", 9, 8.0), ("raidz2", 10, 8.0), ("raidz3", 11, 8.0), ("zmirror", 16, 8.0)]
    {
        let found = usable(level, members, "");
        assert!((0.95 * disks..disks).contains(&found), "{level}: {found} of {disks}");
    }
    // (N - S) * D / (D + P) * X.
    for (parity, data, members, spares) in
        [(2, 8, 14, 2), (2, 8, 52, 2), (1, 4, 11, 1), (3, 11, 60, 3), (2, 11, 106, 2)]
    {
        let more = format!(",draid_data={data},draid_spares={spares}");
        let found = usable(&format!("draid{parity}"), members, &more);
        let said = f64::from(members - spares) * f64::from(data) / f64::from(data + parity);
        assert!((0.93 * said..said).contains(&found), "draid{parity}:{data}d:{members}c:{spares}s: {found} of {said}");
    }
}

/// Capacities that were shown of pools of 4 TB disks (reference/zfs_calomel.csv), as multiples of what a mirror has.
#[test]
fn measured_capacities_are_met() {
    let of = |level: &str, members: u32, vdevs: u32| {
        let brick = pool(level, members, &format!(",vdevs={vdevs},software.zfs_ashift=9"));
        layout(&brick, 4 * TB).usable_bytes() as f64
    };
    let mirror = of("zmirror", 24, 12) / 12.0;
    for row in calomel().iter().filter(|row| row.level != "stripe" && row.members > 2) {
        let found = of(&row.level, row.members, row.vdevs) / mirror;
        let shown = row.capacity_tb / (45.2 / 12.0);
        assert!((found / shown - 1.0).abs() < 0.025, "{row:?}: {found} mirrors, shown {shown}");
    }
}

#[derive(Debug)]
struct Row {
    level: String,
    members: u32,
    vdevs: u32,
    capacity_tb: f64,
    write_mb_per_s: f64,
}

fn calomel() -> Vec<Row> {
    let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/zfs_calomel.csv");
    let text = std::fs::read_to_string(home).expect("the table");
    let rows = text.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |n: usize| cells[n].parse::<f64>().expect("a number");
        Row {
            level: cells[0].into(),
            members: number(1) as u32,
            vdevs: number(2) as u32,
            capacity_tb: number(3),
            write_mb_per_s: number(4),
        }
    });
    rows.collect()
}

fn run_out(system: &mut System) -> u64 {
    let mut now_ns = 0;
    while system.next_event() < sim::NEVER {
        now_ns = system.next_event();
        system.advance(now_ns);
    }
    assert_eq!(system.issued, system.completed);
    now_ns
}

fn written(system: &System) -> u64 {
    system.members_work().iter().map(|w| w.written_bytes).sum()
}

/// Small, so that whole pools are written in a test.
fn small(level: &str, more: &str) -> Brick {
    let mut texts = common::brick_texts();
    let disk = texts["drives/nearline-20tb"].replace("20_000_588_955_648", "17_179_869_184");
    texts.insert("drives/small".into(), disk);
    let spoken = format!("zfs-raidz2,drive=small,level={level}{more},software.zfs_dirty_data_max=256MiB");
    resolve(&spoken, &texts, &[]).expect("a brick")
}

/// A write or read by itself, of a system in which nothing else goes on.
fn submit(system: &mut System, now_ns: u64, kind: Kind, offset_bytes: u64, bytes: u32, durable: bool) {
    system.submit(now_ns, Request { tag: 0, kind, offset_bytes, bytes, durable });
}

const LEVELS: [(&str, u64); 9] = [
    ("zmirror,members=6", 6),
    ("zmirror,members=6,vdevs=2", 6),
    ("raidz1,members=5", 5),
    ("raidz2,members=8", 8),
    ("raidz2,members=12,vdevs=2", 12),
    ("raidz3,members=11", 11),
    ("draid1,members=8,draid_data=4,draid_spares=1", 8),
    ("draid2,members=14,draid_spares=2", 14),
    ("draid3,members=13,draid_data=5,draid_spares=1", 13),
];

#[test]
fn members_do_what_the_formula_says_and_no_more() {
    for (spoken, members) in LEVELS {
        for record in [16u64 << 10, 128 << 10] {
            let (level, more) = spoken.split_once(',').expect("a level");
            let brick = small(level, &format!(",{more},software.zfs_recordsize={record}B"));
            let layout = layout(&brick, 16 << 30);
            let mut system = System::new(&brick).expect("a brick that can be built");
            // 200 whole records, here and there and in a row; some twice within a transaction group.
            let count = 200;
            for number in 0..count {
                let at = if number < 100 { number } else { number * 37 % 1000 + 200 };
                submit(&mut system, 0, Kind::Write, at * record, record as u32, false);
                if number % 10 == 0 {
                    submit(&mut system, 0, Kind::Write, at * record, record as u32, false);
                }
            }
            run_out(&mut system);
            let copies = if layout.is_mirror() { layout.width } else { 1 };
            let labels = layout.vdevs.min(3) * layout.width * 4 * 4096;
            assert_eq!(written(&system), count * layout.asize(record) * copies + labels, "{spoken}, {record}");
            assert_eq!(system.members_work().len() as u64, members);
            assert!(system.members_work().iter().all(|w| w.read_bytes == 0), "{spoken}: whole records need no read");
            // A small read takes all data of its record and nothing else.
            let at_ns = run_out(&mut system);
            submit(&mut system, at_ns, Kind::Read, 5000 * record + 4096, 4096, false);
            run_out(&mut system);
            let read: u64 = system.members_work().iter().map(|w| w.read_bytes).sum();
            assert_eq!(read, record, "{spoken}, {record}");
        }
    }
}

#[test]
fn a_small_write_reads_its_record_first_and_a_second_one_finds_it_in_memory() {
    let mut system = System::new(&small("raidz2", "")).expect("a brick that can be built");
    submit(&mut system, 0, Kind::Write, 1 << 20, 8192, false);
    submit(&mut system, 0, Kind::Write, (1 << 20) + 8192, 8192, false);
    while !system.is_idle() {
        let next_ns = system.next_event();
        system.advance(next_ns);
    }
    assert_eq!((system.issued, written(&system)), (6, 0), "six data disks were read, nothing is written yet");
    let ended_ns = run_out(&mut system);
    assert!((5_000_000_000..5_200_000_000).contains(&ended_ns), "{ended_ns}: after zfs_txg_timeout");
    assert_eq!(written(&system), 45 * 4096 + 8 * 4 * 4096, "one record of 32 data, 12 parity and 1 padding sectors");
}

#[test]
fn durable_writes_go_to_the_log_and_large_ones_to_their_place() {
    // Data and 192 bytes of the log: three sectors, with two of parity.
    let of_log = |bytes: u32| {
        let mut system = System::new(&small("raidz2", ",software.zfs_txg_timeout=1000s")).expect("a brick");
        submit(&mut system, 0, Kind::Write, 0, 131_072, false);
        submit(&mut system, 0, Kind::Write, 0, bytes, true);
        while !system.is_idle() {
            let next_ns = system.next_event();
            system.advance(next_ns);
        }
        let flushed = system.members_work().iter().filter(|w| w.others > 0).count();
        (written(&system), flushed)
    };
    // The write before is in the log as well: it is larger than zfs_immediate_write_sz, so its record goes to its place.
    assert_eq!(of_log(8192), ((44 + 5) * 4096, 8));
    assert_eq!(of_log(65_536), ((44 + 3) * 4096, 8));
}

#[test]
fn asynchronous_writes_end_in_memory_until_the_throttle_holds_them() {
    let brick = brick("zfs-raidz2,software.zfs_dirty_data_max=1GiB");
    let mut system = System::new(&brick).expect("a brick that can be built");
    let mut at = 0;
    let mut stream = |system: &mut System, count| {
        closed_loop(system, Kind::Write, 1 << 20, 4, count, || {
            at += 1 << 20;
            at - (1 << 20)
        })
    };
    let first = stream(&mut system, 400) * 1.048_576;
    let mut system = System::new(&brick).expect("a brick that can be built");
    let lasting = stream(&mut system, 20_000) * 1.048_576;
    assert!(first > 5_000.0, "{first} MB/s into memory");
    // Six of eight disks have data, at the rates of their inner tracks.
    assert!((700.0..1_700.0).contains(&lasting), "{lasting} MB/s");
}

#[test]
fn a_raidz_reads_at_random_as_one_disk_and_mirrors_as_all() {
    let one = random_rate(&brick("nearline-20tb"), Kind::Read, 10);
    let of = |level: &str, members: u32| random_rate(&pool(level, members, ""), Kind::Read, 8 * members);
    // Not every disk has data of a record, so that it can begin with the next.
    for (level, members, data) in
        [("raidz1", 6, 5.0), ("raidz2", 6, 4.0), ("raidz2", 10, 8.0), ("raidz3", 12, 9.0), ("draid2", 11, 8.0)]
    {
        let ratio = of(level, members) / one * data / f64::from(members);
        assert!((0.6..=1.15).contains(&ratio), "{level} of {members}: {ratio} disks");
    }
    for members in [2, 4, 8] {
        let ratio = of("zmirror", members) / one / f64::from(members);
        assert!((0.75..=1.1).contains(&ratio), "{members} disks in mirrors: {ratio} of each disk");
    }
    // dRAID howto: floor((N - S) / (D + P)) = 4 disks, where parity is left unread; 42 / 8 of them have data of a record.
    let ratio = random_rate(&pool("draid2", 42, ",draid_spares=2"), Kind::Read, 128) / one;
    assert!((3.0..=5.6).contains(&ratio), "4 groups of 10: {ratio} disks");
    // Small records lie on few disks, so that several are read at a time.
    let small = random_rate(&pool("raidz2", 10, ",software.zfs_recordsize=8KiB"), Kind::Read, 80);
    assert!(small > 2.5 * one, "{small} of {one}");
}

#[test]
fn more_parity_costs_and_more_disks_are_more() {
    let room = |level: &str, members| System::new(&pool(level, members, "")).expect("a brick").capacity_bytes();
    for members in 6..16 {
        let rooms = ["raidz1", "raidz2", "raidz3"].map(|level| room(level, members));
        assert!(rooms[0] >= rooms[1] && rooms[1] >= rooms[2], "{members}: {rooms:?}");
        assert!(room("raidz2", members + 1) > rooms[1], "{members}");
    }
    let degraded = |level| random_rate(&pool(level, 8, ",condition=degraded"), Kind::Read, 32);
    let normal = |level| random_rate(&pool(level, 8, ""), Kind::Read, 32);
    for level in ["raidz1", "raidz2", "zmirror", "draid2"] {
        assert!(degraded(level) <= 1.02 * normal(level), "{level}");
    }
}

/// MB of a rebuild a second, without users.
fn resilver_mb_per_s(brick: &Brick, seconds: u64) -> f64 {
    let mut system = System::new(brick).expect("a brick that can be built");
    let end_ns = seconds * 1_000_000_000;
    system.advance(end_ns);
    let done = system.background_by(end_ns).expect("a rebuild");
    done.done_bytes as f64 * 1e3 / end_ns as f64
}

fn hours_of_16_tb(level: &str, members: u32, more: &str) -> f64 {
    16e6 / resilver_mb_per_s(&pool(level, members, &format!("{more},condition=rebuilding")), 10) / 3600.0
}

#[test]
fn a_distributed_spare_is_ready_the_sooner_the_more_disks_there_are() {
    let hours = [12, 24, 48, 90].map(|n| hours_of_16_tb("draid2", n, ",draid_spares=1"));
    assert!(hours.windows(2).all(|w| w[1] < 0.8 * w[0]), "{hours:?}");
    let raidz = hours_of_16_tb("raidz2", 10, "");
    assert!(hours[1] < raidz && hours[3] < raidz / 3.0, "{hours:?} against {raidz} of a raidz2");
}

/// OpenZFS documentation, dRAID, chart "Hours to Replace a 16TB Disk": 90 disks, one distributed spare, single parity, by
/// data disks of a group, read off by eye; and a spare that is a disk. Its disks are not named, so the ratio is compared.
/// Nothing was fitted to it.
#[test]
fn resilvers_take_the_published_share_of_a_traditional_one() {
    let traditional = hours_of_16_tb("draid1", 90, ",draid_data=8");
    for (data, published) in [(2, 1.3), (4, 2.9), (8, 7.1), (16, 14.3)] {
        let found = hours_of_16_tb("draid1", 90, &format!(",draid_spares=1,draid_data={data}")) / traditional;
        let share = published / 29.0;
        assert!((0.6..=1.4).contains(&(found / share)), "{data} data disks: {found} of it, published {share}");
    }
    // The same documentation of zfs_rebuild_vdev_limit (module/zfs/vdev_rebuild.c): 1.2 GB/s with draid2:11d:106c.
    let brick = pool("draid2", 106, ",draid_data=11,draid_spares=2,condition=rebuilding");
    let found = resilver_mb_per_s(&brick, 10);
    assert!((850.0..=1_600.0).contains(&found), "{found} MB/s");
}

#[test]
fn users_and_a_resilver_share_the_disks() {
    let rate = |more: &str| {
        let mut system = System::new(&pool("raidz2", 8, more)).expect("a brick that can be built");
        let mut places = Places::of(&system);
        let rate = closed_loop(&mut system, Kind::Read, 8192, 8, 2_000, || places.next());
        let done = system.background_by((2_000.0 / rate * 1e9) as u64);
        (rate, done.map_or(0.0, |d| d.done_bytes as f64 * 1e3 / d.spent_ns as f64))
    };
    let (alone, _) = rate("");
    let (beside, resilver) = rate(",condition=rebuilding");
    assert!(beside > 0.25 * alone && beside < 0.9 * alone, "{beside} of {alone}");
    let idle = resilver_mb_per_s(&pool("raidz2", 8, ",condition=rebuilding"), 10);
    assert!(resilver > 0.05 * idle && resilver < 0.7 * idle, "{resilver} of {idle} MB/s");
}

#[test]
fn members_fail_and_spares_take_over() {
    for (level, more) in [
        ("raidz2", ",members=6,spares=1"),
        ("zmirror", ",members=4,spares=1"),
        ("draid1", ",members=7,draid_data=3,draid_spares=1"),
    ] {
        let mut system = System::new(&small(level, &format!("{more},fail_at=1s"))).expect("a brick that can be built");
        let mut places = Places::of(&system);
        let mut random = || places.next();
        closed_loop(&mut system, Kind::Read, 8192, 4, 300, &mut random);
        run_out(&mut system);
        let words: Vec<&str> = system
            .take_changes()
            .into_iter()
            .map(|change| match change {
                sim::system::Change::Condition { condition, .. } => condition.name(),
                sim::system::Change::PowerCut { .. } => "power cut",
            })
            .collect();
        assert_eq!(words, ["rebuilding", "normal"], "{level}");
        let failed = system.members_work()[0];
        assert!(failed.writes == 0, "{level}: nothing is written to a disk that is gone");
    }
    // One failure more than the parity loses data.
    let fails = ["fail_at=[\"1s\",\"2s\"]".to_string()];
    let losing = resolve("zfs-raidz2,level=raidz1,members=4", &common::brick_texts(), &fails).expect("a brick");
    let mut system = System::new(&losing).expect("a brick that can be built");
    system.advance(3_000_000_000);
    submit(&mut system, 3_000_000_000, Kind::Write, 0, 131_072, false);
    let mut failed = Vec::new();
    system.advance(4_000_000_000);
    system.take_outcomes(|(_, _, lost)| failed.push(lost));
    assert_eq!(failed, [true]);
}

#[test]
fn what_is_not_modelled_is_refused_in_one_line() {
    let refused = |spoken: &str| resolve(spoken, &common::brick_texts(), &[]).expect_err("not a brick").message;
    for (spoken, said) in [
        ("zfs-raidz2,software=linux-md", "raidz2 is kept by ZFS; take software=linux-zfs"),
        ("zfs-raidz2,level=raid6", "ZFS keeps no raid6"),
        ("zfs-raidz2,members=2", "2 members in a vdev; raidz2 takes from 3 to 255"),
        ("zfs-raidz2,level=zmirror,members=2,vdevs=2,condition=degraded", "without redundancy cannot be degraded"),
        ("zfs-raidz2,level=zmirror,members=2,vdevs=2,fail_at=1s", "a stripe of ZFS is lost with its first disk"),
        ("zfs-raidz2,members=9,vdevs=2", "9 members cannot be shared out evenly over 2 vdevs"),
        ("zfs-raidz2,condition=initializing", "ZFS has no initial resync"),
        ("zfs-raidz2,power_cut_at=3s", "not modelled"),
        ("zfs-raidz2,draid_spares=1", "are a dRAID's; raidz2 has none"),
        ("zfs-raidz2,level=draid2,spares=1", "take draid_spares"),
        ("zfs-raidz2,level=draid2,draid_data=8", "8 members; groups of 8 data and 2 parity disks and 0 spares need 10"),
        ("zfs-raidz2,level=draid1,members=22,vdevs=2", "one dRAID vdev is modelled"),
        ("zfs-raidz2,level=zmirror,members=5", "an even number is needed"),
        ("zfs-raidz2,stripe=64KiB", "take software.zfs_recordsize"),
        ("zfs-raidz2,software.zfs_recordsize=100KiB", "a power of 2"),
        ("zfs-raidz2,software.zfs_record=1", "software.zfs_record"),
        ("zfs-raidz2,software=,controller=linux-zfs", "ZFS is software"),
        ("terraserver-2003,vdevs=2", "raid10 has none"),
    ] {
        let found = refused(spoken);
        assert!(found.contains(said) && found.lines().count() == 1, "{spoken}: {found}");
    }
    let full = brick("zfs-raidz2,software.zfs_fill_percent=100,software.zfs_dirty_data_max=64GiB");
    let Err(found) = System::new(&full) else { panic!("no free space for copy-on-write") };
    assert!(found.contains("lower that or software.zfs_fill_percent"), "{found}");
}

#[test]
fn requests_wait_for_a_processor() {
    // 10 us and 33 us of copying a record of 128 KiB: four cores end 93,500 a second, whatever the depth.
    let rate = |cores: u32| {
        let brick = pool("raidz2", 8, &format!(",software.zfs_cores={cores},software.zfs_dirty_data_max=64GiB"));
        let mut system = System::new(&brick).expect("a brick that can be built");
        let mut at = 0;
        let next = || {
            at += 131_072;
            at - 131_072
        };
        closed_loop(&mut system, Kind::Write, 131_072, 1024, 40_000, next)
    };
    let (four, eight) = (rate(4), rate(8));
    let most = 4.0 / (10e-6 + 131_072.0 / 4e9);
    assert!((0.95 * most..=1.001 * most).contains(&four), "{four} of {most}");
    assert!((1.9..=2.001).contains(&(eight / four)), "{eight} and {four}");
}

#[test]
fn dirty_records_are_reported_until_they_are_written() {
    let brick = pool("raidz2", 8, "");
    let mut system = System::new(&brick).expect("a brick that can be built");
    closed_loop(&mut system, Kind::Write, 1 << 20, 8, 200, {
        let mut at = 0;
        move || {
            at += 1 << 20;
            at - (1 << 20)
        }
    });
    let held = system.caches_work();
    assert!(held.memory_bytes > 0 && held.memory_bytes == held.memory_dirtied_bytes, "{held:?}");
    // The next transaction groups write them; then drives empty their caches.
    system.advance(120_000_000_000);
    let held = system.caches_work();
    assert_eq!((held.memory_bytes, held.drive_bytes), (0, 0));
    assert!(held.memory_dirtied_bytes >= 200 << 20);
}

fn stream_mb_per_s(level: &str, members: u32, vdevs: u32) -> f64 {
    let brick = pool(level, members, &format!(",vdevs={vdevs},software.zfs_dirty_data_max=1GiB"));
    let mut system = System::new(&brick).expect("a brick that can be built");
    let mut at = 0;
    let next = || {
        at += 1 << 20;
        at - (1 << 20)
    };
    closed_loop(&mut system, Kind::Write, 1 << 20, 1, 10_000, next) * 1.048_576
}

/// A stream written to eight SAS disks with sectors of 4 KiB (reference/zfs_eight_disks.csv), as multiples of that to two
/// raidz2 of four: one wide raidz2 is no slower than its data disks say. Nothing was fitted to it.
#[test]
fn a_raidz_of_eight_writes_as_measured_where_sectors_are_whole() {
    let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reference/zfs_eight_disks.csv");
    let text = std::fs::read_to_string(home).expect("the table");
    let rows: Vec<(String, u32, u32, f64)> = text
        .lines()
        .skip(1)
        .map(|line| {
            let mut cells = line.split(',');
            let mut cell = || cells.next().expect("four columns");
            let level = cell().to_owned();
            let (members, vdevs) = (cell().parse().expect("disks"), cell().parse().expect("vdevs"));
            (level, members, vdevs, cell().parse().expect("MB/s"))
        })
        .collect();
    let [first, wide @ ..] = rows.as_slice() else { panic!("rows") };
    let base = stream_mb_per_s(&first.0, first.1, first.2);
    for (level, members, vdevs, measured) in wide {
        let found = stream_mb_per_s(level, *members, *vdevs) / base / (measured / first.3);
        println!(
            "{level} {members} in {vdevs}: {:.2} times, measured {:.2}",
            found * measured / first.3,
            measured / first.3
        );
        assert!((0.8..=1.25).contains(&found), "{level}: {found:.2}");
    }
}

/// Sequential writes of calomel.org's table (reference/zfs_calomel.csv): bonnie++ on 4 TB SATA disks of a host that is not
/// described. Rates are compared as multiples of a mirror of two. Nothing was fitted to it. Up to six disks the model is
/// right but for one pool. That host writes no more than its 24 disks do as a plain stripe; held to that, the model is right
/// of wider pools as well where each disk's share of a record is whole sectors of 4 KiB, which those disks have inside.
#[test]
fn streams_are_ordered_as_measured_up_to_six_disks() {
    let stream = |row: &Row| stream_mb_per_s(&row.level, row.members, row.vdevs);
    let rows = calomel();
    let pair = rows.iter().find(|r| r.level == "zmirror" && r.members == 2).expect("a mirror of two");
    let one = stream(pair);
    let host = rows.iter().filter(|r| r.members == 24).map(|r| r.write_mb_per_s).fold(0.0, f64::max);
    let (mut narrow, mut wide, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows.iter().filter(|r| r.level != "stripe") {
        let (found, measured) = (stream(row) / one, row.write_mb_per_s / pair.write_mb_per_s);
        let times = found / measured;
        println!(
            "{:8} {:2} in {:2}: {found:.2} pairs, measured {measured:.2}, {times:.2} times",
            row.level, row.members, row.vdevs
        );
        let parity: u32 = row.level.strip_prefix("raidz").map_or(0, |p| p.parse().expect("a parity"));
        let data = row.members / row.vdevs - parity;
        if row.members <= 6 {
            narrow.push(times);
        } else {
            wide.push(times);
        }
        if row.members > 6 && (parity == 0 || data.is_power_of_two()) {
            whole.push(found.min(host / pair.write_mb_per_s) / measured);
        }
    }
    println!("narrow {narrow:.2?} wide {wide:.2?} whole {whole:.2?}");
    assert!(whole.len() >= 6 && whole.iter().all(|times| (0.9..=1.35).contains(times)), "{whole:.2?}");
    assert!(narrow.iter().filter(|times| (0.65..=1.5).contains(*times)).count() >= narrow.len() - 1, "{narrow:.2?}");
    // What docs/models.md says of wide pools; where the model comes nearer, it is to say so.
    assert!(wide.iter().all(|times| (0.9..=4.0).contains(times)), "{wide:.2?}");
    assert!(wide.iter().filter(|times| **times > 1.5).count() >= 8, "{wide:.2?}");
}
