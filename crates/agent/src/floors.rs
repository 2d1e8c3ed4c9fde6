//! What a message cannot be faster than on this machine: wake-ups, a cache line's way, a copy, and the route.

use std::collections::BTreeMap;
use std::hint::{black_box, spin_loop};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;
use std::time::Duration;

use msgpath_core::schema::Floors;
use msgpath_core::units::Pieces;
use msgpath_sys::{affinity, clock, futex};

use crate::doctor::read;
use crate::{route, send_costs};

/// Round trips that are timed, after a few that are not.
const ROUND_TRIPS: usize = 200;
const WARM_UP: usize = 20;
/// Fewer than this and there is no figure.
const FEWEST: usize = 20;
/// Time limit of one figure, ns: a busy machine gives fewer round trips, not a longer wait.
const LIMIT_NS: u64 = 12_000_000;
/// Spinning round trips between two clock readings: one alone would be mostly clock.
const SPINS: u32 = 16;
/// Largest buffer that is copied: above it making the buffers takes longer than all else here. A larger message is
/// copied no faster, so the figure stays a floor.
const LARGEST_COPY: u64 = 16 << 20;
const COPY_NS: u64 = 2_000_000;
const FEWEST_COPIES: u32 = 3;

/// Measures them on the CPUs of the two ends, in less than 60 ms. Where the far end is on another machine only the floors
/// of this one are there. The calling thread stays where it is.
pub fn measure(
    near_cpu: Option<u32>,
    far_cpu: Option<u32>,
    same_machine: bool,
    size: u64,
    peer: Option<SocketAddr>,
    pieces: Option<Pieces>,
) -> Floors {
    let near = near_cpu.or_else(|| affinity::allowed().first().copied());
    let pair = near.zip(far_cpu).filter(|(near, far)| same_machine && near != far);
    let caches = near.map(caches).unwrap_or_default();
    Floors {
        wake_round_trip_ns: pair.and_then(|(near, far)| round_trip(near, far, Wait::Futex)),
        switch_round_trip_ns: near.and_then(|near| round_trip(near, near, Wait::Futex)),
        spin_round_trip_ns: pair.and_then(|(near, far)| round_trip(near, far, Wait::Spin)),
        copy_bytes_per_s: near.and_then(|near| pinned(near, || copy_speed(size))?),
        last_level_cache: caches.last().copied(),
        caches,
        route: peer.and_then(|peer| route::to(peer).ok()),
        send: near.zip(pieces).and_then(|(near, pieces)| pinned(near, || send_costs::measure(pieces))?),
    }
}

/// How the threads of a round trip wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Asleep in the kernel.
    Futex,
    /// Looking again and again.
    Spin,
}

/// Runs `work` on a thread that is pinned to `cpu`; `None` where this process may not run there, or has no further thread.
pub(crate) fn pinned<T: Send>(cpu: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    let pinned = || affinity::pin(&[cpu]).ok().map(|()| work());
    std::thread::scope(|scope| Builder::new().spawn_scoped(scope, pinned).ok()?.join().ok().flatten())
}

/// A word of its own cache lines: adjacent-line prefetch counts as sharing.
#[repr(align(128))]
struct Word(AtomicU32);

const STOP: u32 = u32::MAX;

/// Median time of a round trip between threads on two CPUs, or on one, ns.
pub(crate) fn round_trip(near: u32, far: u32, wait: Wait) -> Option<f64> {
    let mut times = round_trips(near, far, wait);
    if times.len() < FEWEST {
        return None;
    }
    let middle = times.len() / 2;
    let per_sample = if wait == Wait::Spin { f64::from(SPINS) } else { 1.0 };
    Some(*times.select_nth_unstable(middle).1 as f64 / per_sample)
}

fn round_trips(near: u32, far: u32, wait: Wait) -> Vec<u64> {
    let (there, back) = (Word(AtomicU32::new(0)), Word(AtomicU32::new(0)));
    std::thread::scope(|scope| {
        let echo = || {
            if affinity::pin(&[far]).is_err() {
                return give(&back, STOP, wait);
            }
            let deadline = clock::now() + 2 * LIMIT_NS;
            for turn in 1.. {
                let Some(seen) = take(&there, turn, wait, deadline) else { return };
                if seen == STOP {
                    return;
                }
                give(&back, turn, wait);
            }
        };
        let ask = || {
            let (mut times, mut turn) = (Vec::with_capacity(ROUND_TRIPS), 0);
            if affinity::pin(&[near]).is_ok() {
                let deadline = clock::now() + LIMIT_NS;
                let each = if wait == Wait::Spin { SPINS } else { 1 };
                'measure: for sample in 0..WARM_UP + ROUND_TRIPS {
                    let start = clock::now();
                    for _ in 0..each {
                        turn += 1;
                        give(&there, turn, wait);
                        if take(&back, turn, wait, deadline) != Some(turn) {
                            break 'measure;
                        }
                    }
                    let time = clock::now().saturating_sub(start);
                    if sample >= WARM_UP {
                        times.push(time);
                    }
                }
            }
            give(&there, STOP, wait);
            times
        };
        if Builder::new().spawn_scoped(scope, echo).is_err() {
            return Vec::new();
        }
        match Builder::new().spawn_scoped(scope, ask) {
            Ok(near) => near.join().unwrap_or_default(),
            Err(_) => {
                give(&there, STOP, wait);
                Vec::new()
            }
        }
    })
}

