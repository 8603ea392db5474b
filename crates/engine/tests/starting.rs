//! Phases on real devices begin when the last loop has its device, however long that takes.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use engine::conductor::{self, RunControl};
use engine::device::{Completion, Device, Devices, Order, Setup, Until};
use engine::event::Event;
use engine::honours::Honours;
use engine::streams::{TargetArea, Verifiers};

const MIB: u64 = 1 << 20;

/// Opens its second device late, or not at all, and ends each request in the turn that submits it.
struct SlowToOpen {
    began: Instant,
    opened_ns: Mutex<Vec<u64>>,
    second: Result<Duration, String>,
}

struct Ready {
    began: Instant,
    buffer: Vec<u8>,
    queued: Vec<Order>,
}

impl Devices for SlowToOpen {
    type Device = Ready;

    fn open(&self, setup: &Setup) -> Result<Ready, String> {
        if setup.loop_index == 1 {
            std::thread::sleep(self.second.clone()?);
        }
        if let Ok(mut opened_ns) = self.opened_ns.lock() {
            opened_ns.push(self.now_ns());
        }
        Ok(Ready { began: self.began, buffer: vec![0; setup.buffer_bytes as usize], queued: Vec::new() })
    }

    fn honours(&self) -> Honours {
        Honours::everything("a device of the test")
    }

    fn now_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn loops(&self, lanes: usize) -> usize {
        lanes
    }
}

impl Device for Ready {
    fn now_ns(&mut self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    fn buffer(&mut self, _slot: u32, request_bytes: u32) -> &mut [u8] {
        &mut self.buffer[..request_bytes as usize]
    }

    fn queue(&mut self, order: &Order) {
        self.queued.push(*order);
    }

    fn turn(&mut self, until: Until, done: &mut Vec<Completion>) -> Result<u64, String> {
        let submitted_ns = self.now_ns();
        let left = Duration::from_nanos(until.ns.saturating_sub(submitted_ns));
        std::thread::sleep(left.min(Duration::from_millis(1)));
        let ended_ns = self.now_ns();
        done.extend(self.queued.drain(..).map(|order| Completion {
            slot: order.slot,
            result: order.request_bytes as i32,
            submitted_ns,
            ended_ns,
        }));
        Ok(ended_ns)
    }

    fn away_ns(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

fn events(second: Result<Duration, String>) -> (Vec<Event>, Vec<u64>) {
    let text = "title = 'starting'\n[[phase]]\nduration = '50ms'\n[[phase.stream]]\nrequest = '4KiB'\nworkers = 3\n";
    let profile = plan::Profile::from_toml(text, &[]).unwrap_or_else(|error| panic!("{error}"));
    let area = TargetArea {
        path: "a target of the test".into(),
        start_bytes: 0,
        length_bytes: MIB,
        align_bytes: 512,
        writable: false,
        scratch_dir: std::env::temp_dir(),
        keep_dir: None,
    };
    let devices = Arc::new(SlowToOpen { began: Instant::now(), opened_ns: Mutex::new(Vec::new()), second });
    let mut events = Vec::new();
    let control = RunControl::default();
    conductor::run(&profile, &[area], devices.clone(), Verifiers::new(7), &control, &mut |event| events.push(event));
    let opened_ns = devices.opened_ns.lock().map(|opened| opened.clone()).unwrap_or_default();
    (events, opened_ns)
}

#[test]
fn a_phase_begins_when_the_last_loop_has_its_device() {
    let (events, opened_ns) = events(Ok(Duration::from_millis(300)));
    assert_eq!(opened_ns.len(), 3);
    let start =
        events.iter().find_map(|event| if let Event::Phase { start_ns, .. } = event { Some(*start_ns) } else { None });
    assert!(
        start.is_some_and(|start_ns| opened_ns.iter().all(|opened| *opened < start_ns)),
        "{start:?}: {opened_ns:?}"
    );
}

#[test]
fn a_loop_without_a_device_ends_the_run() {
    let (events, opened_ns) = events(Err("no memory for buffers".into()));
    assert_eq!(opened_ns.len(), 2);
    let end = events.iter().find_map(|event| if let Event::End { message, .. } = event { Some(message) } else { None });
    assert!(end.is_some_and(|message| format!("{message:?}").contains("no memory for buffers")), "{events:?}");
}
