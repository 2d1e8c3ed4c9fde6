//! The log of calls inside the report: at most so many, chosen as messages are, as columns of varints.

use std::collections::{BTreeMap, HashMap};

use crate::analyse::PairClock;
use crate::record::{Calls, RpcRow};
use msgpath_analyse::sample;
use msgpath_core::varint;

use msgpath_present::html::{base64, pack};

/// Bits of the column `kind`.
pub(crate) mod kind {
    /// It stands for others that are not in the file.
    pub(crate) const SAMPLED: u64 = 1;
    /// No reply.
    pub(crate) const UNANSWERED: u64 = 2;
    /// The lengths are estimates.
    pub(crate) const LENGTHS: u64 = 4;
    /// T2 and T3 are known by the client's clock, within the column `within`.
    pub(crate) const PLACED: u64 = 8;
    /// T3 - T2 is known, but not when it was by the client's clock.
    pub(crate) const SERVER: u64 = 16;
    /// The stamps contradict each other by more than the clocks leave open.
    pub(crate) const CONTRADICTS: u64 = 32;
}

/// Calls as the report carries them, by rising T1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EmbeddedCalls {
    /// Those that were chosen, in the order of the report.
    pub(crate) rows: Vec<RpcRow>,
    /// How many calls of these cases the log has.
    pub(crate) logged: usize,
    /// How many calls of each case a sampled one stands for, in the order of the cases.
    pub(crate) weights: Vec<f64>,
    /// The columns that are in `text`, in their order.
    pub(crate) columns: Vec<&'static str>,
    /// Columns with the same value in every row are not in `text`.
    pub(crate) constant: BTreeMap<&'static str, u64>,
    /// Distinct keys: their lengths, one byte each, and their bytes stand behind the columns.
    pub(crate) keys: usize,
    /// Base64 of raw deflate of columns and keys.
    pub(crate) text: String,
}

