//! The page of the preset `nagle-trap`: requests in several writes, and what makes them wait 40 or 200 ms.

use msgpath_core::schema::NEAR;
use std::collections::BTreeMap;

use msgpath_analyse::findings::modes::{CORKED, DELAYED_ACK};
use msgpath_analyse::series::sender;
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::SparseHistogram;
use msgpath_core::path::Setting;
use msgpath_core::plan::Metric;
use msgpath_core::units::three_digits;
use msgpath_stats::describe::median;
use msgpath_stats::estimate::Estimate;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::verdict::Verdict;

use crate::answers::answered::{Answered, OfRuns, answers, say, sure_if};
use crate::answers::columns::{ns_or, number_or, share_or, table, time_or};
use crate::answers::evidence::{Verdicts, judged, mean_of_passes, p50, quantile};
use crate::answers::words::{counted, percent, range, range_of, time, verdict_word};
use crate::answers::{Cell, Page, Part, Table, part};

/// A p50 from here on is one of the kernel's timers, ns.
const SLOW: f64 = 30e6;
/// A p50 up to here is none, ns.
const QUICK: f64 = 10e6;

const QUESTIONS: &[(&str, OfRuns)] = &[
    ("Where do 40 ms come from?", forty_ms),
    ("And 200 ms?", two_hundred),
    ("Which cure costs least?", cures),
    ("Does the end of a stream wait 40 ms as well, as localhost tables of write shapes suggest?", tails),
];

/// Round trips of one case in bins of equal width on the log scale.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    /// The case as people read it.
    pub name: String,
    /// From and to, ns, and the messages between; bins without a message are left out.
    pub bins: Vec<(f64, f64, u64)>,
}

/// Round trips of every case of a run, ten bins to a decade: where the timers stand out.
pub fn waits(part: &Part<'_>) -> Vec<Waits> {
    let of = |case: &CaseSummary| {
        let edge = |at: i32| 10_f64.powf(f64::from(at) / 10.0);
        let pooled = pooled(part, case);
        let count = |at: i32| pooled.count_between(edge(at).ceil() as u64, edge(at + 1).ceil() as u64);
        // 1 ns to 1000 s.
        let bins = (0..120).map(|at| (edge(at), edge(at + 1), count(at))).filter(|bin| bin.2 > 0);
        let held = if part.run.header.plan.options_of(&case.case).hold_cork { ", cork held" } else { "" };
        Waits { name: name(case) + held, bins: bins.collect() }
    };
    part.measured().map(of).collect()
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let tables = part(parts, "requests").iter().map(matrix).collect();
    Page { tables, answers: answers(parts, QUESTIONS), ..Page::default() }
}

fn pooled(part: &Part<'_>, case: &CaseSummary) -> Pooled {
    let histograms: Vec<&SparseHistogram> = part.rounds(&case.case).into_iter().map(|round| &round.latency).collect();
    Pooled::new(&histograms)
}

fn writes(case: &CaseSummary) -> String {
    counted(case.case.pieces.count as usize, "write")
}

/// `2 writes, nagle, quickack`.
fn name(case: &CaseSummary) -> String {
    let path = &case.case.path;
    let setting = path.setting.map_or_else(String::new, |setting| format!(", {}", setting.name()));
    let wait = if path.wait == msgpath_core::path::DEFAULT_WAIT { String::new() } else { format!(", {}", path.wait) };
    format!("{}{setting}{wait}", writes(case))
}

/// Delayed acknowledgements for each request.
fn delayed_acks(part: &Part<'_>, case: &CaseSummary) -> Option<f64> {
    case.per_message(part.rose(case, "TcpExt.DelayedACKs")?)
}

fn matrix(part: &Part<'_>) -> Table {
    let of = |case: &CaseSummary, p: f64| ns_or(quantile(case, p).and_then(|found| found.ns), "lost");
    table("matrix", "A request of 512 bytes in so many writes", part.measured())
        .col("writes", |case| Cell::count(case.case.pieces.count.into()))
        .col("setting", |case| case.case.path.setting.map_or("-", Setting::name))
        .col("receiver", |case| if case.case.path.wait == "quickack" { "acknowledges at once" } else { "delays" })
        .col("p50", |case| of(case, 0.5))
        .col("p99", |case| of(case, 0.99))
        .col("slowest", |case| ns_or(case.latency.slowest_ns, "no round trip"))
        .col("wait 40 ms", |case| share_or(DELAYED_ACK.share(&pooled(part, case)), "no round trip"))
        .col("delayed ACKs", |case| number_or(delayed_acks(part, case), "the counter cannot be read"))
        .col("calls", |case| number_or(case.per_message(case.end(NEAR).calls.total_calls()), "no message was sent"))
        .note(
            "Wait 40 ms: 32 to 48 ms, or twice that where request and reply both wait. 'Receiver' is how both ends \
             acknowledge. Delayed ACKs: of the network namespace, trimmed messages included, per measured message. 200 \
             requests are too few for p99.",
        )
}

