use std::sync::Arc;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let text = std::fs::read_to_string(&args[1]).unwrap();
    let sets: Vec<String> = args[3..].iter().filter(|a| !a.starts_with("--")).cloned().collect();
    let nop = args.iter().any(|a| a == "--nop");
    let profile = plan::Profile::from_toml_with(&text, &sets).unwrap();
    let mut o = std::fs::OpenOptions::new();
    o.read(true).write(profile.writes());
    use std::os::unix::fs::OpenOptionsExt;
    if profile.io == plan::IoMode::Direct { o.custom_flags(libc::O_DIRECT); }
    let file = o.open(&args[2]).unwrap();
    use std::io::Seek;
    let len = (&file).seek(std::io::SeekFrom::End(0)).unwrap();
    let opened = block::storage::Opened { file, block: false, polls: false, direct: true, memory_align_bytes: 512 };
    let clock = block::clock::Clock::start();
    let mut st = block::storage::Storage::new(vec![opened], &profile, clock).unwrap();
    if nop { st = st.nop(); }
    eprintln!("{:?} clock {} {:.1} ns", st.choice(), clock.name(), clock.read_cost_ns);
    let area = engine::streams::TargetArea { path: args[2].clone(), start_bytes: 0, length_bytes: len, align_bytes: 512, writable: true, carries_data: true, scratch_dir: "/tmp".into() };
    let rc = engine::conductor::RunControl::default();
    let mut req = 0u64; let mut t0 = 0; let mut own = 0.0; let mut t1 = 0; let mut sys=0; let mut usr=0;
    engine::conductor::run(&profile, &[area], Arc::new(st), 1, &rc, &mut |e| {
        use engine::event::Event;
        match e {
            Event::Interval(i) if !i.warmup && !i.drain => {
                if t0 == 0 { t0 = i.start_ns; } t1 = i.end_ns;
                for c in &i.cells { req += c.requests; let m=&c.measures["service"]; let l=c.measures.get("lateness");
                    println!("{} {:>9} req {} err  service mean {:.0} p50 {} p99 {} max {} depth {} late {:?}", c.operation, c.requests, c.errors, m.mean_ns, m.p50_ns, m.p99_ns, m.max_ns, c.depth_max, l.map(|l|(l.mean_ns,l.p50_ns,l.p99_ns,l.max_ns))); }
                own += i.loop_busy_share * (i.end_ns - i.start_ns) as f64; usr+=i.cpu.user_ns; sys+=i.cpu.system_ns;
            }
            Event::Interval(_) => {}
            Event::PhaseEnd(p) => println!("end {} unsent {} bound {} slow {:?} errs {:?}", p.reason, p.unsent, p.generator_bound, p.slowest.first().map(|s| s.response_ns), p.errors_by_kind),
            e => println!("{}", e.to_json()),
        }
    });
    println!("IOPS {:.0}  own ns/req {:.1} user {:.0} sys {:.0}", req as f64 * 1e9 / (t1 - t0) as f64, own / req as f64, usr as f64/req as f64, sys as f64/req as f64);
}
