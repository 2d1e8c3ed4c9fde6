//! `json`: the header, every round with its quantiles, and the end.

use std::io::{self, Write};

use msgpath_core::SparseHistogram;
use msgpath_core::foreign::shown_json;
use msgpath_core::schema::{RoundRecord, RunEnd, RunHeader, Status};
use serde::{Serialize, Serializer};

use super::{Exporter, counted, failed, is_known, is_told, nonzero, receiver_bits_per_s};
use crate::{RecordError, Run};

pub(super) struct Json;

impl Exporter for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "the whole run in one object: plan, both machines, every round with its quantiles"
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let document = Document {
            schema: &run.header.schema,
            status: run.end.as_ref().map_or(Status::Partial, |end| end.status),
            damage: run.damage.as_ref().map(ToString::to_string),
            header: &run.header,
            rounds: Rounds(run),
            end: run.end.as_ref(),
        };
        let mut out = std::io::BufWriter::new(out);
        serde_json::to_writer_pretty(Shown(&mut out), &document).map_err(failed)?;
        out.write_all(b"\n").and_then(|()| out.flush()).map_err(failed)
    }
}

/// Makes text of others harmless. Each part that serde_json writes is text of its own.
struct Shown<W>(W);

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(part).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.0.write_all(shown_json(text).as_bytes())?;
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    status: Status,
    damage: Option<String>,
    header: &'a RunHeader,
    rounds: Rounds<'a>,
    end: Option<&'a RunEnd>,
}

/// Turned into JSON one at a time.
struct Rounds<'a>(&'a Run);

impl Serialize for Rounds<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.rounds.iter().map(|round| Round {
            record: record(self.0, round),
            receiver_bits_per_s: receiver_bits_per_s(self.0, round).map(|bits| bits.round() as u64),
            latency: Distribution::of(&round.latency),
            one_way: Distribution::of(&round.one_way),
        }))
    }
}

#[derive(Serialize)]
struct Round {
    #[serde(flatten)]
    record: serde_json::Value,
    receiver_bits_per_s: Option<u64>,
    latency: Option<Distribution>,
    one_way: Option<Distribution>,
}

/// A round with null for what was not counted: where nobody read the counters of an end, and where no tick fell.
fn record(run: &Run, round: &RoundRecord) -> serde_json::Value {
    let mut value = serde_json::to_value(round).unwrap_or_default();
    let ends = value["ends"].as_array_mut().into_iter().flatten();
    for ((out, end), counted) in ends.zip(&round.ends).zip(counted(run, round)) {
        without_ticks(&mut out["report"]);
        for thread in out["threads"].as_array_mut().into_iter().flatten() {
            without_ticks(&mut thread["report"]);
        }
        for (field, value) in out["report"].as_object_mut().into_iter().flatten() {
            if !is_known(field, &end.report, counted) || !is_told(field, &end.report, run, round) {
                *value = serde_json::Value::Null;
            }
        }
    }
    value
}

fn without_ticks(report: &mut serde_json::Value) {
    for part in ["user_ns", "system_ns"] {
        if let Some(ns) = report.get_mut(part).filter(|ns| ns.as_u64().and_then(nonzero).is_none()) {
            *ns = serde_json::Value::Null;
        }
    }
}

/// What a histogram says; times of a batch are means of its messages.
#[derive(Serialize)]
struct Distribution {
    messages: u64,
    lost: u64,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
    mean_ns: Option<u64>,
    quantiles: Vec<Quantile>,
}

