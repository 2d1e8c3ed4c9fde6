//! One message on the wire: marker, header, body.

use msgpath_core::foreign::shown_bytes;

pub const MARKER_BYTES: usize = 16;
/// Bytes of the lab's header.
pub const RPC_HEADER_BYTES: usize = 72;
/// The longest header that is accepted.
pub const MAX_HEADER: usize = 4095;
/// The longest body that is accepted.
pub const MAX_BODY: usize = 16_777_215;
const SIGNATURE: u32 = 0xD1C5_17E5;

/// What a message begins with: how long its two parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Bytes of header that follow.
    pub header: u32,
    /// Bytes of body after it.
    pub body: u32,
}

/// Why 16 bytes are not a marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// The first four bytes.
    #[error("no message begins here (signature {0:#010x})")]
    Signature(u32),
    /// The checksum does not fit the lengths.
    #[error("the checksum of the marker is {got:#010x}, not {want:#010x}")]
    Checksum {
        /// As computed.
        want: u32,
        /// As read.
        got: u32,
    },
    /// A header too short for its fields, or too long.
    #[error("a header of {0} bytes (72 to 4095 are taken)")]
    Header(u32),
    /// A body too long.
    #[error("a body of {0} bytes (at most 16777215 are taken)")]
    Body(u32),
}

impl Marker {
    fn checksum(self) -> u32 {
        SIGNATURE.wrapping_add((self.header << 20) ^ self.body)
    }

    pub fn to_bytes(self) -> [u8; MARKER_BYTES] {
        let mut out = [0; MARKER_BYTES];
        for (at, word) in [SIGNATURE, self.header, self.body, self.checksum()].into_iter().enumerate() {
            out[4 * at..4 * at + 4].copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Reads and checks 16 bytes.
    ///
    /// # Errors
    /// [`MarkerError`]: nothing after it can be trusted.
    pub fn parse(bytes: &[u8; MARKER_BYTES]) -> Result<Self, MarkerError> {
        let word = |at: usize| u32_at(bytes, 4 * at);
        if word(0) != SIGNATURE {
            return Err(MarkerError::Signature(word(0)));
        }
        let marker = Self { header: word(1), body: word(2) };
        if marker.checksum() != word(3) {
            return Err(MarkerError::Checksum { want: marker.checksum(), got: word(3) });
        }
        if !(RPC_HEADER_BYTES..=MAX_HEADER).contains(&(marker.header as usize)) {
            return Err(MarkerError::Header(marker.header));
        }
        if marker.body as usize > MAX_BODY {
            return Err(MarkerError::Body(marker.body));
        }
        Ok(marker)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// What a message or a log record is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Kind {
    /// A request, at the client.
    #[default]
    ReqSend = 0,
    /// A request, at the server.
    ReqRcv = 1,
    /// A reply, at the server.
    RespSend = 2,
    /// A reply, at the client.
    RespRcv = 3,
    /// Text in a log.
    Text = 4,
}

impl Kind {
    pub fn from_number(number: u16) -> Option<Self> {
        [Kind::ReqSend, Kind::ReqRcv, Kind::RespSend, Kind::RespRcv, Kind::Text].get(usize::from(number)).copied()
    }

    /// As the lab prints it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ReqSend => "ReqSend",
            Kind::ReqRcv => "ReqRcv",
            Kind::RespSend => "RespSend",
            Kind::RespRcv => "RespRcv",
            Kind::Text => "Text",
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u32);

impl Status {
    /// It worked.
    pub const SUCCESS: Status = Status(0);
    /// It did not: no such key, no such method.
    pub const FAIL: Status = Status(1);
    /// The server has no room for it now.
    pub const TOO_BUSY: Status = Status(2);

    /// As the lab prints it.
    pub fn name(self) -> String {
        match self {
            Status::SUCCESS => "Success".into(),
            Status::FAIL => "Fail".into(),
            Status::TOO_BUSY => "TooBusy".into(),
            Status(other) => format!("ERROR_{other}"),
        }
    }
}

/// Name of what is called: 8 bytes, zero filled; a name of 8 has no zero, a longer one is cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Method(pub [u8; 8]);

impl Method {
    pub fn new(name: &str) -> Self {
        let mut out = [0; 8];
        let length = name.len().min(8);
        out[..length].copy_from_slice(&name.as_bytes()[..length]);
        Self(out)
    }

    /// Up to the first zero.
    pub fn bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(8);
        &self.0[..length]
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown_bytes(self.bytes(), 64))
    }
}

/// What our own server tells our own client beside the lab's header, where it was asked to: 24 bytes after the 72.
/// Nobody else is asked (see [`Header::asks`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// How long the request lay at the server before it began to read it, ns; 2^64-1: not known.
    pub waited_ns: u64,
    /// From there to the begin of the reply, ns (T3 - T2 with more digits).
    pub served_ns: u64,
    /// Part of that in which the server waited for the store's lock, ns.
    pub lock_ns: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Id of the call, of the client's choice, never 0.
    pub rpcid: u32,
    /// Id of the call that made it; 0: none.
    pub parent: u32,
    /// T1 to T4: request sent, received, reply sent, received; µs since 1970-01-01 UTC. 0: not known.
    pub t: [i64; 4],
    /// Client address; a.b.c.d is the number (a<<24)+(b<<16)+(c<<8)+d. 0 in a request.
    pub client_ip: u32,
    /// Server address, as it was dialled.
    pub server_ip: u32,
    /// Client port; 0 in a request.
    pub client_port: u16,
    pub server_port: u16,
    /// [`tenlg`](crate::tenlg::tenlg) of the request's body.
    pub lglen1: u8,
    /// The same of the reply's body.
    pub lglen2: u8,
    /// Number of a [`Kind`]; hostile until looked up.
    pub kind: u16,
    /// What is called.
    pub method: Method,
    /// How it ended.
    pub status: u32,
    /// 0 for the lab's programs. Ours: [`Header::ASK`] in a request to which a [`Telling`] is welcome.
    pub pad: u32,
}

