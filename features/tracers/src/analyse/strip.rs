//! Threads in the course of time: a lane for each, and in each of its columns what share of that time the thread was at what.

use super::MOST;

/// Columns of a strip.
pub const COLUMNS: usize = 480;
/// Lanes of a strip.
const LANES: usize = 24;
/// Shares are told in so many steps, so that columns which look the same are one. What happened at all has a step.
const STEPS: f64 = 48.0;

/// A span of time with its lanes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strip {
    /// What it is around; `None`: all of the text.
    pub around: Option<String>,
    /// From here, ns since the first moment of the text.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
    /// What threads can be at.
    pub kinds: Vec<String>,
    /// The threads that were at any of it for longest, in the order of the text.
    pub lanes: Vec<Lane>,
    /// Threads that have no lane.
    pub left_out: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lane {
    pub name: String,
    /// How long it was at each kind, ns.
    pub sums_ns: Vec<f64>,
    /// What is drawn, from left to right.
    pub parts: Vec<Part>,
}

/// Columns that look the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// The first column.
    pub from: usize,
    /// The column behind the last.
    pub to: usize,
    /// Position of the kind.
    pub kind: usize,
    /// Of the height of the lane, from below.
    pub low: f64,
    /// See `low`.
    pub high: f64,
}

/// A thread was at something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) thread: u32,
    pub(super) kind: usize,
    /// By the clock of the text, ns.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// What of a text is drawn.
pub(super) struct Asked<'a> {
    /// Begin and end by the clock of the text, ns.
    pub(super) window: (u64, u64),
    /// The first moment of the text.
    pub(super) begin: u64,
    pub(super) around: Option<String>,
    pub(super) kinds: Vec<String>,
    pub(super) name: &'a dyn Fn(u32) -> String,
    pub(super) threads: usize,
}

/// The strip of these spans. Each costs the same however long it is.
pub(super) fn draw<I: Iterator<Item = Span>>(asked: Asked<'_>, spans: impl Fn() -> I) -> Strip {
    let Asked { window: (from, to), begin, around, kinds, name, threads } = asked;
    let to = to.max(from + 1);
    // Only what lies within the window.
    let within = |span: Span| {
        let cut = Span { from: span.from.max(from), to: span.to.min(to), ..span };
        (cut.from < cut.to).then_some(cut)
    };
    let mut sums = vec![0.0; threads];
    spans().filter_map(within).for_each(|span| sums[span.thread as usize] += (span.to - span.from) as f64);
    let mut order: Vec<usize> = (0..threads).filter(|at| sums[*at] > 0.0).collect();
    order.sort_by(|a, b| sums[*b].total_cmp(&sums[*a]).then(a.cmp(b)));
    let left_out = order.len().saturating_sub(LANES);
    order.truncate(LANES);
    order.sort_unstable();
    let mut lane_of = vec![None; threads];
    order.iter().enumerate().for_each(|(lane, thread)| lane_of[*thread] = Some(lane));
    let mut lanes = vec![Cells::new(kinds.len()); order.len()];
    let column = |at: u64| (at - from) as f64 * COLUMNS as f64 / (to - from) as f64;
    for span in spans().filter_map(within) {
        if let Some(lane) = lane_of[span.thread as usize] {
            lanes[lane].add(span.kind, (column(span.from), column(span.to)), (span.to - span.from) as f64);
        }
    }
    let lane =
        |(thread, cells): (usize, Cells)| Lane { name: name(thread as u32), parts: cells.parts(), sums_ns: cells.sums };
    Strip {
        around,
        from_ns: from - begin,
        to_ns: to - begin,
        kinds,
        lanes: order.into_iter().zip(lanes).map(lane).collect(),
        left_out,
    }
}

/// The window around something, with more before and behind it, within `all`.
pub(super) fn around(all: (u64, u64), what: (u64, u64)) -> (u64, u64) {
    let more = (what.1 - what.0).max(1_000);
    let more = more.saturating_mul(2);
    (what.0.saturating_sub(more).max(all.0), what.1.saturating_add(more).min(all.1))
}

/// The columns of a lane.
#[derive(Clone)]
struct Cells {
    kinds: usize,
    /// Of columns that spans fill in part: the share, by column and kind.
    partly: Vec<f64>,
    /// Of columns that they fill: how many more or fewer than in the column before.
    wholly: Vec<f64>,
    sums: Vec<f64>,
}

impl Cells {
    fn new(kinds: usize) -> Self {
        let empty = vec![0.0; (COLUMNS + 1) * kinds];
        Self { kinds, partly: empty.clone(), wholly: empty, sums: vec![0.0; kinds] }
    }

