//! What each method does. No I/O but for the clock that the lock's wait is read from.

use std::sync::Arc;

use msgpath_rpc::{Method, Status, put_string, take_string};

use super::memory::{Buffer, Memory};
use super::parser::{Body, Request};
use super::store::{Store, Value};

pub enum Reply<'a> {
    Empty,
    /// What was received, as it was received.
    Lent(&'a [u8]),
    /// The same, in the buffer in which it was received.
    Own(Buffer),
    Kept(Value),
    Made(Vec<u8>),
}

impl Reply<'_> {
    /// What goes on the wire.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Reply::Empty => &[],
            Reply::Lent(bytes) => bytes,
            Reply::Own(buffer) => buffer.bytes(),
            Reply::Kept(value) => value.as_string(),
            Reply::Made(bytes) => bytes,
        }
    }

    /// The same for longer than the bytes it was received in: those are copied.
    pub fn into_owned(self) -> Reply<'static> {
        match self {
            Reply::Lent(bytes) => Reply::Made(bytes.to_vec()),
            Reply::Empty => Reply::Empty,
            Reply::Own(buffer) => Reply::Own(buffer),
            Reply::Kept(value) => Reply::Kept(value),
            Reply::Made(bytes) => Reply::Made(bytes),
        }
    }
}

/// How a call ended.
pub struct Answer<'a> {
    pub status: Status,
    pub reply: Reply<'a>,
    /// How long it waited for the store's lock, ns.
    pub lock_ns: u64,
    /// What the server has to know of it.
    pub remark: Option<Remark>,
}

/// What is worth counting, or doing, beyond the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The strings of the body did not fit into it.
    BadBody,
    /// There was no memory.
    NoRoom,
    /// No such method.
    Unknown,
    /// The server was asked to stop, and may be.
    Quit,
}

impl Answer<'_> {
    fn new(status: Status) -> Self {
        Self { status, reply: Reply::Empty, lock_ns: 0, remark: None }
    }

    fn of(worked: bool, lock_ns: u64) -> Self {
        Self { lock_ns, ..Self::new(if worked { Status::SUCCESS } else { Status::FAIL }) }
    }

    fn remarkable(status: Status, remark: Remark) -> Self {
        Self { remark: Some(remark), ..Self::new(status) }
    }

    /// Not now.
    pub fn too_busy() -> Self {
        Self::new(Status::TOO_BUSY)
    }
}

/// The methods over one store.
pub struct Service {
    store: Store,
    memory: Arc<Memory>,
    may_quit: bool,
}

