//! What an end that calls a server is told and what it brings home, in the frames of [`msgpath_agent::wire`].

use std::fmt;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

use msgpath_core::plan::{Load, MAX_CONNECTIONS, MAX_THREADS};
use msgpath_core::schema::{EndRound, OpenRound};
use msgpath_rpc::command::{MAX_CALLS, MAX_STEPS, Step};
use msgpath_rpc::log::{self, DATA_BYTES, RECORD_BYTES};
use msgpath_rpc::{Header, Kind, MAX_BODY, RPC_HEADER_BYTES};
use serde::{Deserialize, Serialize};

use msgpath_agent::failure::Failure;

use crate::record::{Handshakes, RpcRemark, RpcRow};

/// Bytes of the longest statement of PostgreSQL.
#[cfg(feature = "postgres")]
pub const MOST_STATEMENT: usize = 64 << 10;

/// The largest request, bytes: a send never waits for a server that waits for us to read.
const MOST_REQUEST: usize = 16 << 10;
/// Most calls of a round: it is in memory as a whole, at both ends of the link.
pub const MOST_CALLS_A_ROUND: u64 = 250_000;
/// Most calls in flight on a connection.
const MOST_IN_FLIGHT: u64 = 4096;
/// Bytes of the longest body: a key and a value.
const MOST_BYTES: usize = 2 * (4 + MAX_BODY);
/// Bytes of the longest body of a file: it travels in an order, as JSON.
pub const MOST_BODY: usize = 128 << 10;
/// Bytes of the longest file of certificates: it travels in an order as well.
pub const MOST_ROOTS: usize = 320 << 10;
/// Rows or records of one frame.
const A_FRAME: usize = 1 << 16;
/// Texts of one frame: each has 4096 characters at most.
const TEXTS_A_FRAME: usize = 64;

/// The role of an end that calls a server.
pub const ROLE: &str = "calls";

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Connect to this server, for a run of calls.
    Call(Box<CallOrder>),
    /// Make this round ready.
    Calls(CallsOrder),
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Answer to `Call`.
    Calling {
        /// Where the first connection comes from; `None`: it is no connection of IP.
        from: Option<SocketAddr>,
        /// The process that listens, where the connection tells: over a Unix socket.
        server: Option<u32>,
        /// Kernel counters that are read around its rounds, by name.
        counters: Vec<String>,
        /// The nodes of the cluster, the one that was named first; empty: there is none.
        nodes: Vec<SocketAddr>,
    },
    /// Before `Called`: some of what single calls left behind.
    Calls(Batch),
    /// Answer to `Finish`; the histograms follow.
    Called(Box<Called>),
}

/// Where a server answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Endpoint {
    Tcp(SocketAddr),
    /// At a Unix socket of this machine.
    Unix(PathBuf),
}

impl Endpoint {
    /// The address, where it is one of IP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Endpoint::Tcp(address) => Some(*address),
            Endpoint::Unix(_) => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(address) => address.fmt(f),
            Endpoint::Unix(path) => path.display().fmt(f),
        }
    }
}

/// What is spoken to the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaks {
    /// The lab's protocol.
    Lab {
        /// `pad` of a request.
        pad: u32,
    },
    /// Redis (RESP).
    Redis(Login),
    /// HTTP/1.1.
    Http {
        /// The field Host.
        host: String,
        /// The path, with its slash in front.
        path: String,
        /// More fields of the head, each with its line end.
        fields: String,
        /// The body of requests that have one and no value.
        body: Option<Vec<u8>>,
        /// Each call has a connection of its own.
        closes: bool,
        /// HTTP/2 instead.
        http2: bool,
    },
    /// PostgreSQL: the statements are the methods of the commands.
    #[cfg(feature = "postgres")]
    Postgres {
        /// Who calls; its number of a database means nothing.
        login: Login,
        database: String,
    },
}

impl Speaks {
    /// Whether calls are streams of HTTP/2.
    pub fn is_http2(&self) -> bool {
        matches!(self, Speaks::Http { http2: true, .. })
    }
}

/// How TLS is spoken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsOrder {
    /// Name or address that the server's certificate must have.
    pub name: String,
    /// Certificates to trust, in PEM; `None`: those of this machine.
    pub roots: Option<String>,
    /// What is checked of the server's certificate.
    pub checks: Checks,
    /// The certificate that the client shows where it is asked for one.
    pub identity: Option<Identity>,
    /// The one protocol that is offered by ALPN.
    pub protocol: Option<String>,
}

