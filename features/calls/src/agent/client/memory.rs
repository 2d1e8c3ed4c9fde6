//! What calls take of memory.

use msgpath_rpc::command::Step;

use super::orders::{CallOrder, MOST_CALLS_A_ROUND};
use msgpath_agent::memory::{PER_CONNECTION, PER_THREAD};

/// What a call takes until its round is reported: its row, its record, and what is noted of request and reply.
const PER_CALL: u64 = 1 << 10;
/// What a connection to a server takes of itself: the buffer of its first reply.
const PER_REPLY: u64 = 72 << 10;
/// What TLS takes of a connection, HTTP/2, and each of its streams.
const PER_TLS: u64 = 96 << 10;
const PER_HTTP2: u64 = 256 << 10;
const PER_STREAM: u64 = 2 << 10;

impl CallOrder {
    /// Bytes that this end takes for the longest of its rounds, at least: replies may be longer than what asks for them.
    pub fn memory(&self) -> u64 {
        let body = self.steps.iter().map(Step::body_bytes).max().unwrap_or(0) as u64;
        let calls = self.steps.iter().map(Step::calls).max().unwrap_or(0).min(MOST_CALLS_A_ROUND);
        let tls = if self.tls.is_some() { PER_TLS } else { 0 };
        let http2 = if self.speaks.is_http2() { PER_HTTP2 + PER_STREAM.saturating_mul(self.inflight) } else { 0 };
        let each = PER_CONNECTION.saturating_add(PER_REPLY).saturating_add(body.saturating_mul(2));
        let each = each.saturating_add(tls).saturating_add(http2);
        let connections = each.saturating_mul(u64::from(self.connections));
        connections.saturating_add(PER_THREAD.saturating_mul(u64::from(self.threads))).saturating_add(calls * PER_CALL)
    }
}

#[cfg(test)]
mod tests {
    use super::super::orders::tests::order;
    use super::*;

    #[test]
    fn what_calls_take_is_a_product_as_well() {
        let many = CallOrder { connections: 10_000, threads: 10, ..order("ping -value v 1000000") };
        assert!(many.memory() >= 10_000 * 2_000_000, "each connection has its own buffers: {}", many.memory());
        assert!(order("-k 1000000 -rep 50 ping").memory() < 512 << 20, "a round is bounded");
        assert!(order("ping").memory() < 1 << 20);
    }
}
