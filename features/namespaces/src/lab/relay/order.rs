//! What a relay is told: one line of JSON each, answered by one line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::lab::Shape;

/// Bytes of orders that are not yet a line.
const MOST: usize = 64 << 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Moves to a namespace, or into a new one. `parent`: ends with that process.
    Enter { namespace: Option<PathBuf>, parent: Option<u32> },
    /// Opens `port0` and those after it.
    Ports { count: u32, mtu: Option<u32> },
    /// What becomes of frames from now on.
    Shape { shape: Shape, seed: u64 },
    /// Says what has become of them.
    Count,
    /// Lives on when its maker has ended; says its counts to who connects to this socket.
    Stay { socket: PathBuf },
}

/// Orders as they come in, in pieces.
#[derive(Default)]
pub struct Orders {
    text: Vec<u8>,
}

impl Orders {
    /// Takes what was read; `false`: it is more than orders have.
    pub fn push(&mut self, part: &[u8]) -> bool {
        self.text.extend_from_slice(part);
        self.text.len() <= MOST
    }

    /// The next whole line, as an order or as what is wrong with it.
    pub fn next(&mut self) -> Option<Result<Order, String>> {
        let end = self.text.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.text.drain(..=end).collect();
        Some(serde_json::from_slice(&line).map_err(|error| error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_line_by_line_however_they_arrive() {
        let mut orders = Orders::default();
        for byte in b"\"Count\"\n{\"Ports\":{\"count\":2,\"mtu\":null}}\nnothing\n" {
            assert!(orders.push(&[*byte]));
        }
        assert!(matches!(orders.next(), Some(Ok(Order::Count))));
        assert!(matches!(orders.next(), Some(Ok(Order::Ports { count: 2, mtu: None }))));
        assert!(matches!(orders.next(), Some(Err(_))) && orders.next().is_none());
        assert!(!orders.push(&[b'x'; MOST + 1]));
    }
}
