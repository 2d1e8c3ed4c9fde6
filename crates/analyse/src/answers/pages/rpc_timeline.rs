//! The page of the preset `rpc-timeline`: where each call's time went, by its four stamps.

use msgpath_core::schema::{RpcFacts, RpcRow};
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::describe::median;
use msgpath_stats::distributions::binomial_inverse;
use msgpath_stats::estimate::log_estimate;
use msgpath_stats::quantile::Quantile;

use super::vehicles::median_words;
use crate::answers::{Answer, Cell, Page, Part, Table, part};
use crate::rpc::{RpcBand, RpcKind, RpcStage, RpcSummary};
use crate::summary::Confidence;

/// A wait for the lock that is one, ns: less is the taking of a free lock.
const WAITED: u64 = 1_000;
/// Findings that name a stall of a known length.
const STALLS: [&str; 2] = ["W40", "W75"];
/// The parts of a call, in the order of time.
const STAGES: [RpcStage; 6] = [
    RpcStage::ClientSend,
    RpcStage::RequestPath,
    RpcStage::ServerWait,
    RpcStage::LockWait,
    RpcStage::ServerWork,
    RpcStage::ReplyPath,
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let calls: Vec<Calls<'_>> = parts.iter().filter_map(Calls::of).collect();
    if calls.is_empty() {
        return Page::default();
    }
    Page {
        tables: vec![kinds(&calls), split(&calls), each(&calls)],
        answers: vec![
            where_it_went(&calls),
            estimates(&calls),
            first_calls(&calls),
            four_clients(parts),
            lock(&calls),
            stalls(&calls),
            clocks(&calls),
        ],
        ..Page::default()
    }
}

/// A run of calls.
struct Calls<'a> {
    part: Part<'a>,
    facts: &'a RpcFacts,
    rpc: &'a RpcSummary,
}

/// One call by the client's clock, ns.
struct Split {
    request: f64,
    wait: f64,
    lock: f64,
    work: f64,
    reply: f64,
}

impl<'a> Calls<'a> {
    fn of(part: &Part<'a>) -> Option<Self> {
        let (facts, rpc) = (part.run.header.rpc.as_ref()?, part.summary.rpc.as_ref()?);
        Some(Self { part: *part, facts, rpc })
    }

    fn rows(&self, kind: &RpcKind) -> impl Iterator<Item = &'a RpcRow> {
        let case = kind.case;
        self.part.logs.rpcs.iter().filter(move |row| row.case == case)
    }

    /// The parts of a call; `None`: no stamps of the server, or stamps that contradict the client's.
    fn split(&self, row: &RpcRow) -> Option<Split> {
        let (received, replied, _) = self.rpc.clocks.get(row.pair as usize)?.aligned(row)?;
        let served = replied - received;
        let lock = (row.lock_ns.unwrap_or(0) as f64).min(served);
        let wait = (row.waited_ns.unwrap_or(0) as f64).min(received);
        let reply = row.latency_ns? as f64 - replied;
        let split = Split { request: received - wait, wait, lock, work: served - lock, reply };
        [split.request, split.wait, split.work, split.reply].iter().all(|ns| *ns >= 0.0).then_some(split)
    }

    /// Time of the bytes of a call on the wire, ns; 0 where there is none, and that is known.
    fn wire(&self, row: &RpcRow) -> f64 {
        let bits = self.facts.wire.as_ref().map_or(0, |(bits, _)| *bits);
        if bits == 0 { 0.0 } else { (row.request_bytes + row.reply_bytes) as f64 * 8e9 / bits as f64 }
    }

    /// What is left of a call without the server's time and the wire, ns.
    fn slop(&self, row: &RpcRow) -> Option<f64> {
        let served = row.replied_ns?.checked_sub(row.received_ns?)?;
        Some(row.latency_ns? as f64 - served as f64 - self.wire(row))
    }

    fn median(&self, kind: &RpcKind) -> Option<&'a Quantile> {
        let case = self.part.summary.cases.iter().find(|case| case.case.id == kind.case)?;
        case.quantiles.iter().find(|quantile| quantile.p == 0.5)
    }

    fn heads(&self, kind: &RpcKind) -> [Cell; 2] {
        [Cell::text(self.part.name), Cell::text(&kind.method)]
    }

    fn name(&self, kind: &RpcKind) -> String {
        format!("{} of {}", kind.method, self.part.name)
    }
}

