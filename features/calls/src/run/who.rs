//! Which servers at a port calls measure, and the lab's ping, by which its servers are known.

use msgpath_rpc::{Header, Marker, Method, RPC_HEADER_BYTES};
use msgpath_run::who::{Measures, Ping, Who};

/// Who answers a ping of the lab.
const LAB: &str = "an RPC server of the lab";

pub static MEASURES: Measures = Measures { verb, ping: Some(Ping { who: LAB, message: ping, answered }) };

fn verb(who: &Who, host: &str, port: u16) -> Option<String> {
    let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    match who {
        Who::Pinged(LAB) => Some(format!("rpc {place} -k 1000 ping")),
        Who::Http => Some(format!("rpc http://{place}/ -k 1000 GET")),
        Who::Redis => Some(format!("rpc redis://{place} -k 1000 PING")),
        _ => None,
    }
}

fn ping() -> Vec<u8> {
    let header = Header { rpcid: 1, method: Method::new("ping"), ..Header::default() };
    let marker = Marker { header: RPC_HEADER_BYTES as u32, body: 0 };
    [&marker.to_bytes()[..], &header.to_bytes()].concat()
}

fn answered(heard: &[u8]) -> bool {
    heard.first_chunk().is_some_and(|marker| Marker::parse(marker).is_ok())
}