impl TlsOrder {
    /// Bytes of the longest text of certificates or keys in it.
    fn longest(&self) -> usize {
        let own = self.identity.iter().flat_map(|own| [own.certificates.len(), own.key.0.len()]);
        own.chain(self.roots.as_ref().map(String::len)).max().unwrap_or(0)
    }
}

/// What is checked of a server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checks {
    /// Who signed it, and that it names the server.
    #[default]
    All,
    /// Who signed it: `sslmode=verify-ca` of PostgreSQL.
    Signature,
    /// Nothing: any certificate is taken.
    Nothing,
}

/// A client's certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The certificate and those between it and an authority, in PEM.
    pub certificates: String,
    /// The private key, in PEM.
    pub key: Secret,
}

/// Who calls, and which database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// A user of the server's access list; `None`: its default user.
    pub user: Option<String>,
    /// Their password.
    pub password: Option<Secret>,
    /// The database; 0 is chosen on every new connection.
    pub database: u32,
    /// Redis only: each key is called at the node of the cluster that has it.
    pub cluster: bool,
}

/// A password or a private key. It goes to the end that calls, a password to the server too, and is never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub(super) String);

impl Secret {
    pub fn new(password: String) -> Self {
        Self(password)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Everything that holds for all rounds of a run of calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallOrder {
    pub address: Endpoint,
    /// What it understands.
    pub speaks: Speaks,
    pub tls: Option<TlsOrder>,
    pub steps: Vec<Step>,
    /// Connections, all of them together.
    pub connections: u32,
    /// Threads; each serves as many connections, of which all have a call under way where that [can be](goes_together).
    pub threads: u32,
    /// CPUs of the threads, in turn; empty: not pinned.
    pub cpus: Vec<u32>,
    /// How calls are offered.
    pub load: Load,
    /// Calls in flight on a connection of an open loop, at most.
    pub inflight: u64,
    /// Seed of the schedules.
    pub seed: u64,
    /// Where the shift registers of keys, values and ids begin.
    pub register: u32,
    /// Replies are compared with what they must be.
    pub verify: bool,
    /// Records for the lab's log, or for printing, are wanted.
    pub records: bool,
    /// How long a reply may take, ns.
    pub timeout_ns: u64,
    /// How long connecting may take, ns.
    pub connect_timeout_ns: u64,
    /// Start of the run, ns of the monotonic clock.
    pub begin: u64,
    /// The same moment on the wall clock, µs since 1970.
    pub begin_unix_us: i64,
}

/// Whether a thread has a call of a command under way on each of its connections all the time.
pub fn goes_together(speaks: &Speaks, (load, inflight): (Load, u64), step: &Step) -> bool {
    let (cluster, body) = match speaks {
        Speaks::Redis(login) => (login.cluster, 0),
        Speaks::Http { body, .. } => (false, body.as_ref().map_or(0, Vec::len)),
        _ => (false, 0),
    };
    let one = load == Load::Closed && inflight == 1 && !speaks.is_http2() && !cluster;
    one && step.wait_ms == 0 && step.method.len() + step.body_bytes() + body <= MOST_REQUEST
}

impl CallOrder {
    /// Limits that an honest coordinator keeps; anything else is refused.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        if !(1..=MAX_CONNECTIONS).contains(&self.connections)
            || !(1..=MAX_THREADS).contains(&self.threads)
            || !self.connections.is_multiple_of(self.threads)
            || !(1..=MOST_IN_FLIGHT).contains(&self.inflight)
        {
            return Err("connections, threads or calls in flight out of range");
        }
        if matches!(&self.speaks, Speaks::Redis(login) if login.cluster && (self.inflight > 1 || login.database > 0)) {
            return Err("a cluster with several calls in flight or a database");
        }
        let alone = self.inflight > 1 || self.load != Load::Closed || self.speaks.is_http2();
        if self.threads != self.connections && alone {
            return Err("a thread with several connections of a schedule, or with several calls in flight");
        }
        if self.tls.as_ref().is_some_and(|tls| tls.longest() > MOST_ROOTS) {
            return Err("certificates out of range");
        }
        if matches!(self.load, Load::Open { rate, .. } if rate.value() <= 0.0) {
            return Err("a rate out of range");
        }
        if let Speaks::Http { body: Some(body), .. } = &self.speaks
            && body.len() > MOST_BODY
        {
            return Err("a body out of range");
        }
        #[cfg(feature = "postgres")]
        if self.steps.iter().any(|step| step.method.len() > MOST_STATEMENT) {
            return Err("a statement out of range");
        }
        let fine = |step: &Step| {
            let calls = step.rep.checked_mul(step.k).unwrap_or(0);
            (1..=MAX_CALLS).contains(&calls) && step.body_bytes() <= MOST_BYTES
        };
        if !(1..=MAX_STEPS).contains(&self.steps.len()) || !self.steps.iter().all(fine) {
            return Err("commands, calls or bodies out of range");
        }
        Ok(())
    }
}

/// One round: calls `calls` of a command, numbered over all connections, which take turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallsOrder {
    /// The command, and the case.
    pub step: usize,
    pub calls: Range<u64>,
    pub pass: u32,
    /// Rows that are kept.
    pub keep: usize,
    /// No call begins so long after the begin of the round, ns; `None`: all are made.
    pub until_ns: Option<u64>,
}