/// Names of the parts as they are counted for one call.
const LEGS: [&str; 5] = ["request path", "server wait", "lock wait", "server work", "reply path"];

impl Split {
    fn legs(&self) -> [f64; 5] {
        [self.request, self.wait, self.lock, self.work, self.reply]
    }
}

fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}

fn ns(ns: Option<f64>, why: &str) -> Cell {
    Cell::or_missing(ns, Cell::Time, why)
}

fn every<'a, 'b>(calls: &'b [Calls<'a>]) -> impl Iterator<Item = (&'b Calls<'a>, &'a RpcKind)> {
    calls.iter().flat_map(|one| one.rpc.kinds.iter().map(move |kind| (one, kind)))
}

fn kinds(calls: &[Calls<'_>]) -> Table {
    let mut table = Table::new(
        "kinds",
        "Calls of each kind: T4 - T1, and what is left without the server and the wire (slop)",
        &[
            "run",
            "call",
            "calls",
            "request",
            "reply",
            "estimate",
            "p50",
            "slowest",
            "first",
            "later p50",
            "wire",
            "slop p50",
        ],
    );
    for (one, kind) in every(calls) {
        let slops: Vec<f64> = one.rows(kind).filter_map(|row| one.slop(row)).collect();
        let wires: Vec<f64> = one.rows(kind).map(|row| one.wire(row)).collect();
        let wire = if one.facts.wire.is_some() { Some(median(&wires)) } else { None };
        let slowest = one.rows(kind).filter_map(|row| row.latency_ns).max();
        let first: Vec<f64> = kind.first_ns.iter().map(|ns| *ns as f64).collect();
        let cells = [
            Cell::count(kind.calls),
            Cell::size(kind.request_bytes as u64),
            Cell::size(kind.reply_bytes as u64),
            ns(kind.expected.map(|expected| expected.estimate_ns), "no estimate was typed"),
            Cell::or_missing(one.median(kind), Cell::Time, "no call was answered"),
            ns(slowest.map(|ns| ns as f64), "no call was answered"),
            ns((!first.is_empty()).then(|| median(&first)), "no call was answered"),
            ns(kind.later_p50_ns.map(|ns| ns as f64), "one call only"),
            ns(wire, "no wire: both ends are on one machine, or its speed is not known"),
            ns((!slops.is_empty()).then(|| median(&slops)), "the server gives no stamps"),
        ];
        table.row(one.heads(kind).into_iter().chain(cells));
    }
    table.note(
        "Slop = (T4 - T1) - (T3 - T2) - time of the bytes on the wire, of each call; where there is no wire that time is 0. The \
         timeline of every call is in the report.html of each run's folder (-o DIR).",
    )
}

fn split(calls: &[Calls<'_>]) -> Table {
    let columns: Vec<&str> = ["run", "call"]
        .into_iter()
        .chain(STAGES.iter().map(|stage| stage.name()))
        .chain([RpcStage::BothPaths.name(), "mean T4 - T1"])
        .collect();
    let mut table = Table::new("split", "Where the time of each kind went, mean of all calls", &columns);
    for (one, kind) in every(calls) {
        let why = kind.bands_why.clone().unwrap_or_default();
        let band: Option<&RpcBand> = kind.bands.iter().find(|band| band.name == "all");
        let of = |stage: RpcStage| {
            let found = band.and_then(|band| band.parts.iter().find(|part| part.stage == stage)).map(|part| part.ns);
            ns(found, if why.is_empty() { "not told apart here" } else { &why })
        };
        let stages = STAGES.into_iter().chain([RpcStage::BothPaths]).map(of);
        let sum = ns(band.map(|band| band.latency_ns), &why);
        table.row(one.heads(kind).into_iter().chain(stages).chain([sum]));
    }
    table
}

/// Every call.
fn each(calls: &[Calls<'_>]) -> Table {
    let mut table = Table::new(
        "calls",
        "Every call by the client's clock",
        &[
            "run",
            "call",
            "id",
            "connection",
            "T1",
            "T1 to T2",
            "T2 to T3",
            "T3 to T4",
            "T4 - T1",
            "server wait",
            "lock wait",
            "slop",
            "status",
        ],
    );
    for (one, kind) in every(calls) {
        let mut rows: Vec<&RpcRow> = one.rows(kind).collect();
        rows.sort_by_key(|row| (row.start_ns, row.connection));
        for row in rows {
            let split = one.split(row);
            let leg = |of: fn(&Split) -> f64| ns(split.as_ref().map(of), "no stamps of the server that fit");
            let cells = [
                Cell::count(row.rpcid.into()),
                Cell::count(row.connection.into()),
                Cell::Time((row.start_ns as f64).into()),
                leg(|split| split.request + split.wait),
                leg(|split| split.work + split.lock),
                leg(|split| split.reply),
                ns(row.latency_ns.map(|ns| ns as f64), "no reply"),
                ns(row.waited_ns.map(|ns| ns as f64), "not told"),
                ns(row.lock_ns.map(|ns| ns as f64), "not told"),
                ns(one.slop(row), "no stamps of the server"),
                match (row.latency_ns, row.status) {
                    (None, _) => Cell::text("no reply"),
                    (_, 0) => Cell::text("ok"),
                    (_, status) => Cell::text(format!("status {status}")),
                },
            ];
            table.row(one.heads(kind).into_iter().chain(cells));
        }
    }
    table
}

fn where_it_went(calls: &[Calls<'_>]) -> Answer {
    let question = "Where did each call's time go?";
    let mut table = Table::new(
        "largest",
        "The largest part of each call, counted",
        &["run", "call", "calls", "largest in", LEGS[0], LEGS[1], LEGS[2], LEGS[3], LEGS[4]],
    );
    // Sentences for each kind; all of them together may be wrong once in twenty times.
    let family = every(calls).count().max(1) as f64;
    let (mut texts, mut all_sure, mut some) = (Vec::new(), true, false);
    for (one, kind) in every(calls) {
        let mut largest = [0_u64; 5];
        let (mut sums, mut count) = ([0.0; 5], 0_u64);
        for split in one.rows(kind).filter_map(|row| one.split(row)) {
            let legs = split.legs();
            let at = (0..5).max_by(|a, b| legs[*a].total_cmp(&legs[*b])).unwrap_or(0);
            largest[at] += 1;
            count += 1;
            sums.iter_mut().zip(legs).for_each(|(sum, leg)| *sum += leg);
        }
        let sum: f64 = sums.iter().sum();
        let Some(at) = (0..5).max_by_key(|at| largest[*at]).filter(|_| count > 0 && sum > 0.0) else { continue };
        some = true;
        // The part is the largest in more than half of such calls, unless chance alone reaches this count.
        let sure = largest[at] > binomial_inverse(1.0 - 0.025 / family, count, 0.5);
        all_sure &= sure;
        // A few long calls may have another part for the largest of their sum.
        let most = (0..5).max_by(|a, b| sums[*a].total_cmp(&sums[*b])).unwrap_or(at);
        let percent = |leg: usize| three_digits(sums[leg] / sum * 100.0);
        let other = match most == at {
            true => String::new(),
            false => format!("; the {} has {} %, by fewer and longer calls", LEGS[most], percent(most)),
        };
        texts.push(format!(
            "{}: {} % {}, the largest part in {} of {count}{}{other}",
            one.name(kind),
            percent(at),
            LEGS[at],
            largest[at],
            if sure { "" } else { ", which is too few to say that it usually is" },
        ));
        let shares = sums.map(|leg| Cell::Share((leg / sum).into()));
        let counts = [Cell::count(count), Cell::count(largest[at])];
        table.row(one.heads(kind).into_iter().chain(counts).chain(shares));
    }
    if !some {
        return Answer::cannot(question, "the server gives no stamps").next("msgpath serve --rpc");
    }
    let confidence = if all_sure { Confidence::Sure } else { Confidence::Likely };
    Answer::new(question, confidence, texts.join(". ") + ".").with(table).next("msgpath report @last")
}

fn estimates(calls: &[Calls<'_>]) -> Answer {
    let question = "How far was the estimate?";
    let (mut texts, mut confidence) = (Vec::new(), Confidence::Sure);
    for (one, kind) in every(calls) {
        let (Some(expected), Some(measured)) = (kind.expected, one.median(kind)) else { continue };
        let interval = measured.lo_ns.zip(measured.hi_ns).filter(|_| measured.is_interval());
        let excluded =
            interval.map(|(low, high)| expected.estimate_ns < low as f64 || expected.estimate_ns > high as f64);
        confidence = match (excluded, confidence) {
            (Some(true), confidence) => confidence,
            (Some(false), _) => Confidence::CantTell,
            (None, Confidence::Sure) => Confidence::Likely,
            (None, confidence) => confidence,
        };
        let verdict = match excluded {
            Some(false) => "which the interval contains".to_owned(),
            _ if expected.factor >= 1.0 => format!("{} times as long", three_digits(expected.factor)),
            _ => format!("{} times shorter", three_digits(1.0 / expected.factor)),
        };
        // Where the time goes is another question, answered from all calls.
        texts.push(format!(
            "{}: estimated {}, measured {}, {verdict}",
            one.name(kind),
            time(expected.estimate_ns),
            median_words(measured),
        ));
    }
    if texts.is_empty() {
        return Answer::cannot(question, "no estimate was typed").next("msgpath rpc ... --expect 10us");
    }
    Answer::new(question, confidence, texts.join(". ") + ".")
}

fn first_calls(calls: &[Calls<'_>]) -> Answer {
    let question = "Is the first call slower than the later ones?";
    let mut methods: Vec<&str> = Vec::new();
    for (_, kind) in every(calls) {
        if !methods.contains(&kind.method.as_str()) {
            methods.push(&kind.method);
        }
    }
    let (mut texts, mut confidence) = (Vec::new(), Confidence::Sure);
    for method in methods {
        let own = every(calls).filter(|(_, kind)| kind.method == method);
        let ratios: Vec<f64> = own
            .flat_map(|(_, kind)| {
                let later = kind.later_p50_ns.filter(|later| *later > 0);
                kind.first_ns.iter().filter_map(move |first| Some(*first as f64 / later? as f64))
            })
            .collect();
        let Some(ratio) = log_estimate(&ratios) else { continue };
        let (verdict, own) = match ratio.low.zip(ratio.high) {
            Some((low, high)) if low > 1.0 => {
                (format!("yes: {:.2} times (95 %: {low:.2} to {high:.2})", ratio.value), Confidence::Sure)
            }
            Some((low, high)) if high < 1.0 => {
                (format!("no: {:.2} times (95 %: {low:.2} to {high:.2})", ratio.value), Confidence::Sure)
            }
            Some((low, high)) => {
                (format!("not shown: {:.2} times (95 %: {low:.2} to {high:.2})", ratio.value), Confidence::CantTell)
            }
            None => (format!("{:.2} times; too few connections for an interval", ratio.value), Confidence::CantTell),
        };
        if own == Confidence::CantTell {
            confidence = own;
        }
        let calls = if ratios.len() == 1 { "1 first call".into() } else { format!("{} first calls", ratios.len()) };
        texts.push(format!("{method}: {verdict}, {calls} over the median of the later ones"));
    }
    match texts.is_empty() {
        true => Answer::cannot(question, "no kind has a first and a later call"),
        false => Answer::new(question, confidence, texts.join(". ") + "."),
    }
}

fn four_clients(parts: &[Part<'_>]) -> Answer {
    let question = "What do four clients change?";
    let run = |name| part(parts, name).as_ref().and_then(Calls::of);
    let (Some(alone), Some(four)) = (run("alone"), run("four")) else {
        return Answer::cannot(question, "one of the runs alone and four is missing");
    };
    let mut table =
        Table::new("clients", "Medians of one client and of four", &["call", "one client", "four clients", "ratio"]);
    let (mut texts, mut confidence) = (Vec::new(), Confidence::Sure);
    for kind in &alone.rpc.kinds {
        let Some(other) = four.rpc.kinds.iter().find(|other| other.method == kind.method) else { continue };
        let (Some(one), Some(many)) = (alone.median(kind), four.median(other)) else { continue };
        let (Some(one_ns), Some(many_ns)) = (one.ns, many.ns) else { continue };
        let interval = |quantile: &Quantile| quantile.lo_ns.zip(quantile.hi_ns).filter(|_| quantile.is_interval());
        let ratio = many_ns as f64 / one_ns.max(1) as f64;
        let (verdict, own) = match interval(one).zip(interval(many)) {
            Some((one, many)) if many.0 > one.1 => (format!("{ratio:.2} times as long"), Confidence::Sure),
            Some((one, many)) if many.1 < one.0 => (format!("{ratio:.2} times as long"), Confidence::Sure),
            Some(_) => ("no difference shown, the intervals overlap".to_owned(), Confidence::CantTell),
            None => (format!("{ratio:.2} times as long, but too few calls for an interval"), Confidence::CantTell),
        };
        confidence = match (confidence, own) {
            (Confidence::CantTell, _) | (_, Confidence::CantTell) => Confidence::CantTell,
            (Confidence::Likely, _) | (_, Confidence::Likely) => Confidence::Likely,
            _ => Confidence::Sure,
        };
        texts.push(format!("{}: {verdict} ({} against {})", kind.method, time(many_ns as f64), time(one_ns as f64)));
        table.row([
            Cell::text(&kind.method),
            Cell::Time(one.into()),
            Cell::Time(many.into()),
            Cell::Ratio(ratio.into()),
        ]);
    }
    match texts.is_empty() {
        true => Answer::cannot(question, "the two runs have no kind of call in common"),
        false => Answer::new(question, confidence, texts.join(". ") + ".").with(table),
    }
}

fn lock(calls: &[Calls<'_>]) -> Answer {
    let question = "How much is waiting for the server's lock?";
    let mut table = Table::new(
        "lock",
        "Calls that waited for the store's lock for at least 1 µs",
        &["run", "call", "calls", "waited", "longest wait", "wait, all calls", "of their time"],
    );
    let (mut told, mut waited, mut texts) = (0, 0, Vec::new());
    for (one, kind) in every(calls) {
        let locks: Vec<u64> = one.rows(kind).filter_map(|row| row.lock_ns).collect();
        if locks.is_empty() {
            continue;
        }
        let total: u64 = locks.iter().sum();
        let time_of_all =
            one.rows(kind).filter(|row| row.lock_ns.is_some()).filter_map(|row| row.latency_ns).sum::<u64>();
        let those = locks.iter().filter(|ns| **ns >= WAITED).count() as u64;
        let share = total as f64 / time_of_all.max(1) as f64;
        told += locks.len() as u64;
        waited += those;
        let cells = [
            Cell::count(locks.len() as u64),
            Cell::count(those),
            Cell::Time((locks.iter().copied().max().unwrap_or(0) as f64).into()),
            Cell::Time((total as f64).into()),
            Cell::Share(share.into()),
        ];
        table.row(one.heads(kind).into_iter().chain(cells));
        if those > 0 {
            texts.push(format!(
                "{}: {those} of {} calls, {} % of their time",
                one.name(kind),
                locks.len(),
                three_digits(share * 100.0)
            ));
        }
    }
    if told == 0 {
        return Answer::cannot(question, "the server does not tell how long it waited for its lock")
            .next("msgpath rpc here ...");
    }
    // Told by the server for every call: counted, not estimated.
    let text = match waited {
        0 => format!("Nothing: none of {told} calls waited for it."),
        _ => format!("{waited} of {told} calls waited for it. {}. A ping does not take it.", texts.join(". ")),
    };
    Answer::new(question, Confidence::Sure, text).with(table)
}

fn stalls(calls: &[Calls<'_>]) -> Answer {
    let question = "Are there stalls of a known length?";
    let mut texts = Vec::new();
    let mut confidence = Confidence::Likely;
    for one in calls {
        for finding in one.part.summary.findings.iter().filter(|finding| STALLS.contains(&finding.code.as_str())) {
            texts.push(format!("{}: {}", one.part.name, finding.text));
            if finding.confidence == Confidence::CantTell {
                confidence = Confidence::CantTell;
            }
        }
    }
    let all: u64 = every(calls).map(|(_, kind)| kind.calls).sum();
    let slowest = every(calls).flat_map(|(one, kind)| one.rows(kind)).filter_map(|row| row.latency_ns).max();
    match (texts.is_empty(), slowest) {
        (_, None) => Answer::cannot(question, "no call was answered"),
        (true, Some(slowest)) => Answer::new(
            question,
            Confidence::Likely,
            format!(
                "None: no group of the {all} calls lies at a timer of the system or of TCP (1, 4, 40 and 200 ms); the slowest \
                 took {}.",
                time(slowest as f64)
            ),
        ),
        (false, _) => Answer::new(question, confidence, texts.join(" ")),
    }
}

fn clocks(calls: &[Calls<'_>]) -> Answer {
    let question = "How do the clocks of client and server stand to each other?";
    let mut table =
        Table::new("clocks", "The clocks", &["run", "client", "server", "offset", "within", "what was found"]);
    let (mut same, mut aligned, mut unknown) = (0, 0, 0);
    for one in calls {
        for (clock, pair) in one.rpc.clocks.iter().zip(&one.facts.pairs) {
            let piece = clock.pieces.first();
            let (offset, within) = match (clock.same, piece) {
                (true, _) => (Cell::Time(0.0.into()), Cell::Time(0.0.into())),
                (false, Some(piece)) => (Cell::Time(piece.offset_ns.into()), Cell::Time(piece.within_ns.into())),
                (false, None) => (Cell::missing("not aligned"), Cell::missing("not aligned")),
            };
            match (clock.same, piece) {
                (true, _) => same += 1,
                (false, Some(_)) => aligned += 1,
                (false, None) => unknown += 1,
            }
            let what = if clock.text.is_empty() { "nothing is known" } else { &clock.text };
            table.row([
                Cell::text(one.part.name),
                Cell::text(&pair.client),
                Cell::text(&pair.server),
                offset,
                within,
                Cell::text(what),
            ]);
        }
    }
    let (confidence, text) = match (same, aligned, unknown) {
        (0, 0, _) => return Answer::cannot(question, "no call has the stamps of both ends").with(table),
        (_, 0, 0) => (
            Confidence::Sure,
            format!(
                "They are one clock in all {same} runs, so request and reply path are measured apart, without a bound."
            ),
        ),
        (_, _, 0) => (
            Confidence::Sure,
            format!("{same} pairs share a clock; {aligned} were aligned, each with the bound in its row."),
        ),
        _ => {
            (Confidence::Likely, format!("{same} pairs share a clock, {aligned} were aligned, {unknown} could not be."))
        }
    };
    Answer::new(question, confidence, text).with(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summarise_with;
    use crate::testing_rpc::{Calls as Made, MS, US};

    /// Calls with a server that works `work` of about 200 µs and waits for its lock for `lock`.
    fn made(work: fn(u32) -> f64, lock: u64) -> Made {
        made_of(60, work, lock)
    }

    fn made_of(calls_made: u32, work: impl Fn(u32) -> f64, lock: u64) -> Made {
        let mut calls = Made::with(1, 1, |_| 0.0).same_machine();
        for at in 0..calls_made {
            let row = calls.call(MS, 100.0 * US, work(at), 80.0 * US);
            (row.waited_ns, row.lock_ns) = (Some(10_000), Some(lock));
            row.connection = at % 4;
        }
        calls
    }

    fn said(named: &[(&str, &Made)]) -> Page {
        let runs: Vec<_> = named.iter().map(|(name, calls)| (*name, calls.run(&["ping"], 10))).collect();
        let summaries: Vec<_> = runs.iter().map(|(_, (run, logs))| summarise_with(run, logs)).collect();
        let parts: Vec<Part<'_>> = runs
            .iter()
            .zip(&summaries)
            .map(|((name, (run, logs)), summary)| Part { name, run, summary, logs })
            .collect();
        page(&parts)
    }

    fn answer<'a>(page: &'a Page, question: &str) -> &'a Answer {
        page.answers.iter().find(|answer| answer.question.contains(question)).expect(question)
    }

    #[test]
    fn one_answer_says_where_the_time_goes() {
        let mut calls = made(|_| 300.0 * US, 0);
        calls.facts.expect.insert(0, 10_000);
        let page = said(&[("alone", &calls)]);
        let estimate = &answer(&page, "How far was the estimate").text;
        assert!(estimate.contains("estimated 10"), "{estimate}");
        assert!(LEGS.iter().all(|leg| !estimate.contains(leg)), "a second statement of another statistic: {estimate}");
    }

    #[test]
    fn the_largest_part_is_sure_where_every_call_agrees() {
        let page = said(&[("alone", &made(|_| 300.0 * US, 0))]);
        let found = answer(&page, "Where did each");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.contains("% server work, the largest part in 60 of 60"), "{}", found.text);
        // Half of the calls have it elsewhere.
        let page = said(&[("alone", &made(|at| if at % 2 == 0 { 95.0 * US } else { 20.0 * US }, 0))]);
        let found = answer(&page, "Where did each");
        assert_eq!(found.confidence, Confidence::Likely, "{}", found.text);
        assert!(found.text.contains("too few to say"), "{}", found.text);
    }

    #[test]
    fn waits_for_the_lock_are_counted() {
        let none = said(&[("four", &made(|_| 200.0 * US, 0))]);
        assert!(answer(&none, "lock").text.starts_with("Nothing: none of 60"), "{}", answer(&none, "lock").text);
        let some = said(&[("lock", &made(|_| 200.0 * US, 50_000))]);
        assert!(
            answer(&some, "lock").text.contains("ping of lock: 60 of 60 calls, 13.2 %"),
            "{}",
            answer(&some, "lock").text
        );
    }

    #[test]
    fn one_client_and_four_are_compared_by_their_intervals() {
        // Calls that differ by chance.
        let chance = |at: u32| f64::from(at * 7_919 % 101) / 10.0;
        let (one, four) =
            (made_of(600, |at| (200.0 + chance(at)) * US, 0), made_of(600, |at| (900.0 + chance(at)) * US, 0));
        let page = said(&[("alone", &one), ("four", &four)]);
        let found = answer(&page, "four clients");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.starts_with("ping: 2.8"), "{}", found.text);
        let page = said(&[("alone", &one), ("four", &one)]);
        assert_eq!(answer(&page, "four clients").confidence, Confidence::CantTell);
        assert!(answer(&said(&[("alone", &one)]), "four clients").text.contains("is missing"));
        let few = said(&[("alone", &made(|_| 200.0 * US, 0)), ("four", &made(|_| 900.0 * US, 0))]);
        assert_eq!(answer(&few, "four clients").confidence, Confidence::CantTell);
    }

    #[test]
    fn first_calls_need_connections() {
        let mut calls = made(|_| 200.0 * US, 0);
        for row in calls.rows.iter_mut().take(4) {
            *row.latency_ns.as_mut().unwrap() *= 10;
        }
        let few = said(&[("four", &calls)]);
        assert_eq!(answer(&few, "first call").confidence, Confidence::CantTell, "{}", answer(&few, "first call").text);
        let more = said(&[("alone", &calls), ("four", &calls)]);
        let found = answer(&more, "first call");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.starts_with("ping: yes: 10.0"), "{}", found.text);
    }

    #[test]
    fn slop_is_what_the_server_and_the_wire_leave() {
        let mut calls = made(|_| 200.0 * US, 0);
        calls.facts.wire = Some((1_000_000_000, "--wire".into()));
        let page = said(&[("alone", &calls)]);
        let table = &page.tables[2];
        let Cell::Time(slop) = &table.rows[0][11] else { panic!("{:?}", table.rows[0]) };
        // 380 µs, less 200 µs of the server, less 304 bytes at 1 Gbit/s.
        assert!((slop.value - (180_000.0 - 304.0 * 8.0)).abs() < 10.0, "{slop:?}");
        assert_eq!((table.rows.len(), page.tables[0].rows.len()), (60, 1));
        assert!(answer(&page, "clocks").text.contains("one clock in all 1 runs"));
        assert!(answer(&page, "estimate").text.starts_with("cannot be answered"));
    }
}
