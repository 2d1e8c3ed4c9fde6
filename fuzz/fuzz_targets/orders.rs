//! What helpers of a run are told and answer: processes of `periodic`, and the relay of a lab with its queue of frames.
#![no_main]

use lab::Shape;
use lab::relay::order::{Order, Orders};
use lab::relay::pass;
use libfuzzer_sys::fuzz_target;
use periodic::orders::{FromProcess, ReceivedRow, SentRow, ToProcess};
use serde::Serialize;
use serde::de::DeserializeOwned;

// The modules alone, as in `wire`.
#[allow(dead_code)]
mod lab;
#[allow(dead_code)]
mod periodic;
#[allow(dead_code)]
#[path = "../../crates/agent/src/wire.rs"]
mod wire;

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
