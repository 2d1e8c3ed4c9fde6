//! The bytes of the embedded log: base64 of raw deflate of one column after the other, each value an unsigned LEB128
//! varint. The page unpacks them with what every browser has.

use miniz_oxide::deflate::compress_to_vec;
use msgpath_analyse::stages::Stage;
use msgpath_core::varint;

use msgpath_analyse::sample::CaseSample;

/// Effort of deflate, 0 to 10: more takes twice the time for one hundredth less.
const EFFORT: u8 = 6;
/// Bit of a kind: the message stands for others that are not in the file.
pub const SAMPLED: u64 = 1;
/// Bit of a kind: the message was lost.
pub const LOST: u64 = 2;

/// Columns of a log, as bytes: start (ns, as difference to the message before, from 0 at the start of each case),
/// connection, kind ([`SAMPLED`] and [`LOST`]), and the time in each stage (ns). Each case's messages come by rising
/// start.
pub fn columns(cases: &[CaseSample], stages: &[Stage]) -> Vec<u8> {
    let mut out = Vec::with_capacity(cases.iter().map(|case| case.kept).sum::<usize>() * 12);
    for case in cases {
        let mut before = 0;
        for (row, _) in &case.rows {
            varint::put(&mut out, row.start_ns.saturating_sub(before));
            before = row.start_ns.max(before);
        }
    }
    let all = || cases.iter().flat_map(|case| &case.rows);
    all().for_each(|(row, _)| varint::put(&mut out, row.connection.into()));
    for (row, sampled) in all() {
        let lost = if row.latency_ns.is_none() { LOST } else { 0 };
        varint::put(&mut out, lost | if *sampled { SAMPLED } else { 0 });
    }
    for stage in stages {
        all().for_each(|(row, _)| varint::put(&mut out, stage.ns(row)));
    }
    out
}

/// Raw deflate.
pub fn deflate(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, EFFORT)
}