fn give(word: &Word, turn: u32, wait: Wait) {
    word.0.store(turn, Ordering::Release);
    if wait == Wait::Futex {
        let _ = futex::wake(&word.0);
    }
}

/// Waits for this turn, or for the end. `None`: the time is over.
fn take(word: &Word, turn: u32, wait: Wait, deadline: u64) -> Option<u32> {
    loop {
        // The clock is read now and then only: a reading costs as much as the round trip.
        for _ in 0..if wait == Wait::Spin { 256 } else { 1 } {
            let seen = word.0.load(Ordering::Acquire);
            if seen == turn || seen == STOP {
                return Some(seen);
            }
            match wait {
                Wait::Spin => spin_loop(),
                Wait::Futex => futex::wait(&word.0, seen, Duration::from_millis(2)).ok()?,
            }
        }
        if clock::now() > deadline {
            return None;
        }
    }
}

/// Bytes per second of copying a buffer of `size` bytes: the fastest of several copies in at least 2 ms, as this is a
/// floor and an interruption is not.
fn copy_speed(size: u64) -> Option<f64> {
    let size = usize::try_from(size.min(LARGEST_COPY)).ok().filter(|size| *size > 0)?;
    let (from, mut to) = (vec![1_u8; size], vec![2_u8; size]); // not zero: zero pages would not be there yet
    let times = (64 * 1024 / size).max(1);
    to.copy_from_slice(black_box(&from));
    let start = clock::now();
    let (mut before, mut best) = (start, u64::MAX);
    for copies in 1.. {
        for _ in 0..times {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
        let now = clock::now();
        best = best.min(now.saturating_sub(before)).max(1);
        before = now;
        if copies >= FEWEST_COPIES && now.saturating_sub(start) >= COPY_NS {
            break;
        }
    }
    Some((times * size) as f64 * 1e9 / best as f64)
}

/// Bytes of each cache level that holds data, from the first.
fn caches(cpu: u32) -> Vec<u64> {
    let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let caches = read::names(&folder).into_iter().filter(|name| name.starts_with("index")).filter_map(|index| {
        let file = |name: &str| read::line(&format!("{folder}/{index}/{name}")).ok();
        (file("type")? != "Instruction").then_some(())?;
        Some((file("level")?.parse::<u32>().ok()?, cache_size(&file("size")?)?))
    });
    caches.collect::<BTreeMap<u32, u64>>().into_values().collect()
}

/// `107520K`, `32M` or plain bytes.
fn cache_size(text: &str) -> Option<u64> {
    let (digits, scale) = match text.trim().split_at_checked(text.trim().len().checked_sub(1)?)? {
        (digits, "K") => (digits, 1 << 10),
        (digits, "M") => (digits, 1 << 20),
        _ => (text.trim(), 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(scale).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_floors_and_the_caller_stays_where_it_is() {
        let before = affinity::allowed();
        let far = before.get(1).copied();
        let floors = measure(before.first().copied(), far, true, 4096, Some(([127, 0, 0, 1], 0).into()), None);
        assert_eq!(affinity::allowed(), before);
        assert!(floors.copy_bytes_per_s.unwrap() > 1e6);
        assert_eq!(floors.route.unwrap().device, "lo");
        for figure in [floors.wake_round_trip_ns, floors.switch_round_trip_ns, floors.spin_round_trip_ns] {
            assert!(figure.is_none_or(|time| time > 1.0 && time < 1e9), "{figure:?}"); // a busy machine gives none
        }
    }

    #[test]
    fn what_cannot_be_had_here_is_not_there() {
        let far_away = measure(None, Some(0), false, 0, None, None);
        assert!(far_away.wake_round_trip_ns.is_none() && far_away.spin_round_trip_ns.is_none());
        assert!(far_away.copy_bytes_per_s.is_none() && far_away.route.is_none());
        assert_eq!(round_trip(100_000, 100_000, Wait::Futex), None);
        assert_eq!(pinned(100_000, || 1), None);
    }

    #[test]
    fn sizes_of_caches() {
        assert_eq!(cache_size("107520K\n"), Some(107_520 << 10));
        assert_eq!(cache_size("32M"), Some(32 << 20));
        assert_eq!(cache_size("512"), Some(512));
        assert_eq!((cache_size(""), cache_size("K"), cache_size("0K"), cache_size("x")), (None, None, None, None));
    }
}
