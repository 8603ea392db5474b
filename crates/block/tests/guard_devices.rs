//! Nothing on a block device is destroyed by accident: real loop devices that carry what users have.

mod common;

use block::guard::{Access, DATA_START_BYTES, Header, TargetKind, claim, open, read_header, write_header};
use common::*;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What an idle device with this on it must go through.
fn assert_protected(device: &Loop, what: &str) {
    let before = device.fingerprint();
    let asked = [(NONE, "--overwrite"), (OVERWRITE, "--i-know-this-destroys-data"), (DESTROY, "--overwrite")];
    for (consent, remedy) in asked {
        let message = refusal(device.try_write(consent), &device.path);
        assert!(message.contains(what), "`{message}` does not name {what}");
        assert!(message.contains(remedy), "`{message}` does not name {remedy}");
    }
    assert_eq!(device.fingerprint(), before, "{what} was changed by a refusal");
    let guarded = device.try_write(BOTH).expect("both consents together allow it");
    assert_eq!(guarded.header, None);
    drop(guarded);
    assert_eq!(device.fingerprint(), before, "{what} was changed by opening");
}

#[test]
fn file_systems_need_both_consents() {
    let _turn = turn();
    let makers: [(&str, u64, &str, &[&str]); 6] = [
        ("ext2", 64, "mkfs.ext4", &["-q", "-F", "-t", "ext2"]),
        ("ext3", 64, "mkfs.ext4", &["-q", "-F", "-t", "ext3"]),
        ("ext4", 64, "mkfs.ext4", &["-q", "-F"]),
        // The smallest that mkfs.xfs makes is 300 MiB.
        ("XFS", 320, "mkfs.xfs", &["-q", "-f"]),
        ("btrfs", 128, "mkfs.btrfs", &["-q", "-f"]),
        ("swap", 64, "mkswap", &[]),
    ];
    for (what, size_mib, program, options) in makers {
        let device = Loop::new(size_mib * MIB);
        run(program, &[options, &[device.name()]].concat());
        assert_protected(&device, what);
    }
}

#[test]
fn partition_tables_need_both_consents() {
    let _turn = turn();
    for (what, label) in [("GPT partition table", "gpt"), ("MBR partition table", "msdos")] {
        let device = Loop::new(64 * MIB);
        run("parted", &["-s", device.name(), "mklabel", label, "mkpart", "primary", "1MiB", "30MiB"]);
        assert_protected(&device, what);
    }
}

#[test]
fn a_gpt_of_which_only_the_backup_is_left_counts() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    run("parted", &["-s", device.name(), "mklabel", "gpt"]);
    device.write(0, &vec![0; MIB as usize]);
    assert_protected(&device, "GPT partition table (backup)");
}

#[test]
fn an_lvm_physical_volume_needs_both_consents() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let only = format!("devices {{ filter=[\"a|^{}$|\",\"r|.*|\"] use_devicesfile=0 }}", device.name());
    run("pvcreate", &["-qq", "-y", "--config", &only, device.name()]);
    assert_protected(&device, "LVM physical volume");
}

