//! Why a sender of an open loop is late (docs/method/open-loop.md#lateness-and-its-causes): the far end held it up, it
//! was not running, or it is slow.
//!
//! Lateness is a debt: what one send owes is carried over to the next, less the gap between them. The account knows
//! what the debt is made of. Growth is divided by what the thread did meanwhile: waiting for a CPU (run delay),
//! working, or neither, which inside a send call is waiting for the far end to make room.

/// What a thread has done since it started, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic clock.
    pub now: u64,
    /// CPU time.
    pub cpu: u64,
    /// Time runnable and not running; 0 where the kernel does not tell.
    pub run_delay: u64,
}

/// Lateness in its three parts, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Parts {
    /// The far end held the sender up.
    pub blocked: f64,
    /// The sender was runnable and not running.
    pub not_running: f64,
    /// The sender's own.
    pub own: f64,
}

impl Parts {
    fn total(&self) -> f64 {
        self.blocked + self.not_running + self.own
    }

    fn scaled(self, factor: f64) -> Self {
        Self { blocked: self.blocked * factor, not_running: self.not_running * factor, own: self.own * factor }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            blocked: self.blocked + other.blocked,
            not_running: self.not_running + other.not_running,
            own: self.own + other.own,
        }
    }
}

/// The debt of one sender, and what all its sends have owed.
#[derive(Debug)]
pub struct Account {
    last: Reading,
    /// Time slept on purpose since the last reading, ns.
    slept: u64,
    /// What growth is made of, as the last readings showed: parts of 1.
    shares: Parts,
    debt: Parts,
    /// Sums over all sends.
    pub paid: Parts,
    /// Intended time of the last send.
    intended: u64,
}

impl Account {
    /// An account that begins on time.
    pub fn new(reading: Reading) -> Self {
        let own = Parts { own: 1.0, ..Parts::default() };
        Self { last: reading, slept: 0, shares: own, debt: Parts::default(), paid: Parts::default(), intended: 0 }
    }

    /// What is due from `since` on is late by `ns`, held up by the far end.
    pub fn owes(&mut self, since: u64, ns: u64) {
        (self.intended, self.debt) = (since, Parts { blocked: ns as f64, ..Parts::default() });
    }

    /// The sender is going to sleep on purpose for this long, ns.
    #[inline(always)]
    pub fn sleeps(&mut self, ns: u64) {
        self.slept += ns;
    }

    /// When the last reading was taken, ns of the monotonic clock.
    #[inline(always)]
    pub fn read_at(&self) -> u64 {
        self.last.now
    }

    /// Takes a new reading: growth from now on is divided by what happened since the last one.
    pub fn read(&mut self, reading: Reading) {
        let since = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let wall = since(reading.now, self.last.now);
        let not_running = since(reading.run_delay, self.last.run_delay).min(wall);
        let working = since(reading.cpu, self.last.cpu).min(wall - not_running);
        // Sleep on purpose ends before a message is due; what is neither that nor work is waiting inside a call.
        let blocked = (wall - not_running - working - self.slept as f64).max(0.0);
        let (last, total) = (reading, blocked + not_running + working);
        if total > 0.0 {
            self.shares = Parts { blocked, not_running, own: working }.scaled(1.0 / total);
        }
        (self.last, self.slept) = (last, 0);
    }

    /// Forgets what was paid so far.
    pub fn forget(&mut self) {
        self.paid = Parts::default();
    }

    /// A message that was due at `intended` goes at `sent`.
    #[inline(always)]
    pub fn send(&mut self, intended: u64, sent: u64) {
        let late = sent.saturating_sub(intended) as f64;
        let gap = intended.saturating_sub(self.intended) as f64;
        self.intended = intended;
        let owed = self.debt.total();
        let carried = (owed - gap).clamp(0.0, late);
        self.debt = if owed > 0.0 { self.debt.scaled(carried / owed) } else { Parts::default() };
        self.debt = self.debt.plus(self.shares.scaled(late - carried));
        self.paid = self.paid.plus(self.debt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: Parts, b: Parts) {
        for (a, b) in [(a.blocked, b.blocked), (a.not_running, b.not_running), (a.own, b.own)] {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn a_sender_on_time_owes_nothing() {
        let mut account = Account::new(Reading::default());
        (1..100).for_each(|at| account.send(at * 1_000, at * 1_000));
        near(account.paid, Parts::default());
    }

    #[test]
    fn a_blocked_sender_pays_its_debt_off_over_the_next_sends() {
        let mut account = Account::new(Reading { now: 1_000, cpu: 0, run_delay: 0 });
        account.send(1_000, 1_000);
        // The send call took 3,500 ns, of which 700 were work: the next three messages are late.
        account.read(Reading { now: 4_500, cpu: 700, run_delay: 0 });
        account.send(2_000, 4_500);
        account.send(3_000, 4_500);
        account.send(4_000, 4_500);
        account.send(5_000, 5_000);
        let owed = 2_500.0 + 1_500.0 + 500.0;
        near(account.paid, Parts { blocked: 0.8 * owed, not_running: 0.0, own: 0.2 * owed });
    }

    #[test]
    fn readings_tell_what_growth_is_made_of() {
        let mut account = Account::new(Reading::default());
        account.sleeps(600);
        account.read(Reading { now: 1_000, cpu: 100, run_delay: 300 });
        account.send(500, 1_000);
        near(account.paid, Parts { blocked: 0.0, not_running: 375.0, own: 125.0 });
        account.read(Reading { now: 2_000, cpu: 200, run_delay: 300 });
        account.send(10_000, 12_000);
        near(account.paid, Parts { blocked: 1_800.0, not_running: 375.0, own: 325.0 });
    }

    #[test]
    fn parts_always_add_up_to_the_lateness() {
        let mut random = msgpath_core::shuffle::SplitMix64::new(5);
        let (mut account, mut reading, mut intended, mut free, mut lateness) =
            (Account::new(Reading::default()), Reading::default(), 0, 0, 0.0);
        for _ in 0..10_000 {
            intended += random.below(2_000) as u64;
            let sent = intended.max(free);
            free = sent + random.below(2_500) as u64;
            if random.below(3) == 0 {
                reading.now = sent;
                reading.cpu += random.below(900) as u64;
                reading.run_delay += random.below(500) as u64;
                account.read(reading);
            }
            account.send(intended, sent);
            lateness += (sent - intended) as f64;
        }
        assert!((account.paid.total() - lateness).abs() < 1.0);
    }
}
