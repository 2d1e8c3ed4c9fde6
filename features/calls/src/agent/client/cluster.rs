//! The nodes of a Redis cluster: which of them has the slot of a key. They are those that the first server lists before the first call;
//! no address that a reply names later is opened.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use msgpath_core::foreign::shown_bytes;
use msgpath_rpc::resp;
use resp_rs::resp3::{Frame as Value, parse_frame};

use super::redis::array;

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// Nodes that are called, at most.
pub const MOST_NODES: usize = 64;
/// Bytes of the longest list of slots.
pub const MOST_LIST: usize = 1 << 20;

/// Which node has a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// The first one is the server that was named.
    nodes: Vec<SocketAddr>,
    /// Of each slot the position of its node.
    slots: Vec<u16>,
}

/// Where a reply sends a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The position of the node.
    pub node: usize,
    /// For this call only, behind ASKING.
    pub asking: bool,
}

/// Asks for the slots.
pub fn question() -> Vec<u8> {
    array(&["CLUSTER", "SLOTS"])
}

/// Said in front of a call that a node has for a moment only.
pub fn asking() -> Vec<u8> {
    array(&["ASKING"])
}

impl Cluster {
    /// What the server at `seed` answered to [`question`].
    ///
    /// # Errors
    /// Not a list of slots, or more nodes than are called.
    pub fn of(reply: Bytes, seed: SocketAddr) -> Result<Self, String> {
        let read = parse_frame(reply).map_err(|error| format!("its list of slots cannot be read: {error}"))?;
        let ranges = match read.0 {
            Value::Array(Some(ranges)) => ranges,
            Value::Error(text) | Value::BlobError(text) => return Err(format!("it says: {}", shown_bytes(&text, 160))),
            _ => return Err("its list of slots is none".into()),
        };
        let mut cluster = Self { nodes: vec![seed], slots: vec![0; SLOTS] };
        for range in ranges {
            let (first, last, address) =
                range_of(&range, seed.ip()).ok_or("its list of slots has a range that is none")?;
            let node = match cluster.nodes.iter().position(|node| *node == address) {
                Some(node) => node,
                None if cluster.nodes.len() >= MOST_NODES => {
                    return Err(format!("it has more than {MOST_NODES} nodes"));
                }
                None => {
                    cluster.nodes.push(address);
                    cluster.nodes.len() - 1
                }
            };
            cluster.slots[first..=last].fill(node as u16);
        }
        Ok(cluster)
    }

    /// Its nodes; the first one is the server that was named.
    pub fn nodes(&self) -> &[SocketAddr] {
        &self.nodes
    }

    /// The position of the node that has a key.
    pub fn node_of(&self, key: &[u8]) -> usize {
        if key.is_empty() { 0 } else { self.slots[slot(key)].into() }
    }

    /// Where a reply sends its call, where it does and the node is a known one. A slot that moved is remembered.
    pub fn redirect(&mut self, reply: &[u8]) -> Option<Redirect> {
        let line = std::str::from_utf8(resp::line(reply)?.0).ok()?;
        let words: Vec<&str> = line.split(' ').collect();
        let [word @ ("-MOVED" | "-ASK"), number, to] = words[..] else { return None };
        let node = self.nodes.iter().position(|node| Ok(*node) == to.parse())?;
        let slot = number.parse::<usize>().ok().filter(|slot| *slot < SLOTS)?;
        if word == "-MOVED" {
            self.slots[slot] = node as u16;
        }
        Some(Redirect { node, asking: word == "-ASK" })
    }
}

/// The slot of a key: of what stands between its first braces, where something does (the cluster specification of Redis).
fn slot(key: &[u8]) -> usize {
    let tag = || {
        let begin = key.iter().position(|byte| *byte == b'{')? + 1;
        let length = key[begin..].iter().position(|byte| *byte == b'}').filter(|length| *length > 0)?;
        Some(&key[begin..begin + length])
    };
    // CRC-16 with the polynomial 0x1021, from 0 (XMODEM).
    let crc = tag().unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 })
    });
    usize::from(crc) % SLOTS
}

