//! W46: the CPUs were not the run's alone
//!
//! * **Other work**: in how many rounds other tasks were in the way, how long the threads waited for a CPU, whether
//!   those rounds are the slow ones, whose work it mostly was.
//! * **Interrupts**: how many a second a measuring CPU took beyond what messages and tick explain, in how many rounds.
//! * **Speed**: how much longer the same computing took before the slowest tenth of the rounds than before the fastest;
//!   the governor.
//!
//! ## What it rests on
//!
//! * **Other work**: run delay (`schedstat`) less throttled time (W41), involuntary switches, `/proc/pressure/cpu`. A
//!   round counts where a pinned thread was taken off its CPU more than 100 times a second; waited 10 % in waits of 0.2
//!   ms on average; waited three times as long as in the case's quiet quarter and 10 % more; waited 5 % while `doctor`
//!   saw CPUs short; or where the CPUs were busy two ticks and 10 % beyond the own threads and the usual. Such rounds
//!   are not in the headline ([principle 6](docs/principles.md)). From three rounds and a tenth on.
//! * **Whose**: `/proc/PID/stat` of all tasks at the near end, at most once a second between rounds: the task with the
//!   most CPU time on a measuring CPU. It is called the cause only if it used half of what the threads waited; in
//!   traced rounds the switches name it. `n/a` where `/proc` hides tasks, none lasted, or only the far machine was
//!   shared. Where this run did not start all ends, no `msgpath` is named.
//! * **Interrupts**: `/proc/interrupts` of pinned CPUs. Expected: two a message, two more for each 16 KiB, 1000 a
//!   second. A round counts with half more and 5000 a second beyond.
//! * **Speed**: a fixed piece of computing before each round. More than 1 % between the tenths, a rank correlation with
//!   the medians (p below 0.01) in both halves, and 1 % between the slower and the faster half.
//!
//! ## What to do
//!
//! Stop the other work, or use other CPUs (`--cpu`; `msgpath doctor` names quiet ones). Move interrupts: stop
//! irqbalance, write `/proc/irq/N/smp_affinity`. Speed: governor `performance`, turbo off (`msgpath doctor --fix`).
//! Otherwise compare paths in one run. The run's own threads in each other's way: W28.

use msgpath_core::schema::{NEAR, RoundRecord};

use super::conditions::{End, contrast, ends, machines, measured_rounds, of_rounds, pressure};
use super::one_core::shared_cpus;
use super::spinning::crowds;
use super::wording::{measured, percent, warning};
use super::{Detector, Input, Sentence};
use crate::section;

pub(super) const DETECTOR: Detector = Detector { code: "W46", detect };

/// Fewer rounds than this share do not change what the numbers mean.
const ROUNDS: f64 = 0.1;
/// A share of a CPU from which on a task that last ran on a measuring CPU is named before busier ones elsewhere.
const WORTH_NAMING: f64 = 0.05;
/// And fewer than this are an accident.
const FEWEST: usize = 3;

fn detect(input: &Input) -> Vec<Sentence> {
    // Where the run's own threads are in each other's way, there is another sentence for it.
    let threads = measured(input).map(|case| case.case.threads as usize).max().unwrap_or(0);
    if shared_cpus(input).is_some() || !crowds(input, threads, threads).is_empty() {
        return Vec::new();
    }
    say(input).into_iter().collect()
}

