//! What one thread has measured of one round, and how a call becomes a row of it.

use msgpath_core::Histogram;
use msgpath_core::foreign::shown_bytes;
use msgpath_core::schema::{EndReport, OpenRound};
use msgpath_core::units::Glyphs;
use msgpath_rpc::log::{self, DATA_BYTES};
use msgpath_rpc::{Header, Kind};

use super::ledger::Ledger;
use super::orders::{Broken, CallOrder, Record, Speaks};
use super::redis;
use super::wire::{Does, Remark, Reply, Sent, Wire, key_of};
use crate::record::{Handshakes, RpcRemark, RpcRow};

/// Characters of the longest text of a server that is passed on.
const LONGEST_SAID: usize = 4096;
const YEAR_US: u64 = 31_557_600_000_000;
/// Clocks of two machines that are further apart are not clocks: one that was never set says 1970.
const FURTHEST_US: u64 = 100 * YEAR_US;
/// The server's clock may be set while it serves a call: a wait may be longer than its call by this much, ns.
const CLOCK_SET_NS: u64 = 1_000_000_000;

/// A call that was sent.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// How it was put together.
    pub sent: Sent,
    /// First bytes of the key.
    pub key: [u8; 16],
    /// Those of the body; `None`: the protocol is not the lab's.
    pub body: Option<[u8; DATA_BYTES]>,
    /// Port of the client.
    pub port: u16,
    /// T1 on the wall clock, µs.
    pub unix_us: i64,
    pub t1: u64,
    /// When the send call returned, ns; 0: it did not.
    pub sent_at: u64,
    /// Open loop: the intended send, ns.
    pub due: Option<u64>,
    /// It went over a new connection, and why; connecting is not a part of its time.
    pub renewed: Option<&'static str>,
    /// Where a record is wanted.
    pub record: Option<Box<Record>>,
}

impl Gone {
    /// Notes of a request whatever is needed of its bytes later.
    pub fn note(&mut self, sent: Sent, message: &[u8], port: u16, order: &CallOrder) {
        self.port = port;
        let is_lab = matches!(order.speaks, Speaks::Lab { .. });
        self.body = is_lab.then(|| log::first_bytes(&message[sent.body.clone()]));
        self.key = key_of(&message[sent.key.clone()]);
        self.record = order.records.then(|| {
            let request = message.get(msgpath_rpc::MARKER_BYTES..).and_then(|rest| Header::parse(rest).ok());
            let request = log::Record::of(Kind::ReqSend, &request.unwrap_or_default(), &message[sent.body.clone()]);
            Box::new(Record { request, reply: None })
        });
        self.sent = sent;
    }
}

/// A reply that was received.
#[derive(Clone, Debug, Default)]
pub struct Got {
    /// When its first bytes were read, ns.
    pub first: u64,
    pub t4: u64,
    /// Bytes of the whole message.
    pub bytes: usize,
    /// Taken apart.
    pub reply: Reply,
    /// The begin of its body.
    pub body: [u8; DATA_BYTES],
}

impl Got {
    /// What the server reports of a call that cannot be: its stamps and times are its word only.
    pub fn impossible(&self, gone: &Gone) -> Option<String> {
        let time = |ns: u64| Glyphs::Ascii.time(ns as f64);
        let [_, t2, t3, _] = self.reply.header.t;
        for (stamp, t) in [("T2", t2), ("T3", t3)] {
            let apart = t.abs_diff(gone.unix_us);
            if t != 0 && apart > FURTHEST_US {
                return Some(format!("its {stamp} is {} years from T1", apart / YEAR_US));
            }
        }
        let telling = self.reply.telling?;
        let took = self.t4.saturating_sub(gone.t1);
        let told = [("waited to be read", telling.waited_ns), ("waited for a lock", telling.lock_ns)];
        // 2^64-1: not known.
        let beyond = |ns: u64| ns != u64::MAX && ns > took.saturating_add(CLOCK_SET_NS);
        let (waited, ns) = told.into_iter().find(|(_, ns)| beyond(*ns))?;
        Some(format!("a request {waited} for {} in a call of {}", time(ns), time(took)))
    }
}

/// What a part belongs to.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub case: u32,
    pub pass: u32,
    /// Start of the run, ns.
    pub begin: u64,
    /// Rows that are kept.
    pub keep: usize,
}