/// The case of so many writes, this setting and this wait.
fn find<'a>(part: &Part<'a>, writes: u32, setting: Setting, wait: &str) -> Option<&'a CaseSummary> {
    part.find(|one| {
        let path = &one.case.path;
        one.case.pieces.count == writes && path.setting == Some(setting) && path.wait == wait
    })
}

/// The case with Nagle, delayed acknowledgements and several writes; the fewest of them.
fn trap<'a>(part: &Part<'a>) -> Option<&'a CaseSummary> {
    let several = part.measured().filter(|one| {
        let path = &one.case.path;
        let waits = path.setting == Some(Setting::Nagle) && path.wait == "block";
        p50(one).is_some() && one.case.pieces.count > 1 && waits
    });
    several.min_by_key(|case| case.case.pieces.count)
}

/// The trap with one of its conditions taken away, and which.
fn without<'a>(part: &Part<'a>, trap: &CaseSummary) -> Vec<(&'static str, &'a CaseSummary)> {
    let writes = trap.case.pieces.count;
    let cures = [
        ("TCP_NODELAY", writes, Setting::NoDelay, "block"),
        ("a cork that is released after each request", writes, Setting::Cork, "block"),
        ("one write instead", 1, Setting::Nagle, "block"),
        ("a receiver that acknowledges at once (TCP_QUICKACK)", writes, Setting::Nagle, "quickack"),
    ];
    let cures = cures.into_iter();
    cures.filter_map(|(what, writes, setting, wait)| Some((what, find(part, writes, setting, wait)?))).collect()
}

/// Whether the whole interval of the p50 lies at or above `SLOW`.
fn waits_surely(case: &CaseSummary) -> bool {
    p50(case).is_some_and(|p50| p50.is_interval() && p50.lo_ns.is_some_and(|ns| ns as f64 >= SLOW))
}

/// Whether the whole interval of the p50 lies at or below `QUICK`.
fn is_quick_surely(case: &CaseSummary) -> bool {
    p50(case).is_some_and(|p50| p50.is_interval() && p50.hi_ns.is_some_and(|ns| ns as f64 <= QUICK))
}

/// What requests in several writes wait for, and whether it goes with one of its conditions.
struct Forty {
    /// Whether they wait for about 40 ms at all.
    waits: bool,
    /// Every condition that was taken away is surely one, and there are several.
    proved: bool,
    /// The numbers.
    text: String,
}

/// Of a run in which requests go in several writes with Nagle's algorithm.
fn forty(part: &Part<'_>) -> Option<Forty> {
    let trap = trap(part)?;
    let middle = range_of(p50(trap)?);
    let waiting = DELAYED_ACK.share(&pooled(part, trap)).unwrap_or(0.0);
    let writes = writes(trap);
    let waits = percent(waiting);
    if waiting < 0.05 {
        let text = format!(
            "{writes} with Nagle take {middle}, and {waits} of them lie near 40 ms: nothing waits for a delayed \
             acknowledgement here"
        );
        return Some(Forty { waits: false, proved: false, text });
    }
    let mut text = format!(
        "{writes} with Nagle's algorithm and a receiver that delays its acknowledgements take {middle}, and {waits} of the \
         requests wait for 40 ms"
    );
    if let Some(each) = delayed_acks(part, trap) {
        text += &format!(", with {} delayed ACKs for each", three_digits(each));
    }
    let taken = without(part, trap);
    let (mut cured, mut still) = (Vec::new(), Vec::new());
    for (what, case) in &taken {
        let Some(p50) = p50(case) else { continue };
        let one = format!("{what} {}", range_of(p50));
        if is_quick_surely(case) { cured.push(one) } else { still.push(one) }
    }
    if !cured.is_empty() {
        text += &format!(". Take one condition away and they are gone: {}", cured.join(", "));
    }
    if !still.is_empty() {
        text += &format!(". Not gone with {}", still.join(", "));
    }
    if !cured.is_empty() {
        text += ": the second write waits until the first is acknowledged (Nagle), and the receiver, which has nothing to say \
                 before the request is whole, keeps the acknowledgement back for 40 ms";
    }
    let proved = waits_surely(trap) && still.is_empty() && cured.len() == taken.len() && cured.len() >= 2;
    Some(Forty { waits: true, proved, text })
}

