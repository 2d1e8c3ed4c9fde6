//! What stages have in common and what they are called: one cause may show in several of them.

use std::collections::BTreeSet;

use msgpath_analyse::summary::Confidence;
use msgpath_core::units::Glyphs;
use msgpath_core::watch::{RequestRow, Stage};

use super::culprits::{self, Agreed, Known, Who, behind};
use crate::record::{Runtime, flag};

/// A cause that takes a smaller share is not named.
const LEAST_SHARE: f64 = 0.2;
/// From this share on, and where both halves of the rows agree, it is sure.
const SURE_SHARE: f64 = 0.5;
/// Causes that are named.
const MOST: usize = 3;
/// A wait for an acknowledgement is a cause from so many ns on, and where this share of the rows has one.
const NAGLED_NS: f64 = 1e6;
const NAGLED_SHARE: f64 = 0.5;

/// A stage, and its time in the requests that it is compared with and in those that are explained, ns.
pub(super) type Change = (Stage, f64, f64);

/// What took a share of the time.
pub(super) struct Cause {
    pub(super) stages: Vec<Stage>,
    pub(super) share: f64,
    pub(super) before: f64,
    pub(super) now: f64,
    pub(super) words: String,
    pub(super) confidence: Confidence,
}

/// Stages with the same key are one cause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    Stage(Stage),
    /// The quota of a group.
    Quota,
    /// The server was stopped.
    Stopped,
    /// All threads of a JVM stood still.
    Pause,
    /// A runtime moves requests between its threads.
    NotFollowed,
}

/// Stages of one key, each with who is to blame for it.
type Group = (Key, Vec<(Change, Option<Agreed>)>);

/// Words of a stage: what happened, for a sentence that begins with a share.
fn happened(stage: Stage) -> &'static str {
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
        Stage::WorkFault => "the server blocking in a page fault",
        Stage::WorkOther => "the server blocking",
        Stage::Stopped | Stage::WorkStopped => "the server being stopped",
        Stage::ClientStopped => "the client being stopped before it read the reply",
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

/// Stages in which a runtime that moves requests between its threads is at work, and those threads say nothing of the request.
fn is_of_the_runtime(stage: Stage) -> bool {
    matches!(
        stage,
        Stage::WorkLock
            | Stage::WorkPoll
            | Stage::WorkSocket
            | Stage::WorkSleep
            | Stage::WorkOther
            | Stage::WorkElsewhere
            | Stage::OtherThread
            | Stage::Queued
            | Stage::Held
    )
}

fn key(stage: Stage, agreed: Option<&Agreed>, known: &Known) -> Key {
    let runtime = known.process.and_then(|process| process.runtime);
    match (stage, agreed.and_then(|agreed| agreed.who.as_ref())) {
        _ if runtime == Some(Runtime::Go) && is_of_the_runtime(stage) => Key::NotFollowed,
        (Stage::RunQueue | Stage::WorkRunnable, Some(Who::Quota)) => Key::Quota,
        (Stage::Stopped | Stage::WorkStopped, _) => Key::Stopped,
        (Stage::WorkLock, Some(who)) if runtime == Some(Runtime::Jvm) && pauses(who) => Key::Pause,
        _ => Key::Stage(stage),
    }
}

/// The JVM's thread that stops all others, for garbage collection and other safepoints.
fn pauses(who: &Who) -> bool {
    matches!(who, Who::Thread(name) if name == "VM Thread")
}

/// Whether most of the rows that a stage takes most of fall into a pause of the JVM that others of them have seen.
fn within_pauses(rows: &[&RequestRow], stage: Stage, known: &Known) -> bool {
    let end = |row: &RequestRow| row.t0_ns.saturating_add(row.total_ns);
    let paused: Vec<&&RequestRow> = rows
        .iter()
        .filter(|row| {
            culprits::agreed(&[row], Stage::WorkLock, known)
                .and_then(|agreed| agreed.who)
                .is_some_and(|who| pauses(&who))
        })
        .collect();
    let own: Vec<&&RequestRow> = rows.iter().filter(|row| super::largest(row) == stage).collect();
    let inside = |row: &&&RequestRow| paused.iter().any(|pause| row.t0_ns < end(pause) && pause.t0_ns < end(row));
    !own.is_empty() && own.iter().filter(|row| inside(row)).count() * 2 > own.len()
}

/// The causes of a difference that take enough of it, the largest first. `rows`: the requests that are explained, in the order of time.
pub(super) fn of(changes: &[Change], whole: f64, rows: &[&RequestRow], known: &Known) -> Vec<Cause> {
    let mut groups: Vec<Group> = Vec::new();
    for change in changes {
        let agreed = culprits::agreed(rows, change.0, known);
        let key = key(change.0, agreed.as_ref(), known);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push((*change, agreed)),
            None => groups.push((key, vec![(*change, agreed)])),
        }
    }
    join_pauses(&mut groups, rows, known);
    let cause = |(key, mut group): Group| {
        group.sort_by(|((_, a, b), _), ((_, c, d), _)| (d - c).total_cmp(&(b - a)));
        let sum = |ns: fn(&Change) -> f64| group.iter().map(|(change, _)| ns(change)).sum::<f64>();
        let (before, now) = (sum(|change| change.1), sum(|change| change.2));
        let stages: Vec<Stage> = group.iter().map(|((stage, ..), _)| *stage).collect();
        let share = (now - before) / whole.max(1.0);
        let confidence = match key {
            Key::NotFollowed => Confidence::CantTell,
            _ if share >= SURE_SHARE && halves_agree(rows, &stages) => Confidence::Sure,
            _ => Confidence::Likely,
        };
        let mut words = words(key, &stages, group[0].1.as_ref(), known);
        words += &mechanism(&stages, now - before, rows).unwrap_or_default();
        if key == Key::Stage(Stage::WorkLock) {
            words += &queue(rows);
        }
        Cause { stages, share, before, now, words, confidence }
    };
    let mut causes: Vec<Cause> = groups.into_iter().map(cause).filter(|cause| cause.share >= LEAST_SHARE).collect();
    causes.sort_by(|a, b| b.share.total_cmp(&a.share));
    causes.truncate(MOST);
    causes
}

