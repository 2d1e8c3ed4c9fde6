//! When a sender of an open loop may go on, and why it was late: of messages and of calls alike.

use std::io;

use msgpath_core::schema::OpenRound;
use msgpath_sys::schedstat::RunDelay;
use msgpath_sys::{clock, timer, usage};

use crate::lateness::{Account, Reading};

/// A sender alone on its CPU wakes this long before a message is due and spins.
const SPIN_ALONE_NS: u64 = 80_000;
/// One that shares its CPU with the receiver, and yields while it spins.
const SPIN_SHARED_NS: u64 = 10_000;
/// A shorter sleep is not worth it.
const LEAST_SLEEP_NS: u64 = 5_000;
/// Between two looks at whether the round was given up.
const SLICE_NS: u64 = 250_000_000;
/// With so much time left before a message is due, the thread's times are read anew.
const CALM_NS: u64 = 50_000;
/// A late sender reads its times at most this often.
const READ_EVERY_NS: u64 = 100_000;
/// Within the clock's own cost a send is on time.
const ON_TIME_NS: u64 = 200;

/// The clock work of the calling thread.
pub struct Pacer {
    account: Account,
    run_delay: Option<RunDelay>,
    /// The sender has no CPU of its own.
    shares_cpu: bool,
    spun_ns: u64,
}

impl Pacer {
    /// For the calling thread, whose timer slack it sets to 1 ns.
    pub fn of_this_thread(shares_cpu: bool) -> Self {
        let _ = timer::set_timer_slack(1);
        let account = Account::new(Reading::default());
        let mut pacer = Self { account, run_delay: RunDelay::open().ok(), shares_cpu, spun_ns: 0 };
        pacer.account = Account::new(pacer.reading());
        pacer
    }

    /// A schedule that began at `since` is behind by `ns` when the round begins: the far end has held it up before.
    pub fn owes(&mut self, since: u64, ns: u64) {
        self.account.owes(since, ns);
    }

    /// What was noted so far is forgotten; the debt is not.
    pub fn forget(&mut self) {
        self.spun_ns = 0;
        self.account.forget();
    }

    #[cold]
    fn reading(&self) -> Reading {
        let run_delay = self.run_delay.as_ref().and_then(|delay| delay.ns().ok()).unwrap_or(0);
        let usage = usage::thread();
        Reading { now: clock::now(), cpu: usage.user_ns + usage.system_ns, run_delay }
    }

    /// Sleeps, then spins, until `due`. Returns the time: just before the send. `look` is asked now and then whether the
    /// round was given up.
    ///
    /// # Errors
    /// As `look`.
    #[inline(always)]
    pub fn wait_until(&mut self, due: u64, look: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
        let now = clock::now();
        if now >= due { Ok(now) } else { self.wait(due, now, look) }
    }

    #[inline(never)]
    fn wait(&mut self, due: u64, mut now: u64, mut look: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
        let spin_ns = if self.shares_cpu { SPIN_SHARED_NS } else { SPIN_ALONE_NS };
        if due - now > CALM_NS {
            let reading = self.reading();
            self.account.read(reading);
            now = clock::now();
        }
        while due > now + spin_ns + LEAST_SLEEP_NS {
            let until = (due - spin_ns).min(now + SLICE_NS);
            self.account.sleeps(until - now);
            timer::sleep_until(until)?;
            look()?;
            now = clock::now();
        }
        let begin = now;
        while now < due {
            if self.shares_cpu {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
            now = clock::now();
        }
        self.spun_ns += now - begin;
        Ok(now)
    }

    /// One look of an event loop that has nothing to send until `due`. `wait` gets how long it may sleep, ns; near the time
    /// that is 0, so that the loop spins.
    ///
    /// # Errors
    /// As `wait`.
    #[inline(always)]
    pub fn look(&mut self, due: u64, wait: impl FnOnce(u64) -> io::Result<()>) -> io::Result<()> {
        let now = clock::now();
        let left = due.saturating_sub(now);
        let spin_ns = if self.shares_cpu { SPIN_SHARED_NS } else { SPIN_ALONE_NS };
        if left > spin_ns + LEAST_SLEEP_NS {
            if now - self.account.read_at() > READ_EVERY_NS {
                let reading = self.reading();
                self.account.read(reading);
            }
            let begin = clock::now();
            wait((left - spin_ns).min(SLICE_NS))?;
            self.account.sleeps(clock::now() - begin);
            return Ok(());
        }
        if self.shares_cpu {
            std::thread::yield_now();
        }
        wait(0)?;
        self.spun_ns += clock::now() - now;
        Ok(())
    }

    /// What was due at `due` went at `now`, which is not before.
    #[inline(always)]
    pub fn sent(&mut self, due: u64, now: u64) {
        if now - due > ON_TIME_NS && now - self.account.read_at() > READ_EVERY_NS {
            let reading = self.reading();
            self.account.read(reading);
        }
        self.account.send(due, now);
    }

    /// What all its sends have owed, and how long it spun: put into the account of a round.
    pub fn finish(self, round: &mut OpenRound) {
        let paid = self.account.paid;
        round.blocked_ns = paid.blocked as u64;
        round.not_running_ns = paid.not_running as u64;
        round.own_ns = paid.own as u64;
        round.spun_ns = self.spun_ns;
    }
}
