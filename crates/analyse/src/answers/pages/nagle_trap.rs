//! The page of the preset `nagle-trap`: requests in several writes, and what makes them wait 40 or 200 ms.

use msgpath_core::SparseHistogram;
use msgpath_core::path::Setting;
use msgpath_core::plan::Metric;
use msgpath_stats::describe::median;
use msgpath_stats::pooled::Pooled;
use msgpath_stats::verdict::{LEAST_MARGIN, Verdict};

use crate::answers::evidence::{
    counted, judged, mean_of_passes, measured, p50, quantile, range, range_of, rose, rounds, share, time,
};
use crate::answers::{Answer, Cell, Page, Part, Table, part};
use crate::findings::modes::{CORKED, DELAYED_ACK};
use crate::series::sender;
use crate::summary::{CaseSummary, Confidence};

/// A p50 from here on is one of the kernel's timers, ns.
const SLOW: f64 = 30e6;
/// A p50 up to here is none, ns.
const QUICK: f64 = 10e6;

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
    measured(part).map(of).collect()
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let requests = part(parts, "requests");
    let tables = requests.iter().map(matrix).collect();
    let answers = vec![
        forty(requests.as_ref()),
        two_hundred(part(parts, "held").as_ref()),
        cures(requests.as_ref()),
        tails(part(parts, "tail").as_ref()),
    ];
    Page { tables, answers, ..Page::default() }
}

fn pooled(part: &Part<'_>, case: &CaseSummary) -> Pooled {
    let histograms: Vec<&SparseHistogram> = rounds(part, &case.case).into_iter().map(|round| &round.latency).collect();
    Pooled::new(&histograms)
}

/// `2 writes, nagle, quickack`.
fn name(case: &CaseSummary) -> String {
    let path = &case.case.path;
    let mut name = counted(case.case.pieces.count as usize, "write");
    if let Some(setting) = path.setting {
        name += &format!(", {}", setting.name());
    }
    if path.wait != msgpath_core::path::DEFAULT_WAIT {
        name += &format!(", {}", path.wait);
    }
    name
}

fn matrix(part: &Part<'_>) -> Table {
    let columns = ["writes", "setting", "receiver", "p50", "p99", "slowest", "wait 40 ms", "delayed ACKs", "calls"];
    let mut table = Table::new("matrix", "A request of 512 bytes in so many writes", &columns);
    for case in measured(part) {
        let path = &case.case.path;
        let delayed = rose(part, case, "TcpExt.DelayedACKs").and_then(|count| case.per_message(count));
        table.row([
            Cell::count(case.case.pieces.count.into()),
            Cell::text(path.setting.map_or("-", Setting::name)),
            Cell::text(if path.wait == "quickack" { "acknowledges at once" } else { "delays" }),
            Cell::or_missing(p50(case).and_then(|p50| p50.ns).map(|ns| ns as f64), Cell::Time, "lost"),
            Cell::or_missing(quantile(case, 0.99).and_then(|p99| p99.ns).map(|ns| ns as f64), Cell::Time, "lost"),
            Cell::or_missing(case.slowest_ns.map(|ns| ns as f64), Cell::Time, "no round trip"),
            Cell::or_missing(DELAYED_ACK.share(&pooled(part, case)), Cell::Share, "no round trip"),
            Cell::or_missing(delayed, Cell::Number, "the counter cannot be read"),
            Cell::or_missing(case.per_message(case.near_calls.total_calls()), Cell::Number, "no message was sent"),
        ]);
    }
    table.note(
        "Wait 40 ms: 32 to 48 ms, or twice that where request and reply both wait. 'Receiver' is how both ends \
         acknowledge. Delayed ACKs: of the network namespace, trimmed messages included, per measured message. 200 \
         requests are too few for p99.",
    )
}

