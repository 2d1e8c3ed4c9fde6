//! The noise floor (docs/method/doctor.md#noise-floor): gaps in a spinning thread's time, and how late an absolute
//! sleep ends.

use std::sync::atomic::{AtomicBool, Ordering};

use msgpath_core::units::{Glyphs, three_digits};
use msgpath_sys::{affinity, clock, timer};

use super::Context;
use super::verdict::Verdict;
use crate::floors::pinned;

/// A step of the clock larger than this is a gap: the default of rtla-osnoise(1), ns.
const GAP_NS: u64 = 5_000;
/// Lost time that warns: as much as the steal that warns (check 9), %.
const LOST_PERCENT: f64 = 0.5;
/// From fewer gaps than these the share of lost time is not known: a moment's look may see one by chance.
const FEWEST_GAPS: u64 = 3;
/// A single gap that warns, ns: longer than most messages take.
const LARGEST_NS: u64 = 1_000_000;
/// Median lateness that warns, ns: about the slack of a thread that has not asked for less.
const LATE_NS: u64 = 50_000;

/// What a spinning thread saw of its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    pub gaps: u64,
    pub lost_ns: u64,
    pub largest_ns: u64,
    pub span_ns: u64,
}

impl Gaps {
    fn lost_percent(&self) -> f64 {
        100.0 * self.lost_ns as f64 / self.span_ns.max(1) as f64
    }
}

/// Reads the clock until `span_ns` are over, or `stop` is set; a step of more than `gap_ns` is time in which the thread did not
/// run.
pub(super) fn gaps(mut now: impl FnMut() -> u64, span_ns: u64, gap_ns: u64, stop: &AtomicBool) -> Gaps {
    let start = now();
    let (mut last, mut seen) = (start, Gaps::default());
    while seen.span_ns < span_ns && !stop.load(Ordering::Relaxed) {
        let time = now();
        let step = time.saturating_sub(last);
        seen.largest_ns = seen.largest_ns.max(step);
        if step > gap_ns {
            seen.gaps += 1;
            seen.lost_ns += step;
        }
        last = last.max(time);
        seen.span_ns = last - start;
    }
    seen
}

/// Check 10, on all measuring CPUs at once.
pub(super) fn gap_meter(context: &Context) -> Verdict {
    let span = if context.order.full { 1_000_000_000 } else { 20_000_000 };
    let seen: Vec<(u32, Option<Gaps>)> = std::thread::scope(|scope| {
        let spin = |cpu: u32| affinity::pin(&[cpu]).ok().map(|()| gaps(clock::now, span, GAP_NS, context.stop));
        // A CPU whose thread cannot be had is not looked at.
        let start = |cpu: u32| std::thread::Builder::new().spawn_scoped(scope, move || spin(cpu)).ok();
        let threads: Vec<_> = context.cpus.iter().map(|cpu| (*cpu, start(*cpu))).collect();
        threads.into_iter().map(|(cpu, thread)| (cpu, thread.and_then(|thread| thread.join().ok().flatten()))).collect()
    });
    judge_gaps(&seen)
}

