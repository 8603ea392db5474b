//! The program as others start it: what it says, what it does where the host forbids things, how it stops, and what it
//! needs of memory.

#[path = "../../block/tests/common/mod.rs"]
mod common;

use common::*;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longer than anything here takes, so that a failure is one and no wait for ever.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run of the program under way. It is killed if the test ends before it.
struct Worker {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<Value>,
}

/// The plan comes on standard input, out of a file without a name.
fn command(profile: &str, target: &Path, more: &[&str]) -> Command {
    let scratch = Scratch::new();
    let plan = scratch.path("plan");
    std::fs::write(&plan, profile).expect("a plan");
    let mut command = Command::new(env!("CARGO_BIN_EXE_brickyard-worker"));
    command.arg("-").arg(target).args(more).stdin(File::open(&plan).expect("the plan"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn finished(mut command: Command) -> Output {
    command.output().expect("the program")
}

fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn find<'a>(events: &'a [Value], name: &str) -> &'a Value {
    let found = events.iter().find(|e| e["event"] == name);
    found.unwrap_or_else(|| panic!("no {name} among {} events", events.len()))
}

impl Worker {
    fn start(mut command: Command) -> Worker {
        let mut child = command.spawn().expect("the program");
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("its output"));
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Worker { child, lines, seen: Vec::new() }
    }

    /// Waits for an event; every line must be JSON.
    fn wait_for(&mut self, name: &str) -> Value {
        let event = self.next(name, PATIENCE);
        event.unwrap_or_else(|| panic!("no {name} came; the last event was {:?}", self.seen.last()))
    }

    fn next(&mut self, name: &str, patience: Duration) -> Option<Value> {
        let until = Instant::now() + patience;
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let event: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
                    self.seen.push(event.clone());
                    if event["event"] == name {
                        return Some(event);
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn interrupt(&self) {
        // SAFETY: a signal to a child that was not waited for yet.
        let sent = unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGINT) };
        assert_eq!(sent, 0);
    }

    /// Exit code and what stands on standard error.
    fn exit(&mut self) -> (Option<i32>, String) {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("its status") {
                let mut said = String::new();
                self.child.stderr.take().expect("its errors").read_to_string(&mut said).expect("UTF-8");
                return (status.code(), said);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the program does not end");
    }

    /// Most memory it has had resident, in bytes.
    fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).expect("a high-water mark");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        // A child that hangs in the kernel is not waited for longer than this.
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

const READS: &str = "[[phase]]\nrequests = 500\n[[phase.stream]]\nrequest = '4K'\naddress = 'random'\ndepth = 4\n";
const VERIFIED: &str = "[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '4K'\naddress = 'permutation'\ndepth = 4\nverify = true\n\
    operations = { read = 0, write = 100 }\n[[phase]]\npasses = 1\n[[phase.stream]]\nrequest = '4K'\ndepth = 4\nverify = true\n";

#[test]
fn every_line_is_an_event_and_the_run_is_done() {
    let scratch = Scratch::new();
    let target = scratch.path("file");
    let output = finished(command(&format!("title = 't'\n{VERIFIED}"), &target, &["--size", "2MiB"]));
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let events = events(&output);
    assert_eq!(events.first().map(|e| e["event"].clone()), Some("start".into()));
    assert_eq!(events.last().map(|e| (e["event"].clone(), e["outcome"].clone())), Some(("end".into(), "done".into())));
    let requests: u64 = events
        .iter()
        .filter(|e| e["event"] == "interval")
        .flat_map(|e| e["cells"].as_array().expect("cells").clone())
        .map(|c| c["requests"].as_u64().expect("a number"))
        .sum();
    assert_eq!(requests, 1_024);
    assert!(output.stderr.is_empty());
}

#[test]
fn bad_input_is_one_line_and_exit_code_2() {
    let scratch = Scratch::new();
    let target = scratch.path("file");
    let cases: [(&str, &[&str], &str); 5] = [
        ("title = 't'\n", &[], "`phase` is missing"),
        (&format!("title = 't'\n{READS}"), &[], "does not exist; check the path"),
        (&format!("title = 't'\n{READS}"), &["--size", "8Q"], "`8Q` is not a size"),
        (&format!("title = 't'\n{READS}"), &["--size", "1MiB", "--set", "depth=x"], "depth"),
        (&format!("title = 't'\n{READS}target = 1\n"), &["--size", "1MiB"], "2 target(s), 1 given"),
    ];
    for (profile, more, part) in cases {
        let output = finished(command(profile, &target, more));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
        assert!(said.starts_with("brickyard-worker: ") && said.contains(part), "{said}");
        assert!(output.stdout.is_empty() && !target.exists());
    }
}

/// Forbids io_uring to a child, as containers do: linux/seccomp.h, linux/filter.h.
fn without_io_uring(command: &mut Command) {
    let filter = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let forbidden = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let program = [
        filter(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        filter(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_io_uring_setup as u32),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, forbidden),
        filter(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let forbid = move || {
        let mut program = program;
        let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
        // SAFETY: prctl reads the filter, which lives until it returns.
        let done = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(forbid) };
}

#[test]
fn where_io_uring_is_forbidden_psync_serves_and_says_why() {
    let scratch = Scratch::new();
    let target = scratch.path("file");
    let mut auto = command(&format!("title = 't'\n{VERIFIED}"), &target, &["--size", "2MiB"]);
    without_io_uring(&mut auto);
    let output = finished(auto);
    let told = events(&output);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let start = find(&told, "start");
    assert_eq!(start["engine"], "psync");
    assert_eq!(start["engine_reason"]["kind"], "forbidden");
    assert!(!told.iter().any(|e| e["event"] == "error"));

    let other = scratch.path("other");
    let mut forced = command(&format!("title = 't'\nengine = 'io_uring'\n{READS}"), &other, &["--size", "2MiB"]);
    without_io_uring(&mut forced);
    let output = finished(forced);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("io_uring is forbidden here") && said.contains("use engine = \"psync\""), "{said}");
    assert!(output.stdout.is_empty() && !other.exists(), "what was made for it is gone again");
}

/// Someone who may lock no memory and has no rights.
fn unprivileged(command: &mut Command, locked_bytes: u64) {
    let limit = libc::rlimit { rlim_cur: locked_bytes, rlim_max: locked_bytes };
    // Nobody's number: locked memory is counted by user, and other tests may run at the same time.
    let user = 1_000_000 + std::process::id();
    let drop_rights = move || {
        // SAFETY: system calls on values of our own.
        let done = unsafe {
            libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit) == 0
                && libc::setgroups(0, std::ptr::null()) == 0
                && libc::setgid(user) == 0
                && libc::setuid(user) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
    };
    // SAFETY: only system calls between fork and exec.
    unsafe { command.pre_exec(drop_rights) };
}

#[test]
fn without_memory_to_lock_requests_go_without_registered_buffers() {
    need_root();
    let scratch = Scratch::new();
    std::fs::set_permissions(&scratch.0, std::fs::Permissions::from_mode(0o777)).expect("open to all");
    // Where the user may not look into the directory of the program, a copy serves.
    let program = scratch.path("worker");
    std::fs::copy(env!("CARGO_BIN_EXE_brickyard-worker"), &program).expect("a copy");
    for (locked_bytes, engine) in [(0, "psync"), (64 << 10, "io_uring")] {
        let target = scratch.path(&format!("file-{locked_bytes}"));
        let plan = scratch.path("plan.toml");
        std::fs::write(&plan, format!("title = 't'\n{VERIFIED}").replace("'4K'", "'256K'")).expect("a plan");
        let mut command = Command::new(&program);
        command.arg(&plan).arg(&target).args(["--size", "8MiB"]);
        unprivileged(&mut command, locked_bytes);
        let output = finished(command);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let told = events(&output);
        let start = find(&told, "start");
        // A ring of its own size is locked memory too; the buffers of 1 MiB are not registered in either case.
        assert_eq!(start["engine"], engine, "{start}");
        let reason = if engine == "io_uring" { "offered" } else { "out_of_memory" };
        assert_eq!(start["engine_reason"]["kind"], reason);
        assert!(!told.iter().any(|e| e["event"] == "error"), "all that was written was read back");
    }
}

#[test]
fn memory_stays_within_100_mb_and_the_buffers() {
    let scratch = Scratch::new();
    let target = scratch.path("file");
    let profile = "title = 't'\ninterval = '200ms'\n[[phase]]\nduration = '1h'\n[[phase.stream]]\nrequest = '1MiB'\n\
        address = 'random'\ndepth = 128\n";
    for engine in ["io_uring", "psync"] {
        let more = ["--size", "256MiB", "--set", &format!("engine={engine}")];
        let mut worker = Worker::start(command(profile, &target, &more));
        (0..5).for_each(|_| drop(worker.wait_for("interval")));
        let buffers_bytes = 128 * MIB;
        let own = worker.memory_bytes().saturating_sub(buffers_bytes);
        assert!(own <= 100_000_000, "{engine}: {own} bytes beside the buffers");
        worker.interrupt();
        assert_eq!(worker.exit().0, Some(130));
    }
}

#[test]
fn an_interrupt_drains_the_run_and_keeps_what_was_measured() {
    for engine in ["io_uring", "psync"] {
        let scratch = Scratch::new();
        let target = scratch.path("file");
        let profile = format!(
            "title = 't'\nengine = '{engine}'\ninterval = '100ms'\n[[phase]]\nduration = '1h'\n[[phase.stream]]\nrequest = '4K'\n\
            depth = 4\n[[phase]]\nduration = '1h'\n[[phase.stream]]\nrequest = '4K'\n"
        );
        let mut worker = Worker::start(command(&profile, &target, &["--size", "2MiB"]));
        (0..3).for_each(|_| drop(worker.wait_for("interval")));
        worker.interrupt();
        let end = worker.wait_for("end");
        assert_eq!(end["outcome"], "interrupted");
        let phase_end = find(&worker.seen, "phase_end").clone();
        assert_eq!((phase_end["reason"].clone(), phase_end["outstanding"].clone()), ("interrupted".into(), 0.into()));
        assert_eq!(worker.exit(), (Some(130), String::new()));
        assert_eq!(worker.seen.iter().filter(|e| e["event"] == "phase").count(), 1);
        let intervals: Vec<&Value> = worker.seen.iter().filter(|e| e["event"] == "interval").collect();
        for pair in intervals.windows(2) {
            assert_eq!(pair[0]["end_ns"], pair[1]["start_ns"], "no gap up to the stop");
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let scratch = Scratch::new();
    let target = scratch.path("file");
    let profile = "title = 't'\ninterval = '50ms'\n[[phase]]\nduration = '1h'\n[[phase.stream]]\nrequest = '4K'\n";
    let mut child = command(profile, &target, &["--size", "2MiB"]).spawn().expect("the program");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    out.read_line(&mut String::new()).expect("a line");
    drop(out);
    let (_, lines) = channel();
    let mut worker = Worker { child, lines, seen: Vec::new() };
    assert_eq!(worker.exit().0, Some(130));
}

/// A mounted file system that takes no writes until this is dropped.
struct Frozen(PathBuf);

impl Frozen {
    fn new(mount: &Path) -> Frozen {
        let frozen = Frozen(mount.to_path_buf());
        run("fsfreeze", &["-f", text(mount)]);
        frozen
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(&self.0).output();
    }
}

#[test]
fn a_device_that_hangs_is_named_and_a_second_interrupt_leaves_it_behind() {
    let _turn = turn();
    for (engine, depth) in [("io_uring", 4u64), ("psync", 4), ("psync", 1)] {
        let scratch = Scratch::new();
        let disk = Loop::new(96 * MIB);
        run("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", disk.name()]);
        let mount = Mount::new(&[disk.name()], scratch.path("mount"));
        let backing = mount.0.join("backing");
        File::create(&backing).and_then(|mut f| f.write_all(&vec![7; 32 * MIB as usize])).expect("a backing file");
        let device = Attached(attach(&backing, &[]));
        let name = text(&device.0).to_string();
        let profile = format!(
            "title = 't'\nengine = '{engine}'\nhang_after = '1s'\ninterval = '100ms'\n[[phase]]\nduration = '1h'\n\
            [[phase.stream]]\nrequest = '4K'\naddress = 'random'\ndepth = {depth}\noperations = {{ read = 0, write = 100 }}\n"
        );
        let more = ["--overwrite", &name, "--i-know-this-destroys-data"];
        let mut worker = Worker::start(command(&profile, &device.0, &more));
        (0..2).for_each(|_| drop(worker.wait_for("interval")));
        let frozen = Frozen::new(&mount.0);
        let hang = worker.wait_for("hang");
        assert_eq!((hang["operation"].clone(), hang["request_bytes"].clone()), ("write".into(), 4096.into()));
        assert!(hang["outstanding_ns"].as_u64().is_some_and(|ns| ns >= 1_000_000_000), "{hang}");
        assert!(hang["offset_bytes"].as_u64().is_some_and(|at| (MIB..32 * MIB).contains(&at)), "{hang}");
        worker.interrupt();
        assert_eq!(worker.next("end", Duration::from_millis(500)), None, "what hangs is waited for");
        worker.interrupt();
        let end = worker.wait_for("end");
        assert_eq!(end["outcome"], "interrupted");
        let phase_end = find(&worker.seen, "phase_end").clone();
        let outstanding = phase_end["outstanding"].as_u64().unwrap_or_default();
        assert!((1..=depth).contains(&outstanding), "{engine} {depth}: {phase_end}");
        // The kernel lets no process go whose request it still works on.
        drop(frozen);
        assert_eq!(worker.exit(), (Some(130), String::new()), "{engine} {depth}");
    }
}

#[test]
fn no_operations_are_refused_where_they_have_no_effect() {
    let scratch = Scratch::new();
    let reads = "title = 't'\n[[phase]]\nrequests = 8\n[[phase.stream]]\nrequest = '4K'\naddress = 'random'\n";
    let files = "title = 't'\n[[phase]]\n[[phase.stream]]\nprogram = { kind = 'create_files', files = 2, size = '1K..2K' }\nrequest = '4K'\n";
    let bricks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/brickyard/bricks");
    let modelled = ["--nop", "--bricks", text(&bricks)];
    let target = scratch.path("target");
    let psync = format!("engine = 'psync'\n{reads}");
    let tried = [
        (reads, Path::new("sim:wd2500jd"), &modelled[..], "a modelled brick"),
        (files, target.parent().expect("a directory"), &["--nop"], "a program over files"),
        (&psync, &target, &["--nop", "--size", "4MiB"], "psync"),
    ];
    for (profile, target, more, device) in tried {
        let output = finished(command(profile, target, more));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("(--nop) have no effect on {device}")) && output.stdout.is_empty(), "{said}");
    }
}