impl CallsOrder {
    /// Whether it is a round of this run.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, run: &CallOrder) -> Result<(), &'static str> {
        let Some(step) = run.steps.get(self.step) else { return Err("a command that there is not") };
        let Range { start, end } = self.calls;
        match start < end && end <= step.calls() && end - start <= MOST_CALLS_A_ROUND {
            true => Ok(()),
            false => Err("a number of calls out of range"),
        }
    }
}

/// Why no more calls go over a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// The server closed it; so many bytes of a reply were there.
    Closed(usize),
    /// The server closed it, and said why.
    Parted(String),
    /// What came is not a reply to what was asked.
    Foreign(String),
    /// A reply with other bytes than it must have.
    Wrong(String),
    /// No reply in time.
    TimedOut,
    /// The user interrupted, or another connection broke.
    Stopped,
    /// It could not be made again after the server had closed it, or had no thread.
    Lost(Failure),
    /// The server reports what cannot be.
    Impossible(String),
}

/// What all threads have measured of a round, beside what single calls left behind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Called {
    /// What they counted together, and what was read at this end.
    pub near: EndRound,
    /// Open loop only.
    pub open: Option<OpenRound>,
    /// Bytes of the histograms that follow: from T1, in an open loop from the intended send, to T4; of an open loop from T1 to
    /// T4, and from the intended send to T1.
    pub histograms: [u32; 3],
    /// The first T1, ns since the start of the run.
    pub start_ns: u64,
    /// Calls beyond the rows that are kept.
    pub not_kept: u64,
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

/// A call as the lab's log has it: both messages with the begin of their bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The request as it was sent.
    pub request: log::Record,
    /// The reply as it was received, with T4; its type is [`Kind::RespRcv`]. `None`: there was none.
    pub reply: Option<log::Record>,
}

/// Some of what single calls of a round left behind; rows and records follow as bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// How many rows.
    pub rows: u32,
    /// How many records.
    pub records: u32,
    /// Texts that the server gave (`stats`).
    pub texts: Vec<String>,
}

impl Batch {
    /// All of it, cut so that each has room in a frame.
    pub fn all<'a>(
        rows: &'a [RpcRow],
        records: &'a [Record],
        texts: &'a [String],
    ) -> impl Iterator<Item = (Batch, Vec<u8>)> + 'a {
        let rows = rows.chunks(A_FRAME).map(|rows| {
            let batch = Batch { rows: rows.len() as u32, ..Batch::default() };
            (batch, rows.iter().flat_map(row_bytes).collect::<Vec<u8>>())
        });
        let records = records.chunks(A_FRAME).map(|records| {
            let batch = Batch { records: records.len() as u32, ..Batch::default() };
            (batch, records.iter().flat_map(record_bytes).collect::<Vec<u8>>())
        });
        let texts = texts.chunks(TEXTS_A_FRAME).map(|texts| {
            let batch = Batch { texts: texts.to_vec(), ..Batch::default() };
            (batch, Vec::new())
        });
        rows.chain(records).chain(texts)
    }

    /// The rows and records that follow it; `None`: it does not say what follows.
    pub fn read(&self, bytes: &[u8]) -> Option<(Vec<RpcRow>, Vec<Record>)> {
        let (rows, records) = bytes.split_at_checked((self.rows as usize).checked_mul(ROW)?)?;
        let rows: Vec<RpcRow> = rows.as_chunks::<ROW>().0.iter().map(read_row).collect();
        let (records, rest) = records.as_chunks::<BOTH_RECORDS>();
        let whole = rest.is_empty() && records.len() == self.records as usize;
        whole.then(|| (rows, records.iter().map(read_record).collect()))
    }
}

