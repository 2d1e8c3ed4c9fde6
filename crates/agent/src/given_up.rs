//! Messages that were given up for lost: what answers one of them comes late; any other answer to an older message is there
//! for the second time.

use msgpath_core::Delivery;

/// The messages that were given up last, by connection and sequence number. None is known twice.
#[derive(Debug)]
pub(crate) struct GivenUp {
    messages: Vec<(usize, u64)>,
    room: usize,
    oldest: usize,
}

impl GivenUp {
    /// Room for so many: those that were given up before them do not come any more.
    pub(crate) fn new(room: usize) -> Self {
        // Memory is taken with the first: most of ten thousand connections lose nothing.
        Self { messages: Vec::new(), room, oldest: 0 }
    }

    /// This message is given up.
    #[cold]
    pub(crate) fn add(&mut self, message: (usize, u64)) {
        self.messages.reserve_exact(self.room - self.messages.len());
        if self.messages.len() < self.room {
            self.messages.push(message);
        } else {
            self.messages[self.oldest] = message;
            self.oldest = (self.oldest + 1) % self.room;
        }
    }

    /// Counts an answer to a message that is not waited for any more.
    #[cold]
    pub(crate) fn count(&mut self, message: (usize, u64), delivery: &mut Delivery) {
        match self.messages.iter().position(|given_up| *given_up == message) {
            Some(at) => {
                self.messages.swap_remove(at);
                self.oldest = 0;
                delivery.late += 1;
            }
            None => delivery.duplicated += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_answer_to_what_was_given_up_is_late() {
        let (mut given_up, mut delivery) = (GivenUp::new(2), Delivery::default());
        given_up.count((0, 7), &mut delivery);
        assert_eq!((delivery.late, delivery.duplicated), (0, 1), "it was answered before");
        given_up.add((0, 8));
        given_up.count((1, 8), &mut delivery);
        assert_eq!((delivery.late, delivery.duplicated), (0, 2), "another connection");
        given_up.count((0, 8), &mut delivery);
        given_up.count((0, 8), &mut delivery);
        assert_eq!((delivery.late, delivery.duplicated), (1, 3));
        for number in 10..15 {
            given_up.add((0, number));
        }
        given_up.count((0, 14), &mut delivery);
        given_up.count((0, 13), &mut delivery);
        assert_eq!(delivery.late, 3, "the last two are known");
    }
}
