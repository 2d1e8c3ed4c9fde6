//! What helpers of a run are told and answer: processes of `periodic`, the end that calls a server, and the relay of a lab with
//! its queue of frames.
#![no_main]

use lab::Shape;
use lab::relay::order::{Order, Orders};
use lab::relay::pass;
use libfuzzer_sys::fuzz_target;
use periodic::orders::{FromProcess, ReceivedRow, SentRow, ToProcess};
use rpc::client::orders::{Batch, CallOrder, Called};
use serde::Serialize;
use serde::de::DeserializeOwned;

// Features name its modules by the crate that they are of.
extern crate self as msgpath_agent;

// The modules alone, as in `wire`.
#[allow(dead_code)]
#[path = "../../crates/agent/src/failure.rs"]
mod failure;
#[allow(dead_code)]
mod lab;
#[allow(dead_code)]
mod periodic;
#[allow(dead_code)]
mod rpc;
#[allow(dead_code)]
#[path = "../../crates/agent/src/seal.rs"]
mod seal;
#[allow(dead_code)]
#[path = "../../crates/agent/src/wire.rs"]
mod wire;

// What their rows are.
mod record {
    pub use msgpath_calls::record::{Handshakes, RpcRemark, RpcRow};
    pub use msgpath_periodic::record::Component;
}

/// What is accepted is written again as the same message.
fn message<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
    let message: T = serde_json::from_slice(bytes).ok()?;
    let again = serde_json::to_vec(&message).expect("what was read can be written");
    assert_eq!(serde_json::from_slice::<T>(&again).expect("what was written can be read"), message);
    Some(message)
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(ToProcess::Order(order)) = message(bytes) {
        for number in [0, 1, order.first, order.messages, u64::MAX] {
            assert!(order.slice(number) <= order.slices);
        }
    }
    let _ = message::<FromProcess>(bytes);
    for row in bytes.chunks(32) {
        let (sent, received) = (SentRow::read(row), ReceivedRow::read(row));
        assert_eq!(SentRow::read(&sent.bytes().collect::<Vec<_>>()), sent);
        assert_eq!(ReceivedRow::read(&received.bytes().collect::<Vec<_>>()), received);
    }
    let _ = (message::<CallOrder>(bytes), message::<Called>(bytes));
    // Rows and records of as many calls as there are bytes for, and what is said of them by others.
    let (rows, records) = ((bytes.len() / 512) as u32, (bytes.len() / 1024) as u32);
    for batch in [Batch { rows, records, ..Batch::default() }, Batch { rows: u32::MAX, ..Batch::default() }] {
        let whole = rows as usize * 120 + records as usize * 192;
        if let Some((rows, records)) = batch.read(&bytes[..whole.min(bytes.len())]) {
            let again = Batch::all(&rows, &records, &[]);
            let again: Vec<_> = again.map(|(batch, bytes)| batch.read(&bytes).expect("what it says")).collect();
            assert!(again.iter().flat_map(|(rows, _)| rows).eq(&rows));
            assert!(again.iter().flat_map(|(_, records)| records).eq(&records));
        }
    }
    let mut orders = Orders::default();
    for part in bytes.chunks(40) {
        if !orders.push(part) {
            break;
        }
        while let Some(order) = orders.next() {
            if let Ok(Order::Shape { shape, .. }) = order {
                pass(shape, bytes);
            }
        }
    }
    if let Some(shape) = std::str::from_utf8(bytes).ok().and_then(|text| Shape::parse(text).ok()) {
        pass(shape, bytes);
    }
});
