//! Ramps with a limit: by steps and by search, for any knob and figure, decided in virtual time as in real time.

mod virtual_storage;

use engine::event::{Event, RampEnd, RampStep};
use virtual_storage::{MS, S, Storage, Told, run};

const MIB: u64 = 1 << 20;

/// A server of one request a ms.
fn server() -> Storage {
    let mut free_ns = 0;
    Storage::new(4 * MIB, 1).timed(move |_, now_ns, _| {
        free_ns = now_ns.max(free_ns) + MS;
        free_ns - now_ns
    })
}

fn profile(ramp: &str, stream: &str) -> String {
    format!(
        "title = 'search'\ninterval = '100ms'\n[[phase]]\nramp = {{ every = '2s', settle = '500ms', {ramp} }}\n\
         [[phase.stream]]\nrequest = '4KiB'\naddress = 'random'\n{stream}\n"
    )
}

fn steps(told: &Told) -> Vec<RampStep> {
    let step = |event: &Event| match event {
        Event::RampStep(step) => Some(**step),
        _ => None,
    };
    told.events.iter().filter_map(step).collect()
}

fn end(told: &Told) -> RampEnd {
    let end = |event: &Event| match event {
        Event::RampEnd(end) => Some(*end),
        _ => None,
    };
    told.events.iter().find_map(end).expect("a ramp with a limit has an end")
}

#[test]
fn the_depth_within_a_mean_is_found_to_one() {
    // At depth d every request waits for the d − 1 before it: d ms.
    let ramp =
        "knob = 'depth', from = 1, to = 256, factor = 2, search = 1, limit = { when = 'mean', above = '21.5ms' }";
    let told = run(server(), &profile(ramp, ""));
    let end = end(&told);
    assert_eq!((end.found.map(|f| f.value), end.beyond), (Some(21.0), Some(22.0)));
    let tried: Vec<f64> = steps(&told).iter().map(|s| s.value).collect();
    assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 24.0, 20.0, 22.0, 21.0]);
    assert!(steps(&told).iter().all(|s| s.end_ns - s.start_ns == 1_500 * MS), "settling is not judged");
    let settled = told.intervals(0).iter().filter(|i| i.warmup).count();
    assert_eq!(settled, tried.len() * 5);
    assert_eq!(told.end(0).reason.name(), "ramp");
}

#[test]
fn without_search_the_first_step_beyond_ends_it() {
    let ramp =
        "knob = 'workers', from = 2, to = 40, step = 3, limit = { when = 'p99', of = 'service', above = '12ms' }";
    let told = run(server(), &profile(ramp, ""));
    assert_eq!((end(&told).found.map(|f| f.value), end(&told).beyond), (Some(11.0), Some(14.0)));
    assert_eq!(steps(&told).len(), 5);
}

#[test]
fn the_highest_rate_is_just_below_what_the_server_does() {
    let ramp = "knob = 'rate', from = 100, to = 4000, factor = 2, search = 2, limit = { when = 'p99', above = '20ms' }";
    let told = run(server(), &profile(ramp, "depth = 64\npace = { loop = 'open', rate = 1, arrivals = 'constant' }"));
    let found = end(&told).found.expect("some rate is within").value;
    assert!((960.0..=1000.0).contains(&found), "{found}");
    // What an overloaded step left due is forgotten, or no step after it could keep the limit.
    assert!(steps(&told).iter().any(|s| s.overloaded) && steps(&told).last().is_some_and(|s| s.value < 1020.0));
}

#[test]
fn the_least_depth_that_reaches_a_rate() {
    // Each request takes 10 ms and any number go side by side: depth d does 100 d a second.
    let storage = Storage::new(4 * MIB, 1).timed(|_, _, _| 10 * MS);
    let ramp = "knob = 'depth', from = 1, to = 256, factor = 2, search = 1, limit = { when = 'iops', below = 1250 }";
    let told = run(storage, &profile(ramp, ""));
    assert_eq!((end(&told).found.map(|f| f.value), end(&told).beyond), (Some(13.0), Some(12.0)));
}

#[test]
fn what_cannot_be_found_is_not_found() {
    let ramp = "knob = 'depth', from = 4, to = 64, factor = 2, search = 5, limit = { when = 'max', above = '1ms' }";
    let told = run(server(), &profile(ramp, ""));
    assert_eq!((end(&told).found, end(&told).beyond, steps(&told).len()), (None, Some(4.0), 1));
    let ramp =
        "knob = 'depth', from = 1, to = 8, factor = 2, search = 5, limit = { when = 'throughput', below = '1GiB' }";
    let told = run(server(), &profile(ramp, ""));
    assert_eq!((end(&told).found, end(&told).beyond), (None, Some(8.0)));
    let ramp = "knob = 'depth', from = 1, to = 8, factor = 2, search = 5, limit = { when = 'mean', above = '1s' }";
    let told = run(server(), &profile(ramp, ""));
    assert_eq!((end(&told).found.map(|f| f.value), end(&told).beyond), (Some(8.0), None));
    assert!(told.end(0).end_ns <= 9 * S, "four steps and no more");
}

#[test]
fn a_load_keeps_the_proportions_of_its_streams() {
    // 400 a second at 100 per cent, against a server of 1,000.
    let ramp = "knob = 'load', from = 50, to = 400, factor = 2, search = 2, limit = { when = 'p99', above = '20ms' }";
    let one = "depth = 8\npace = { loop = 'open', rate = 100, arrivals = 'constant' }";
    let two = "[[phase.stream]]\nrequest = '4KiB'\naddress = 'random'\ndepth = 8\n\
               pace = { loop = 'open', rate = 300, arrivals = 'constant' }";
    let told = run(server(), &profile(ramp, &format!("{one}\n{two}")));
    let found = end(&told).found.expect("some load is within");
    assert!((240.0..=256.0).contains(&found.value), "{}", found.value);
    assert!((found.rate_per_s - 4.0 * found.value).abs() < 12.0, "{}", found.rate_per_s);
    assert!(steps(&told).iter().any(|s| s.overloaded && s.value == 400.0));
    let (mut first, mut second) = (0, 0);
    for interval in told.intervals(0).iter().filter(|i| i.end_ns <= found.end_ns && i.start_ns >= found.start_ns) {
        for cell in &interval.cells {
            *if cell.stream == 0 { &mut first } else { &mut second } += cell.requests;
        }
    }
    assert!(second.abs_diff(3 * first) <= 12, "{first} and {second}");
}

#[test]
fn a_rate_within_a_limit_is_that_of_commits() {
    // A write and its flush take 1 ms each, so there is room for 500 commits a second, and the shortest takes 2 ms.
    let stream = "operations = { write = 100 }\nflush_every = { writes = 1 }\ndepth = 64\n\
                  pace = { loop = 'open', rate = 100, arrivals = 'constant' }";
    let within = |above: &str| {
        let ramp = format!(
            "knob = 'rate', from = 100, to = 2000, factor = 1.5, search = 2, limit = {{ when = 'mean', above = '{above}' }}"
        );
        end(&run(server(), &profile(&ramp, stream))).found.map(|found| (found.value, found.rate_per_s, found.figure))
    };
    assert_eq!(within("1900us"), None, "no commit is so fast, though each of its requests is");
    let (value, rate_per_s, figure_ns) = within("20ms").expect("half of the requests' capacity");
    assert!((450.0..=505.0).contains(&value) && (rate_per_s / value - 1.0).abs() < 0.03, "{value}, {rate_per_s}/s");
    assert!((1.99e6..=20e6).contains(&figure_ns), "{figure_ns} ns");
}
