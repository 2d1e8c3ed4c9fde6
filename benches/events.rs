//! Does counting events change what is printed? The same run with and without, in turn, through plan, agent and record.
//!
//! `cargo bench --bench events [-- PASSES]`. Counting is forced, so that it is there without a PMU as well; the aim is a ratio
//! of the medians within 1 % of 1, because the counted rounds are others than those whose times are printed.

mod bare;

use msgpath_core::Workload;
use msgpath_core::plan::{Change, Extent, Placement};
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Plan};

const SIZE: u32 = 64;
const ROUNDS: u32 = 8;
const MESSAGES: u64 = 1_000;

/// Median over rounds of the median round trip of the case that is printed, ns.
fn median(path: &str, counting: bool) -> f64 {
    let (near, far) = bare::cpus();
    let plan = Plan {
        rounds: ROUNDS,
        extent: Extent::Count(MESSAGES * u64::from(ROUNDS)),
        placement: Placement::pair([near], [far]),
        message_log: 0,
        events: counting,
        events_forced: counting,
        ..Plan::new(Workload::ECHO, vec![Case::new(path.parse().expect("a path"), Pieces::whole(SIZE))])
    };
    let run = bare::execute(plan);
    let counted = run.header.plan.cases.iter().filter_map(|case| case.ablation.as_ref());
    assert_eq!(counted.filter(|ablation| ablation.change == Change::Counted).count(), usize::from(counting));
    let own = run.rounds.iter().filter(|round| round.case == 0);
    let mut medians: Vec<u64> = own.filter_map(|round| round.latency.quantile(0.5).flatten()).collect();
    medians.sort_unstable();
    medians[medians.len() / 2] as f64
}

fn main() {
    if bare::is_far_end() {
        return;
    }
    let passes = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(40);
    for path in ["tcp:send", "tcp:send/spin", "unix:send", "pipe:write"] {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for pass in 0..passes {
            // Which goes first changes from pass to pass.
            for counting in [pass % 2 == 0, pass % 2 != 0] {
                let values = if counting { &mut with } else { &mut without };
                values.push(median(path, counting));
            }
        }
        bare::report(path, "ns", &with, &without);
    }
}