/// The case of so many writes, this setting and this wait.
fn find<'a>(part: &Part<'a>, writes: u32, setting: Setting, wait: &str) -> Option<&'a CaseSummary> {
    measured(part).find(|case| {
        let path = &case.case.path;
        case.case.pieces.count == writes && path.setting == Some(setting) && path.wait == wait
    })
}

/// The case with Nagle, delayed acknowledgements and several writes; the fewest of them.
pub(crate) fn trap<'a>(part: &Part<'a>) -> Option<&'a CaseSummary> {
    let several = measured(part).filter(|case| {
        let path = &case.case.path;
        p50(case).is_some()
            && case.case.pieces.count > 1
            && path.setting == Some(Setting::Nagle)
            && path.wait == "block"
    });
    several.min_by_key(|case| case.case.pieces.count)
}

/// The trap with one of its conditions taken away, and which.
pub(crate) fn without<'a>(part: &Part<'a>, trap: &CaseSummary) -> Vec<(&'static str, &'a CaseSummary)> {
    let writes = trap.case.pieces.count;
    [
        ("TCP_NODELAY", find(part, writes, Setting::NoDelay, "block")),
        ("a cork that is released after each request", find(part, writes, Setting::Cork, "block")),
        ("one write instead", find(part, 1, Setting::Nagle, "block")),
        ("a receiver that acknowledges at once (TCP_QUICKACK)", find(part, writes, Setting::Nagle, "quickack")),
    ]
    .into_iter()
    .filter_map(|(what, case)| Some((what, case?)))
    .collect()
}

/// Whether the whole interval of the p50 lies at or above `SLOW`.
fn waits_surely(case: &CaseSummary) -> bool {
    p50(case).is_some_and(|p50| p50.is_interval() && p50.lo_ns.is_some_and(|ns| ns as f64 >= SLOW))
}

/// Whether the whole interval of the p50 lies at or below `QUICK`.
fn is_quick_surely(case: &CaseSummary) -> bool {
    p50(case).is_some_and(|p50| p50.is_interval() && p50.hi_ns.is_some_and(|ns| ns as f64 <= QUICK))
}

fn forty(part: Option<&Part<'_>>) -> Answer {
    forty_ms(part, "Where do 40 ms come from?")
}

