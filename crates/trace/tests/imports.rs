//! Traces of other tools, by the documents of their forms.

use std::io::{Cursor, Read};

use proptest::prelude::*;
use trace::import::{Format, Imported, Wish, import};
use trace::{Operation, Reader, Request, request};

fn imported(files: &[&[u8]], wish: &Wish) -> Result<(Imported, Vec<Request>), String> {
    let inputs = files.iter().map(|file| Box::new(Cursor::new(file.to_vec())) as Box<dyn Read>).collect();
    let mut out = Vec::new();
    let done = import(inputs, wish, &mut out).map_err(|e| e.to_string())?;
    let mut reader = Reader::new(&out[..]).unwrap();
    let mut found = Vec::new();
    while let Some(request) = reader.next().unwrap() {
        found.push(request);
    }
    assert_eq!(reader.end(), Some(&trace::End::Whole));
    assert_eq!(done.summary.requests, found.len() as u64);
    Ok((done, found))
}

fn of(text: &str) -> (Imported, Vec<Request>) {
    imported(&[text.as_bytes()], &Wish::default()).unwrap()
}

/// Arrival, end, operation, place, size.
fn short(r: &Request) -> (u64, Option<u64>, Operation, u64, u64) {
    (r.arrival_ns, r.complete_ns, r.operation, r.offset_bytes, r.bytes)
}

use Operation::{Discard, Flush, Read as R, Write as W};

#[test]
fn msr_cambridge() {
    let (done, found) = of("128166372003061629,hm,0,Read,383496192,32768,113736\n\
         128166372016382155,hm,0,Write,2822144,4096,23736\n\
         not a line\n\
         128166372026382155,hm,1,Write,2826240,4096,100\n");
    assert_eq!(done.format, Format::Msr);
    assert_eq!(short(&found[0]), (0, Some(11_373_600), R, 383_496_192, 32_768));
    assert_eq!(short(&found[1]), (1_332_052_600, Some(1_332_052_600 + 2_373_600), W, 2_822_144, 4096));
    assert_eq!(found[2].device, 1);
    assert_eq!((done.summary.bad, done.bad[0].number, &*done.bad[0].text), (1, 3, "not a line"));
    let names: Vec<&str> = done.summary.devices.iter().map(|d| &*d.name).collect();
    assert_eq!(names, ["hm,0", "hm,1"]);
}

#[test]
fn cloud_tables() {
    let (done, found) = of("3,R,126703644672,4096,1577808000000626\n9,W,0,8192,1577808000001626\n");
    assert_eq!(done.format, Format::Alibaba);
    assert_eq!(
        found.iter().map(short).collect::<Vec<_>>(),
        [(0, None, R, 126_703_644_672, 4096), (1_000_000, None, W, 0, 8192)]
    );
    let (done, found) = of("1538323199,12910952,128,0,1063\n1538323200,6338688,8,1,1627\n");
    assert_eq!(done.format, Format::Tencent);
    assert_eq!(short(&found[1]), (1_000_000_000, None, W, 6_338_688 * 512, 4096));
    let (done, found) = of("0,20941264,8192,W,0.551706\n0,20939840,8192,w,0.554041\n1,3072,512,R,0.6,extra\n");
    assert_eq!(done.format, Format::Spc);
    assert_eq!(short(&found[1]), (2_335_000, None, W, 20_939_840 * 512, 8192));
    let (done, found) = of("Timestamp,Response,IOType,LUN,Offset,Size\n\
         1455592204.100000000,0.000250,R,3,1024,512\n1455592205,,W,3,2048,512\n");
    assert_eq!((done.format, done.summary.bad), (Format::Systor, 0));
    assert_eq!(short(&found[0]), (0, Some(250_000), R, 1024, 512));
    assert_eq!(short(&found[1]), (900_000_000, None, W, 2048, 512));
}

