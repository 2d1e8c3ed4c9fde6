//! `hgrm`: the percentile distribution of HdrHistogram as text, one section per case.

use std::io::{self, Write};

use msgpath_core::foreign::shown;
use msgpath_core::{Case, Histogram};

use super::hdr::{tag, to_hdr};
use super::{Exporter, failed};
use crate::{RecordError, Run};

/// Lines for each halving of the distance to 100 %.
const TICKS_PER_HALF: u32 = 5;
/// What HdrHistogram uses for three digits.
const SUB_BUCKETS: u32 = 2048;

pub(super) struct Hgrm;

impl Exporter for Hgrm {
    fn name(&self) -> &'static str {
        "hgrm"
    }

    fn extension(&self) -> &'static str {
        "hgrm"
    }

    fn summary(&self) -> &'static str {
        "HdrHistogram percentile distribution, one section per case, values in ns"
    }

    fn export(&self, run: &Run, out: &mut dyn Write) -> Result<(), RecordError> {
        let mut all = Histogram::new();
        for case in &run.header.plan.cases {
            all.clear();
            run.rounds.iter().filter(|round| round.case == case.id).for_each(|round| all.merge_sparse(&round.latency));
            section(&run.header.name, case, &all, out).map_err(failed)?;
        }
        Ok(())
    }
}

fn section(run: &str, case: &Case, all: &Histogram, out: &mut dyn Write) -> io::Result<()> {
    let hdr = to_hdr(all);
    writeln!(out, "# run {} case {} {}, values in ns", shown(run), case.id, tag(case))?;
    if all.total() == 0 {
        return writeln!(out, "# n/a: no message of this case was timed\n");
    }
    let without = all.total() - hdr.len();
    if without > 0 {
        // A lost message is infinite: the percentages count it, so they end below 100 %.
        writeln!(out, "# {} lost, {} of 2^40 ns and more: counted as infinite", all.lost(), all.beyond())?;
    }
    let share = hdr.len() as f64 / all.total() as f64;
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut count = 0;
    for step in hdr.iter_quantiles(TICKS_PER_HALF) {
        count += step.count_since_last_iteration();
        let p = step.quantile_iterated_to() * share;
        write!(out, "{:>12.3} {p:>2.12} {count:>10}", step.value_iterated_to() as f64)?;
        if p < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - p))?;
        }
        writeln!(out)?;
    }
    let (mean, max) = (all.mean().unwrap_or(0.0), hdr.max());
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {:>12.3}]", hdr.stdev())?;
    writeln!(out, "#[Max     = {:>12.3}, Total count    = {:>12}]", max as f64, all.total())?;
    writeln!(out, "#[Buckets = {:>12}, SubBuckets     = {:>12}]\n", hdr.buckets(), SUB_BUCKETS)
}

#[cfg(test)]
mod tests {
    use crate::export::tests::exported;

    /// Value, percentile and count of every line of every section.
    fn sections(text: &str) -> Vec<Vec<(f64, f64, u64)>> {
        let parts = text.split("# run ").skip(1);
        parts
            .map(|part| {
                let numbers = part.lines().skip(1).filter(|line| !line.starts_with('#') && !line.contains("Value"));
                numbers
                    .filter(|line| !line.is_empty())
                    .map(|line| {
                        let mut words = line.split_whitespace();
                        let mut word = || words.next().unwrap();
                        (word().parse().unwrap(), word().parse().unwrap(), word().parse().unwrap())
                    })
                    .collect()
            })
            .collect()
    }

    #[test]
    fn every_case_is_a_section() {
        let (bytes, written) = exported("hgrm");
        let text = String::from_utf8(bytes).unwrap();
        let sections = sections(&text);
        assert_eq!(sections.len(), written.header.plan.cases.len());
        for (case, lines) in sections.iter().enumerate() {
            assert!(lines.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2));
            let rounds = || written.rounds.iter().filter(|round| round.case as usize == case);
            let arrived: u64 = rounds().map(|round| round.latency.total() - round.latency.lost()).sum();
            let max = rounds().filter_map(|round| round.latency.max()).max().unwrap() as f64;
            let (value, p, count) = *lines.last().unwrap();
            assert_eq!(count, arrived);
            assert!((value - max).abs() <= max * 0.001);
            assert!((p - if case == 0 { 1.0 } else { 0.9 }).abs() < 1e-9, "lost messages are in the percentages");
        }
        assert!(text.contains("# 3 lost"));
    }
}
