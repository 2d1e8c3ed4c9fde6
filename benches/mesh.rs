//! A mesh of many hosts that are not there: the schedule, what it would take in time, frames and bytes, and which slow hosts are found
//! in simulated pairs of it.
//!
//! `cargo bench --bench mesh [-- HOSTS PARTNERS]`, by default 10,000 hosts with 24 partners each. Times are of this machine; steps,
//! pairs and hosts found are the same everywhere. What a pair says to its coordinator is counted on one that is really measured, as
//! `msgpath mesh` measures where nothing else is asked (`agents`). `benches/mesh_scale.rs` has as many agents as a machine holds.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod agents;

use std::path::Path;
use std::time::{Duration, Instant};

use msgpath_core::plan::Extent;
use msgpath_core::schema::{RunEnd, Status};
use msgpath_core::{Histogram, Plan};
use msgpath_mesh::analyse::additive::{Between, fit};
use msgpath_mesh::record::{MeshWriter, PAIRS_FILE, PairBlock};
use msgpath_mesh::run::schedule::{self, Resources, Sharing};
use msgpath_mesh::run::time_of_a_pair;
use msgpath_mesh::schema::{EndWait, PairCase, PairPurpose, PairRecord, PairRound, Pairs, Slot};
use msgpath_stats::simulate::normal;

/// One host in so many is slow.
const SLOW: u32 = 100;
/// The factor that is worth a sentence, and the confidence with which it is said.
const LEAST: f64 = 1.1;
const SURE: f64 = 0.99;
/// A pair of `msgpath mesh`: how long, and in how many rounds.
const PAIR: Duration = Duration::from_secs(2);
const ROUNDS: u32 = 10;
/// Messages of a simulated round.
const MESSAGES: u64 = 50;
/// The pairs that are recorded: their noise, and how much slower slow hosts are.
const RECORDED: (f64, f64) = (0.1, 1.3);

fn main() {
    let mut words = std::env::args().filter_map(|word| word.parse::<u32>().ok());
    let (hosts, partners) = (words.next().unwrap_or(10_000).max(10), words.next().unwrap_or(24));
    let (extent, warmup_ns) = (Extent::Time(PAIR.as_nanos() as u64), PAIR.as_nanos() as u64 / 20);
    let plan = agents::echo(|plan| Plan { rounds: ROUNDS, extent, warmup_ns, ..plan });
    let mut asked = agents::Asked { agents: 2, pairs: Pairs::All, at_once: 1, slow: None, delay: Duration::ZERO, plan };
    let one = agents::mesh(&asked);
    (asked.agents, asked.pairs) = (hosts, Pairs::Sample { partners });
    let mut header = agents::header((0..hosts).map(|host| format!("n{host}")).collect(), &asked);
    header.order.parallel = None;
    let begun = Instant::now();
    let pairs = msgpath_mesh::run::pairs(&header).expect("a sample");
    let slots: Vec<_> = pairs.iter().map(|pair| schedule::slot(*pair, PairPurpose::Mesh, 0)).collect();
    let resources = Resources::new(&vec![Sharing::default(); hosts as usize], &[], None);
    let steps = schedule::steps(&slots, &resources, 1, 0);
    let widest = steps.iter().map(Vec::len).max().unwrap_or(0);
    println!(
        "{hosts} hosts with {partners} partners: {} pairs in {} steps of up to {widest}",
        pairs.len(),
        steps.len()
    );
    println!("scheduled in {:.2} s; at most {} MiB of memory so far", begun.elapsed().as_secs_f64(), peak_mib());
    let time = time_of_a_pair(&header.plan) * steps.len() as u32;
    let all = |of_one: u64| of_one as f64 / one.pairs.max(1) as f64 * pairs.len() as f64;
    println!(
        "as planned {:.0} s; one real pair: {} frames and {} bytes of control, {} bytes of record",
        time.as_secs_f64(),
        one.control[0],
        one.control[1],
        one.recorded[0]
    );
    println!(
        "so all of them: {:.1} million frames, {:.1} GB of control ({:.0} MB/s), {:.1} GB of record",
        all(one.control[0]) / 1e6,
        all(one.control[1]) / 1e9,
        all(one.control[1]) / 1e6 / time.as_secs_f64(),
        all(one.recorded[0]) / 1e9
    );
    let mut random = fastrand::Rng::with_seed(1);
    for (noise, factor) in [(0.1, 1.2_f64), (0.1, 1.3), (0.1, 1.5), (0.3, 1.5), (0.3, 2.0)] {
        let begun = Instant::now();
        let values: Vec<Between> = pairs
            .iter()
            .map(|pair| Between { a: pair.0, b: pair.1, level: 0, value: simulated(*pair, noise, factor, &mut random) })
            .collect();
        let fitted = fit(hosts as usize, 1, &values);
        let is_sure = |host: u32| fitted.effects[host as usize].is_some_and(|one| one.at_least(SURE) > LEAST.ln());
        let found = (0..hosts).filter(|host| is_slow(*host) && is_sure(*host)).count();
        let wrong = (0..hosts).filter(|host| !is_slow(*host) && is_sure(*host)).count();
        let of = hosts.div_ceil(SLOW);
        println!(
            "noise {:.0} %, {factor} times slower: {found} of {of} found, {wrong} wrong; fitted in {:.2} s",
            noise * 100.0,
            begun.elapsed().as_secs_f64()
        );
    }
    header.plan.declare(msgpath_paths::traits);
    header.planned = pairs.len() as u64;
    let place = tempfile::tempdir().expect("a temporary folder");
    let folder = place.path().join("mesh");
    let begun = Instant::now();
    let writer = MeshWriter::create(&folder, &header).expect("a record");
    record(writer, steps.iter().flatten(), &mut random);
    let (written, begun) = (begun.elapsed(), Instant::now());
    let summary = agents::summary(&folder);
    println!(
        "recorded in {:.1} s, {:.0} MB; read and answered in {:.1} s, at most {} MiB of memory: {} hosts are called slow",
        written.as_secs_f64(),
        length(&folder.join(PAIRS_FILE)) as f64 / 1e6,
        begun.elapsed().as_secs_f64(),
        peak_mib(),
        agents::called_slow(&summary).len()
    );
}

