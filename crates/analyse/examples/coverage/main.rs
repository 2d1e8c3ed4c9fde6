//! How often the intervals of this program hold the truth, on data whose truth is known. Writes `docs/coverage.md`:
//!
//! ```text
//! cargo run --release -p msgpath-analyse --example coverage > docs/coverage.md
//! ```
//!
//! Seeded: the same code gives the same page.
#![allow(clippy::print_stderr, clippy::print_stdout)]

mod beginnings;
mod experiments;
mod processes;

use beginnings::beginnings;
use experiments::{
    Coverage, Curves, Jumping, Noise, Setup, crossing, false_alarms, jumping, next_run, paired_ratio, quantiles,
    stream, tail_ratio, three_percent,
};
use processes::Process;

fn main() {
    // Side by side, on as many CPUs as there are; printed in this order.
    let tables: [fn() -> String; 10] = [
        || quantile_table(1_000),
        || beginning_table(200),
        || level_table(1_000),
        || between_table(300),
        || paired_table(1_000),
        || tail_table(200),
        || stream_table(2_000),
        || crossover_table(300),
        || alarm_table(400),
        || difference_table(300),
    ];
    println!("{INTRODUCTION}");
    std::thread::scope(|scope| {
        let running = tables.map(|table| scope.spawn(table));
        for table in running {
            print!("{}", table.join().expect("a table"));
        }
    });
}

const INTRODUCTION: &str = "# How often the intervals hold the truth

A 95 % interval should hold the truth in 95 of 100 runs. A program simulates measurements whose truth is known, hands them
to the code that analyses a run, and writes this page:

    cargo run --release -p msgpath-analyse --example coverage > docs/coverage.md

Shares are in per cent, and uncertain by about 1.4 points with 1,000 runs, 3 with 200. `cargo test` repeats a part
(`crates/analyse/tests/coverage.rs`). Simulations show that the procedures are right, not that a machine behaves like one of
these processes. *Width*: the upper end of the interval by the lower.";

fn percent(part: u32, of: u32) -> String {
    format!("{:.1}", 100.0 * f64::from(part) / f64::from(of.max(1)))
}

/// Share of the intervals that hold the truth; `-` where none is claimed.
fn held(coverage: &Coverage) -> String {
    if coverage.claimed == 0 { "-".into() } else { format!("{:.1}", 100.0 * coverage.share()) }
}

fn width(coverage: &Coverage) -> String {
    coverage.width().map_or("-".into(), |width| format!("{width:.3}"))
}

/// A heading, a line of text, the head of the table and its rows.
fn table(title: &str, text: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut out = format!("\n## {title}\n\n{text}\n\n| {} |\n|{}\n", head.join(" | "), "---|".repeat(head.len()));
    for row in rows {
        assert_eq!(row.len(), head.len());
        out += &format!("| {} |\n", row.join(" | "));
    }
    out
}

fn quantile_table(runs: u32) -> String {
    let rows = Process::ALL.into_iter().map(|process| {
        let cells = quantiles(process, 40_000, runs).into_iter().map(|coverage| match coverage.claimed {
            0 => "no interval".into(),
            claimed => {
                let mut cell = held(&coverage);
                if claimed < runs {
                    cell += &format!(" ({})", percent(claimed, runs));
                }
                if coverage.open > 0 {
                    cell += &format!(" ({} open above)", percent(coverage.open, claimed));
                }
                cell
            }
        });
        std::iter::once(process.name()).chain(cells).collect()
    });
    let text = format!(
        "{runs} runs of 40,000 messages: one stretch cut into 20 rounds, or 40 true rounds. In brackets: how many runs have an\n\
         interval; the others drift or have too few messages. Where hardly any has one, those are the lucky ones."
    );
    table("Quantiles of one case", &text, &["messages", "p50", "p99", "p99.9"], rows)
}

const STEADY: Jumping = Jumping { every: None, levels: 0.0, runs: 0.0, messages: 200, heavy: false };

fn beginning_table(runs: u32) -> String {
    let rows = [0, 5, 50, 100, 200, 500].into_iter().map(|ms| {
        let found = beginnings(ms * 1_000_000, runs);
        let shift = |at: usize| format!("{:.3}", found.shift[at]);
        vec![
            if ms == 0 { "at once".into() } else { format!("after {ms} ms") },
            format!("{:.0} ms", found.found_ms),
            format!("{:.0}", found.rounds),
            held(&found.settled),
            shift(0),
            held(&found.whole),
            shift(1),
        ]
    });
    let text = format!(
        "Each round begins with messages of 0.7 of the steady time; the truth is the steady median. {runs} runs of 10 s. The\n\
         pilot finds the settling time, rounds throw it away ([rounds](method/rounds.md#settling)); beside it what 40 whole rounds\n\
         would say. *p50*: by the truth, median of the runs. A change after more than half of the long stretch is not seen."
    );
    let head = ["it settles", "found", "rounds", "holds the truth", "p50", "whole rounds hold it", "p50"];
    table("Rounds that begin in another state", &text, &head, rows)
}

