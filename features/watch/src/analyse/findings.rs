//! X01: what slow requests wait for
//!
//! What slow requests (around p99, or from `--slow` on) wait for more than usual ones (around p50), and whom: the task
//! that had the CPU, the call that blocked, who woke the thread. A task is named only where it woke the thread itself;
//! otherwise a timer, a packet or a device did.
//!
//! | the time went to | what it was | what to do |
//! |---|---|---|
//! | the server computing | its thread on a CPU, kernel included | `perf record -p PID` |
//! | page faults | from the fault until its page is counted, else 16 more faults than usual | touch memory before, huge pages |
//! | interrupts | devices, timer, softirqs | `/proc/interrupts`; move them (`smp_affinity`, RPS) |
//! | the hypervisor | steal | CPUs that are not shared |
//! | runnable without a CPU | another task ran | fewer tasks there, a priority, `cpu.max` for the other |
//! | the quota of a group | CPU time was used up | a larger `cpu.max` |
//! | being stopped | a signal, a tracer, a freezer | who sent it |
//! | a lock | `futex`; the waker usually held it | see what the named thread does |
//! | the disk | fsync, a read | sync less often, elsewhere |
//! | sleeping, or a timeout | a timed sleep, or a call ended by its timer | retries, rate limits, polling |
//! | waiting for somebody else | poll or socket call: another server, or the rest of the request | watch it too: `--pid A,B` |
//! | blocking | a pipe, a file, a child, a fault that waits | `strace -p PID -e trace=CALL` |
//! | other connections | its thread was busy with others | more threads, shorter requests |
//! | the reply held back | the thread read other requests first, as event loops do | fewer requests a round (`io-threads`) |
//! | other replies | the client was busy with other replies | more client threads |
//! | another thread | it lay in a queue while workers were busy | more workers |
//! | a thread that was not followed | it answered what another had read | watch longer: it is followed from its second request on |
//! | the scheduler of Go | goroutines move between threads: *can't tell* | `runtime/trace` |
//! | a pause of the JVM | all threads wait for `VM Thread` | `-Xlog:gc,safepoint` |
//! | send call, stack, softirq, waking, receiving | the way between both | `msgpath echo`, `msgpath explain`; V13 |
//! | the link and the other host | from the end of the client's send call to the reply | `msgpath watch` there |
//!
//! *Sure* where the cause is at least half of the difference and the largest in both halves of the slow requests; else
//! *likely*. Much larger requests or replies are named with the first cause.
//!
//! ## What it rests on
//!
//! Mean stages of slow against usual requests ([watch](docs/watch.md)). From a fifth of the difference, a factor of 1.2
//! and five requests on; not where requests cannot be split (X14).
//!
//! ## What to do
//!
//! The third column.

use std::collections::BTreeMap;

use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_core::units;
use msgpath_core::watch::Stage;

use super::WatchedServer;
use super::bands::{Bands, WatchedBand};
use super::causes::{self, Cause, Change, time};
use super::culprits::Known;

/// The code of all of them.
pub const CODE: &str = "X01";

/// Slow requests that take less than so much more than usual ones have no cause of their own.
const LEAST_MORE: f64 = 1.2;
/// Page faults a request that are worth a word.
const FAULTS: f64 = 16.0;
/// Requests and replies are larger than usual ones where they have so many bytes, and so many times as many.
const LARGE: f64 = 65_536.0;
const LARGER: f64 = 4.0;

/// What is said of a server whose requests are split.
pub(super) fn of(server: &WatchedServer, bands: &Bands, known: &Known) -> Vec<Finding> {
    if bands.slow.mean_ns < LEAST_MORE * bands.typical.mean_ns {
        return Vec::new();
    }
    let changes: Vec<Change> =
        bands.stages().iter().map(|stage| (stage.stage, stage.typical_ns, stage.slow_ns)).collect();
    let causes = causes::of(&changes, bands.more(), &bands.slow_rows, known);
    causes.iter().enumerate().map(|(at, cause)| sentence(server, bands, cause, at == 0)).collect()
}