#[derive(Serialize)]
struct Quantile {
    p: f64,
    ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl Distribution {
    /// `None` where nothing was timed.
    fn of(histogram: &SparseHistogram) -> Option<Distribution> {
        let quantile = |p| {
            let ns = histogram.quantile(p)?;
            let why = if histogram.beyond() > 0 { "lost, or 2^40 ns and more" } else { "lost" };
            Some(Quantile { p, ns, why: ns.is_none().then_some(why) })
        };
        (histogram.total() > 0).then(|| Distribution {
            messages: histogram.total(),
            lost: histogram.lost(),
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            mean_ns: histogram.mean().map(|mean| mean.round() as u64),
            quantiles: [0.5, 0.9, 0.99, 0.999].into_iter().filter_map(quantile).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::NEAR;
    use msgpath_core::schema::ThreadRecord;

    use super::*;
    use crate::export::tests::exported;

    #[test]
    fn a_part_of_the_time_without_a_tick_is_null() {
        let mut round = crate::test_run::round(0, 0);
        (round.near_mut().user_ns, round.far_mut().system_ns) = (0, 0);
        let thread = ThreadRecord { report: *round.near(), ..ThreadRecord::default() };
        round.end_mut(NEAR).threads = vec![thread];
        let header = crate::test_run::header(0);
        let value = record(&Run { folder: "x".into(), header, rounds: Vec::new(), end: None, damage: None }, &round);
        let [near, far] = [0, 1].map(|end| &value["ends"][end]);
        assert!(near["report"]["user_ns"].is_null() && near["threads"][0]["report"]["user_ns"].is_null());
        assert!(far["report"]["system_ns"].is_null() && far["report"]["user_ns"] == 1_000);
    }

    #[test]
    fn what_nobody_read_is_null() {
        let mut round = crate::test_run::round(0, 0);
        let value = |round: &RoundRecord, imported: &[&str]| {
            let mut header = crate::test_run::header(0);
            header.plan.workload = &crate::test_run::ASKED;
            header.imported = imported.iter().map(|name| (*name).to_owned()).collect();
            record(&Run { folder: "x".into(), header, rounds: Vec::new(), end: None, damage: None }, round)
        };
        // An imported log tells messages, bytes and times of both ends, and no calls or CPU time of either.
        let imported = value(&round, &["client.log"]);
        for end in [0, 1] {
            let report = imported["ends"][end]["report"].as_object().unwrap();
            assert!(report["calls"].is_null() && report["voluntary_switches"].is_null(), "{report:?}");
            assert!(report["delivery"].is_object() && report["bytes_sent"].is_u64() && report["elapsed_ns"].is_u64());
        }
        // A server that is called: the client's counters were read, and nothing is known of the server.
        *round.far_mut() = Default::default();
        let called = value(&round, &[]);
        let [near, far] = [0, 1].map(|end| called["ends"][end]["report"].as_object().unwrap());
        assert!(near["calls"].is_object() && near["voluntary_switches"].is_u64(), "{near:?}");
        assert!(!far.is_empty() && far.values().all(|field| field.is_null()), "{far:?}");
    }

    #[test]
    fn the_object_holds_the_whole_run() {
        let (bytes, written) = exported("json");
        assert!(bytes.starts_with(b"{\n  \"schema\": \"msgpath/run/3\",\n  \"status\": \"ok\""));
        let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(serde_json::from_value::<RunHeader>(value["header"].clone()).unwrap(), written.header);
        assert_eq!(serde_json::from_value::<RunEnd>(value["end"].clone()).unwrap(), written.end);
        let rounds = value["rounds"].as_array().unwrap();
        assert_eq!(rounds.len(), written.rounds.len());
        for (json, round) in rounds.iter().zip(&written.rounds) {
            let read: RoundRecord = serde_json::from_value(json.clone()).unwrap();
            let expected = RoundRecord {
                latency: SparseHistogram::default(),
                one_way: SparseHistogram::default(),
                ..round.clone()
            };
            assert_eq!(read, expected);
            assert_eq!(json["latency"]["quantiles"][0]["ns"].as_u64(), round.latency.quantile(0.5).unwrap());
            assert!(json["one_way"].is_null());
        }
        let last = &rounds[1]["latency"]["quantiles"][2];
        assert_eq!(
            (last["p"].as_f64(), &last["ns"], last["why"].as_str()),
            (Some(0.99), &serde_json::Value::Null, Some("lost"))
        );
    }
}
