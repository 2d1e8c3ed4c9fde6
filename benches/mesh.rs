//! A mesh of many hosts that are not there: the schedule, what it would take, and which slow hosts the model finds in
//! simulated pairs of it.
//!
//! `cargo bench --bench mesh [-- HOSTS PARTNERS]`, by default 10,000 hosts with 24 partners each. Times are of this machine;
//! steps, pairs and hosts found are the same everywhere.

use std::time::Instant;

use msgpath_core::mesh::{Directions, MeshOrder, Pairs, Purpose};
use msgpath_run::mesh::schedule::{self, Resources, Sharing};
use msgpath_stats::additive::{Between, fit};
use msgpath_stats::simulate::normal;

/// One host in so many is slow.
const SLOW: u32 = 100;
/// The factor that is worth a sentence, and the confidence with which it is said.
const LEAST: f64 = 1.1;
const SURE: f64 = 0.99;

fn main() {
    let mut words = std::env::args().filter_map(|word| word.parse::<u32>().ok());
    let (hosts, partners) = (words.next().unwrap_or(10_000).max(10), words.next().unwrap_or(24));
    let order = MeshOrder {
        pairs: Pairs::Sample { partners },
        directions: Directions::One,
        parallel: None,
        limits: Vec::new(),
        retests: 0,
        alone_ppm: 0,
    };
    let begun = Instant::now();
    let pairs = schedule::pairs(&order, &vec![None; hosts as usize], 1).expect("a sample");
    let slots: Vec<_> = pairs.iter().map(|pair| schedule::slot(*pair, Purpose::Mesh, 0)).collect();
    let resources = Resources::new(&vec![Sharing::default(); hosts as usize], &[], None);
    let steps = schedule::steps(&slots, &resources, 1, 0);
    let widest = steps.iter().map(Vec::len).max().unwrap_or(0);
    println!(
        "{hosts} hosts with {partners} partners: {} pairs in {} steps of up to {widest}",
        pairs.len(),
        steps.len()
    );
    println!("scheduled in {:.2} s; resident {}", begun.elapsed().as_secs_f64(), resident());
    let mut random = fastrand::Rng::with_seed(1);
    for (noise, factor) in [(0.1, 1.2_f64), (0.1, 1.3), (0.1, 1.5), (0.3, 1.5), (0.3, 2.0)] {
        let begun = Instant::now();
        let effect = |host: u32| if host.is_multiple_of(SLOW) { factor.ln() } else { 0.0 };
        let values: Vec<Between> = pairs
            .iter()
            .map(|(a, b)| {
                let passing = if random.f64() < 0.01 { 1.0 } else { 0.0 };
                Between {
                    a: *a,
                    b: *b,
                    level: 0,
                    value: effect(*a) + effect(*b) + noise * normal(&mut random) + passing,
                }
            })
            .collect();
        let fitted = fit(hosts as usize, 1, &values);
        let is_sure = |host: u32| fitted.effects[host as usize].is_some_and(|one| one.at_least(SURE) > LEAST.ln());
        let found = (0..hosts).filter(|host| effect(*host) > 0.0 && is_sure(*host)).count();
        let wrong = (0..hosts).filter(|host| effect(*host) == 0.0 && is_sure(*host)).count();
        let of = hosts.div_ceil(SLOW);
        println!(
            "noise {:.0} %, {factor} times slower: {found} of {of} found, {wrong} wrong; fitted in {:.2} s",
            noise * 100.0,
            begun.elapsed().as_secs_f64()
        );
    }
}

/// What this process has in memory.
fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("n/a").trim().to_string()
}
