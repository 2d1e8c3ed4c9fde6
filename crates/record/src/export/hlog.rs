//! `hlog`: the interval log of HdrHistogram (V2, deflated), one line per round, tagged with path and size.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, IntervalLogWriterError, Tag};
use msgpath_core::Histogram;
use msgpath_core::foreign::shown;

use super::hdr::{tag, to_hdr};
use super::{Exporter, case, failed};
use crate::{RecordError, Run, utc};

pub(super) struct Hlog;

impl Exporter for Hlog {
    fn name(&self) -> &'static str {
        "hlog"
    }

    fn extension(&self) -> &'static str {
        "hlog"
    }

    fn summary(&self) -> &'static str {
        "HdrHistogram interval log, one line per round, values in ns"
    }

    fn export(&self, run: &Run, mut out: &mut dyn Write) -> Result<(), RecordError> {
        let mut builder = IntervalLogWriterBuilder::new();
        builder.add_comment(&format!(
            "msgpath {} run {}, values in ns",
            shown(&run.header.version),
            shown(&run.header.name)
        ));
        builder.with_max_value_divisor(1e6); // the Max column in ms, as the Java tools have it
        if let Some(started) = utc::parse(&run.header.started) {
            builder.with_start_time(started).with_base_time(started);
        }
        let mut serializer = V2DeflateSerializer::new();
        let mut log = builder.begin_log_with(&mut out, &mut serializer).map_err(failed)?;
        let mut histogram = Histogram::new();
        for round in run.rounds.iter().filter(|round| round.latency.total() > 0) {
            histogram.clear();
            histogram.merge_sparse(&round.latency);
            let (hdr, tag) = (to_hdr(&histogram), tag(case(run, round.case)));
            if hdr.len() < histogram.total() {
                let (lost, beyond) = (histogram.lost(), histogram.beyond());
                log.write_comment(&format!("not in the next line: {lost} lost, {beyond} of 2^40 ns and more"))
                    .map_err(failed)?;
            }
            let times = (Duration::from_nanos(round.start_ns), Duration::from_nanos(round.near().elapsed_ns));
            log.write_histogram(&hdr, times.0, times.1, Tag::new(&tag)).map_err(|error| match error {
                IntervalLogWriterError::IoError(source) => failed(source),
                other => failed(io::Error::other(format!("{other:?}"))),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram as Hdr;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::export::tests::exported;

    #[test]
    fn every_round_is_a_line() {
        let (bytes, written) = exported("hlog");
        let entries: Vec<LogEntry<'_>> = IntervalLogIterator::new(&bytes).map(Result::unwrap).collect();
        let [LogEntry::StartTime(start), LogEntry::BaseTime(base), lines @ ..] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!((start.as_secs(), base.as_secs()), (1_795_255_445, 1_795_255_445));
        assert_eq!(lines.len(), written.rounds.len());
        for (line, round) in lines.iter().zip(&written.rounds) {
            let LogEntry::Interval(line) = line else { panic!("{line:?}") };
            let bytes = STANDARD.decode(line.encoded_histogram()).unwrap();
            let hdr: Hdr<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
            assert_eq!(hdr.len(), round.latency.total() - round.latency.lost());
            assert!(hdr.equivalent(hdr.max(), round.latency.max().unwrap()));
            assert_eq!(line.start_timestamp(), Duration::from_nanos(round.start_ns));
            let tag = ["tcp:send_64B", "tcp:zerocopy_65536B_2x32768"][round.case as usize];
            assert_eq!(line.tag().unwrap().as_str(), tag);
        }
        assert_eq!(String::from_utf8(bytes).unwrap().matches("1 lost").count(), 3);
    }
}
