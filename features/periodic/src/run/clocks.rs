//! The clocks of receivers on other hosts: read over their control channels before and after a session, so that the times of their messages
//! are brought onto the clock of this machine, which is the sender's (docs/method/clocks.md#two-machines).

use std::time::{Duration, Instant};

use msgpath_agent::environment;
use msgpath_analyse::clocks::{self, ClockPiece, Envelope, Found, KEPT, Stamps, allowance};
use msgpath_core::{Exit, Problem};
use msgpath_run::{Link, had, out_of_turn};
use msgpath_sys::clock;

use super::collected::Collected;
use crate::agent::orders::{FromProcess, ROLE, ToProcess};
use crate::record::OtherClock;

/// How often each clock is read before a session, and after it.
const READINGS: usize = 100;
/// So often at least, however long it takes.
const LEAST: usize = 8;
/// For how long all of them are read.
const LENGTH: Duration = Duration::from_secs(2);
/// The steps of both clocks together, ns, more than that of any that counts finely enough for this.
const STEPS: u64 = 1_000;

/// What is known of the clocks of all processes.
pub(super) struct Clocks {
    /// Zero of the times in the envelopes, ns of this clock.
    began: u64,
    /// By process; `None`: it reads this machine's clock.
    others: Vec<Option<Envelope>>,
}

impl Clocks {
    /// None of them is read yet.
    pub(super) fn of(links: &[Link], on_hosts: bool) -> Self {
        let own = on_hosts.then(environment::read);
        // A process that was started here was not asked what machine it is on.
        let elsewhere =
            |(at, link): (usize, &Link)| own.as_ref().is_some_and(|own| at > 0 && !link.environment.shares_clock(own));
        let envelope = |one| elsewhere(one).then(|| Envelope::new(allowance(STEPS), KEPT));
        Self { began: clock::now(), others: links.iter().enumerate().map(envelope).collect() }
    }

    /// Reads the clock of each, in turn.
    ///
    /// # Errors
    /// A process is gone.
    pub(super) fn read(&mut self, links: &mut [Link], names: &[String]) -> Result<(), Problem> {
        if self.others.iter().all(Option::is_none) {
            return Ok(());
        }
        let until = Instant::now() + LENGTH;
        for nth in 0..READINGS {
            if nth >= LEAST && Instant::now() > until {
                break;
            }
            for (at, link) in links.iter_mut().enumerate() {
                let Some(envelope) = &mut self.others[at] else { continue };
                let sent = clock::now();
                link.order(ROLE, &ToProcess::Clock)?;
                let said = had(link.answer()?.0, &names[at])?;
                let back = clock::now();
                let Ok(FromProcess::Clock { asked_ns, answered_ns }) = said.of_role() else {
                    return Err(out_of_turn());
                };
                envelope.add(Some(Stamps {
                    start_ns: sent.saturating_sub(self.began),
                    latency_ns: back.saturating_sub(sent),
                    received_ns: asked_ns.wrapping_sub(sent).cast_signed(),
                    replied_ns: answered_ns.wrapping_sub(sent).cast_signed(),
                }));
            }
        }
        Ok(())
    }

    /// Brings the times of a process's components onto this machine's clock.
    ///
    /// # Errors
    /// E05: what was read of its clock fits no line.
    pub(super) fn onto_this(&self, at: usize, name: &str, all_collected: &mut [Collected]) -> Result<(), Problem> {
        let Some(envelope) = self.others.get(at).and_then(Option::as_ref) else { return Ok(()) };
        let Found { pieces, text, .. } = envelope.align("reading of the clock");
        if pieces.is_empty() {
            let what = format!("how long messages took to the {name} is not known: its clock and this one fit no line");
            return Err(Problem::new("E05", Exit::CannotStart, what).why(text).hint("the same once more"));
        }
        all_collected.iter_mut().for_each(|one| moved(one, &pieces, self.began));
        Ok(())
    }
}

/// Moves what a component received onto the clock by which it was made.
fn moved(collected: &mut Collected, pieces: &[ClockPiece], began: u64) {
    let ahead = |made: u64| {
        let since = made.saturating_sub(began);
        clocks::at(pieces, since).map_or(0, |piece| piece.theta(since).round() as i64)
    };
    for row in &mut collected.received {
        let ahead = ahead(row.made);
        row.received = row.received.saturating_add_signed(ahead);
        row.delivered = row.delivered.saturating_add_signed(ahead);
    }
    let component = &mut collected.report.component;
    component.spawned_ns = began;
    component.ready_ns = component.ready_ns.saturating_add_signed(ahead(began)).max(began);
    if let Some(joined) = &mut component.joined {
        let within = pieces.iter().map(|piece| piece.within_ns).fold(0.0, f64::max);
        joined.clock = Some(OtherClock { offset_ns: ahead(began), within_ns: within.ceil() as u64 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::orders::{ReceivedRow, Report};
    use crate::record::{Component, JoinedGroup};

    #[test]
    fn times_of_a_clock_that_is_ahead_and_runs_faster_are_moved_onto_this_one() {
        // It is a day ahead and gains 50 ns a ms; a reading takes 20 µs there, 30 µs back.
        let theirs = |own: u64| 86_400_000_000_000 + own + own / 20_000;
        let mut envelope = Envelope::new(allowance(0), KEPT);
        for at in (0..100).chain(10_000..10_100).map(|ms| ms * 1_000_000) {
            let stamp = |own: u64| i64::try_from(theirs(own) - at).unwrap();
            let (received_ns, replied_ns) = (stamp(at + 20_000), stamp(at + 21_000));
            envelope.add(Some(Stamps { start_ns: at, latency_ns: 51_000, received_ns, replied_ns }));
        }
        let began = 7_000_000_000;
        let pieces = envelope.align("reading").pieces;
        assert_eq!(pieces.len(), 1);
        let row = |made: u64, took: u64| ReceivedRow {
            made: began + made,
            received: began + theirs(made + took),
            delivered: began + theirs(made + took) + 100,
            ..ReceivedRow::default()
        };
        let joined = Some(JoinedGroup::default());
        let component = Component { joined, ready_ns: began + theirs(0), ..Component::default() };
        let mut one = Collected {
            report: Report { component, ..Report::default() },
            sent: Vec::new(),
            received: vec![row(200_000_000, 40_000), row(9_000_000_000, 90_000)],
        };
        moved(&mut one, &pieces, began);
        let clock = one.report.component.joined.unwrap().clock.unwrap();
        assert!((20_000..30_000).contains(&clock.within_ns), "{clock:?}");
        assert!((clock.offset_ns + 86_400_000_000_000).unsigned_abs() <= clock.within_ns, "{clock:?}");
        for (row, took) in one.received.iter().zip([40_000, 90_000]) {
            assert_eq!(row.delivered - row.received, 100);
            let read = row.received as i64 - row.made as i64;
            assert!((read - took).unsigned_abs() <= clock.within_ns, "{read} ns for {took}, {clock:?}");
        }
    }
}
