//! A trace comes back as it was written, whole or cut off anywhere, and in the order of its arrivals.

use proptest::prelude::*;
use trace::{Device, End, Header, Operation, Ordered, Reader, Request, Writer};

fn header() -> Header {
    Header {
        devices: vec![Device { name: "sdb".into(), capacity_bytes: 1 << 40, sector_bytes: 512 }],
        clock: "monotonic".into(),
        start_unix_ns: 1_700_000_000_000_000_000,
        source: "test".into(),
        before_queue: true,
    }
}

fn request() -> impl Strategy<Value = Request> {
    let instants = (any::<u64>(), proptest::option::of(any::<u64>()), proptest::option::of(any::<u64>()));
    let place = prop_oneof![any::<u64>(), (0..1u64 << 40).prop_map(|sector| sector * 512)];
    let size = prop_oneof![any::<u64>(), (0..2048u64).prop_map(|sectors| sectors * 512)];
    (instants, any::<u32>(), 0..4usize, any::<u8>(), place, size, any::<u32>()).prop_map(
        |((arrival_ns, issue_ns, complete_ns), device, operation, flags, offset_bytes, bytes, process)| Request {
            arrival_ns,
            issue_ns,
            complete_ns,
            device,
            operation: Operation::ALL[operation],
            flags,
            offset_bytes,
            bytes,
            process,
        },
    )
}

fn written(requests: &[Request]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    requests.iter().for_each(|request| writer.push(request).unwrap());
    writer.finish().unwrap().0
}

fn read(bytes: &[u8]) -> (Vec<Request>, End) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut found = Vec::new();
    while let Some(request) = reader.next().unwrap() {
        found.push(request);
    }
    (found, reader.end().cloned().unwrap())
}

proptest! {
    #[test]
    fn what_was_written_is_read(requests in proptest::collection::vec(request(), 0..300)) {
        prop_assert_eq!(read(&written(&requests)), (requests, End::Whole));
    }

    #[test]
    fn what_is_cut_off_or_damaged_is_read_up_to_there(
        requests in proptest::collection::vec(request(), 1..50),
        at in any::<prop::sample::Index>(),
        flip in 1..=255u8,
        cut in any::<bool>(),
    ) {
        let whole = written(&requests);
        let mut damaged = whole.clone();
        let at = at.index(whole.len());
        if cut { damaged.truncate(at) } else { damaged[at] ^= flip }
        if let Ok(mut reader) = Reader::new(&damaged[..]) {
            let mut count = 0;
            while let Some(found) = reader.next().unwrap() {
                prop_assert_eq!(found, requests[count]);
                count += 1;
            }
            let torn = matches!(reader.end(), Some(End::Torn { .. }));
            prop_assert!(torn);
        }
    }

    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut framed = written(&[]);
        framed.truncate(framed.len() / 2);
        framed.extend(&bytes);
        for input in [&bytes, &framed] {
            if let Ok(mut reader) = Reader::new(&input[..]) {
                while reader.next().unwrap().is_some() {}
            }
        }
    }

    #[test]
    fn arrivals_come_in_order(instants in proptest::collection::vec(0..1_000u64, 0..200)) {
        let of = |arrival_ns: &u64| Request {
            arrival_ns: *arrival_ns, issue_ns: None, complete_ns: None, device: 0, operation: Operation::Read, flags: 0,
            offset_bytes: 0, bytes: 4096, process: 0,
        };
        let requests: Vec<Request> = instants.iter().map(of).collect();
        let bytes = written(&requests);
        let mut first = Reader::new(&bytes[..]).unwrap();
        while first.next().unwrap().is_some() {}
        let mut ordered = Ordered::new(Reader::new(&bytes[..]).unwrap(), first.summary().disorder_ns);
        let mut found = Vec::new();
        while let Some(request) = ordered.next().unwrap() {
            found.push(request.arrival_ns);
        }
        let mut sorted = instants.clone();
        sorted.sort_unstable();
        prop_assert_eq!(found, sorted);
    }
}

#[test]
fn a_torn_trace_keeps_whole_blocks() {
    let of = |number: u64| Request {
        arrival_ns: number * 1_000,
        issue_ns: Some(number * 1_000 + 10),
        complete_ns: Some(number * 1_000 + 80_000),
        device: 0,
        operation: Operation::Write,
        flags: trace::request::FUA,
        offset_bytes: number % 977 * 65_536,
        bytes: 4096,
        process: 7,
    };
    let requests: Vec<Request> = (0..50_000).map(of).collect();
    let whole = written(&requests);
    assert!(whole.len() < requests.len() * 16, "{} bytes", whole.len());
    let (found, end) = read(&whole[..whole.len() * 2 / 3]);
    assert!(found.len() > 25_000 && found[..] == requests[..found.len()]);
    assert!(matches!(end, End::Torn { at_bytes, why: "it was cut off" } if at_bytes > 100_000));
}

#[test]
fn other_files_and_versions_are_told_apart() {
    let message = |bytes: &[u8]| Reader::new(bytes).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message(b"timestamp,offset\n1,2\n").contains("trace import"));
    assert!(message(b"BYTRACE\x09").contains("version 9"));
    assert!(message(&written(&[])[..20]).contains("header"));
}
