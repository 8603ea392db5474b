//! Closed loops over a modelled brick, without an engine around it.

use sim::brick::{Brick, resolve};
use sim::member::Kind;
use sim::system::{Request, System};

use crate::common;

pub fn brick(spoken: &str) -> Brick {
    resolve(spoken, &common::brick_texts(), &[]).expect("a brick that ships")
}

/// Uniform 8 KiB places, the same on every machine.
pub struct Places(engine::rng::Rng, u64);

impl Places {
    pub fn of(system: &System) -> Places {
        Places(engine::rng::Rng::from_words(&[7]), system.capacity_bytes() / 8192)
    }

    pub fn next(&mut self) -> u64 {
        self.0.below(self.1) * 8192
    }
}

/// A closed loop of `depth` requests; requests a second over `count` of them.
pub fn closed_loop(
    system: &mut System,
    kind: Kind,
    bytes: u32,
    depth: u32,
    count: u64,
    mut place: impl FnMut() -> u64,
) -> f64 {
    let request = |tag, offset_bytes| Request { tag, kind, offset_bytes, bytes, durable: false };
    (0..depth).for_each(|tag| system.submit(0, request(tag, place())));
    let (mut ended, mut now_ns) = (0, 0);
    while ended < count {
        let next_ns = system.next_event();
        assert!(next_ns >= now_ns && next_ns < sim::NEVER, "time runs forward, and requests are not lost");
        now_ns = next_ns;
        system.advance(now_ns);
        let mut tags = Vec::new();
        system.take_ended(|(tag, at_ns)| {
            assert_eq!(at_ns, now_ns);
            tags.push(tag);
        });
        for tag in tags {
            ended += 1;
            system.submit(now_ns, request(tag, place()));
        }
    }
    ended as f64 * 1e9 / now_ns as f64
}

pub fn random_rate(brick: &Brick, kind: Kind, depth: u32) -> f64 {
    let mut system = System::new(brick).expect("a brick that can be built");
    let mut places = Places::of(&system);
    closed_loop(&mut system, kind, 8192, depth, 4_000, || places.next())
}
