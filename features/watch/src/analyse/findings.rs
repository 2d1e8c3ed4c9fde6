//! X01: what slow requests wait for
//!
//! ## What it says
//!
//! Which stage takes most of the extra time of slow requests (around p99, or from `--slow` on) over usual ones (around p50), in a
//! program that nobody changed, and whom it waited for: the task that had the CPU, the call that blocked, who woke the thread.
//!
//! | the time went to | what it was | what to do |
//! |---|---|---|
//! | the server computing (on CPU) | the server's thread on a CPU while it worked: its own code, the kernel's on its behalf | a profile (`perf record -p PID`) names the function |
//! | page faults | from the fault until its page is counted; where that is not known, time on a CPU with at least 16 more faults than usual | touch memory before and keep it, huge pages; after a fork the first write to a page copies it |
//! | interrupts | devices, the timer and softirqs had the server's CPU | `/proc/interrupts` and `/proc/softirqs` say which: move them (`smp_affinity`, RPS), or the server (`taskset`) |
//! | the hypervisor | *steal*: the virtual machine stood still on that CPU | fewer virtual machines, CPUs that are not shared, another host |
//! | runnable without a CPU | a thread of server or client was ready and another task ran | fewer busy tasks there, a priority (`chrt`, `nice`), a limit for the other one (`cpu.max`) |
//! | a lock | blocked in `futex`; who woke it usually held the lock | what the named thread does while it holds it |
//! | the disk | fsync, fdatasync, a read that went to the disk | sync less often or in another thread, a faster device |
//! | sleeping | a timed sleep | retries, rate limits and polling: the source says where |
//! | waiting for somebody else | blocked in a poll or a socket call: it asks another server | watch that as well: `--pid A,B` or `--port A,B` |
//! | blocking | another call: a pipe, a file, a child, a fault that waits | `strace -p PID -e trace=CALL` |
//! | other connections | the request had arrived, its thread was busy with others | more threads, shorter requests, fewer connections on each |
//! | the reply held back | the thread read other requests before it sent the reply, as event loops do | fewer requests a round (`io-threads`) |
//! | other replies | the client's thread worked on other replies | more client threads: the client is the bottleneck |
//! | another thread | a thread that was not followed took the request over: just started, or handed to while busy | a pool of threads that wait is followed from its second request on |
//! | send call, stack, softirq, waking, receiving | the way between both | `msgpath echo` measures it alone, `msgpath explain` splits it; waking: V13 |
//! | the link and the other host | between the end of the client's send call and the reply's arrival | `msgpath watch` on the other host |
//!
//! *Sure* where the stage is at least half of the difference and the largest one in both halves of the slow requests; else *likely*.
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
use msgpath_core::units::Glyphs;
use msgpath_core::watch::{RequestRow, Stage};

use super::Server;
use super::bands::Bands;
use super::culprits::{self, Agreed};

/// The code of all of them.
pub const CODE: &str = "X01";

/// Slow requests that take less than so much more than usual ones have no cause of their own.
const LEAST_MORE: f64 = 1.2;
/// A stage that takes a smaller share of the difference is not named.
const LEAST_SHARE: f64 = 0.2;
/// From this share on, and where both halves of the run agree, it is sure.
const SURE_SHARE: f64 = 0.5;
/// Sentences about one server.
const MOST: usize = 3;
/// Page faults a request that are worth a word.
const FAULTS: f64 = 16.0;
/// A name is given where it has this share of the waiting.
const AGREED: f64 = 0.5;

/// Words of a stage: what happened, for a sentence that begins with a share.
fn cause(stage: Stage) -> &'static str {
    match stage {
        Stage::WorkOnCpu => "the server computing (on CPU)",
        Stage::WorkPageFaults => "the server's page faults",
        Stage::WorkInterrupts => "interrupts on the server's CPU while it worked",
        Stage::WorkStolen => "the hypervisor, which took the server's CPU while it worked",
        Stage::WorkRunnable => "the server being runnable without a CPU while it worked",
        Stage::RunQueue => "the server being runnable without a CPU before it read the request",
        Stage::ClientRunQueue => "the client being runnable without a CPU before it read the reply",
        Stage::WorkLock => "the server waiting for a lock",
        Stage::WorkDisk => "the server waiting for the disk",
        Stage::WorkSleep => "the server sleeping",
        Stage::WorkPoll | Stage::WorkSocket => "the server waiting for somebody else while it worked",
        Stage::WorkOther | Stage::WorkFault => "the server blocking",
        Stage::Queued => "the request waiting while the server's thread was busy with other connections",
        Stage::Held => "the reply being held back while the server's thread worked on other requests",
        Stage::ClientQueued => "the client being busy with other replies",
        Stage::OtherThread => "the request waiting until another thread of the server took it over",
        Stage::WorkElsewhere => "work in a thread that was not followed",
        Stage::ClientOtherThread => "the reply waiting until another thread of the client took it over",
        Stage::Send => "the client's send call, the stack and the receive softirq",
        Stage::Reply => "the reply's send call, the stack and the receive softirq",
        Stage::SendOut => "the client's send call and the transmit stack",
        Stage::ReplyOut => "the reply's send call and the transmit stack",
        Stage::Softirq => "the softirq that received the request",
        Stage::ClientSoftirq => "the softirq that received the reply",
        Stage::Away => "the link and the other host",
        Stage::WakeUp | Stage::InFlight | Stage::WorkWaking => "waking the server",
        Stage::Receive => "the server receiving, on CPU",
        Stage::ClientWakeUp | Stage::ClientInFlight => "waking the client",
        Stage::ClientReceive => "the client receiving, on CPU",
        Stage::Rest => "the rest of the reply, after its first part",
    }
}