/// A signed value as varints like it: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// A value that may be missing: 0 is missing, anything else one more than the value.
fn optional(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

/// T2 - T1 by the client's clock, T3 - T2, and within what the first is known, ns; with the bits of `kind` that say
/// how much of it is known.
pub(crate) fn split(row: &RpcRow, clocks: &[PairClock]) -> (i64, i64, u64, u64) {
    let (Some(received), Some(replied)) = (row.received_ns, row.replied_ns) else { return (0, 0, 0, 0) };
    let clock = clocks.iter().find(|clock| clock.pair == row.pair);
    let Some((placed, until, within)) = clock.and_then(|clock| clock.aligned(row)) else {
        return (0, replied.saturating_sub(received), 0, kind::SERVER);
    };
    let late = row.latency_ns.is_some_and(|latency| until > latency as f64 + within);
    let contradicts = if placed < -within || until < placed || late { kind::CONTRADICTS } else { 0 };
    (placed.round() as i64, (until - placed).round() as i64, within.round() as u64, kind::PLACED | contradicts)
}

/// The key of a call without the zeros behind it.
fn key(row: &RpcRow) -> &[u8] {
    let end = row.key.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &row.key[..end]
}

/// The same as text; what is not text is replaced.
pub(crate) fn key_text(key: &[u8; 16]) -> String {
    let row = RpcRow { key: *key, ..RpcRow::default() };
    String::from_utf8_lossy(self::key(&row)).into_owned()
}

/// Chooses at most `limit` of the logged calls of these cases and packs them.
pub(crate) fn embed_calls(calls: &dyn Calls, cases: &[u32], clocks: &[PairClock], limit: usize) -> EmbeddedCalls {
    let place: HashMap<u32, usize> = cases.iter().enumerate().map(|(at, case)| (*case, at)).collect();
    let samples = sample::messages::<RpcRow>(calls, cases, limit);
    let mut weights = vec![1.0; cases.len()];
    let mut logged = 0;
    let mut chosen: Vec<(RpcRow, bool)> = Vec::new();
    for sample in samples {
        weights[place[&sample.case]] = sample.weight;
        logged += sample.logged;
        chosen.extend(sample.rows);
    }
    chosen.sort_by_key(|(row, _)| row.start_ns);

    let rows: Vec<&RpcRow> = chosen.iter().map(|(row, _)| row).collect();
    let splits: Vec<_> = rows.iter().map(|row| split(row, clocks)).collect();
    let mut numbers: HashMap<&[u8], u64> = HashMap::new();
    let mut keys: Vec<&[u8]> = Vec::new();
    let key_of: Vec<u64> = rows
        .iter()
        .map(|row| {
            *numbers.entry(key(row)).or_insert_with(|| {
                keys.push(key(row));
                keys.len() as u64 - 1
            })
        })
        .collect();
    let mut packer = Packer { out: EmbeddedCalls::default(), raw: Vec::new(), values: Vec::with_capacity(rows.len()) };
    let mut before = 0;
    packer.column("start", rows.iter().map(|row| row.start_ns - std::mem::replace(&mut before, row.start_ns)));
    packer.column("case", rows.iter().map(|row| place[&row.case] as u64));
    packer.column("connection", rows.iter().map(|row| row.connection.into()));
    packer.column("pair", rows.iter().map(|row| row.pair.into()));
    packer.column("rpcid", rows.iter().map(|row| row.rpcid.into()));
    packer.column("parent", rows.iter().map(|row| row.parent.into()));
    packer.column("status", rows.iter().map(|row| row.status.into()));
    packer.column(
        "kind",
        rows.iter().zip(&splits).zip(&chosen).map(|((row, (.., known)), (_, sampled))| {
            known
                | if *sampled { kind::SAMPLED } else { 0 }
                | if row.latency_ns.is_none() { kind::UNANSWERED } else { 0 }
                | if row.lengths_estimated { kind::LENGTHS } else { 0 }
        }),
    );
    packer.column("request", rows.iter().map(|row| row.request_bytes));
    packer.column("reply", rows.iter().map(|row| row.reply_bytes));
    packer.column("latency", rows.iter().map(|row| row.latency_ns.unwrap_or(0)));
    packer.column("received", splits.iter().map(|(received, ..)| zigzag(*received)));
    packer.column("server", splits.iter().map(|(_, server, ..)| zigzag(*server)));
    packer.column("within", splits.iter().map(|(_, _, within, _)| *within));
    packer.column("sent", rows.iter().map(|row| optional(row.sent_ns)));
    packer.column("first", rows.iter().map(|row| optional(row.first_ns)));
    packer.column("waited", rows.iter().map(|row| optional(row.waited_ns)));
    packer.column("lock", rows.iter().map(|row| optional(row.lock_ns)));
    packer.column("late", rows.iter().map(|row| optional(row.late_ns)));
    packer.column("key", key_of.into_iter());
    let Packer { mut out, mut raw, .. } = packer;
    raw.extend(keys.iter().map(|key| key.len() as u8));
    keys.iter().for_each(|key| raw.extend_from_slice(key));
    out.keys = keys.len();
    out.logged = logged;
    out.weights = weights;
    out.rows = chosen.into_iter().map(|(row, _)| row).collect();
    out.text = base64(&pack::deflate(&raw));
    out
}

/// One column after the other.
struct Packer {
    out: EmbeddedCalls,
    raw: Vec<u8>,
    values: Vec<u64>,
}

impl Packer {
    fn column(&mut self, name: &'static str, values: impl Iterator<Item = u64>) {
        self.values.clear();
        self.values.extend(values);
        let first = self.values.first().copied().unwrap_or(0);
        if self.values.iter().all(|value| *value == first) {
            self.out.constant.insert(name, first);
            return;
        }
        self.out.columns.push(name);
        self.values.iter().for_each(|value| varint::put(&mut self.raw, *value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::RpcSummary;
    use crate::present::fixture;
    use miniz_oxide::inflate::decompress_to_vec;
    use msgpath_present::html::embed_testing::unbase64;
    use proptest::prelude::*;

    /// Column by name, and the keys: an independent reading of the format.
    fn unpack(packed: &EmbeddedCalls) -> (BTreeMap<&'static str, Vec<u64>>, Vec<Vec<u8>>) {
        let raw = decompress_to_vec(&unbase64(&packed.text)).expect("raw deflate");
        let mut bytes = raw.as_slice();
        let mut columns: BTreeMap<_, _> =
            packed.constant.iter().map(|(name, value)| (*name, vec![*value; packed.rows.len()])).collect();
        for name in &packed.columns {
            let column = packed.rows.iter().map(|_| varint::take(&mut bytes).expect("a whole column")).collect();
            columns.insert(name, column);
        }
        let (lengths, mut rest) = bytes.split_at(packed.keys);
        let keys = lengths.iter().map(|length| rest.split_off(..usize::from(*length)).expect("a key").to_vec());
        let keys = keys.collect();
        assert!(rest.is_empty());
        (columns, keys)
    }

    #[test]
    fn what_goes_in_comes_out() {
        let (_, summary, rows) = fixture::rpc();
        let clocks = &summary.sections.get::<RpcSummary>().unwrap().clocks;
        let packed = embed_calls(&rows, &[0, 1, 2], clocks, 1_000);
        assert_eq!((packed.rows.len(), packed.logged, packed.weights.as_slice()), (360, 360, &[1.0; 3][..]));
        let (columns, keys) = unpack(&packed);
        assert_eq!(keys, [b"kkkkk".to_vec()]);
        let mut start = 0;
        for (at, row) in packed.rows.iter().enumerate() {
            let value = |name: &str| columns[name][at];
            start += value("start");
            assert_eq!((start, value("rpcid"), value("case")), (row.start_ns, row.rpcid.into(), row.case.into()));
            assert_eq!(value("latency"), row.latency_ns.unwrap_or(0));
            assert_eq!(value("kind") & kind::UNANSWERED != 0, row.latency_ns.is_none());
            assert_eq!(value("lock"), row.lock_ns.unwrap() + 1);
            if let (Some(received), Some(replied)) = (row.received_ns, row.replied_ns) {
                assert_eq!(value("received"), zigzag(received + 2_978_000));
                assert_eq!(value("server"), zigzag(replied - received));
                assert_eq!((value("within"), value("kind") & kind::PLACED), (120_000, kind::PLACED));
            }
        }
        assert_eq!(packed.constant.get("late"), Some(&0));
    }

    #[test]
    fn failed_calls_are_kept_and_without_clocks_nothing_is_placed() {
        let (_, _, rows) = fixture::rpc();
        let packed = embed_calls(&rows, &[2], &[], 60);
        assert_eq!((packed.rows.len(), packed.logged), (60, 120));
        let failed = rows.iter().filter(|row| row.case == 2 && row.status != 0).count();
        let (columns, _) = unpack(&packed);
        assert_eq!(columns["status"].iter().filter(|status| **status != 0).count(), failed);
        assert!(columns["kind"].iter().all(|bits| bits & (kind::PLACED | kind::SERVER) == kind::SERVER));
        assert!(embed_calls(&rows, &[0], &[], 0).rows.is_empty());
    }

    #[test]
    fn a_stamp_outside_the_bound_is_marked() {
        let (_, summary, rows) = fixture::rpc();
        let clocks = &summary.sections.get::<RpcSummary>().unwrap().clocks;
        let mut row = rows[0];
        assert_eq!(split(&row, clocks).3, kind::PLACED);
        row.received_ns = Some(-2_978_000 - 200_000);
        assert_eq!(split(&row, clocks).3, kind::PLACED | kind::CONTRADICTS);
        row.received_ns = None;
        assert_eq!(split(&row, clocks), (0, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn signs_survive(value: i64) {
            let coded = zigzag(value);
            let decoded = ((coded >> 1) as i64) ^ -((coded & 1) as i64);
            prop_assert_eq!(decoded, value);
        }
    }
}
