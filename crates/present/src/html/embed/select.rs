//! Which messages go into the page: the slowest hundredth, what happened around the 20 slowest,
//! and an even sample of the rest.

use msgpath_core::schema::{MessageRow, RpcRow};

/// Slowest messages whose surroundings are kept.
const WORST: usize = 20;
/// How much of the surroundings, ns before the send and after the reply.
const AROUND_NS: u64 = 1_000_000;

/// What decides whether a row of a log is chosen.
pub(crate) trait Timed {
    /// Its start, ns since the start of the run.
    fn start_ns(&self) -> u64;
    /// How long it took, ns; `None`: lost.
    fn latency_ns(&self) -> Option<u64>;
    /// It is rare and worth seeing, however fast it was.
    fn remarkable(&self) -> bool {
        false
    }
}

impl Timed for MessageRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn latency_ns(&self) -> Option<u64> {
        self.latency_ns
    }
}

impl Timed for RpcRow {
    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn latency_ns(&self) -> Option<u64> {
        self.latency_ns
    }

    fn remarkable(&self) -> bool {
        self.status != 0
    }
}

/// What was chosen of one case.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// Position among the case's messages, and whether it stands for others of the rest as well. By rising position.
    pub(crate) picked: Vec<(u32, bool)>,
    /// Messages that each of those stands for, itself included; 1 where nothing was left out.
    pub(crate) weight: f64,
}

/// How many messages each case may put in, so that no more than `limit` are taken together: cases with few keep all of
/// theirs, and the others share evenly what is left.
pub(crate) fn shares(counts: &[usize], limit: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|case| counts[*case]);
    let (mut shares, mut left) = (vec![0; counts.len()], limit);
    for (at, case) in order.iter().enumerate() {
        shares[*case] = counts[*case].min(left / (order.len() - at));
        left -= shares[*case];
    }
    shares
}

/// Chooses at most `budget` of the messages of one case, which come by rising start. A lost message counts as slower
/// than any other.
pub(crate) fn select<T: Timed>(rows: &[&T], budget: usize) -> Selection {
    if rows.len() <= budget {
        return Selection { picked: (0..rows.len() as u32).map(|at| (at, false)).collect(), weight: 1.0 };
    }
    let mut certain = vec![false; rows.len()];
    for at in first(rows, rows.len().div_ceil(100).min(budget / 2), |row| row.latency_ns().unwrap_or(u64::MAX)) {
        certain[at as usize] = true;
    }
    let rare = (0..rows.len()).filter(|at| rows[*at].remarkable());
    rare.take(budget / 8).for_each(|at| certain[at] = true);
    // Of those that arrived, for a lost message has no end to look around.
    let mut worst = first(rows, WORST.min(budget / 4), |row| row.latency_ns().map_or(0, |ns| ns.saturating_add(1)));
    worst.sort_unstable_by_key(|at| (std::cmp::Reverse(rows[*at as usize].latency_ns()), *at));
    let mut room = budget / 4;
    for at in worst.into_iter().filter(|at| rows[*at as usize].latency_ns().is_some()) {
        keep_around(rows, at as usize, &mut certain, &mut room);
    }
    let rest: Vec<u32> = (0..rows.len() as u32).filter(|at| !certain[*at as usize]).collect();
    let places = budget - (rows.len() - rest.len());
    let mut picked: Vec<(u32, bool)> =
        (0..rows.len() as u32).filter(|at| certain[*at as usize]).map(|at| (at, false)).collect();
    picked.extend((0..places).map(|place| (rest[(2 * place + 1) * rest.len() / (2 * places)], true)));
    picked.sort_unstable();
    Selection { picked, weight: rest.len() as f64 / places.max(1) as f64 }
}

/// Positions of the `count` messages with the highest key, by position; among equals the earlier ones.
fn first<T>(rows: &[&T], count: usize, key: impl Fn(&T) -> u64) -> Vec<u32> {
    if count == 0 {
        return Vec::new();
    }
    // Keys side by side: a million messages do not fit into the cache.
    let keys: Vec<u64> = rows.iter().map(|row| key(row)).collect();
    let mut by_size = keys.clone();
    let (above, least, _) = by_size.select_nth_unstable_by(count.min(rows.len()) - 1, |a, b| b.cmp(a));
    let mut equals = count - above.iter().filter(|key| *key > least).count();
    let mut taken = |key: u64| {
        let equal = key == *least && equals > 0;
        equals -= usize::from(equal);
        key > *least || equal
    };
    (0..rows.len() as u32).filter(|at| taken(keys[*at as usize])).collect()
}

/// Marks the message at `at` and those around it, the nearest first, while there is room.
fn keep_around<T: Timed>(rows: &[&T], at: usize, certain: &mut [bool], room: &mut usize) {
    let from = rows[at].start_ns().saturating_sub(AROUND_NS);
    let to = rows[at].start_ns().saturating_add(rows[at].latency_ns().unwrap_or(0)).saturating_add(AROUND_NS);
    let (mut before, mut after) = (at, at);
    // Whether it is marked; `false`: there is no room left.
    let mut mark = |at: usize| {
        if !certain[at] && *room > 0 {
            (certain[at], *room) = (true, *room - 1);
        }
        certain[at]
    };
    if !mark(at) {
        return;
    }
    loop {
        let back = before.checked_sub(1).filter(|next| rows[*next].start_ns() >= from);
        let forth = Some(after + 1).filter(|next| *next < rows.len() && rows[*next].start_ns() <= to);
        if back.is_none() && forth.is_none() {
            return;
        }
        (before, after) = (back.unwrap_or(before), forth.unwrap_or(after));
        if !back.into_iter().chain(forth).all(&mut mark) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row(start_ns: u64, latency_ns: Option<u64>) -> MessageRow {
        MessageRow { start_ns, latency_ns, ..MessageRow::default() }
    }

    fn choose(rows: &[MessageRow], budget: usize) -> Selection {
        select(&rows.iter().collect::<Vec<_>>(), budget)
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