fn sentence(server: &WatchedServer, bands: &Bands, cause: &Cause, first: bool) -> Finding {
    let mut words = cause.words.clone();
    let faults = bands.slow.faults - bands.typical.faults;
    let paging = cause.stages.contains(&Stage::WorkPageFaults);
    let faulted = (paging || cause.stages.contains(&Stage::WorkOnCpu)) && faults >= FAULTS;
    if faulted {
        words += &format!(", with {faults:.0} more page faults a request");
    }
    let percent = cause.share * 100.0;
    let begin = if first {
        words += &larger(&bands.typical, &bands.slow);
        format!(
            "{percent:.0} % of the extra time of slow requests to {} ({}: {}; usual: {}) is",
            server.name,
            bands.slow.name,
            time(bands.slow.mean_ns),
            time(bands.typical.mean_ns)
        )
    } else {
        format!("Another {percent:.0} % is")
    };
    let text = format!("{begin} {words}: {} instead of {}.", time(cause.now), time(cause.before));
    let mut evidence = BTreeMap::from([
        ("share".to_owned(), cause.share),
        ("slow_ns".to_owned(), cause.now),
        ("typical_ns".to_owned(), cause.before),
        ("rows".to_owned(), bands.slow.rows as f64),
    ]);
    if faulted || paging {
        evidence.insert("page_faults".into(), faults);
    }
    finding(CODE, cause.confidence, text, evidence)
}

/// `, with replies of 8 MiB instead of 100 B`.
fn larger(usual: &WatchedBand, slow: &WatchedBand) -> String {
    let size = |bytes: f64| units::size(bytes.round() as u64);
    let sizes = [("requests", usual.bytes_there, slow.bytes_there), ("replies", usual.bytes_back, slow.bytes_back)];
    let larger = sizes.into_iter().filter(|(_, usual, slow)| *slow >= LARGE && *slow >= LARGER * usual);
    larger.map(|(what, usual, slow)| format!(", with {what} of {} instead of {}", size(slow), size(usual))).collect()
}

