//! Only files that begin with our header are written; a new one is made only where there is room.

mod common;

use block::guard::{Access, DATA_START_BYTES, HEADER_BYTES, TargetKind, open, read_header, write_header};
use common::*;
use engine::event::BufferedReason;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

fn make(path: &Path, data_bytes: u64) {
    drop(open(path, Access::Write, true, Some(data_bytes), &NONE).expect("a new scratch file"));
}

/// Through the page cache, which asks for no alignment of memory.
fn fill(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).expect("the file");
    file.write_all_at(&vec![7; bytes as usize], DATA_START_BYTES).expect("what was filled");
}

fn write_refusal(path: &Path) -> String {
    refusal(open(path, Access::Write, true, Some(MIB), &BOTH), path)
}

#[test]
fn a_missing_file_is_made_only_on_request() {
    let scratch = Scratch::new();
    let path = scratch.path("new");
    for access in [Access::Read, Access::Write] {
        assert!(refusal(open(&path, access, true, None, &BOTH), &path).contains("does not exist"));
        assert!(!path.exists());
    }
    let guarded = open(&path, Access::Write, true, Some(3 * MIB), &NONE).expect("a new scratch file");
    assert_eq!((guarded.kind, guarded.size_bytes), (TargetKind::File, DATA_START_BYTES + 3 * MIB));
    let header = guarded.header.expect("a header of ours");
    assert_eq!((header.data_bytes, header.filled_bytes), (3 * MIB, 0));
    let found = std::fs::metadata(&path).expect("the file");
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    assert!(found.blocks() * 512 >= 4 * MIB, "the space is reserved");
    assert_eq!(read_header(&guarded.file).expect("a readable header"), Some(header));
}

#[test]
fn our_file_may_be_written_again_and_its_header_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path("ours");
    make(&path, MIB);
    let guarded = open(&path, Access::Write, true, Some(MIB), &NONE).expect("ours");
    let mut header = guarded.header.expect("a header");
    header.filled_bytes = 65536;
    header.seed = 77;
    fill(&path, 65536);
    write_header(&guarded.file, &header).expect("a new header");
    drop(guarded);
    for access in [Access::Read, Access::Write] {
        assert_eq!(open(&path, access, true, None, &NONE).expect("ours").header, Some(header));
    }
}

#[test]
fn what_was_filled_ends_at_the_first_hole() {
    let scratch = Scratch::new();
    let path = scratch.path("ours");
    make(&path, MIB);
    let guarded = open(&path, Access::Write, true, Some(MIB), &NONE).expect("ours");
    let header = block::guard::Header { filled_bytes: MIB, ..guarded.header.expect("a header") };
    fill(&path, MIB);
    write_header(&guarded.file, &header).expect("a new header");
    drop(guarded);
    let filled = || open(&path, Access::Read, true, None, &NONE).expect("ours").header.expect("a header").filled_bytes;
    assert_eq!(filled(), MIB);
    let file = File::options().write(true).open(&path).expect("the file");
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, DATA_START_BYTES + 262_144, 65536).expect("a hole");
    assert_eq!(filled(), 262_144);
    file.set_len(DATA_START_BYTES).expect("a shorter file");
    file.set_len(DATA_START_BYTES + MIB).expect("a longer file");
    assert_eq!(filled(), 0);
}

#[test]
fn two_new_files_have_different_names_for_themselves() {
    let scratch = Scratch::new();
    let uuid = |name: &str| {
        let guarded = open(&scratch.path(name), Access::Write, true, Some(MIB), &NONE).expect("a new file");
        guarded.header.expect("a header").uuid
    };
    assert_ne!(uuid("a"), uuid("b"));
}

#[test]
fn a_file_of_the_user_is_never_written() {
    let scratch = Scratch::new();
    let path = scratch.path("thesis.tex");
    for content in [&b""[..], b"short", &[7; 100_000], b"BRICKYARD SCRATCH"] {
        std::fs::write(&path, content).expect("the user's file");
        assert!(write_refusal(&path).contains("was not made by Brickyard"));
        assert_eq!(std::fs::read(&path).expect("the user's file"), content);
        open(&path, Access::Read, true, None, &NONE).expect("it may be read");
    }
}

