//! X01: what slow requests wait for
//!
//! ## What it says
//!
//! Which stage takes most of the extra time of slow requests (around p99, or from `--slow` on) over usual ones (around p50), in a
//! program that nobody changed, and whom it waited for: the task that had the CPU, the call that blocked, who woke the thread. A task is
//! named only where it woke the thread itself: what an interrupt ends was ended by a timer, a packet or a device, whoever had the CPU.
//!
//! | the time went to | what it was | what to do |
//! |---|---|---|
//! | the server computing (on CPU) | the server's thread on a CPU while it worked: its own code, the kernel's on its behalf | a profile (`perf record -p PID`) names the function |
//! | page faults | from the fault until its page is counted; where that is not known, time on a CPU with at least 16 more faults than usual | touch memory before and keep it, huge pages; after a fork the first write to a page copies it |
//! | interrupts | devices, the timer and softirqs had the server's CPU | `/proc/interrupts` and `/proc/softirqs` say which: move them (`smp_affinity`, RPS), or the server (`taskset`) |
//! | the hypervisor | *steal*: the virtual machine stood still on that CPU | fewer virtual machines, CPUs that are not shared, another host |
//! | runnable without a CPU | a thread of server or client was ready and another task ran | fewer busy tasks there, a priority (`chrt`, `nice`), a limit for the other one (`cpu.max`) |
//! | the quota of a group | the cgroup (version 1 or 2) had used up its CPU time of the period | a larger `cpu.max`, or fewer threads |
//! | being stopped | a signal, a tracer or a freezer stopped the process | who sent it |
//! | a lock | blocked in `futex`; who woke it usually held the lock | what the named thread does while it holds it |
//! | the disk | fsync, fdatasync, a read that went to the disk | sync less often or in another thread, a faster device |
//! | sleeping, or a timeout | a timed sleep, or a call that waits for anything else and was ended by its timer | retries, rate limits and polling: the source says where |
//! | waiting for somebody else | blocked in a poll or a socket call: it asks another server, or the rest of the request comes later | watch that as well: `--pid A,B` or `--port A,B` |
//! | blocking | another call: a pipe, a file, a child, a fault that waits | `strace -p PID -e trace=CALL` |
//! | other connections | the request had arrived, its thread was busy with others | more threads, shorter requests, fewer connections on each |
//! | the reply held back | the thread read other requests before it sent the reply, as event loops do | fewer requests a round (`io-threads`) |
//! | other replies | the client's thread worked on other replies | more client threads: the client is the bottleneck |
//! | another thread | the request lay in a queue while the threads that work were busy | more of them, shorter requests |
//! | a thread that was not followed | it answered what another one had read, for the first time | a pool of threads is followed from the second request of each on |
//! | the scheduler of Go | goroutines move between threads, which says nothing of what a request waits for: *can't tell* | `runtime/trace` |
//! | a pause of the JVM | all its threads stand still until its thread `VM Thread` lets them go | `-Xlog:gc,safepoint` |
//! | send call, stack, softirq, waking, receiving | the way between both | `msgpath echo` measures it alone, `msgpath explain` splits it; waking: V13 |
//! | the link and the other host | between the end of the client's send call and the reply's arrival | `msgpath watch` on the other host |
//!
//! *Sure* where the cause is at least half of the difference and the largest one in both halves of the slow requests; else *likely*.
//! Where slow requests or their replies are also much larger than usual ones, that is said with the first cause.
//!
//! ## What it is computed from
//!
//! The times of each stage of a request ([Watching programs](docs/watch.md)), mean of the slow against mean of the usual ones.
//!
//! ## When it stays silent
//!
//! Below a fifth of the difference; where slow requests take less than 1.2 times as long as usual ones; where fewer than five
//! requests have a row; where requests cannot be split (X14).
//!
//! ## What to do
//!
//! The third column.

use std::collections::BTreeMap;

use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_core::units;
use msgpath_core::watch::Stage;

use super::Server;
use super::bands::{Band, Bands};
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
pub(super) fn of(server: &Server, bands: &Bands, known: &Known) -> Vec<Finding> {
    if bands.slow.mean_ns < LEAST_MORE * bands.typical.mean_ns {
        return Vec::new();
    }
    let changes: Vec<Change> =
        bands.stages().iter().map(|stage| (stage.stage, stage.typical_ns, stage.slow_ns)).collect();
    let causes = causes::of(&changes, bands.more(), &bands.slow_rows, known);
    causes.iter().enumerate().map(|(at, cause)| sentence(server, bands, cause, at == 0)).collect()
}

fn sentence(server: &Server, bands: &Bands, cause: &Cause, first: bool) -> Finding {
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
fn larger(usual: &Band, slow: &Band) -> String {
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
