//! How long threads waited for a CPU, from lines of `perf sched timehist`.

use crate::parse::{Slice, Text};

use super::strip::{self, Asked, Span, Strip, cut};
use super::{Times, name};

/// A delay from here on is long, ns: a thread that is woken on an idle CPU runs a hundred times sooner.
pub const LONG_NS: u64 = 1_000_000;

/// Waiting for a CPU after a wake-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    /// All delays of the text.
    pub delays: Times,
    /// The longest, the worst first.
    pub worst: Vec<Delayed>,
    /// Threads, the one that was delayed longest in all first.
    pub threads: Vec<OfThread>,
    /// Threads without a row.
    pub more_threads: usize,
    /// Delays of [`LONG_NS`] and more.
    pub long: u64,
    /// Of them in the first tenth of the time.
    pub long_early: u64,
    /// The first tenth of the time, ns.
    pub early_ns: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delayed {
    pub thread: String,
    pub cpu: u32,
    /// When it ran at last, ns since the first moment of the text.
    pub at_ns: f64,
    /// How long it had waited, ns.
    pub delay_ns: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfThread {
    pub name: String,
    /// Times that it was on a CPU.
    pub slices: u64,
    /// On a CPU, ns.
    pub run_ns: f64,
    /// Runnable after a wake-up, ns.
    pub delay_ns: f64,
    /// The longest of these, ns.
    pub longest_ns: f64,
    /// Off the CPU otherwise, ns: asleep, or preempted.
    pub off_ns: f64,
}

/// When it got the CPU.
fn runs_at(slice: &Slice) -> u64 {
    slice.end_ns.saturating_sub(slice.run_ns)
}

/// The first moment.
pub(super) fn begin(text: &Text) -> Option<u64> {
    text.slices.iter().map(|slice| runs_at(slice).saturating_sub(slice.delay_ns)).min()
}

/// The last one.
pub(super) fn end(text: &Text) -> Option<u64> {
    text.slices.iter().map(|slice| slice.end_ns).max()
}

impl Waits {
    pub(super) fn of(text: &Text, span: Option<(u64, u64)>) -> Option<Self> {
        let delays = Times::of(text.slices.iter().map(|slice| slice.delay_ns))?;
        let (begin, end) = span?;
        let early = begin + (end - begin) / 10;
        let mut threads: Vec<OfThread> =
            text.threads.iter().map(|thread| OfThread { name: name(thread), ..OfThread::default() }).collect();
        for slice in &text.slices {
            let one = &mut threads[slice.thread as usize];
            one.slices += 1;
            one.run_ns += slice.run_ns as f64;
            one.delay_ns += slice.delay_ns as f64;
            one.longest_ns = one.longest_ns.max(slice.delay_ns as f64);
            // The delay is the end of the wait, where that is known.
            one.off_ns += slice.wait_ns.saturating_sub(slice.delay_ns) as f64;
        }
        threads.retain(|thread| thread.slices > 0);
        threads.sort_by(|a, b| b.delay_ns.total_cmp(&a.delay_ns).then_with(|| a.name.cmp(&b.name)));
        let more_threads = cut(&mut threads);
        let mut worst: Vec<&Slice> = text.slices.iter().filter(|slice| slice.delay_ns > 0).collect();
        worst.sort_by_key(|slice| (std::cmp::Reverse(slice.delay_ns), slice.end_ns));
        cut(&mut worst);
        let delayed = |slice: &&Slice| Delayed {
            thread: name(&text.threads[slice.thread as usize]),
            cpu: slice.cpu,
            at_ns: (runs_at(slice) - begin) as f64,
            delay_ns: slice.delay_ns as f64,
        };
        let long = || text.slices.iter().filter(|slice| slice.delay_ns >= LONG_NS);
        Some(Self {
            delays,
            worst: worst.iter().map(delayed).collect(),
            threads,
            more_threads,
            long: long().count() as u64,
            long_early: long().filter(|slice| runs_at(slice) <= early).count() as u64,
            early_ns: (early - begin) as f64,
        })
    }
}

/// What a lane shows; off the CPU nothing is drawn.
fn spans(text: &Text) -> impl Iterator<Item = Span> {
    text.slices.iter().flat_map(|slice| {
        let runs = runs_at(slice);
        let span = |kind, from, to| Span { thread: slice.thread, kind, from, to };
        [span(0, runs, slice.end_ns), span(1, runs.saturating_sub(slice.delay_ns), runs)]
    })
}

/// The whole, and around the longest delay.
pub(super) fn strips(text: &Text, all: (u64, u64)) -> Vec<Strip> {
    let name = |thread: u32| name(&text.threads[thread as usize]);
    let one = |window, around| {
        let kinds = vec!["on a CPU".to_owned(), "woken, waiting for a CPU".to_owned()];
        let asked = Asked { window, begin: all.0, around, kinds, name: &name, threads: text.threads.len() };
        strip::draw(asked, || spans(text))
    };
    let longest = text.slices.iter().filter(|slice| slice.delay_ns > 0).max_by_key(|slice| slice.delay_ns);
    let closer = longest.map(|slice| {
        let runs = runs_at(slice);
        let window = strip::around(all, (runs.saturating_sub(slice.delay_ns), runs));
        one(window, Some(format!("the longest wait for a CPU, of {}", name(slice.thread))))
    });
    std::iter::once(one(all, None)).chain(closer).collect()
}

#[cfg(test)]
mod tests {
    use crate::parse::{Tracer, parse};

    use super::super::{TextSummary, text};

    /// Two senders and a receiver that starts late: its delays are at the start.
    fn summary() -> TextSummary {
        let mut lines = String::from("  time cpu task name wait time  sch delay   run time\n");
        let mut line = |at_us: u64, cpu: u32, task: &str, times: [u64; 3]| {
            let [wait, delay, run] = times.map(|us| format!("{}.{:03}", us / 1_000, us % 1_000));
            let at = format!("{}.{:06}", at_us / 1_000_000, at_us % 1_000_000);
            lines += &format!("  {at} [{cpu:04}]  {task}  {wait}  {delay}  {run}\n");
        };
        line(100_000, 0, "test[10]", [0, 11_002, 5_000]);
        line(104_000, 1, "test[11/10]", [12_000, 4_000, 100]);
        for n in 0..98 {
            line(110_000 + n * 10_000, 0, "test[10]", [9_000, 20, 500]);
        }
        text(&parse(Tracer::Timehist, "x", lines.as_bytes()))
    }

    #[test]
    fn delays_are_summed_and_the_longest_are_named() {
        let summary = summary();
        let waits = summary.waits.unwrap();
        assert_eq!((waits.delays.count, waits.delays.p50_ns, waits.delays.longest_ns), (100, 20_000.0, 11_002_000.0));
        assert_eq!(waits.delays.p99_ns, 4_000_000.0);
        let worst = &waits.worst[0];
        // It ran from 95 ms on, and had waited since 83.998 ms, the first moment.
        assert_eq!((worst.thread.as_str(), worst.at_ns, worst.delay_ns), ("test[10]", 11_002_000.0, 11_002_000.0));
        assert_eq!((waits.long, waits.long_early, waits.worst.len()), (2, 2, 20));
        let thread = &waits.threads[0];
        assert_eq!((thread.name.as_str(), thread.slices), ("test[10]", 99));
        assert_eq!((thread.run_ns, thread.delay_ns), (54e6, 11_002e3 + 98.0 * 20e3));
        assert_eq!(waits.threads[1].off_ns, 8e6, "the wait has the delay in it");
        assert_eq!(summary.span_ns, Some(1_080_000_000 - 83_998_000));
    }

    #[test]
    fn lanes_show_running_and_waiting() {
        let strips = summary().strips;
        assert_eq!((strips.len(), strips[0].lanes.len(), strips[0].from_ns), (2, 2, 0));
        assert_eq!(strips[1].around.as_deref(), Some("the longest wait for a CPU, of test[10]"));
        assert_eq!(strips[0].lanes[0].sums_ns, [54e6, 11_002e3 + 98.0 * 20e3]);
        // As much again and twice that behind the longest wait: up to the second slice of this thread.
        let close = &strips[1].lanes[0];
        assert_eq!(close.sums_ns[1], 11_002e3 + 20e3);
        assert!(close.parts.iter().any(|part| part.kind == 1 && part.high == 1.0), "{close:?}");
    }
}