/// Bytes of a row: 22 words.
const ROW: usize = 22 * 8;
/// Bytes of a call's two records; without a reply the second one is zeros.
const BOTH_RECORDS: usize = 2 * RECORD_BYTES;
/// A duration that is not known; of two clocks.
const UNKNOWN: u64 = u64::MAX;
const UNKNOWN_OF_TWO: i64 = i64::MIN;

/// A row as it is sent. Its case and pass are those of the round.
fn row_bytes(row: &RpcRow) -> [u8; ROW] {
    let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let known = |ns: Option<u64>| ns.unwrap_or(UNKNOWN);
    let of_two = |ns: Option<i64>| ns.unwrap_or(UNKNOWN_OF_TWO) as u64;
    let key = u128::from_le_bytes(row.key);
    let words = [
        both(row.connection, row.rpcid),
        both(row.parent, row.status),
        row.request_bytes,
        row.reply_bytes,
        key as u64,
        (key >> 64) as u64,
        row.start_ns,
        known(row.latency_ns),
        of_two(row.received_ns),
        of_two(row.replied_ns),
        known(row.sent_ns),
        known(row.first_ns),
        known(row.waited_ns),
        known(row.lock_ns),
        known(row.late_ns),
        known(row.client_port.map(u64::from)),
    ];
    let begins = row.request_begin.as_chunks::<8>().0.iter().chain(row.reply_begin.as_chunks::<8>().0);
    let words = words.into_iter().map(u64::to_le_bytes).chain(begins.copied());
    let mut bytes = [0; ROW];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word;
    }
    bytes
}

fn read_row(bytes: &[u8; ROW]) -> RpcRow {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let both = |at: usize| ((word(at) >> 32) as u32, word(at) as u32);
    let known = |at: usize| Some(word(at)).filter(|ns| *ns != UNKNOWN);
    let of_two = |at: usize| Some(word(at) as i64).filter(|ns| *ns != UNKNOWN_OF_TWO);
    let ((connection, rpcid), (parent, status)) = (both(0), both(1));
    let (mut request_begin, mut reply_begin) = ([0; DATA_BYTES], [0; DATA_BYTES]);
    request_begin.copy_from_slice(words[16..19].as_flattened());
    reply_begin.copy_from_slice(words[19..22].as_flattened());
    RpcRow {
        connection,
        rpcid,
        parent,
        status,
        request_bytes: word(2),
        reply_bytes: word(3),
        key: (u128::from(word(5)) << 64 | u128::from(word(4))).to_le_bytes(),
        start_ns: word(6),
        latency_ns: known(7),
        received_ns: of_two(8),
        replied_ns: of_two(9),
        sent_ns: known(10),
        first_ns: known(11),
        waited_ns: known(12),
        lock_ns: known(13),
        late_ns: known(14),
        client_port: known(15).map(|port| port as u16),
        request_begin,
        reply_begin,
        ..RpcRow::default()
    }
}

fn record_bytes(record: &Record) -> impl Iterator<Item = u8> + use<> {
    let reply = record.reply.map_or([0; RECORD_BYTES], |reply| reply.to_bytes());
    record.request.to_bytes().into_iter().chain(reply)
}

