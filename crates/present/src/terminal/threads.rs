//! What threads, connections and depth brought: the table below the results of a run that has several.

use msgpath_analyse::summary::CaseSummary;
use msgpath_analyse::threads::{ThreadFigures, arrangement};
use msgpath_core::schema::NEAR;
use msgpath_stats::estimate::Estimate;

use super::page::{Page, Paint, Span};
use super::table::{Align, Table};
use crate::view;
use crate::words;

impl Page {
    /// One row per case of a run that has several thread counts, connections or depths; nothing for others.
    pub fn threads(&mut self, cases: &[&CaseSummary]) {
        let all: Vec<(&CaseSummary, &ThreadFigures)> =
            cases.iter().filter_map(|case| Some((*case, case.threads.as_ref()?))).collect();
        let apart = |case: &CaseSummary| (case.case.threads, case.case.connections, case.case.inflight);
        if all.iter().all(|(case, _)| apart(case) == apart(all[0].0)) {
            return;
        }
        let mut table = Table::new()
            .column("", Align::Left)
            .column("rate", Align::Right)
            .column("against 1 thread", Align::Right)
            .optional("95 % interval", Align::Right, 4)
            .optional("each", Align::Right, 3)
            .optional("in flight", Align::Right, 2)
            .optional("CPUs busy", Align::Right, 5)
            .optional("slowest thread", Align::Right, 1);
        let many_paths = all.iter().any(|(case, _)| case.case.path != all[0].0.case.path);
        let many_sizes = all.iter().any(|(case, _)| case.case.size != all[0].0.case.size);
        let mut crowded: Vec<String> = Vec::new();
        for (case, figures) in &all {
            let mut label = arrangement(&case.case);
            if many_sizes {
                label = format!("{} {label}", words::message(&case.case));
            }
            if many_paths {
                label = format!("{} {label}", case.case.path);
            }
            let rate = match &case.throughput {
                Some(throughput) => words::throughput(throughput.receiver_bits.value, Default::default()),
                None => case.rate_per_s.as_ref().map_or_else(|| "n/a".into(), |rate| words::per_second(rate.value)),
            };
            let (factor, interval, each): (Span, String, String) = match (&figures.oversubscribed, &figures.scaling) {
                (Some(crowd), Some(_)) => {
                    let text = format!(
                        "oversubscribed, not scaling: {} threads of {} on {} CPUs",
                        crowd.threads, crowd.end, crowd.cpus
                    );
                    view::push_new(&mut crowded, text);
                    (Paint::Yellow.span("oversubscribed".to_owned()), String::new(), String::new())
                }
                (_, Some(scaling)) => (
                    format!("{} times", words::decimal(scaling.factor.value)).into(),
                    words::estimate_interval(&scaling.factor, words::decimal),
                    words::percent(scaling.efficiency.value),
                ),
                (_, None) => ("".into(), String::new(), String::new()),
            };
            let number = |estimate: &Option<Estimate>| {
                estimate.as_ref().map_or_else(|| "n/a".into(), |estimate| words::decimal(estimate.value))
            };
            let slowest = figures.of(NEAR).iter().filter_map(|thread| thread.share.as_ref()).map(|share| share.value);
            table.row([
                label.into(),
                rate.into(),
                factor,
                interval.into(),
                each.into(),
                format!("{} of {}", number(&figures.implied), figures.in_flight).into(),
                number(&figures.busy_cpus).into(),
                slowest.reduce(f64::min).map_or_else(String::new, words::percent).into(),
            ]);
        }
        self.heading("threads and queues");
        self.table(table);
        self.text(
            2,
            "in flight: rate times mean round trip, of what was asked for; each: of the proportion; slowest thread: of its share",
            Paint::Dim,
        );
        for text in crowded {
            self.text(2, &text, Paint::Yellow);
        }
    }
}

#[cfg(test)]
mod tests {
    use msgpath_analyse::threads::{Scaling, ThreadShare};

    use super::*;
    use crate::fixture;
    use crate::terminal::{Style, compare};

    fn estimate(value: f64, low: f64, high: f64) -> Option<Estimate> {
        Some(Estimate { value, low: Some(low), high: Some(high) })
    }

    #[test]
    fn rows_of_several_thread_counts() {
        let (run, mut summary) = fixture::compare();
        for case in &mut summary.cases {
            let threads = f64::from(case.case.threads);
            let scaling = Scaling {
                base: 0,
                factor: estimate(1.5, 1.4, 1.6).unwrap(),
                efficiency: estimate(0.75, 0.7, 0.8).unwrap(),
                time_factor: None,
            };
            let slow = ThreadShare { share: estimate(0.62, 0.6, 0.64), ..Default::default() };
            case.threads = Some(ThreadFigures {
                scaling: (threads > 1.0).then_some(scaling),
                implied: estimate(threads, threads - 0.1, threads + 0.1),
                busy_cpus: estimate(0.9 * threads, 0.8, 1.9),
                ends: vec![if threads > 1.0 { vec![ThreadShare::default(), slow] } else { Vec::new() }],
                in_flight: case.case.threads.into(),
                ..Default::default()
            });
        }
        let rows = |summary: &msgpath_analyse::Summary| {
            let text = compare(&run, summary, Style::default());
            let from = text.find("threads and queues").expect("a table");
            text[from..].split("cost per").next().unwrap_or_default().to_owned()
        };
        let given = rows(&summary);
        for part in ["against 1 thread", "1 connection", "2 connections, a thread each", "1.50 times"] {
            assert!(given.contains(part), "{part}: {given}");
        }
        for case in summary.cases.iter_mut().filter(|case| case.case.threads > 1) {
            let scaling = case.threads.as_ref().and_then(|figures| figures.scaling.clone());
            case.threads = Some(ThreadFigures { scaling, ..fixture::crowd(4, 2) });
        }
        let crowded = rows(&summary);
        assert!(crowded.contains("oversubscribed, not scaling: 4 threads of both ends"), "{crowded}");
        assert!(!crowded.contains("1.50 times"), "{crowded}");
    }

    #[test]
    fn one_of_everything_has_no_table() {
        let (run, summary) = fixture::compare();
        assert!(!compare(&run, &summary, Style::default()).contains("threads and queues"));
    }
}