/// `, on CPU 1 behind ffmpeg` or `, in futex, woken by lock-holder`.
fn behind(stage: Stage, who: &Agreed, call: &dyn Fn(i16) -> Option<String>) -> String {
    let name = Some(who.name.as_str()).filter(|name| !name.is_empty() && who.share >= AGREED);
    match stage {
        Stage::RunQueue | Stage::WorkRunnable | Stage::ClientRunQueue => match name {
            Some(name) => format!(", on CPU {} behind {name}", who.cpu),
            None => String::new(),
        },
        _ => {
            let name = name.and_then(|name| culprits::woken_by(stage, name));
            in_call(who, call) + &name.map_or_else(String::new, |name| format!(", woken by {name}"))
        }
    }
}

fn in_call(who: &Agreed, call: &dyn Fn(i16) -> Option<String>) -> String {
    match (who.call, call(who.call)) {
        (..0, _) => String::new(),
        (_, Some(name)) => format!(", in {name}"),
        (number, None) => format!(", in call {number}"),
    }
}

/// What is said of a server whose requests are split.
pub(super) fn of(server: &Server, bands: &Bands, call: &dyn Fn(i16) -> Option<String>) -> Vec<Finding> {
    let mut all = Vec::new();
    if bands.slow.mean_ns >= LEAST_MORE * bands.typical.mean_ns {
        let mut stages = bands.stages();
        stages.sort_by(|a, b| b.share.total_cmp(&a.share));
        let named = stages.iter().filter(|stage| stage.share >= LEAST_SHARE).take(MOST);
        for stage in named {
            let first = all.is_empty();
            all.push(of_stage(server, bands, stage.stage, stage.share, first, call));
        }
    }
    all
}

fn of_stage(
    server: &Server,
    bands: &Bands,
    stage: Stage,
    share: f64,
    first: bool,
    call: &dyn Fn(i16) -> Option<String>,
) -> Finding {
    let [typical, slow] = bands.mean(stage);
    let mut words = cause(stage).to_owned();
    let faults = bands.slow.faults - bands.typical.faults;
    let faulted = matches!(stage, Stage::WorkOnCpu | Stage::WorkPageFaults) && faults >= FAULTS;
    if faulted {
        words += &format!(", with {faults:.0} more page faults a request");
    }
    if let Some(who) = culprits::agreed(&bands.slow_rows, stage) {
        words += &behind(stage, &who, call);
    }
    let time = |ns: f64| Glyphs::Unicode.time(ns);
    let percent = share * 100.0;
    let begin = if first {
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
    let text = format!("{begin} {words}: {} instead of {}.", time(slow), time(typical));
    let sure = share >= SURE_SHARE && halves_agree(&bands.slow_rows, stage);
    let mut evidence = BTreeMap::from([
        ("share".to_owned(), share),
        ("slow_ns".to_owned(), slow),
        ("typical_ns".to_owned(), typical),
        ("rows".to_owned(), bands.slow.rows as f64),
    ]);
    if faulted || stage == Stage::WorkPageFaults {
        evidence.insert("page_faults".into(), faults);
    }
    finding(CODE, if sure { Confidence::Sure } else { Confidence::Likely }, text, evidence)
}

/// The stage takes most of the time of slow requests in the first half of them as in the second.
fn halves_agree(rows: &[&RequestRow], stage: Stage) -> bool {
    let (first, second) = rows.split_at(rows.len() / 2);
    [first, second].iter().all(|rows| {
        let sum = |stage: Stage| rows.iter().map(|row| row.stage(stage) as f64).sum::<f64>();
        !rows.is_empty() && Stage::ALL.into_iter().all(|other| sum(other) <= sum(stage))
    })
}

pub(super) fn finding(code: &str, confidence: Confidence, text: String, evidence: BTreeMap<String, f64>) -> Finding {
    Finding { code: code.into(), confidence, text, evidence, next: Vec::new() }
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{Load, watched};
    use crate::analyse::{Choice, summarise};
    use msgpath_core::watch::Stage;

    fn sentences(load: &Load) -> Vec<(String, String)> {
        let summary = summarise(&watched(load), Choice::default());
        let findings = &summary.servers[0].findings;
        findings
            .iter()
            .map(|finding| (finding.confidence.word().to_owned() + " " + &finding.code, finding.text.clone()))
            .collect()
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
        ] {
            let sentences = sentences(&Load { stage, ..Load::default() });
            assert!(
                sentences.len() == 1 && sentences[0].0 == "sure X01" && sentences[0].1.contains(words),
                "{stage:?} {sentences:?}"
            );
        }
        let sentences = sentences(&Load { faults: 4096, ..Load::default() });
        assert!(sentences[0].0 == "sure X01" && sentences[0].1.contains("with 4096 more page faults"), "{sentences:?}");
        let timed = self::sentences(&Load { faults: 4096, stage: Stage::WorkPageFaults, ..Load::default() });
        assert!(timed[0].0 == "sure X01" && timed[0].1.contains("the server's page faults, with 4096"), "{timed:?}");
    }

    #[test]
    fn is_silent_where_slow_requests_are_like_the_others() {
        assert_eq!(sentences(&Load { planted_ns: 0, ..Load::default() }), []);
    }
}