/// A range of slots, and its master; one that does not know its own address is where the list came from.
fn range_of(range: &Value, seed: IpAddr) -> Option<(usize, usize, SocketAddr)> {
    let [first, last, master, ..] = range.as_array()? else { return None };
    let [ip, port, ..] = master.as_array()? else { return None };
    let ip = match ip.as_bytes().map_or(&b""[..], |ip| ip) {
        b"" | b"?" => seed,
        ip => std::str::from_utf8(ip).ok()?.parse().ok()?,
    };
    let slot = |value: &Value| usize::try_from(value.as_integer()?).ok().filter(|slot| *slot < SLOTS);
    let port = u16::try_from(port.as_integer()?).ok().filter(|port| *port > 0)?;
    let (first, last) = (slot(first)?, slot(last)?);
    (first <= last).then_some((first, last, SocketAddr::new(ip, port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: &str = "10.0.0.1:7000";
    const TWO: &str = "*2\r\n*3\r\n:0\r\n:8191\r\n*4\r\n$8\r\n10.0.0.1\r\n:7000\r\n$2\r\nid\r\n*0\r\n\
        *4\r\n:8192\r\n:16383\r\n*3\r\n$0\r\n\r\n:7001\r\n$2\r\nid\r\n*3\r\n$8\r\n10.0.0.9\r\n:7002\r\n$2\r\nid\r\n";

    fn two() -> Cluster {
        Cluster::of(Bytes::from(TWO), SEED.parse().unwrap()).unwrap()
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        for (key, expected) in
            [("123456789", 0x31c3), ("foo", 12182), ("{user1000}.following", 3443), ("a{}b", slot(b"a{}b"))]
        {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b"{user1000}.followers"), slot(b"user1000"));
    }

    #[test]
    fn a_key_goes_to_the_node_that_has_its_slot() {
        let cluster = two();
        assert_eq!(cluster.nodes(), [SEED.parse().unwrap(), "10.0.0.1:7001".parse::<SocketAddr>().unwrap()]);
        assert_eq!((cluster.node_of(b"foo"), cluster.node_of(b"{user1000}"), cluster.node_of(b"")), (1, 0, 0));
    }

    #[test]
    fn only_nodes_of_the_list_are_followed_to() {
        let mut cluster = two();
        let to = |cluster: &mut Cluster, reply: &str| cluster.redirect(reply.as_bytes());
        assert_eq!(to(&mut cluster, "-ASK 12182 10.0.0.1:7000\r\n"), Some(Redirect { node: 0, asking: true }));
        assert_eq!(cluster.node_of(b"foo"), 1);
        assert_eq!(to(&mut cluster, "-MOVED 12182 10.0.0.1:7000\r\n"), Some(Redirect { node: 0, asking: false }));
        assert_eq!(cluster.node_of(b"foo"), 0);
        for reply in [
            "-MOVED 1 10.0.0.9:22\r\n",
            "-MOVED 1 host:7000\r\n",
            "-MOVED 99999 10.0.0.1:7000\r\n",
            "+OK\r\n",
            "-MOVED\r\n",
            "-ERR x",
        ] {
            assert_eq!(to(&mut cluster, reply), None, "{reply}");
        }
    }

    #[test]
    fn lists_that_are_none_are_refused() {
        let of = |text: &str| Cluster::of(Bytes::copy_from_slice(text.as_bytes()), SEED.parse().unwrap()).unwrap_err();
        assert!(of("-ERR This instance has cluster support disabled\r\n").contains("cluster support disabled"));
        let many: String =
            (0..70).map(|at| format!("*3\r\n:{at}\r\n:{at}\r\n*2\r\n$8\r\n10.0.0.2\r\n:{}\r\n", at + 1)).collect();
        assert!(of(&format!("*70\r\n{many}")).contains("more than 64 nodes"));
        for text in [
            "+OK\r\n",
            "*1\r\n:1\r\n",
            "*9\r\n",
            &TWO.replace(":16383", ":16384"),
            &TWO.replace(":7001", ":0"),
            &"*1\r\n".repeat(50),
        ] {
            of(text);
        }
        of(&TWO.replace("10.0.0.1", "evil.com"));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(prop::sample::select(b"*$:-+0123456789\r\nab".to_vec()), 0..80)) {
            let _ = Cluster::of(Bytes::copy_from_slice(&bytes), SEED.parse().unwrap());
            let _ = two().redirect(&bytes);
        }
    }
}
