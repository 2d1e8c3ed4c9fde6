//! Which messages stand for a log that is too long to be shown: the slowest hundredth, what happened around the 20 slowest,
//! and an even sample of the rest.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use msgpath_core::schema::MessageRow;
use msgpath_record::{OfCase, Rows};

/// Slowest messages whose surroundings are kept.
const WORST: usize = 20;
/// How much of the surroundings, ns before the send and after the reply.
const AROUND_NS: u64 = 1_000_000;

/// What decides whether a row of a log is chosen.
pub trait Timed {
    /// Its start, ns since the start of the run.
    fn start_ns(&self) -> u64;
    /// How long it took, ns; `None`: lost.
    fn latency_ns(&self) -> Option<u64>;
    fn connection(&self) -> u32;
    /// It is rare and worth seeing, however fast it was.
    fn remarkable(&self) -> bool {
        false
    }
}

impl Timed for MessageRow {
    fn connection(&self) -> u32 {
        self.connection
    }

    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn latency_ns(&self) -> Option<u64> {
        self.latency_ns
    }
}

/// What was chosen of one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Position among the case's messages, and whether it stands for others of the rest as well. By rising position.
    pub picked: Vec<(u32, bool)>,
    /// Messages that each of those stands for, itself included; 1 where nothing was left out.
    pub weight: f64,
}

/// How many messages each case may put in, so that no more than `limit` are taken together: cases with few keep all of
/// theirs, and the others share evenly what is left.
pub fn shares(counts: &[usize], limit: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|case| counts[*case]);
    let mut shares = vec![0; counts.len()];
    let mut left = limit;
    for (at, case) in order.iter().enumerate() {
        shares[*case] = counts[*case].min(left / (order.len() - at));
        left -= shares[*case];
    }
    shares
}

/// Whether messages that start between these two times are wanted.
pub type Wanted<'a> = &'a dyn Fn(u64, u64) -> bool;
/// Takes the position of a message, and the message.
pub type Each<'a, T> = &'a mut dyn FnMut(u32, &T);
/// Goes through the messages of a case by rising start. Those that are not wanted need not come.
pub type Walk<'a, T> = dyn Fn(Wanted<'_>, Each<'_, T>) + 'a;

/// Chooses at most `budget` of the `count` messages of one case. A lost message counts as slower than any other.
pub fn select<T: Timed>(count: usize, budget: usize, walk: &Walk<'_, T>) -> Selection {
    if count <= budget {
        return Selection { picked: (0..count as u32).map(|at| (at, false)).collect(), weight: 1.0 };
    }
    let mut slowest = Top::new(count.div_ceil(100).min(budget / 2));
    // Of those that arrived, for a lost message has no end to look around.
    let mut worst = Top::new(WORST.min(budget / 4));
    let mut certain = Vec::new();
    walk(&|_, _| true, &mut |at, row| {
        slowest.offer(row.latency_ns().unwrap_or(u64::MAX), at, 0);
        if let Some(ns) = row.latency_ns() {
            worst.offer(ns, at, row.start_ns());
        }
        if row.remarkable() && certain.len() < budget / 8 {
            certain.push(at);
        }
    });
    certain.extend(slowest.into_sorted().into_iter().map(|(_, at, _)| at));
    certain.sort_unstable();
    certain.dedup();
    keep_around(&worst.into_sorted(), budget / 4, &mut certain, walk);
    // Positions among the rest become positions among all by counting those before them that are certain.
    let rest = count - certain.len();
    let places = budget - certain.len();
    let mut before = 0;
    let sampled = (0..places).map(|place| {
        let among = (2 * place + 1) * rest / (2 * places);
        while certain.get(before).is_some_and(|at| *at as usize <= among + before) {
            before += 1;
        }
        ((among + before) as u32, true)
    });
    let mut picked: Vec<(u32, bool)> = sampled.collect();
    picked.extend(certain.iter().map(|at| (*at, false)));
    picked.sort_unstable();
    Selection { picked, weight: rest as f64 / places.max(1) as f64 }
}

/// A latency, a position and a start.
type Slow = (u64, u32, u64);

/// The slowest of all that were offered; among equals the earlier ones.
struct Top {
    count: usize,
    /// The fastest of them on top.
    heap: BinaryHeap<Reverse<(u64, Reverse<u32>, u64)>>,
}

impl Top {
    fn new(count: usize) -> Self {
        Self { count, heap: BinaryHeap::with_capacity(count + 1) }
    }

    fn offer(&mut self, key: u64, at: u32, start_ns: u64) {
        let offered = Reverse((key, Reverse(at), start_ns));
        if self.heap.len() == self.count && self.heap.peek().is_none_or(|least| *least <= offered) {
            return;
        }
        self.heap.push(offered);
        if self.heap.len() > self.count {
            self.heap.pop();
        }
    }

    /// The slowest first.
    fn into_sorted(self) -> Vec<Slow> {
        self.heap
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse((key, Reverse(at), start_ns))| (key, at, start_ns))
            .collect()
    }
}

