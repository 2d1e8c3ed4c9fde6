//! What texts of tracers of others (`perf sched timehist`, `strace`) say of threads: how long they waited for a CPU, in which
//! calls they were, and when. Numbers of the texts only: nothing is said of why.

mod calls;
mod strip;
mod waits;

use msgpath_analyse::verify::{Check, Verification, Versions};
use msgpath_present::words::counted;
use msgpath_stats::describe::percentile;

use crate::parse::{Lines, Text, Thread, Tracer};
use crate::record::TracersHeader;

pub use calls::{Calls, LongCall, OfCall, OfError};
pub use strip::{COLUMNS, Lane, Part, Strip};
pub use waits::{Delayed, LONG_NS, OfThread, Waits};

/// Rows of every table: threads, calls, errors, the longest.
pub const MOST: usize = 20;

/// Imported texts, each by itself: their clocks have nothing to do with each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TracersSummary {
    /// Name of the record.
    pub name: String,
    /// A title that the user gave.
    pub title: Option<String>,
    /// What each says.
    pub texts: Vec<TextSummary>,
}

/// What one text says.
#[derive(Clone, Debug, PartialEq)]
pub struct TextSummary {
    /// Who printed it.
    pub tracer: Tracer,
    pub file: String,
    /// What became of its lines.
    pub lines: Lines,
    pub threads: u64,
    /// From the first moment to the last, ns; `None`: the text has no times of the clock.
    pub span_ns: Option<u64>,
    /// Of `perf sched timehist`.
    pub waits: Option<Waits>,
    /// Of the calls of `strace`.
    pub calls: Option<Calls>,
    /// Of the table of `strace -c`: what takes most time first.
    pub counted: Vec<OfCall>,
    /// Threads in the course of time: the whole, and around the longest delay or call.
    pub strips: Vec<Strip>,
}

/// Times of something that happened several times.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// All of them together, ns.
    pub sum_ns: f64,
    /// The middle one, ns.
    pub p50_ns: f64,
    /// 99 of 100 are shorter, ns.
    pub p99_ns: f64,
    pub longest_ns: f64,
}

impl Times {
    /// `None`: there is none.
    fn of(times: impl Iterator<Item = u64>) -> Option<Self> {
        let mut all: Vec<f64> = times.map(|ns| ns as f64).collect();
        if all.is_empty() {
            return None;
        }
        let [p50_ns, p99_ns, longest_ns] = [0.5, 0.99, 1.0].map(|p| percentile(&mut all, p));
        Some(Self { count: all.len() as u64, sum_ns: all.iter().sum(), p50_ns, p99_ns, longest_ns })
    }
}

/// What the texts say.
pub fn summarise(header: &TracersHeader, texts: &[Text]) -> TracersSummary {
    TracersSummary { name: header.name.clone(), title: header.title.clone(), texts: texts.iter().map(text).collect() }
}

fn text(text: &Text) -> TextSummary {
    let begin = [waits::begin(text), calls::begin(text)].into_iter().flatten().min();
    let end = [waits::end(text), calls::end(text)].into_iter().flatten().max();
    let span = begin.zip(end).map(|(begin, end)| (begin, end.max(begin)));
    let (waits, calls) = (Waits::of(text, span), Calls::of(text, span));
    let strips = span.map_or_else(Vec::new, |span| match text.tracer {
        Tracer::Timehist => waits::strips(text, span),
        Tracer::Strace => calls::strips(text, span),
    });
    TextSummary {
        tracer: text.tracer,
        file: text.file.clone(),
        lines: text.lines.clone(),
        threads: text.threads.len() as u64,
        span_ns: span.map(|(begin, end)| end - begin),
        waits,
        calls,
        counted: calls::counted(text),
        strips,
    }
}

/// Checks texts of tracers that were read: each fits its checksum, and no other number is stored.
pub fn verify(header: &TracersHeader, texts: usize, version: &str) -> Verification {
    Verification {
        verb: "import".into(),
        name: header.name.clone(),
        texts: texts as u64,
        compared: vec![("texts", format!("{} as imported", counted(texts as u64, "text")))],
        ..Check::default().verified(None, Versions { written_by: &header.version, checked_by: version })
    }
}

/// `test[813/812]`, as perf writes it; `thread 813` where there is no name.
fn name(thread: &Thread) -> String {
    let id = match (thread.tid, thread.pid) {
        (Some(tid), Some(pid)) if tid != pid => format!("{tid}/{pid}"),
        (Some(tid), _) => tid.to_string(),
        (None, _) => return "the traced thread".into(),
    };
    if thread.name.is_empty() { format!("thread {id}") } else { format!("{}[{id}]", thread.name) }
}