#[test]
fn marks_at_the_places_of_their_formats_count() {
    let _turn = turn();
    let size = 16 * MIB + 12_288;
    let md = 0xa92b_4efc_u32.to_le_bytes();
    let md_big_endian = 0xa92b_4efc_u32.to_be_bytes();
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let cases: [(&str, u64, &[u8]); 33] = [
        ("md RAID member (1.1)", 0, &md),
        ("md RAID member (1.2)", 4096, &md),
        // (size - 8 KiB) rounded down to 4 KiB; the last 64 KiB boundary, less 64 KiB.
        ("md RAID member (1.0)", 16 * MIB + 4096, &md),
        ("md RAID member (0.90)", 16 * MIB - 65536, &md),
        ("md RAID member (0.90)", 16 * MIB - 65536, &md_big_endian),
        ("LUKS", 0, b"LUKS\xba\xbe\x00\x01"),
        ("LUKS", 0, b"LUKS\xba\xbe\x00\x02"),
        ("LUKS2", 0x4000, b"SKUL\xba\xbe\x00\x02"),
        ("ZFS", 128 << 10, &uberblock),
        ("ZFS", (384 << 10) + 5 * 1024, &uberblock),
        ("ZFS", 16 * MIB - (128 << 10), &uberblock),
        ("ZFS", 16 * MIB - (384 << 10), &0x00ba_b10c_u64.to_be_bytes()),
        ("bcache", 4096 + 24, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
        ("DDF RAID member", size - 512, b"\xde\x11\xde\x11"),
        ("Intel RAID member", size - 1024, b"Intel Raid ISM Cfg Sig. 1.1.00"),
        ("LVM physical volume", 512, b"LABELONE\x01\0\0\0\0\0\0\0\0\0\0\0\x20\0\0\0LVM2 001"),
        ("F2FS", 1024, b"\x10\x20\xf5\xf2"),
        ("NTFS", 3, b"NTFS    "),
        ("exFAT", 3, b"EXFAT   "),
        ("FAT", 0x36, b"FAT16   "),
        ("FAT", 0x52, b"FAT32   "),
        ("ISO9660", 32769, b"CD001"),
        ("GPT partition table", 4096, b"EFI PART"),
        ("GPT partition table (backup)", size - 4096, b"EFI PART"),
        ("MBR partition table or boot sector", 510, b"\x55\xaa"),
        ("swap", 65536 - 10, b"SWAPSPACE2"),
        ("UFS2", 65536 + 1372, &0x1954_0119_u32.to_le_bytes()),
        ("UFS2", 65536 + 1372, &0x1954_0119_u32.to_be_bytes()),
        ("UFS", 8192 + 1372, &0x0001_1954_u32.to_le_bytes()),
        ("minix", 1024 + 16, &0x138f_u16.to_le_bytes()),
        ("minix", 1024 + 24, &0x4d5a_u16.to_le_bytes()),
        ("dm-integrity", 0, b"integrt\0\x05"),
        ("dm-verity hashes", 0, b"verity\0\0\x01"),
    ];
    let device = Loop::new(size);
    for (what, at, bytes) in cases {
        device.write(at, bytes);
        assert_protected(&device, what);
        device.write(at, &vec![0; bytes.len()]);
    }
    device.try_write(OVERWRITE).expect("blank again, so each refusal was for its mark");
}

#[test]
fn a_blank_device_needs_to_be_named() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let before = device.fingerprint();
    for consent in [NONE, DESTROY] {
        let message = refusal(device.try_write(consent), &device.path);
        assert!(message.contains(&format!("--overwrite {}", device.name())), "{message}");
    }
    let guarded = device.try_write(OVERWRITE).expect("idle, blank and named");
    assert_eq!((guarded.kind, guarded.size_bytes, guarded.header), (TargetKind::Block, 64 * MIB, None));
    assert_eq!(guarded.buffered, None);
    assert_eq!(guarded.logical_block_bytes, 512);
    assert!(guarded.offset_align_bytes >= 512 && guarded.memory_align_bytes > 0);
    drop(guarded);
    assert_eq!(device.fingerprint(), before);
}

#[test]
fn any_device_may_be_read() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    run("mkfs.ext4", &["-q", "-F", device.name()]);
    let scratch = Scratch::new();
    let _mount = Mount::new(&[device.name()], scratch.path("mnt"));
    let guarded = open(&device.path, Access::Read, true, None, &NONE).expect("reading destroys nothing");
    assert_eq!(guarded.size_bytes, 64 * MIB);
    let written = std::os::unix::fs::FileExt::write_at(&guarded.file, &[0; 512], 0);
    assert!(written.is_err(), "the descriptor cannot write");
}

#[test]
fn a_mounted_device_is_refused_whatever_the_consent() {
    let _turn = turn();
    for (program, size_mib) in [("mkfs.ext4", 64), ("mkfs.xfs", 320)] {
        let device = Loop::new(size_mib * MIB);
        run(program, &["-q", device.name()]);
        let scratch = Scratch::new();
        let mount = Mount::new(&[device.name()], scratch.path("mnt with space"));
        let message = refusal(device.try_write(BOTH), &device.path);
        assert!(message.contains(&format!("is mounted at {}", text(&mount.0))), "{message}");
        drop(mount);
        device.try_write(BOTH).expect("idle again");
    }
}

#[test]
fn each_member_of_a_mounted_btrfs_is_refused() {
    let _turn = turn();
    let (first, second) = (Loop::new(128 * MIB), Loop::new(128 * MIB));
    run("mkfs.btrfs", &["-q", "-f", first.name(), second.name()]);
    run("btrfs", &["device", "scan", first.name(), second.name()]);
    let scratch = Scratch::new();
    let mount = Mount::new(&[first.name()], scratch.path("mnt"));
    for device in [&first, &second] {
        let message = refusal(device.try_write(BOTH), &device.path);
        assert!(message.contains("is mounted at") || message.contains("belongs to the mounted btrfs"), "{message}");
    }
    drop(mount);
    run("btrfs", &["device", "scan", "--forget", first.name()]);
    run("btrfs", &["device", "scan", "--forget", second.name()]);
}

