//! A run while it goes on as OpenMetrics, for Prometheus: names with their base units (seconds, bytes), counters that end in
//! `_total`, a type, a unit and a help text for each family, and `# EOF` at the end.

use std::collections::BTreeMap;
use std::fmt::Write;

use msgpath_analyse::series::{receiver, sender};
use msgpath_core::carried::Carried;
use msgpath_core::foreign::shown;
use msgpath_core::schema::{RoundRecord, RunHeader};
use msgpath_core::workload::Answer;
use msgpath_core::{Case, Histogram, Plan};

/// Upper bounds of the buckets, ns: 1, 2 and 5 times the powers of ten from 1 µs to 10 s.
pub const BOUNDS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// What one case has shown so far.
#[derive(Default)]
struct Counted {
    rounds: u64,
    sent: u64,
    received: u64,
    lost: u64,
    bytes: u64,
    elapsed_ns: u64,
    latency: Histogram,
    /// Median and p99 of the latest round, ns.
    latest: [Option<u64>; 2],
}

/// What is counted of a case.
type Count = fn(&Counted) -> f64;

/// The metrics of a run: told of every round, asked for their text.
#[derive(Default)]
pub struct OpenMetrics {
    run: String,
    verb: String,
    target: String,
    version: String,
    plan: Option<Plan>,
    cases: BTreeMap<u32, Counted>,
    done: u64,
    of: u64,
}

impl OpenMetrics {
    /// The run has begun.
    pub fn started(&mut self, header: &RunHeader) {
        self.run.clone_from(&header.name);
        self.verb.clone_from(&header.verb);
        self.target.clone_from(&header.target);
        self.version.clone_from(&header.version);
        self.plan = Some(header.plan.clone());
        self.of = header.plan.total_rounds();
    }

    /// Cases were added.
    pub fn planned(&mut self, plan: &Plan) {
        self.plan = Some(plan.clone());
    }

    /// A round was recorded: number `done` of `of`.
    pub fn round(&mut self, round: &RoundRecord, done: u64, of: u64) {
        let Some(plan) = &self.plan else { return };
        (self.done, self.of) = (done, of);
        let (sender, receiver) = if plan.workload.timed {
            (round.near(), round.near())
        } else {
            (sender(plan, round), receiver(plan, round))
        };
        let case = self.cases.entry(round.case).or_default();
        case.rounds += 1;
        case.sent += sender.delivery.sent;
        case.received += receiver.delivery.received;
        case.lost += sender.delivery.lost.max(receiver.delivery.lost);
        let (bytes, elapsed_ns) = if plan.workload.timed {
            (receiver.bytes_received, receiver.elapsed_ns)
        } else {
            let carried = Carried::of(plan, round);
            (carried.bytes, carried.ns)
        };
        case.bytes += bytes;
        case.elapsed_ns += elapsed_ns;
        case.latency.merge_sparse(&round.latency);
        case.latest = [0.5, 0.99].map(|p| round.latency.quantile(p).flatten());
    }

