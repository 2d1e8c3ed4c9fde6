//! W46: the CPUs were not the run's alone
//!
//! ## What it says
//!
//! **Other work**: In how many rounds other tasks were in the way of the measuring threads, which share of their time these waited for a
//! CPU, how often they were taken off it, the pressure on the CPUs, whether those rounds are
//! the slow ones, and whose work it mostly was: name, pid and share of a CPU.
//!
//! **Interrupts**: How many interrupts a second a measuring CPU took, in how many rounds, how many the messages and the tick explain at
//! most, and whether those rounds are the slow ones.
//!
//! **Their speed**: By how much the same computing took longer before the slowest tenth of the rounds than before the fastest, which
//! governor is in charge, and how the rounds follow it.
//!
//! ## What it is computed from
//!
//! **Other work**: Per round and end: run delay (`/proc/thread-self/schedstat`) less the time for which a CPU quota stopped the group
//! (W41), involuntary switches, and `/proc/pressure/cpu`; each as a share of the time for which it was counted. A thread
//! waits a little for its CPU after every wake-up, so waiting alone is not a neighbour. A round counts where a pinned thread
//! was taken off its CPU more than 100 times a second; or waited 10 % of its time in waits of 0.2 ms on average; or waited
//! three times as long as in the quiet quarter of the case's rounds, and 10 % of its time more; or waited 5 % of it while
//! `doctor` saw before the run that CPUs were short; or where `/proc/stat` has two ticks of 10 ms and 10 % of the round more
//! on the measuring CPUs than its own threads used, beyond what is usual in the quiet quarter of the rounds. These rounds
//! are not calm: the headline leaves them out ([principle 6](docs/principles.md)).
//!
//! Whose work it was comes from `/proc/PID/stat` of all tasks at the near end, sampled before the rounds, once a second at
//! most between them, and after them: the task with the most CPU time of those that last ran on a measuring CPU, else of
//! all. The run's own processes are left out; where this run did not start all its ends (`serve`, ssh, Slurm), so is every
//! other process named `msgpath`, for it may be the far end. A task that used less of a CPU than half of what the threads waited
//! is not called the cause: it is named as the one that used most of those that were seen. Where the samples name nobody who used a hundredth of a CPU, and rounds were
//! traced, it is the task that held a receiver's CPU longest while the receiver was runnable (its thread, and its share of the
//! receivers' scheduling delay). Where that names nobody either, the sentence says `whose is n/a` and why: `/proc` hides the
//! tasks of others (`hidepid`) or cannot be read, or no task lasted from one sample to the next. A far end on another machine
//! tells nobody its tasks: where only its CPUs were shared, whose work it was is n/a.
//!
//! Whether these rounds are the slow ones is computed as well: the median of each round against that of its case, and the
//! share of its messages that are as slow as the p99 of the case or slower, rounds under the condition against the
//! others. It is stated where the rank correlation over rounds stands (p below 0.01, with fewer rounds counted where
//! neighbours resemble each other) and both halves of the run agree; else the sentence says that it is not shown.
//!
//! **Interrupts**: `/proc/interrupts` of the CPUs that the ends are pinned to, before and after each round. Two interrupts for a message
//! and two more for every 16 KiB (a wake-up, a packet), and 1000 a second (the tick) are expected; none for messages
//! where a thread spins on this machine. A round counts with half more than that and 5000 a second beyond.
//!
//! **Their speed**: A fixed piece of computing, timed before each round at each end, the best of a few. It is noisy, above all on virtual
//! machines, so a difference alone says nothing. The sentence needs three things: more than 1 % between the fastest and
//! the slowest tenth; a rank correlation with the medians of the rounds that stands (p below 0.01, with fewer rounds
//! counted where neighbours resemble each other) in both halves of the run; and 1 % between the medians of the slower and
//! the faster half.
//!
//! ## When it stays silent
//!
//! **Other work**: Below three such rounds and below a tenth of them. Where the threads of the run are in each other's way: see
//! W28.
//!
//! **Interrupts**: Where what was counted is explained; in fewer than three rounds or a tenth of them; where the threads are not pinned
//! or the interrupts could not be read.
//!
//! **Their speed**: Where the rounds do not follow the probe; without a probe; below ten rounds.
//!
//! ## What to do
//!
//! **Other work**: Stop the other work, or use CPUs that nobody uses (`--cpu`; `msgpath doctor` says what is quiet).
//!
//! **Interrupts**: Another CPU (`--cpu`), or move the interrupts away: stop irqbalance and write `/proc/irq/N/smp_affinity`.
//!
//! **Their speed**: A fixed clock rate: governor `performance`, turbo off; where the kernel lets it be set, `msgpath doctor --fix` prints the commands. Without it,
//! compare paths in one run: their rounds are in random order, so none of them gets the fast CPU alone.

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
