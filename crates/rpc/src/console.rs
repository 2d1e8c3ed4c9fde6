//! What the lab's client prints, character by character, and the record that it logs.

use std::fmt::Write;

use msgpath_core::calendar;
use msgpath_core::units::Glyphs;

use crate::log::DATA_BYTES;
use crate::message::{Header, Kind, Status};

/// Round trips that are listed one by one.
pub const LISTED: usize = 20;
/// Bytes of a body that a log record and a verbose line show.
const SHOWN: usize = DATA_BYTES;

/// `at client, server IP = 7f000001:3039`, without the end of the line.
pub fn server_line(ip: u32, port: u16) -> String {
    format!("at client, server IP = {ip:08x}:{port:04x}")
}

/// What the lab's client counts of its calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The first round trips, µs.
    pub first_us: Vec<u64>,
    /// Calls by floor(log2(µs)); what is above 2^31 µs is in the last bucket.
    pub buckets: [u64; 32],
    /// Calls with a reply.
    pub calls: u64,
    /// Sum of the round trips, ns.
    pub sum_ns: u64,
    /// Bytes sent, with all headers.
    pub sent: u64,
    /// Bytes received, with all headers.
    pub received: u64,
}

impl Tally {
    /// Counts a call.
    pub fn add(&mut self, latency_ns: u64, request_bytes: u64, reply_bytes: u64) {
        let us = latency_ns / 1000;
        if self.first_us.len() < LISTED {
            self.first_us.push(us);
        }
        self.buckets[us.checked_ilog2().unwrap_or(0).min(31) as usize] += 1;
        self.calls += 1;
        self.sum_ns += latency_ns;
        self.sent += request_bytes;
        self.received += reply_bytes;
    }

    /// The first round trips: each in ms and two spaces, a line after the tenth and the twentieth.
    pub fn first(&self) -> String {
        let mut out = String::new();
        for (at, us) in self.first_us.iter().enumerate() {
            let _ = write!(out, "{:5.3}ms  ", *us as f64 / 1e3);
            if at % 10 == 9 {
                out.push('\n');
            }
        }
        out
    }

    /// The 32 counts, each followed by a space, two more after every tenth.
    fn counts(&self) -> String {
        let mut out = String::new();
        for (at, count) in self.buckets.iter().enumerate() {
            let _ = write!(out, "{count} ");
            if at % 10 == 9 {
                out.push_str("  ");
            }
        }
        out
    }

    /// The histogram and the two lines of sums; it starts with an empty line. RPC/s and MB/s are by the sum of the round
    /// trips, not by the time that passed.
    pub fn histogram(&self) -> String {
        let (ms, mb) = (self.sum_ns as f64 / 1e6, |bytes: u64| bytes as f64 / 1e6);
        let seconds = (self.sum_ns as f64 / 1e9).max(1e-9);
        let calls = self.calls as f64;
        format!(
            "\nHistogram of floor log 2 buckets of usec response times\n\
             1 2+ 4+ us            1+ 2+ 4+ msec         1+ 2+ 4+ sec           1K+ 2k+ secs\n\
             |                     |                     |                      |\n\
             {}\n\
             {} RPCs, {ms:5.1} msec, {:5.3} TxMB, {:5.3} RxMB total\n\
             {:5.1} RPC/s ({:5.3} msec/RPC), {:5.1} TxMB/s, {:5.1} RxMB/s\n",
            self.counts(),
            self.calls,
            mb(self.sent),
            mb(self.received),
            calls / seconds,
            ms / calls.max(1.0),
            mb(self.sent) / seconds,
            mb(self.received) / seconds,
        )
    }
}

impl Tally {
    /// How many calls of a kind had which end, and how many bytes went, in one line.
    pub fn ends(&self, name: &str, failed: u64, unanswered: u64) -> String {
        let mb = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "{name}: {} {} answered, {} failed, {} without a reply; {:.3} TxMB, {:.3} RxMB (headers included, MB = 10^6)",
            self.calls,
            if self.calls == 1 { "call" } else { "calls" },
            failed,
            unanswered,
            mb(self.sent),
            mb(self.received),
        )
    }

    /// The first round trips, in one line.
    pub fn first_trips(&self, name: &str, glyphs: Glyphs) -> String {
        // One unit for the row: that of the first, which is the longest as a rule.
        let like = self.first_us.first().map_or(0.0, |us| *us as f64 * 1e3);
        let unit = glyphs.time_in(like, like).1;
        let list: Vec<String> = self.first_us.iter().map(|us| glyphs.time_in(*us as f64 * 1e3, like).0).collect();
        format!(
            "{name}: first {} round {}, {unit}: {}",
            list.len(),
            if list.len() == 1 { "trip" } else { "trips" },
            list.join(" ")
        )
    }

    /// Calls by powers of two of a microsecond, in aligned columns; empty buckets at both ends are left out.
    pub fn log2(&self, name: &str, glyphs: Glyphs) -> Vec<String> {
        let there = |at: &usize| self.buckets[*at] > 0;
        let (Some(first), Some(last)) = ((0..32).find(there), (0..32).rfind(there)) else { return Vec::new() };
        let most = self.buckets.iter().copied().max().unwrap_or(1).max(1);
        let mut out = vec![format!("{name}: round trips by powers of two")];
        for at in first..=last {
            let from = if at == 0 { 0.0 } else { 1e3 * (1_u64 << at) as f64 };
            let to = 1e3 * (1_u64 << (at + 1)) as f64;
            let count = self.buckets[at];
            let bar = "#".repeat((count as f64 * 40.0 / most as f64).ceil() as usize);
            let line = format!("  {:>8} to {:>8} {:>12} {bar}", glyphs.time(from), glyphs.time(to), count.to_string());
            out.push(line.trim_end().to_owned());
        }
        out
    }
}