/// Adds to `certain`, which is sorted, each of these messages and those around it, the nearest first, while there is room.
fn keep_around<T: Timed>(worst: &[Slow], mut room: usize, certain: &mut Vec<u32>, walk: &Walk<'_, T>) {
    let windows: Vec<(u64, u64)> = (worst.iter())
        .map(|(ns, _, start)| (start.saturating_sub(AROUND_NS), start.saturating_add(*ns).saturating_add(AROUND_NS)))
        .collect();
    // How many lie within the window of each, before it and after it.
    let mut around = vec![(0_u32, 0_u32); worst.len()];
    walk(&|first, last| windows.iter().any(|(from, to)| first <= *to && last >= *from), &mut |at, row| {
        for (((from, to), (_, own, _)), (before, after)) in windows.iter().zip(worst).zip(&mut around) {
            *before += u32::from(at < *own && row.start_ns() >= *from);
            *after += u32::from(at > *own && row.start_ns() <= *to);
        }
    });
    let mut kept: BTreeSet<u32> = certain.iter().copied().collect();
    for ((_, own, _), (before, after)) in worst.iter().zip(around) {
        let back = (1..=before).map(|by| Some(own - by)).chain(std::iter::repeat(None));
        let forth = (1..=after).map(|by| Some(own + by)).chain(std::iter::repeat(None));
        let pairs = back.zip(forth).take(before.max(after) as usize).flat_map(|(back, forth)| [back, forth]);
        for at in std::iter::once(*own).chain(pairs.flatten()) {
            if !kept.contains(&at) {
                if room == 0 {
                    break;
                }
                room -= 1;
                kept.insert(at);
            }
        }
    }
    *certain = kept.into_iter().collect();
}

/// The walk through rows in memory, which come by rising start.
#[cfg(test)]
fn in_memory<'a, T: 'a>(rows: impl Iterator<Item = &'a T> + Clone) -> impl Fn(Wanted<'_>, Each<'_, T>) {
    move |_, each| rows.clone().zip(0..).for_each(|(row, at)| each(at, row))
}

/// The messages, or the calls, of one case that stand for it.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseSample<T = MessageRow> {
    /// Id of the case.
    pub case: u32,
    /// How many were chosen.
    pub kept: usize,
    /// How many the log has.
    pub logged: usize,
    /// How many a sampled one stands for.
    pub weight: f64,
    /// Highest connection number and one.
    pub connections: u32,
    /// The messages by rising start, and whether each is sampled.
    pub rows: Vec<(T, bool)>,
}

/// The rows of one case, by rising start: rounds follow each other, and within one connections may mix.
struct Own<'a, T> {
    messages: &'a dyn Rows<T>,
    case: u32,
    count: usize,
    /// Of each pass the position of its first message, and its first and last start, as far as they are known.
    rounds: BTreeMap<u32, (usize, Cell<(u64, u64)>)>,
}

impl<T: Timed + OfCase> Own<'_, T> {
    /// As [`Walk`].
    fn walk(&self, wanted: Wanted<'_>, each: Each<'_, T>) {
        let is_wanted = |case: u32, pass: u32| {
            let starts = self.rounds.get(&pass).filter(|_| case == self.case).map(|(_, starts)| starts.get());
            starts.is_some_and(|(first, last)| wanted(first, last))
        };
        self.messages.rounds(&is_wanted, &mut |rows| {
            let Some((base, starts)) = self.rounds.get(&rows[0].place().1) else { return };
            let mut order: Vec<&T> = rows.iter().collect();
            order.sort_by_key(|row| (row.start_ns(), row.connection()));
            starts.set((order[0].start_ns(), order[order.len() - 1].start_ns()));
            order.into_iter().zip(*base as u32..).for_each(|(row, at)| each(at, row));
        });
    }
}

