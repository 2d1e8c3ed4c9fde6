//! The page of the preset `vehicles`: what is start, what is steady, what is the engine and what waits for a CPU.

use msgpath_core::Histogram;
use msgpath_periodic::analyse::PeriodicSummary;
use msgpath_periodic::record::PeriodicFacts;
use msgpath_stats::estimate::{Estimate, log_estimate};
use msgpath_stats::quantile::Quantile;

use crate::answers::answered::{Answered, Cannot, answers, likely, say, sure, sure_if};
use crate::answers::columns::{Columns, count_or, ns_or, ratio_or, share_or, table, time_or};
use crate::answers::evidence::{beyond, extremes, p50};
use crate::answers::words::{percent, quantile_words, time, weakest};
use crate::answers::{Cell, Page, Part, Table};
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_analyse::words::interval;
use msgpath_periodic::analyse::{Engine, PeriodicTimes};

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

type Ask = fn(&Engines<'_>) -> Answered;
const QUESTIONS: &[(&str, Ask)] = &[
    ("What is the start, and what is steady?", start_and_steady),
    ("Are the high delays at the start of the program?", slowest),
    ("Raw Ethernet or shared memory: which is faster, and by how much?", faster),
    ("How much of the time is waiting for a CPU?", waiting),
    ("Is the maximum one message, or one late receiver?", late_receivers),
    ("Are the periods kept?", deadlines),
    ("What does the authentication of a message cost, the first time and later?", authentication),
    ("What does setting up a component cost?", set_up),
];
/// With more time, engines keep up.
const SLOWER: &str = "msgpath preset vehicles -- --period 100ms";

/// The runs of the preset and their engines.
struct Engines<'a> {
    parts: &'a [Part<'a>],
    all: Vec<Driven<'a>>,
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let engines = Engines { parts, all: engines(parts) };
    if engines.all.is_empty() {
        return Page::default();
    }
    let tables = vec![times(&engines.all), as_the_course_prints_it(&engines.all)];
    Page { tables, answers: answers(&engines, QUESTIONS), ..Page::default() }
}

/// One engine of one run.
struct Driven<'a> {
    part: Part<'a>,
    case: &'a CaseSummary,
    engine: &'a Engine,
}

impl Driven<'_> {
    /// `eth`, `shm`, `udp`.
    fn transport(&self) -> &str {
        &self.case.case.path.transport
    }

    /// How the components started.
    fn start(&self) -> &str {
        self.part.run.header.parts.get::<PeriodicFacts>().map_or("", |facts| &facts.start)
    }

    fn median(&self) -> Option<&Quantile> {
        p50(self.case)
    }

    /// So many of its messages were lost or delivered more than a period late that a queue grew from period to period: times
    /// are those of the backlog.
    fn overloaded(&self) -> bool {
        let all = &self.engine.all;
        (self.engine.missed + all.lost) as f64 > OVERLOAD * (all.messages + all.lost) as f64
    }

    /// Time that receivers waited for a CPU, of the mean time of a message; at most all of it.
    fn waiting_share(&self) -> Option<f64> {
        Some((self.engine.receiver_delay_ns? / self.engine.all.mean_ns?).min(1.0))
    }

    fn name(&self) -> String {
        format!("{} of {}", self.transport(), self.part.name)
    }

    /// The mean of its first messages divided by that of the rest.
    fn first_to_steady(&self) -> Option<f64> {
        Some(self.engine.first.mean_ns? / self.engine.steady.mean_ns?)
    }

    /// What the run is called, and its facts where they are there.
    fn fact<T: Default>(&self, of: impl Fn(&PeriodicFacts) -> T) -> T {
        self.part.run.header.parts.get::<PeriodicFacts>().map(of).unwrap_or_default()
    }
}

/// A table whose rows belong to an engine: run and path come first.
fn of_engines<'d, 'a: 'd, R>(
    name: &str,
    title: &str,
    rows: impl IntoIterator<Item = (&'d Driven<'a>, R)>,
) -> Columns<(&'d Driven<'a>, R)> {
    table(name, title, rows)
        .col("run", |(driven, _)| driven.part.name)
        .col("engine", |(driven, _)| driven.case.case.path.to_string())
}