#[test]
fn a_damaged_or_shortened_file_of_ours_is_not_written() {
    let scratch = Scratch::new();
    let path = scratch.path("ours");
    make(&path, MIB);
    let file = File::options().read(true).write(true).open(&path).expect("the file");
    file.set_len(DATA_START_BYTES).expect("a shorter file");
    assert!(write_refusal(&path).contains("is shorter than its header says"));
    file.write_all_at(b"x", HEADER_BYTES as u64 / 2).expect("damage");
    let message = write_refusal(&path);
    assert!(message.contains("damaged") && message.contains("delete it"), "{message}");
}

#[test]
fn a_file_of_ours_that_another_program_wrote_over_is_called_that() {
    let scratch = Scratch::new();
    let path = scratch.path("ours");
    make(&path, MIB);
    let file = File::options().read(true).write(true).open(&path).expect("the file");
    file.write_all_at(&[7; HEADER_BYTES], 0).expect("another program's block");
    let message = write_refusal(&path);
    assert!(message.contains("another program has written over its first block"), "{message}");
    assert!(message.contains("remove this one if nothing needs it"), "{message}");
}

#[test]
fn symbolic_links_lead_to_the_same_rules() {
    let scratch = Scratch::new();
    let (ours, theirs) = (scratch.path("ours"), scratch.path("theirs"));
    make(&ours, MIB);
    std::fs::write(&theirs, b"text").expect("the user's file");
    let link = |name: &str, target: &Path| {
        let link = scratch.path(name);
        std::os::unix::fs::symlink(target, &link).expect("a link");
        link
    };
    open(&link("to_ours", &ours), Access::Write, true, None, &NONE).expect("ours");
    assert!(write_refusal(&link("to_theirs", &theirs)).contains("was not made by Brickyard"));
    let dangling = link("to_nothing", &scratch.path("nothing"));
    assert!(write_refusal(&dangling).contains("symbolic link to nothing"));
    assert!(!scratch.path("nothing").exists());
    assert!(write_refusal(&link("circle", &scratch.path("circle"))).contains("go round in a circle"));
}

#[test]
fn what_is_neither_file_nor_block_device_is_refused() {
    let scratch = Scratch::new();
    let (socket, pipe) = (scratch.path("socket"), scratch.path("pipe"));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    run("mkfifo", &[text(&pipe)]);
    let cases: [(&Path, &str); 4] = [
        (&scratch.0, "is a directory"),
        (Path::new("/dev/null"), "is a character device"),
        (&socket, "is a socket"),
        (&pipe, "is a pipe"),
    ];
    for (path, what) in cases {
        for access in [Access::Read, Access::Write] {
            let message = refusal(open(path, access, true, Some(MIB), &BOTH), path);
            assert!(message.contains(what), "{message}");
        }
    }
}

#[test]
fn a_file_is_not_made_where_it_has_no_place() {
    let scratch = Scratch::new();
    let missing = scratch.path("no/such/directory");
    assert!(write_refusal(&missing).contains("directory does not exist"));
    std::fs::write(scratch.path("file"), b"").expect("a file");
    assert!(write_refusal(&scratch.path("file/below")).contains("not a directory"));
    let path = scratch.path("huge");
    for data_bytes in [1 << 60, u64::MAX - 10, 0] {
        refusal(open(&path, Access::Write, true, Some(data_bytes), &BOTH), &path);
        assert!(!path.exists());
    }
}

#[test]
fn a_full_file_system_is_one_clear_line_and_leaves_nothing() {
    let scratch = Scratch::new();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=4m", "brickyard-test"], scratch.path("small"));
    let path = mount.0.join("scratch");
    let message = refusal(open(&path, Access::Write, true, Some(8 * MIB), &NONE), &path);
    assert!(message.contains("needs 9 MiB, and its file system has 4 MiB free; choose a smaller size"), "{message}");
    assert!(!path.exists());
}

