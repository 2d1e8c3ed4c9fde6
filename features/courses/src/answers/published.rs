//! Published numbers beside those of this machine, with the reason for the difference where it is known.

use crate::preset::{Published, Quantity};
use msgpath_core::{CaseRole, PathName, PathSpec};

use super::cell::Value;
use super::{Answer, Cell, Part, Table, part};
use msgpath_analyse::summary::{CaseSummary, Confidence};

/// The table, and a sentence that sums it up.
pub(super) fn beside(source: &str, published: &[Published], parts: &[Part<'_>]) -> (Table, Answer) {
    let columns = ["published", "there", "here", "here / there", "because"];
    let mut table = Table::new("published", format!("Published numbers and ours. There: {source}"), &columns);
    let (mut within, mut compared, mut contain) = (0, 0, 0);
    for row in published {
        let kind: fn(Value) -> Cell = match row.quantity {
            Quantity::P50 | Quantity::Mean | Quantity::Fastest | Quantity::Slowest | Quantity::Duration => Cell::Time,
            Quantity::Rate => Cell::Number,
            Quantity::Throughput => Cell::Bits,
            Quantity::Ratio => Cell::Ratio,
        };
        let there = row.value * scale(row.quantity);
        let case = part(parts, &row.run).and_then(|part| Some((part, find(part, &row.path, row)?)));
        let here = case.ok_or_else(|| "not measured here".to_owned()).and_then(|(part, case)| value(part, case, row));
        let mut because: Vec<String> = Some(row.because.clone()).into_iter().filter(|text| !text.is_empty()).collect();
        if let Some((_, case)) = case {
            because.extend(copied(case));
        }
        let (shown, ratio) = match here {
            Ok(here) => {
                let ratio = Value {
                    value: here.value / there,
                    low: here.low.map(|low| low / there),
                    high: here.high.map(|high| high / there),
                };
                compared += 1;
                within += u64::from((0.5..=2.0).contains(&ratio.value));
                contain += u64::from(ratio.low.zip(ratio.high).is_some_and(|(low, high)| low <= 1.0 && high >= 1.0));
                (kind(here), Cell::Ratio(ratio))
            }
            Err(why) => (Cell::missing(why.clone()), Cell::missing(why)),
        };
        table.row([Cell::text(&row.label), kind(there.into()), shown, ratio, Cell::text(because.join("; "))]);
    }
    let question = "Are the published numbers seen here as well?";
    let answer = match compared {
        0 => Answer::cannot(question, "none of them could be measured here"),
        _ => Answer::new(
            question,
            Confidence::Sure,
            format!(
                "{compared} of {} published numbers were measured here; {within} of them came out within a factor of 2, and \
                 the 95 % intervals of {contain} contain the published value. It is another machine, so a factor alone \
                 contradicts nothing; the order of the rows may be compared.",
                published.len()
            ),
        ),
    };
    (table, answer)
}

/// From the unit of the file to that of the table.
fn scale(quantity: Quantity) -> f64 {
    match quantity {
        Quantity::P50 | Quantity::Mean | Quantity::Fastest | Quantity::Slowest | Quantity::Duration => 1e3,
        Quantity::Rate | Quantity::Throughput | Quantity::Ratio => 1.0,
    }
}

fn find<'a>(part: Part<'a>, path: &str, row: &Published) -> Option<&'a CaseSummary> {
    let spec: PathSpec = path.parse().ok()?;
    part.summary.cases.iter().find(|summary| {
        let case = &summary.case;
        case.role == CaseRole::Measured
            && names(&spec, &case.path)
            && case.size == row.size
            && row.threads.is_none_or(|threads| threads == case.threads)
            && row.connections.is_none_or(|connections| connections == case.connections)
            && row.pieces.as_ref().is_none_or(|pieces| *pieces == case.pieces.to_string())
            && summary.rounds > 0
    })
}

/// Whether a path is what was typed; what was not typed may be anything.
fn names(spec: &PathSpec, path: &PathName) -> bool {
    let is = |typed: &Option<String>, has: &str| typed.as_deref().is_none_or(|typed| typed == has);
    is(&spec.transport, &path.transport) && is(&spec.method, &path.method) && is(&spec.wait, &path.wait)
}

fn value(part: Part<'_>, case: &CaseSummary, row: &Published) -> Result<Value, String> {
    let none = || "no such number in this run".to_owned();
    let time = |ns: Option<f64>| ns.map(Value::from).ok_or_else(none);
    match row.quantity {
        Quantity::P50 => {
            case.latency.quantiles.iter().find(|quantile| quantile.p == 0.5).map(Value::from).ok_or_else(none)
        }
        Quantity::Mean => time(case.latency.mean_ns),
        Quantity::Fastest => time(case.latency.fastest_ns.map(|ns| ns as f64)),
        Quantity::Slowest => time(case.latency.slowest_ns.map(|ns| ns as f64)),
        Quantity::Rate => rate(case).ok_or_else(none),
        Quantity::Throughput => bits(case).ok_or_else(none),
        Quantity::Duration => {
            let bits = bits(case).ok_or_else(none)?;
            let of = |rate: f64| row.bytes.unwrap_or(0) as f64 * 8.0 / rate * 1e9;
            Ok(Value { value: of(bits.value), low: bits.high.map(of), high: bits.low.map(of) })
        }
        Quantity::Ratio => {
            let by = row.by.as_deref().unwrap_or_default();
            let other = find(part, by, row).ok_or_else(|| format!("{by} was not measured here"))?;
            ratio(part, case, other).ok_or_else(none)
        }
    }
}