#[test]
fn one_device_of_many() {
    let text = b"3,R,0,4096,10\n9,W,0,8192,20\n3,W,4096,4096,30\n";
    let wish = Wish { device: Some("3".into()), ..Wish::default() };
    let (done, found) = imported(&[text], &wish).unwrap();
    assert_eq!((found.len(), done.left_out, done.summary.devices.len()), (2, 1, 1));
    let wish = Wish { device: Some("7".into()), ..Wish::default() };
    assert!(imported(&[text], &wish).unwrap_err().contains("no request of the device 7"));
}

#[test]
fn logs_of_fio() {
    let (done, found) = of("fio version 3 iolog\n0 /f add\n2 /f open\n10 /f write 0 4096\n1500 /f read 8192 512\n\
         1600 /f sync 0 0\n1700 /f trim 4096 4096\n1800 /f close\noops\n");
    assert_eq!(done.format, Format::Fio);
    assert_eq!(
        found.iter().map(short).collect::<Vec<_>>(),
        [
            (10_000, None, W, 0, 4096),
            (1_500_000, None, R, 8192, 512),
            (1_600_000, None, Flush, 0, 0),
            (1_700_000, None, Discard, 4096, 4096),
        ]
    );
    assert_eq!(done.summary.bad, 1);
    let (_, found) =
        of("fio version 2 iolog\n/f add\n/f open\n/f wait 500\n/f read 0 4096\n/f wait 200\n/f datasync\n");
    assert_eq!(
        found.iter().map(short).collect::<Vec<_>>(),
        [(500_000, None, R, 0, 4096), (700_000, None, Flush, 0, 0)]
    );
    let (done, _) = of("fio version 2 iolog\n/f read 0 4096\n");
    assert!(done.notes.iter().any(|note| note.contains("has no times")));
}

/// As the kernel writes it.
fn record(at_ns: u64, sector: u64, bytes: u32, action: u32, process: u32, big: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let words = |out: &mut Vec<u8>, values: &[u32]| {
        values.iter().for_each(|v| out.extend(if big { v.to_be_bytes() } else { v.to_le_bytes() }))
    };
    words(&mut out, &[0x6561_7407, 1]);
    for long in [at_ns, sector] {
        out.extend(if big { long.to_be_bytes() } else { long.to_le_bytes() });
    }
    words(&mut out, &[bytes, action, process, 8 << 20 | 16, 0]);
    out.extend([0; 4]);
    out
}

const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;

#[test]
fn blktrace_of_several_processors() {
    for big in [false, true] {
        let files = [
            [
                record(100, 64, 4096, 1 | WRITE, 42, big),
                record(200, 72, 4096, 1 | WRITE, 42, big), // merged behind the first
                record(900, 64, 8192, 8 | WRITE, 0, big),
                record(1_000, 0, 0, 1 | WRITE | 1 << 18, 42, big),
                record(1_500, 0, 0, 8 | WRITE | 1 << 18, 0, big),
            ]
            .concat(),
            [
                record(300, 64, 8192, 7 | WRITE | 1 << 31, 7, big),
                record(350, 0, 4096, 1 | READ | 1 << 27, 43, big),
                record(400, 0, 4096, 7 | READ | 1 << 27, 7, big),
                record(1_100, 0, 0, 7 | WRITE | 1 << 18, 7, big),
            ]
            .concat(),
        ];
        let (done, found) = imported(&[&files[0], &files[1]], &Wish::default()).unwrap();
        assert_eq!(done.format, Format::Blktrace);
        let merged = found.iter().find(|r| r.operation == W).unwrap();
        assert_eq!((short(merged), merged.issue_ns), ((100, Some(900), W, 32_768, 8192), Some(300)));
        assert_eq!((merged.process, merged.flags), (42, request::FUA));
        let flush = found.iter().find(|r| r.operation == Flush).unwrap();
        assert_eq!((flush.arrival_ns, flush.issue_ns, flush.complete_ns), (1_000, Some(1_100), Some(1_500)));
        // The read never ended, and begins at sector 0, where flushes must not find it.
        let read = found.iter().find(|r| r.operation == R).unwrap();
        assert_eq!((read.arrival_ns, read.complete_ns, read.flags), (350, None, request::READ_AHEAD));
        assert_eq!((found.len(), &*done.summary.devices[0].name), (3, "8:16"));
        let (done, _) = imported(&[&files[0][..files[0].len() - 7], &files[1]], &Wish::default()).unwrap();
        assert_eq!(done.bad[0].why, "the last record was cut off");
    }
}

