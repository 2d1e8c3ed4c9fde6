//! What a message costs: CPU time, system calls, switches, faults, copies.

use msgpath_core::plan::{Case, Plan};
use msgpath_core::schema::{Counted, EndReport, ProcessSpent, RoundRecord};
use msgpath_core::traits::Copies;
use msgpath_core::{CallCounts, ZeroCopyCounts};

use crate::summary::{Cost, ProcessCost};

/// Messages that one end handled in a round: the larger of sent and received, so that lost ones count where they
/// were sent.
pub(crate) fn handled(end: &EndReport) -> u64 {
    end.delivery.sent.max(end.delivery.received)
}

/// Mean cost of a message at one end over all rounds, by the messages that it handled; all 0 where there was none.
pub fn cost(ends: &[&EndReport]) -> Cost {
    each_of(ends, ends.iter().map(|end| handled(end)).sum())
}

/// What is known of the cost of a message at an end: all of it, or its CPU time alone.
pub(crate) fn known(counted: Counted, ends: &[&EndReport], near: u64) -> Cost {
    match counted {
        Counted::All => cost(ends),
        Counted::AllButCalls => Cost { calls_unread: true, ..cost(ends) },
        Counted::CpuTime => Cost { cpu_only: true, ..each_of(ends, near) },
        Counted::Nothing => Cost { unread: true, ..cost(ends) },
    }
}

fn each_of(ends: &[&EndReport], messages: u64) -> Cost {
    if messages == 0 {
        return Cost::default();
    }
    let each = |of: &dyn Fn(&EndReport) -> u64| ends.iter().map(|end| of(end)).sum::<u64>() as f64 / messages as f64;
    Cost {
        unread: false,
        cpu_only: false,
        calls_unread: false,
        user_ns: each(&|end| end.user_ns),
        system_ns: each(&|end| end.system_ns),
        calls: each(&|end| end.calls.total_calls()),
        voluntary: each(&|end| end.voluntary_switches),
        involuntary: each(&|end| end.involuntary_switches),
        faults: each(&|end| end.minor_faults + end.major_faults),
        run_delay_ns: ends
            .iter()
            .all(|end| end.run_delay_ns.is_some())
            .then(|| each(&|end| end.run_delay_ns.unwrap_or_default())),
    }
}

/// What the process of an end spent by what it spent in each round, with the messages of that round; `None`: it was not read in every one
/// of them.
pub(crate) fn process(rounds: &[(Option<ProcessSpent>, u64)]) -> Option<ProcessCost> {
    let mut sum = rounds.first()?.0?;
    for (round, _) in &rounds[1..] {
        sum.add(round.as_ref()?);
    }
    let messages_of = |round: fn(&ProcessSpent) -> bool| {
        let rounds = rounds.iter().filter(|(spent, _)| spent.as_ref().is_some_and(round));
        rounds.fold(0_u64, |sum, (_, messages)| sum.saturating_add(*messages))
    };
    let (messages, counted) = (messages_of(|_| true), messages_of(|spent| spent.system_calls.is_some()));
    let each = |count: u64| count as f64 / messages as f64;
    (messages > 0).then(|| ProcessCost {
        cpu_ns: each(sum.cpu_ns),
        voluntary: each(sum.voluntary_switches),
        involuntary: each(sum.involuntary_switches),
        minor_faults: each(sum.minor_faults),
        major_faults: each(sum.major_faults),
        disk_read_bytes: sum.disk_read_bytes,
        disk_written_bytes: sum.disk_written_bytes,
        run_queue_ns: sum.run_queue_ns.map(each),
        system_calls: sum.system_calls.filter(|_| counted > 0).map(|calls| calls as f64 / counted as f64),
        resident_growth_bytes: sum.resident_growth_bytes,
        data_growth_bytes: sum.data_growth_bytes,
        peak_resident_bytes: sum.peak_resident_bytes,
    })
}

/// Why the counters of an end are n/a where nobody read them.
pub const UNREAD: &str =
    "nobody read the counters of this end: a server that is called keeps its own, an imported log has none";

/// Why all but the CPU time of an end is n/a.
pub const CPU_ONLY: &str = "the far end is a program of others, whose CPU time is all that is seen from outside";

/// Why the system calls of an end are n/a.
pub const OF_A_LIBRARY: &str = "a library makes the system calls of a layer, and nobody counts them";

