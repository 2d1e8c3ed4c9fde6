//! What a round keeps of connections of TLS or HTTP/2 that were made in it: of those of the whole run the first round.

use msgpath_core::parts::Part;
use msgpath_core::{Histogram, SparseHistogram};
use serde::{Deserialize, Serialize};

/// A handshake of TLS that was made.
#[derive(Clone, Debug, Default)]
pub struct Shaken {
    /// How long it took, ns: from the first byte of the client until the client may send.
    pub ns: u64,
    /// `TLS 1.3`.
    pub version: String,
    /// `TLS_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// What both agreed to speak; empty: nothing was agreed on.
    pub alpn: String,
    /// With a session of an earlier connection.
    pub resumed: bool,
}

/// Part of a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handshakes {
    /// `TLS 1.3`; empty: no TLS.
    pub version: String,
    /// `TLS_AES_128_GCM_SHA256`.
    pub cipher: String,
    /// What ALPN has agreed on; empty: nothing.
    pub alpn: String,
    /// No certificate was checked.
    pub unchecked: bool,
    /// Handshakes of their own.
    pub full: u64,
    /// Handshakes with the session of an earlier connection.
    pub resumed: u64,
    /// Connecting by TCP, ns.
    #[serde(with = "msgpath_core::histogram::hex")]
    pub connect: SparseHistogram,
    /// The handshake behind it, ns.
    #[serde(with = "msgpath_core::histogram::hex")]
    pub handshake: SparseHistogram,
    /// HTTP/2: streams that the server lets be open at a time, at least; 2^64-1: it names no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<u64>,
}

impl Part for Handshakes {
    const NAME: &str = "rpc_handshakes";
}

impl Handshakes {
    /// Counts a connection that was made in so many ns, its handshake, and how many streams it may have.
    pub fn note(&mut self, connect_ns: u64, shaken: Option<&Shaken>, streams: Option<u64>) {
        let mut one = Handshakes { connect: single(connect_ns), streams, ..Handshakes::default() };
        if let Some(shaken) = shaken {
            (one.version, one.cipher, one.alpn) = (shaken.version.clone(), shaken.cipher.clone(), shaken.alpn.clone());
            (one.full, one.resumed) = (u64::from(!shaken.resumed), u64::from(shaken.resumed));
            one.handshake = single(shaken.ns);
        }
        self.add(one);
    }

    /// With those of others.
    fn add(&mut self, other: Handshakes) {
        if self.version.is_empty() {
            (self.version, self.cipher, self.alpn) = (other.version, other.cipher, other.alpn);
        }
        self.unchecked |= other.unchecked;
        (self.full, self.resumed) = (self.full + other.full, self.resumed + other.resumed);
        self.connect = merged(&self.connect, &other.connect);
        self.handshake = merged(&self.handshake, &other.handshake);
        self.streams = match (self.streams, other.streams) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
    }

    /// Both together.
    pub fn join(sum: &mut Option<Handshakes>, more: Option<Handshakes>) {
        match (&mut *sum, more) {
            (Some(sum), Some(more)) => sum.add(more),
            (None, more) => *sum = more,
            (Some(_), None) => {}
        }
    }
}

fn single(ns: u64) -> SparseHistogram {
    let mut histogram = Histogram::new();
    histogram.record(ns);
    histogram.to_sparse()
}

fn merged(one: &SparseHistogram, other: &SparseHistogram) -> SparseHistogram {
    let mut sum = Histogram::new();
    sum.merge_sparse(one);
    sum.merge_sparse(other);
    sum.to_sparse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_of_connections_come_together() {
        let shaken = |resumed| Shaken { ns: 5000, version: "TLS 1.3".into(), resumed, ..Shaken::default() };
        let (mut sum, mut other) = (None, Handshakes::default());
        other.note(1000, Some(&shaken(false)), Some(100));
        Handshakes::join(&mut sum, Some(other.clone()));
        other.note(2000, Some(&shaken(true)), Some(50));
        Handshakes::join(&mut sum, Some(other));
        Handshakes::join(&mut sum, None);
        let sum = sum.unwrap();
        assert_eq!((sum.full, sum.resumed, sum.streams), (2, 1, Some(50)));
        assert_eq!((sum.version.as_str(), sum.connect.total(), sum.handshake.total()), ("TLS 1.3", 3, 3));
        let read: Handshakes = serde_json::from_str(&serde_json::to_string(&sum).unwrap()).unwrap();
        assert_eq!(read, sum);
    }
}