fn is_slow(host: u32) -> bool {
    host.is_multiple_of(SLOW)
}

/// The logarithm of what is simulated of a pair: what its hosts add, noise, and now and then something that passes.
fn simulated((a, b): (u32, u32), noise: f64, factor: f64, random: &mut fastrand::Rng) -> f64 {
    let effect = |host: u32| if is_slow(host) { factor.ln() } else { 0.0 };
    let passing = if random.f64() < 0.01 { 1.0 } else { 0.0 };
    effect(a) + effect(b) + noise * normal(random) + passing
}

/// Writes simulated pairs as the coordinator writes those that it has measured.
fn record<'a>(mut writer: MeshWriter, slots: impl Iterator<Item = &'a Slot>, random: &mut fastrand::Rng) {
    let (noise, factor) = RECORDED;
    for slot in slots {
        let median = 50_000.0 * simulated((slot.near, slot.far), noise, factor, random).exp();
        let round = |_| {
            let mut latency = Histogram::new();
            let times = (0..MESSAGES).map(|_| (median * (0.1 * normal(random)).exp()) as u64);
            let elapsed_ns: u64 = times.inspect(|ns| latency.record(*ns)).sum();
            let ends = vec![EndWait { wait_ns: Some(0), ..EndWait::default() }; 2];
            PairRound { sent: MESSAGES, received: MESSAGES, lost: 0, elapsed_ns, ends, latency: latency.to_sparse() }
        };
        let rounds = (0..ROUNDS).map(round).collect();
        let cases = vec![PairCase { case: 0, rounds, unavailable: None }];
        let pair = PairRecord { slot: *slot, start_ns: 0, tries: 0, cases };
        writer.append(&PairBlock::Pair(Box::new(pair))).expect("a pair");
    }
    let (ended, granted) = (msgpath_record::utc::now(), Default::default());
    let end = RunEnd { status: Status::Ok, ended, problem: None, messages_not_kept: 0, granted, header_crc32: None };
    writer.finish(&end).expect("the end");
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |found| found.len())
}

/// The most memory that this process ever had.
fn peak_mib() -> u64 {
    agents::status("VmHWM:") >> 10
}