fn rate(case: &CaseSummary) -> Option<Value> {
    case.throughput.as_ref().map(|throughput| &throughput.messages).or(case.rate_per_s.as_ref()).map(Value::from)
}

/// Payload one way.
fn bits(case: &CaseSummary) -> Option<Value> {
    if let Some(throughput) = &case.throughput {
        return Some((&throughput.receiver_bits).into());
    }
    let bits = |rate: f64| rate * case.case.size as f64 * 8.0;
    case.rate_per_s.as_ref().map(|rate| Value {
        value: bits(rate.value),
        low: rate.low.map(bits),
        high: rate.high.map(bits),
    })
}

/// Where the run compared the two, the paired ratio with its interval; otherwise the plain one without.
fn ratio(part: Part<'_>, case: &CaseSummary, by: &CaseSummary) -> Option<Value> {
    let comparison = part.summary.comparison.as_ref();
    let paired = comparison.and_then(|comparison| {
        let found = comparison.ratios.iter().find(|r| r.case == case.case.id && r.baseline == by.case.id)?;
        let value = Value { value: found.ratio, low: found.low, high: found.high };
        Some(match comparison.metric.as_str() {
            "throughput" => value,
            _ => Value { value: 1.0 / found.ratio, low: found.high.map(f64::recip), high: found.low.map(f64::recip) },
        })
    });
    paired.or_else(|| Some((bits(case)?.value / bits(by)?.value).into()))
}

/// What the kernel said of the case's zero-copy sends.
fn copied(case: &CaseSummary) -> Option<String> {
    let counts = case.copied.zerocopy.as_ref()?;
    let answered = counts.copied + counts.zero_copied;
    (answered > 0).then(|| {
        let share = counts.copied as f64 / answered as f64 * 100.0;
        format!("the kernel copied {share:.0} % of the sends here")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::summary::{Latency, Summary};
    use msgpath_analyse::testing::Build;
    use msgpath_core::Case;
    use msgpath_core::schema::Status;
    use msgpath_core::units::Pieces;
    use msgpath_stats::estimate::Estimate;

    fn row(quantity: Quantity, value: f64) -> Published {
        Published {
            label: "pipe".into(),
            value,
            quantity,
            run: "main".into(),
            path: "pipe:write".into(),
            size: 100,
            threads: None,
            connections: None,
            pieces: None,
            by: None,
            bytes: None,
            because: "another CPU".into(),
        }
    }

    fn summary() -> Summary {
        let case = Case::new(PathName::new("pipe", "write", "block"), Pieces::whole(100));
        let rate = Estimate { value: 100_000.0, low: Some(90_000.0), high: Some(110_000.0) };
        let latency = Latency { mean_ns: Some(10_000.0), ..Latency::default() };
        let case = CaseSummary { rounds: 10, latency, rate_per_s: Some(rate), ..CaseSummary::empty(case) };
        Summary { cases: vec![case], ..Summary::empty("x", "compare", Status::Ok) }
    }

    #[test]
    fn ours_stands_beside_theirs_with_its_interval() {
        let (run, summary, logs) =
            (Build::echo(&["pipe:write"], &[100]).run(), summary(), msgpath_analyse::Logs::default());
        let parts = [Part { name: "main", run: &run, summary: &summary, logs: &logs }];
        let rows = [row(Quantity::Rate, 100_000.0), row(Quantity::Mean, 2.0), row(Quantity::P50, 1.0)];
        let (table, answer) = beside("somewhere", &rows, &parts);
        let Cell::Ratio(ratio) = &table.rows[0][3] else { panic!("{:?}", table.rows[0]) };
        assert!((ratio.value - 1.0).abs() < 1e-12 && ratio.low.is_some_and(|low| (low - 0.9).abs() < 1e-12));
        assert_eq!(table.rows[1][2], Cell::Time(10_000.0.into()));
        assert_eq!(table.rows[1][3], Cell::Ratio(5.0.into()), "10 µs against 2 µs");
        assert!(matches!(table.rows[2][2], Cell::Missing { .. }), "no median was summarised");
        assert!(
            answer.text.starts_with("2 of 3 published numbers") && answer.text.contains("1 of them"),
            "{}",
            answer.text
        );
        let (_, answer) = beside("somewhere", &[row(Quantity::Rate, 1.0)], &[]);
        assert_eq!(answer.confidence, Confidence::CantTell);
    }

    #[test]
    fn a_duration_is_the_time_of_its_bytes() {
        let (run, summary, logs) =
            (Build::echo(&["pipe:write"], &[100]).run(), summary(), msgpath_analyse::Logs::default());
        let parts = [Part { name: "main", run: &run, summary: &summary, logs: &logs }];
        let rows = [Published { bytes: Some(1_000_000), ..row(Quantity::Duration, 100_000.0) }];
        let (table, _) = beside("", &rows, &parts);
        let Cell::Time(time) = &table.rows[0][2] else { panic!() };
        // 100 000 messages of 100 B a second are 10 MB a second.
        assert!((time.value - 1e8).abs() < 1.0 && time.low.is_some_and(|low| low < 1e8), "{time:?}");
    }
}