/// What one thread has measured of one round.
#[derive(Default)]
pub struct Part {
    /// One a call, as far as they are kept.
    pub rows: Vec<RpcRow>,
    /// Calls beyond them.
    pub not_kept: u64,
    /// Where they are wanted.
    pub records: Vec<Record>,
    /// Texts that the server gave (`stats`).
    pub texts: Vec<String>,
    /// From T1, in an open loop from the intended send, to T4.
    pub latency: Histogram,
    /// Open loop: T1 to T4.
    pub service: Histogram,
    /// Open loop: from the intended send to T1.
    pub lateness: Histogram,
    /// What the thread counted.
    pub report: EndReport,
    /// Open loop only.
    pub open: Option<OpenRound>,
    /// The first T1, ns; 2^64-1: no call was sent.
    pub begin: u64,
    /// The last T4, ns.
    pub end: u64,
    /// Replies with a status other than success.
    pub failed: u64,
    /// What the server said of single calls.
    pub remarks: Vec<RpcRemark>,
    /// The slowest connect, ns.
    pub connect_ns: Option<u64>,
    /// The handshakes of connections of TLS or HTTP/2.
    pub handshakes: Option<Handshakes>,
    /// The server is ours: it told how long a call waited.
    pub waits_known: bool,
    /// What the server calls itself.
    pub server: Option<String>,
    /// Bytes of the last reply.
    pub reply_bytes: Option<u64>,
    /// Status of the last reply.
    pub last_status: u32,
    /// Why a connection ended before its last call, and which.
    pub broken: Option<(u32, Broken)>,
}

impl Part {
    /// Room for so many rows.
    pub fn new(rows: usize) -> Self {
        Self { rows: Vec::with_capacity(rows), begin: u64::MAX, ..Self::default() }
    }

    /// Takes a call in: one that was answered, or one that was not. Not measured.
    pub fn settle(&mut self, place: &Place, connection: u32, gone: &Gone, got: Option<&Got>) {
        let start = gone.due.unwrap_or(gone.t1);
        self.begin = self.begin.min(gone.t1);
        self.report.delivery.sent += 1;
        self.report.bytes_sent += gone.sent.bytes as u64;
        let late_ns = gone.due.map(|due| gone.t1.saturating_sub(due));
        if let Some(late) = late_ns {
            self.lateness.record(late);
        }
        let mut row = RpcRow {
            case: place.case,
            pass: place.pass,
            connection,
            rpcid: gone.sent.rpcid,
            request_bytes: gone.sent.bytes as u64,
            key: gone.key,
            start_ns: gone.t1.saturating_sub(place.begin),
            sent_ns: (gone.sent_at > 0).then(|| gone.sent_at.saturating_sub(gone.t1)),
            late_ns,
            client_port: Some(gone.port).filter(|port| *port > 0),
            request_begin: gone.body.unwrap_or_default(),
            ..RpcRow::default()
        };
        let mut record = gone.record.as_deref().copied();
        match got {
            None => {
                self.latency.record_lost(1);
                if late_ns.is_some() {
                    self.service.record_lost(1);
                }
                self.report.delivery.lost += 1;
                self.end = self.end.max(gone.t1);
            }
            Some(got) => {
                self.end = self.end.max(got.t4);
                let good = got.reply.status == 0;
                // The time of a failure is not the time of what was asked for.
                if good {
                    self.latency.record(got.t4.saturating_sub(start));
                }
                if good && late_ns.is_some() {
                    self.service.record(got.t4.saturating_sub(gone.t1));
                }
                let anew = gone.renewed.map(|why| Remark { text: why.into(), failed: false });
                for Remark { text, failed } in got.reply.remark.clone().into_iter().chain(anew) {
                    RpcRemark::count(&mut self.remarks, RpcRemark { case: place.case, text, failed, calls: 1 });
                }
                self.report.delivery.received += 1;
                self.report.bytes_received += got.bytes as u64;
                self.failed += u64::from(!good);
                self.last_status = got.reply.status;
                if good || self.reply_bytes.is_none() {
                    self.reply_bytes = Some(got.bytes as u64);
                }
                row.status = got.reply.status;
                row.reply_bytes = got.bytes as u64;
                row.latency_ns = Some(got.t4.saturating_sub(gone.t1));
                row.first_ns = Some(got.first.saturating_sub(gone.t1));
                let [_, t2, t3, _] = got.reply.header.t;
                // T1 is known to the ns, the server's stamps and the log's to the µs: all of them on one scale.
                let beyond = (gone.t1.saturating_sub(place.begin) % 1000) as i64;
                let since = |t: i64| {
                    (t != 0).then(|| t.saturating_sub(gone.unix_us).saturating_mul(1000).saturating_sub(beyond))
                };
                (row.received_ns, row.replied_ns) = (since(t2), since(t3));
                row.parent = got.reply.header.parent;
                if gone.body.is_some() {
                    row.reply_begin = got.body;
                }
                if let Some(telling) = got.reply.telling {
                    self.waits_known = true;
                    row.waited_ns = Some(telling.waited_ns).filter(|ns| *ns != u64::MAX);
                    row.lock_ns = Some(telling.lock_ns);
                }
                if self.server.is_none() {
                    self.server.clone_from(&got.reply.server);
                }
                if let Some(record) = &mut record {
                    let mut header = got.reply.header;
                    header.t[3] = gone.unix_us + (beyond + got.t4.saturating_sub(gone.t1) as i64) / 1000;
                    let bytes = got.reply.body.len() as u32;
                    record.reply = Some(log::Record::from_parts(Kind::RespRcv, &header, bytes, got.body));
                }
            }
        }
        self.records.extend(record);
        if self.rows.len() < place.keep {
            self.rows.push(row);
        } else {
            self.not_kept += 1;
        }
    }