fn forty_ms(parts: &[Part<'_>]) -> Answered {
    let forty = part(parts, "requests").and_then(|part| forty(&part));
    let forty = forty.ok_or("no case with Nagle's algorithm and several writes was measured")?;
    if !forty.waits {
        return Err(forty.text.into());
    }
    Ok(say(sure_if(forty.proved), forty.text).next("msgpath explain -x tcp:writes --pieces 2x256 -o nodelay=no"))
}

fn two_hundred(parts: &[Part<'_>]) -> Answered {
    let held = part(parts, "held").and_then(|part| Some((part, part.measured().next()?)));
    let (part, case) = held.ok_or("the run with a cork that is never released is missing")?;
    let middle = range_of(p50(case).ok_or("no round trip was measured")?);
    let held = CORKED.share(&pooled(&part, case)).unwrap_or(0.0);
    let timeouts = part.rose(case, "TcpExt.TCPTimeouts");
    let timers = match timeouts {
        Some(0) => ". No retransmission timer ran out meanwhile, whose least time is 200 ms as well".into(),
        Some(count) => {
            format!(". {count} retransmission timers ran out meanwhile, whose least time is 200 ms as well")
        }
        None => String::new(),
    };
    let text = format!(
        "Under a cork that is never released (TCP_CORK set once) {} take {middle}; {} of them lie where the kernel sends what \
         is corked by itself, after 200 ms for each direction{timers}",
        writes(case),
        percent(held)
    );
    let confidence = match held {
        _ if held > 0.5 && timeouts == Some(0) => Confidence::Sure,
        0.05.. => Confidence::Likely,
        _ => Confidence::CantTell,
    };
    Ok(say(confidence, text).next("msgpath echo -o cork=held -c 50"))
}

/// What each cure costs beside a single write.
fn cures(parts: &[Part<'_>]) -> Answered {
    let part = part(parts, "requests").ok_or("the requests were not measured")?;
    let most = part.measured().map(|case| case.case.pieces.count).max().unwrap_or(1);
    let one = find(&part, 1, Setting::NoDelay, "block").filter(|_| most > 1);
    let one = one.ok_or("one write with TCP_NODELAY, which the others are compared with, was not measured")?;
    let cures = [(Setting::NoDelay, "block"), (Setting::Cork, "block"), (Setting::Nagle, "quickack")];
    let cures = cures.into_iter().filter_map(|(setting, wait)| find(&part, most, setting, wait));
    let family = judged(&part, Metric::P50, &cures.map(|case| (case, one)).collect::<Vec<_>>());
    let evidence = family
        .table("cures", "The same request, paired by pass with one write")
        .col("instead of one write", |row| name(row.0))
        .col("p50", |row| time_or(p50(row.0), "no round trip"))
        .judged("p50 divided by that of one write", "the same");
    let clauses = family.found().map(|(case, _, judged)| {
        format!("{} take {} times that ({})", name(case), judged.text(), verdict_word(judged.verdict, "the same"))
    });
    let clauses = clauses.collect::<Vec<_>>().join("; ");
    let open = family.all.len() - family.found().count() + family.count(Verdict::Undecided);
    let middle = range_of(p50(one).ok_or("one write has no round trip")?);
    let text = format!("One write takes {middle}; {clauses}");
    Ok(say(sure_if(open == 0 && !family.all.is_empty()), text).with(evidence))
}

/// A path with Nagle against the same without: the sender's time of each round, and how much longer it took than the other of
/// its pass.
struct Tail<'a> {
    case: &'a CaseSummary,
    times: Vec<f64>,
    longer: Vec<f64>,
}

impl Tail<'_> {
    fn most(&self) -> f64 {
        self.times.iter().copied().fold(0.0, f64::max)
    }

    /// Rounds that ended so much later, or earlier, as a delayed acknowledgement makes it.
    fn hits(&self, sign: f64) -> usize {
        self.longer.iter().filter(|ns| DELAYED_ACK.is_one(sign * **ns)).count()
    }

    fn mean(&self) -> Option<Estimate> {
        mean_of_passes(&self.longer)
    }
}

/// Whether the end of a stream waits: each path with Nagle against the same without, pass by pass.
fn tails(parts: &[Part<'_>]) -> Answered {
    let part = part(parts, "tail").ok_or("the short streams were not measured")?;
    let plan = &part.run.header.plan;
    let sent = |case: &CaseSummary| -> BTreeMap<u32, f64> {
        let rounds = part.rounds(&case.case).into_iter();
        rounds.map(|round| (round.pass, sender(plan, round).elapsed_ns as f64)).collect()
    };
    let of = |case: &'_ CaseSummary| {
        let plain = case.case.path.clone().with(Some(Setting::NoDelay));
        let other = part.find(|other| other.case.path == plain && other.case.pieces == case.case.pieces)?;
        let (with, without) = (sent(case), sent(other));
        let longer = with.iter().filter_map(|(pass, ns)| Some(ns - without.get(pass)?)).collect();
        Some((with.values().copied().collect(), longer))
    };
    let nagle = part.measured().filter(|case| case.case.path.setting == Some(Setting::Nagle));
    let tails: Vec<Tail<'_>> =
        nagle.filter_map(|case| of(case).map(|(times, longer)| Tail { case, times, longer })).collect();
    let sum = |of: &dyn Fn(&Tail<'_>) -> usize| tails.iter().map(of).sum::<usize>();
    let (waiting, turned, all) =
        (sum(&|tail| tail.hits(1.0)), sum(&|tail| tail.hits(-1.0)), sum(&|tail| tail.longer.len()));
    if all == 0 {
        return Err("no path was measured with Nagle and without it".into());
    }
    let messages = part.measured().next().map_or(0, |case| case.delivery.sent / case.rounds.max(1));
    let clauses =
        tails.iter().filter_map(|tail| Some(format!("{} {}", tail.case.case.path, range(&tail.mean()?, time))));
    let by_chance = sign_test(waiting, turned);
    let (confidence, verdict) = if waiting > turned && by_chance < 0.05 {
        let verdict = format!(
            "By chance that would be so with probability {by_chance:.2e}: a localhost row that ends 37 to 40 ms later fits \
             a last small piece that waited for a delayed acknowledgement"
        );
        (sure_if(by_chance < 0.001), verdict)
    } else {
        let verdict = format!(
            "At most {} of such streams wait so on this path (95 %), and what else delays a stream does so in both \
             directions: that the tails of localhost tables are delayed acknowledgements is not confirmed here",
            percent(upper_share(waiting, all))
        );
        (Confidence::CantTell, verdict)
    };
    let text = format!(
        "{waiting} of {all} short streams ({messages} messages each) with Nagle's algorithm end 32 to 48 ms later than the one \
         without it in the same pass, and {turned} as much earlier; the slowest took {}. On average they take longer by {}. \
         {verdict}",
        time(tails.iter().map(Tail::most).fold(0.0, f64::max)),
        clauses.collect::<Vec<_>>().join(", ")
    );
    let evidence = table("tails", "Short streams until their acknowledgement, on the sender's clock", &tails)
        .col("path", |tail| tail.case.case.path.to_string())
        .col("pieces", |tail| tail.case.case.pieces.to_string())
        .col("usual time", |tail| Cell::Time(median(&tail.times).into()))
        .col("slowest", |tail| Cell::Time(tail.most().into()))
        .col("longer than without Nagle", |tail| time_or(tail.mean().as_ref(), "too few rounds"))
        .col("32 to 48 ms longer", |tail| format!("{} of {}", tail.hits(1.0), tail.longer.len()))
        .col("shorter", |tail| Cell::count(tail.hits(-1.0) as u64));
    Ok(say(confidence, text).with(evidence))
}

/// Probability that at least `hits` of `hits + others` events fall on one of two sides that are equally likely.
fn sign_test(hits: usize, others: usize) -> f64 {
    let n = hits + others;
    let mut term = 0.5_f64.powi(n as i32);
    let mut below = 0.0;
    for k in 0..hits {
        below += term;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    (1.0 - below).max(0.0)
}

/// Upper end of the one-sided 95 % interval of a share (Clopper and Pearson): the p at which so few hits have probability
/// 0.05, by bisection.
fn upper_share(hits: usize, all: usize) -> f64 {
    let tail = |p: f64| -> f64 {
        let mut term = (1.0 - p).powi(all as i32);
        let mut sum = term;
        for k in 0..hits {
            term *= (all - k) as f64 / (k + 1) as f64 * p / (1.0 - p);
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1.0 - 1e-9);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if tail(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::testing::{answer, in_pieces, of};
    use msgpath_analyse::Logs;
    use msgpath_analyse::testing::{Build, count};

    /// Requests of one and of two writes; `slow` says in ms what two writes with Nagle take.
    fn made(slow: f64, cured: f64) -> Page {
        let paths = ["tcp:writes+nodelay", "tcp:writes+nagle", "tcp:writes+cork", "tcp:writes/quickack+nagle"];
        let build = Build::echo(&paths, &[512, 512]).factor(move |case| {
            let nagle = case.path.setting == Some(Setting::Nagle) && case.pieces.count > 1;
            match (nagle, case.path.wait.as_str()) {
                (true, "block") => slow * 50.0,
                (true, _) => cured * 50.0,
                _ => 1.0,
            }
        });
        let mut run = in_pieces(build, &[(1, 512), (2, 256)]).run();
        count(&mut run, 3, "TcpExt.DelayedACKs", 200);
        of(&[("requests", run, Logs::default())], page)
    }

    #[test]
    fn the_trap_is_proved_by_taking_each_condition_away() {
        let page = made(44.0, 0.03);
        let forty = answer(&page, "Where do 40 ms");
        assert_eq!(forty.confidence, Confidence::Sure, "{}", forty.text);
        assert!(
            forty.text.contains("2 writes with Nagle's algorithm") && forty.text.contains("1.00 delayed ACKs for each")
        );
        assert!(
            forty.text.contains("they are gone: TCP_NODELAY ") && forty.text.contains("at once (TCP_QUICKACK) "),
            "{}",
            forty.text
        );
        assert_eq!(page.tables[0].rows.len(), 8);
    }

    #[test]
    fn a_cure_that_does_not_help_is_named_and_nothing_is_proved() {
        let page = made(44.0, 44.0);
        let forty = answer(&page, "Where do 40 ms");
        assert_eq!(forty.confidence, Confidence::Likely);
        assert!(
            forty.text.contains("Not gone with a receiver that acknowledges at once (TCP_QUICKACK) 4"),
            "{}",
            forty.text
        );
    }

    #[test]
    fn where_nothing_waits_nothing_is_explained() {
        let forty = made(0.03, 0.03);
        let forty = answer(&forty, "Where do 40 ms");
        assert_eq!(forty.confidence, Confidence::CantTell);
        assert!(forty.text.starts_with("cannot be answered") && forty.text.contains("nothing waits"), "{}", forty.text);
    }

    /// Short streams of about 1 ms; in every `nth` pass the one with Nagle takes 40 ms longer.
    fn streams(nth: u32) -> String {
        let build = Build::stream(&["tcp:writes+nagle", "tcp:writes+nodelay"], &[1500]).rates(|_, _| 2.4e9);
        let mut run = in_pieces(build, &[(15, 100)]).run();
        for round in run.rounds.iter_mut().filter(|round| round.case == 0 && round.pass % nth == 0) {
            round.near_mut().elapsed_ns += 40_000_000;
        }
        let page = of(&[("tail", run, Logs::default())], page);
        answer(&page, "Does the end of a stream").text.clone()
    }

    #[test]
    fn tails_are_counted_pass_by_pass() {
        let often = streams(4);
        assert!(often.starts_with("10 of 40 short streams") && often.contains("fits a last small piece"), "{often}");
        let never = streams(1_000);
        assert!(never.starts_with("1 of 40 short streams") && never.contains("not confirmed here"), "{never}");
        assert!((sign_test(5, 0) - 1.0 / 32.0).abs() < 1e-12 && (sign_test(0, 3) - 1.0).abs() < 1e-12);
        assert!((upper_share(0, 40) - 0.0722).abs() < 1e-3 && (upper_share(1, 40) - 0.1133).abs() < 1e-3);
    }

    #[test]
    fn every_request_is_in_one_bin() {
        let build = Build::echo(&["tcp:writes+nagle"], &[512]);
        let all = of(&[("requests", build.run(), Logs::default())], |parts| waits(&parts[0]));
        assert_eq!(all[0].bins.iter().map(|bin| bin.2).sum::<u64>(), 8_000);
        assert!(all[0].bins.iter().all(|bin| bin.0 < bin.1 && bin.0 > 5_000.0), "{all:?}");
    }
}
