//! Who kept slow requests waiting: the task that had the CPU, the one that ended the block, the one that stopped the thread. Where a block
//! was ended by an interrupt, no task is named: the one that had the CPU then has nothing to do with it.

use std::collections::{BTreeMap, BTreeSet};

use msgpath_core::watch::{Culprit, QUOTA, RequestRow, Stage, by};

use crate::record::{Process, name_of};

/// A name is given where it has this share of the waiting.
const AGREED: f64 = 0.5;

/// What sentences about a server need beside its numbers.
pub(super) struct Known<'a> {
    /// Names of system calls.
    pub(super) call: &'a dyn Fn(i16) -> Option<String>,
    /// Threads that read its requests.
    pub(super) threads: BTreeSet<i32>,
    /// Its process, where something is known of it.
    pub(super) process: Option<&'a Process>,
}

/// Who or what ended a wait.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// A thread of this name.
    Thread(String),
    /// Threads of the server, of several names.
    Own,
    Timer,
    Packet,
    Device,
    /// An interrupt; of a wait for a CPU: it was idle.
    Interrupt,
    /// The quota of a group.
    Quota,
    /// This signal, sent by a thread of this name; 0: a tracer, below: a freezer.
    Signal(i16, String),
}

/// What most of the waiting of several requests was.
pub(super) struct Agreed {
    /// `None`: several, of which none has most of it.
    pub(super) who: Option<Who>,
    /// It is one of the server's own threads.
    pub(super) own: bool,
    /// Its CPU and the call in which the thread blocked, of the longest of its waits.
    pub(super) cpu: u16,
    pub(super) call: i16,
}

/// Where a row keeps who is to blame for a stage. `None`: nobody is; the longest block may be of another stage.
pub(super) fn of(row: &RequestRow, stage: Stage) -> Option<&Culprit> {
    let culprit = match stage {
        Stage::RunQueue => &row.run_there,
        Stage::WorkRunnable => &row.run_work,
        Stage::ClientRunQueue => &row.run_back,
        Stage::Stopped | Stage::WorkStopped | Stage::ClientStopped => &row.stop,
        Stage::WorkPoll
        | Stage::WorkSocket
        | Stage::WorkLock
        | Stage::WorkDisk
        | Stage::WorkSleep
        | Stage::WorkFault
        | Stage::WorkOther => Some(&row.block).filter(|block| block.stage().is_none_or(|own| own == stage))?,
        _ => return None,
    };
    (culprit.ns > 0).then_some(culprit)
}

fn who(culprit: &Culprit, stage: Stage) -> Who {
    let name = name_of(&culprit.name);
    match stage {
        Stage::RunQueue | Stage::WorkRunnable | Stage::ClientRunQueue if culprit.call == QUOTA => Who::Quota,
        Stage::Stopped | Stage::WorkStopped | Stage::ClientStopped => Who::Signal(culprit.call, name),
        _ => match culprit.pid {
            by::TIMER => Who::Timer,
            by::PACKET => Who::Packet,
            by::DEVICE => Who::Device,
            by::INTERRUPT => Who::Interrupt,
            // Threads of the kernel that do what softirqs do.
            _ if name.starts_with("ksoftirqd/") || name.starts_with("napi/") => Who::Packet,
            _ => Who::Thread(name),
        },
    }
}

/// Who is to blame for a stage of these rows. `None`: none of them waited there.
pub(super) fn agreed(rows: &[&RequestRow], stage: Stage, known: &Known) -> Option<Agreed> {
    let mut all = BTreeMap::<Who, (u64, &Culprit)>::new();
    let (mut total, mut own_ns) = (0_u64, 0_u64);
    for culprit in rows.iter().filter_map(|row| of(row, stage)) {
        total = total.saturating_add(culprit.ns);
        if known.threads.contains(&culprit.pid) {
            own_ns = own_ns.saturating_add(culprit.ns);
        }
        let (ns, longest) = all.entry(who(culprit, stage)).or_insert((0, culprit));
        *ns = ns.saturating_add(culprit.ns);
        if culprit.ns > longest.ns {
            *longest = culprit;
        }
    }
    let most = |ns: u64| ns as f64 >= AGREED * total as f64;
    let (who, (ns, longest)) = all.into_iter().max_by_key(|(_, (ns, _))| *ns)?;
    let own = most(own_ns);
    let who = if most(ns) { Some(who) } else { Some(Who::Own).filter(|_| own) };
    Some(Agreed { who, own, cpu: longest.cpu, call: longest.call })
}

/// One row's culprit in words.
pub(super) fn of_row(row: &RequestRow, stage: Stage, known: &Known) -> Option<String> {
    of(row, stage)?;
    let agreed = agreed(&[row], stage, known)?;
    Some(behind(stage, &agreed, known).trim_start_matches(", ").to_owned()).filter(|words| !words.is_empty())
}

/// `, on CPU 1 behind ffmpeg` or `, in futex, woken by lock-holder`.
pub(super) fn behind(stage: Stage, agreed: &Agreed, known: &Known) -> String {
    let Agreed { who, cpu, .. } = agreed;
    match (stage, who) {
        (_, Some(Who::Quota)) => throttled(known),
        (_, Some(Who::Signal(signal, name))) => match *signal {
            0 => ", by a tracer".to_owned(),
            ..0 => ", by the freezer of a cgroup".to_owned(),
            signal => format!(", by {}, sent by {}", signal_name(signal), if name.is_empty() { "?" } else { name }),
        },
        (Stage::RunQueue | Stage::WorkRunnable | Stage::ClientRunQueue, Some(Who::Thread(name))) => {
            format!(", on CPU {cpu} behind {name}")
        }
        (Stage::RunQueue | Stage::WorkRunnable | Stage::ClientRunQueue, _) => String::new(),
        _ => in_call(stage, agreed, known) + &woken_by(stage, agreed),
    }
}

