//! Sentences about watched programs. `CAUSES` is the table of what a stage means, a page in `docs/findings` for each code.

use std::collections::BTreeMap;

use msgpath_analyse::summary::{Confidence, Finding};
use msgpath_core::units::Glyphs;
use msgpath_core::watch::{RequestRow, Stage};

use super::bands::Bands;
use super::culprits::{self, Agreed};
use super::{ENOUGH, Server};

/// Codes of all of them.
pub const CODES: [&str; 18] = [
    "X01", "X02", "X03", "X04", "X05", "X06", "X07", "X08", "X09", "X10", "X11", "X12", "X13", "X14", "X15", "X16",
    "X17", "X18",
];

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

/// Code and words of a stage: what happened, for a sentence that begins with a share.
fn cause(stage: Stage) -> (&'static str, &'static str) {
    match stage {
        Stage::WorkOnCpu => ("X01", "the server computing (on CPU)"),
        Stage::WorkPageFaults => ("X02", "the server's page faults"),
        Stage::WorkInterrupts => ("X16", "interrupts on the server's CPU while it worked"),
        Stage::WorkStolen => ("X18", "the hypervisor, which took the server's CPU while it worked"),
        Stage::WorkRunnable => ("X03", "the server being runnable without a CPU while it worked"),
        Stage::RunQueue => ("X03", "the server being runnable without a CPU before it read the request"),
        Stage::ClientRunQueue => ("X03", "the client being runnable without a CPU before it read the reply"),
        Stage::WorkLock => ("X04", "the server waiting for a lock"),
        Stage::WorkDisk => ("X05", "the server waiting for the disk"),
        Stage::WorkSleep => ("X06", "the server sleeping"),
        Stage::WorkPoll | Stage::WorkSocket => ("X07", "the server waiting for somebody else while it worked"),
        Stage::WorkOther | Stage::WorkFault => ("X08", "the server blocking"),
        Stage::Queued => ("X09", "the request waiting while the server's thread was busy with other connections"),
        Stage::Held => ("X10", "the reply being held back while the server's thread worked on other requests"),
        Stage::ClientQueued => ("X11", "the client being busy with other replies"),
        Stage::OtherThread => ("X13", "the request waiting until another thread of the server took it over"),
        Stage::WorkElsewhere => ("X13", "work in a thread that was not followed"),
        Stage::ClientOtherThread => ("X13", "the reply waiting until another thread of the client took it over"),
        Stage::Send => ("X12", "the client's send call, the stack and the receive softirq"),
        Stage::Reply => ("X12", "the reply's send call, the stack and the receive softirq"),
        Stage::SendOut => ("X12", "the client's send call and the transmit stack"),
        Stage::ReplyOut => ("X12", "the reply's send call and the transmit stack"),
        Stage::Softirq => ("X12", "the softirq that received the request"),
        Stage::ClientSoftirq => ("X12", "the softirq that received the reply"),
        Stage::Away => ("X17", "the link and the other host"),
        Stage::WakeUp | Stage::InFlight | Stage::WorkWaking => ("X12", "waking the server"),
        Stage::Receive => ("X12", "the server receiving, on CPU"),
        Stage::ClientWakeUp | Stage::ClientInFlight => ("X12", "waking the client"),
        Stage::ClientReceive => ("X12", "the client receiving, on CPU"),
        Stage::Rest => ("X12", "the rest of the reply, after its first part"),
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
    let (mut code, words) = cause(stage);
    let [typical, slow] = bands.mean(stage);
    let mut words = words.to_owned();
    let faults = bands.slow.faults - bands.typical.faults;
    if matches!(stage, Stage::WorkOnCpu | Stage::WorkPageFaults) && faults >= FAULTS {
        code = "X02";
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
    if code == "X02" {
        evidence.insert("page_faults".into(), faults);
    }
    finding(code, if sure { Confidence::Sure } else { Confidence::Likely }, text, evidence)
}

/// The stage takes most of the time of slow requests in the first half of them as in the second.
fn halves_agree(rows: &[&RequestRow], stage: Stage) -> bool {
    let (first, second) = rows.split_at(rows.len() / 2);
    [first, second].iter().all(|rows| {
        let sum = |stage: Stage| rows.iter().map(|row| row.stage(stage) as f64).sum::<f64>();
        !rows.is_empty() && Stage::ALL.into_iter().all(|other| sum(other) <= sum(stage))
    })
}

fn finding(code: &str, confidence: Confidence, text: String, evidence: BTreeMap<String, f64>) -> Finding {
    Finding { code: code.into(), confidence, text, evidence, next: Vec::new() }
}

/// What is said where the time is not split.
pub(super) fn not_split(server: &Server) -> Vec<Finding> {
    let Some(why) = &server.not_split else { return Vec::new() };
    // Without a row nobody knows what its threads are called.
    let name = match server.port {
        Some(port) if server.name.is_empty() => format!("port {port}"),
        _ => server.name.clone(),
    };
    if server.in_flight > 0 && server.complete < ENOUGH {
        let text = format!(
            "which reply answers which request to {}: several requests are in flight on a connection, and the protocol is not known \
             or was not followed from the beginning of the connection. With --framing, or with one request at a time on each \
             connection, the time is split.",
            name
        );
        let evidence = BTreeMap::from([("turns_in_flight".to_owned(), server.in_flight as f64)]);
        return vec![finding("X14", Confidence::CantTell, text, evidence)];
    }
    let evidence = BTreeMap::from([
        ("incomplete".to_owned(), server.incomplete as f64),
        ("torn".to_owned(), server.torn as f64),
        ("requests".to_owned(), server.requests as f64),
    ]);
    vec![finding("X15", Confidence::CantTell, format!("where the time of {name} goes: {why}."), evidence)]
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
        for (stage, code, words) in [
            (Stage::WorkOnCpu, "X01", "computing (on CPU): 2.0"),
            (Stage::WorkRunnable, "X03", "while it worked, on CPU 1 behind ffmpeg"),
            (Stage::WorkLock, "X04", "a lock, in futex, woken by lock-holder"),
            (Stage::WorkDisk, "X05", "the disk, in fsync, woken by kworker/1:2"),
            (Stage::WorkSleep, "X06", "sleeping, in clock_nanosleep: 2.0"),
            (Stage::WorkPoll, "X07", "in epoll_wait, woken by postgres"),
            (Stage::Queued, "X09", "busy with other connections"),
            (Stage::Held, "X10", "held back"),
            (Stage::ClientQueued, "X11", "busy with other replies"),
            (Stage::Send, "X12", "send call"),
            (Stage::WorkInterrupts, "X16", "interrupts on the server's CPU"),
            (Stage::WorkStolen, "X18", "took the server's CPU while it worked: 2.0"),
            (Stage::OtherThread, "X13", "another thread of the server took it over: 2.0"),
            (Stage::Away, "X17", "the link and the other host: 2.0"),
            (Stage::ClientSoftirq, "X12", "received the reply"),
        ] {
            let sentences = sentences(&Load { stage, ..Load::default() });
            assert!(
                sentences.len() == 1 && sentences[0].0 == format!("sure {code}") && sentences[0].1.contains(words),
                "{stage:?} {sentences:?}"
            );
        }
        let sentences = sentences(&Load { faults: 4096, ..Load::default() });
        assert!(sentences[0].0 == "sure X02" && sentences[0].1.contains("with 4096 more page faults"), "{sentences:?}");
        let timed = self::sentences(&Load { faults: 4096, stage: Stage::WorkPageFaults, ..Load::default() });
        assert!(timed[0].0 == "sure X02" && timed[0].1.contains("the server's page faults, with 4096"), "{timed:?}");
    }

    #[test]
    fn is_silent_where_slow_requests_are_like_the_others() {
        assert_eq!(sentences(&Load { planted_ns: 0, ..Load::default() }), []);
    }

    #[test]
    fn what_cannot_be_paired_or_was_not_seen_is_not_split() {
        let said_of = sentences(&Load { in_flight: 900, ..Load::default() });
        assert!(
            said_of.len() == 1 && said_of[0].0 == "can't tell X14" && said_of[0].1.contains("in flight"),
            "{said_of:?}"
        );
        let said_of = sentences(&Load { incomplete: 900, ..Load::default() });
        assert!(
            said_of.len() == 1 && said_of[0].0 == "can't tell X15" && said_of[0].1.contains("seen from"),
            "{said_of:?}"
        );
    }
}