/// Why bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer than 72 bytes.
    #[error("a header of {0} bytes; it has 72 at least")]
    Short(usize),
}

impl Header {
    /// `pad` of a request of ours: the server may answer with a [`Telling`]. The lab's server copies the field and
    /// looks at nothing in it.
    pub const ASK: u32 = u32::from_le_bytes(*b"mpq?");
    /// `pad` of a reply that has one.
    pub const TELL: u32 = u32::from_le_bytes(*b"mpq!");

    /// Whether a [`Telling`] is asked for.
    pub fn asks(&self) -> bool {
        self.pad == Self::ASK
    }

    pub fn to_bytes(&self) -> [u8; RPC_HEADER_BYTES] {
        let mut out = [0; RPC_HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &self.rpcid.to_le_bytes());
        put(4, &self.parent.to_le_bytes());
        for (at, t) in self.t.iter().enumerate() {
            put(8 + 8 * at, &t.to_le_bytes());
        }
        put(40, &self.client_ip.to_le_bytes());
        put(44, &self.server_ip.to_le_bytes());
        put(48, &self.client_port.to_le_bytes());
        put(50, &self.server_port.to_le_bytes());
        put(52, &[self.lglen1, self.lglen2]);
        put(54, &self.kind.to_le_bytes());
        put(56, &self.method.0);
        put(64, &self.status.to_le_bytes());
        put(68, &self.pad.to_le_bytes());
        out
    }

    /// Reads the first 72 bytes; longer headers are taken, and what follows is not looked at.
    ///
    /// # Errors
    /// Fewer bytes than that.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        if bytes.len() < RPC_HEADER_BYTES {
            return Err(HeaderError::Short(bytes.len()));
        }
        Ok(Self {
            rpcid: u32_at(bytes, 0),
            parent: u32_at(bytes, 4),
            t: [8, 16, 24, 32].map(|at| i64_at(bytes, at)),
            client_ip: u32_at(bytes, 40),
            server_ip: u32_at(bytes, 44),
            client_port: u16_at(bytes, 48),
            server_port: u16_at(bytes, 50),
            lglen1: bytes[52],
            lglen2: bytes[53],
            kind: u16_at(bytes, 54),
            method: Method(bytes[56..64].try_into().expect("eight bytes")),
            status: u32_at(bytes, 64),
            pad: u32_at(bytes, 68),
        })
    }
}

impl Telling {
    /// Bytes on the wire, after the 72 of the header.
    pub const BYTES: usize = 24;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        for (at, value) in [self.waited_ns, self.served_ns, self.lock_ns].into_iter().enumerate() {
            out[8 * at..8 * at + 8].copy_from_slice(&value.to_le_bytes());
        }
        out
    }

    /// What follows a header that tells; `None` where it does not.
    pub fn of(header: &Header, bytes: &[u8]) -> Option<Self> {
        let rest =
            bytes.get(RPC_HEADER_BYTES..RPC_HEADER_BYTES + Self::BYTES).filter(|_| header.pad == Header::TELL)?;
        let at = |at: usize| i64_at(rest, 8 * at) as u64;
        Some(Self { waited_ns: at(0), served_ns: at(1), lock_ns: at(2) })
    }
}

/// Appends a string of a body: its length, then its bytes.
pub fn put_string(out: &mut Vec<u8>, string: &[u8]) {
    out.extend_from_slice(&(string.len() as u32).to_le_bytes());
    out.extend_from_slice(string);
}

/// Takes a string off the front of a body; `None` where its length does not fit what is there.
pub fn take_string<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = body.split_at_checked(4)?;
    let (string, rest) = rest.split_at_checked(u32_at(length, 0) as usize)?;
    *body = rest;
    Some(string)
}

/// The lab's hash of a message, by which a packet in a trace of the kernel is found again: the exclusive or of the eight
/// words of its first 32 bytes, marker included. `None` where there are fewer.
pub fn first_hash(message: &[u8]) -> Option<u32> {
    let (first, _) = message.split_at_checked(32)?;
    Some((0..8).fold(0, |hash, word| hash ^ u32_at(first, 4 * word)))
}
