//! The slowest message of each stretch of time, and an even sample of the others: what a picture of a long log can show.

use std::collections::BTreeSet;

use msgpath_core::schema::MessageRow;
use msgpath_record::Messages;

/// Stretches of time: the slowest message of each is always there.
pub const STRETCHES: usize = 200;

/// What stands for the messages of a case.
#[derive(Default)]
pub struct Chosen {
    /// The slowest of each stretch.
    pub slowest: Vec<MessageRow>,
    /// An even sample of the others.
    pub others: Vec<MessageRow>,
    /// Those of the sample without a reply.
    pub lost: Vec<MessageRow>,
    /// How many there are.
    pub of: u64,
    /// The first and last start of them, ns.
    pub span: (u64, u64),
    /// Fastest and slowest, at least 1 ns: the scale is logarithmic.
    pub range: Option<(u64, u64)>,
}

/// The slowest of each stretch of time, and every n-th of the others up to `limit` in all. Lost messages count as others,
/// but lie apart.
pub fn choose(messages: &dyn Messages, case: u32, limit: usize) -> Chosen {
    let walk = |each: &mut dyn FnMut(&MessageRow)| {
        messages.rounds(&|own, _| own == case, &mut |rows| rows.iter().for_each(&mut *each))
    };
    let mut out = Chosen { span: (u64::MAX, 0), ..Chosen::default() };
    walk(&mut |row| {
        out.of += 1;
        out.span = (out.span.0.min(row.start_ns), out.span.1.max(row.start_ns + 1));
        if let Some(ns) = row.latency_ns.map(|ns| ns.max(1)) {
            let (low, high) = out.range.unwrap_or((ns, ns));
            out.range = Some((low.min(ns), high.max(ns)));
        }
    });
    let (from, to) = out.span;
    let step = if out.of <= limit as u64 { 1 } else { out.of.div_ceil(limit.saturating_sub(STRETCHES).max(1) as u64) };
    // Each with its position in the log.
    let mut slowest: Vec<Option<(u64, MessageRow)>> = vec![None; STRETCHES];
    let mut sample = Vec::new();
    let mut at = 0;
    walk(&mut |row| {
        let slot = &mut slowest[((row.start_ns - from) as u128 * STRETCHES as u128 / (to - from) as u128) as usize];
        if row.latency_ns.is_some() && slot.is_none_or(|(_, known)| known.latency_ns < row.latency_ns) {
            *slot = Some((at, *row));
        }
        if at % step == 0 {
            sample.push((at, *row));
        }
        at += 1;
    });
    let slowest: Vec<(u64, MessageRow)> = slowest.into_iter().flatten().collect();
    let is_slowest: BTreeSet<u64> = slowest.iter().map(|(at, _)| *at).collect();
    let others = sample.into_iter().filter(|(at, _)| !is_slowest.contains(at)).map(|(_, row)| row);
    (out.others, out.lost) = others.partition(|row| row.latency_ns.is_some());
    out.slowest = slowest.into_iter().map(|(_, row)| row).collect();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: usize = 5_000;

    fn row(n: u64, latency_ns: Option<u64>) -> MessageRow {
        MessageRow { sequence: n, start_ns: n * 10_000, latency_ns, ..MessageRow::default() }
    }

    #[test]
    fn the_slowest_of_each_stretch_stay() {
        let rows: Vec<MessageRow> =
            (0..100_000).map(|n| row(n, Some(if n % 5_000 == 77 { 9_000_000 } else { 8_000 + n % 13 }))).collect();
        let chosen = choose(&rows, 0, POINTS);
        let count = chosen.slowest.len() + chosen.others.len();
        assert!((4_500..=POINTS).contains(&count), "{count}");
        assert_eq!(chosen.slowest.len(), STRETCHES);
        assert_eq!(chosen.slowest.iter().filter(|row| row.latency_ns == Some(9_000_000)).count(), 20);
        assert!(chosen.others.iter().all(|row| !chosen.slowest.contains(row)));
    }

    #[test]
    fn few_messages_are_all_shown() {
        let rows = [row(0, Some(5)), row(1, None), row(2, Some(7))];
        let chosen = choose(&rows, 0, POINTS);
        assert_eq!(chosen.slowest.len() + chosen.others.len() + chosen.lost.len(), 3);
        assert_eq!(chosen.lost[0].sequence, 1);
        assert!(choose(&msgpath_record::NO_MESSAGES, 0, POINTS).slowest.is_empty());
    }
}
