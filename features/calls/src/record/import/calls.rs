//! Calls put together from the records of both sides.
//!
//! A call has up to four records: two of the client, two of the server. Within a file a request and its reply are matched
//! by id, T1 and both addresses. Between a client's log and a server's the same identity holds, because the server copies
//! id and T1 and tells the client its own address. Several clients of the lab may use the same ids, so an id alone is no
//! identity.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv4Addr;

use msgpath_rpc::log::Record;
use msgpath_rpc::{Kind, MARKER_BYTES, RPC_HEADER_BYTES, csv};

/// A stamp that is not known.
pub(super) const UNKNOWN: i64 = i64::MIN;
/// Bytes of marker and header of a message.
pub(super) const HEAD: u64 = (MARKER_BYTES + RPC_HEADER_BYTES) as u64;
/// The most calls that are kept; what is beyond is counted. They take 96 bytes each.
const MAX_CALLS: usize = 1 << 25;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// T1 to T4, ns; [`UNKNOWN`] where not known.
    pub(super) t: [i64; 4],
    pub(super) rpcid: u32,
    pub(super) parent: u32,
    pub(super) status: u32,
    /// Position in [`Calls::methods`].
    pub(super) method: u32,
    /// Position in [`Calls::connections`].
    pub(super) connection: u32,
    /// Bytes of the request's message and of the reply's, with all headers; 0: not known.
    pub(super) bytes: [u64; 2],
    /// Which of the two are estimates.
    pub(super) estimated: [bool; 2],
    pub(super) key: [u8; 16],
}

/// A connection, as far as it can be told from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Connection {
    /// The machines; `unknown` where nobody says.
    pub(super) client: String,
    pub(super) server: String,
    pub(super) server_port: u16,
    /// What distinguishes it: the client's port, the file, a name.
    name: String,
}

/// Both ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Ends {
    client: (u32, u16),
    server: (u32, u16),
}

/// What a call is found again by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    rpcid: u32,
    t1_us: i64,
    ends: Ends,
}

impl Identity {
    fn of(record: &Record) -> Self {
        let header = &record.header;
        let ends =
            Ends { client: (header.client_ip, header.client_port), server: (header.server_ip, header.server_port) };
        Self { rpcid: header.rpcid, t1_us: header.t[0], ends }
    }

    /// As the client knows it before it has a reply: without its own address.
    fn unanswered(self) -> Self {
        Self { ends: Ends { client: (0, 0), ..self.ends }, ..self }
    }
}

/// What a file held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Calls that the client saw: with a reply, and without.
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    /// Calls that the server saw.
    pub(super) served: u64,
    /// Records of text, which are not calls.
    pub(super) text: u64,
}

/// All calls of all files.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) all: Vec<Call>,
    pub(super) methods: Vec<String>,
    pub(super) connections: Vec<Connection>,
    /// Calls of servers that were found in a client's log.
    pub(super) merged: u64,
    /// Calls of servers that no client's log has.
    pub(super) server_only: u64,
    /// Calls that were there twice, stamps and all.
    pub(super) repeated: u64,
    /// Calls beyond the limit.
    pub(super) not_kept: u64,
    /// Identities of `all`, in its order; of calls from logs only.
    identities: Vec<Identity>,
    served: Vec<(Identity, Call)>,
    by_method: HashMap<[u8; 8], u32>,
    by_name: HashMap<String, u32>,
    by_ends: HashMap<(Ends, u32), u32>,
    by_connection: HashMap<Connection, u32>,
    files: u32,
}

/// Requests of one file whose replies have not come yet. Mostly there is one at a time, which costs no look-up.
#[derive(Default)]
struct Waiting {
    last: Option<(Identity, Record)>,
    others: HashMap<Identity, VecDeque<Record>>,
}

impl Waiting {
    fn put(&mut self, identity: Identity, record: Record) {
        if let Some((identity, record)) = self.last.replace((identity, record)) {
            self.others.entry(identity).or_default().push_back(record);
        }
    }