pub(super) fn finding(code: &str, confidence: Confidence, text: String, evidence: BTreeMap<String, f64>) -> Finding {
    Finding { code: code.into(), confidence, text, evidence, next: Vec::new() }
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{Load, said, sentence, watched};
    use crate::record::{Process, Runtime, Watched};
    use msgpath_core::watch::{Culprit, QUOTA, Stage, by};

    /// Level and text of the sentences on slow requests.
    fn sentences(watched: &Watched) -> Vec<(String, String)> {
        said(watched)
            .into_iter()
            .filter(|(_, code, _)| code == super::CODE)
            .map(|(level, _, text)| (level, text))
            .collect()
    }

    fn planted(stage: Stage) -> Watched {
        watched(&Load { stage, ..Load::default() })
    }

    #[test]
    fn a_planted_cause_is_the_first_sentence_with_its_culprit() {
        for (stage, words) in [
            (Stage::WorkOnCpu, "computing (on CPU): 2.0"),
            (Stage::WorkRunnable, "while it worked, on CPU 1 behind ffmpeg"),
            (Stage::WorkLock, "a lock, in futex, woken by lock-holder"),
            (Stage::WorkDisk, "the disk, in fsync, woken by kworker/1:2"),
            (Stage::WorkSleep, "sleeping, in clock_nanosleep: 2.0"),
            (Stage::WorkPoll, "in epoll_wait, woken by postgres"),
            (Stage::Queued, "busy with other connections"),
            (Stage::Held, "held back"),
            (Stage::ClientQueued, "busy with other replies"),
            (Stage::Send, "send call"),
            (Stage::WorkInterrupts, "interrupts on the server's CPU"),
            (Stage::WorkStolen, "took the server's CPU while it worked: 2.0"),
            (Stage::OtherThread, "another thread of the server took it over: 2.0"),
            (Stage::Away, "the link and the other host: 2.0"),
            (Stage::ClientSoftirq, "received the reply"),
            (Stage::WorkStopped, "the server being stopped, by SIGSTOP, sent by ffmpeg: 2.0"),
            (Stage::Stopped, "the server being stopped, by SIGSTOP, sent by ffmpeg: 2.0"),
        ] {
            let sentences = sentences(&planted(stage));
            assert!(
                sentences.len() == 1 && sentences[0].0 == "sure" && sentences[0].1.contains(words),
                "{stage:?} {sentences:?}"
            );
        }
        let (level, text) = sentence(&watched(&Load { faults: 4096, ..Load::default() }), super::CODE);
        assert!(level == "sure" && text.contains("with 4096 more page faults"), "{text}");
        let load = Load { faults: 4096, stage: Stage::WorkPageFaults, ..Load::default() };
        let (level, text) = sentence(&watched(&load), super::CODE);
        assert!(level == "sure" && text.contains("the server's page faults, with 4096"), "{text}");
    }

    #[test]
    fn is_silent_where_slow_requests_are_like_the_others() {
        assert_eq!(sentences(&watched(&Load { planted_ns: 0, ..Load::default() })), []);
    }

    /// The task that had the CPU when an interrupt came is not what a request waited for.
    #[test]
    fn a_block_that_a_timer_ends_names_no_task() {
        for (stage, call) in [(Stage::WorkLock, "futex"), (Stage::WorkPoll, "epoll_wait")] {
            let mut watched = planted(stage);
            watched.rows.iter_mut().for_each(|row| row.block.pid = by::TIMER);
            let (level, text) = sentence(&watched, super::CODE);
            assert!(
                level == "sure" && text.contains(&format!("until its time was over (a timeout), in {call}: 2.0")),
                "{text}"
            );
            assert!(!text.contains("lock-holder") && !text.contains("postgres"), "{text}");
        }
    }

    /// Before it reads and while it works are one cause.
    #[test]
    fn a_quota_is_named_with_its_group() {
        let mut watched = planted(Stage::WorkRunnable);
        for (n, row) in watched.rows.iter_mut().enumerate() {
            row.run_work.call = QUOTA;
            if n % 100 == 0 {
                row.stages.swap(Stage::RunQueue as usize, Stage::WorkRunnable as usize);
                row.run_there = std::mem::take(&mut row.run_work);
            }
        }
        let quota = Some("/sys/fs/cgroup/app (20 ms in 100 ms)".to_owned());
        watched.end.as_mut().unwrap().processes = vec![Process { process: 5, runtime: None, quota }];
        let sentences = sentences(&watched);
        let words = "is the server being kept from the CPU, throttled by the CPU quota of /sys/fs/cgroup/app (20 ms in 100 ms): 2.0";
        assert!(sentences.len() == 1 && sentences[0].0 == "sure" && sentences[0].1.contains(words), "{sentences:?}");
    }

    #[test]
    fn the_length_of_a_queue_for_a_lock_is_said() {
        let mut watched = planted(Stage::WorkLock);
        // Four at a time.
        for (n, row) in watched.rows.iter_mut().filter(|row| row.total_ns > 1_000_000).enumerate() {
            row.t0_ns = 1_000_000_000 + n as u64 / 4 * 50_000_000;
        }
        let (_, text) = sentence(&watched, super::CODE);
        assert!(text.contains("woken by lock-holder, 4.0 requests waiting for it at once"), "{text}");
    }

    #[test]
    fn a_runtime_that_moves_requests_is_not_followed() {
        for stage in [Stage::WorkLock, Stage::WorkElsewhere, Stage::WorkPoll] {
            let mut watched = planted(stage);
            let go = Process { process: 5, runtime: Some(Runtime::Go), quota: None };
            watched.end.as_mut().unwrap().processes = vec![go];
            let (level, text) = sentence(&watched, super::CODE);
            assert!(
                level == "can't tell" && text.contains("in the scheduler of Go") && !text.contains("holder"),
                "{text}"
            );
        }
    }

    /// A request that waits for a lock, and those that come meanwhile.
    #[test]
    fn a_pause_of_the_jvm_is_one_sentence() {
        let mut watched = planted(Stage::WorkLock);
        for (n, row) in watched.rows.iter_mut().filter(|row| row.total_ns > 1_000_000).enumerate() {
            row.t0_ns = 1_000_000_000 + n as u64 / 2 * 50_000_000;
            row.block.name = *b"VM Thread\0\0\0\0\0\0\0";
            if n % 2 == 1 {
                row.stages.swap(Stage::Queued as usize, Stage::WorkLock as usize);
                row.block = Culprit::default();
            }
        }
        assert_eq!(sentences(&watched).len(), 2, "without a JVM they are two causes");
        let jvm = Process { process: 5, runtime: Some(Runtime::Jvm), quota: None };
        watched.end.as_mut().unwrap().processes = vec![jvm];
        let sentences = sentences(&watched);
        assert!(
            sentences.len() == 1 && sentences[0].0 == "sure" && sentences[0].1.contains("a pause of the JVM"),
            "{sentences:?}"
        );
    }

    #[test]
    fn larger_replies_are_said() {
        let mut watched = planted(Stage::Rest);
        watched.rows.iter_mut().filter(|row| row.total_ns > 1_000_000).for_each(|row| row.bytes_back = 8 << 20);
        let (_, text) = sentence(&watched, super::CODE);
        assert!(text.contains(", with replies of 8 MiB instead of 100 B: 2.0"), "{text}");
    }
}