fn say(input: &Input) -> Option<Sentence> {
    let rounds = measured_rounds(input);
    let watched = ends(input);
    let is = |round: &RoundRecord| input.calm.disturbed(round).iter().any(|end| end.shared);
    let some: Vec<&RoundRecord> = rounds.iter().copied().filter(|round| is(round)).collect();
    if some.len() < FEWEST || (some.len() as f64) < ROUNDS * rounds.len() as f64 {
        return None;
    }
    let mean_waiting = |end: &End| {
        let shares: Vec<f64> = some.iter().filter_map(|round| end.seen(round).waiting_share()).collect();
        if shares.is_empty() { f64::NAN } else { msgpath_stats::describe::mean(&shares) }
    };
    // NaN loses in `max`: an end whose wait is not known does not hide the other's.
    let waited = watched.iter().map(mean_waiting).fold(f64::NAN, f64::max);
    let off: u64 = some.iter().map(|round| round.near().involuntary_switches + round.far().involuntary_switches).sum();
    let pressure = machines(input)
        .iter()
        .filter_map(|end| pressure(end, &some, "pressure.cpu.some_usec"))
        .fold(f64::NAN, f64::max);
    let mut parts = Vec::new();
    if waited >= 0.01 {
        parts.push(format!("waited {} % of their time for a CPU", percent(waited)));
    }
    if off > 0 {
        parts.push(format!("were taken off it {} times", off));
    }
    if parts.is_empty() {
        parts.push("waited for a CPU".into());
    }
    let mut text = format!(
        "other work shared the CPUs: in {} the measuring threads {}",
        of_rounds(some.len(), rounds.len()),
        parts.join(" and ")
    );
    if pressure >= 0.01 {
        text.push_str(&format!(" (pressure on the CPUs {} % of the time)", percent(pressure.min(1.0))));
    }
    let here = input.run.header.one_machine() || some.iter().any(|round| input.calm.disturbed(round)[NEAR].shared);
    text.push_str(&whose(input, here, waited));
    let contrast = contrast(input, &rounds, is);
    Some(warning(
        "W46",
        format!("{text}; {}", contrast.clause),
        "the time that others run appears as this program's slow messages",
        "stop the other work, or take CPUs that nobody uses: --cpu (msgpath doctor says what is quiet)",
        [
            ("disturbed_rounds", some.len() as f64),
            ("rounds", rounds.len() as f64),
            ("waiting_share", waited),
            ("involuntary_switches", off as f64),
            ("cpu_pressure_share", pressure),
            ("level_ratio", contrast.level),
            ("slow_share_disturbed", contrast.slow_with),
            ("slow_share_others", contrast.slow_without),
        ],
    ))
}

