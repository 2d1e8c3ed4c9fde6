//! The page of the preset `rpc-timeline`: where each call's time went, by its four stamps.

use msgpath_analyse::summary::Confidence;
use msgpath_calls::analyse::{ClockPiece, PairClock, RpcKind, RpcStage, RpcSummary};
use msgpath_calls::log::log;
use msgpath_calls::record::{RpcFacts, RpcRow};
use msgpath_core::units::{range, three_digits};
use msgpath_stats::describe::median;
use msgpath_stats::distributions::binomial_inverse;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::quantile::Quantile;

use crate::answers::answered::{Answered, Cannot, answers, likely, say, sure, sure_if};
use crate::answers::columns::{Columns, ns_or, table, time_or};
use crate::answers::evidence::{beside_one, claim, p50};
use crate::answers::words::{counted, quantile_words, time, weakest};
use crate::answers::{Cell, Page, Part, Table};

/// A wait for the lock that is one, ns: less is the taking of a free lock.
const WAITED: u64 = 1_000;
/// The finding that names a stall of a known length.
const STALL: &str = "W40";
/// The parts of a call, in the order of time, and the one where two cannot be told apart.
const STAGES: [RpcStage; 7] = [
    RpcStage::ClientSend,
    RpcStage::RequestPath,
    RpcStage::ServerWait,
    RpcStage::LockWait,
    RpcStage::ServerWork,
    RpcStage::ReplyPath,
    RpcStage::BothPaths,
];
/// The parts that are counted for one call.
const LEGS: [&str; 5] = ["request path", "server wait", "lock wait", "server work", "reply path"];

type Ask = fn(&[Calls<'_>]) -> Answered;
const QUESTIONS: &[(&str, Ask)] = &[
    ("Where did each call's time go?", where_it_went),
    ("How far was the estimate?", estimates),
    ("Is the first call slower than the later ones?", first_calls),
    ("What do four clients change?", four_clients),
    ("How much is waiting for the server's lock?", lock),
    ("Are there stalls of a known length?", stalls),
    ("How do the clocks of client and server stand to each other?", clocks),
];

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let calls: Vec<Calls<'_>> = parts.iter().filter_map(Calls::of).collect();
    if calls.is_empty() {
        return Page::default();
    }
    let tables = vec![kinds(&calls), split(&calls), each(&calls)];
    Page { tables, answers: answers(&calls[..], QUESTIONS), ..Page::default() }
}

/// A run of calls.
struct Calls<'a> {
    part: Part<'a>,
    facts: &'a RpcFacts,
    rpc: &'a RpcSummary,
}

/// One call by the client's clock, ns: how long each of [`LEGS`] took.
type Split = [f64; 5];

impl<'a> Calls<'a> {
    fn of(part: &Part<'a>) -> Option<Self> {
        let (facts, rpc) = (part.run.header.parts.get::<RpcFacts>()?, part.summary.sections.get::<RpcSummary>()?);
        Some(Self { part: *part, facts, rpc })
    }
}

/// The calls of one kind in one run.
#[derive(Clone, Copy)]
struct Kind<'a, 'b> {
    one: &'b Calls<'a>,
    kind: &'a RpcKind,
}

fn every<'a, 'b>(calls: &'b [Calls<'a>]) -> impl Iterator<Item = Kind<'a, 'b>> {
    calls.iter().flat_map(|one| one.rpc.kinds.iter().map(move |kind| Kind { one, kind }))
}

impl<'a, 'b> Kind<'a, 'b> {
    fn rows(&self) -> impl Iterator<Item = &'a RpcRow> + use<'a> {
        let case = self.kind.case;
        log(self.one.part.logs).sample().iter().filter(move |row| row.case == case)
    }

    /// The parts of a call; `None`: no stamps of the server, or stamps that contradict the client's.
    fn split(&self, row: &RpcRow) -> Option<Split> {
        let (received, replied, _) = self.one.rpc.clocks.get(row.pair as usize)?.aligned(row)?;
        let served = replied - received;
        let lock = (row.lock_ns.unwrap_or(0) as f64).min(served);
        let wait = (row.waited_ns.unwrap_or(0) as f64).min(received);
        let split = [received - wait, wait, lock, served - lock, row.latency_ns? as f64 - replied];
        [0, 1, 3, 4].iter().all(|leg: &usize| split[*leg] >= 0.0).then_some(split)
    }