    /// The oldest request of this identity.
    fn take(&mut self, identity: &Identity) -> Option<Record> {
        if let Some(records) = self.others.get_mut(identity) {
            let record = records.pop_front();
            if records.is_empty() {
                self.others.remove(identity);
            }
            return record;
        }
        self.last.take_if(|(last, _)| last == identity).map(|(_, record)| record)
    }

    /// All that are left, in the order of T1.
    fn rest(self) -> Vec<(Identity, Record)> {
        let others =
            self.others.into_iter().flat_map(|(identity, all)| all.into_iter().map(move |one| (identity, one)));
        let mut rest: Vec<_> = others.chain(self.last).collect();
        rest.sort_by_key(|(identity, _)| (identity.t1_us, identity.rpcid));
        rest
    }
}

/// The records of one file, one after the other.
pub(super) struct FileOfRecords<'a> {
    calls: &'a mut Calls,
    sent: Waiting,
    received: Waiting,
    /// The last connection of the file.
    last: Option<(Ends, u32)>,
    /// `data` is as the lab's JSON shows it.
    shown: bool,
    counted: Counted,
}

impl Calls {
    /// Begins another file of records.
    pub(super) fn file(&mut self, shown: bool) -> FileOfRecords<'_> {
        self.files += 1;
        let (sent, received) = Default::default();
        FileOfRecords { calls: self, sent, received, last: None, shown, counted: Counted::default() }
    }

    /// Adds a line of a CSV file.
    pub(super) fn row(&mut self, row: csv::Row) {
        if self.is_full() {
            return;
        }
        let named = |name: String| if name.is_empty() { "unknown".to_owned() } else { name };
        let method = self.named(if row.method.is_empty() { "call" } else { &row.method });
        let connection =
            Connection { client: named(row.client), server: named(row.server), server_port: 0, name: row.connection };
        let connection = match self.by_connection.get(&connection) {
            Some(at) => *at,
            None => self.connect(connection),
        };
        let mut key = [0; 16];
        let length = row.key.len().min(16);
        key[..length].copy_from_slice(&row.key.as_bytes()[..length]);
        self.all.push(Call {
            t: row.t.map(|t| t.unwrap_or(UNKNOWN)),
            rpcid: row.rpcid,
            parent: row.parent,
            status: row.status,
            method,
            connection,
            bytes: row.bytes.map(Option::unwrap_or_default),
            estimated: [false; 2],
            key,
        });
    }

    fn is_full(&mut self) -> bool {
        let full = self.all.len() + self.served.len() >= MAX_CALLS;
        self.not_kept += u64::from(full);
        full
    }

    fn named(&mut self, name: &str) -> u32 {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        let at = self.methods.len() as u32;
        self.methods.push(name.to_owned());
        self.by_name.insert(name.to_owned(), at);
        at
    }

    fn connect(&mut self, connection: Connection) -> u32 {
        let at = self.connections.len() as u32;
        self.connections.push(connection.clone());
        self.by_connection.insert(connection, at);
        at
    }

    /// The connection between two ends; without a client's address those of one file are one.
    fn between(&mut self, ends: Ends) -> u32 {
        let file = if ends.client == (0, 0) { self.files } else { 0 };
        if let Some(at) = self.by_ends.get(&(ends, file)) {
            return *at;
        }
        let text = |ip: u32| if ip == 0 { "unknown".to_owned() } else { Ipv4Addr::from(ip).to_string() };
        let connection = Connection {
            client: text(ends.client.0),
            server: text(ends.server.0),
            server_port: ends.server.1,
            name: format!("{}:{file}", ends.client.1),
        };
        let at = self.connect(connection);
        self.by_ends.insert((ends, file), at);
        at
    }

    fn method(&mut self, record: &Record) -> u32 {
        let name = record.header.method;
        if let Some(at) = self.by_method.get(&name.0) {
            return *at;
        }
        let text = name.to_string();
        let at = self.named(if text.is_empty() { "unknown" } else { &text });
        self.by_method.insert(name.0, at);
        at
    }

    /// Brings both sides together. Whatever was added before is in `all` afterwards.
    pub(super) fn merge(&mut self) {
        self.drop_repeated();
        if self.served.is_empty() {
            return;
        }
        let mut by_identity: HashMap<Identity, usize> = HashMap::with_capacity(self.identities.len());
        let mut unanswered: HashMap<Identity, Vec<usize>> = HashMap::new();
        for (at, identity) in self.identities.iter().enumerate() {
            if identity.ends.client == (0, 0) {
                unanswered.entry(*identity).or_default().push(at);
            } else {
                by_identity.insert(*identity, at);
            }
        }
        for (identity, served) in std::mem::take(&mut self.served) {
            let lonely = identity.unanswered();
            let found = match by_identity.get(&identity) {
                Some(at) => Some(*at),
                // Which of several such calls it was, nobody knows.
                None => unanswered.get(&lonely).filter(|all| all.len() == 1).map(|all| all[0]),
            };
            let Some(at) = found else {
                self.server_only += 1;
                self.all.push(served);
                continue;
            };
            unanswered.remove(&lonely);
            let call = &mut self.all[at];
            self.merged += 1;
            for stamp in [1, 2] {
                if call.t[stamp] == UNKNOWN {
                    call.t[stamp] = served.t[stamp];
                }
            }
            for end in [0, 1] {
                if (call.estimated[end] || call.bytes[end] == 0) && served.bytes[end] > 0 {
                    (call.bytes[end], call.estimated[end]) = (served.bytes[end], served.estimated[end]);
                }
            }
            if call.key == [0; 16] {
                call.key = served.key;
            }
            if call.t[3] == UNKNOWN {
                (call.connection, call.status) = (served.connection, served.status);
            }
        }
        self.identities = Vec::new();
    }

    /// The same file given twice, or copied into another.
    fn drop_repeated(&mut self) {
        if self.files < 2 {
            return;
        }
        let mut repeated = 0;
        // Everything but the connection: a request without its reply belongs to one by its file alone.
        let of = |call: &Call, identity: &Identity| (*identity, call.t, call.method, call.status);
        let mut seen = HashSet::with_capacity(self.identities.len());
        let mut keep = self.identities.iter().zip(&self.all).map(|(identity, call)| {
            let new = seen.insert(of(call, identity));
            repeated += u64::from(!new);
            new
        });
        // Rows of CSV files stand behind those of logs and have no identity.
        let kept: Vec<bool> = keep.by_ref().collect();
        drop(keep);
        if repeated > 0 {
            let mut at = 0..;
            self.all.retain(|_| kept.get(at.next().unwrap_or(0)).copied().unwrap_or(true));
            let mut at = 0..;
            self.identities.retain(|_| kept[at.next().unwrap_or(0)]);
        }
        let mut seen = HashSet::with_capacity(self.served.len());
        self.served.retain(|(identity, call)| {
            let new = seen.insert(of(call, identity));
            repeated += u64::from(!new);
            new
        });
        self.repeated = repeated;
    }
}

