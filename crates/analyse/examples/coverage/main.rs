//! How often the intervals of this program hold the truth, on data whose truth is known. Writes `benches/coverage.md`:
//!
//! ```text
//! cargo run --release -p msgpath-analyse --example coverage > benches/coverage.md
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

This page is written by a program that simulates measurements whose truth is known and hands them to the same code that
analyses a run:

    cargo run --release -p msgpath-analyse --example coverage > benches/coverage.md

A 95 % interval should hold the truth in 95 of 100 runs. Simulated shares are themselves uncertain: with 1,000 runs by
about 1.4 points either way, with 200 by about 3 (95 %). A part of the runs is repeated, with bounds, by `cargo test`
(`crates/analyse/tests/coverage.rs`). Simulations are not machines: they show that the procedures are right, not that a
machine behaves like one of these processes.";

fn percent(part: u32, of: u32) -> String {
    format!("{:.1} %", 100.0 * f64::from(part) / f64::from(of.max(1)))
}

/// Share of the intervals that hold the truth; `-` where none is claimed.
fn held(coverage: &Coverage) -> String {
    if coverage.claimed == 0 { "-".into() } else { format!("{:.1} %", 100.0 * coverage.share()) }
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
                    cell += &format!(" of the {} with an interval", percent(claimed, runs));
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
        "The round-corrected order statistic. {runs} runs of 40,000 messages: one stretch cut into 20 rounds, or 40 true\n\
         rounds. Runs that drift or have too few messages print another range and are not counted here; an end that cannot\n\
         be resolved is open and holds everything. Where hardly any run has an interval, those that do are the lucky ones:\n\
         p99.9 of the strongly correlated messages."
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
        "Each round begins with messages that take 0.7 of the steady time, until it settles: a regime that changes inside\n\
         rounds. {runs} runs of 10 s; the truth is the median of the steady state. The pilot finds the settling time from\n\
         two stretches of 150 ms and one of 1.1 s, rounds throw it away, and become fewer and longer\n\
         ([rounds](../docs/method/rounds.md#settling)). Beside it what 40 whole rounds would say. *p50*: that of the run divided by the\n\
         truth, the median of the runs. A change that comes after more than half of the long stretch is not seen."
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
            row.extend([percent(all.claimed, runs), held(all), held(seen), width(all)]);
        }
        row.push(percent(found.all().iter().map(|[_, seen]| seen.covered).sum(), runs));
        row
    });
    let text = format!(
        "The range of p50 where the level jumps: 40 rounds of 200 messages, levels that differ by 20 % (standard deviation of\n\
         the logarithm). {runs} runs. *Interval*: the run looked steady, or its rounds went together so little that they are\n\
         worth 6 independent ones or more; *levels*: it never settled, and the range spans its levels; *drift*: the rounds\n\
         went together too much for an interval, and the range is theirs.\n\n\
         There are two truths. *Holds all*: the median over all levels that there are. *Holds seen*: the median of the levels\n\
         that the run saw for two rounds or more, each counted once. A run cannot know of levels that it never saw: where the\n\
         level jumps every 40 rounds, 4 runs in 10 see a single one, look as steady as runs that never jump, and no procedure\n\
         can make their interval hold the others. Whoever asks about the next run needs the range between runs (below), or\n\
         `-o restarts`. What is left under *holds seen* are mostly runs with a level of two to four rounds, which are\n\
         taken for slow rounds. *Any range*: runs whose range, of whatever kind, holds the median of the levels seen."
    );
    let head = [
        "a jump every",
        "interval",
        "holds all",
        "holds seen",
        "width",
        "levels",
        "holds all",
        "holds seen",
        "width",
        "drift",
        "holds all",
        "holds seen",
        "width",
        "any range holds seen",
    ];
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
        [3, 5, 10, 20].into_iter().map(move |seen| {
            let [own, between] = next_run(machine, seen, runs);
            vec![name.into(), seen.to_string(), held(&own), width(&own), held(&between), width(&between)]
        })
    });
    let text = format!(
        "Whether p50 of the next run lies in the range of the run before it, and in that over the last runs. {runs} series of\n\
         runs that differ by so much (standard deviation of the logarithm). Below 5 runs the range is that of what was seen,\n\
         which holds the next of k + 1 equal ones in (k - 1) / (k + 1); from 5 on it is the prediction interval of the\n\
         logarithms (Hahn and Meeker, Statistical Intervals), united with what was seen."
    );
    let head =
        ["runs differ by", "runs seen", "own range holds the next", "width", "range over runs holds it", "width"];
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
        "A true ratio of 1.1, passes that differ by 5 % (standard deviation of the log-ratio). {runs} runs. Drifting: the\n\
         log-ratios of neighbouring passes resemble each other; blocks of four repair a part of it."
    );
    table("Ratios, paired by pass", &text, &["rounds", "noise", "holds the truth", "upper by lower end"], rows)
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
        "The ratio of two p99, a true 1.1: passes drawn again, expanded percentiles. {runs} runs of 1,000 messages a round.\n\
         *Shown*: the difference stands after Holm; *told*: it is also more than the margin of 2 % for certain. The last two\n\
         columns: the same of {} runs of 3 equal paths at 2 sizes, where any of 4 tails counts.",
        runs / 2
    );
    let head = [
        "messages",
        "rounds",
        "with an interval",
        "holds the truth",
        "upper by lower end",
        "shown",
        "told",
        "falsely shown",
        "falsely told",
    ];
    table("Tails", &text, &head, rows)
}