/// Chooses at most `limit` of the logged messages, or calls, of these cases.
pub fn messages<T: Timed + OfCase + Copy>(messages: &dyn Rows<T>, cases: &[u32], limit: usize) -> Vec<CaseSample<T>> {
    let mut all: Vec<Own<'_, T>> =
        cases.iter().map(|case| Own { messages, case: *case, count: 0, rounds: BTreeMap::new() }).collect();
    for (case, pass, count) in messages.index() {
        if let Some(own) = all.iter_mut().find(|own| own.case == case) {
            own.rounds.insert(pass, (own.count, Cell::new((0, u64::MAX))));
            own.count += count;
        }
    }
    let counts: Vec<usize> = all.iter().map(|own| own.count).collect();
    let mut cases = Vec::new();
    for (own, share) in all.iter().zip(shares(&counts, limit)) {
        let selection = select::<T>(own.count, share, &|wanted, each| own.walk(wanted, each));
        if selection.picked.is_empty() {
            continue;
        }
        let mut picked = selection.picked.iter().peekable();
        let mut rows = Vec::with_capacity(selection.picked.len());
        let mut connections = 0;
        own.walk(&|_, _| true, &mut |at, row| {
            connections = connections.max(row.connection().saturating_add(1));
            if let Some((_, sampled)) = picked.next_if(|(next, _)| *next == at) {
                rows.push((*row, *sampled));
            }
        });
        let (kept, logged) = (rows.len(), own.count);
        cases.push(CaseSample { case: own.case, kept, logged, weight: selection.weight, connections, rows });
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(start_ns: u64, latency_ns: Option<u64>) -> MessageRow {
        MessageRow { start_ns, latency_ns, ..MessageRow::default() }
    }

    fn choose(rows: &[MessageRow], budget: usize) -> Selection {
        select::<MessageRow>(rows.len(), budget, &in_memory(rows.iter()))
    }

    #[test]
    fn budgets_go_to_those_who_need_them() {
        assert_eq!(shares(&[10, 100, 1_000], 300), [10, 100, 190]);
        assert_eq!(shares(&[1_000, 1_000, 5], 105), [50, 50, 5]);
        assert_eq!(shares(&[7, 8], 100), [7, 8]);
        assert_eq!(shares(&[5, 5, 5], 2).iter().sum::<usize>(), 2);
        assert!(shares(&[], 5).is_empty());
    }

    #[test]
    fn few_messages_are_all_there() {
        let rows: Vec<_> = (0..5).map(|n| row(n * 10, Some(n))).collect();
        let all = choose(&rows, 5);
        assert_eq!((all.picked.len(), all.weight), (5, 1.0));
        assert!(all.picked.iter().all(|(_, sampled)| !sampled));
        assert!(choose(&rows, 0).picked.is_empty());
    }

    #[test]
    fn the_tail_and_what_is_around_the_worst_are_all_there() {
        // One message a 10 us; every hundredth is slow, one is very slow, one is lost.
        let rows: Vec<_> = (0..100_000_u64)
            .map(|n| match n {
                50_000 => row(n * 10_000, Some(40_000_000)),
                70_000 => row(n * 10_000, None),
                n if n % 200 == 7 => row(n * 10_000, Some(90_000 + n)),
                n => row(n * 10_000, Some(8_000 + n % 10)),
            })
            .collect();
        let chosen = choose(&rows, 10_000);
        assert_eq!(chosen.picked.len(), 10_000);
        let certain: Vec<u32> = chosen.picked.iter().filter(|(_, sampled)| !sampled).map(|(at, _)| *at).collect();
        for slow in (0..100_000).filter(|n| n % 200 == 7).chain([50_000, 70_000]) {
            assert!(certain.binary_search(&slow).is_ok(), "{slow}");
        }
        // The surroundings of the very slow one, as far as a quarter of the budget goes: the nearest.
        assert!((49_900..51_200).all(|at| certain.binary_search(&at).is_ok()));
        assert!(certain.len() <= 1_000 + 2_500);
        // The rest is even: what each stands for adds up, and no long stretch is missing.
        let sampled = 10_000 - certain.len();
        assert!((chosen.weight * sampled as f64 + certain.len() as f64 - 100_000.0).abs() < 1e-6);
        assert!(chosen.picked.windows(2).all(|pair| pair[1].0 - pair[0].0 <= 40));
    }

    #[test]
    fn nothing_but_lost_messages_is_still_sampled() {
        let mut rows: Vec<_> = (0..1_000).map(|n| row(n * 2_000_000, None)).collect();
        let chosen = choose(&rows, 100);
        assert_eq!(chosen.picked.len(), 100);
        assert!(chosen.picked.last().is_some_and(|(at, _)| *at > 980));
        // The one that arrived is the slowest there is, however many are lost.
        rows[777].latency_ns = Some(5);
        assert!(choose(&rows, 100).picked.contains(&(777, false)));
    }

    proptest! {
        #[test]
        fn never_more_than_asked_and_everything_is_stood_for(
            latencies in prop::collection::vec(prop::option::of(0_u64..10_000_000), 1..600),
            gap in 0_u64..400_000,
            budget in 1_usize..700,
        ) {
            let rows: Vec<_> = latencies.iter().enumerate().map(|(n, ns)| row(n as u64 * gap, *ns)).collect();
            let chosen = choose(&rows, budget);
            prop_assert_eq!(chosen.picked.len(), budget.min(rows.len()));
            prop_assert!(chosen.picked.windows(2).all(|pair| pair[0].0 < pair[1].0));
            let sampled = chosen.picked.iter().filter(|(_, sampled)| *sampled).count();
            let stood_for = sampled as f64 * chosen.weight + (chosen.picked.len() - sampled) as f64;
            prop_assert!((stood_for - rows.len() as f64).abs() < 1e-6);
            let slowest = latencies.iter().map(|ns| ns.unwrap_or(u64::MAX)).max();
            if budget >= 4 {
                prop_assert!(chosen.picked.iter().any(|(at, _)| latencies[*at as usize].or(Some(u64::MAX)) == slowest));
            }
        }
    }
}