fn read_record(bytes: &[u8; BOTH_RECORDS]) -> Record {
    // Not as a file of the lab is read: what a server says in its stamps and names is kept as it came.
    let logged = |bytes: &[u8]| {
        let (header, data) = bytes.split_at(RPC_HEADER_BYTES);
        let mut header = Header::parse(header).expect("72 bytes");
        let length = std::mem::take(&mut header.pad);
        log::Record { header, length, data: data.try_into().expect("24 bytes") }
    };
    let (request, reply) = bytes.split_at(RECORD_BYTES);
    let reply = logged(reply);
    let is_one = reply.header.kind == Kind::RespRcv as u16;
    Record { request: logged(request), reply: is_one.then_some(reply) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use msgpath_agent::wire::FromEnd;
    use msgpath_rpc::command::parse;
    use proptest::prelude::*;

    /// An order of these commands to nobody, over one connection.
    pub fn order(line: &str) -> CallOrder {
        CallOrder {
            address: Endpoint::Tcp(SocketAddr::from(([127, 0, 0, 1], 9))),
            speaks: Speaks::Lab { pad: 0 },
            tls: None,
            steps: parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap().steps,
            connections: 1,
            threads: 1,
            cpus: Vec::new(),
            load: Load::Closed,
            inflight: 1,
            seed: 1,
            register: 1,
            verify: false,
            records: false,
            timeout_ns: 10_000_000_000,
            connect_timeout_ns: 5_000_000_000,
            begin: 0,
            begin_unix_us: 0,
        }
    }

    #[test]
    fn what_nobody_orders_is_refused() {
        assert_eq!(order("-rep 100 -k 1000 ping").check(), Ok(()));
        let refused = |change: fn(&mut CallOrder)| {
            let mut order = order("ping");
            change(&mut order);
            assert!(order.check().is_err(), "{order:?}");
        };
        refused(|order| order.connections = 0);
        refused(|order| (order.connections, order.threads) = (3, 2));
        refused(|order| order.inflight = 1 << 40);
        refused(|order| order.steps.clear());
        refused(|order| order.steps = vec![order.steps[0].clone(); MAX_STEPS + 1]);
        refused(|order| order.steps[0].k = 0);
        refused(|order| (order.steps[0].k, order.steps[0].rep) = (1 << 40, 1 << 40));
        refused(|order| {
            order.steps[0].value = Some(msgpath_rpc::command::Text { length: 1 << 30, ..Default::default() })
        });
        let run = order("-k 1000000 ping");
        let round = |calls: Range<u64>, step| CallsOrder { step, calls, pass: 0, keep: 9, until_ns: None }.check(&run);
        assert_eq!(round(999_990..1_000_000, 0), Ok(()));
        let empty = Range { start: 5, end: 5 };
        for (calls, step) in [(0..9, 1), (999_990..1_000_001, 0), (0..MOST_CALLS_A_ROUND + 1, 0), (empty, 0)] {
            assert!(round(calls.clone(), step).is_err(), "{calls:?} of {step}");
        }
    }

    #[test]
    fn what_calls_left_behind_comes_home_in_frames() {
        let row = |at: u32| RpcRow { rpcid: at, key: [at as u8; 16], latency_ns: Some(7), ..RpcRow::default() };
        let rows: Vec<RpcRow> = (0..A_FRAME as u32 + 3).map(row).collect();
        let mut header = Header { t: [5, i64::MIN, -1, 8], kind: Kind::RespRcv as u16, ..Header::default() };
        // A name that is none, and a stamp of no year: as a server may send them.
        header.method.0 = [0xff; 8];
        let reply = log::Record { header, length: 9, data: [3; 24] };
        let records = [Record::default(), Record { reply: Some(reply), ..Record::default() }];
        let texts = vec!["\\\"é".repeat(1300); TEXTS_A_FRAME + 1];
        let (mut home, mut frames) = ((Vec::new(), Vec::new(), Vec::new()), 0);
        for (batch, bytes) in Batch::all(&rows, &records, &texts) {
            let mut frame = Vec::new();
            let message = FromEnd::role(&Answer::Calls(batch)).unwrap();
            msgpath_agent::wire::write(&mut frame, &message, &bytes).expect("it has room in a frame");
            let (said, bytes) = msgpath_agent::wire::read::<FromEnd>(&mut frame.as_slice()).unwrap().unwrap();
            let Answer::Calls(batch) = said.of_role().unwrap() else { panic!("something else") };
            let (rows, records) = batch.read(&bytes).expect("what it says");
            home.0.extend(rows);
            home.1.extend(records);
            home.2.extend(batch.texts);
            frames += 1;
        }
        assert_eq!(home, (rows, records.to_vec(), texts));
        assert_eq!(frames, 2 + 1 + 2);
        for (rows, length) in [(1, 0), (0, 1), (u32::MAX, ROW), (1, ROW + BOTH_RECORDS)] {
            assert_eq!(Batch { rows, ..Batch::default() }.read(&vec![0; length]), None, "{rows} rows, {length} bytes");
        }
    }

    proptest! {
        #[test]
        fn every_row_comes_back(bytes in prop::collection::vec(any::<u8>(), ROW)) {
            let bytes = *bytes.first_chunk().unwrap();
            let row = read_row(&bytes);
            prop_assert_eq!(read_row(&row_bytes(&row)), row);
        }
    }
}