/// `YYYYMMDD_HHMMSS` of seconds since 1970; local where the offset of the time zone was added.
pub fn stamp(seconds: i64) -> String {
    let ((year, month, day), (hour, minute, second)) = calendar::date_and_time(seconds);
    format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
}

/// The name of a log: `msgpath_20260929_092429_host_4711.log`. The host's name is cut to what a file may be called.
pub fn log_name(program: &str, local_seconds: i64, host: &str, pid: u32) -> String {
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c)).take(64).collect();
    format!("{program}_{}_{host}_{pid}.log", stamp(local_seconds))
}

fn address(ip: u32, port: u16) -> String {
    match ip {
        0 => "unk:unk".into(),
        ip => format!("{}:{port}", std::net::Ipv4Addr::from(ip)),
    }
}

fn seconds(us: i64) -> String {
    format!("{:3}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000))
}

/// The first bytes of a body, as they are shown: what is not printable ASCII is a dot.
fn data(body: &[u8]) -> String {
    body.iter().take(SHOWN).map(|byte| if (0x21..0x7f).contains(byte) { char::from(*byte) } else { '.' }).collect()
}

/// A line of `-verbose`, without the end of the line: `client4: SendRequest:     ` and the fields of the message, each
/// followed by a space. `offset_s` is what the local time is ahead of UTC.
pub fn verbose(sends: bool, header: &Header, body_bytes: usize, body: &[u8], offset_s: i64) -> String {
    let lead = if sends { "client4: SendRequest:     " } else { "client4: ReceiveResponse: " };
    let [t1, t2, t3, t4] = header.t;
    let kind = Kind::from_number(header.kind).map_or("ERROR", Kind::name);
    format!(
        "{lead}{}.{:06} {} {} {} {} {} {:08x} {:08x} {}.{} {}.{} {kind:<8} {} {:<8} {body_bytes} {} ",
        stamp(t1.div_euclid(1_000_000) + offset_s),
        t1.rem_euclid(1_000_000),
        seconds(t2),
        seconds(t3),
        seconds(t4),
        address(header.client_ip, header.client_port),
        address(header.server_ip, header.server_port),
        header.rpcid,
        header.parent,
        header.lglen1 / 10,
        header.lglen1 % 10,
        header.lglen2 / 10,
        header.lglen2 % 10,
        header.method,
        Status(header.status).name(),
        data(body),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Method;
    use crate::log::Record;
    use proptest::prelude::*;

    #[test]
    fn the_histogram_is_the_labs() {
        let mut tally = Tally::default();
        (0..155).for_each(|_| tally.add(20_000, 155, 155));
        (0..43).for_each(|_| tally.add(40_000, 155, 155));
        tally.add(70_000, 155, 155);
        tally.add(1_409_999, 155, 155);
        let text = tally.histogram();
        assert_eq!(
            text,
            "\nHistogram of floor log 2 buckets of usec response times\n\
             1 2+ 4+ us            1+ 2+ 4+ msec         1+ 2+ 4+ sec           1K+ 2k+ secs\n\
             |                     |                     |                      |\n\
             0 0 0 0 155 43 1 0 0 0   1 0 0 0 0 0 0 0 0 0   0 0 0 0 0 0 0 0 0 0   0 0 \n\
             200 RPCs,   6.3 msec, 0.031 TxMB, 0.031 RxMB total\n\
             31746.0 RPC/s (0.031 msec/RPC),   4.9 TxMB/s,   4.9 RxMB/s\n"
        );
    }

    #[test]
    fn the_first_twenty_are_listed_in_two_lines() {
        let mut tally = Tally::default();
        (0..25).for_each(|at| tally.add(228_000 + at * 1_000, 1, 1));
        let text = tally.first();
        assert!(text.starts_with("0.228ms  0.229ms  "), "{text}");
        assert_eq!(text.lines().map(|line| line.matches("ms  ").count()).collect::<Vec<_>>(), [10, 10]);
        assert!(text.ends_with("0.247ms  \n"));
        assert_eq!(Tally::default().first(), "");
    }

    #[test]
    fn the_first_round_trips_and_their_powers_of_two() {
        let mut tally = Tally::default();
        (0..4).for_each(|_| tally.add(250_000, 1_000_000, 1_000));
        assert_eq!(
            tally.ends("write", 1, 2),
            "write: 4 calls answered, 1 failed, 2 without a reply; 4.000 TxMB, 0.004 RxMB (headers included, MB = 10^6)"
        );
        assert_eq!(tally.first_trips("write", Glyphs::Ascii), "write: first 4 round trips, us: 250 250 250 250");
        assert_eq!(
            tally.log2("write", Glyphs::Ascii)[1],
            format!("    128 us to   256 us            4 {}", "#".repeat(40))
        );
        assert!(Tally::default().log2("ping", Glyphs::Ascii).is_empty());
    }

    #[test]
    fn no_call_is_no_number() {
        let text = Tally::default().histogram();
        assert!(text.contains("0 RPCs,   0.0 msec") && !text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn buckets_hold_what_the_lab_says() {
        let mut tally = Tally::default();
        for (us, bucket) in
            [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10), (1 << 31, 31), (1 << 40, 31)]
        {
            let before = tally.buckets[bucket];
            tally.add(us * 1000, 0, 0);
            assert_eq!(tally.buckets[bucket], before + 1, "{us}");
        }
    }

    #[test]
    fn the_server_is_named_in_hexadecimal() {
        assert_eq!(server_line(0x7f00_0001, 12345), "at client, server IP = 7f000001:3039");
        assert_eq!(server_line(0xac1f_0c16, 0x3039), "at client, server IP = ac1f0c16:3039");
    }

    fn example() -> Header {
        Header {
            rpcid: 0x2801_b82a,
            // 2026-11-20 23:47:33.161705 UTC is 1795218453 s.
            t: [1_795_218_453_161_705, 1_795_218_453_161_823, 1_795_218_453_161_847, 1_795_218_453_161_871],
            client_ip: 0x7f00_0001,
            server_ip: 0x7f00_0001,
            client_port: 55774,
            server_port: 12345,
            lglen2: 62,
            kind: 3,
            method: Method::new("stats"),
            ..Header::default()
        }
    }

    #[test]
    fn a_verbose_line_is_the_labs() {
        let body = b"\x48\x00\x00\x00Stats: 29 0 0 0 0 0 0 0";
        assert_eq!(
            verbose(false, &example(), 76, body, 0),
            "client4: ReceiveResponse: 20261120_234733.161705 1795218453.161823 1795218453.161847 1795218453.161871 \
             127.0.0.1:55774 127.0.0.1:12345 2801b82a 00000000 0.0 6.2 RespRcv  stats Success  76 \
             H...Stats:.29.0.0.0.0.0. "
        );
        let request = Header { t: [1_795_218_453_161_705, 0, 0, 0], client_ip: 0, kind: 0, ..example() };
        let line = verbose(true, &request, 0, b"", 3600);
        assert!(
            line.starts_with(
                "client4: SendRequest:     20261121_004733.161705   0.000000   0.000000   0.000000 unk:unk "
            )
        );
    }

    #[test]
    fn records_are_those_of_the_golden_log() {
        // The first record of a log of the lab: the request of a write.
        let header = Header {
            rpcid: 0x2000,
            t: [1_700_000_000_123_456, 0, 0, 0],
            server_ip: 0x0a09_0002,
            server_port: 12345,
            lglen1: 49,
            method: Method::new("write"),
            ..Header::default()
        };
        let mut body = Vec::new();
        crate::put_string(&mut body, b"kk");
        crate::put_string(&mut body, b"vvvvv_bcei_qaaa_aaaa");
        let hex: String =
            Record::of(Kind::ReqSend, &header, &body).to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let golden = concat!(
            "002000000000000040222018240a0600000000000000000000000000000000000000000000000000000000000200090a",
            "00003930310000007772697465000000000000001e000000020000006b6b1400000076767676765f626365695f716161"
        );
        assert_eq!(hex, golden);
    }

    #[test]
    fn logs_are_named_as_in_the_lab() {
        assert_eq!(
            log_name("client4", 1_759_137_869, "ubuntu2", 392_753),
            "client4_20250929_092429_ubuntu2_392753.log"
        );
        assert_eq!(log_name("msgpath", 0, "../x y", 1), "msgpath_19700101_000000_..xy_1.log");
    }

    proptest! {
        #[test]
        fn no_header_breaks_a_line(bytes in prop::collection::vec(any::<u8>(), 72..120), offset in -50_000_i64..50_000) {
            let header = Header::parse(&bytes).unwrap();
            let line = verbose(true, &header, bytes.len(), &bytes, offset);
            prop_assert!(!line.contains('\n') && line.chars().all(|c| !c.is_control()), "{line:?}");
            prop_assert_eq!(Record { header, length: 7, data: [0; 24] }.to_bytes()[68..72].to_vec(), vec![7, 0, 0, 0]);
        }
    }
}
