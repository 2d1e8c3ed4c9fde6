//! netperf's omni output: keys and values (`-k`), or a line of names and one of values (`-o`). One run is one interval.

use std::collections::BTreeMap;

use msgpath_core::Histogram;

use super::{Case, Form, MOST_MESSAGES, Round, Told, Unread, has, ns_of};

pub(super) static FORM: Form = Form {
    name: "omni output of netperf",
    is: |begin| {
        let keys = ["MEAN_LATENCY=", "P50_LATENCY=", "THROUGHPUT=", "TRANSACTION_RATE="];
        let names = ["Throughput Units,", "Latency Microseconds,", "Throughput,"];
        let banner = begin.starts_with(b"MIGRATED ") || begin.starts_with(b"OMNI ");
        banner || keys.into_iter().chain(names).any(|word| has(&begin[..begin.len().min(2048)], word))
    },
    read,
};

/// What is typed so that a file tells enough.
const ASK: &str = "netperf -t TCP_RR ... -- -k THROUGHPUT,THROUGHPUT_UNITS,ELAPSED_TIME,MIN_LATENCY,P50_LATENCY,P90_LATENCY,P99_LATENCY,MAX_LATENCY,REQUEST_SIZE,PROTOCOL";

/// Names of `-o` as those of `-k`.
const NAMES: [(&str, &str); 12] = [
    ("Throughput", "THROUGHPUT"),
    ("Throughput Units", "THROUGHPUT_UNITS"),
    ("Elapsed Time (sec)", "ELAPSED_TIME"),
    ("Minimum Latency Microseconds", "MIN_LATENCY"),
    ("50th Percentile Latency Microseconds", "P50_LATENCY"),
    ("90th Percentile Latency Microseconds", "P90_LATENCY"),
    ("99th Percentile Latency Microseconds", "P99_LATENCY"),
    ("Maximum Latency Microseconds", "MAX_LATENCY"),
    ("Request Size Bytes", "REQUEST_SIZE"),
    ("Local Send Size", "LOCAL_SEND_SIZE"),
    ("Protocol", "PROTOCOL"),
    ("Transaction Rate Tran/s", "TRANSACTION_RATE"),
];

/// What it says, by the names of `-k`.
struct Values(BTreeMap<String, String>);

impl Values {
    fn of(text: &str) -> Self {
        let mut values = BTreeMap::new();
        let mut names: Option<Vec<&str>> = None;
        for line in text.lines().map(str::trim).take(10_000) {
            let key = line
                .split_once('=')
                .filter(|(key, _)| key.bytes().all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(&byte)));
            if let Some((key, value)) = key {
                values.insert(key.to_owned(), value.trim().to_owned());
            } else if let Some(names) = names.take() {
                let own = |name: &str| NAMES.iter().find(|(long, _)| *long == name).map(|(_, key)| (*key).to_owned());
                let cells = names.iter().zip(line.split(','));
                values.extend(cells.filter_map(|(name, cell)| Some((own(name.trim())?, cell.trim().to_owned()))));
            } else if line.contains(',')
                && NAMES.iter().any(|(long, _)| line.split(',').any(|name| name.trim() == *long))
            {
                names = Some(line.split(',').collect());
            }
        }
        Self(values)
    }

    fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// A number; what netperf has not measured is -1.
    fn number(&self, key: &str) -> Option<f64> {
        self.text(key).parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
    }
}

fn read(text: &[u8], _: Option<f64>) -> Result<Told, Unread> {
    let text = String::from_utf8_lossy(text);
    let values = Values::of(&text);
    let need = |what: &str| Unread { why: format!("it does not tell {what}"), hint: ASK };
    let seconds = values.number("ELAPSED_TIME").ok_or_else(|| need("how long it ran (ELAPSED_TIME)"))?;
    let ns = ns_of(seconds).filter(|ns| *ns > 0).ok_or_else(|| need("how long it ran (ELAPSED_TIME)"))?;
    let units = values.text("THROUGHPUT_UNITS");
    let mut lacks = vec!["netperf tells of its run as a whole: it is one round, no range can be said of it, and nothing of both ends is known".to_owned()];
    let protocol = values.text("PROTOCOL").to_ascii_lowercase();
    let transport = ["tcp", "udp"].into_iter().find(|known| protocol == *known).unwrap_or_default();
    if transport.is_empty() {
        lacks.push("it does not tell its protocol (PROTOCOL)".into());
    }
    let factor =
        [("10^3bits/s", 1e3), ("10^6bits/s", 1e6), ("10^9bits/s", 1e9)].into_iter().find(|(name, _)| *name == units);
    let rate = values.number("TRANSACTION_RATE").or_else(|| values.number("THROUGHPUT").filter(|_| units == "Trans/s"));
    let (stream, size_key) =
        (factor.is_some() && rate.is_none(), if factor.is_some() { "LOCAL_SEND_SIZE" } else { "REQUEST_SIZE" });
    let size = values.number(size_key).filter(|size| (1.0..1e9).contains(size)).map(|size| size as u32);
    if size.is_none() {
        lacks.push(format!("it does not tell the size of a message ({size_key})"));
    }
    let round = match (factor.filter(|_| stream), rate) {
        (Some((_, factor)), _) => {
            let bits = values.number("THROUGHPUT").ok_or_else(|| need("its rate (THROUGHPUT)"))? * factor;
            lacks.push("no message was timed; bytes are whole messages".into());
            Round { ns, bytes: (bits / 8.0 * seconds) as u64, ..Round::default() }
        }
        (None, Some(rate)) => {
            lacks.push("a time is known up to the next quantile of the file, and counted as that".into());
            Round { ns, times: times(&values, rate * seconds)?.to_sparse(), ..Round::default() }
        }
        (None, None) => return Err(need("a rate in bits/s or Trans/s (THROUGHPUT with THROUGHPUT_UNITS)")),
    };
    // Of a size that is not told nothing is told of how it was handed over.
    let method = if size.is_some() && !transport.is_empty() { "send" } else { "" };
    let case =
        Case { transport, method, size: size.unwrap_or(1), connections: 1, rounds: vec![round], ..Case::default() };
    Told { tool: "netperf".into(), stream, cases: vec![case], lacks, ..Told::default() }.checked()
}