fn judge_gaps(seen: &[(u32, Option<Gaps>)]) -> Verdict {
    let measured = seen.iter().filter_map(|(cpu, gaps)| Some((*cpu, (*gaps)?)));
    let Some((cpu, worst)) = measured.clone().max_by(|(_, a), (_, b)| a.lost_percent().total_cmp(&b.lost_percent()))
    else {
        return Verdict::none("this process may not run on its measuring CPUs");
    };
    let largest = measured.clone().map(|(_, gaps)| gaps.largest_ns).max().unwrap_or(0);
    let a_second = |gaps: &Gaps| gaps.gaps as f64 * 1e9 / gaps.span_ns.max(1) as f64;
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let what = format!(
        "CPU {cpu} lost {} % of {} in {:.0} gaps a second over {}, the largest {}",
        three_digits(worst.lost_percent()),
        time(worst.span_ns),
        a_second(&worst),
        time(GAP_NS),
        time(largest)
    );
    let cure = "stop what else runs; a quieter CPU with --cpu; an isolated one (isolcpus, nohz_full)";
    let bad = largest > LARGEST_NS || worst.lost_percent() > LOST_PERCENT && worst.gaps >= FEWEST_GAPS;
    let mut verdict = Verdict::warn_if(bad, what, cure);
    for (cpu, gaps) in measured {
        verdict = verdict
            .with(&format!("cpu{cpu}_lost_percent"), gaps.lost_percent())
            .with(&format!("cpu{cpu}_largest_gap_ns"), gaps.largest_ns as f64)
            .with(&format!("cpu{cpu}_gaps_per_s"), a_second(&gaps));
    }
    verdict
}

/// How late each of `count` absolute wake-ups was, `every_ns` apart; fewer when `limit_ns` is over, or `stop` is set. A late one
/// does not make the next one late.
pub(super) fn lateness(
    mut now: impl FnMut() -> u64,
    mut sleep_until: impl FnMut(u64),
    count: usize,
    every_ns: u64,
    limit_ns: u64,
    stop: &AtomicBool,
) -> Vec<u64> {
    let start = now();
    let (mut late, mut time) = (Vec::with_capacity(count), start);
    while late.len() < count && time - start < limit_ns && !stop.load(Ordering::Relaxed) {
        let until = time + every_ns;
        sleep_until(until);
        time = now().max(until);
        late.push(time - until);
    }
    late
}

/// Wakes up on a CPU with the least timer slack; `None` where this process may not run there.
pub(super) fn wake_ups(cpu: u32, count: usize, every_ns: u64, limit_ns: u64, stop: &AtomicBool) -> Option<Vec<u64>> {
    let sleep = |until| drop(timer::sleep_until(until));
    pinned(cpu, || {
        timer::set_timer_slack(1).ok()?;
        Some(lateness(clock::now, sleep, count, every_ns, limit_ns, stop))
    })
    .flatten()
}

/// Check 11.
pub(super) fn timer(context: &Context) -> Verdict {
    let count = if context.order.full { 2_000 } else { 100 };
    let late = context.cpus.first().and_then(|cpu| wake_ups(*cpu, count, 200_000, 1_000_000_000, context.stop));
    match late {
        Some(late) if !late.is_empty() => judge_lateness(late),
        _ => Verdict::none("this process may not run on its first measuring CPU"),
    }
}

