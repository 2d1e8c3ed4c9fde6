//! In which system calls threads were, from lines of `strace` or its table.

use std::collections::BTreeMap;

use crate::parse::{Call, Text};

use super::strip::{self, Asked, Span, Strip, cut};
use super::{Times, name};

/// Calls that have a colour of their own.
const COLOURS: usize = 6;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// Of them those with a time.
    pub timed: u64,
    /// Time in them, ns.
    pub ns: f64,
    /// By name: what takes most time first.
    pub kinds: Vec<OfCall>,
    /// Names without a row.
    pub more_kinds: usize,
    /// How many failed.
    pub failed: u64,
    /// By name and error: the most frequent first.
    pub errors: Vec<OfError>,
    /// The longest, first of all.
    pub longest: Vec<LongCall>,
}

/// Calls of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfCall {
    pub name: String,
    /// How many.
    pub calls: u64,
    /// How many failed.
    pub failed: u64,
    /// Its share of the time of all; `None`: none has a time.
    pub share: Option<f64>,
    /// Time in them, ns; `None`: none has a time.
    pub ns: Option<f64>,
    /// Single times, where the text has them.
    pub times: Option<Times>,
}

/// Calls that failed alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfError {
    pub call: String,
    /// `ENOENT`.
    pub error: String,
    /// How many.
    pub count: u64,
    /// Calls of that name.
    pub of: u64,
}

/// A call that took long.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LongCall {
    pub call: String,
    pub thread: String,
    /// When it began, ns since the first moment of the text; `None`: the text does not say.
    pub at_ns: Option<f64>,
    /// How long it took, ns.
    pub ns: f64,
}

/// The first moment.
pub(super) fn begin(text: &Text) -> Option<u64> {
    text.calls.iter().filter_map(|call| call.at_ns).min()
}

/// The last one.
pub(super) fn end(text: &Text) -> Option<u64> {
    text.calls.iter().filter_map(|call| Some(call.at_ns?.saturating_add(call.took_ns.unwrap_or(0)))).max()
}

impl Calls {
    pub(super) fn of(text: &Text, span: Option<(u64, u64)>) -> Option<Self> {
        if text.calls.is_empty() {
            return None;
        }
        let name_of = |at: u32| text.names[at as usize].clone();
        let mut by_name: BTreeMap<u32, Vec<&Call>> = BTreeMap::new();
        let mut errors: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for call in &text.calls {
            by_name.entry(call.name).or_default().push(call);
            if let Some(error) = call.error {
                *errors.entry((call.name, error)).or_default() += 1;
            }
        }
        let times = Times::of(text.calls.iter().filter_map(|call| call.took_ns));
        let all_ns = times.map(|times| times.sum_ns);
        let errors = errors.into_iter().map(|((call, error), count)| OfError {
            call: name_of(call),
            error: name_of(error),
            count,
            of: by_name[&call].len() as u64,
        });
        let mut errors: Vec<OfError> = errors.collect();
        let kinds = by_name.iter().map(|(kind, calls)| {
            let times = Times::of(calls.iter().filter_map(|call| call.took_ns));
            let ns = times.map(|times| times.sum_ns);
            OfCall {
                name: name_of(*kind),
                calls: calls.len() as u64,
                failed: calls.iter().filter(|call| call.error.is_some()).count() as u64,
                share: ns.zip(all_ns).filter(|(_, all)| *all > 0.0).map(|(ns, all)| ns / all),
                ns,
                times,
            }
        });
        let mut kinds: Vec<OfCall> = kinds.collect();
        order(&mut kinds);
        errors.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.call, &a.error).cmp(&(&b.call, &b.error))));
        let failed = kinds.iter().map(|kind| kind.failed).sum();
        cut(&mut errors);
        let mut longest: Vec<(&Call, u64)> = text.calls.iter().filter_map(|call| Some((call, call.took_ns?))).collect();
        longest.sort_by_key(|(call, ns)| (std::cmp::Reverse(*ns), call.at_ns));
        cut(&mut longest);
        let long = |(call, ns): &(&Call, u64)| LongCall {
            call: name_of(call.name),
            thread: name(&text.threads[call.thread as usize]),
            at_ns: call.at_ns.zip(span).map(|(at, (begin, _))| (at - begin) as f64),
            ns: *ns as f64,
        };
        Some(Self {
            count: text.calls.len() as u64,
            timed: times.map_or(0, |times| times.count),
            ns: all_ns.unwrap_or(0.0),
            more_kinds: cut(&mut kinds),
            kinds,
            failed,
            errors,
            longest: longest.iter().map(long).collect(),
        })
    }
}

/// What takes most time first, then what is called most often.
fn order(kinds: &mut [OfCall]) {
    let key = |kind: &OfCall| (kind.ns.unwrap_or(0.0), kind.calls as f64);
    kinds.sort_by(|a, b| {
        let (a_key, b_key) = (key(a), key(b));
        b_key.0.total_cmp(&a_key.0).then(b_key.1.total_cmp(&a_key.1)).then_with(|| a.name.cmp(&b.name))
    });
}