    /// Time of the bytes of a call on the wire, ns; 0 where there is none, and that is known.
    fn wire(&self, row: &RpcRow) -> f64 {
        let bits = self.one.facts.wire.as_ref().map_or(0, |wire| wire.bits_per_s);
        if bits == 0 { 0.0 } else { (row.request_bytes + row.reply_bytes) as f64 * 8e9 / bits as f64 }
    }

    /// What is left of a call without the server's time and the wire, ns.
    fn slop(&self, row: &RpcRow) -> Option<f64> {
        let served = row.replied_ns?.checked_sub(row.received_ns?)?;
        Some(row.latency_ns? as f64 - served as f64 - self.wire(row))
    }

    fn median(&self) -> Option<&'a Quantile> {
        p50(self.one.part.summary.cases.iter().find(|case| case.case.id == self.kind.case)?)
    }

    fn name(&self) -> String {
        format!("{} of {}", self.kind.method, self.one.part.name)
    }

    /// Mean of a part over all calls of the kind, or why there is none.
    fn stage(&self, stage: RpcStage) -> Cell {
        let band = self.kind.bands.iter().find(|band| band.name == "all");
        let found = band.and_then(|band| band.parts.iter().find(|part| part.stage == stage)).map(|part| part.ns);
        time_or(found, self.kind.bands_why.as_deref().filter(|why| !why.is_empty()).unwrap_or("not told apart here"))
    }
}

/// A table whose rows belong to a kind: run and call come first.
fn of_kinds<'a: 'b, 'b, R>(name: &str, title: &str, rows: Vec<(Kind<'a, 'b>, R)>) -> Columns<(Kind<'a, 'b>, R)> {
    table(name, title, rows).col("run", |(of, _)| of.one.part.name).col("call", |(of, _)| &of.kind.method)
}

/// The median of some times.
fn middle(times: Vec<f64>) -> Option<f64> {
    (!times.is_empty()).then(|| median(&times))
}

fn length(bytes: Option<f64>) -> Cell {
    bytes.map_or_else(|| Cell::missing("no log tells how long they were"), |bytes| Cell::size(bytes as u64))
}