/// `, mostly cc1plus (pid 4711, 61 % of a CPU)`: who used most CPU time of those that last ran on a measuring CPU, else of
/// all; where samples name nobody who used a hundredth of a CPU, who held it while a receiver was runnable, if the kernel
/// was traced; else why nobody can be named. `here`: it was so on this machine, and not only on the far end's, whose tasks
/// nobody tells us. `waited`: the share of their time that the measuring threads waited, which a task must explain half of to be called
/// the one that it mostly was.
fn whose(input: &Input, here: bool, waited: f64) -> String {
    if !here {
        return ", whose is n/a: it was at the far end, which does not report its tasks over a network".into();
    }
    let one_machine = input.run.header.one_machine();
    let own = ends(input).into_iter().enumerate().filter(|(at, _)| one_machine || *at == NEAR);
    let pinned: Vec<u32> = own.flat_map(|(_, end)| end.pinned.to_vec()).collect();
    let others = || input.run.header.others.iter().filter(|task| task.share >= 0.01);
    let near = others().find(|task| task.share >= WORTH_NAMING && task.cpu.is_some_and(|cpu| pinned.contains(&cpu)));
    if let Some(task) = near.or_else(|| others().next()) {
        let who = format!("{} (pid {}, {} % of a CPU)", task.name, task.pid, percent(task.share));
        return if waited > 2.0 * task.share {
            format!(", whose is not clear: of the tasks that were seen {who} used most")
        } else {
            format!(", mostly {who}")
        };
    }
    if let Some(clause) = section::all().find_map(|section| (section.holder)(input)) {
        return clause;
    }
    let why = input.run.header.others_unseen.as_deref();
    format!(", whose is n/a: {}", why.unwrap_or("no task that lasted used a hundredth of a CPU"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, doctor, sentences, stalls};
    use msgpath_core::doctor::CheckState;
    use msgpath_core::plan::Placement;
    use msgpath_core::schema::{EndReport, Environment, FAR, NEAR, OtherTask, QUOTA, RoundRecord};

    /// Rounds of 40 ms with 200 wake-ups; each costs 5 µs of waiting (2.5 %).
    fn run(change: impl Fn(usize, &mut RoundRecord)) -> msgpath_record::Run {
        let mut build = Build::echo(&["tcp:send"], &[64]);
        build.plan.placement = Placement::pair(vec![0], vec![1]);
        let mut run = build.run();
        run.header.ends[NEAR].counters = vec!["pressure.cpu.some_usec".into()];
        for (at, round) in run.rounds.iter_mut().enumerate() {
            for end in round.reports_mut() {
                (end.voluntary_switches, end.run_delay_ns) = (200, Some(1_000_000));
            }
            change(at, round);
        }
        run
    }

    #[test]
    fn speaks_of_waiting_and_of_what_it_did() {
        let run = run(|at, round| {
            if at % 4 == 0 {
                round.far_mut().run_delay_ns = Some(9_000_000);
                round.far_mut().involuntary_switches = 7;
                round.end_mut(NEAR).kernel.0.insert("pressure.cpu.some_usec".into(), 8_000);
                stalls(round, 4, 2_000_000);
            }
        });
        let texts = sentences(&run, &super::DETECTOR);
        assert!(
            texts[0].starts_with(
                "other work shared the CPUs: in 10 of 40 rounds the measuring threads waited 22 % of their time for a CPU and were taken off it 70 times (pressure on the CPUs 20 % of the time), whose is n/a: no task that lasted used a hundredth of a CPU; "
            ),
            "{texts:?}"
        );
        assert!(texts[0].contains("% of their messages are as slow as the p99"), "{texts:?}");
    }

    #[test]
    fn speaks_where_every_round_is_disturbed() {
        let preempted = run(|_, round| round.near_mut().involuntary_switches = 20);
        assert!(
            sentences(&preempted, &super::DETECTOR)[0].contains("in 40 of 40 rounds"),
            "{:?}",
            sentences(&preempted, &super::DETECTOR)
        );
        let mut crowd = run(|_, round| round.near_mut().run_delay_ns = Some(3_000_000));
        assert!(sentences(&crowd, &super::DETECTOR).is_empty());
        crowd.header.doctor = Some(doctor(&[(8, "near", CheckState::Stop, "5 runnable tasks on 2 CPUs")]));
        assert_eq!(sentences(&crowd, &super::DETECTOR).len(), 1);
    }

    #[test]
    fn it_says_whose_work_it_was() {
        let mut run = run(|_, round| round.near_mut().involuntary_switches = 20);
        let task =
            |pid, name: &str, share, cpu| OtherTask { pid, name: name.into(), share, cpu, ..OtherTask::default() };
        run.header.others = vec![task(12, "elsewhere", 0.9, Some(3)), task(4_711, "cc1plus", 0.61, Some(1))];
        assert!(
            sentences(&run, &super::DETECTOR)[0].contains(", mostly cc1plus (pid 4711, 61 % of a CPU); "),
            "{:?}",
            sentences(&run, &super::DETECTOR)
        );
        run.header.others.pop();
        assert!(sentences(&run, &super::DETECTOR)[0].contains(", mostly elsewhere (pid 12, 90 % of a CPU); "));
        run.header.others = vec![task(9, "kworker/0:1", 0.001, Some(0))];
        let nobody = sentences(&run, &super::DETECTOR);
        assert!(nobody[0].contains(", whose is n/a: no task that lasted used a hundredth of a CPU; "), "{nobody:?}");
        run.header.others_unseen = Some("/proc hides the tasks of others".into());
        assert!(
            sentences(&run, &super::DETECTOR)[0].contains(", whose is n/a: /proc hides"),
            "{:?}",
            sentences(&run, &super::DETECTOR)
        );
    }

    #[test]
    fn what_explains_a_small_part_is_not_called_the_cause() {
        let mut run = run(|_, round| {
            round.near_mut().involuntary_switches = 20;
            round.near_mut().run_delay_ns = Some(13_000_000);
        });
        let name = "rcu_preempt".into();
        run.header.others = vec![OtherTask { pid: 15, name, share: 0.03, cpu: Some(1), ..OtherTask::default() }];
        let texts = sentences(&run, &super::DETECTOR);
        let whose = ", whose is not clear: of the tasks that were seen rcu_preempt (pid 15, 3 % of a CPU) used most; ";
        assert!(texts[0].contains(whose), "{texts:?}");
    }

    #[test]
    fn a_task_of_this_machine_does_not_disturb_the_other() {
        let two = |end: fn(&mut RoundRecord) -> &mut EndReport| {
            let mut run = run(move |_, round| end(round).involuntary_switches = 20);
            run.header.others =
                vec![OtherTask { pid: 7, name: "cc1plus".into(), share: 0.6, cpu: Some(1), ..OtherTask::default() }];
            let near = run.header.host(NEAR).clone();
            run.header.set_hosts([near.clone(), Environment { boot_id: "another".into(), ..near }]);
            sentences(&run, &super::DETECTOR).remove(0)
        };
        let (near, far) = (two(RoundRecord::near_mut), two(RoundRecord::far_mut));
        assert!(near.contains("mostly cc1plus") && !near.contains("whose is n/a"), "{near}");
        assert!(far.contains("whose is n/a: it was at the far end") && !far.contains("cc1plus"), "{far}");
    }

    /// A quota that stops the threads for 15 of 40 ms makes them wait as long, and takes them off their CPU.
    #[test]
    fn the_time_of_a_quota_is_not_that_of_others() {
        let throttled = |waited_ns: u64| {
            let mut run = run(move |at, round| {
                if at % 2 == 0 {
                    let kernel = &mut round.end_mut(NEAR).kernel.0;
                    kernel.extend([(QUOTA[0].into(), 8), (QUOTA[1].into(), 15_000)]);
                    round.near_mut().run_delay_ns = Some(waited_ns);
                    round.near_mut().involuntary_switches = 9;
                }
            });
            run.header.ends[NEAR].counters.extend(QUOTA.map(String::from));
            run
        };
        assert!(
            sentences(&throttled(16_000_000), &super::DETECTOR).is_empty(),
            "{:?}",
            sentences(&throttled(16_000_000), &super::DETECTOR)
        );
        assert_eq!(sentences(&throttled(16_000_000), "W41").len(), 1);
        let both = sentences(&throttled(25_000_000), &super::DETECTOR);
        assert!(both[0].contains("the measuring threads waited 25 % of their time"), "{both:?}");
    }

    /// Rounds of 1 ms, in which counters were watched for as long as their threads: for 40 ms.
    #[test]
    fn waiting_is_a_share_of_the_time_in_which_it_was_counted() {
        let run = run(|_, round| {
            round.near_mut().run_delay_ns = Some(12_000_000);
            (round.near_mut().voluntary_switches, round.near_mut().involuntary_switches) = (20, 9);
            round.reports_mut().into_iter().for_each(|end| end.elapsed_ns = 1_000_000);
        });
        let texts = sentences(&run, &super::DETECTOR);
        assert!(texts[0].contains("waited 30 % of their time for a CPU"), "{texts:?}");
    }

    #[test]
    fn waking_up_is_not_a_neighbour() {
        assert!(sentences(&run(|_, _| ()), &super::DETECTOR).is_empty());
        // A virtual machine whose idle CPUs take long to get going, in every round.
        assert!(
            sentences(&run(|_, round| round.near_mut().run_delay_ns = Some(12_000_000)), &super::DETECTOR).is_empty()
        );
        // A kernel thread now and then.
        assert!(
            sentences(
                &run(|at, round| round.near_mut().involuntary_switches = u64::from(at % 3 == 0) * 3),
                &super::DETECTOR
            )
            .is_empty()
        );
    }

    #[test]
    fn threads_of_the_run_itself_are_not_neighbours() {
        let mut run = run(|_, round| round.near_mut().involuntary_switches = 100);
        run.header.plan.placement.set(FAR, vec![0]);
        assert!(sentences(&run, &super::DETECTOR).is_empty());
    }
}
