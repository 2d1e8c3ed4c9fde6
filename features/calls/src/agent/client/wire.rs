//! The protocols: a call becomes bytes, bytes become a reply. No I/O.

use std::ops::Range;

use bytes::Bytes;
use msgpath_rpc::seed::Lfsr;
use msgpath_rpc::tenlg::tenlg;
use msgpath_rpc::{Header, Kind, MARKER_BYTES, MAX_BODY, Marker, Method, RPC_HEADER_BYTES, Telling, take_string};

use super::http::Http;
use super::maker::{Drawn, Draws, Maker};
#[cfg(feature = "postgres")]
use super::postgres::Postgres;
use super::redis::{self, Redis};

/// Marker and header of a request.
pub const LAB_HEAD: usize = MARKER_BYTES + RPC_HEADER_BYTES;
/// The longest reply of Redis or HTTP that is taken, bytes.
pub const MAX_REPLY: usize = 64 << 20;

/// A call as it was put together.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    pub rpcid: u32,
    /// Bytes of the whole message.
    pub bytes: usize,
    /// Where the key is in the message.
    pub key: Range<usize>,
    /// Where the body is in the message.
    pub body: Range<usize>,
    /// What was written, where it can be made again.
    pub drawn: Option<Drawn>,
}

/// How far a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// It is whole, and this long.
    Whole(usize),
    /// More must be read: so many bytes in all, as far as that is known.
    More(usize),
    /// It ends when the server closes.
    UntilClose,
}

/// A reply, taken apart.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// 0: success.
    pub status: u32,
    /// Lab only: its header.
    pub header: Header,
    /// What our own server told.
    pub telling: Option<Telling>,
    /// Where the body is in the message.
    pub body: Range<usize>,
    /// The server closes the connection after it, and says so.
    pub closes: bool,
    /// What the server calls itself.
    pub server: Option<String>,
    /// What is to be said of it.
    pub remark: Option<Remark>,
}

/// What is said of a reply: an error, or what else the server answers with than what was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remark {
    /// As it is counted: replies of one text are one.
    pub text: String,
    pub failed: bool,
}

/// What a call does, as far as verifying it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Does {
    /// The reply's body is the request's.
    Echoes,
    /// Stores a value under its key; the reply has no body.
    Writes,
    /// Gives the value under its key.
    Reads,
    /// Removes its key.
    Deletes,
    /// Removes all keys.
    Resets,
    /// Nothing that could be compared.
    Else,
}

/// One protocol, as one connection speaks it.
#[derive(Clone, Debug)]
pub enum Wire {
    Lab {
        /// As dialled; 0 for IPv6, for which the lab has no field.
        server_ip: u32,
        /// As dialled.
        server_port: u16,
        /// `pad` of a request.
        pad: u32,
    },
    Redis(Redis),
    Http(Http),
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
}

impl Wire {
    /// What a method does.
    pub fn does(&self, method: &str) -> Does {
        match (self, method.to_ascii_lowercase().as_str()) {
            (Wire::Http(_), "ping") => Does::Else,
            #[cfg(feature = "postgres")]
            (Wire::Postgres(_), _) => Does::Else,
            (_, "ping") => Does::Echoes,
            (_, "write" | "set" | "put") => Does::Writes,
            (_, "read" | "get") => Does::Reads,
            (_, "delete" | "del") => Does::Deletes,
            (_, "reset" | "flushall") => Does::Resets,
            _ => Does::Else,
        }
    }

    /// Calls of this method follow.
    pub fn turn_to(&mut self, method: &str) {
        match self {
            Wire::Http(http) => http.turn_to(method),
            #[cfg(feature = "postgres")]
            Wire::Postgres(postgres) => postgres.turn_to(method),
            _ => {}
        }
    }

    /// What the server called itself while the connection was made.
    pub fn met(&mut self, server: Option<String>) {
        match self {
            #[cfg(feature = "postgres")]
            Wire::Postgres(postgres) => postgres.met(server),
            _ => drop(server),
        }
    }