#[test]
fn a_disk_is_refused_while_one_of_its_partitions_is_mounted() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    // Known to the kernel, though nothing on the disk says so.
    run("addpart", &[device.name(), "1", "2048", "65536"]);
    let partition = format!("{}p1", device.name());
    run("mkfs.ext4", &["-q", "-F", &partition]);
    let scratch = Scratch::new();
    let mount = Mount::new(&[&partition], scratch.path("mnt"));
    let message = refusal(device.try_write(BOTH), &device.path);
    assert!(message.contains(&format!("partition {}p1 is mounted at", device.short_name())), "{message}");
    let path = Path::new(&partition);
    let message = refusal(open(path, Access::Write, true, None, &BOTH), path);
    assert!(message.contains("is mounted at"), "{message}");
    drop(mount);
    assert_protected(&device, &format!("ext4 on {}p1", device.short_name()));
}

struct Swap(String);

impl Drop for Swap {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).output();
    }
}

#[test]
fn swap_in_use_is_refused_whatever_the_consent() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    run("mkswap", &[device.name()]);
    run("swapon", &[device.name()]);
    let swap = Swap(device.name().into());
    let message = refusal(device.try_write(BOTH), &device.path);
    assert!(message.contains("is in use as swap"), "{message}");
    drop(swap);
}

#[test]
fn what_a_loop_device_stands_on_is_refused() {
    let _turn = turn();
    let lower = Loop::new(64 * MIB);
    let upper = Attached(attach(&lower.path, &[]));
    let message = refusal(lower.try_write(BOTH), &lower.path);
    assert!(message.contains(&format!("is in use by {}", text(&upper.0).trim_start_matches("/dev/"))), "{message}");

    let scratch = Scratch::new();
    let path = scratch.path("ours");
    drop(open(&path, Access::Write, false, Some(MIB), &NONE).expect("a new file"));
    let over_file = Attached(attach(&path, &[]));
    let message = refusal(open(&path, Access::Write, false, None, &BOTH), &path);
    assert!(message.contains("is in use by loop"), "{message}");
    drop(over_file);
    open(&path, Access::Write, false, None, &NONE).expect("ours, and idle again");
}

#[test]
fn a_second_loop_device_over_a_mounted_ones_file_is_refused() {
    let _turn = turn();
    let mounted = Loop::new(64 * MIB);
    let second = Attached(attach(&mounted.backing, &[]));
    let message = refusal(open(&second.0, Access::Write, true, None, &BOTH), &second.0);
    assert!(message.contains(&format!("stands on the file that {} stands on too", mounted.short_name())), "{message}");
    drop(second);
    mounted.try_write(OVERWRITE).expect("alone on its file again");
}

#[test]
fn a_read_only_device_is_refused() {
    let _turn = turn();
    let scratch = Scratch::new();
    let backing = scratch.path("backing");
    std::fs::File::create(&backing).and_then(|f| f.set_len(64 * MIB)).expect("a backing file");
    let read_only = Attached(attach(&backing, &["-r"]));
    let message = refusal(open(&read_only.0, Access::Write, true, None, &BOTH), &read_only.0);
    assert!(message.contains("is read-only"), "{message}");
    open(&read_only.0, Access::Read, true, None, &NONE).expect("it can be read");
}

struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_device_that_another_process_writes_is_refused() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let script = format!("exec 3<>{}; echo ready; read end", device.name());
    let shell = Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut shell = Process(shell.expect("a shell"));
    let mut line = String::new();
    BufReader::new(shell.0.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let message = refusal(device.try_write(BOTH), &device.path);
    assert!(message.contains(&format!("process {} (sh) has it open for writing", shell.0.id())), "{message}");
    drop(shell);
    device.try_write(OVERWRITE).expect("idle again");
}

#[test]
fn a_partition_is_refused_while_its_disk_is_used() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    run("addpart", &[device.name(), "1", "2048", "65536"]);
    let partition = format!("{}p1", device.name());
    let path = Path::new(&partition);
    let try_write = || open(path, Access::Write, true, None, &BOTH);
    let upper = Attached(attach(&device.path, &[]));
    let message = refusal(try_write(), path);
    assert!(message.contains("the disk it is a part of is in use by loop"), "{message}");
    drop(upper);
    drop(try_write().expect("idle again"));
    let whole = device.try_write(BOTH).expect("idle");
    refusal(try_write(), path);
    drop(whole);
}