fn throttled(known: &Known) -> String {
    match known.process.and_then(|process| process.quota.as_deref()) {
        Some(quota) => format!(", throttled by the CPU quota of {quota}"),
        None => ", throttled by the CPU quota of its cgroup".to_owned(),
    }
}

fn signal_name(signal: i16) -> String {
    match signal {
        19 => "SIGSTOP".into(),
        20 => "SIGTSTP".into(),
        21 => "SIGTTIN".into(),
        22 => "SIGTTOU".into(),
        other => format!("signal {other}"),
    }
}

fn in_call(stage: Stage, agreed: &Agreed, known: &Known) -> String {
    match (agreed.call, (known.call)(agreed.call)) {
        (..0, _) if stage == Stage::WorkDisk => ", in a page fault (a mapped file, or swap)".to_owned(),
        (..0, _) => String::new(),
        (_, Some(name)) => format!(", in {name}"),
        (number, None) => format!(", in call {number}"),
    }
}

/// What ended a block. A thread may have ended a sleep or a wait for a disk, and has nothing to do with how long it took.
fn woken_by(stage: Stage, agreed: &Agreed) -> String {
    let timed = matches!(stage, Stage::WorkSleep | Stage::WorkFault);
    let Some(who) = agreed.who.as_ref().filter(|_| !timed) else { return String::new() };
    match who {
        Who::Thread(name) if stage == Stage::WorkDisk && !(name.starts_with("kworker") || name.starts_with("jbd2")) => {
            String::new()
        }
        Who::Thread(name) if agreed.own => format!(", woken by {name} (a thread of the server)"),
        Who::Thread(name) => format!(", woken by {name}"),
        Who::Own => ", woken by other threads of the server".to_owned(),
        Who::Packet => ", until a packet came".to_owned(),
        Who::Device if stage != Stage::WorkDisk => ", until the interrupt of a device".to_owned(),
        Who::Interrupt if stage != Stage::WorkDisk => ", until the interrupt of a timer or a device".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing_known() -> Known<'static> {
        Known {
            call: &|call| (call == 202).then(|| "futex".to_owned()),
            threads: BTreeSet::from([5, 6, 7]),
            process: None,
        }
    }

    fn row(stage: Stage, call: i16, ns: u64, pid: i32) -> RequestRow {
        let kind = stage as u8 - Stage::WorkOnCpu as u8;
        let name = std::array::from_fn(|at| if at == 0 { b'a' + pid.unsigned_abs() as u8 } else { 0 });
        RequestRow { block: Culprit { ns, call, kind, pid, name, ..Culprit::default() }, ..RequestRow::default() }
    }

    #[test]
    fn a_block_of_another_kind_is_not_what_a_stage_waited_for() {
        // The first of three requests also waited for a child, longer than for any of its many fsyncs.
        let rows = [
            row(Stage::WorkOther, 61, 31_000, 9),
            row(Stage::WorkDisk, 74, 9_000, 9),
            row(Stage::WorkDisk, 74, 8_000, 9),
        ];
        let rows: Vec<&RequestRow> = rows.iter().collect();
        let known = nothing_known();
        assert_eq!(agreed(&rows, Stage::WorkDisk, &known).unwrap().call, 74);
        assert_eq!(agreed(&rows, Stage::WorkOther, &known).unwrap().call, 61);
        assert!(agreed(&rows, Stage::WorkLock, &known).is_none());
        // A record of before says no kind.
        let old = RequestRow { block: Culprit { ns: 5, call: 202, ..Culprit::default() }, ..RequestRow::default() };
        assert_eq!(agreed(&[&old], Stage::WorkLock, &known).unwrap().call, 202);
    }

    #[test]
    fn only_a_thread_that_woke_by_itself_is_named() {
        let known = nothing_known();
        let said = |stage, call, pids: &[i32]| {
            let rows: Vec<RequestRow> = pids.iter().map(|pid| row(stage, call, 100, *pid)).collect();
            let rows: Vec<&RequestRow> = rows.iter().collect();
            agreed(&rows, stage, &known).map_or_else(String::new, |agreed| behind(stage, &agreed, &known))
        };
        assert_eq!(said(Stage::WorkLock, 202, &[3]), ", in futex, woken by d");
        assert_eq!(said(Stage::WorkLock, 202, &[5, 5, 9]), ", in futex, woken by f (a thread of the server)");
        assert_eq!(said(Stage::WorkLock, 202, &[5, 6, 7]), ", in futex, woken by other threads of the server");
        assert_eq!(said(Stage::WorkLock, 202, &[by::TIMER]), ", in futex");
        assert_eq!(said(Stage::WorkPoll, 3, &[by::PACKET]), ", in call 3, until a packet came");
        assert_eq!(said(Stage::WorkLock, 202, &[1, 2, 3]), ", in futex", "three that have nothing in common");
        assert_eq!(said(Stage::WorkDisk, -1, &[by::DEVICE]), ", in a page fault (a mapped file, or swap)");
    }
}
