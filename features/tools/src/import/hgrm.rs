//! Percentile distributions of HdrHistogram as text (`.hgrm`), also among other text: wrk2 prints one with `--latency`.

use msgpath_core::Histogram;

use super::{Case, Form, MOST_MESSAGES, OF_WHAT, Round, Told, Unread, has, unit};

pub(super) static FORM: Form = Form {
    name: "a percentile distribution of HdrHistogram (hgrm)",
    is: |begin| ["Value", "Percentile", "TotalCount"].iter().all(|word| has(begin, word)),
    read,
};

/// One distribution as it is read.
#[derive(Default)]
struct Section {
    name: String,
    times: Histogram,
    /// Count of the last line.
    count: u64,
    last: f64,
}

impl Section {
    /// Takes a line: the value, and how many messages took no longer.
    fn line(&mut self, value: f64, count: u64, unit: f64) -> Result<(), String> {
        let new = count.checked_sub(self.count).filter(|_| value >= self.last && count <= MOST_MESSAGES);
        let Some(new) = new else { return Err("values and counts do not go up".into()) };
        if new > 0 {
            self.times.record_n((value * unit) as u64, new);
        }
        (self.last, self.count) = (value, count);
        Ok(())
    }

    fn case(mut self, total: Option<u64>) -> Case {
        self.times.record_lost(total.unwrap_or(0).min(MOST_MESSAGES).saturating_sub(self.count));
        let round = Round { times: self.times.to_sparse(), ..Round::default() };
        let rounds = if self.times.total() > 0 { vec![round] } else { Vec::new() };
        Case { name: self.name, rounds, ..Case::default() }
    }
}

fn read(text: &[u8], typed: Option<f64>) -> Result<Told, Unread> {
    let text = String::from_utf8_lossy(text);
    let by_wrk = text.contains("Detailed Percentile spectrum");
    let told = match (text.contains("values in ns"), by_wrk) {
        (true, _) => Some(1.0),
        (_, true) => Some(1e6),
        _ => None,
    };
    let unit = unit(typed, told)?;
    let (mut cases, mut name, mut section) = (Vec::new(), String::new(), None::<Section>);
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (words.first(), &mut section) {
            (Some(&"Value"), _) if words.get(1) == Some(&"Percentile") => {
                cases.extend(section.take().map(|section| section.case(None)));
                section = Some(Section { name: std::mem::take(&mut name), ..Section::default() });
            }
            (Some(&"#"), _) if words.get(1) == Some(&"run") => {
                name = words.get(5).map(|tag| tag.trim_end_matches(',').to_owned()).unwrap_or_default();
            }
            (Some(first), Some(_)) if first.starts_with("#[Max") => {
                let total = line.rsplit_once('=').and_then(|(_, end)| end.trim().trim_end_matches(']').parse().ok());
                cases.extend(section.take().map(|section| section.case(total)));
            }
            (Some(first), Some(current)) if !first.starts_with('#') => {
                let value = first.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
                let count = words.get(2).and_then(|count| count.parse().ok());
                let taken = match value.zip(count) {
                    Some((value, count)) => current.line(value, count, unit),
                    None => Err("it is neither a value with its percentile and its count nor a remark".into()),
                };
                taken.map_err(|why| Unread::new(format!("line {}: {why}", number + 1)))?;
            }
            _ => {}
        }
    }
    cases.extend(section.map(|section| section.case(None)));
    let lacks = vec![
        OF_WHAT.into(),
        "a time is known up to the next line of the file, and counted as that".into(),
        "a distribution is one round: no range can be said of it".into(),
    ];
    let tool = if by_wrk { "wrk2" } else { "HdrHistogram" };
    Told { tool: tool.into(), cases, lacks, ..Told::default() }.checked()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As wrk2 prints it.
    const WRK: &str = "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000%    1.00ms\n\n  Detailed Percentile spectrum:\n\
        \x20      Value   Percentile   TotalCount 1/(1-Percentile)\n\n       0.500     0.000000            1         1.00\n\
        \x20      1.000     0.500000            5         2.00\n       1.000     0.550000            5         2.22\n\
        \x20      3.000     1.000000           10          inf\n\
        #[Mean    =        1.950, StdDeviation   =        1.050]\n#[Max     =        3.000, Total count    =           10]\n\
        #[Buckets =           27, SubBuckets     =         2048]\n----------------------------------------------------------\n\
        \x20 10 requests in 1.00s, 1.00KB read\nRequests/sec:     10.00\n";

    #[test]
    fn a_distribution_of_wrk2_is_in_ms() {
        let told = read(WRK.as_bytes(), None).unwrap();
        let times = &told.cases[0].rounds[0].times;
        assert_eq!((told.tool.as_str(), times.total(), times.lost()), ("wrk2", 10, 0));
        assert_eq!((times.min(), times.max()), (Some(500_000), Some(3_000_000)));
        let near = |p: f64, ns: f64| assert!((times.quantile(p).unwrap().unwrap() as f64 / ns - 1.0).abs() < 0.002);
        near(0.5, 1e6);
        near(0.9, 3e6);
    }

    #[test]
    fn a_unit_is_named_or_asked_for() {
        let text = WRK.split_once("spectrum:\n").unwrap().1;
        assert_eq!(read(text.as_bytes(), None).unwrap_err().hint, "--unit us   or ns, ms, s");
        let told = read(text.as_bytes(), Some(1e3)).unwrap();
        assert_eq!(told.cases[0].rounds[0].times.max(), Some(3_000));
        let ours = format!(
            "# run calm-heron case 0 tcp:send_64B, values in ns\n# 5 lost, 0 of 2^40 ns and more\n{}",
            text.replace("=           10", "=           15")
        );
        let told = read(ours.as_bytes(), None).unwrap();
        let times = &told.cases[0].rounds[0].times;
        assert_eq!((told.cases[0].name.as_str(), times.total(), times.lost()), ("tcp:send_64B", 15, 5));
    }

    #[test]
    fn lines_that_are_none_are_named() {
        let why = |from: &str, to: &str| read(WRK.replace(from, to).as_bytes(), None).unwrap_err().why;
        assert!(why("5         2.22", "4         2.22").contains("line 9: values and counts do not go up"));
        assert!(why("       3.000     1.0", "       x     1.0").contains("line 10: it is neither"));
    }
}