/// Why the counters of an end are n/a.
pub fn why_unread(cost: &Cost) -> &'static str {
    match cost {
        Cost { cpu_only: true, .. } => CPU_ONLY,
        Cost { calls_unread: true, .. } => OF_A_LIBRARY,
        _ => UNREAD,
    }
}

/// System calls of one end, all rounds.
pub fn calls<'a>(ends: impl Iterator<Item = &'a EndReport>) -> CallCounts {
    ends.fold(CallCounts::default(), |mut sum, end| {
        sum.add(&end.calls);
        sum
    })
}

/// Zero-copy bookkeeping of both ends, all rounds; `None` where nothing asked for zero copy.
pub fn zerocopy(rounds: &[&RoundRecord]) -> Option<ZeroCopyCounts> {
    let mut sum = ZeroCopyCounts::default();
    for round in rounds {
        sum.add(&round.near().zerocopy);
        sum.add(&round.far().zerocopy);
    }
    (sum.asked > 0).then_some(sum)
}

/// Bytes copied per message, both ends and (echo) both directions, with the reading; `None` with the reason.
pub fn copied(plan: &Plan, case: &Case, rounds: &[&RoundRecord]) -> (Option<f64>, String) {
    let messages: u64 = rounds.iter().map(|round| handled(round.near()).max(handled(round.far()))).sum();
    if messages == 0 {
        return (None, "n/a: no message was measured".into());
    }
    if let Err(why) = plan.workload.copies {
        return (None, format!("n/a: {why}"));
    }
    let echoed = plan.workload.is_echoed();
    let travelled = if echoed { case.size + case.reply } else { case.size } as f64;
    if case.traits.program {
        return (None, "n/a: what a program of others copies is not known".into());
    }
    if case.traits.copies == Copies::Program {
        return (Some(2.0 * travelled), "by the program: one copy into the ring and one out, each direction".into());
    }
    if case.traits.copies == Copies::Unknown {
        return (None, format!("n/a: how often {} copies is not known", case.path.transport));
    }
    if case.traits.copies == Copies::Once {
        return (Some(travelled), "by the kernel: one copy each direction, from memory to memory".into());
    }
    if case.traits.maps {
        return (None, "n/a: what the kernel maps it does not copy (W20)".into());
    }
    if case.traits.lends {
        return (Some(travelled), "by the kernel: one copy out, each direction; the sender's pages are lent".into());
    }
    if case.traits.untouched && echoed {
        return (Some(travelled), "by the kernel: one copy in and one out, at the near end alone".into());
    }
    let mut in_and_out = 2.0 * travelled;
    let mut why = String::from("by the kernel: one copy in and one out, each direction");
    if let Some(zero) = zerocopy(rounds) {
        let answered = zero.zero_copied + zero.copied;
        if answered == 0 {
            return (None, "n/a: the kernel did not say whether zero-copy sends were copied".into());
        }
        let avoided = zero.zero_copied as f64 / answered as f64;
        in_and_out -= travelled * avoided;
        why = format!(
            "by the kernel: one copy out, each direction, and one in for the {} of {answered} zero-copy sends that it \
             reported as copied",
            zero.copied
        );
        if zero.unanswered > 0 {
            why.push_str(&format!("; {} sends without an answer are taken to be alike", zero.unanswered));
        }
    }
    let program: u64 =
        rounds.iter().map(|round| round.near().calls.copied_bytes + round.far().calls.copied_bytes).sum();
    if program > 0 {
        why.push_str("; by the program: putting the pieces together");
    }
    (Some(in_and_out + program as f64 / messages as f64), why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Build;

    fn of(path: &str, change: impl Fn(&mut RoundRecord)) -> (Option<f64>, String) {
        let mut run = Build::echo(&[path], &[1000]).run();
        run.rounds.iter_mut().for_each(change);
        let rounds: Vec<_> = run.rounds.iter().collect();
        copied(&run.header.plan, &run.header.plan.cases[0], &rounds)
    }

    #[test]
    fn copies_are_counted_as_far_as_known() {
        assert_eq!(of("tcp:send", |_| ()).0, Some(4000.0));
        assert_eq!(of("shm:ring/spin", |_| ()).0, Some(4000.0));
        assert_eq!(of("pipe:no-such", |_| ()).0, None);
        assert_eq!(of("tcp:zerocopy/zc-receive", |_| ()).0, None);
        for once in ["pipe:splice", "pipe:vmsplice", "tcp:sendfile", "procvm:fetch/futex"] {
            assert_eq!(of(once, |_| ()).0, Some(2000.0), "{once}");
        }
        assert_eq!(of("eth:send", |_| ()).0, None);
        let (bytes, why) =
            of("tcp:flatten", |round| round.near_mut().calls.copied_bytes = 1000 * round.near().delivery.sent);
        assert_eq!(bytes, Some(5000.0));
        assert!(why.contains("by the program"));
    }

    #[test]
    fn a_process_is_known_where_every_round_read_it() {
        let round =
            |disk| ProcessSpent { cpu_ns: 100, voluntary_switches: 4, disk_read_bytes: disk, ..Default::default() };
        let found = process(&[(Some(round(Some(4096))), 6), (Some(round(Some(0))), 2)]).unwrap();
        assert_eq!((found.cpu_ns, found.voluntary, found.disk_read_bytes), (25.0, 1.0, Some(4096)));
        let unread = process(&[(Some(round(Some(1))), 4), (Some(round(None)), 4)]).unwrap();
        assert_eq!((unread.disk_read_bytes, unread.system_calls, unread.run_queue_ns), (None, None, None));
        assert_eq!((process(&[(Some(round(None)), 4), (None, 4)]), process(&[])), (None, None));
        assert_eq!(process(&[(Some(round(None)), 0)]), None);
        let most = ProcessSpent { cpu_ns: u64::MAX, data_growth_bytes: Some(i64::MAX), ..Default::default() };
        assert!(process(&[(Some(most), u64::MAX), (Some(most), 1)]).is_some(), "a record may say anything");
    }

    #[test]
    fn system_calls_are_those_of_the_rounds_in_which_they_were_counted() {
        let round = |system_calls, growth, peak| ProcessSpent {
            system_calls,
            run_queue_ns: Some(400),
            resident_growth_bytes: Some(growth),
            data_growth_bytes: Some(growth),
            peak_resident_bytes: Some(peak),
            ..Default::default()
        };
        let rounds = [(round(None, 8192, 100), 10), (round(Some(60), -4096, 300), 20), (round(None, 0, 200), 10)];
        let found = process(&rounds.map(|(spent, messages)| (Some(spent), messages))).unwrap();
        assert_eq!((found.system_calls, found.run_queue_ns), (Some(3.0), Some(30.0)));
        assert_eq!((found.resident_growth_bytes, found.peak_resident_bytes), (Some(4096), Some(300)));
        // An older record knows none of these.
        let old: ProcessSpent = serde_json::from_str(
            r#"{"cpu_ns":1,"voluntary_switches":0,"involuntary_switches":0,"minor_faults":0,"major_faults":0,"disk_read_bytes":null,"disk_written_bytes":null}"#,
        )
        .unwrap();
        let found = process(&[(Some(old), 1)]).unwrap();
        assert_eq!((found.cpu_ns, found.data_growth_bytes, found.peak_resident_bytes), (1.0, None, None));
    }

    #[test]
    fn zero_copy_saves_only_what_the_kernel_reports() {
        let zero = |zero_copied, copied| {
            move |round: &mut RoundRecord| {
                round.near_mut().zerocopy = ZeroCopyCounts { asked: 100, zero_copied, copied, ..Default::default() };
                round.far_mut().zerocopy = round.near().zerocopy;
            }
        };
        assert_eq!(of("tcp:zerocopy", zero(0, 100)).0, Some(4000.0));
        assert_eq!(of("tcp:zerocopy", zero(100, 0)).0, Some(2000.0));
        assert_eq!(of("tcp:zerocopy", zero(0, 0)).0, None);
    }

    #[test]
    fn costs_are_per_message_and_missing_ones_stay_missing() {
        let mut end = EndReport { user_ns: 300, run_delay_ns: Some(10), ..Default::default() };
        end.delivery.sent = 10;
        end.calls.send_calls = 20;
        let other = EndReport { run_delay_ns: None, ..end };
        assert_eq!((cost(&[&end, &end]).user_ns, cost(&[&end]).calls), (30.0, 2.0));
        assert_eq!((cost(&[&end]).run_delay_ns, cost(&[&end, &other]).run_delay_ns), (Some(1.0), None));
        assert_eq!(cost(&[&EndReport::default()]), Cost::default());
        // A program of others has counted no message; the near end has.
        let program = EndReport { user_ns: 5_000, ..EndReport::default() };
        let known = known(Counted::CpuTime, &[&program], 10);
        assert_eq!((known.user_ns, known.cpu_only, why_unread(&known)), (500.0, true, CPU_ONLY));
        assert!(super::known(Counted::Nothing, &[&program], 10).unread);
    }
}