    /// With what another thread has measured of the same round.
    pub fn with(mut self, other: Part) -> Self {
        self.rows.extend(other.rows);
        self.records.extend(other.records);
        self.texts.extend(other.texts);
        self.latency.merge(&other.latency);
        self.service.merge(&other.service);
        self.lateness.merge(&other.lateness);
        self.report.add(&other.report);
        match (&mut self.open, other.open) {
            (Some(sum), Some(one)) => sum.add(&one),
            (open, one) => *open = open.take().or(one),
        }
        (self.begin, self.end) = (self.begin.min(other.begin), self.end.max(other.end));
        self.not_kept += other.not_kept;
        self.failed += other.failed;
        other.remarks.into_iter().for_each(|more| RpcRemark::count(&mut self.remarks, more));
        self.connect_ns = self.connect_ns.max(other.connect_ns);
        Handshakes::join(&mut self.handshakes, other.handshakes);
        self.waits_known |= other.waits_known;
        self.server = self.server.or(other.server);
        self.reply_bytes = other.reply_bytes.or(self.reply_bytes);
        self.last_status = self.last_status.max(other.last_status);
        self.broken = match (self.broken, other.broken) {
            // That one was stopped because of another is not a cause.
            (Some((_, Broken::Stopped)) | None, Some(broken)) => Some(broken),
            (broken, _) => broken,
        };
        self
    }

    /// Brings rows and records into the order of time. Each thread has kept as many rows as there is room for: together they
    /// keep no more.
    pub fn in_order(&mut self, keep: usize) {
        self.rows.sort_by_key(|row| row.start_ns);
        self.not_kept += self.rows.len().saturating_sub(keep) as u64;
        self.rows.truncate(keep);
        // Each connection's are in order; T1 brings them together.
        self.records.sort_by_key(|record| record.request.header.t[0]);
    }

    /// Keeps a text that the server gave.
    pub fn say(&mut self, body: &[u8]) {
        self.texts.push(shown_bytes(body, LONGEST_SAID));
    }
}