/// A pause of the JVM stops all its threads at once: what other requests waited for meanwhile is the same pause.
fn join_pauses(groups: &mut Vec<Group>, rows: &[&RequestRow], known: &Known) {
    let Some(at) = groups.iter().position(|(key, _)| *key == Key::Pause) else { return };
    let (_, mut paused) = groups.remove(at);
    let joins = |(key, _): &mut (Key, Vec<_>)| matches!(key, Key::Stage(stage) if within_pauses(rows, *stage, known));
    paused.extend(groups.extract_if(.., joins).flat_map(|(_, group)| group));
    groups.push((Key::Pause, paused));
}

fn words(key: Key, stages: &[Stage], agreed: Option<&Agreed>, known: &Known) -> String {
    let stage = stages[0];
    let who = agreed.and_then(|agreed| agreed.who.as_ref());
    let timed = matches!(stage, Stage::WorkPoll | Stage::WorkSocket | Stage::WorkLock | Stage::WorkOther);
    let what = match key {
        Key::Quota => "the server being kept from the CPU",
        Key::Pause => {
            return "a pause of the JVM, in which all its threads stand still (a safepoint, as garbage collection has them; ended by \
                    VM Thread)"
                .to_owned();
        }
        Key::NotFollowed => {
            return "in the scheduler of Go, which moves requests between threads: what a request waits for there cannot be followed"
                .to_owned();
        }
        _ if timed && who == Some(&Who::Timer) => "the server waiting until its time was over (a timeout)",
        _ => happened(stage),
    };
    what.to_owned() + &agreed.map_or_else(String::new, |agreed| behind(stage, agreed, known))
}

/// Nagle's algorithm: an end sends a message in small parts, and the kernel keeps the next one until the other end acknowledges.
fn mechanism(stages: &[Stage], ns: f64, rows: &[&RequestRow]) -> Option<String> {
    let side = match stages[0] {
        Stage::Send | Stage::SendOut | Stage::WorkPoll | Stage::WorkSocket | Stage::WorkOther => 0,
        Stage::Reply | Stage::ReplyOut | Stage::Rest | Stage::ClientWakeUp | Stage::ClientOtherThread | Stage::Away => {
            1
        }
        _ => return None,
    };
    let nagled = rows.iter().filter(|row| row.flags & flag::NAGLED[side] != 0).count();
    if ns < NAGLED_NS || (nagled as f64) < NAGLED_SHARE * rows.len() as f64 {
        return None;
    }
    let [sender, receiver, what] =
        if side == 0 { ["client", "server", "request"] } else { ["server", "client", "reply"] };
    Some(format!(
        ": the {sender} sends a {what} in several small parts, and Nagle's algorithm keeps all but the first until the {receiver}'s delayed \
         acknowledgement (TCP_NODELAY, or one send call for each {what})"
    ))
}

/// How many requests wait for a lock at once, where it is more than one: halfway through each of these.
fn queue(rows: &[&RequestRow]) -> String {
    let waiting: Vec<&&RequestRow> = rows.iter().filter(|row| row.stage(Stage::WorkLock) * 2 > row.total_ns).collect();
    let mut begins: Vec<u64> = waiting.iter().map(|row| row.t0_ns).collect();
    let mut ends: Vec<u64> = waiting.iter().map(|row| row.t0_ns.saturating_add(row.total_ns)).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let at_once = |row: &&&RequestRow| {
        let middle = row.t0_ns.saturating_add(row.total_ns / 2);
        begins.partition_point(|begin| *begin <= middle) - ends.partition_point(|end| *end < middle)
    };
    let mean = waiting.iter().map(at_once).sum::<usize>() as f64 / waiting.len().max(1) as f64;
    if mean < 1.5 { String::new() } else { format!(", {mean:.1} requests waiting for it at once") }
}

/// The stages take most of the time in the first half of the rows as in the second.
fn halves_agree(rows: &[&RequestRow], stages: &[Stage]) -> bool {
    let (first, second) = rows.split_at(rows.len() / 2);
    let own: BTreeSet<Stage> = stages.iter().copied().collect();
    [first, second].iter().all(|rows| {
        let sum = |stage: Stage| rows.iter().map(|row| row.stage(stage) as f64).sum::<f64>();
        let together: f64 = own.iter().map(|stage| sum(*stage)).sum();
        !rows.is_empty()
            && Stage::ALL.into_iter().filter(|stage| !own.contains(stage)).all(|stage| sum(stage) <= together)
    })
}

pub(super) fn time(ns: f64) -> String {
    Glyphs::Unicode.time(ns)
}
