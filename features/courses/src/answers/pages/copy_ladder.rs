//! The page of the preset `copy-ladder`: the eight tables of the primitives lab, the split between calls and copies, and
//! the six questions.

mod pieces;
mod questions;
mod tables;

use super::super::ladder::{self, Row};
use crate::answers::{Page, Part, part};

/// The runs of the preset, as far as they are there.
pub(super) struct Ladder<'a> {
    /// There and back, sizes by threads.
    pub(super) grid: Option<Part<'a>>,
    /// One way, one thread.
    pub(super) stream: Option<Part<'a>>,
    /// One way over loopback.
    pub(super) lo: Option<Part<'a>>,
    /// The rows of the grid.
    pub(super) rows: Vec<Row<'a>>,
}

impl<'a> Ladder<'a> {
    /// Those with a row of the lab.
    pub(super) fn of(parts: &[Part<'a>]) -> Self {
        let one = |name| part(parts, name).filter(|part| !ladder::rows(*part).is_empty());
        let grid = one("grid");
        Self { grid, stream: one("stream"), lo: one("lo"), rows: grid.map(ladder::rows).unwrap_or_default() }
    }

    /// Grid and streams, each with what it is called in a sentence.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Part<'a>, String)> + use<'a> {
        let named = |part: Part<'a>, what: &str| {
            let manner = ladder::manner(&part.run.header).map_or_else(String::new, |manner| format!(" over {manner}"));
            (part, format!("{what}{manner}"))
        };
        let all = [(self.grid, "there and back"), (self.stream, "one way"), (self.lo, "one way")];
        all.into_iter().filter_map(move |(part, what)| Some(named(part?, what)))
    }
}