/// The answer on the 40 ms, for the page and for the claim.
pub(crate) fn forty_ms(part: Option<&Part<'_>>, question: &str) -> Answer {
    let Some((part, trap)) = part.and_then(|part| Some((part, trap(part)?))) else {
        return Answer::cannot(question, "no case with Nagle's algorithm and several writes was measured");
    };
    let Some(middle) = p50(trap) else { return Answer::cannot(question, "no round trip was measured") };
    let share_of = |case: &CaseSummary| DELAYED_ACK.share(&pooled(part, case)).unwrap_or(0.0);
    if share_of(trap) < 0.05 {
        let text = format!(
            "{} with Nagle take {}, and {} of them lie near 40 ms: nothing waits for a delayed acknowledgement here",
            counted(trap.case.pieces.count as usize, "write"),
            range_of(middle),
            share(share_of(trap))
        );
        return Answer::cannot(question, text);
    }
    let mut text = format!(
        "{} with Nagle's algorithm and a receiver that delays its acknowledgements take {}, and {} of the requests wait for \
         40 ms",
        counted(trap.case.pieces.count as usize, "write"),
        range_of(middle),
        share(share_of(trap))
    );
    if let Some(each) = rose(part, trap, "TcpExt.DelayedACKs").and_then(|count| trap.per_message(count)) {
        text += &format!(", with {} delayed ACKs for each", msgpath_core::units::three_digits(each));
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
    text += ": the second write waits until the first is acknowledged (Nagle), and the receiver, which has nothing to say \
             before the request is whole, keeps the acknowledgement back for 40 ms";
    let proved = waits_surely(trap) && still.is_empty() && cured.len() == taken.len() && cured.len() >= 2;
    let confidence = if proved { Confidence::Sure } else { Confidence::Likely };
    Answer::new(question, confidence, text + ".").next("msgpath explain -x tcp:writes --pieces 2x256 --no-nodelay")
}

fn two_hundred(part: Option<&Part<'_>>) -> Answer {
    let question = "And 200 ms?";
    let Some((part, case)) = part.and_then(|part| Some((part, measured(part).next()?))) else {
        return Answer::cannot(question, "the run with a cork that is never released is missing");
    };
    let Some(middle) = p50(case) else { return Answer::cannot(question, "no round trip was measured") };
    let held = CORKED.share(&pooled(part, case)).unwrap_or(0.0);
    let text = format!(
        "Under a cork that is never released (TCP_CORK set once) {} take {}; {} of them lie where the kernel sends what is \
         corked by itself, after 200 ms for each direction",
        counted(case.case.pieces.count as usize, "write"),
        range_of(middle),
        share(held)
    );
    let timeouts = rose(part, case, "TcpExt.TCPTimeouts");
    let text = match timeouts {
        Some(0) => text + ". No retransmission timer ran out meanwhile, whose least time is 200 ms as well",
        Some(count) => {
            text + &format!(". {count} retransmission timers ran out meanwhile, whose least time is 200 ms as well")
        }
        None => text,
    };
    let surely = held > 0.5 && timeouts == Some(0);
    let confidence = if surely {
        Confidence::Sure
    } else if held >= 0.05 {
        Confidence::Likely
    } else {
        Confidence::CantTell
    };
    Answer::new(question, confidence, text + ".").next("msgpath echo --hold-cork -c 50")
}

/// What each cure costs beside a single write.
fn cures(part: Option<&Part<'_>>) -> Answer {
    let question = "Which cure costs least?";
    let Some(part) = part else { return Answer::cannot(question, "the requests were not measured") };
    let most = measured(part).map(|case| case.case.pieces.count).max().unwrap_or(1);
    let Some(one) = find(part, 1, Setting::NoDelay, "block").filter(|_| most > 1) else {
        return Answer::cannot(
            question,
            "one write with TCP_NODELAY, which the others are compared with, was not measured",
        );
    };
    let pairs: Vec<(&CaseSummary, &CaseSummary)> = [
        find(part, most, Setting::NoDelay, "block"),
        find(part, most, Setting::Cork, "block"),
        find(part, most, Setting::Nagle, "quickack"),
    ]
    .into_iter()
    .flatten()
    .map(|case| (case, one))
    .collect();
    let found = judged(part, Metric::P50, LEAST_MARGIN, &pairs);
    let columns = ["instead of one write", "p50", "p50 divided by that of one write", "verdict"];
    let mut table = Table::new("cures", "The same request, paired by pass with one write", &columns);
    let mut told = Vec::new();
    let mut decided = !found.is_empty();
    for ((case, _), judged) in pairs.iter().zip(&found) {
        let verdict = match judged.as_ref().map(|judged| judged.verdict) {
            Some(Verdict::Better) => "faster",
            Some(Verdict::Worse) => "slower",
            Some(Verdict::Equivalent) => "the same",
            _ => "not decided",
        };
        decided &= verdict != "not decided";
        table.row([
            Cell::text(name(case)),
            Cell::or_missing(p50(case), Cell::Time, "no round trip"),
            Cell::or_missing(judged.as_ref().map(|judged| &judged.ratio), Cell::Ratio, "no pass in common"),
            Cell::text(verdict),
        ]);
        if let Some(judged) = judged {
            told.push(format!("{} take {} times that ({verdict})", name(case), judged.text()));
        }
    }
    let Some(middle) = p50(one) else { return Answer::cannot(question, "one write has no round trip") };
    let text = format!("One write takes {}; {}", range_of(middle), told.join("; "));
    Answer::new(question, if decided { Confidence::Sure } else { Confidence::Likely }, text + ".").with(table)
}

/// Whether the end of a stream waits: each path with Nagle against the same without, pass by pass.
fn tails(part: Option<&Part<'_>>) -> Answer {
    let question = "Does the end of a stream wait 40 ms as well, as localhost tables of write shapes suggest?";
    let Some(part) = part else { return Answer::cannot(question, "the short streams were not measured") };
    let plan = &part.run.header.plan;
    let sent = |case: &CaseSummary| -> std::collections::BTreeMap<u32, f64> {
        rounds(part, &case.case).into_iter().map(|round| (round.pass, sender(plan, round).elapsed_ns as f64)).collect()
    };
    let columns =
        ["path", "pieces", "usual time", "slowest", "longer than without Nagle", "32 to 48 ms longer", "shorter"];
    let mut table = Table::new("tails", "Short streams until their acknowledgement, on the sender's clock", &columns);
    let (mut waiting, mut turned, mut all, mut slowest) = (0, 0, 0, 0.0_f64);
    let mut told = Vec::new();
    for case in measured(part).filter(|case| case.case.path.setting == Some(Setting::Nagle)) {
        let plain = case.case.path.clone().with(Some(Setting::NoDelay));
        let Some(other) =
            measured(part).find(|other| other.case.path == plain && other.case.pieces == case.case.pieces)
        else {
            continue;
        };
        let (with, without) = (sent(case), sent(other));
        let longer: Vec<f64> = with.iter().filter_map(|(pass, ns)| Some(ns - without.get(pass)?)).collect();
        let hits = longer.iter().filter(|ns| DELAYED_ACK.is_one(**ns)).count();
        let reverse = longer.iter().filter(|ns| DELAYED_ACK.is_one(-**ns)).count();
        turned += reverse;
        let times: Vec<f64> = with.values().copied().collect();
        let most = times.iter().copied().fold(0.0, f64::max);
        (waiting, all, slowest) = (waiting + hits, all + longer.len(), slowest.max(most));
        table.row([
            Cell::text(case.case.path.to_string()),
            Cell::text(case.case.pieces.to_string()),
            Cell::Time(median(&times).into()),
            Cell::Time(most.into()),
            Cell::or_missing(mean_of_passes(&longer).as_ref(), Cell::Time, "too few rounds"),
            Cell::text(format!("{hits} of {}", longer.len())),
            Cell::count(reverse as u64),
        ]);
        if let Some(mean) = mean_of_passes(&longer) {
            told.push(format!("{} {}", case.case.path, range(&mean, &time)));
        }
    }
    if all == 0 {
        return Answer::cannot(question, "no path was measured with Nagle and without it");
    }
    let messages = measured(part).next().map_or(0, |case| case.delivery.sent / case.rounds.max(1));
    let mut text = format!(
        "{waiting} of {all} short streams ({messages} messages each) with Nagle's algorithm end 32 to 48 ms later than the one \
         without it in the same pass, and {turned} as much earlier; the slowest took {}. On average they take longer by {}",
        time(slowest),
        told.join(", ")
    );
    let by_chance = sign_test(waiting, turned);
    let confidence = if waiting > turned && by_chance < 0.05 {
        text += &format!(
            ". By chance that would be so with probability {by_chance:.2e}: a localhost row that ends 37 to 40 ms later fits a \
             last small piece that waited for a delayed acknowledgement"
        );
        if by_chance < 0.001 { Confidence::Sure } else { Confidence::Likely }
    } else {
        text += &format!(
            ". At most {} of such streams wait so on this path (95 %), and what else delays a stream does so in both \
             directions: that the tails of localhost tables are delayed acknowledgements is not confirmed here",
            share(upper_share(waiting, all))
        );
        Confidence::CantTell
    };
    Answer::new(question, confidence, text + ".").with(table)
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
    use crate::Logs;
    use crate::answers::evidence::tests::{answer, in_pieces, of};
    use crate::testing::{Build, count};

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
            round.near.elapsed_ns += 40_000_000;
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
