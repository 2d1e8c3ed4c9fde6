//! Throughput of a stream's round: how many bytes in which time (docs/method/rounds.md#throughput).

use crate::plan::Plan;
use crate::schema::{EndReport, RoundRecord};

/// Where the two clocks differ by more than this, a round is a bound.
const AGREE: f64 = 1.05;

/// A steady round lasts so many times as long as its last byte needs.
const TIMES_THE_BUFFERS: u64 = 2;

/// What a round of a stream carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Payload bytes.
    pub bytes: u64,
    /// The messages that they are.
    pub messages: u64,
    /// The time that they took, ns.
    pub ns: u64,
    /// The buffers between the ends swallowed so much of it that the path may be faster: the rate is a lower bound.
    pub at_least: bool,
}

impl Carried {
    /// By the reports of both ends.
    ///
    /// The receiver's clock begins when it begins to read. By then buffers may hold bytes that it then receives in no time. They
    /// cannot where the sender had been sending for longer than the last byte needs to come through, and the measured part is some
    /// times that long: then what lay in the buffers at its begin lies in them at its end too, or is little of it. Else the time is that from the first byte
    /// sent to the acknowledgement of the last, on the sender's clock; where nothing is acknowledged, at least as
    /// long as the sender sent.
    pub fn of(plan: &Plan, round: &RoundRecord) -> Self {
        let (sender, receiver) = match plan.reverse {
            true => (round.far(), round.near()),
            false => (round.near(), round.far()),
        };
        Self::between(sender, receiver)
    }

    fn between(sender: &EndReport, receiver: &EndReport) -> Self {
        let (bytes, messages) =
            (receiver.bytes_received, receiver.delivery.received - receiver.untimed.min(receiver.delivery.received));
        let handing_over = sender.elapsed_ns.saturating_sub(sender.drain_ns);
        let ran_before = sender.trimmed_ns > 0 && sender.trimmed_ns >= sender.drain_ns;
        if (ran_before && handing_over >= TIMES_THE_BUFFERS * sender.drain_ns)
            || receiver.elapsed_ns >= sender.elapsed_ns
        {
            return Self { bytes, messages, ns: receiver.elapsed_ns, at_least: false };
        }
        let at_least = sender.elapsed_ns as f64 > AGREE * receiver.elapsed_ns as f64;
        // From the first byte on all of them count.
        let whole = receiver.delivery.received;
        let all = if messages == 0 { bytes } else { (bytes as u128 * whole as u128 / messages as u128) as u64 };
        Self { bytes: all, messages: whole, ns: sender.elapsed_ns, at_least }
    }

    /// Bits a second; `None`: nothing came, or in no time.
    pub fn bits_per_s(&self) -> Option<f64> {
        self.per_second(self.bytes as f64 * 8.0)
    }

    /// Messages a second; `None` as for bits.
    pub fn messages_per_s(&self) -> Option<f64> {
        self.per_second(self.messages as f64)
    }

    fn per_second(&self, count: f64) -> Option<f64> {
        (self.ns > 0 && count > 0.0).then(|| count * 1e9 / self.ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Delivery;

    const SIZE: u64 = 1_000;

    fn ends(sender_ns: u64, receiver_ns: u64) -> (EndReport, EndReport) {
        let delivery = Delivery { sent: 100, received: 100, ..Delivery::default() };
        let sender = EndReport { elapsed_ns: sender_ns, bytes_sent: 100 * SIZE, delivery, ..EndReport::default() };
        let receiver =
            EndReport { elapsed_ns: receiver_ns, bytes_received: 100 * SIZE, delivery, ..EndReport::default() };
        (sender, receiver)
    }

    #[test]
    fn what_the_buffers_swallowed_is_a_bound_on_the_senders_clock() {
        // 100 messages were in the buffers when the receiver began: 8 µs of reading for 135 µs of sending.
        let (sender, mut receiver) = ends(135_000, 8_000);
        let carried = Carried::between(&sender, &receiver);
        assert_eq!(carried, Carried { bytes: 100_000, messages: 100, ns: 135_000, at_least: true });
        // The message that started the receiver's clock was sent in that time as well.
        (receiver.untimed, receiver.bytes_received) = (1, 99 * SIZE);
        assert_eq!(Carried::between(&sender, &receiver), carried);
        // Long rounds: both clocks agree.
        let (sender, receiver) = ends(10_200_000, 10_000_000);
        assert!(!Carried::between(&sender, &receiver).at_least);
    }

    #[test]
    fn a_steady_round_has_the_receivers_clock_however_much_is_in_the_buffers() {
        // A slow link with a deep buffer: the last byte needs 300 ms, and the sender had sent for 500 before.
        let (mut sender, receiver) = ends(1_300_000_000, 1_000_000_000);
        (sender.trimmed_ns, sender.drain_ns) = (500_000_000, 300_000_000);
        let carried = Carried::between(&sender, &receiver);
        assert_eq!((carried.ns, carried.at_least), (1_000_000_000, false));
        sender.trimmed_ns = 100_000_000;
        assert_eq!(Carried::between(&sender, &receiver).ns, 1_300_000_000);
        // Ends that share a CPU: all of the round is in the buffers when the receiver gets its turn.
        let (mut sender, receiver) = ends(400_000, 100_000);
        (sender.trimmed_ns, sender.drain_ns) = (4_000_000, 300_000);
        assert!(Carried::between(&sender, &receiver).at_least);
    }

    #[test]
    fn nothing_is_no_rate() {
        assert_eq!(Carried::default().bits_per_s(), None);
        let (sender, receiver) = ends(1_000, 2_000);
        let carried = Carried::between(&sender, &receiver);
        assert!((carried.bits_per_s().unwrap() / 4e11 - 1.0).abs() < 1e-9);
        assert!((carried.messages_per_s().unwrap() / 5e7 - 1.0).abs() < 1e-9);
    }
}