    /// Whether bytes behind a reply may have come unasked; the next reply begins with them.
    pub fn may_go_on(&self, rest: &[u8]) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Wire::Postgres(_) => Postgres::is_unasked(rest),
            _ => rest.is_empty(),
        }
    }

    /// Why the server closed, where the last bytes before the end say so.
    pub fn parting(&self, last: &[u8]) -> Option<String> {
        match self {
            #[cfg(feature = "postgres")]
            Wire::Postgres(_) => Postgres::parting(last),
            _ => {
                let _ = last;
                None
            }
        }
    }

    /// Whether a call that the server did not begin to answer may be made again: it does the same if it had been made twice.
    pub fn may_repeat(&self, method: &str) -> bool {
        let idempotent = ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"];
        matches!(self, Wire::Http(_)) && idempotent.contains(&super::http::command(method).as_str())
    }

    /// Whether a connection is kept for the next call, as far as this end has its way.
    pub fn keeps(&self) -> bool {
        !matches!(self, Wire::Http(http) if http.closes())
    }

    /// Puts the next call together, in `out`.
    pub fn build(&self, method: &str, maker: &mut Maker, draws: &mut Draws, out: &mut Vec<u8>) -> Sent {
        out.clear();
        match self {
            Wire::Lab { server_ip, server_port, pad } => {
                out.resize(LAB_HEAD, 0);
                let mut sent = Sent::default();
                if let Some(bytes) = maker.key_bytes() {
                    out.extend_from_slice(&(bytes as u32).to_le_bytes());
                    maker.put_key(out, draws);
                    sent.key = out.len() - bytes..out.len();
                }
                sent.drawn = maker.drawn(draws);
                if let Some(bytes) = maker.value_bytes() {
                    out.extend_from_slice(&(bytes as u32).to_le_bytes());
                    maker.put_value(out, draws);
                }
                sent.rpcid = draws.id();
                let body = out.len() - LAB_HEAD;
                let header = Header {
                    rpcid: sent.rpcid,
                    server_ip: *server_ip,
                    server_port: *server_port,
                    lglen1: tenlg(body as u64),
                    method: Method::new(method),
                    pad: *pad,
                    ..Header::default()
                };
                let marker = Marker { header: RPC_HEADER_BYTES as u32, body: body as u32 };
                out[..MARKER_BYTES].copy_from_slice(&marker.to_bytes());
                out[MARKER_BYTES..LAB_HEAD].copy_from_slice(&header.to_bytes());
                Sent { bytes: out.len(), body: LAB_HEAD..out.len(), ..sent }
            }
            Wire::Redis(_) => redis::build(method, maker, draws, out),
            Wire::Http(http) => http.build(method, maker, draws, out),
            #[cfg(feature = "postgres")]
            Wire::Postgres(postgres) => postgres.build(maker, draws, out),
        }
    }

    /// Puts T1 into a request: µs since 1970.
    #[inline(always)]
    pub fn stamp(&self, out: &mut [u8], unix_us: i64) {
        if let Wire::Lab { .. } = self {
            out[MARKER_BYTES + 8..MARKER_BYTES + 16].copy_from_slice(&unix_us.to_le_bytes());
        }
    }

    /// How far the reply is that `bytes` begin with.
    ///
    /// # Errors
    /// Why this is not a reply.
    #[inline(always)]
    pub fn frame(&mut self, bytes: &[u8]) -> Result<Frame, String> {
        match self {
            Wire::Lab { .. } => {
                let Some(head) = bytes.first_chunk() else { return Ok(Frame::More(0)) };
                let marker = Marker::parse(head).map_err(|error| error.to_string())?;
                let whole = MARKER_BYTES + marker.header as usize + marker.body as usize;
                Ok(if bytes.len() >= whole { Frame::Whole(whole) } else { Frame::More(whole) })
            }
            Wire::Redis(redis) => redis.frame(&Bytes::copy_from_slice(bytes)),
            Wire::Http(http) => http.frame(bytes),
            #[cfg(feature = "postgres")]
            Wire::Postgres(postgres) => postgres.frame(bytes),
        }
    }

    /// The same of the first `have` bytes of a buffer, which is lent to whoever reads it and not copied.
    ///
    /// # Errors
    /// Why this is not a reply.
    #[inline(always)]
    pub fn frame_in(&mut self, buffer: &mut Vec<u8>, have: usize) -> Result<Frame, String> {
        let Wire::Redis(redis) = self else { return self.frame(&buffer[..have]) };
        let lent = Bytes::from(std::mem::take(buffer));
        let frame = redis.frame(&lent.slice(..have));
        *buffer = lent.into();
        frame
    }

    /// Takes a whole reply apart.
    ///
    /// # Errors
    /// Why this is not a reply.
    pub fn reply(&mut self, bytes: &[u8]) -> Result<Reply, String> {
        match self {
            Wire::Lab { .. } => {
                let marker = bytes.first_chunk().ok_or("shorter than a marker")?;
                let marker = Marker::parse(marker).map_err(|error| error.to_string())?;
                let (head, body) = (&bytes[MARKER_BYTES..], MARKER_BYTES + marker.header as usize);
                let head = &head[..marker.header as usize];
                let header = Header::parse(head).map_err(|error| error.to_string())?;
                Ok(Reply {
                    status: header.status,
                    header,
                    telling: Telling::of(&header, head),
                    body: body..bytes.len(),
                    ..Reply::default()
                })
            }
            Wire::Redis(redis) => redis.reply(bytes),
            Wire::Http(http) => http.reply(bytes),
            #[cfg(feature = "postgres")]
            Wire::Postgres(postgres) => postgres.reply(bytes),
        }
    }

    /// Whether a reply answers a request of this id, T1 (µs since 1970) and method.
    ///
    /// # Errors
    /// In what it differs.
    pub fn belongs(&self, reply: &Reply, rpcid: u32, unix_us: i64, method: &str) -> Result<(), String> {
        let Wire::Lab { .. } = self else { return Ok(()) };
        let header = &reply.header;
        if header.rpcid != rpcid {
            return Err(format!("it answers call {:08x}, asked was {rpcid:08x}", header.rpcid));
        }
        if header.kind != Kind::RespSend as u16 {
            return Err(format!("its type is {}, a reply has 2", header.kind));
        }
        if header.method != Method::new(method) {
            return Err(format!("it answers a {}, asked was a {method}", header.method));
        }
        if header.t[0] != unix_us {
            return Err(format!("its T1 is {} µs, asked was with {unix_us}", header.t[0]));
        }
        Ok(())
    }

    /// The value in the body of a read's reply.
    pub fn value<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Wire::Lab { .. } => {
                let mut rest = body;
                take_string(&mut rest).filter(|_| rest.is_empty())
            }
            _ => Some(body),
        }
    }

    /// Bytes of a reply that are expected at first, for the receive buffer.
    pub fn guess(&self, sent: &Sent) -> usize {
        (sent.bytes + 4096).min(MAX_BODY + 8192)
    }
}

/// The first bytes of a key, zero filled.
pub fn key_of(key: &[u8]) -> [u8; 16] {
    let mut out = [0; 16];
    let length = key.len().min(16);
    out[..length].copy_from_slice(&key[..length]);
    out
}

/// A register from the clock, so that runs differ.
pub fn random_seed(entropy: u64) -> u32 {
    Lfsr::new((entropy ^ (entropy >> 32)) as u32).value()
}
