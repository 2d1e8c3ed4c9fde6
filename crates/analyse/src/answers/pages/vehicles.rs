//! The page of the preset `vehicles`: what is start, what is steady, what is the engine and what waits for a CPU.

use msgpath_core::Histogram;
use msgpath_core::units::Glyphs;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::quantile::Quantile;

use crate::answers::{Answer, Cell, Page, Part, Table};
use crate::periodic::{Engine, Times};
use crate::summary::{CaseSummary, Confidence};
use crate::words::range_in_words;

/// What the group of the experiment reported, µs: engine, when, least, mean, largest.
const REPORTED: [(&str, &str, f64, f64, f64); 4] = [
    ("eth", "reported at first", 13.0, 390.0, 71_273.0),
    ("eth", "reported in the end", 16.0, 211.93, 721.0),
    ("shm", "reported at first", 1.0, 207.0, 68_452.0),
    ("shm", "reported in the end", 1.0, 1.53, 58.0),
];
/// Share of messages that are lost or late by a period from which on an engine is overloaded.
const OVERLOAD: f64 = 0.1;
/// Stalls that the page lists.
const STALLS: usize = 8;
/// The slowest messages that are looked for among the first ones, as a share.
const SLOWEST: f64 = 0.01;
/// Messages that the slowest of them are taken of, at least.
const ENOUGH: usize = 1_000;

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let engines = engines(parts);
    if engines.is_empty() {
        return Page::default();
    }
    Page {
        tables: vec![times(&engines), as_the_course_prints_it(&engines)],
        answers: vec![
            start_and_steady(parts, &engines),
            slowest(&engines),
            faster(&engines),
            waiting(&engines),
            late_receivers(&engines),
            deadlines(&engines),
            authentication(parts, &engines),
            set_up(&engines),
        ],
        ..Page::default()
    }
}

/// One engine of one run.
pub(in crate::answers) struct Driven<'a> {
    pub(in crate::answers) part: Part<'a>,
    pub(in crate::answers) case: &'a CaseSummary,
    pub(in crate::answers) engine: &'a Engine,
}

impl Driven<'_> {
    /// `eth`, `shm`, `udp`.
    pub(in crate::answers) fn transport(&self) -> &str {
        &self.case.case.path.transport
    }

    /// How the components started.
    pub(in crate::answers) fn start(&self) -> &str {
        self.part.run.header.periodic.as_ref().map_or("", |facts| &facts.start)
    }

    pub(in crate::answers) fn median(&self) -> Option<&Quantile> {
        self.case.quantiles.iter().find(|quantile| quantile.p == 0.5)
    }

    /// So many of its messages were lost or delivered more than a period late that a queue grew from period to period: times
    /// are those of the backlog.
    pub(in crate::answers) fn overloaded(&self) -> bool {
        let all = &self.engine.all;
        (self.engine.missed + all.lost) as f64 > OVERLOAD * (all.messages + all.lost) as f64
    }

    /// Time that receivers waited for a CPU, of the mean time of a message; at most all of it.
    pub(in crate::answers) fn waiting_share(&self) -> Option<f64> {
        Some((self.engine.receiver_delay_ns? / self.engine.all.mean_ns?).min(1.0))
    }

    fn name(&self) -> String {
        format!("{} of {}", self.transport(), self.part.name)
    }

    fn heads(&self) -> [Cell; 2] {
        [Cell::text(self.part.name), Cell::text(self.case.case.path.to_string())]
    }
}

/// Every engine of every periodic run that delivered something.
pub(in crate::answers) fn engines<'a>(parts: &[Part<'a>]) -> Vec<Driven<'a>> {
    let of = |part: Part<'a>| {
        let engines = part.summary.periodic.iter().flat_map(|periodic| &periodic.engines);
        engines.filter_map(move |engine| {
            let case = part.summary.cases.iter().find(|case| case.case.id == engine.case)?;
            (engine.all.messages > 0).then_some(Driven { part, case, engine })
        })
    };
    parts.iter().copied().flat_map(of).collect()
}