fn level_table(runs: u32) -> String {
    let every = [None, Some(40.0), Some(20.0), Some(10.0), Some(5.0), Some(2.0)];
    let rows = every.into_iter().map(|every| {
        let levels = if every.is_some() { 0.2 } else { 0.0 };
        let found = jumping(Jumping { every, levels, ..STEADY }, runs);
        let mut row = vec![every.map_or("never".into(), |every| format!("{every} rounds"))];
        for [all, seen] in found.all() {
            row.extend([percent(all.claimed, runs), held(all), held(seen)]);
        }
        row.push(percent(found.all().iter().map(|[_, seen]| seen.covered).sum(), runs));
        row
    });
    let text = format!(
        "40 rounds of 200 messages, levels that differ by 20 % (standard deviation of the logarithm). {runs} runs. *Interval*: the\n\
         run looked steady; *levels*: it never settled, and the range spans its levels; *drift*: the range of the rounds.\n\n\
         *All*: the range holds the median over all levels that there are. *Seen*: that of the levels that the run saw for two\n\
         rounds or more. A run cannot know of levels that it never saw: with a jump every 40 rounds, 4 in 10 see a\n\
         single one. For the next run, use the range between runs (below), or `-o restarts`. *Any*: runs whose range, of\n\
         whatever kind, holds the levels seen."
    );
    let head = ["a jump every", "interval", "all", "seen", "levels", "all", "seen", "drift", "all", "seen", "any"];
    table("Levels within a run", &text, &head, rows)
}

fn between_table(runs: u32) -> String {
    let short = Jumping { messages: 50, ..STEADY };
    let machines = [
        ("all alike", short),
        ("5 %", Jumping { runs: 0.05, ..short }),
        ("15 %", Jumping { runs: 0.15, ..short }),
        ("15 %, heavy tails", Jumping { runs: 0.15, heavy: true, ..short }),
        ("15 %, and jumps of 20 % every 10 rounds", Jumping { every: Some(10.0), levels: 0.2, runs: 0.15, ..short }),
    ];
    let rows = machines.into_iter().flat_map(|(name, machine)| {
        [3, 5, 20].into_iter().map(move |seen| {
            let [own, between] = next_run(machine, seen, runs);
            vec![name.into(), seen.to_string(), held(&own), width(&own), held(&between), width(&between)]
        })
    });
    let text = format!(
        "Whether p50 of the next run lies in the range of the run before, and in that over the last runs. {runs} series of runs\n\
         that differ by so much (standard deviation of the logarithm). Below 5 runs the range is what was seen; from 5 on the\n\
         prediction interval, united with that ([between runs](method/steadiness.md#between-runs))."
    );
    let head = ["runs differ by", "seen", "own range", "width", "range over runs", "width"];
    table("Between runs", &text, &head, rows)
}

const PAIR: Setup = Setup { paths: 2, sizes: 1, rounds: 40, noise: Noise::Normal, deviation: 0.05 };

fn noise_name(noise: Noise) -> String {
    match noise {
        Noise::Normal => "normal".into(),
        Noise::Heavy => "heavy tails (t, 3 degrees)".into(),
        Noise::Drifting(rho) => format!("drifting, ρ = {rho}"),
    }
}

fn paired_table(runs: u32) -> String {
    let setups = [
        Setup { rounds: 10, ..PAIR },
        Setup { rounds: 20, ..PAIR },
        PAIR,
        Setup { noise: Noise::Heavy, ..PAIR },
        Setup { noise: Noise::Drifting(0.5), ..PAIR },
        Setup { noise: Noise::Drifting(0.8), ..PAIR },
    ];
    let rows = setups.into_iter().map(|setup| {
        let coverage = paired_ratio(setup, runs);
        vec![setup.rounds.to_string(), noise_name(setup.noise), held(&coverage), width(&coverage)]
    });
    let text = format!(
        "A true ratio of 1.1, passes that differ by 5 %. {runs} runs. Drifting: neighbouring passes resemble each other, which\n\
         blocks of four repair in part."
    );
    table("Ratios, paired by pass", &text, &["rounds", "noise", "holds", "width"], rows)
}

fn tail_table(runs: u32) -> String {
    let kinds = [(Process::Rounds, 20), (Process::Rounds, 40), (Process::Independent, 40), (Process::Bursts, 40)];
    let rows = kinds.into_iter().map(|(process, rounds)| {
        let slower = tail_ratio(Setup { rounds, ..PAIR }, process, 1_000, true, runs);
        let same = tail_ratio(Setup { paths: 3, sizes: 2, rounds, ..PAIR }, process, 1_000, false, runs / 2);
        vec![
            process.name(),
            rounds.to_string(),
            percent(slower.ratio.claimed, runs),
            held(&slower.ratio),
            width(&slower.ratio),
            percent(slower.stands, runs),
            percent(slower.decided, runs),
            percent(same.stands, same.ratio.runs),
            percent(same.decided, same.ratio.runs),
        ]
    });
    let text = format!(
        "The ratio of two p99, a true 1.1. {runs} runs of 1,000 messages a round. *Shown*: the difference stands after Holm;\n\
         *told*: it is surely more than the margin of 2 %. *False*: the same of {} runs of 3 equal paths at 2 sizes (4 tails).",
        runs / 2
    );
    let head =
        ["messages", "rounds", "with an interval", "holds", "width", "shown", "told", "false: shown", "false: told"];
    table("Tails", &text, &head, rows)
}