pub(super) fn page(parts: &[Part<'_>]) -> Page {
    let ladder = Ladder::of(parts);
    let tables = tables::all(&ladder).into_iter().chain(pieces::table_of(parts)).collect();
    Page { tables, answers: questions::all(&ladder), ..Page::default() }
}

#[cfg(test)]
mod tests {
    use msgpath_core::ZeroCopyCounts;
    use msgpath_core::schema::{FAR, NEAR};
    use msgpath_core::units::Pieces;
    use msgpath_record::Run;

    use super::*;
    use crate::answers::{Answer, Cell};
    use msgpath_analyse::summary::{Confidence, EventRate};
    use msgpath_analyse::testing::Build;
    use msgpath_analyse::{Logs, Summary, summarise};

    const PATHS: [&str; 5] = ["tcp:flatten", "tcp:sendmsg", "tcp:zerocopy", "tcp:writes", "tcp:send"];

    /// The whole preset in small; `zerocopy` and `sendmsg` take so many times as long as A1, at 64 B and 4 KiB.
    fn preset(sendmsg: [f64; 2], zerocopy: [f64; 2], copied: bool) -> [(&'static str, Run); 2] {
        let factor = move |method: &str, size: u64| {
            let at = usize::from(size > 1000);
            match method {
                "sendmsg" => sendmsg[at],
                "zerocopy" => zerocopy[at],
                "writes" => 3.0,
                "send" => 0.98,
                _ => 1.0,
            }
        };
        let mut echo = Build::echo(&PATHS, &[64, 4096]).control(64);
        let measured = |case: &&msgpath_core::Case| case.role == msgpath_core::plan::CaseRole::Measured;
        let more: Vec<_> = echo.plan.cases.iter().filter(measured).cloned().collect();
        for case in more {
            let id = echo.plan.cases.len() as u32;
            echo.plan.cases.push(msgpath_core::Case { id, threads: 8, connections: 8, ..case });
        }
        let echo = echo.factor(move |case| factor(&case.path.method, case.size) * f64::from(case.threads));
        let stream = Build::stream(&PATHS, &[64, 4096]).control(64).rates(move |at, pass| {
            let (method, size) = match at {
                10 => ("flatten", 64),
                at => (PATHS[at / 2].split_once(':').unwrap().1, [64, 4096][at % 2]),
            };
            let noise = 1.0 + 0.002 * f64::from((pass * 7 + at as u32 * 3) % 11);
            1e9 * noise / factor(method, size)
        });
        [("grid", echo.run()), ("stream", stream.run())].map(|(name, mut run)| {
            run.header.host_mut(NEAR).cpus = vec![0, 1];
            run.header.host_mut(FAR).cpus = vec![0, 1];
            msgpath_analyse::testing::route(&mut run, msgpath_core::schema::DeviceKind::Veth, "veth0", "10.0.0.2");
            let cases = run.header.plan.cases.clone();
            run.header.plan.cases.iter_mut().for_each(|case| case.pieces = Pieces::of(8, case.size as u32 / 8));
            for round in &mut run.rounds {
                let case = &cases[round.case as usize];
                let sent = round.near().delivery.sent;
                let echo = run.header.plan.workload.timed;
                round.near_mut().calls.send_calls = if case.path.method == "writes" { 8 * sent } else { sent };
                if case.path.method == "flatten" {
                    round.near_mut().calls.copied_bytes = sent * case.size;
                    round.far_mut().calls.copied_bytes = if echo { sent * case.size } else { 0 };
                }
                if case.path.method == "zerocopy" {
                    let counts = ZeroCopyCounts { asked: sent, notifications: 9, ..ZeroCopyCounts::default() };
                    round.near_mut().zerocopy = if copied {
                        ZeroCopyCounts { copied: sent, ..counts }
                    } else {
                        ZeroCopyCounts { zero_copied: sent, ..counts }
                    };
                }
                if let Some(mean) = round.latency.mean().filter(|_| echo) {
                    // A closed loop: what the receiver counts follows from the round trips.
                    let each = mean / f64::from(case.threads);
                    round.far_mut().elapsed_ns = (each * round.far().delivery.received as f64) as u64;
                }
            }
            (name, run)
        })
    }

    fn with_page(runs: &[(&'static str, Run)], change: impl Fn(&mut Summary)) -> Page {
        let summaries: Vec<Summary> = runs
            .iter()
            .map(|(_, run)| {
                let mut summary = summarise(run);
                change(&mut summary);
                summary
            })
            .collect();
        let logs = Logs::default();
        let parts: Vec<Part<'_>> = runs
            .iter()
            .zip(&summaries)
            .map(|((name, run), summary)| Part { name, run, summary, logs: &logs })
            .collect();
        page(&parts)
    }

    fn answer(page: &Page, number: usize) -> &Answer {
        &page.answers[number - 1]
    }

    #[test]
    fn where_everything_was_copied_zero_copy_is_not_credited() {
        let page = with_page(&preset([0.8, 0.8], [1.3, 1.3], true), |_| ());
        assert_eq!(page.answers.len(), 6);
        let one = answer(&page, 1);
        assert_eq!(one.confidence, Confidence::Sure, "{}", one.text);
        assert!(one.text.contains("100 %") && one.text.contains("There and back over veth"), "{}", one.text);
        let four = answer(&page, 4);
        assert!(four.confidence == Confidence::Sure && four.text.contains("64 B"), "{four:?}");
        let five = answer(&page, 5);
        assert!(five.text.starts_with("cannot be answered on this path, because"), "{}", five.text);
        assert!(five.text.contains("100 %"), "{}", five.text);
        for number in [2, 3] {
            assert!(answer(&page, number).text.starts_with("cannot be answered"), "{}", answer(&page, number).text);
        }
        assert!(answer(&page, 6).text.contains("no row"), "{}", answer(&page, 6).text);
    }

    #[test]
    fn a_difference_beyond_a_wide_margin_is_shown_and_one_within_it_is_open() {
        // The control takes 1.3 times as long as what it repeats: the margin is as wide.
        let mut runs = preset([1.1, 0.112], [1.3, 1.3], true);
        let (_, grid) = &mut runs[0];
        let control = grid.header.plan.cases.iter().find(|case| case.role == msgpath_core::plan::CaseRole::Control);
        let control = control.unwrap().id;
        for round in grid.rounds.iter_mut().filter(|round| round.case == control) {
            let mut slower = msgpath_core::Histogram::new();
            slower.record_n((1.3 * round.latency.mean().unwrap()) as u64, 200);
            round.latency = slower.to_sparse();
        }
        let page = with_page(&runs[..1], |_| ());
        let four = answer(&page, 4);
        assert!(
            four.text.contains("faster at 4 KiB 0.112 (") && four.text.contains("not decided at 64 B 1.1"),
            "{four:?}"
        );
        assert!(four.text.contains("the same path measured twice differs in this run"), "{four:?}");
        assert!(!four.text.contains("no difference"), "{four:?}");
        assert_eq!(four.confidence, Confidence::Likely);
    }

    #[test]
    fn a_row_that_was_not_measured_as_meant_is_no_result() {
        let mut runs = preset([0.8, 0.8], [1.3, 1.3], true);
        for round in runs[0].1.rounds.iter_mut().filter(|round| round.case == 2) {
            round.far_mut().elapsed_ns *= 5;
        }
        let six = answer(&with_page(&runs, |_| ()), 6).clone();
        assert!(six.text.starts_with("There is none") && six.text.contains("Not counted is 1 check"), "{}", six.text);
        assert!(
            six.text.contains("A2 at 64 B, 1 thread (grid over veth): expected 1.00 in flight, seen 0.20"),
            "{}",
            six.text
        );
    }

    #[test]
    fn a_true_zero_copy_path_gets_another_answer() {
        let page = with_page(&preset([1.0, 1.0], [1.3, 0.6], false), |_| ());
        let one = answer(&page, 1);
        assert!(!one.text.contains("100 %") && one.text.contains("0 %"), "{}", one.text);
        let five = answer(&page, 5);
        assert_eq!(five.confidence, Confidence::Sure, "{}", five.text);
        assert!(five.text.contains("4 KiB") && !five.text.starts_with("cannot"), "{}", five.text);
        // Nothing is said of A2 where it is the same as A1.
        let four = answer(&page, 4);
        assert!(four.text.contains("at no size"), "{}", four.text);
    }

    #[test]
    fn zero_copy_that_is_faster_although_all_was_copied_is_unexpected() {
        let page = with_page(&preset([0.9, 0.9], [0.6, 1.3], true), |_| ());
        let six = answer(&page, 6);
        assert!(six.text.contains("A3") && six.text.contains("64 B"), "{}", six.text);
        assert!(!six.evidence.is_empty() && !six.evidence[0].rows.is_empty());
    }

    #[test]
    fn counted_misses_are_compared_and_threads_that_do_not_fit_are_no_scaling() {
        let runs = preset([0.8, 0.8], [1.3, 1.3], true);
        let page = with_page(&runs, |summary| {
            for case in &mut summary.cases {
                let more = if case.case.path.method == "flatten" { 2.0 } else { 1.0 };
                let rate = |name: &str, value: f64| EventRate {
                    name: name.into(),
                    per_message: Some(msgpath_stats::estimate::Estimate {
                        value,
                        low: Some(value * 0.99),
                        high: Some(value * 1.01),
                    }),
                    ..EventRate::default()
                };
                let each = [rate("L1-dcache-load-misses", 200.0 * more), rate("LLC-load-misses", 3.0)];
                case.end_mut(NEAR).events = each.to_vec();
                case.end_mut(FAR).events = each.to_vec();
            }
        });
        let two = answer(&page, 2);
        assert!(
            two.confidence == Confidence::Sure && two.text.contains("L1") && two.text.contains("−50"),
            "{}",
            two.text
        );
        let scaling = page.tables.iter().find(|table| table.name == "5-scaling").unwrap();
        let threads_8 = scaling.rows.iter().find(|row| row[0] == Cell::count(8)).unwrap();
        let why = "oversubscribed: 16 measuring threads on 2 CPUs";
        assert!(threads_8.iter().any(|cell| matches!(cell, Cell::Missing { why: output } if output == why)));
        assert!(page.tables.iter().all(|table| !table.rows.is_empty()), "every table has rows");
    }

    #[test]
    fn without_the_grid_nothing_is_claimed() {
        let page = with_page(&[], |_| ());
        assert_eq!(page.answers.len(), 6);
        assert!(page.answers.iter().all(|answer| answer.confidence == Confidence::CantTell));
        assert!(page.tables.is_empty());
    }
}
