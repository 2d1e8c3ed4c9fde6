//! `iperf3 -J`: bytes in intervals, as one end counted them.

use msgpath_core::units;
use serde::Deserialize;

use super::{Case, Form, Round, Told, Unread, has, ns_of};

pub(super) static FORM: Form = Form {
    name: "iperf3's JSON",
    // The version stands behind a list of all connections.
    is: |begin| {
        let words = ["\"iperf ", "\"local_host\""].iter().any(|word| has(begin, word));
        begin.trim_ascii_start().starts_with(b"{") && has(begin, "\"start\"") && words
    },
    read,
};

/// Bytes of an interval that are too many for any link.
const MOST: u64 = 1 << 50;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    start: Start,
    intervals: Vec<Interval>,
    end: End,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Start {
    version: String,
    connected: Vec<Connected>,
    timestamp: Timestamp,
    test_start: Test,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Connected {
    local_host: String,
    remote_host: String,
    remote_port: u16,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Timestamp {
    timesecs: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Test {
    protocol: String,
    num_streams: u32,
    blksize: u32,
    reverse: u8,
    bidir: u8,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Interval {
    sum: Sum,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Sum {
    start: f64,
    seconds: f64,
    bytes: u64,
    bits_per_second: f64,
    omitted: bool,
    sender: Option<bool>,
    lost_packets: u64,
    packets: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct End {
    sum: Sum,
    sum_sent: Sum,
    sum_received: Sum,
}

fn read(text: &[u8], _: Option<f64>) -> Result<Told, Unread> {
    let document: Document = serde_json::from_slice(text).map_err(|error| Unread::new(error.to_string()))?;
    if !document.error.is_empty() {
        return Err(Unread::new(format!("iperf3 failed: {}", document.error)));
    }
    let Document { start, intervals, end, .. } = document;
    let counted = intervals.iter().map(|interval| &interval.sum).filter(|sum| !sum.omitted);
    let by_sender = counted.clone().any(|sum| sum.sender == Some(true));
    let (sent, received) = (end.sum_sent.bits_per_second, end.sum_received.bits_per_second);
    let is_known = by_sender && sent > 0.0 && received > 0.0;
    let (share, block) = (if is_known { (received / sent).min(1.0) } else { 1.0 }, start.test_start.blksize.max(1));
    let round = |sum: &Sum| {
        let (start_ns, ns) = (ns_of(sum.start)?, ns_of(sum.seconds)?);
        let blocks = (sum.bytes as f64 * share) as u64 / u64::from(block);
        let bytes = blocks * u64::from(block);
        (ns > 0 && sum.bytes <= MOST).then(|| Round { start_ns, ns, bytes, ..Round::default() })
    };
    let rounds: Vec<Round> = counted.filter_map(round).collect();
    let udp = start.test_start.protocol.eq_ignore_ascii_case("udp");
    let case = Case {
        transport: if udp { "udp" } else { "tcp" },
        method: "write",
        size: start.test_start.blksize,
        connections: start.test_start.num_streams,
        rounds,
        ..Case::default()
    };
    let mut lacks = vec![
        "a message is a block of iperf3 (-l), bytes are whole blocks; no message was timed, and nothing of both ends is known".into(),
    ];
    if is_known {
        let whole = units::bits_per_second(received, units::BitUnits::Si);
        lacks.push(format!(
            "its intervals count what the sender handed over; what the receiver took is known of the whole run ({whole}) and was \
             shared out over them"
        ));
    } else if by_sender {
        lacks.push("its intervals count what the sender handed over: what the receiver took is not told".into());
    }
    if start.test_start.bidir > 0 {
        lacks.push("it ran in both directions: what the server sent is left out".into());
    }
    if udp && end.sum.packets > 0 {
        lacks.push(format!(
            "{} of {} datagrams were lost, which no interval tells",
            end.sum.lost_packets, end.sum.packets
        ));
    }
    let first = start.connected.into_iter().next().unwrap_or_default();
    Told {
        tool: start.version,
        stream: true,
        target: if first.remote_host.is_empty() {
            String::new()
        } else {
            format!("{}:{}", first.remote_host, first.remote_port)
        },
        client: first.local_host,
        began: start.timestamp.timesecs,
        reverse: start.test_start.reverse > 0,
        shared_out: is_known.then_some((sent, received)),
        cases: vec![case],
        lacks,
    }
    .checked()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As iperf 3.12 writes it, shortened.
    const TEXT: &str = r#"{
	"start":	{
		"connected":	[{"socket":	5, "local_host":	"10.0.0.1", "local_port":	46254, "remote_host":	"10.0.0.2", "remote_port":	5201}],
		"version":	"iperf 3.12",
		"timestamp":	{"time":	"Fri, 27 Nov 2026 10:00:00 GMT", "timesecs":	1795773600},
		"test_start":	{"protocol":	"TCP", "num_streams":	2, "blksize":	131072, "omit":	1, "duration":	2, "reverse":	0}
	},
	"intervals":	[
		{"streams": [], "sum": {"start": 0, "end": 1.0, "seconds": 1.0, "bytes": 999, "bits_per_second": 1, "omitted": true, "sender": true}},
		{"streams": [], "sum": {"start": 0, "end": 1.0, "seconds": 1.0, "bytes": 1250000000, "bits_per_second": 1e10, "retransmits": 0, "omitted": false, "sender": true}},
		{"streams": [], "sum": {"start": 1.0, "end": 2.0, "seconds": 1.0, "bytes": 1125000000, "bits_per_second": 9e9, "retransmits": 3, "omitted": false, "sender": true}}
	],
	"end":	{"sum_sent": {"bytes": 2375000000, "bits_per_second": 9.5e9}, "sum_received": {"bytes": 2370000000, "bits_per_second": 9.48e9}}
}"#;

    #[test]
    fn intervals_become_rounds() {
        let told = read(TEXT.as_bytes(), None).unwrap();
        assert_eq!(
            (told.tool.as_str(), told.target.as_str(), told.began),
            ("iperf 3.12", "10.0.0.2:5201", 1_795_773_600)
        );
        let case = &told.cases[0];
        assert_eq!((case.size, case.connections, case.transport), (131_072, 2, "tcp"));
        let rounds: Vec<_> = case.rounds.iter().map(|round| (round.start_ns, round.ns)).collect();
        assert_eq!(rounds, [(0, 1_000_000_000), (1_000_000_000, 1_000_000_000)]);
        // Whole blocks of what the receiver took of it: 9.48 of 9.5.
        let blocks = |at: usize| (case.rounds[at].bytes / 131_072, case.rounds[at].bytes % 131_072);
        assert_eq!((blocks(0), blocks(1)), ((9_516, 0), (8_564, 0)));
        assert!(told.lacks[1].contains("of the whole run (9.48 Gbit/s)"), "{:?}", told.lacks);
        assert_eq!(told.shared_out, Some((9.5e9, 9.48e9)));
        let untold = read(TEXT.replace("sum_received", "x").as_bytes(), None).unwrap();
        assert_eq!((untold.cases[0].rounds[0].bytes / 131_072, untold.shared_out), (9_536, None));
        assert!(untold.lacks[1].ends_with("is not told"), "{:?}", untold.lacks);
    }

    #[test]
    fn what_measured_nothing_says_why() {
        let why = |text: &str| read(text.as_bytes(), None).unwrap_err().why;
        assert_eq!(
            why(r#"{"start":{"version":"iperf 3.12"},"error":"unable to connect"}"#),
            "iperf3 failed: unable to connect"
        );
        assert!(why(r#"{"start":{"version":"iperf 3.12"},"intervals":[]}"#).contains("no interval"));
        assert!(why(r#"{"start":{"version":"iperf 3.12""#).contains("EOF"));
        let odd = TEXT.replace("\"seconds\": 1.0", "\"seconds\": -1e300");
        assert!(why(&odd).contains("no interval"));
    }
}