#[test]
fn text_of_blkparse() {
    let (done, found) = of("  8,0    1        1     0.000000100   697  Q  WS 223490 + 8 [kjournald]\n\
           8,0    1        2     0.000000200   697  G  WS 223490 + 8 [kjournald]\n\
           8,0    1        3     0.000000500   697  D WFS 223490 + 8 [kjournald]\n\
           8,0    0        4     0.000004500     0  C WFS 223490 + 8 [0]\n\
           8,0    0        5     0.000005000   697  Q FWS [kjournald]\n\
           8,0    0        6     0.000005100   697  D  FN [kjournald]\n\
           8,0    0        7     0.000009100     0  C  FN 0 [0]\nCPU0 (sda):\n Reads Queued: 0\n");
    assert_eq!(done.format, Format::Blkparse);
    assert_eq!(short(&found[0]), (100, Some(4_500), W, 223_490 * 512, 4096));
    assert_eq!(found[0].flags, request::SYNC | request::FUA);
    assert_eq!(short(&found[1]), (5_000, Some(9_100), Flush, 0, 0));
}

#[test]
fn vscsi_records() {
    let one = |command: u16, sector: u64, us: u64| {
        let mut out = Vec::new();
        [1u32, 4096, 1].iter().for_each(|word| out.extend(word.to_le_bytes()));
        [command, 0x0100].iter().for_each(|half| out.extend(half.to_le_bytes()));
        [sector, us].iter().for_each(|long| out.extend(long.to_le_bytes()));
        out
    };
    let file = [one(0x28, 8, 1_000), one(0x2a, 16, 1_500), one(0x12, 0, 1_600), one(0x35, 0, 2_000)].concat();
    // Only records that do something count as such; the unknown one stands behind the marks of the first eight.
    let many = [(0..8).flat_map(|k| one(0x28, k * 8, k)).collect::<Vec<u8>>(), file].concat();
    let (done, found) = imported(&[&many], &Wish::default()).unwrap();
    assert_eq!((done.format, found.len(), done.summary.bad), (Format::Vscsi, 11, 1));
    assert_eq!(short(&found[9]), (1_500_000, None, W, 8192, 4096));
    assert_eq!(found[10].operation, Flush);
}

#[test]
fn what_is_no_trace_is_refused_in_one_line() {
    let refused = |bytes: &[u8]| imported(&[bytes], &Wish::default()).unwrap_err();
    for bytes in [&b""[..], b"hello\nworld\n", &[0; 100], b"1,2,3\n"] {
        let message = refused(bytes);
        assert!(message.contains("--format") && !message.contains('\n'), "{message}");
    }
    assert!(Format::named("dtrace").unwrap_err().contains("blktrace, blkparse"));
}

proptest! {
    #[test]
    fn any_bytes_are_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600), format in 0..9usize) {
        let wish = Wish { format: Some(Format::ALL[format]), ..Wish::default() };
        let _ = imported(&[&bytes], &wish);
        let _ = imported(&[&bytes], &Wish::default());
    }

    #[test]
    fn lines_of_any_words_are_no_panic(
        words in proptest::collection::vec("(0|1|R|W|Read|[0-9]{1,20}|[0-9.]{1,12}|Q|D|C|\\+|8,0|,|\n| )", 0..80),
        format in 0..9usize,
        first in "(fio version [23] iolog\n|)",
    ) {
        let wish = Wish { format: Some(Format::ALL[format]), ..Wish::default() };
        let _ = imported(&[(first + &words.join(",")).as_bytes()], &wish);
        let _ = imported(&[words.join(" ").as_bytes()], &wish);
    }
}