impl Service {
    /// Over an empty store. `may_quit`: whether the `quit` method stops the server.
    pub fn new(memory: Arc<Memory>, may_quit: bool) -> Self {
        Self { store: Store::new(Arc::clone(&memory)), memory, may_quit }
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Does what was asked for.
    pub fn answer<'a>(&self, method: Method, request: Request<'a>) -> Answer<'a> {
        let Request { length, body, .. } = request;
        if matches!(body, Body::Refused) && length > 0 {
            return Answer::remarkable(Status::TOO_BUSY, Remark::NoRoom);
        }
        let bytes = match &body {
            Body::Lent(bytes) => bytes,
            Body::Own(buffer) => buffer.bytes(),
            Body::Refused => &[],
        };
        match method.bytes() {
            b"ping" => Answer { reply: echoed(body), ..Answer::new(Status::SUCCESS) },
            b"write" => self.write(body),
            b"sink" => match two_strings(bytes) {
                Some(_) => Answer::new(Status::SUCCESS),
                None => bad_body(),
            },
            b"read" => self.with_value(bytes, Reply::Kept),
            b"chksum" => self.with_value(bytes, |value| {
                let mut out = Vec::with_capacity(12);
                put_string(&mut out, format!("{:08x}", crc32fast::hash(value.bytes())).as_bytes());
                Reply::Made(out)
            }),
            b"delete" => match one_string(bytes) {
                Some(key) => {
                    let found = self.store.delete(key);
                    Answer::of(found.is, found.waited_ns)
                }
                None => bad_body(),
            },
            b"stats" => {
                let found = self.store.waits();
                let mut text = String::from("Stats: ");
                found.is.iter().for_each(|count| text.push_str(&format!("{count} ")));
                let mut out = Vec::with_capacity(4 + text.len());
                put_string(&mut out, text.as_bytes());
                Answer { reply: Reply::Made(out), ..Answer::of(true, found.waited_ns) }
            }
            b"reset" => Answer::of(true, self.store.reset().waited_ns),
            b"quit" if self.may_quit => Answer::remarkable(Status::SUCCESS, Remark::Quit),
            b"quit" => Answer::new(Status::FAIL),
            _ => Answer { reply: echoed(body), ..Answer::remarkable(Status::FAIL, Remark::Unknown) },
        }
    }

    fn with_value<'a>(&self, body: &[u8], reply: impl FnOnce(Value) -> Reply<'static>) -> Answer<'a> {
        let Some(key) = one_string(body) else { return bad_body() };
        let found = self.store.read(key);
        let answer = Answer::of(found.is.is_some(), found.waited_ns);
        Answer { reply: found.is.map_or(Reply::Empty, reply), ..answer }
    }

    fn write<'a>(&self, body: Body<'_>) -> Answer<'a> {
        // A long body is kept as it is, a short one is copied out of what it arrived in.
        let (key, value) = match body {
            Body::Own(buffer) => {
                let Some((key, string)) = two_strings(buffer.bytes()) else { return bad_body() };
                let (key, begin) = (key.to_vec(), 4 + key.len());
                let string = begin..begin + string.len();
                (std::borrow::Cow::Owned(key), Some(Value::new(buffer, string)))
            }
            Body::Lent(bytes) => {
                let Some((key, string)) = two_strings(bytes) else { return bad_body() };
                let value = self.memory.copy(string).map(|buffer| Value::new(buffer, 0..string.len()));
                (std::borrow::Cow::Borrowed(key), value)
            }
            Body::Refused => return bad_body(),
        };
        let Some(value) = value else { return Answer::remarkable(Status::TOO_BUSY, Remark::NoRoom) };
        let found = self.store.write(&key, value);
        match found.is {
            Ok(()) => Answer::of(true, found.waited_ns),
            Err(_) => Answer { lock_ns: found.waited_ns, ..Answer::remarkable(Status::TOO_BUSY, Remark::NoRoom) },
        }
    }
}

fn bad_body<'a>() -> Answer<'a> {
    Answer::remarkable(Status::FAIL, Remark::BadBody)
}