/// The table of `strace -c`.
pub(super) fn counted(text: &Text) -> Vec<OfCall> {
    let all: f64 = text.counted.iter().map(|row| row.ns as f64).sum();
    let one = |row: &crate::parse::Counted| OfCall {
        name: row.name.clone(),
        calls: row.calls,
        failed: row.errors,
        share: (all > 0.0).then_some(row.ns as f64 / all),
        ns: Some(row.ns as f64),
        times: None,
    };
    let mut rows: Vec<OfCall> = text.counted.iter().map(one).collect();
    order(&mut rows);
    rows
}

/// The whole, and around the longest call, where calls have a begin and a time.
pub(super) fn strips(text: &Text, all: (u64, u64)) -> Vec<Strip> {
    // By position in the names: a position in the colours.
    let mut sums = vec![0.0; text.names.len()];
    let drawn = || text.calls.iter().filter_map(|call| Some((call, call.at_ns?, call.took_ns?)));
    drawn().for_each(|(call, _, ns)| sums[call.name as usize] += ns as f64);
    let mut order: Vec<usize> = (0..sums.len()).filter(|at| sums[*at] > 0.0).collect();
    if order.is_empty() {
        return Vec::new();
    }
    order.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]).then(a.cmp(b)));
    let colours = order.len().min(COLOURS);
    let mut kind_of = vec![colours; sums.len()];
    order.iter().take(colours).enumerate().for_each(|(kind, at)| kind_of[*at] = kind);
    let mut kinds: Vec<String> = order.iter().take(colours).map(|at| text.names[*at].clone()).collect();
    kinds.extend((order.len() > colours).then(|| "other calls".to_owned()));
    let kind_of = &kind_of;
    let spans = || {
        drawn().map(move |(call, from, ns)| Span {
            thread: call.thread,
            kind: kind_of[call.name as usize],
            from,
            to: from.saturating_add(ns),
        })
    };
    let name = |thread: u32| name(&text.threads[thread as usize]);
    let one = |window, around| {
        let threads = text.threads.len();
        strip::draw(Asked { window, begin: all.0, around, kinds: kinds.clone(), name: &name, threads }, spans)
    };
    let closer = drawn().max_by_key(|(.., ns)| *ns).map(|(call, from, ns)| {
        let window = strip::around(all, (from, from.saturating_add(ns)));
        one(window, Some(format!("the longest call, {} of {}", text.names[call.name as usize], name(call.thread))))
    });
    std::iter::once(one(all, None)).chain(closer).collect()
}

#[cfg(test)]
mod tests {
    use crate::parse::{Tracer, parse};

    use super::super::{TextSummary, text};

    fn summary(lines: &str) -> TextSummary {
        text(&parse(Tracer::Strace, "x", lines.as_bytes()))
    }

    const CALLS: &str = "\
7 1700000000.000000 recvfrom(3, 0, 64, 0, NULL, NULL) = 16 <0.000100>
7 1700000000.001000 recvfrom(3, 0, 64, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable) <0.000010>
8 1700000000.001500 clock_nanosleep(CLOCK_REALTIME, 0, NULL, NULL) = 0 <0.001000>
7 1700000000.002000 recvfrom(3, 0, 64, 0, NULL, NULL) = 16 <0.000400>
8 1700000000.003000 exit_group(0) = ?
";

    #[test]
    fn calls_are_summed_by_name_and_error() {
        let summary = summary(CALLS);
        let calls = summary.calls.unwrap();
        assert_eq!((calls.count, calls.timed, calls.failed, calls.ns), (5, 4, 1, 1_510_000.0));
        let names: Vec<_> = calls.kinds.iter().map(|kind| (kind.name.as_str(), kind.calls, kind.ns)).collect();
        assert_eq!(
            names,
            [("clock_nanosleep", 1, Some(1e6)), ("recvfrom", 3, Some(510_000.0)), ("exit_group", 1, None)]
        );
        let times = calls.kinds[1].times.unwrap();
        assert_eq!((times.p50_ns, times.longest_ns), (100_000.0, 400_000.0));
        assert_eq!((calls.errors[0].error.as_str(), calls.errors[0].count, calls.errors[0].of), ("EAGAIN", 1, 3));
        let long = &calls.longest[1];
        assert_eq!((long.call.as_str(), long.thread.as_str(), long.at_ns), ("recvfrom", "thread 7", Some(2e6)));
        assert_eq!(summary.span_ns, Some(3_000_000));
    }

    #[test]
    fn lanes_have_the_calls_that_take_most_time() {
        let strips = summary(CALLS).strips;
        assert_eq!((strips.len(), strips[0].kinds.len()), (2, 2));
        assert_eq!(strips[0].lanes[0].sums_ns, [0.0, 510_000.0]);
        assert_eq!(strips[1].around.as_deref(), Some("the longest call, clock_nanosleep of thread 8"));
        // Without -T or without a clock there is nothing to draw.
        assert!(summary("7 1700000000.5 read(3) = 0\n").strips.is_empty());
        let no_clock = summary("7 read(3) = 0 <0.000001>\n");
        assert!(no_clock.strips.is_empty() && no_clock.span_ns.is_none() && no_clock.calls.unwrap().timed == 1);
    }

    #[test]
    fn the_table_has_shares_of_its_own_sum() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n 25.00 0.000100 5 20 2 openat\n \
                     75.00 0.000300 1 300 read\n";
        let rows = summary(table).counted;
        let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.share, row.failed)).collect();
        assert_eq!(told, [("read", Some(0.75), 0), ("openat", Some(0.25), 2)]);
    }
}