fn kinds(calls: &[Calls<'_>]) -> Table {
    let wire = |of: &Kind<'_, '_>| {
        of.one.facts.wire.as_ref().map(|_| median(&of.rows().map(|row| of.wire(row)).collect::<Vec<_>>()))
    };
    let title = "Calls of each kind: T4 - T1, and what is left without the server and the wire (slop)";
    of_kinds("kinds", title, every(calls).map(|of| (of, of.kind)).collect())
        .col("calls", |(_, kind)| Cell::count(kind.calls))
        .col("request", |(_, kind)| length(kind.request_bytes))
        .col("reply", |(_, kind)| length(kind.reply_bytes))
        .col("estimate", |(_, kind)| {
            time_or(kind.expected.map(|expected| expected.estimate_ns), "no estimate was typed")
        })
        .col("p50", |(of, _)| time_or(of.median(), "no call was answered"))
        .col("slowest", |(of, _)| ns_or(of.rows().filter_map(|row| row.latency_ns).max(), "no call was answered"))
        .col("first", |(_, kind)| {
            time_or(middle(kind.first_ns.iter().map(|ns| *ns as f64).collect()), "no call was answered")
        })
        .col("later p50", |(_, kind)| ns_or(kind.later_p50_ns, "one call only"))
        .col("wire", |(of, _)| time_or(wire(of), "no wire: both ends are on one machine, or its speed is not known"))
        .col("slop p50", |(of, _)| {
            time_or(middle(of.rows().filter_map(|row| of.slop(row)).collect()), "the server gives no stamps")
        })
        .note(
            "Slop = (T4 - T1) - (T3 - T2) - time of the bytes on the wire, of each call; where there is no wire that time is \
             0. The timeline of every call is in the report.html of each run's folder (-o DIR).",
        )
}

fn split(calls: &[Calls<'_>]) -> Table {
    let sum = |kind: &RpcKind| {
        let band = kind.bands.iter().find(|band| band.name == "all");
        time_or(band.map(|band| band.latency_ns), kind.bands_why.as_deref().unwrap_or_default())
    };
    let rows = every(calls).map(|of| (of, of.kind)).collect();
    of_kinds("split", "Where the time of each kind went, mean of all calls", rows)
        .cols(STAGES, |stage| stage.name().into(), |(of, _), stage| of.stage(*stage))
        .col("mean T4 - T1", |(_, kind)| sum(kind))
        .into()
}

/// Every call.
fn each(calls: &[Calls<'_>]) -> Table {
    let mut rows = Vec::new();
    for of in every(calls) {
        let mut own: Vec<&RpcRow> = of.rows().collect();
        own.sort_by_key(|row| (row.start_ns, row.connection));
        rows.extend(own.into_iter().map(|row| (of, (row, of.split(row)))));
    }
    let leg = |split: &Option<Split>, legs: &[usize]| {
        let sum = split.as_ref().map(|split| legs.iter().map(|leg| split[*leg]).sum::<f64>());
        time_or(sum, "no stamps of the server that fit")
    };
    of_kinds("calls", "Every call by the client's clock", rows)
        .col("id", |(_, (row, _))| Cell::count(row.rpcid.into()))
        .col("connection", |(_, (row, _))| Cell::count(row.connection.into()))
        .col("T1", |(_, (row, _))| Cell::Time((row.start_ns as f64).into()))
        .col("T1 to T2", |(_, (_, split))| leg(split, &[0, 1]))
        .col("T2 to T3", |(_, (_, split))| leg(split, &[3, 2]))
        .col("T3 to T4", |(_, (_, split))| leg(split, &[4]))
        .col("T4 - T1", |(_, (row, _))| ns_or(row.latency_ns, "no reply"))
        .col("server wait", |(_, (row, _))| ns_or(row.waited_ns, "not told"))
        .col("lock wait", |(_, (row, _))| ns_or(row.lock_ns, "not told"))
        .col("slop", |(of, (row, _))| time_or(of.slop(row), "no stamps of the server"))
        .col("status", |(_, (row, _))| match (row.latency_ns, row.status) {
            (None, _) => "no reply".into(),
            (_, 0) => "ok".into(),
            (_, status) => format!("status {status}"),
        })
        .into()
}

/// In which part most calls of a kind took longest.
struct Largest {
    /// Calls with all stamps.
    count: u64,
    /// In how many of them each part was the largest.
    largest: [u64; 5],
    /// All calls together.
    sums: Split,
}

impl Largest {
    fn of(kind: &Kind<'_, '_>) -> Option<Self> {
        let mut all = Self { count: 0, largest: [0; 5], sums: [0.0; 5] };
        for legs in kind.rows().filter_map(|row| kind.split(row)) {
            all.largest[(0..5).max_by(|a, b| legs[*a].total_cmp(&legs[*b])).unwrap_or(0)] += 1;
            all.count += 1;
            all.sums.iter_mut().zip(legs).for_each(|(sum, leg)| *sum += leg);
        }
        (all.count > 0 && all.sum() > 0.0).then_some(all)
    }

    fn sum(&self) -> f64 {
        self.sums.iter().sum()
    }

    fn at(&self) -> usize {
        (0..5).max_by_key(|at| self.largest[*at]).unwrap_or(0)
    }

    /// The part is the largest in more than half of such calls, unless chance alone reaches this count.
    fn is_sure(&self, family: usize) -> bool {
        self.largest[self.at()] > binomial_inverse(1.0 - 0.025 / family as f64, self.count, 0.5)
    }

    fn words(&self, sure: bool) -> String {
        let at = self.at();
        let percent = |leg: usize| three_digits(self.sums[leg] / self.sum() * 100.0);
        // A few long calls may have another part for the largest of their sum.
        let most = (0..5).max_by(|a, b| self.sums[*a].total_cmp(&self.sums[*b])).unwrap_or(at);
        let other = if most == at {
            String::new()
        } else {
            format!("; the {} has {} %, by fewer and longer calls", LEGS[most], percent(most))
        };
        let usually = if sure { "" } else { ", which is too few to say that it usually is" };
        let leg = LEGS[at];
        let some = self.largest[at];
        let count = self.count;
        format!("{} % {leg}, the largest part in {some} of {count}{usually}{other}", percent(at))
    }
}

fn where_it_went(calls: &[Calls<'_>]) -> Answered {
    let rows: Vec<_> = every(calls).filter_map(|of| Some((of, Largest::of(&of)?))).collect();
    if rows.is_empty() {
        return Err(Cannot::from("the server gives no stamps").next("msgpath serve --rpc"));
    }
    // Sentences for each kind; all of them together may be wrong once in twenty times.
    let family = every(calls).count().max(1);
    let clauses = rows.iter().map(|(of, all)| format!("{}: {}", of.name(), all.words(all.is_sure(family))));
    let answer = say(sure_if(rows.iter().all(|(_, all)| all.is_sure(family))), clauses.collect::<Vec<_>>().join(". "));
    let evidence = of_kinds("largest", "The largest part of each call, counted", rows)
        .col("calls", |(_, all)| Cell::count(all.count))
        .col("largest in", |(_, all)| Cell::count(all.largest[all.at()]))
        .cols(0..5, |leg| LEGS[*leg].into(), |(_, all), leg| Cell::Share((all.sums[*leg] / all.sum()).into()));
    Ok(answer.with(evidence).next("msgpath report @last"))
}

fn estimates(calls: &[Calls<'_>]) -> Answered {
    let mut texts = Vec::new();
    let mut confidence = Confidence::Sure;
    for of in every(calls) {
        let (Some(expected), Some(measured)) = (of.kind.expected, of.median()) else { continue };
        let interval = measured.lo_ns.zip(measured.hi_ns).filter(|_| measured.is_interval());
        let excluded =
            interval.map(|(low, high)| expected.estimate_ns < low as f64 || expected.estimate_ns > high as f64);
        confidence = weakest([
            confidence,
            match excluded {
                Some(true) => Confidence::Sure,
                Some(false) => Confidence::CantTell,
                None => Confidence::Likely,
            },
        ]);
        let verdict = match excluded {
            Some(false) => "which the interval contains".to_owned(),
            _ if expected.factor >= 1.0 => format!("{} times as long", three_digits(expected.factor)),
            _ => format!("{} times faster", three_digits(1.0 / expected.factor)),
        };
        // Where the time goes is another question, answered from all calls.
        let (estimate, measured) = (time(expected.estimate_ns), quantile_words(measured));
        texts.push(format!("{}: estimated {estimate}, measured {measured}, {verdict}", of.name()));
    }
    if texts.is_empty() {
        return Err(Cannot::from("no estimate was typed").next("msgpath rpc ... --expect 10us"));
    }
    Ok(say(confidence, texts.join(". ")))
}

fn first_calls(calls: &[Calls<'_>]) -> Answered {
    let mut methods: Vec<&str> = Vec::new();
    for of in every(calls).filter(|of| !of.kind.method.is_empty()) {
        if !methods.contains(&of.kind.method.as_str()) {
            methods.push(&of.kind.method);
        }
    }
    let mut texts = Vec::new();
    let mut confidence = Confidence::Sure;
    for method in methods {
        let of_kind = |of: Kind<'_, '_>| -> Vec<f64> {
            let later = of.kind.later_p50_ns.filter(|later| *later > 0);
            of.kind.first_ns.iter().filter_map(|first| Some(*first as f64 / later? as f64)).collect()
        };
        let ratios: Vec<f64> = every(calls).filter(|of| of.kind.method == method).flat_map(of_kind).collect();
        let Some(ratio) = log_estimate(&ratios) else { continue };
        let Estimate { value, low, high } = ratio;
        let verdict = match low.zip(high) {
            Some((low, high)) => {
                let lead = beside_one(&ratio, "yes", "no", "not shown");
                format!("{lead}: {value:.2} times (95 %: {})", range(format!("{low:.2}"), format!("{high:.2}")))
            }
            None => format!("{value:.2} times; too few connections for an interval"),
        };
        confidence =
            weakest([confidence, beside_one(&ratio, Confidence::Sure, Confidence::Sure, Confidence::CantTell)]);
        let first = counted(ratios.len(), "first call");
        texts.push(format!("{method}: {verdict}, {first} over the median of the later ones"));
    }
    if texts.is_empty() {
        Err("no kind has a first and a later call".into())
    } else {
        Ok(say(confidence, texts.join(". ")))
    }
}

fn four_clients(calls: &[Calls<'_>]) -> Answered {
    let run = |name: &str| calls.iter().find(|one| one.part.name == name);
    let (alone, four) = run("alone").zip(run("four")).ok_or("one of the runs alone and four is missing")?;
    let kinds = |one| every(std::slice::from_ref(one));
    let mut rows = Vec::new();
    for of in kinds(alone) {
        let Some(other) = kinds(four).find(|other| other.kind.method == of.kind.method) else { continue };
        let (Some(one), Some(many)) = (of.median(), other.median()) else { continue };
        let (Some(one_ns), Some(many_ns)) = (one.ns, many.ns) else { continue };
        let ratio = many_ns as f64 / one_ns.max(1) as f64;
        let apart = claim(one).zip(claim(many)).map(|(one, many)| many.low > one.high || many.high < one.low);
        let verdict = match apart {
            Some(true) => format!("{ratio:.2} times as long"),
            Some(false) => "no difference shown, the intervals overlap".to_owned(),
            None => format!("{ratio:.2} times as long, but too few calls for an interval"),
        };
        let method = &of.kind.method;
        let times = (time(many_ns as f64), time(one_ns as f64));
        rows.push((of.kind, one, many, ratio, apart, format!("{method}: {verdict} ({} against {})", times.0, times.1)));
    }
    if rows.is_empty() {
        return Err("the two runs have no kind of call in common".into());
    }
    let sure = rows.iter().all(|row| row.4 == Some(true));
    let text: Vec<&str> = rows.iter().map(|row| row.5.as_str()).collect();
    let evidence = table("clients", "Medians of one client and of four", &rows)
        .col("call", |row| &row.0.method)
        .col("one client", |row| Cell::Time(row.1.into()))
        .col("four clients", |row| Cell::Time(row.2.into()))
        .col("ratio", |row| Cell::Ratio(row.3.into()));
    Ok(say(crate::answers::answered::sure_or_not(sure), text.join(". ")).with(evidence))
}

fn lock(calls: &[Calls<'_>]) -> Answered {
    let of = |of: Kind<'_, '_>| -> Vec<(u64, u64)> {
        of.rows().filter_map(|row| Some((row.lock_ns?, row.latency_ns.unwrap_or(0)))).collect()
    };
    let rows: Vec<_> = every(calls).map(|kind| (kind, of(kind))).filter(|(_, locks)| !locks.is_empty()).collect();
    let sum = |locks: &[(u64, u64)]| locks.iter().map(|(ns, _)| ns).sum::<u64>() as f64;
    let share = |locks: &[(u64, u64)]| sum(locks) / locks.iter().map(|(_, ns)| ns).sum::<u64>().max(1) as f64;
    let those = |locks: &[(u64, u64)]| locks.iter().filter(|(ns, _)| *ns >= WAITED).count();
    let known: usize = rows.iter().map(|(_, locks)| locks.len()).sum();
    let waited: usize = rows.iter().map(|(_, locks)| those(locks)).sum();
    if known == 0 {
        let cannot = Cannot::from("the server does not tell how long it waited for its lock");
        return Err(cannot.next("msgpath rpc here ..."));
    }
    let texts = rows.iter().filter(|(_, locks)| those(locks) > 0).map(|(of, locks)| {
        let (some, all, percent) = (those(locks), locks.len(), three_digits(share(locks) * 100.0));
        format!("{}: {some} of {all} calls, {percent} % of their time", of.name())
    });
    // Told by the server for every call: counted, not estimated.
    let text = match waited {
        0 => format!("Nothing: none of {known} calls waited for it."),
        _ => {
            let texts = texts.collect::<Vec<_>>().join(". ");
            format!("{waited} of {known} calls waited for it. {texts}. A ping does not take it.")
        }
    };
    let evidence = of_kinds("lock", "Calls that waited for the store's lock for at least 1 µs", rows)
        .col("calls", |(_, locks)| Cell::count(locks.len() as u64))
        .col("waited", |(_, locks)| Cell::count(those(locks) as u64))
        .col("longest wait", |(_, locks)| ns_or(locks.iter().map(|(ns, _)| *ns).max(), "none"))
        .col("wait, all calls", |(_, locks)| Cell::Time(sum(locks).into()))
        .col("of their time", |(_, locks)| Cell::Share(share(locks).into()));
    Ok(sure(text).with(evidence))
}

fn stalls(calls: &[Calls<'_>]) -> Answered {
    let findings = calls.iter().flat_map(|one| one.part.summary.findings.iter().map(move |found| (one, found)));
    let found: Vec<_> = findings.filter(|(_, finding)| finding.code == STALL).collect();
    let all: u64 = every(calls).map(|of| of.kind.calls).sum();
    let slowest = every(calls).flat_map(|of| of.rows()).filter_map(|row| row.latency_ns).max();
    let slowest = slowest.ok_or("no call was answered")?;
    if found.is_empty() {
        return Ok(likely(format!(
            "None: no group of the {all} calls lies at a timer of the system or of TCP (1, 4, 40 and 200 ms); the slowest took \
             {}",
            time(slowest as f64)
        )));
    }
    let open = found.iter().any(|(_, finding)| finding.confidence == Confidence::CantTell);
    let texts: Vec<String> = found.iter().map(|(one, found)| format!("{}: {}", one.part.name, found.text)).collect();
    Ok(say(if open { Confidence::CantTell } else { Confidence::Likely }, texts.join(" ")))
}

fn clocks(calls: &[Calls<'_>]) -> Answered {
    let pairs =
        calls.iter().flat_map(|one| one.rpc.clocks.iter().zip(&one.facts.pairs).map(|both| (one.part.name, both)));
    let rows: Vec<_> = pairs.collect();
    let count = |test: &dyn Fn(bool, bool) -> bool| {
        rows.iter().filter(|(_, (clock, _))| test(clock.same, !clock.pieces.is_empty())).count()
    };
    let (same, aligned) = (count(&|same, _| same), count(&|same, pieces| !same && pieces));
    let unknown = rows.len() - same - aligned;
    let piece = |clock: &PairClock, of: fn(&ClockPiece) -> f64| {
        time_or(if clock.same { Some(0.0) } else { clock.pieces.first().map(of) }, "not aligned")
    };
    let evidence = table("clocks", "The clocks", &rows)
        .col("run", |(run, _)| *run)
        .col("client", |(_, (_, pair))| &pair.client)
        .col("server", |(_, (_, pair))| &pair.server)
        .col("offset", |(_, (clock, _))| piece(clock, |piece| piece.offset_ns))
        .col("within", |(_, (clock, _))| piece(clock, |piece| piece.within_ns))
        .col("what was found", |(_, (clock, _))| if clock.text.is_empty() { "nothing is known" } else { &clock.text });
    let output = match (same, aligned, unknown) {
        (0, 0, _) => return Err(Cannot::from("no call has the stamps of both ends").with(evidence)),
        (_, 0, 0) => sure(format!(
            "They are one clock in all {same} runs, so request and reply path are measured apart, without a bound"
        )),
        (_, _, 0) => {
            sure(format!("{same} pairs share a clock; {aligned} were aligned, each with the bound in its row"))
        }
        _ => likely(format!("{same} pairs share a clock, {aligned} were aligned, {unknown} could not be")),
    };
    Ok(output.with(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::answer;
    use msgpath_analyse::summarise_with;
    use msgpath_calls::record::Wire;
    use msgpath_calls::testing::{Calls as Made, MS, US};

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

    fn output(named: &[(&str, &Made)]) -> Page {
        let runs: Vec<_> = named.iter().map(|(name, calls)| (*name, calls.run(&["ping"], 10))).collect();
        let summaries: Vec<_> = runs.iter().map(|(_, (run, logs))| summarise_with(run, logs)).collect();
        let parts: Vec<Part<'_>> = runs
            .iter()
            .zip(&summaries)
            .map(|((name, (run, logs)), summary)| Part { name, run, summary, logs })
            .collect();
        page(&parts)
    }

    #[test]
    fn one_answer_says_where_the_time_goes() {
        let mut calls = made(|_| 300.0 * US, 0);
        calls.facts.expect.insert(0, 10_000);
        let page = output(&[("alone", &calls)]);
        let estimate = &answer(&page, "How far was the estimate").text;
        assert!(estimate.contains("estimated 10"), "{estimate}");
        assert!(LEGS.iter().all(|leg| !estimate.contains(leg)), "a second statement of another statistic: {estimate}");
    }

    #[test]
    fn the_largest_part_is_sure_where_every_call_agrees() {
        let page = output(&[("alone", &made(|_| 300.0 * US, 0))]);
        let found = answer(&page, "Where did each");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.contains("% server work, the largest part in 60 of 60"), "{}", found.text);
        // Half of the calls have it elsewhere.
        let page = output(&[("alone", &made(|at| if at % 2 == 0 { 95.0 * US } else { 20.0 * US }, 0))]);
        let found = answer(&page, "Where did each");
        assert_eq!(found.confidence, Confidence::Likely, "{}", found.text);
        assert!(found.text.contains("too few to say"), "{}", found.text);
    }

    #[test]
    fn waits_for_the_lock_are_counted() {
        let none = output(&[("four", &made(|_| 200.0 * US, 0))]);
        assert!(answer(&none, "lock").text.starts_with("Nothing: none of 60"), "{}", answer(&none, "lock").text);
        let some = output(&[("lock", &made(|_| 200.0 * US, 50_000))]);
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
        let page = output(&[("alone", &one), ("four", &four)]);
        let found = answer(&page, "four clients");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.starts_with("ping: 2.8"), "{}", found.text);
        let page = output(&[("alone", &one), ("four", &one)]);
        assert_eq!(answer(&page, "four clients").confidence, Confidence::CantTell);
        assert!(answer(&output(&[("alone", &one)]), "four clients").text.contains("is missing"));
        let few = output(&[("alone", &made(|_| 200.0 * US, 0)), ("four", &made(|_| 900.0 * US, 0))]);
        assert_eq!(answer(&few, "four clients").confidence, Confidence::CantTell);
    }

    #[test]
    fn first_calls_need_connections() {
        let mut calls = made(|_| 200.0 * US, 0);
        for row in calls.rows.iter_mut().take(4) {
            *row.latency_ns.as_mut().unwrap() *= 10;
        }
        let few = output(&[("four", &calls)]);
        assert_eq!(answer(&few, "first call").confidence, Confidence::CantTell, "{}", answer(&few, "first call").text);
        let more = output(&[("alone", &calls), ("four", &calls)]);
        let found = answer(&more, "first call");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.starts_with("ping: yes: 10.0"), "{}", found.text);
    }

    #[test]
    fn slop_is_what_the_server_and_the_wire_leave() {
        let mut calls = made(|_| 200.0 * US, 0);
        calls.facts.wire = Some(Wire::told(1_000_000_000));
        let page = output(&[("alone", &calls)]);
        let table = &page.tables[2];
        let Cell::Time(slop) = &table.rows[0][11] else { panic!("{:?}", table.rows[0]) };
        // 380 µs, less 200 µs of the server, less 304 bytes at 1 Gbit/s.
        assert!((slop.value - (180_000.0 - 304.0 * 8.0)).abs() < 10.0, "{slop:?}");
        assert_eq!((table.rows.len(), page.tables[0].rows.len()), (60, 1));
        assert!(answer(&page, "clocks").text.contains("one clock in all 1 runs"));
        assert!(answer(&page, "estimate").text.starts_with("cannot be answered"));
    }
}
