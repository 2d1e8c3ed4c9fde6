//! When a sender of an open loop may go on, and why it was late.

use std::fs::File;
use std::os::unix::fs::FileExt;

use msgpath_core::schema::OpenRound;
use msgpath_sys::{clock, timer, usage};

use crate::lateness::{Account, Reading};

/// A sender wakes this long before a call is due, and yields until then, ns.
const SPIN_NS: u64 = 10_000;
/// A shorter sleep is not worth it, ns.
const LEAST_SLEEP_NS: u64 = 5_000;
/// Between two looks at whether the round was given up, ns.
const SLICE_NS: u64 = 100_000_000;
/// With so much time left before a call is due, the thread's times are read anew, ns.
const CALM_NS: u64 = 50_000;
/// A late sender reads its times at most this often, ns.
const READ_EVERY_NS: u64 = 100_000;
/// Within the clock's own cost a send is on time, ns.
const ON_TIME_NS: u64 = 200;

/// The clock work of the calling thread.
pub struct Pacer {
    account: Account,
    schedstat: Option<File>,
    spun_ns: u64,
}

impl Pacer {
    /// For the calling thread, whose timer slack it sets to 1 ns.
    pub fn new() -> Self {
        let _ = timer::set_timer_slack(1);
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut pacer = Self { account: Account::new(Reading::default()), schedstat, spun_ns: 0 };
        pacer.account = Account::new(pacer.reading());
        pacer
    }

    #[cold]
    fn reading(&self) -> Reading {
        let mut text = [0; 64];
        let length = self.schedstat.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&text[..length]).unwrap_or("");
        let run_delay = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
        let usage = usage::thread();
        Reading { now: clock::now(), cpu: usage.user_ns + usage.system_ns, run_delay }
    }

    /// Sleeps, then yields, until `due` (ns), or until it is given up.
    pub fn wait_until(&mut self, due: u64, given_up: impl Fn() -> bool) {
        let mut now = clock::now();
        if now >= due {
            return;
        }
        if due - now > CALM_NS {
            let reading = self.reading();
            self.account.read(reading);
            now = clock::now();
        }
        while due > now + SPIN_NS + LEAST_SLEEP_NS && !given_up() {
            let until = (due - SPIN_NS).min(now + SLICE_NS);
            self.account.sleeps(until - now);
            let _ = timer::sleep_until(until);
            now = clock::now();
        }
        let begin = now;
        while now < due && now - begin <= 2 * SPIN_NS {
            std::thread::yield_now();
            now = clock::now();
        }
        self.spun_ns += now - begin;
    }

    /// A call that was due at `due` went at `now`.
    pub fn sent(&mut self, due: u64, now: u64) {
        if now.saturating_sub(due) > ON_TIME_NS && now.saturating_sub(self.account.read_at()) > READ_EVERY_NS {
            let reading = self.reading();
            self.account.read(reading);
        }
        self.account.send(due, now);
    }

    /// What all its sends have owed.
    pub fn finish(self, round: &mut OpenRound) {
        let paid = self.account.paid;
        round.blocked_ns = paid.blocked as u64;
        round.not_running_ns = paid.not_running as u64;
        round.own_ns = paid.own as u64;
        round.spun_ns = self.spun_ns;
    }
}