    fn add(&mut self, kind: usize, (from, to): (f64, f64), ns: f64) {
        self.sums[kind] += ns;
        let (first, last) = ((from as usize).min(COLUMNS - 1), (to as usize).min(COLUMNS - 1));
        let at = |column: usize| column * self.kinds + kind;
        if first == last {
            self.partly[at(first)] += to - from;
            return;
        }
        self.partly[at(first)] += (first + 1) as f64 - from;
        self.partly[at(last)] += to - last as f64;
        self.wholly[at(first + 1)] += 1.0;
        self.wholly[at(last)] -= 1.0;
    }

    /// Kinds stand on one another; together they fill a column at most.
    fn parts(&self) -> Vec<Part> {
        let mut done = Vec::new();
        let mut open: Vec<Option<Part>> = vec![None; self.kinds];
        let mut filled = vec![0.0; self.kinds];
        for column in 0..=COLUMNS {
            let mut low = 0.0;
            for (kind, (filled, open)) in filled.iter_mut().zip(open.iter_mut()).enumerate() {
                let at = column * self.kinds + kind;
                *filled += self.wholly[at];
                let share = if column == COLUMNS { 0.0 } else { *filled + self.partly[at] };
                // A rounded sum may leave a trace of what is over.
                let steps = if share > 1e-9 { (share * STEPS).round().max(1.0) } else { 0.0 };
                let high = (low + steps / STEPS).min(1.0);
                let now = (high > low).then_some((low, high));
                match open {
                    Some(part) if Some((part.low, part.high)) == now => part.to = column + 1,
                    part => {
                        done.extend(part.take());
                        *part = now.map(|(low, high)| Part { from: column, to: column + 1, kind, low, high });
                    }
                }
                low = high;
            }
        }
        done.sort_by_key(|part| (part.from, part.kind));
        done
    }
}

/// What a list has more than [`MOST`] of is cut off; how many that were.
pub(super) fn cut<T>(list: &mut Vec<T>) -> usize {
    let more = list.len().saturating_sub(MOST);
    list.truncate(MOST);
    more
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strip(spans: &[Span], window: (u64, u64)) -> Strip {
        let name = |thread: u32| format!("t{thread}");
        let kinds = vec!["a".to_owned(), "b".to_owned()];
        draw(Asked { window, begin: 0, around: None, kinds, name: &name, threads: 40 }, || spans.iter().copied())
    }

    #[test]
    fn what_lasts_is_one_part_and_what_is_short_is_seen() {
        let spans = [
            Span { thread: 3, kind: 0, from: 0, to: 480_000 },
            Span { thread: 5, kind: 1, from: 240_000, to: 240_001 },
            Span { thread: 5, kind: 0, from: 0, to: 100_500 },
        ];
        let strip = strip(&spans, (0, 480_000));
        assert_eq!(strip.lanes[0].parts, [Part { from: 0, to: 480, kind: 0, low: 0.0, high: 1.0 }]);
        let half = Part { from: 100, to: 101, kind: 0, low: 0.0, high: 0.5 };
        let seen = Part { from: 240, to: 241, kind: 1, low: 0.0, high: 1.0 / 48.0 };
        assert_eq!(strip.lanes[1].parts, [Part { from: 0, to: 100, kind: 0, low: 0.0, high: 1.0 }, half, seen]);
        assert_eq!((strip.lanes[1].name.as_str(), &strip.lanes[1].sums_ns), ("t5", &vec![100_500.0, 1.0]));
    }

    #[test]
    fn the_busiest_threads_have_lanes() {
        let spans: Vec<Span> =
            (0..40).map(|thread| Span { thread, kind: 0, from: 0, to: 1 + u64::from(thread) }).collect();
        let strip = strip(&spans, (0, 100));
        assert_eq!((strip.lanes.len(), strip.left_out), (24, 16));
        assert_eq!(strip.lanes[0].name, "t16");
    }

    #[test]
    fn a_window_stays_within_the_whole() {
        assert_eq!(around((1_000, 1_000_000), (5_000, 15_000)), (1_000, 35_000));
        assert_eq!(around((0, 10), (0, u64::MAX)), (0, 10));
    }

    proptest! {
        #[test]
        fn any_spans_fit_into_their_lanes(
            spans in prop::collection::vec((0..40_u32, 0..2_usize, 0..2_000_u64, 0..2_000_u64), 0..60),
            from in 0..1_000_u64,
            length in 0..1_000_u64,
        ) {
            let spans: Vec<Span> =
                spans.into_iter().map(|(thread, kind, from, to)| Span { thread, kind, from, to }).collect();
            let strip = strip(&spans, (from, from + length));
            for lane in &strip.lanes {
                for part in &lane.parts {
                    prop_assert!(part.from < part.to && part.to <= COLUMNS, "{part:?}");
                    prop_assert!(0.0 <= part.low && part.low < part.high && part.high <= 1.0, "{part:?}");
                }
                prop_assert!(lane.sums_ns.iter().sum::<f64>() > 0.0 && !lane.parts.is_empty());
            }
        }
    }
}
