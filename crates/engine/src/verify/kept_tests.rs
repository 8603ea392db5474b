//! Verification goes on in a later session: what was written before is still checked, and nothing is invented.

use super::*;
use std::path::Path;

const BLOCK: usize = 4096;
const BLOCKS: usize = 600_000; // more than two pieces of the map
const RUN: u64 = 77;

fn session(path: &Path, run_id: u64, seed: u64) -> Verifier {
    let map = MapChoice::Kept { path: path.to_path_buf(), limit_bytes: 1 << 30 };
    Verifier::new((0, (BLOCKS * BLOCK) as u64), BLOCK as u64, run_id, seed, map).unwrap()
}

fn written(verifier: &Verifier, block: usize) -> Vec<u8> {
    let mut buffer = vec![0; BLOCK];
    verifier.begin_write((block * BLOCK) as u64, 0, &mut buffer);
    verifier.end_write((block * BLOCK) as u64, BLOCK as u64, WriteOutcome::Done);
    buffer
}

/// What a read of `block` that brings `bytes` is found to be; the counts are of this read alone.
fn judged(verifier: &Verifier, block: usize, bytes: &[u8]) -> (Vec<DamageKind>, u64) {
    let before = verifier.counts().checked_blocks;
    let ticket = verifier.begin_read((block * BLOCK) as u64, BLOCK as u64);
    let mut found = Vec::new();
    verifier.end_read(ticket, bytes, &mut found);
    (found.iter().map(|damage| damage.kind).collect(), verifier.counts().checked_blocks - before)
}

/// Ends a session as a kill does: nothing is closed, and the mapped words are the kernel's.
fn killed(verifier: Verifier) {
    std::mem::forget(verifier);
}

fn place(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("brickyard-kept-{name}-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn what_a_killed_session_wrote_is_checked_by_the_next_and_its_damage_found() {
    let path = place("killed");
    let first = session(&path, RUN, 1);
    let old = written(&first, 5);
    let (right, far) = (written(&first, 5), written(&first, BLOCKS - 1));
    let mut in_flight = vec![0; BLOCK];
    first.begin_write((9 * BLOCK) as u64, 0, &mut in_flight);
    killed(first);

    let second = session(&path, RUN + 1, 1);
    assert_eq!(judged(&second, 5, &right), (vec![], 1));
    assert_eq!(judged(&second, BLOCKS - 1, &far), (vec![], 1));
    assert_eq!(judged(&second, 5, &old), (vec![DamageKind::Stale], 1), "a write of the first session was lost");
    assert_eq!(judged(&second, BLOCKS - 1, &right), (vec![DamageKind::Misplaced], 1));
    let mut bits = right.clone();
    bits[2000] ^= 4;
    assert_eq!(judged(&second, 5, &bits), (vec![DamageKind::Bits], 1));
    assert_eq!(judged(&second, 9, &vec![0xa5; BLOCK]), (vec![], 0), "a write was in flight when it was killed");
    assert_eq!(judged(&second, 6, &vec![0xa5; BLOCK]), (vec![], 0), "nobody wrote there");

    let newer = written(&second, 5);
    assert_eq!(judged(&second, 5, &right), (vec![DamageKind::Stale], 1), "generations go on");
    drop(second);
    let third = session(&path, RUN + 2, 1);
    assert_eq!(judged(&third, 5, &newer), (vec![], 1), "closed in order");
    drop(third);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_that_may_be_older_than_the_device_or_another_region_s_is_begun_anew() {
    let path = place("anew");
    let first = session(&path, RUN, 1);
    let block = written(&first, 5);
    killed(first);
    // The boot id lies behind eight words of the head.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[64] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let second = session(&path, RUN + 1, 1);
    assert_eq!(judged(&second, 5, &block), (vec![], 0), "a crash of the system in between: nothing is known");
    let block = written(&second, 5);
    drop(second);
    let other = session(&path, RUN + 2, 2);
    assert_eq!(judged(&other, 5, &block), (vec![], 0), "other data are expected with another seed");
    drop(other);
    std::fs::write(&path, vec![0; 100]).unwrap();
    let third = session(&path, RUN + 3, 2);
    assert_eq!(judged(&third, 5, &block), (vec![], 0), "made, and never signed");
    drop(third);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn what_is_no_map_of_ours_is_left_alone() {
    let path = place("foreign");
    let identity = Identity { run_id: RUN, start_bytes: 0, block_bytes: 4096, seed: 1 };
    std::fs::write(&path, b"no map at all").unwrap();
    let refusal = MapFile::kept(&path, 16, identity).unwrap_err().to_string();
    assert!(refusal.contains("was not made by Brickyard"), "{refusal}");
    assert_eq!(std::fs::read(&path).unwrap(), b"no map at all");
    std::fs::remove_file(&path).unwrap();
    for target in ["/dev/null", "/nowhere/at/all"] {
        std::os::unix::fs::symlink(target, &path).unwrap();
        assert!(MapFile::kept(&path, 16, identity).is_err(), "{target}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// Reads that check nothing were counted as if they had: a burn-in that read every block had left a twentieth unchecked.
#[test]
fn a_block_counts_as_covered_once_and_only_where_it_was_held_against_something() {
    let path = place("covered");
    let covered = |verifier: &Verifier| verifier.counts().covered.unwrap().checked_once_blocks;
    let first = session(&path, RUN, 1);
    assert_eq!(first.counts().covered.unwrap().blocks, BLOCKS as u64);
    judged(&first, 3, &vec![0; BLOCK]);
    assert_eq!(covered(&first), 0, "nobody wrote there");
    let block = written(&first, 3);
    assert_eq!(covered(&first), 0, "written, and not read");
    for _ in 0..3 {
        judged(&first, 3, &block);
    }
    assert_eq!(covered(&first), 1);
    let newer = written(&first, 3);
    let mut in_flight = vec![0; BLOCK];
    first.begin_write((4 * BLOCK) as u64, 0, &mut in_flight);
    assert_eq!(covered(&first), 1, "a later write takes nothing back");
    killed(first);

    let second = session(&path, RUN + 1, 1);
    assert_eq!(covered(&second), 1, "over all sessions");
    assert_eq!(judged(&second, 3, &newer), (vec![], 1), "its generation is still known");
    judged(&second, 4, &vec![0xa5; BLOCK]);
    assert_eq!(covered(&second), 1, "a write was in flight when it was killed");
    let mut bits = written(&second, 7);
    bits[2000] ^= 4;
    assert_eq!(judged(&second, 7, &bits), (vec![DamageKind::Bits], 1));
    assert_eq!(covered(&second), 2, "damage was found by a check");
    drop(second);
    assert_eq!(covered(&session(&path, RUN + 2, 1)), 2, "closed in order");
    std::fs::remove_file(&path).unwrap();
}