impl FileOfRecords<'_> {
    /// Takes the next record.
    pub(super) fn record(&mut self, record: &Record) {
        let identity = Identity::of(record);
        match record.kind() {
            Kind::ReqSend => self.sent.put(identity.unanswered(), *record),
            Kind::ReqRcv => self.received.put(identity, *record),
            Kind::RespRcv => {
                let request = self.sent.take(&identity.unanswered());
                self.counted.answered += 1;
                if !self.calls.is_full() {
                    let call = self.call(identity, record, request.as_ref());
                    self.calls.all.push(call);
                    self.calls.identities.push(identity);
                }
            }
            Kind::RespSend => {
                let request = self.received.take(&identity);
                self.counted.served += 1;
                if !self.calls.is_full() {
                    let call = self.call(identity, record, request.as_ref());
                    self.calls.served.push((identity, call));
                }
            }
            Kind::Text => self.counted.text += 1,
        }
    }

    fn call(&mut self, identity: Identity, record: &Record, request: Option<&Record>) -> Call {
        let header = &record.header;
        let connection = match self.last {
            Some((ends, at)) if ends == identity.ends => at,
            // A request without its reply: most likely of the connection that the file is of.
            Some((ends, at)) if identity.ends.client == (0, 0) && ends.server == identity.ends.server => at,
            _ => self.calls.between(identity.ends),
        };
        self.last = Some((identity.ends, connection)).filter(|(ends, _)| ends.client != (0, 0)).or(self.last);
        let (request_length, request_estimated) = request.unwrap_or(record).request_length();
        let reply = !matches!(record.kind(), Kind::ReqSend | Kind::ReqRcv);
        let (reply_length, reply_estimated) = record.reply_length();
        let key = request.or(Some(record)).and_then(|request| self.key(request));
        Call {
            t: header.t.map(|us| if us == 0 { UNKNOWN } else { us * 1_000 }),
            rpcid: header.rpcid,
            parent: header.parent,
            status: header.status,
            method: self.calls.method(record),
            connection,
            bytes: [HEAD + u64::from(request_length), if reply { HEAD + u64::from(reply_length) } else { 0 }],
            estimated: [request_estimated, reply && reply_estimated],
            key: key.unwrap_or_default(),
        }
    }

    fn key(&self, request: &Record) -> Option<[u8; 16]> {
        let mut key = [0; 16];
        let bytes = if self.shown {
            // The length is dots: the key ends where the length of the value begins, which is dots again.
            let is_request = matches!(request.kind(), Kind::ReqSend | Kind::ReqRcv);
            let has_key = is_request && request.header.method.bytes() != b"ping";
            let rest = &request.data[4..];
            let length = rest.iter().position(|byte| matches!(byte, b'.' | 0)).unwrap_or(rest.len());
            has_key.then(|| &rest[..length])?
        } else {
            request.key()?
        };
        let length = bytes.len().min(16);
        key[..length].copy_from_slice(&bytes[..length]);
        Some(key)
    }

    /// Ends the file: requests that are left had no reply.
    pub(super) fn end(mut self) -> Counted {
        for (identity, request) in std::mem::take(&mut self.sent).rest() {
            self.counted.unanswered += 1;
            if !self.calls.is_full() {
                let call = self.call(identity, &request, None);
                self.calls.all.push(call);
                self.calls.identities.push(identity);
            }
        }
        for (identity, request) in std::mem::take(&mut self.received).rest() {
            self.counted.served += 1;
            if !self.calls.is_full() {
                let call = self.call(identity, &request, None);
                self.calls.served.push((identity, call));
            }
        }
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::{Header, Method};

    /// A call of client 1 or 2, `t1` µs after a moment.
    fn header(client: u16, rpcid: u32, t1: i64) -> Header {
        let t1 = 1_700_000_000_000_000 + t1;
        Header {
            rpcid,
            t: [t1, t1 + 10, t1 + 12, t1 + 30],
            client_ip: 0x0a09_0001,
            client_port: 40_000 + client,
            server_ip: 0x0a09_0002,
            server_port: 12_345,
            method: Method::new("ping"),
            ..Header::default()
        }
    }

    fn client(headers: &[Header]) -> Vec<Record> {
        headers
            .iter()
            .flat_map(|one| [Kind::ReqSend, Kind::RespRcv].map(|kind| Record::of(kind, one, b"body")))
            .collect()
    }

    fn server(headers: &[Header]) -> Vec<Record> {
        headers
            .iter()
            .flat_map(|one| [Kind::ReqRcv, Kind::RespSend].map(|kind| Record::of(kind, one, b"body")))
            .collect()
    }

    fn merged(files: &[Vec<Record>]) -> Calls {
        let mut calls = Calls::default();
        for records in files {
            let mut file = calls.file(false);
            records.iter().for_each(|record| file.record(record));
            file.end();
        }
        calls.merge();
        calls
    }

    #[test]
    fn clients_with_the_same_ids_stay_apart() {
        // The same ids at nearly the same times, and once at the very same µs.
        let one: Vec<Header> = (0..5).map(|n| header(1, 2 << n, 100 * i64::from(n))).collect();
        let two: Vec<Header> = (0..5).map(|n| header(2, 2 << n, 100 * i64::from(n) + i64::from(n % 2))).collect();
        let mut both: Vec<Header> = one.iter().chain(&two).copied().collect();
        both.sort_by_key(|header| header.t[0]);
        for files in [
            vec![client(&one), client(&two), server(&both)],
            vec![server(&both), client(&two), client(&one)],
            vec![client(&one), client(&one), server(&both), client(&two), server(&both)],
        ] {
            let repeated = if files.len() == 5 { 15 } else { 0 };
            let calls = merged(&files);
            assert_eq!((calls.all.len(), calls.merged, calls.server_only, calls.repeated), (10, 10, 0, repeated));
            assert_eq!(calls.connections.len(), 2);
            for call in &calls.all {
                assert_eq!([1, 2, 3].map(|at| call.t[at] - call.t[0]), [10_000, 12_000, 30_000]);
                assert_eq!((call.bytes, call.estimated), ([HEAD + 4; 2], [false; 2]));
            }
        }
    }

    #[test]
    fn requests_in_flight_together_find_their_replies() {
        let headers: Vec<Header> = (0..50).map(|n| header(n % 3, 7, i64::from(n / 6))).collect();
        let mut records: Vec<Record> = headers.iter().map(|one| Record::of(Kind::ReqSend, one, b"body")).collect();
        records.extend(headers.iter().rev().map(|one| Record::of(Kind::RespRcv, one, b"")));
        let calls = merged(&[records]);
        assert_eq!((calls.all.len(), calls.connections.len()), (50, 3));
        assert!(calls.all.iter().all(|call| call.estimated == [false; 2] && call.t[3] != UNKNOWN));
    }

    #[test]
    fn a_reply_that_never_came_is_known_by_the_servers_log() {
        let (answered, lost, unseen) = (header(1, 2, 0), header(1, 4, 100), header(2, 9, 50));
        let mut log = client(&[answered]);
        log.push(Record::of(Kind::ReqSend, &lost, b"body"));
        let calls = merged(&[server(&[answered, unseen, lost]), log.clone()]);
        assert_eq!((calls.all.len(), calls.merged, calls.server_only), (3, 2, 1));
        let call = calls.all.iter().find(|call| call.rpcid == 4).unwrap();
        assert_eq!((call.t[2] - call.t[0], call.t[3], call.connection), (12_000, UNKNOWN, calls.all[0].connection));
        let call = calls.all.iter().find(|call| call.rpcid == 9).unwrap();
        assert_eq!((call.t[1] - call.t[0], call.t[3]), (10_000, UNKNOWN));
        let alone = merged(&[log]);
        assert_eq!((alone.all[1].t[1..].to_vec(), alone.all[1].bytes), (vec![UNKNOWN; 3], [HEAD + 4, 0]));
        assert_eq!(alone.all[1].connection, alone.all[0].connection);
    }

    #[test]
    fn lengths_are_estimates_where_only_the_logarithm_is_there() {
        let one = Header { lglen1: 166, ..header(1, 2, 0) };
        let calls = merged(&[vec![Record::of(Kind::RespRcv, &one, b"ok")]]);
        assert_eq!((calls.all[0].bytes, calls.all[0].estimated), ([HEAD + 99_332, HEAD + 2], [true, false]));
    }
}