#[test]
fn claiming_touches_the_edges_only() {
    let _turn = turn();
    let size_bytes = 8 * MIB + 512;
    let device = Loop::new(size_bytes);
    device.write(0, &vec![0xEE; size_bytes as usize]);
    let guarded = device.try_write(OVERWRITE).expect("nothing that is known");
    claim(&guarded.file, guarded.size_bytes, &header(&device)).expect("the device becomes ours");
    drop(guarded);
    let bytes = std::fs::read(&device.backing).expect("the backing file");
    let (mib, tail) = (MIB as usize, 7 * MIB as usize);
    assert!(bytes.starts_with(b"BRICKYARD SCRATCH"));
    assert!(bytes[4096..mib].iter().all(|byte| *byte == 0));
    assert!(bytes[mib..tail].iter().all(|byte| *byte == 0xEE));
    assert!(bytes[tail + 4096..].iter().all(|byte| *byte == 0));
}

#[test]
fn one_target_cannot_be_opened_twice_for_writing() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let first = device.try_write(OVERWRITE).expect("idle");
    refusal(device.try_write(BOTH), &device.path);
    drop(first);
    device.try_write(OVERWRITE).expect("idle again");
}

fn header(device: &Loop) -> Header {
    let size_bytes = std::fs::metadata(&device.backing).expect("a backing file").len();
    Header { uuid: [9; 16], data_bytes: size_bytes - DATA_START_BYTES, seed: 5, filled_bytes: 0, is_trimmed: false }
}

#[test]
fn a_device_of_ours_only_needs_to_be_named() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    run("parted", &["-s", device.name(), "mklabel", "gpt", "mkpart", "primary", "1MiB", "30MiB"]);
    let guarded = device.try_write(BOTH).expect("with both consents");
    claim(&guarded.file, guarded.size_bytes, &header(&device)).expect("the device becomes ours");
    let later = Header { filled_bytes: 4096, ..header(&device) };
    guarded.file.write_all_at(&block_of(7).0, DATA_START_BYTES).expect("what was filled");
    write_header(&guarded.file, &later).expect("a direct write of the header");
    assert_eq!(read_header(&guarded.file).expect("a direct read of the header"), Some(later));
    drop(guarded);

    let message = refusal(device.try_write(NONE), &device.path);
    assert!(message.contains("--overwrite"), "{message}");
    let guarded = device.try_write(OVERWRITE).expect("nothing of the partition table is left");
    assert_eq!(guarded.header, Some(later));
}

#[repr(C, align(4096))]
struct Aligned([u8; 4096]);

fn block_of(byte: u8) -> Box<Aligned> {
    Box::new(Aligned([byte; 4096]))
}

#[test]
fn what_others_trimmed_since_is_not_called_filled() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let guarded = device.try_write(OVERWRITE).expect("an idle device");
    let whole = header(&device);
    let filled = Header { filled_bytes: whole.data_bytes, ..whole };
    claim(&guarded.file, guarded.size_bytes, &filled).expect("the device becomes ours");
    for at in (DATA_START_BYTES..guarded.size_bytes).step_by(4096) {
        guarded.file.write_all_at(&block_of(7).0, at).expect("a write");
    }
    drop(guarded);
    let found = |access| open(&device.path, access, true, None, &OVERWRITE).expect("ours").header.expect("a header");
    assert_eq!((found(Access::Write), found(Access::Read)), (filled, filled));

    run("blkdiscard", &["-o", "41943040", "-l", "2097152", device.name()]);
    for access in [Access::Write, Access::Read] {
        let left = found(access);
        assert!(left.is_trimmed);
        assert!((37 * MIB..=39 * MIB).contains(&left.filled_bytes), "{}", left.filled_bytes);
    }
}

#[test]
fn our_header_does_not_hide_what_came_after_it() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let guarded = device.try_write(OVERWRITE).expect("idle and blank");
    claim(&guarded.file, guarded.size_bytes, &header(&device)).expect("the device becomes ours");
    drop(guarded);
    // md 1.0 keeps its superblock at the end and leaves the start, with our header, to the data of the array.
    device.write(64 * MIB - 8192, &0xa92b_4efc_u32.to_le_bytes());
    let before = device.fingerprint();
    let message = refusal(device.try_write(OVERWRITE), &device.path);
    assert!(message.contains("md RAID member (1.0)"), "{message}");
    assert_eq!(device.fingerprint(), before);
}

#[test]
fn a_header_that_reaches_beyond_the_device_is_not_ours() {
    let _turn = turn();
    let device = Loop::new(64 * MIB);
    let guarded = device.try_write(OVERWRITE).expect("idle and blank");
    write_header(&guarded.file, &Header { data_bytes: 1 << 40, ..header(&device) }).expect("a header");
    drop(guarded);
    assert_eq!(device.try_write(OVERWRITE).expect("named").header, None);
}