#[test]
fn a_file_system_without_inodes_is_one_clear_line_and_leaves_nothing() {
    let scratch = Scratch::new();
    let device = Loop::new(64 * MIB);
    run("mkfs.ext4", &["-q", "-F", "-N", "16", device.name()]);
    let mount = Mount::new(&[device.name()], scratch.path("mnt"));
    let taken = (0..100).take_while(|i| File::create(mount.0.join(i.to_string())).is_ok()).count();
    assert!(taken < 100, "the inodes run out");
    let path = mount.0.join("scratch");
    let message = refusal(open(&path, Access::Write, true, Some(MIB), &NONE), &path);
    assert!(message.contains("does not grant; choose a smaller size or another path"), "{message}");
    assert!(!path.exists());
}

#[test]
fn a_line_break_in_a_path_does_not_break_the_line() {
    let scratch = Scratch::new();
    let error = open(&scratch.path("two\nlines"), Access::Write, true, None, &NONE).expect_err("does not exist");
    assert!(error.bad_input && !error.message.contains('\n'), "{error}");
}

#[test]
fn a_read_only_file_system_is_one_clear_line() {
    let scratch = Scratch::new();
    let device = Loop::new(64 * MIB);
    run("mkfs.ext4", &["-q", "-F", device.name()]);
    let mount = Mount::new(&[device.name()], scratch.path("mnt"));
    let path = mount.0.join("ours");
    make(&path, MIB);
    run("mount", &["-o", "remount,ro", text(&mount.0)]);
    assert!(write_refusal(&path).contains("read-only file system; choose another path"));
    assert!(write_refusal(&mount.0.join("new")).contains("read-only file system; choose another path"));
    open(&path, Access::Read, true, None, &NONE).expect("it may be read");
}

#[test]
fn an_immutable_file_is_one_clear_line() {
    let scratch = Scratch::new();
    let device = Loop::new(64 * MIB);
    run("mkfs.ext4", &["-q", "-F", device.name()]);
    let mount = Mount::new(&[device.name()], scratch.path("mnt"));
    let path = mount.0.join("ours");
    make(&path, MIB);
    run("chattr", &["+i", text(&path)]);
    assert!(write_refusal(&path).contains("immutable"));
}

#[test]
fn reported_alignment_is_enough_for_direct_transfers() {
    need_root();
    let scratch = Scratch::new();
    for program in ["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"] {
        let device = Loop::new(320 * MIB);
        run(program, &["-q", device.name()]);
        let mount = Mount::new(&[device.name()], scratch.path(program));
        let path = mount.0.join("ours");
        let guarded = open(&path, Access::Write, true, Some(MIB), &NONE).expect("a new file");
        assert_eq!(guarded.buffered, None, "{program}");
        assert_eq!(guarded.logical_block_bytes, if program == "mkfs.btrfs" { 4096 } else { 512 }, "{program}");
        let (offset, memory) = (guarded.offset_align_bytes as usize, guarded.memory_align_bytes as usize);
        let mut buffer = vec![0xA5u8; 3 * offset + 2 * memory];
        let first = memory - buffer.as_ptr() as usize % memory;
        let block = &mut buffer[first..first + offset];
        guarded.file.write_all_at(block, DATA_START_BYTES + offset as u64).expect("an aligned direct write");
        guarded.file.read_exact_at(block, DATA_START_BYTES + offset as u64).expect("an aligned direct read");
        assert!(block.iter().all(|byte| *byte == 0xA5));
    }
}

#[test]
fn without_direct_io_the_reason_is_said() {
    let scratch = Scratch::new();
    let mount = Mount::new(&["-t", "tmpfs", "-o", "size=8m", "brickyard-test"], scratch.path("memory"));
    let path = mount.0.join("ours");
    let guarded = open(&path, Access::Write, true, Some(MIB), &NONE).expect("a new file");
    assert_eq!(guarded.buffered, Some(BufferedReason::InMemory));
    drop(guarded);
    let guarded = open(&path, Access::Write, false, None, &NONE).expect("ours");
    assert_eq!(guarded.buffered, Some(BufferedReason::Requested));
}
