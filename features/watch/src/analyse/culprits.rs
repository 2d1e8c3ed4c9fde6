//! Who kept slow requests waiting: the task that had the CPU, or the one that ended the block.

use std::collections::BTreeMap;

use msgpath_core::watch::{Culprit, RequestRow, Stage};

use crate::record::name_of;

/// What is known of the waits of several requests.
pub(super) struct Agreed {
    /// The name that took most of the time.
    pub(super) name: String,
    /// Its CPU and the call in which the thread blocked, of the longest of its waits.
    pub(super) cpu: u16,
    pub(super) call: i16,
    /// Share of the time of all waits.
    pub(super) share: f64,
}

/// Where a row keeps who is to blame for a stage. `None`: nobody is; the longest block may be of another stage.
pub(super) fn of(row: &RequestRow, stage: Stage) -> Option<&Culprit> {
    let culprit = match stage {
        Stage::RunQueue => &row.run_there,
        Stage::WorkRunnable => &row.run_work,
        Stage::ClientRunQueue => &row.run_back,
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

/// Who is to blame for a stage of these rows.
pub(super) fn agreed(rows: &[&RequestRow], stage: Stage) -> Option<Agreed> {
    let mut names = BTreeMap::<[u8; 16], (u64, &Culprit)>::new();
    let mut total = 0_u64;
    for culprit in rows.iter().filter_map(|row| of(row, stage)) {
        total = total.saturating_add(culprit.ns);
        let (ns, longest) = names.entry(culprit.name).or_insert((0, culprit));
        *ns = ns.saturating_add(culprit.ns);
        if culprit.ns > longest.ns {
            *longest = culprit;
        }
    }
    let (_, (ns, longest)) = names.into_iter().max_by_key(|(_, (ns, _))| *ns)?;
    Some(Agreed { name: shown(longest), cpu: longest.cpu, call: longest.call, share: ns as f64 / total.max(1) as f64 })
}

/// A task's name; an idle CPU has none.
fn shown(culprit: &Culprit) -> String {
    match culprit.pid {
        0 => String::new(),
        _ => name_of(&culprit.name),
    }
}

/// One row's culprit in words.
pub(super) fn of_row(row: &RequestRow, stage: Stage, call: &dyn Fn(i16) -> Option<String>) -> Option<String> {
    let culprit = of(row, stage)?;
    let name = shown(culprit);
    Some(match stage {
        Stage::RunQueue | Stage::WorkRunnable | Stage::ClientRunQueue => format!("CPU {} behind {name}", culprit.cpu),
        _ => {
            let call = call(culprit.call).unwrap_or_else(|| format!("call {}", culprit.call));
            match woken_by(stage, &name) {
                None => format!("{call}, ended by a timer or device"),
                Some(name) => format!("{call}, woken by {name}"),
            }
        }
    })
}

/// Who ended a block, where that is somebody: an interrupt ends a sleep or a wait for a disk, and whom it interrupted has nothing to
/// do with it.
pub(super) fn woken_by(stage: Stage, name: &str) -> Option<&str> {
    let of_kernel = name.starts_with("kworker") || name.starts_with("jbd2");
    let somebody = match stage {
        Stage::WorkSleep | Stage::WorkFault => false,
        Stage::WorkDisk => of_kernel,
        _ => true,
    };
    (somebody && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_another_kind_is_not_what_a_stage_waited_for() {
        let row = |stage: Stage, call: i16, ns: u64| {
            let kind = stage as u8 - Stage::WorkOnCpu as u8;
            RequestRow { block: Culprit { ns, call, kind, ..Culprit::default() }, ..RequestRow::default() }
        };
        // The first of three requests also waited for a child, longer than for any of its many fsyncs.
        let rows =
            [row(Stage::WorkOther, 61, 31_000), row(Stage::WorkDisk, 74, 9_000), row(Stage::WorkDisk, 74, 8_000)];
        let rows: Vec<&RequestRow> = rows.iter().collect();
        assert_eq!(agreed(&rows, Stage::WorkDisk).unwrap().call, 74);
        assert_eq!(agreed(&rows, Stage::WorkOther).unwrap().call, 61);
        assert!(agreed(&rows, Stage::WorkLock).is_none());
        // A record of before says no kind.
        let old = RequestRow { block: Culprit { ns: 5, call: 202, ..Culprit::default() }, ..RequestRow::default() };
        assert_eq!(agreed(&[&old], Stage::WorkLock).unwrap().call, 202);
    }
}