fn echoed(body: Body<'_>) -> Reply<'_> {
    match body {
        Body::Lent([]) | Body::Refused => Reply::Empty,
        Body::Lent(bytes) => Reply::Lent(bytes),
        Body::Own(buffer) => Reply::Own(buffer),
    }
}

fn one_string(mut body: &[u8]) -> Option<&[u8]> {
    take_string(&mut body)
}

/// The first string, and the second with its length bytes.
fn two_strings(mut body: &[u8]) -> Option<(&[u8], &[u8])> {
    let key = take_string(&mut body)?;
    let second = body;
    let value = take_string(&mut body)?;
    Some((key, &second[..4 + value.len()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::Header;

    fn call(service: &Service, method: &str, body: &[u8]) -> (Status, Vec<u8>, Option<Remark>) {
        let request = Request { header: Header::default(), length: body.len(), body: Body::Lent(body) };
        let answer = service.answer(Method::new(method), request);
        (answer.status, answer.reply.bytes().to_vec(), answer.remark)
    }

    /// The same with the body in a buffer of its own.
    fn call_long(service: &Service, method: &str, body: &[u8]) -> (Status, Vec<u8>, Option<Remark>) {
        let buffer = service.memory().copy(body).unwrap();
        let request = Request { header: Header::default(), length: body.len(), body: Body::Own(buffer) };
        let answer = service.answer(Method::new(method), request);
        (answer.status, answer.reply.bytes().to_vec(), answer.remark)
    }

    fn strings(parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        parts.iter().for_each(|part| put_string(&mut out, part));
        out
    }

    #[test]
    fn every_method_does_its_own() {
        let service = Service::new(Memory::new(1 << 20), false);
        let none = Vec::new();
        let (ok, fail) = (Status::SUCCESS, Status::FAIL);
        for (call, key) in [(call as fn(&Service, &str, &[u8]) -> _, &b"short"[..]), (call_long, b"long")] {
            let key_alone = strings(&[key]);
            assert_eq!(call(&service, "ping", b"any bytes"), (ok, b"any bytes".to_vec(), None));
            assert_eq!(call(&service, "read", &key_alone), (fail, none.clone(), None));
            assert_eq!(call(&service, "chksum", &key_alone), (fail, none.clone(), None));
            assert_eq!(call(&service, "write", &strings(&[key, b"VALUE"])), (ok, none.clone(), None));
            assert_eq!(call(&service, "read", &key_alone), (ok, strings(&[b"VALUE"]), None));
            assert_eq!(call(&service, "write", &strings(&[key, b"123456789"])), (ok, none.clone(), None));
            assert_eq!(call(&service, "chksum", &key_alone), (ok, strings(&[b"cbf43926"]), None), "CRC-32 check value");
            assert_eq!(call(&service, "sink", &strings(&[key, b"thrown away"])), (ok, none.clone(), None));
            assert_eq!(call(&service, "read", &key_alone), (ok, strings(&[b"123456789"]), None));
            assert_eq!(call(&service, "delete", &key_alone), (ok, none.clone(), None));
            assert_eq!(call(&service, "delete", &key_alone), (fail, none.clone(), None));
        }
        call(&service, "write", &strings(&[b"k", b""]));
        assert_eq!(call(&service, "read", &strings(&[b"k"])), (ok, strings(&[b""]), None));
        assert_eq!(call(&service, "reset", b""), (ok, none.clone(), None));
        assert_eq!(service.store().keys(), 0);
        assert_eq!(call(&service, "nosuch", b"abc"), (fail, b"abc".to_vec(), Some(Remark::Unknown)));
        assert_eq!(call(&service, "", b""), (fail, none.clone(), Some(Remark::Unknown)));
        assert_eq!(call(&service, "quit", b""), (fail, none.clone(), None));
        let stoppable = Service::new(Memory::new(1 << 20), true);
        assert_eq!(call(&stoppable, "quit", b""), (ok, none, Some(Remark::Quit)));
    }

    #[test]
    fn stats_is_one_string_of_32_counts() {
        let service = Service::new(Memory::new(1 << 20), false);
        call(&service, "write", &strings(&[b"k", b"VALUE"]));
        call(&service, "read", &strings(&[b"k"]));
        call(&service, "read", &strings(&[b"zz"]));
        let (_, reply, _) = call(&service, "stats", b"");
        let expected = format!("Stats: 4 {}", "0 ".repeat(31));
        assert_eq!(reply, strings(&[expected.as_bytes()]));
        assert_eq!(reply.len(), 75);
    }

    #[test]
    fn lengths_that_lie_are_refused_and_do_nothing() {
        let service = Service::new(Memory::new(1 << 20), false);
        let huge = 0x7fff_ffff_u32.to_le_bytes();
        let bodies = [&b""[..], b"\x01", b"\x01\0\0", &huge, b"\x05\0\0\0abcd", b"\xff\xff\xff\xffabcd"];
        for method in ["read", "write", "sink", "delete", "chksum"] {
            for body in bodies {
                for call in [call, call_long] {
                    let expected = (Status::FAIL, Vec::new(), Some(Remark::BadBody));
                    assert_eq!(call(&service, method, body), expected, "{method} {body:?}");
                }
            }
        }
        for body in [strings(&[b"key"]), [strings(&[b"key"]), b"\x09\0\0\0short".to_vec()].concat()] {
            assert_eq!(call(&service, "write", &body).2, Some(Remark::BadBody));
            assert_eq!(call_long(&service, "write", &body).2, Some(Remark::BadBody));
        }
        assert_eq!(service.store().keys(), 0);
    }

    #[test]
    fn a_write_past_the_limit_is_refused_and_nothing_is_lost() {
        let service = Service::new(Memory::new(2000), false);
        let write = |key: &[u8]| call(&service, "write", &strings(&[key, &[7; 400]]));
        let refused = (Status::TOO_BUSY, Vec::new(), Some(Remark::NoRoom));
        assert_eq!((write(b"a").0, write(b"b").0, write(b"c").0), (Status::SUCCESS, Status::SUCCESS, Status::SUCCESS));
        assert_eq!(write(b"d"), refused);
        for key in [b"a", b"b", b"c"] {
            assert_eq!(call(&service, "read", &strings(&[key])), (Status::SUCCESS, strings(&[&[7; 400]]), None));
        }
        assert_eq!(call(&service, "ping", b"still there").0, Status::SUCCESS);
        call(&service, "delete", &strings(&[b"a"]));
        assert_eq!(write(b"d").0, Status::SUCCESS);
        let request = Request { header: Header::default(), length: 1 << 20, body: Body::Refused };
        let answer = service.answer(Method::new("write"), request);
        assert_eq!((answer.status, answer.remark), (Status::TOO_BUSY, Some(Remark::NoRoom)));
    }
}