/// The messages of its run: each quantile is the time of all up to it.
fn times(values: &Values, messages: f64) -> Result<Histogram, Unread> {
    let all = messages.round().clamp(0.0, MOST_MESSAGES as f64) as u64;
    let marks =
        [("MIN_LATENCY", 0.0), ("P50_LATENCY", 0.5), ("P90_LATENCY", 0.9), ("P99_LATENCY", 0.99), ("MAX_LATENCY", 1.0)];
    let (mut times, mut counted, mut last) = (Histogram::new(), 0, 0.0);
    for (key, share) in marks {
        let Some(us) = values.number(key) else { continue };
        let until = if share == 0.0 { all.min(1) } else { (all as f64 * share) as u64 };
        if us < last {
            return Err(Unread::new(format!("its quantiles do not go up ({key})")));
        }
        if until > counted {
            times.record_n((us * 1e3) as u64, until - counted);
        }
        (counted, last) = (counted.max(until), us);
    }
    match counted == all && all > 0 {
        true => Ok(times),
        false => Err(Unread {
            why: "it does not tell its slowest message (MAX_LATENCY), or no message at all".into(),
            hint: ASK,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET : demo\nTHROUGHPUT=1000.00\n\
        THROUGHPUT_UNITS=Trans/s\nELAPSED_TIME=2.00\nMIN_LATENCY=10\nP50_LATENCY=20\nP90_LATENCY=30\nP99_LATENCY=40\n\
        MAX_LATENCY=500\nREQUEST_SIZE=64\nPROTOCOL=TCP\n";

    #[test]
    fn keys_and_columns_tell_the_same() {
        let columns = "OMNI Send|Recv TEST from h\nThroughput,Throughput Units,Elapsed Time (sec),Minimum Latency Microseconds,\
            50th Percentile Latency Microseconds,90th Percentile Latency Microseconds,99th Percentile Latency Microseconds,\
            Maximum Latency Microseconds,Request Size Bytes,Protocol\n1000.00,Trans/s,2.00,10,20,30,40,500,64,TCP\n";
        for text in [KEYS, columns] {
            assert!((FORM.is)(text.as_bytes()));
            let told = read(text.as_bytes(), None).unwrap();
            let case = &told.cases[0];
            assert_eq!((case.transport, case.method, case.size), ("tcp", "send", 64), "{text}");
            let times = &case.rounds[0].times;
            assert_eq!((times.total(), times.min(), times.max()), (2000, Some(10_000), Some(500_000)));
            let near =
                |p: f64, ns: f64| assert!((times.quantile(p).unwrap().unwrap() as f64 / ns - 1.0).abs() < 0.01, "{p}");
            near(0.5, 20e3);
            near(0.9, 30e3);
            near(0.99, 40e3);
        }
    }

    #[test]
    fn a_stream_is_what_it_carried() {
        let text =
            "THROUGHPUT=800.00\nTHROUGHPUT_UNITS=10^6bits/s\nELAPSED_TIME=2.00\nLOCAL_SEND_SIZE=1000\nPROTOCOL=TCP\n";
        let told = read(text.as_bytes(), None).unwrap();
        assert_eq!((told.stream, told.cases[0].size, told.cases[0].rounds[0].bytes), (true, 1000, 200_000_000));
    }

    #[test]
    fn what_is_not_told_is_asked_for_and_not_invented() {
        let why = |key: &str| {
            let text: String =
                KEYS.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect();
            read(text.as_bytes(), None).map_err(|unread| (unread.why, unread.hint))
        };
        for key in ["ELAPSED_TIME", "MAX_LATENCY", "THROUGHPUT="] {
            let (why, hint) = why(key).unwrap_err();
            assert!(why.contains("does not tell") && hint.contains("-k THROUGHPUT"), "{key}: {why}");
        }
        for key in ["PROTOCOL", "REQUEST_SIZE"] {
            let told = why(key).unwrap();
            assert!(told.cases[0].method.is_empty() && told.lacks.iter().any(|lack| lack.contains(key)), "{key}");
        }
        assert!(
            read(KEYS.replace("P90_LATENCY=30", "P90_LATENCY=5").as_bytes(), None).unwrap_err().why.contains("go up")
        );
        assert!(read(b"THROUGHPUT=-1\nELAPSED_TIME=1e300\n", None).is_err());
    }
}