fn stream_table(runs: u32) -> String {
    let rows = [(10, false), (40, false), (40, true)].into_iter().map(|(rounds, heavy)| {
        let coverage = stream(rounds, 0.1, heavy, runs);
        let noise = noise_name(if heavy { Noise::Heavy } else { Noise::Normal });
        vec![rounds.to_string(), noise, held(&coverage), width(&coverage)]
    });
    let text = format!("Rounds that differ by 10 %. {runs} runs; the truth is the median rate.");
    table("Throughput", &text, &["rounds", "noise", "holds", "width"], rows)
}

fn crossover_table(runs: u32) -> String {
    let kinds = [
        (Curves::Straight, 20, 0.05),
        (Curves::Straight, 40, 0.05),
        (Curves::Straight, 40, 0.15),
        (Curves::FixedAndPerByte, 40, 0.05),
        (Curves::FixedAndPerByte, 40, 0.15),
        (Curves::AlmostParallel, 40, 0.05),
    ];
    let rows = kinds.into_iter().map(|(curves, rounds, deviation)| {
        let found = crossing(curves, rounds, deviation, runs);
        let curves = match curves {
            Curves::Straight => "5 % an octave",
            Curves::FixedAndPerByte => "fixed and per-byte cost",
            Curves::AlmostParallel => "1 % an octave",
        };
        vec![
            curves.into(),
            rounds.to_string(),
            format!("{:.0} %", 100.0 * deviation),
            percent(found.first.claimed, runs),
            held(&found.first),
            width(&found.first),
            percent(found.second.claimed, runs),
            held(&found.second),
            width(&found.second),
            percent(found.wrong, runs),
        ]
    });
    let text = format!(
        "Two paths at 8 sizes from 64 B to 1 MiB that cross once. {runs} runs. *Second*: sizes added on a quarter-octave grid.\n\
         *Wrong*: any claim but one crossing in the true direction."
    );
    let head = ["curves", "rounds", "noise", "claimed", "holds", "width", "second claimed", "holds", "width", "wrong"];
    table("Crossover sizes", &text, &head, rows)
}

fn alarm_table(runs: u32) -> String {
    let large = Setup { paths: 4, sizes: 6, ..PAIR };
    let setups = [
        PAIR,
        large,
        Setup { rounds: 10, ..large },
        Setup { deviation: 0.15, ..large },
        Setup { noise: Noise::Heavy, ..large },
        Setup { noise: Noise::Drifting(0.5), ..large },
    ];
    let rows = setups.into_iter().map(|setup| {
        let alarms = false_alarms(setup, runs);
        vec![
            format!("{} paths, {} size{}", setup.paths, setup.sizes, if setup.sizes > 1 { "s" } else { "" }),
            setup.rounds.to_string(),
            format!("{}, {:.0} %", noise_name(setup.noise), 100.0 * setup.deviation),
            percent(alarms.stands, runs),
            percent(alarms.ratios, runs),
            percent(alarms.any, runs),
            percent(alarms.control, runs),
        ]
    });
    let text = format!(
        "All paths are the same. {runs} runs of a comparison with its control. *Shown*: a difference stands after Holm (at most\n\
         5 % allowed). *Verdict*: better or worse. *Any*: also a winner, a best path or a crossing. Drifting passes are the weak\n\
         spot: the margin keeps what they show from becoming a verdict."
    );
    let head = ["comparison", "rounds", "noise", "shown", "verdict", "any", "control failed"];
    table("False alarms", &text, &head, rows)
}

fn difference_table(runs: u32) -> String {
    let family = Setup { paths: 3, sizes: 4, ..PAIR };
    let setups = [Setup { deviation: 0.02, ..PAIR }, PAIR, Setup { deviation: 0.02, ..family }, family];
    let rows = setups.into_iter().map(|setup| {
        let found = three_percent(setup, runs);
        vec![
            format!("{} paths, {} size{}", setup.paths, setup.sizes, if setup.sizes > 1 { "s" } else { "" }),
            format!("{:.0} %", 100.0 * setup.deviation),
            percent(found.stands, runs),
            percent(found.worse, runs),
            percent(found.worse_in_two, runs),
            percent(found.wrong, runs),
        ]
    });
    let text = format!(
        "One path is 3 % slower at one size, 40 rounds, margin at least 2 %. {runs} runs. *Worse*: surely more than the margin;\n\
         *in two*: at once, or in a second run of as many rounds as the first advised (at most 400)."
    );
    let head = ["comparison", "noise", "shown", "worse", "in two", "wrong"];
    table("A difference of 3 %", &text, &head, rows)
}