/// One row an engine.
fn each_engine<'d, 'a: 'd>(name: &str, title: &str, all: &'d [Driven<'a>]) -> Columns<(&'d Driven<'a>, &'d Engine)> {
    of_engines(name, title, all.iter().map(|driven| (driven, driven.engine)))
}

/// Every engine of every periodic run that delivered something.
fn engines<'a>(parts: &[Part<'a>]) -> Vec<Driven<'a>> {
    let of = |part: Part<'a>| {
        let engines = part.summary.sections.get::<PeriodicSummary>().into_iter().flat_map(|periodic| &periodic.engines);
        engines.filter_map(move |engine| {
            let case = part.summary.cases.iter().find(|case| case.case.id == engine.case)?;
            (engine.all.messages > 0).then_some(Driven { part, case, engine })
        })
    };
    parts.iter().copied().flat_map(of).collect()
}

/// Mean of the first messages over that of the rest, one value for every start of this transport. Where an engine was
/// overloaded the rest is a backlog, and is compared with nothing.
fn start_ratios(parts: &[Part<'_>], transport: &str) -> Vec<f64> {
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

const NONE: &str = "no message arrived";

/// A quantile of some times. One that is not a number although there are messages is a lost one, which prints as such.
fn quantile(times: &PeriodicTimes, p: f64, ns: Option<u64>, why: &str) -> Cell {
    let lost = times.messages > 0 && times.lost as f64 > (1.0 - p) * (times.messages + times.lost) as f64;
    time_or(ns.map(|ns| ns as f64).or(lost.then_some(f64::INFINITY)), why)
}

fn median(times: &PeriodicTimes) -> Cell {
    quantile(times, 0.5, times.p50_ns, NONE)
}

fn p99(times: &PeriodicTimes) -> Cell {
    quantile(times, 0.99, times.p99_ns, "too few messages")
}

fn times(engines: &[Driven<'_>]) -> Table {
    each_engine("engines", "Every message of each engine, from when it was made to its delivery", engines)
        .col("messages", |(_, engine)| Cell::count(engine.all.messages))
        .col("lost", |(_, engine)| Cell::count(engine.all.lost))
        .col("min", |(_, engine)| ns_or(engine.all.min_ns, NONE))
        .col("mean", |(_, engine)| time_or(engine.all.mean_ns, NONE))
        .col("p50", |(_, engine)| median(&engine.all))
        .col("p99", |(_, engine)| p99(&engine.all))
        .col("max", |(_, engine)| ns_or(engine.all.max_ns, NONE))
        .note("One message is one time for every receiver; both ends read one CLOCK_MONOTONIC. Nothing is left out.")
}

/// Whole microseconds, as the programs of the course print them, beside what was reported there.
fn as_the_course_prints_it(engines: &[Driven<'_>]) -> Table {
    let mut rows = Vec::new();
    for transport in transports(engines) {
        for (_, when, min, mean, max) in REPORTED.iter().filter(|(engine, ..)| *engine == transport) {
            let whole = |us: f64| Some(us as u64);
            rows.push((transport.clone(), *when, whole(*min), Some(*mean), whole(*max)));
        }
        for driven in engines.iter().filter(|driven| driven.transport() == transport) {
            let all = &driven.engine.all;
            let whole = |ns: Option<u64>| ns.map(|ns| ns / 1000);
            let mean = all.mean_ns.map(|ns| ns / 1000.0);
            rows.push((transport.clone(), driven.part.name, whole(all.min_ns), mean, whole(all.max_ns)));
        }
    }
    table("integers", "The same in microseconds, beside what the experiment's group reported", rows)
        .text("engine", |row| &row.0)
        .col("run", |row| row.1)
        .col("min [µs]", |row| count_or(row.2, "none"))
        .col("mean [µs]", |row| row.3.map_or_else(|| Cell::missing("none"), |mean| Cell::text(plain(mean))))
        .col("max [µs]", |row| count_or(row.4, "none"))
        .note(
            "Their mean is an integer mean of integer means of processes and their first message can never be the minimum; \
             here it is the mean of all messages. Their machine and number of CPUs are not known, so only orders of magnitude \
             compare.",
        )
}

/// A number of microseconds with at most two decimals.
fn plain(value: f64) -> String {
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// How sure it is that a ratio over starts differs from 1; too few starts make it likely.
fn verdict_over_one(estimate: &Estimate) -> Confidence {
    match estimate.low.zip(estimate.high) {
        Some(_) => beyond(estimate, 1.0),
        None => Confidence::Likely,
    }
}

fn start_and_steady(engines: &Engines<'_>) -> Answered {
    let all = &engines.all;
    let evidence = each_engine("first-and-steady", "The first messages of every component, and the rest", all)
        .col("first", |(driven, _)| Cell::count(driven.fact(|facts| facts.first)))
        .col("mean", |(_, engine)| time_or(engine.first.mean_ns, NONE))
        .col("p50", |(_, engine)| median(&engine.first))
        .col("max", |(_, engine)| ns_or(engine.first.max_ns, NONE))
        .col("steady mean", |(_, engine)| time_or(engine.steady.mean_ns, NONE))
        .col("steady p50", |(_, engine)| median(&engine.steady))
        .col("steady p99", |(_, engine)| p99(&engine.steady))
        .col("steady max", |(_, engine)| ns_or(engine.steady.max_ns, NONE))
        .col("mean ratio", |(driven, _)| ratio_or(driven.first_to_steady(), "no message of one of them"));
    let mut texts = Vec::new();
    let mut confidence = Confidence::Sure;
    for transport in transports(all) {
        let ratios = start_ratios(engines.parts, &transport);
        let Some(estimate) = log_estimate(&ratios) else { continue };
        let verdict = verdict_over_one(&estimate);
        confidence = weakest([confidence, verdict]);
        let interval = interval(estimate.low, estimate.high, |ratio| format!("{ratio:.2}")).map_or_else(
            || format!("; {} starts are too few for an interval", ratios.len()),
            |interval| format!(" ({interval}; {} starts)", ratios.len()),
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
        return Err(Cannot::from(why).with(evidence).next(SLOWER));
    }
    let behind: Vec<String> = all.iter().filter(|driven| driven.overloaded()).map(Driven::name).collect();
    if !behind.is_empty() {
        texts.push(format!(
            "Not counted: {}, which did not keep up, so that what follows the first messages is a growing backlog",
            behind.join(", ")
        ));
    }
    let answer = say(confidence, texts.join(". ")).with(evidence);
    Ok(match confidence {
        Confidence::Sure => answer,
        _ => answer.next("msgpath preset vehicles -- -o restarts=5"),
    })
}

/// Where the slowest messages lie: share of the slowest 1 % that are first ones, and share of first ones among all.
fn slowest_are_first(driven: &Driven<'_>) -> Option<(f64, f64, u64)> {
    let first = driven.part.run.header.parts.get::<PeriodicFacts>()?.first;
    let rows =
        msgpath_periodic::log::log(driven.part.logs).sample().iter().filter(|row| row.case == driven.engine.case);
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

fn slowest(engines: &Engines<'_>) -> Answered {
    let found = engines.all.iter().filter_map(|driven| Some((driven, slowest_are_first(driven)?)));
    let rows: Vec<(&Driven<'_>, (f64, f64, u64))> = found.collect();
    let (behind, kept): (Vec<_>, Vec<_>) = rows.iter().partition(|(driven, _)| driven.overloaded());
    let evidence =
        of_engines("slowest", "The slowest 1 % of the messages, and how many of them are first ones", rows.clone())
            .col("slower than", |(_, (.., limit))| Cell::Time((*limit as f64).into()))
            .col("first among the slowest", |(_, (among, ..))| Cell::Share((*among).into()))
            .col("first among all", |(_, (_, usual, _))| Cell::Share((*usual).into()));
    match (kept.len(), behind.len()) {
        (0, 0) => {
            let cannot = Cannot::from("the log of messages is not there");
            return Err(cannot.next("msgpath preset vehicles -- -o message-log=2M"));
        }
        (0, _) => {
            let why = "no engine kept up with its messages: the slowest are the last ones of a growing backlog";
            return Err(Cannot::from(why).with(evidence).next(SLOWER));
        }
        _ => {}
    }
    let many = kept.iter().filter(|(_, (among, usual, _))| *among > 2.0 * usual);
    let many: Vec<String> = many
        .map(|(driven, (among, usual, _))| {
            let (run, transport) = (driven.part.name, driven.transport());
            format!("{run} {transport} ({} against {})", percent(*among), percent(*usual))
        })
        .collect();
    let (all, n) = (kept.len(), many.len());
    let others = match all - n {
        0 => "They are the start of the program.".to_owned(),
        others => format!("In the other {others} they come at any time."),
    };
    let text = match n {
        0 => format!(
            "In none of {all} the slowest 1 % of the messages are first ones more than twice as often as chance puts them \
             there: high delays come at any time."
        ),
        _ => format!(
            "In {n} of {all} the slowest 1 % are first messages more than twice as often as chance puts them there: {}. \
             {others}",
            many.join(", ")
        ),
    };
    // A cluster of one start is one event, however many messages it has: more than likely it cannot be.
    Ok(likely(match behind.len() {
        0 => text,
        n => format!("{text} {n} did not keep up: there the slowest are the last ones of a growing backlog."),
    })
    .with(evidence))
}

/// The engines of the run in which components disturb one another least: staggered where there is one.
fn calmest<'a, 'b>(engines: &'b [Driven<'a>], transport: &str) -> Option<&'b Driven<'a>> {
    let own = || engines.iter().filter(|driven| driven.transport() == transport && !driven.overloaded());
    own().find(|driven| driven.start() == "staggered").or_else(|| own().next())
}

fn faster(engines: &Engines<'_>) -> Answered {
    let both = calmest(&engines.all, "eth").zip(calmest(&engines.all, "shm"));
    let missing = "one of the two engines was not measured, or did not keep up with its messages";
    let (eth, shm) = both.ok_or_else(|| Cannot::from(missing).next(SLOWER))?;
    let (one, other) = eth.median().zip(shm.median()).ok_or("one of the two has no median")?;
    let (one_ns, other_ns) = one.ns.zip(other.ns).ok_or("one of the two lost half of its messages")?;
    let range = |quantile: &Quantile| quantile.lo_ns.zip(quantile.hi_ns);
    let apart = range(one).zip(range(other)).map(|(one, other)| one.0 > other.1 || other.0 > one.1);
    let (quick, slow) = if other_ns <= one_ns { ("shm", "eth") } else { ("eth", "shm") };
    let factor = one_ns.max(other_ns) as f64 / one_ns.min(other_ns).max(1) as f64;
    let (confidence, verdict) = match apart {
        Some(true) => {
            let sure = one.is_interval() && other.is_interval();
            (sure_if(sure), format!("{quick} is {factor:.2} times faster than {slow}"))
        }
        Some(false) => (Confidence::CantTell, "the ranges overlap, so neither is shown to be faster".into()),
        None => (Confidence::CantTell, "not both have a range, so neither is shown to be faster".into()),
    };
    let text = format!(
        "In the run {}, the steady median is {} with {} and {} with {}: {verdict}. That is the whole way, with the wake-up of \
         the receiver and the authentication.",
        eth.part.name,
        quantile_words(one),
        eth.case.case.path,
        quantile_words(other),
        shm.case.case.path,
    );
    let answer = say(confidence, text);
    Ok(match confidence {
        Confidence::Sure => answer,
        _ => answer.next("msgpath periodic --start staggered -c 2000 -r 20"),
    })
}

fn waiting(engines: &Engines<'_>) -> Answered {
    let why = "schedstat cannot be read";
    let signals = |engine: &Engine| (engine.signals > 0).then(|| engine.signals as f64 / engine.received.max(1) as f64);
    let evidence = each_engine("waiting", "Time that threads were runnable and did not run", &engines.all)
        .col("start", |(driven, _)| Cell::text(driven.start()))
        .col("receiver, a message", |(_, engine)| time_or(engine.receiver_delay_ns, why))
        .col("of the mean", |(driven, _)| share_or(driven.waiting_share(), why))
        .col("sender, a message", |(_, engine)| time_or(engine.sender_delay_ns, why))
        .col("mean", |(_, engine)| time_or(engine.all.mean_ns, NONE))
        .col("signals a message", |(_, engine)| ratio_or(signals(engine), "this wait takes no signals"));
    let shares = engines.all.iter().filter_map(|driven| Some((driven.waiting_share()?, driven)));
    let shares: Vec<(f64, &Driven<'_>)> = shares.collect();
    let Some(((least, other), (most, at))) = extremes(&shares, |(share, _)| *share) else {
        return Err(Cannot::from("this kernel has no run delays (CONFIG_SCHEDSTATS)").with(evidence));
    };
    let crowd = at.fact(|facts| {
        let threads = facts.processes * facts.components;
        format!(" {threads} sending and {threads} receiving threads share {} CPUs.", facts.cpus)
    });
    let text = format!(
        "Receivers waited for a CPU for at least {} ({}) to {} ({}) of the mean time of a message.{crowd} A receiver that \
         waits once delays every message that waits with it, so its part of each message is at least this.",
        percent(*least),
        other.name(),
        percent(*most),
        at.name(),
    );
    Ok(likely(text).with(evidence).next("sudo msgpath explain -x eth:send/sigio"))
}

fn late_receivers(engines: &Engines<'_>) -> Answered {
    let all = &engines.all;
    let mut stalls: Vec<_> =
        all.iter().flat_map(|driven| driven.engine.stalls.iter().map(move |stall| (driven, stall))).collect();
    stalls.sort_by_key(|(_, stall)| std::cmp::Reverse(stall.longest_ns));
    stalls.truncate(STALLS);
    let title = "The longest stalls: one receiver was late, and messages in a row waited for it";
    let evidence = of_engines("stalls", title, stalls)
        .col("at", |(_, stall)| Cell::Time((stall.at_ns as f64).into()))
        .col("receiver", |(_, stall)| Cell::count(stall.receiver.into()))
        .col("messages", |(_, stall)| Cell::count(stall.messages))
        .col("longest", |(_, stall)| Cell::Time((stall.longest_ns as f64).into()))
        .col("shortest", |(_, stall)| Cell::Time((stall.shortest_ns as f64).into()))
        .col("each a little shorter", |(_, stall)| if stall.falling { "yes" } else { "no" });
    if all.iter().all(|driven| driven.engine.logged == 0) {
        return Err("the log of messages is not there".into());
    }
    let sum = |of: fn(&Engine) -> u64| all.iter().map(|driven| of(driven.engine)).sum::<u64>();
    let (found, messages) = (sum(|engine| engine.stalls_found), sum(|engine| engine.stalled_messages));
    if found == 0 {
        let text = "No receiver was late for five or more messages in a row, so slow messages are slow one by one.";
        return Ok(sure(text));
    }
    // The slowest message of an engine is part of a stall when a stall has that length.
    let within =
        |driven: &&Driven<'_>| driven.engine.stalls.first().map(|stall| stall.longest_ns) == driven.engine.all.max_ns;
    let text = format!(
        "{} times a receiver was late for five or more messages in a row, and {} messages waited in them. In {} of {} runs of \
         an engine the slowest message is the first of such a row.",
        found,
        messages,
        all.iter().filter(within).count(),
        all.len(),
    );
    Ok(sure(text).with(evidence))
}

fn deadlines(engines: &Engines<'_>) -> Answered {
    let evidence = each_engine("deadlines", "Messages later than one period", &engines.all)
        .col("period", |(driven, _)| Cell::Time((driven.fact(|facts| facts.period_ns) as f64).into()))
        .col("made late", |(_, engine)| Cell::count(engine.late))
        .col("delivered late", |(_, engine)| Cell::count(engine.missed))
        .col("lost", |(_, engine)| Cell::count(engine.all.lost))
        .col("before ready", |(_, engine)| Cell::count(engine.before_ready))
        .col("latest send p99", |(_, engine)| p99(&engine.lateness))
        .col("latest send", |(_, engine)| ns_or(engine.lateness.max_ns, NONE));
    let mut kept = 0;
    let mut missed = Vec::new();
    for driven in &engines.all {
        let (late, delivered, all) = (driven.engine.late, driven.engine.missed, &driven.engine.all);
        if late + delivered + all.lost == 0 {
            kept += 1;
            continue;
        }
        let (run, transport, lost) = (driven.part.name, driven.transport(), all.lost);
        let of = (all.messages + lost).to_string();
        missed.push(format!("{run} {transport} ({late} made late, {delivered} delivered late, {lost} lost of {of})"));
    }
    // Counted, not estimated.
    let text = if missed.is_empty() {
        format!("All {kept} runs of an engine made and delivered every message within a period of its time.")
    } else if kept == 0 {
        format!("In none: {}.", missed.join(", "))
    } else {
        format!("Not in {}. In {kept} others every message was in time.", missed.join(", "))
    };
    Ok(sure(text).with(evidence))
}

/// First calls of the authentication over the median of the later ones, one value for every process that was started.
fn cold_over_warm(parts: &[Part<'_>]) -> Vec<(f64, f64)> {
    let sessions =
        parts.iter().filter_map(|part| part.run.header.parts.get::<PeriodicFacts>()).flat_map(|facts| &facts.sessions);
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

fn authentication(engines: &Engines<'_>) -> Answered {
    let stage = |engine: &Engine, name: &str| {
        let found = engine.stages.iter().find(|stage| stage.name == name);
        time_or(found.map(|stage| stage.p50_ns), "none in this run")
    };
    let evidence = each_engine("authentication", "The authentication of a message", &engines.all)
        .col("kind", |(driven, _)| driven.fact(|facts| facts.mac.clone()))
        .col("first call", |(_, engine)| time_or(engine.cold_mac_ns.map(|cold| cold.0), "none in this run"))
        .col("slowest first call", |(_, engine)| time_or(engine.cold_mac_ns.map(|cold| cold.1), "none in this run"))
        .col("later calls", |(_, engine)| time_or(engine.warm_mac_ns, "none in this run"))
        .col("while sending", |(_, engine)| stage(engine, "authentication"))
        .col("check", |(_, engine)| stage(engine, "check"));
    let pairs = cold_over_warm(engines.parts);
    let ratios: Vec<f64> = pairs.iter().map(|(cold, warm)| cold / warm.max(1.0)).collect();
    let none = || Cannot::from("no message was authenticated").next("msgpath periodic --mac poly1305");
    let ratio = log_estimate(&ratios).ok_or_else(none)?;
    let middle =
        |of: fn(&(f64, f64)) -> f64| time(msgpath_stats::describe::median(&pairs.iter().map(of).collect::<Vec<_>>()));
    let all = ratios.len();
    let interval = interval(ratio.low, ratio.high, |ratio| format!("{ratio:.2}"))
        .map_or_else(String::new, |interval| format!(" ({interval}; {all} processes)"));
    let verdict = verdict_over_one(&ratio);
    let factor = ratio.value;
    let so = match verdict {
        Confidence::CantTell => format!("the ratio {factor:.2}{interval} does not tell them apart"),
        _ => format!("{factor:.2} times as long{interval}. Every message pays the later price, at both ends"),
    };
    let (cold, warm) = (middle(|pair| pair.0), middle(|pair| pair.1));
    let text =
        format!("The first call of a process takes {cold} (median of {all} processes), a later one {warm}: {so}");
    Ok(say(verdict, text).with(evidence))
}

fn set_up(engines: &Engines<'_>) -> Answered {
    let stages = engines.all.iter().flat_map(|driven| driven.engine.setup.iter().map(move |setup| (driven, setup)));
    let stages: Vec<_> = stages.collect();
    // Of equals the first.
    let longest = stages.iter().rev().max_by(|a, b| a.1.p50_ns.total_cmp(&b.1.p50_ns));
    let (driven, setup) = longest.ok_or("no stages of the set-up were recorded")?;
    let ready: Vec<f64> = engines.all.iter().map(|driven| driven.engine.ready_ns as f64).collect();
    let (soonest, latest) = extremes(&ready, |ns| *ns).unwrap_or((&0.0, &0.0));
    let text = format!(
        "Most of it is the stage '{}': {} in the median ({}). It took {} to {} from the start of the first process until all \
         were ready; nothing of this is in the times of messages unless components start as a storm.",
        setup.name,
        time(setup.p50_ns),
        driven.name(),
        time(*soonest),
        time(*latest),
    );
    let evidence = of_engines("set-up", "Stages of the set-up: median and longest over components", stages)
        .col("stage", |(_, setup)| &setup.name)
        .col("median", |(_, setup)| Cell::Time(setup.p50_ns.into()))
        .col("longest", |(_, setup)| Cell::Time(setup.max_ns.into()));
    Ok(sure(text).with(evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::answer;
    use msgpath_analyse::{Logs, summarise_with};
    use msgpath_periodic::analyse::testing::{build, row};
    use msgpath_stats::quantile::Range;

    /// The page of one run named `barrier`.
    fn output((run, logs): &(msgpath_record::Run, Logs)) -> Page {
        let summary = summarise_with(run, logs);
        page(&[Part { name: "barrier", run, summary: &summary, logs }])
    }

    #[test]
    fn one_start_is_likely_and_never_sure() {
        let page = output(&build(|_| ()));
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
        let slow = output(&starts(|at| 300 + u64::from(at)));
        let found = answer(&slow, "What is the start");
        assert_eq!(found.confidence, Confidence::Sure, "{}", found.text);
        assert!(found.text.contains("slower: 3.0") && found.text.contains("10 starts"), "{}", found.text);
        let mixed = output(&starts(|at| if at % 2 == 0 { 60 } else { 170 }));
        let found = answer(&mixed, "What is the start");
        assert_eq!(found.confidence, Confidence::CantTell, "{}", found.text);
        assert!(found.text.contains("does not tell them"), "{}", found.text);
        let same = output(&starts(|at| 50 + u64::from(at % 3)));
        assert!(answer(&same, "What is the start").text.contains("are not slower"));
    }

    #[test]
    fn high_delays_at_the_start_are_named_only_where_they_are() {
        let rows = |slow: fn(u64) -> bool| {
            let (run, mut logs) = build(|_| ());
            let rows: Vec<_> = (0..300)
                .flat_map(|n| (0..4).map(move |sender| (sender, n)))
                .map(|(sender, n)| row(0, sender, n, n * 10_000_000, if slow(n) { 9_000_000 } else { 20_000 + n }))
                .collect();
            logs.add(msgpath_periodic::log::Sent(rows.into()));
            output(&(run, logs))
        };
        let early = rows(|n| n < 3);
        let found = answer(&early, "high delays");
        assert!(found.text.contains("In 1 of 1") && found.text.contains("100 % against 16.7 %"), "{}", found.text);
        let late = rows(|n| n > 290);
        assert!(answer(&late, "high delays").text.contains("In none of 1"));
        assert!(answer(&output(&build(|_| ())), "high delays").text.starts_with("cannot be answered"));
    }

    #[test]
    fn one_engine_does_not_say_which_is_faster() {
        assert!(
            answer(&output(&build(|_| ())), "which is faster").text.contains("one of the two engines was not measured")
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
            let median = case.latency.quantiles.iter_mut().find(|quantile| quantile.p == 0.5).unwrap();
            (median.ns, median.range) = (Some(ns), if claim { Range::Interval } else { Range::Levels });
            (median.lo_ns, median.hi_ns) = (range.map(|range| range.0), range.map(|range| range.1));
            case
        };
        let output = |shm: CaseSummary| {
            let eth = case("eth", 22_000, Some((21_000, 23_000)), true);
            let driven = |case| Driven { part, case, engine: all[0].engine };
            let engines = Engines { parts: &[], all: vec![driven(&eth), driven(&shm)] };
            let Ok(answer) = faster(&engines) else { panic!("both were measured") };
            (answer.confidence, answer.text.contains("times faster"))
        };
        assert_eq!(output(case("shm", 20_000, None, false)), (Confidence::CantTell, false));
        assert_eq!(output(case("shm", 20_000, Some((15_000, 30_000)), false)), (Confidence::CantTell, false));
        assert_eq!(output(case("shm", 18_000, Some((17_000, 19_000)), false)), (Confidence::Likely, true));
        assert_eq!(output(case("shm", 18_000, Some((17_000, 19_000)), true)), (Confidence::Sure, true));
    }

    #[test]
    fn deadlines_are_counted() {
        let page = output(&build(|facts| facts.sessions[0].components[0].missed = 7));
        assert!(
            answer(&page, "periods kept")
                .text
                .starts_with("In none: barrier eth (0 made late, 7 delivered late, 0 lost")
        );
        assert!(answer(&output(&build(|_| ())), "periods kept").text.starts_with("All 1"));
    }

    #[test]
    fn the_first_authentication_is_cold_only_where_it_is() {
        let macs = |calls: &'static [u64]| {
            output(&build(|facts| {
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
        let none = output(&build(|_| ()));
        assert!(answer(&none, "authentication").text.starts_with("cannot be answered"));
    }

    #[test]
    fn a_run_of_another_kind_has_no_page() {
        let run = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        let logs = Logs::default();
        let summary = summarise_with(&run, &logs);
        assert_eq!(page(&[Part { name: "a", run: &run, summary: &summary, logs: &logs }]), Page::default());
    }
}