/// Compares a reply with what it must be. `Ok(false)`: nobody knows what it must be.
///
/// # Errors
/// In what it differs.
pub fn verify(
    wire: &Wire,
    does: Does,
    connection: u32,
    (sent, request): (&Sent, &[u8]),
    (reply, message): (&Reply, &[u8]),
    ledger: &Ledger,
) -> Result<bool, String> {
    let (key, name) = (&request[sent.key.clone()], |key: &[u8]| shown_bytes(key, 256));
    let unchunked = match wire {
        Wire::Http(http) => http.unchunked(message),
        _ => None,
    };
    let body = unchunked.as_deref().unwrap_or(&message[reply.body.clone()]);
    match does {
        Does::Echoes => {
            let asked = &request[sent.body.clone()];
            let same = match wire {
                Wire::Redis(_) if asked.is_empty() => body == b"PONG",
                _ => body == asked,
            };
            match same {
                true => Ok(true),
                false => {
                    Err(format!("a ping of {} bytes came back with {} bytes, or with others", asked.len(), body.len()))
                }
            }
        }
        Does::Writes => {
            match &sent.drawn {
                Some(drawn) if reply.status == 0 => ledger.written(connection, key, drawn.clone()),
                _ => {}
            }
            Ok(false)
        }
        Does::Reads => {
            let Some(expected) = ledger.expected(key) else { return Ok(false) };
            match wire.value(body) {
                _ if reply.status == 0 && reply.remark.as_ref().is_some_and(|remark| remark.text == redis::MISS) => {
                    Err(format!("{} was written, and has no value", name(key)))
                }
                _ if reply.status != 0 => {
                    Err(format!("{} was written and cannot be read (status {})", name(key), reply.status))
                }
                Some(value) if value == expected => Ok(true),
                Some(value) => {
                    let at = value.iter().zip(&expected).position(|(got, want)| got != want);
                    Err(format!(
                        "{}: {} bytes were written and {} read; they differ from byte {} on",
                        name(key),
                        expected.len(),
                        value.len(),
                        at.unwrap_or(value.len().min(expected.len()))
                    ))
                }
                None => Err(format!("{}: the reply's body is not a string", name(key))),
            }
        }
        Does::Deletes => {
            ledger.forget(key);
            Ok(false)
        }
        Does::Resets => {
            ledger.clear();
            Ok(false)
        }
        Does::Else => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::Telling;

    #[test]
    fn impossible_times_of_a_server_are_named() {
        let now = 1_800_000_000_000_000;
        let gone = Gone { unix_us: now, t1: 1_000, ..Gone::default() };
        let got = |t: [i64; 4], telling: Option<(u64, u64)>| {
            let telling = telling.map(|(waited_ns, lock_ns)| Telling { waited_ns, served_ns: 0, lock_ns });
            let reply = Reply { header: Header { t, ..Header::default() }, telling, ..Reply::default() };
            Got { t4: 51_000, reply, ..Got::default() }.impossible(&gone)
        };
        // Not known, never set, a day ahead.
        for t in [0, 1, now + 86_400_000_000] {
            assert_eq!(got([0, t, t, 0], Some((u64::MAX, 40_000))), None, "{t}");
        }
        for t in [i64::MIN, i64::MAX, -now * 2] {
            assert!(got([0, t, now, 0], None).unwrap().starts_with("its T2 is "), "{t}");
            assert!(got([0, now, t, 0], None).unwrap().contains("years from T1"), "{t}");
        }
        assert!(got([0; 4], Some((1 << 60, 0))).unwrap().contains("waited to be read for "));
        assert!(got([0; 4], Some((0, u64::MAX - 1))).unwrap().contains("waited for a lock for "));
    }

    #[test]
    fn parts_of_a_round_are_one() {
        let row = |start_ns| RpcRow { start_ns, ..RpcRow::default() };
        let part = |starts: &[u64], broken| {
            let mut part = Part::new(9);
            part.rows.extend(starts.iter().map(|start| row(*start)));
            (part.begin, part.end) = (starts[0], starts[0] + 100);
            part.latency.record(starts[0]);
            part.open = Some(OpenRound { offered: 5, ..OpenRound::default() });
            Part { broken, failed: 1, not_kept: 2, connect_ns: Some(starts[0]), ..part }
        };
        let stopped = || Some((0, Broken::Stopped));
        let cause = || Some((1, Broken::TimedOut));
        let mut sum = part(&[10, 40], stopped()).with(part(&[20, 30], cause())).with(part(&[15], stopped()));
        assert_eq!(sum.broken, cause(), "a thread that was stopped is not a cause");
        sum.in_order(4);
        let starts: Vec<u64> = sum.rows.iter().map(|row| row.start_ns).collect();
        assert_eq!((starts, sum.not_kept), (vec![10, 15, 20, 30], 3 * 2 + 1));
        assert_eq!((sum.begin, sum.end, sum.failed, sum.connect_ns), (10, 120, 3, Some(20)));
        assert_eq!((sum.latency.total(), sum.open.map(|open| open.offered)), (3, Some(15)));
        assert_eq!(part(&[1], None).with(part(&[2], None)).broken, None);
        assert_eq!(part(&[1], stopped()).with(part(&[2], None)).broken, stopped());
    }
}