fn stream_table(runs: u32) -> String {
    let rows = [(10, false), (40, false), (40, true)].into_iter().map(|(rounds, heavy)| {
        let coverage = stream(rounds, 0.1, heavy, runs);
        let noise = noise_name(if heavy { Noise::Heavy } else { Noise::Normal });
        vec![rounds.to_string(), noise, held(&coverage), width(&coverage)]
    });
    let text = format!("Rounds that differ by 10 %. {runs} runs; the truth is the median rate.");
    table("Throughput", &text, &["rounds", "noise", "holds the truth", "upper by lower end"], rows)
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
        "Two paths at 8 sizes from 64 B to 1 MiB that cross once. {runs} runs. The first phase has every fourth size; the second\n\
         adds sizes on a quarter-octave grid around the crossing. *Wrong*: any claim but one crossing in the true direction,\n\
         of either stage."
    );
    let head = [
        "curves",
        "rounds",
        "noise",
        "claimed",
        "holds the truth",
        "upper by lower end",
        "second phase",
        "holds the truth",
        "upper by lower end",
        "wrong",
    ];
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
            percent(alarms.winners, runs),
            percent(alarms.standings, runs),
            percent(alarms.crossings, runs),
            percent(alarms.any, runs),
            percent(alarms.control, runs),
        ]
    });
    let text = format!(
        "All paths are the same. {runs} runs of a whole comparison with its hidden control; a run counts when it claims any\n\
         difference. *Shown*: a difference stands after Holm, whatever its size; at most 5 % are allowed. Verdicts ask for more:\n\
         the interval beyond the margin, which is 2 % or what the control resolves. Passes whose log-ratios drift are the\n\
         weak spot: more is shown than there is, and the margin keeps it from becoming a verdict."
    );
    let head = [
        "comparison",
        "rounds",
        "noise",
        "shown",
        "better or worse",
        "a winner",
        "best over all sizes",
        "a crossing",
        "any of them",
        "control failed",
    ];
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
        "One path is 3 % slower at one size, 40 rounds, margin at least 2 %. {runs} runs. *Shown*: the difference stands after\n\
         Holm. *Worse*: it is also more than the margin for certain, which asks for more than 3 % or for more rounds; *in two\n\
         runs*: at once, or in a second run of as many rounds as the first advised (at most 400)."
    );
    let head = ["comparison", "noise", "shown", "worse", "worse in two runs", "wrong verdict"];
    table("A difference of 3 %", &text, &head, rows)
}