/// Mean of the first messages over that of the rest, one value for every start of this transport. Where an engine was
/// overloaded the rest is a backlog, and is compared with nothing.
pub(in crate::answers) fn start_ratios(parts: &[Part<'_>], transport: &str) -> Vec<f64> {
    let mut ratios = Vec::new();
    for driven in engines(parts).iter().filter(|driven| driven.transport() == transport && !driven.overloaded()) {
        let run = driven.part.run;
        for restart in 0..run.header.plan.restarts.max(1) {
            let (mut first, mut steady) = (Histogram::new(), Histogram::new());
            let own = run.rounds.iter().filter(|round| round.case == driven.engine.case && round.restart == restart);
            for round in own {
                first.merge_sparse(&round.first);
                steady.merge_sparse(&round.latency);
            }
            let mean = |histogram: &Histogram| {
                let arrived = histogram.total() - histogram.lost();
                (arrived > 0).then(|| histogram.sum() as f64 / arrived as f64)
            };
            if let (Some(first), Some(steady)) = (mean(&first), mean(&steady))
                && steady > 0.0
            {
                ratios.push(first / steady);
            }
        }
    }
    ratios
}

/// Transports in the order in which they appear.
fn transports(engines: &[Driven<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for driven in engines {
        if !names.iter().any(|name| name == driven.transport()) {
            names.push(driven.transport().into());
        }
    }
    names
}

fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

fn percent(share: f64) -> String {
    format!("{} %", msgpath_core::units::three_digits(share * 100.0))
}

fn ns(ns: Option<u64>) -> Cell {
    Cell::or_missing(ns.map(|ns| ns as f64), Cell::Time, "no message arrived")
}

fn ns_of(ns: Option<f64>, why: &str) -> Cell {
    Cell::or_missing(ns, Cell::Time, why)
}

fn time_cells(times: &Times) -> [Cell; 5] {
    // A quantile that is no number although there are messages is a lost one, which prints as such.
    let lost = |p: f64| times.messages > 0 && times.lost as f64 > (1.0 - p) * (times.messages + times.lost) as f64;
    let quantile = |p: f64, ns: Option<u64>, why: &str| {
        let value = ns.map(|ns| ns as f64).or(lost(p).then_some(f64::INFINITY));
        Cell::or_missing(value, Cell::Time, why)
    };
    let p50 = quantile(0.5, times.p50_ns, "no message arrived");
    let p99 = quantile(0.99, times.p99_ns, "too few messages");
    [ns(times.min_ns), ns_of(times.mean_ns, "no message arrived"), p50, p99, ns(times.max_ns)]
}

fn times(engines: &[Driven<'_>]) -> Table {
    let mut table = Table::new(
        "engines",
        "Every message of each engine, from when it was made to its delivery",
        &["run", "engine", "messages", "lost", "min", "mean", "p50", "p99", "max"],
    );
    for driven in engines {
        let all = &driven.engine.all;
        let counts = [Cell::count(all.messages), Cell::count(all.lost)];
        table.row(driven.heads().into_iter().chain(counts).chain(time_cells(all)));
    }
    let same_clock =
        "One message is one time for every receiver; both ends read one CLOCK_MONOTONIC. Nothing is left out.";
    table.note(same_clock)
}

/// Whole microseconds, as the programs of the course print them, beside what was reported there.
fn as_the_course_prints_it(engines: &[Driven<'_>]) -> Table {
    let mut table = Table::new(
        "integers",
        "The same in microseconds, beside what the experiment's group reported",
        &["engine", "run", "min [µs]", "mean [µs]", "max [µs]"],
    );
    for transport in transports(engines) {
        for (_, when, min, mean, max) in REPORTED.iter().filter(|(engine, ..)| *engine == transport) {
            let numbers = [Cell::count(*min as u64), Cell::text(plain(*mean)), Cell::count(*max as u64)];
            table.row([Cell::text(&transport), Cell::text(*when)].into_iter().chain(numbers));
        }
        for driven in engines.iter().filter(|driven| driven.transport() == transport) {
            let all = &driven.engine.all;
            let whole = |ns: Option<u64>| ns.map_or_else(|| Cell::missing("none"), |ns| Cell::count(ns / 1000));
            let mean = all.mean_ns.map_or_else(|| Cell::missing("none"), |ns| Cell::text(plain(ns / 1000.0)));
            table.row([
                Cell::text(&transport),
                Cell::text(driven.part.name),
                whole(all.min_ns),
                mean,
                whole(all.max_ns),
            ]);
        }
    }
    table.note(
        "Their mean is an integer mean of integer means of processes and their first message can never be the minimum; \
         here it is the mean of all messages. Their machine and number of CPUs are not known, so only orders of magnitude \
         compare.",
    )
}

/// A number of microseconds with at most two decimals.
fn plain(value: f64) -> String {
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn verdict_over_one(estimate: Option<&Estimate>) -> Confidence {
    match estimate.and_then(|estimate| estimate.low.zip(estimate.high)) {
        Some((low, high)) if low > 1.0 || high < 1.0 => Confidence::Sure,
        Some(_) => Confidence::CantTell,
        None => Confidence::Likely,
    }
}

fn start_and_steady(parts: &[Part<'_>], engines: &[Driven<'_>]) -> Answer {
    let question = "What is the start, and what is steady?";
    let mut table = Table::new(
        "first-and-steady",
        "The first messages of every component, and the rest",
        &[
            "run",
            "engine",
            "first",
            "mean",
            "p50",
            "max",
            "steady mean",
            "steady p50",
            "steady p99",
            "steady max",
            "mean ratio",
        ],
    );
    for driven in engines {
        let Engine { first, steady, .. } = driven.engine;
        let count = driven.part.run.header.periodic.as_ref().map_or(0, |facts| facts.first);
        let [_, first_mean, first_p50, _, first_max] = time_cells(first);
        let [_, steady_mean, steady_p50, steady_p99, steady_max] = time_cells(steady);
        let ratio = first.mean_ns.zip(steady.mean_ns).map(|(first, steady)| first / steady);
        let ratio = Cell::or_missing(ratio, Cell::Ratio, "no message of one of them");
        let cells = [
            Cell::count(count),
            first_mean,
            first_p50,
            first_max,
            steady_mean,
            steady_p50,
            steady_p99,
            steady_max,
            ratio,
        ];
        table.row(driven.heads().into_iter().chain(cells));
    }
    let (mut texts, mut confidence) = (Vec::new(), Confidence::Sure);
    for transport in transports(engines) {
        let ratios = start_ratios(parts, &transport);
        let Some(estimate) = log_estimate(&ratios) else { continue };
        let verdict = verdict_over_one(Some(&estimate));
        confidence = weaker(confidence, verdict);
        let interval = estimate.low.zip(estimate.high).map_or_else(
            || format!("; {} starts are too few for an interval", ratios.len()),
            |(low, high)| format!(" (95 % over {} starts: {low:.2} to {high:.2})", ratios.len()),
        );
        let times = format!("{:.2} times the mean of the rest{interval}", estimate.value);
        texts.push(match verdict {
            Confidence::Sure if estimate.value > 1.0 => format!("{transport}: the first messages are slower: {times}"),
            Confidence::Sure => format!("{transport}: the first messages are not slower: {times}"),
            _ => format!("{transport}: the first messages take {times}, which does not tell them from the rest"),
        });
    }
    if texts.is_empty() {
        let why = "no engine that kept up with its messages has both first messages and steady ones";
        return Answer::cannot(question, why).with(table).next("msgpath preset vehicles -- --period 100ms");
    }
    let behind: Vec<String> = engines.iter().filter(|driven| driven.overloaded()).map(Driven::name).collect();
    if !behind.is_empty() {
        texts.push(format!(
            "Not counted: {}, which did not keep up, so that what follows the first messages is a growing backlog",
            behind.join(", ")
        ));
    }
    let answer = Answer::new(question, confidence, texts.join(". ") + ".").with(table);
    match confidence {
        Confidence::Sure => answer,
        _ => answer.next("msgpath preset vehicles -- --restarts 5"),
    }
}

fn weaker(one: Confidence, other: Confidence) -> Confidence {
    let rank = |confidence| match confidence {
        Confidence::Sure => 2,
        Confidence::Likely => 1,
        Confidence::CantTell => 0,
    };
    if rank(other) < rank(one) { other } else { one }
}

/// Where the slowest messages lie: share of the slowest 1 % that are first ones, and share of first ones among all.
fn slowest_are_first(driven: &Driven<'_>) -> Option<(f64, f64, u64)> {
    let first = driven.part.run.header.periodic.as_ref()?.first;
    let rows = driven.part.logs.periodic.iter().filter(|row| row.case == driven.engine.case);
    let mut times: Vec<(u64, bool)> = rows.filter_map(|row| Some((row.latency_ns?, row.sequence < first))).collect();
    if times.len() < ENOUGH {
        return None;
    }
    let among = |times: &[(u64, bool)]| times.iter().filter(|(_, first)| *first).count() as f64 / times.len() as f64;
    let usual = among(&times);
    let count = ((times.len() as f64 * SLOWEST) as usize).max(1);
    let at = times.len() - count;
    times.select_nth_unstable(at);
    Some((among(&times[at..]), usual, times[at].0))
}

fn slowest(engines: &[Driven<'_>]) -> Answer {
    let question = "Are the high delays at the start of the program?";
    let mut table = Table::new(
        "slowest",
        "The slowest 1 % of the messages, and how many of them are first ones",
        &["run", "engine", "slower than", "first among the slowest", "first among all"],
    );
    let (mut many, mut measured, mut behind) = (Vec::new(), 0, 0);
    for driven in engines {
        let Some((among, usual, limit)) = slowest_are_first(driven) else { continue };
        let shares = [Cell::Share(among.into()), Cell::Share(usual.into())];
        table.row(driven.heads().into_iter().chain([Cell::Time((limit as f64).into())]).chain(shares));
        if driven.overloaded() {
            behind += 1;
            continue;
        }
        measured += 1;
        if among > 2.0 * usual {
            many.push(format!(
                "{} {} ({} against {})",
                driven.part.name,
                driven.transport(),
                percent(among),
                percent(usual)
            ));
        }
    }
    if measured == 0 && behind > 0 {
        let why = "no engine kept up with its messages: the slowest are the last ones of a growing backlog";
        return Answer::cannot(question, why).with(table).next("msgpath preset vehicles -- --period 100ms");
    }
    if measured == 0 {
        return Answer::cannot(question, "the log of messages is not there")
            .next("msgpath preset vehicles -- --message-log 2M");
    }
    // A cluster of one start is one event, however many messages it has: more than likely it cannot be.
    let text = match many.len() {
        0 => format!(
            "In none of {measured} the slowest 1 % of the messages are first ones more than twice as often as chance puts \
             them there: high delays come at any time."
        ),
        n => format!(
            "In {n} of {measured} the slowest 1 % are first messages more than twice as often as chance puts them there: {}. \
             {}",
            many.join(", "),
            match measured - n {
                0 => "They are the start of the program.".to_owned(),
                others => format!("In the other {others} they come at any time."),
            }
        ),
    };
    let text = match behind {
        0 => text,
        n => format!("{text} {n} did not keep up: there the slowest are the last ones of a growing backlog."),
    };
    Answer::new(question, Confidence::Likely, text).with(table)
}

/// The engines of the run in which components disturb one another least: staggered where there is one.
fn calmest<'a, 'b>(engines: &'b [Driven<'a>], transport: &str) -> Option<&'b Driven<'a>> {
    let own = || engines.iter().filter(|driven| driven.transport() == transport && !driven.overloaded());
    own().find(|driven| driven.start() == "staggered").or_else(|| own().next())
}

/// `23.1 µs (95 %: 22.8 to 23.5 µs)`.
pub(in crate::answers) fn median_words(quantile: &Quantile) -> String {
    let value = quantile.ns.map_or_else(|| "lost".into(), |ns| time(ns as f64));
    match range_in_words(quantile) {
        _ if quantile.ns.is_none() => "a message that did not arrive".into(),
        Some(range) => format!("{value} ({range})"),
        None => value,
    }
}

fn faster(engines: &[Driven<'_>]) -> Answer {
    let question = "Raw Ethernet or shared memory: which is faster, and by how much?";
    let (Some(eth), Some(shm)) = (calmest(engines, "eth"), calmest(engines, "shm")) else {
        return Answer::cannot(
            question,
            "one of the two engines was not measured, or did not keep up with its messages",
        )
        .next("msgpath preset vehicles -- --period 100ms");
    };
    let (Some(one), Some(other)) = (eth.median(), shm.median()) else {
        return Answer::cannot(question, "one of the two has no median");
    };
    let (Some(one_ns), Some(other_ns)) = (one.ns, other.ns) else {
        return Answer::cannot(question, "one of the two lost half of its messages");
    };
    let range = |quantile: &Quantile| quantile.lo_ns.zip(quantile.hi_ns);
    let apart = range(one).zip(range(other)).map(|(one, other)| one.0 > other.1 || other.0 > one.1);
    let (quick, slow) = if other_ns <= one_ns { ("shm", "eth") } else { ("eth", "shm") };
    let factor = one_ns.max(other_ns) as f64 / one_ns.min(other_ns).max(1) as f64;
    let confidence = match apart {
        Some(true) if one.is_interval() && other.is_interval() => Confidence::Sure,
        Some(true) => Confidence::Likely,
        _ => Confidence::CantTell,
    };
    let verdict = match apart {
        Some(true) => format!("{quick} is {factor:.2} times as fast as {slow}"),
        Some(false) => "the ranges overlap, so neither is shown to be faster".into(),
        None => "not both have a range, so neither is shown to be faster".into(),
    };
    let text = format!(
        "In the run {}, the steady median is {} with {} and {} with {}: {verdict}. That is the whole way, with the wake-up \
         of the receiver and the authentication.",
        eth.part.name,
        median_words(one),
        eth.case.case.path,
        median_words(other),
        shm.case.case.path,
    );
    let answer = Answer::new(question, confidence, text);
    match confidence {
        Confidence::Sure => answer,
        _ => answer.next("msgpath periodic --start staggered -c 2000 -r 20"),
    }
}

fn waiting(engines: &[Driven<'_>]) -> Answer {
    let question = "How much of the time is waiting for a CPU?";
    let mut table = Table::new(
        "waiting",
        "Time that threads were runnable and did not run",
        &[
            "run",
            "engine",
            "start",
            "receiver, a message",
            "of the mean",
            "sender, a message",
            "mean",
            "signals a message",
        ],
    );
    let mut shares = Vec::new();
    for driven in engines {
        let engine = driven.engine;
        let share = driven.waiting_share();
        shares.extend(share.map(|share| (share, driven)));
        let signals = (engine.signals > 0).then(|| engine.signals as f64 / engine.received.max(1) as f64);
        let why = "schedstat cannot be read";
        let cells = [
            Cell::text(driven.start()),
            ns_of(engine.receiver_delay_ns, why),
            Cell::or_missing(share, Cell::Share, why),
            ns_of(engine.sender_delay_ns, why),
            ns_of(engine.all.mean_ns, "no message arrived"),
            Cell::or_missing(signals, Cell::Ratio, "this wait takes no signals"),
        ];
        table.row(driven.heads().into_iter().chain(cells));
    }
    let most = shares.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    let least = shares.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (Some((most, at)), Some((least, other))) = (most, least) else {
        return Answer::cannot(question, "this kernel has no run delays (CONFIG_SCHEDSTATS)").with(table);
    };
    let facts = at.part.run.header.periodic.as_ref();
    let crowd = facts.map_or_else(String::new, |facts| {
        format!(" {} sending and {0} receiving threads share {} CPUs.", facts.processes * facts.components, facts.cpus)
    });
    let text = format!(
        "Receivers waited for a CPU for at least {} ({}) to {} ({}) of the mean time of a message.{crowd} A receiver that \
         waits once delays every message that waits with it, so its part of each message is at least this.",
        percent(*least),
        other.name(),
        percent(*most),
        at.name(),
    );
    Answer::new(question, Confidence::Likely, text).with(table).next("sudo msgpath explain -x eth:send/sigio")
}

fn late_receivers(engines: &[Driven<'_>]) -> Answer {
    let question = "Is the maximum one message, or one late receiver?";
    let mut table = Table::new(
        "stalls",
        "The longest stalls: one receiver was late, and messages in a row waited for it",
        &["run", "engine", "at", "receiver", "messages", "longest", "shortest", "each a little shorter"],
    );
    let mut stalls: Vec<_> =
        engines.iter().flat_map(|driven| driven.engine.stalls.iter().map(move |stall| (driven, stall))).collect();
    stalls.sort_by_key(|(_, stall)| std::cmp::Reverse(stall.longest_ns));
    for (driven, stall) in stalls.iter().take(STALLS) {
        let cells = [
            Cell::Time((stall.at_ns as f64).into()),
            Cell::count(stall.receiver.into()),
            Cell::count(stall.messages),
            Cell::Time((stall.longest_ns as f64).into()),
            Cell::Time((stall.shortest_ns as f64).into()),
            Cell::text(if stall.falling { "yes" } else { "no" }),
        ];
        table.row(driven.heads().into_iter().chain(cells));
    }
    let logged = engines.iter().any(|driven| driven.engine.logged > 0);
    let found: u64 = engines.iter().map(|driven| driven.engine.stalls_found).sum();
    let messages: u64 = engines.iter().map(|driven| driven.engine.stalled_messages).sum();
    // The slowest message of an engine is part of a stall when a stall has that length.
    let within =
        |driven: &&Driven<'_>| driven.engine.stalls.first().map(|stall| stall.longest_ns) == driven.engine.all.max_ns;
    match (logged, found) {
        (false, _) => Answer::cannot(question, "the log of messages is not there"),
        (true, 0) => Answer::new(
            question,
            Confidence::Sure,
            "No receiver was late for five or more messages in a row, so slow messages are slow one by one.",
        ),
        (true, _) => Answer::new(
            question,
            Confidence::Sure,
            format!(
                "{} times a receiver was late for five or more messages in a row, and {} messages waited in them. In {} of \
                 {} runs of an engine the slowest message is the first of such a row.",
                Glyphs::Unicode.thousands(found),
                Glyphs::Unicode.thousands(messages),
                engines.iter().filter(within).count(),
                engines.len(),
            ),
        )
        .with(table),
    }
}

fn deadlines(engines: &[Driven<'_>]) -> Answer {
    let question = "Are the periods kept?";
    let mut table = Table::new(
        "deadlines",
        "Messages later than one period",
        &[
            "run",
            "engine",
            "period",
            "made late",
            "delivered late",
            "lost",
            "before ready",
            "latest send p99",
            "latest send",
        ],
    );
    let (mut kept, mut missed) = (0, Vec::new());
    for driven in engines {
        let engine = driven.engine;
        let period = driven.part.run.header.periodic.as_ref().map_or(0, |facts| facts.period_ns);
        let counts = [engine.late, engine.missed, engine.all.lost, engine.before_ready].map(Cell::count);
        let lateness = &engine.lateness;
        let [_, _, _, p99, max] = time_cells(lateness);
        table.row(
            driven.heads().into_iter().chain([Cell::Time((period as f64).into())]).chain(counts).chain([p99, max]),
        );
        match engine.late + engine.missed + engine.all.lost {
            0 => kept += 1,
            _ => missed.push(format!(
                "{} {} ({} made late, {} delivered late, {} lost of {})",
                driven.part.name,
                driven.transport(),
                engine.late,
                engine.missed,
                engine.all.lost,
                Glyphs::Unicode.thousands(engine.all.messages + engine.all.lost)
            )),
        }
    }
    let text = match missed.is_empty() {
        true => format!("All {kept} runs of an engine made and delivered every message within a period of its time."),
        false if kept == 0 => format!("In none: {}.", missed.join(", ")),
        false => format!("Not in {}. In {kept} others every message was in time.", missed.join(", ")),
    };
    // Counted, not estimated.
    Answer::new(question, Confidence::Sure, text).with(table)
}

/// First calls of the authentication over the median of the later ones, one value for every process that was started.
pub(in crate::answers) fn cold_over_warm(parts: &[Part<'_>]) -> Vec<(f64, f64)> {
    let sessions = parts.iter().filter_map(|part| part.run.header.periodic.as_ref()).flat_map(|facts| &facts.sessions);
    let mut pairs = Vec::new();
    for session in sessions {
        let mut seen = std::collections::BTreeSet::new();
        for component in &session.components {
            if let ([cold, warm @ ..], true) = (component.mac_calls.as_slice(), seen.insert(component.process))
                && !warm.is_empty()
            {
                let mut warm: Vec<f64> = warm.iter().map(|ns| *ns as f64).collect();
                pairs.push((*cold as f64, msgpath_stats::describe::percentile(&mut warm, 0.5)));
            }
        }
    }
    pairs
}

fn authentication(parts: &[Part<'_>], engines: &[Driven<'_>]) -> Answer {
    let question = "What does the authentication of a message cost, the first time and later?";
    let mut table = Table::new(
        "authentication",
        "The authentication of a message",
        &["run", "engine", "kind", "first call", "slowest first call", "later calls", "while sending", "check"],
    );
    for driven in engines {
        let engine = driven.engine;
        let kind = driven.part.run.header.periodic.as_ref().map_or("", |facts| &facts.mac);
        let stage = |name: &str| engine.stages.iter().find(|stage| stage.name == name).map(|stage| stage.p50_ns);
        let why = "none in this run";
        let cells = [
            Cell::text(kind),
            ns_of(engine.cold_mac_ns.map(|cold| cold.0), why),
            ns_of(engine.cold_mac_ns.map(|cold| cold.1), why),
            ns_of(engine.warm_mac_ns, why),
            ns_of(stage("authentication"), why),
            ns_of(stage("check"), why),
        ];
        table.row(driven.heads().into_iter().chain(cells));
    }
    let pairs = cold_over_warm(parts);
    let ratios: Vec<f64> = pairs.iter().map(|(cold, warm)| cold / warm.max(1.0)).collect();
    let Some(ratio) = log_estimate(&ratios) else {
        return Answer::cannot(question, "no message was authenticated").next("msgpath periodic --mac poly1305");
    };
    let median = |values: Vec<f64>| msgpath_stats::describe::median(&values);
    let cold = median(pairs.iter().map(|pair| pair.0).collect());
    let warm = median(pairs.iter().map(|pair| pair.1).collect());
    let interval = ratio.low.zip(ratio.high).map_or_else(String::new, |(low, high)| {
        format!(" (95 % over {} processes: {low:.2} to {high:.2})", ratios.len())
    });
    let verdict = verdict_over_one(Some(&ratio));
    let text = match verdict {
        Confidence::CantTell => format!(
            "The first call of a process takes {} (median of {} processes), a later one {}: the ratio {:.2}{interval} does not \
             tell them apart.",
            time(cold),
            pairs.len(),
            time(warm),
            ratio.value
        ),
        _ => format!(
            "The first call of a process takes {} (median of {} processes), a later one {}: {:.2} times as long{interval}. \
             Every message pays the later price, at both ends.",
            time(cold),
            pairs.len(),
            time(warm),
            ratio.value
        ),
    };
    Answer::new(question, verdict, text).with(table)
}

fn set_up(engines: &[Driven<'_>]) -> Answer {
    let question = "What does setting up a component cost?";
    let mut table = Table::new(
        "set-up",
        "Stages of the set-up: median and longest over components",
        &["run", "engine", "stage", "median", "longest"],
    );
    let mut longest: Option<(&str, f64, &Driven<'_>)> = None;
    for driven in engines {
        for setup in &driven.engine.setup {
            let cells = [Cell::text(&setup.name), Cell::Time(setup.p50_ns.into()), Cell::Time(setup.max_ns.into())];
            table.row(driven.heads().into_iter().chain(cells));
            if longest.is_none_or(|(_, ns, _)| setup.p50_ns > ns) {
                longest = Some((&setup.name, setup.p50_ns, driven));
            }
        }
    }
    let Some((name, median, driven)) = longest else {
        return Answer::cannot(question, "no stages of the set-up were recorded");
    };
    let ready: Vec<u64> = engines.iter().map(|driven| driven.engine.ready_ns).collect();
    let text = format!(
        "Most of it is the stage '{name}': {} in the median ({} of {}). It took {} to {} from the start of the first process \
         until all were ready; nothing of this is in the times of messages unless components start as a storm.",
        time(median),
        driven.transport(),
        driven.part.name,
        time(ready.iter().copied().min().unwrap_or(0) as f64),
        time(ready.iter().copied().max().unwrap_or(0) as f64),
    );
    Answer::new(question, Confidence::Sure, text).with(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::periodic::testing::{build, row};
    use crate::{Logs, summarise_with};
    use msgpath_stats::quantile::Range;

    /// The page of one run named `barrier`.
    fn said((run, logs): &(msgpath_record::Run, Logs)) -> Page {
        let summary = summarise_with(run, logs);
        page(&[Part { name: "barrier", run, summary: &summary, logs }])
    }

    fn answer<'a>(page: &'a Page, question: &str) -> &'a Answer {
        page.answers.iter().find(|answer| answer.question.contains(question)).expect(question)
    }

    #[test]
    fn one_start_is_likely_and_never_sure() {
        let page = said(&build(|_| ()));
        let answer = answer(&page, "What is the start");
        assert_eq!(answer.confidence, Confidence::Likely);
        assert!(answer.text.contains("5.9") && answer.text.contains("too few for an interval"), "{}", answer.text);
    }

    #[test]
    fn many_starts_that_agree_are_sure_and_many_that_do_not_cannot_tell() {
        let starts = |factor: fn(u32) -> u64| {
            let (mut run, logs) = build(|_| ());
            run.header.plan.restarts = 10;
            for (at, round) in run.rounds.iter_mut().enumerate() {
                round.restart = at as u32;
                let mut first = Histogram::new();
                (0..100).for_each(|n| first.record(22_000 * factor(at as u32) / 100 + n));
                round.first = first.to_sparse();
            }
            (run, logs)
        };
        let slow = said(&starts(|at| 300 + u64::from(at)));
        let found = answer(&slow, "What is the start");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.contains("slower: 3.0") && found.text.contains("10 starts"), "{}", found.text);
        let mixed = said(&starts(|at| if at % 2 == 0 { 60 } else { 170 }));
        let found = answer(&mixed, "What is the start");
        assert_eq!(found.confidence, Confidence::CantTell, "{}", found.text);
        assert!(found.text.contains("does not tell them"), "{}", found.text);
        let same = said(&starts(|at| 50 + u64::from(at % 3)));
        assert!(answer(&same, "What is the start").text.contains("are not slower"));
    }

    #[test]
    fn high_delays_at_the_start_are_named_only_where_they_are() {
        let rows = |slow: fn(u64) -> bool| {
            let (run, mut logs) = build(|_| ());
            logs.periodic = (0..300)
                .flat_map(|n| (0..4).map(move |sender| (sender, n)))
                .map(|(sender, n)| row(0, sender, n, n * 10_000_000, if slow(n) { 9_000_000 } else { 20_000 + n }))
                .collect();
            said(&(run, logs))
        };
        let early = rows(|n| n < 3);
        let found = answer(&early, "high delays");
        assert!(found.text.contains("In 1 of 1") && found.text.contains("100 % against 16.7 %"), "{}", found.text);
        let late = rows(|n| n > 290);
        assert!(answer(&late, "high delays").text.contains("In none of 1"));
        assert!(answer(&said(&build(|_| ())), "high delays").text.starts_with("cannot be answered"));
    }

    #[test]
    fn one_engine_does_not_say_which_is_faster() {
        assert!(
            answer(&said(&build(|_| ())), "which is faster").text.contains("one of the two engines was not measured")
        );
    }

    #[test]
    fn medians_without_ranges_that_lie_apart_name_no_winner() {
        let (run, logs) = build(|_| ());
        let summary = summarise_with(&run, &logs);
        let part = Part { name: "barrier", run: &run, summary: &summary, logs: &logs };
        let all = engines(std::slice::from_ref(&part));
        let case = |transport: &str, ns: u64, range: Option<(u64, u64)>, claim: bool| {
            let mut case = all[0].case.clone();
            case.case.path.transport = transport.into();
            let median = case.quantiles.iter_mut().find(|quantile| quantile.p == 0.5).unwrap();
            (median.ns, median.range) = (Some(ns), if claim { Range::Interval } else { Range::Levels });
            (median.lo_ns, median.hi_ns) = (range.map(|range| range.0), range.map(|range| range.1));
            case
        };
        let said = |shm: CaseSummary| {
            let eth = case("eth", 22_000, Some((21_000, 23_000)), true);
            let driven = |case| Driven { part, case, engine: all[0].engine };
            let answer = faster(&[driven(&eth), driven(&shm)]);
            (answer.confidence, answer.text.contains("times as fast"))
        };
        assert_eq!(said(case("shm", 20_000, None, false)), (Confidence::CantTell, false));
        assert_eq!(said(case("shm", 20_000, Some((15_000, 30_000)), false)), (Confidence::CantTell, false));
        assert_eq!(said(case("shm", 18_000, Some((17_000, 19_000)), false)), (Confidence::Likely, true));
        assert_eq!(said(case("shm", 18_000, Some((17_000, 19_000)), true)), (Confidence::Sure, true));
    }

    #[test]
    fn deadlines_are_counted() {
        let page = said(&build(|facts| facts.sessions[0].components[0].missed = 7));
        assert!(
            answer(&page, "periods kept")
                .text
                .starts_with("In none: barrier eth (0 made late, 7 delivered late, 0 lost")
        );
        assert!(answer(&said(&build(|_| ())), "periods kept").text.starts_with("All 1"));
    }

    #[test]
    fn the_first_authentication_is_cold_only_where_it_is() {
        let macs = |calls: &'static [u64]| {
            said(&build(|facts| {
                facts.sessions = (0..2).map(|_| facts.sessions[0].clone()).collect();
                for component in facts.sessions.iter_mut().flat_map(|session| &mut session.components) {
                    component.mac_calls = calls.to_vec();
                }
            }))
        };
        let cold = macs(&[50_000, 1_000, 1_000, 1_000]);
        let found = answer(&cold, "authentication");
        assert_eq!(found.confidence, Confidence::Sure);
        assert!(found.text.contains("50.00 times as long") && found.text.contains("8 processes"), "{}", found.text);
        let none = said(&build(|_| ()));
        assert!(answer(&none, "authentication").text.starts_with("cannot be answered"));
    }

    #[test]
    fn a_run_of_another_kind_has_no_page() {
        let run = crate::testing::Build::echo(&["tcp:send"], &[64]).run();
        let logs = Logs::default();
        let summary = summarise_with(&run, &logs);
        assert_eq!(page(&[Part { name: "a", run: &run, summary: &summary, logs: &logs }]), Page::default());
    }
}