fn judge_lateness(mut late: Vec<u64>) -> Verdict {
    late.sort_unstable();
    let (middle, worst) = (late[late.len() / 2], late[late.len() - 1]);
    let time = |ns: u64| Glyphs::Unicode.time(ns as f64);
    let what = format!("{} absolute wake-ups: median {} late, the latest {}", late.len(), time(middle), time(worst));
    let cure = "an open loop sleeps to just before its deadline and spins; shallower idle states make waking faster";
    Verdict::warn_if(middle > LATE_NS, what, cure)
        .with("late_median_ns", middle as f64)
        .with("late_largest_ns", worst as f64)
        .with("wake_ups", late.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;
    use std::cell::Cell;

    /// Somebody waits for the result.
    static GOES_ON: AtomicBool = AtomicBool::new(false);

    /// A clock that steps 100 ns a reading and stands still at the given readings.
    fn scripted(stops: &[(u64, u64)]) -> impl FnMut() -> u64 {
        let (mut reading, mut time) = (0, 1_000_000);
        move || {
            reading += 1;
            time += 100 + stops.iter().find(|(at, _)| *at == reading).map_or(0, |(_, ns)| *ns);
            time
        }
    }

    #[test]
    fn the_gap_meter_finds_the_gaps_that_were_made_and_no_other() {
        assert_eq!(gaps(scripted(&[]), 1_000_000, 5_000, &GOES_ON).gaps, 0);
        let seen = gaps(scripted(&[(10, 7_900), (500, 99_900), (501, 4_000)]), 1_000_000, 5_000, &GOES_ON);
        assert_eq!(seen, Gaps { gaps: 2, lost_ns: 8_000 + 100_000, largest_ns: 100_000, span_ns: 1_000_000 });
        let longer = gaps(scripted(&[(10, 5_000_000)]), 1_000_000, 5_000, &GOES_ON);
        assert_eq!((longer.gaps, longer.span_ns), (1, 5_000_900), "a gap that outlasts the meter is counted whole");
    }

    #[test]
    fn a_clock_that_goes_backwards_is_no_gap_and_no_end() {
        let mut times = [10_u64, 5, 20, 8, 6_000, 2_000_000].into_iter();
        let seen = gaps(|| times.next().unwrap(), 1_000_000, 5_000, &GOES_ON);
        assert_eq!((seen.gaps, seen.largest_ns), (2, 1_994_000));
    }

    #[test]
    fn lost_time_and_a_single_long_gap_warn() {
        let state =
            |gaps| judge_gaps(&[(3, Some(gaps)), (4, Some(Gaps { span_ns: 1_000_000_000, ..Gaps::default() }))]).state;
        let quiet = Gaps { gaps: 10, lost_ns: 4_000_000, largest_ns: 900_000, span_ns: 1_000_000_000 };
        assert_eq!(state(quiet), CheckState::Ok);
        assert_eq!(state(Gaps { lost_ns: 5_100_000, ..quiet }), CheckState::Warn);
        assert_eq!(state(Gaps { largest_ns: 1_100_000, ..quiet }), CheckState::Warn);
        let short = Gaps { gaps: 2, lost_ns: 900_000, largest_ns: 500_000, span_ns: 20_000_000 };
        assert_eq!([short, Gaps { gaps: 3, ..short }].map(state), [CheckState::Ok, CheckState::Warn]);
        assert_eq!(judge_gaps(&[(0, None)]).state, CheckState::NotAvailable);
        let verdict = judge_gaps(&[(3, Some(quiet)), (4, None)]);
        assert!(verdict.what.starts_with("CPU 3 lost 0.400 % of 1.00 s in 10 gaps a second"), "{}", verdict.what);
        assert_eq!(verdict.evidence["cpu3_gaps_per_s"], 10.0);
    }

    #[test]
    fn lateness_is_that_of_each_wake_up_alone() {
        let time = Cell::new(0_u64);
        let mut lates = [10_u64, 700, 20].into_iter();
        let late =
            lateness(|| time.get(), |until| time.set(until + lates.next().unwrap()), 3, 200, 1_000_000, &GOES_ON);
        assert_eq!(late, [10, 700, 20]);
        let time = Cell::new(0_u64);
        let late = lateness(|| time.get(), |until| time.set(until + 600), 100, 200, 1_000, &GOES_ON);
        assert_eq!(late, [600, 600], "the limit ends it");
        let early = lateness(|| 0, |_| {}, 2, 200, 1_000, &GOES_ON);
        assert_eq!(early, [0, 0], "a sleep that fails is not late and not endless");
    }

    #[test]
    fn meters_end_when_nobody_waits_for_them() {
        let stop = AtomicBool::new(true);
        assert_eq!(gaps(scripted(&[]), u64::MAX, 5_000, &stop).span_ns, 0);
        assert_eq!(lateness(|| 0, |_| {}, 1000, 200, u64::MAX, &stop).len(), 0);
    }

    #[test]
    fn a_late_timer_warns() {
        assert_eq!(judge_lateness(vec![10_000, 9_000_000, 20_000]).state, CheckState::Ok);
        assert_eq!(judge_lateness(vec![60_000, 60_000, 1]).state, CheckState::Warn);
    }
}