    /// The exposition as it is now.
    pub fn text(&self) -> String {
        let mut out = Out::default();
        let info = [("run", &self.run), ("verb", &self.verb), ("target", &self.target), ("version", &self.version)];
        out.family("msgpath_run", "info", "", "The run that is measured.");
        out.sample("msgpath_run_info", &labels(info.map(|(name, value)| (name, value.as_str()))), "1");
        let run = labels([("run", self.run.as_str())]);
        out.family("msgpath_run_rounds_planned", "gauge", "", "Rounds planned so far; a run may go on.");
        out.sample("msgpath_run_rounds_planned", &run, &self.of.to_string());
        out.family(
            "msgpath_run_rounds_recorded",
            "gauge",
            "",
            "Rounds recorded, those of controls and replicas included.",
        );
        out.sample("msgpath_run_rounds_recorded", &run, &self.done.to_string());
        let cases: Vec<(String, &Counted)> =
            self.cases.iter().filter_map(|(id, counted)| Some((self.of_case(*id)?, counted))).collect();
        let counters: [(&str, &str, &str, Count); 6] = [
            ("msgpath_rounds", "", "Rounds recorded of a case.", |case| case.rounds as f64),
            ("msgpath_messages_sent", "", "Messages sent.", |case| case.sent as f64),
            (
                "msgpath_messages_received",
                "",
                "Messages that arrived: round trips, of a stream at the receiver.",
                |case| case.received as f64,
            ),
            ("msgpath_messages_lost", "", "Messages that were lost.", |case| case.lost as f64),
            ("msgpath_received_bytes", "bytes", "Payload that the measuring end took in.", |case| case.bytes as f64),
            ("msgpath_measured_seconds", "seconds", "Time inside rounds, by the measuring end's clock.", |case| {
                case.elapsed_ns as f64 / 1e9
            }),
        ];
        for (name, unit, help, of) in counters {
            out.family(name, "counter", unit, help);
            for (labels, case) in &cases {
                out.sample(&format!("{name}_total"), labels, &number(of(case)));
            }
        }
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.workload.timed) else { return out.end() };
        let what = match plan.workload.answer {
            Answer::None => "Time of a message, one way.",
            Answer::Server => "Time of a call.",
            Answer::Agent => "Time of a message, there and back; in an open loop from the intended send.",
        };
        out.family("msgpath_latency_seconds", "histogram", "seconds", what);
        for (labels, case) in &cases {
            for bound in BOUNDS {
                let le = format!("{labels},le=\"{}\"", number(bound as f64 / 1e9));
                out.sample("msgpath_latency_seconds_bucket", &le, &case.latency.count_at_most(bound).to_string());
            }
            let arrived = case.latency.total().saturating_sub(case.latency.lost());
            out.sample("msgpath_latency_seconds_bucket", &format!("{labels},le=\"+Inf\""), &arrived.to_string());
            out.sample("msgpath_latency_seconds_count", labels, &arrived.to_string());
            out.sample("msgpath_latency_seconds_sum", labels, &number(case.latency.sum() as f64 / 1e9));
        }
        for (at, quantile) in ["p50", "p99"].into_iter().enumerate() {
            let name = format!("msgpath_round_{quantile}_seconds");
            out.family(&name, "gauge", "seconds", &format!("{quantile} of the latest round; it has no interval."));
            for (labels, case) in &cases {
                if let Some(ns) = case.latest[at] {
                    out.sample(&name, labels, &number(ns as f64 / 1e9));
                }
            }
        }
        out.end()
    }

    fn of_case(&self, id: u32) -> Option<String> {
        let case: &Case = self.plan.as_ref()?.cases.get(id as usize)?;
        let id = id.to_string();
        let size = case.size.to_string();
        let path = case.path.to_string();
        let threads = case.threads.to_string();
        let pieces = case.pieces.to_string();
        let role = serde_json::to_value(case.role).ok().and_then(|role| role.as_str().map(str::to_owned));
        let role = role.unwrap_or_default();
        let mut all = vec![
            ("run", self.run.as_str()),
            ("case", &id),
            ("path", &path),
            ("size_bytes", &size),
            ("threads", &threads),
            ("role", &role),
        ];
        if case.pieces.count > 1 {
            all.push(("pieces", &pieces));
        }
        if let Some(label) = &case.label {
            all.push(("name", label));
        }
        Some(labels(all))
    }
}

/// Labels as they are written, without the braces.
pub fn labels<'a>(all: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let one = |(name, value): (&str, &str)| {
        let value = shown(value).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    all.into_iter().map(one).collect::<Vec<_>>().join(",")
}

/// A number that every parser reads: no unit, no grouping.
pub fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { "NaN".into() }
}

/// An exposition that is being written.
#[derive(Default)]
pub struct Out {
    text: String,
}

impl Out {
    /// The head of a family; no unit where it is empty.
    pub fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.text, "# HELP {name} {help}");
    }

    /// A value of the family.
    pub fn sample(&mut self, name: &str, labels: &str, value: &str) {
        let _ = writeln!(self.text, "{name}{{{labels}}} {value}");
    }

    /// The whole text.
    pub fn end(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn of(run: &msgpath_record::Run, rounds: usize) -> OpenMetrics {
        let mut metrics = OpenMetrics::default();
        metrics.started(&run.header);
        for (at, round) in run.rounds.iter().take(rounds).enumerate() {
            metrics.round(round, at as u64 + 1, 40);
        }
        metrics
    }

    #[test]
    fn a_run_as_text() {
        let (run, _) = fixture::echo();
        insta::assert_snapshot!("open_metrics_echo", of(&run, 3).text());
        let (run, _) = fixture::stream();
        insta::assert_snapshot!("open_metrics_stream", of(&run, 2).text());
    }

    #[test]
    fn what_others_named_cannot_leave_its_label() {
        let (mut run, _) = fixture::echo();
        run.header.name = "a\"} 1\n# EOF\n\\".into();
        let text = of(&run, 1).text();
        assert_eq!(text.matches("# EOF").count() - text.matches("# EOF\\").count(), 1, "{text}");
        assert!(text.lines().all(|line| line.starts_with('#') || line.contains("} ")), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn buckets_add_up() {
        let (run, _) = fixture::echo();
        let text = of(&run, 5).text();
        let counts: Vec<u64> = text
            .lines()
            .filter(|line| line.starts_with("msgpath_latency_seconds_bucket"))
            .map(|line| line.rsplit(' ').next().unwrap().parse().unwrap())
            .collect();
        assert!(counts.len() == BOUNDS.len() + 1 && counts.is_sorted() && counts[BOUNDS.len()] > 0);
    }
}
