//! Lines of `perf sched timehist`: `time [cpu] task[tid/pid] wait sch-delay run`, times in ms (perf-sched(1)).

use std::collections::HashMap;

use super::{Lexer, Line, MAX_NAMES, MAX_ROWS, Slice, Text, Thread, number};

/// How the sums of `-S` begin, with `--state` and with `-I`.
const SUMMARIES: [&str; 3] = ["Runtime summary", "Wait-time summary", "Idle-time summary"];

/// Brackets that a task's name may have: it has at most 15 characters.
const MOST_BRACKETS: usize = 16;

#[derive(Default)]
pub(super) struct Timehist {
    threads: HashMap<u32, u32>,
    /// The summary of `-S` has begun: the rest repeats in sums what the lines had.
    summary: bool,
    /// Characters of the picture of all CPUs (`-V`) between CPU and task.
    picture: usize,
}

/// The first line of the head.
pub(super) fn is_head(line: &str) -> bool {
    line.contains("sch delay") && line.contains("run time")
}

impl Lexer for Timehist {
    fn line(&mut self, line: &str, text: &mut Text) -> Line {
        self.summary |= SUMMARIES.contains(&line.trim());
        if is_head(line) {
            self.picture = picture(line);
        }
        if self.summary || is_furniture(line) {
            return Line::Other;
        }
        let Some((end_ns, cpu, rest)) = begin(line) else { return Line::Unknown };
        // A blank stands before the picture, and one at least behind it.
        let rest = rest.get(self.picture..).filter(|_| self.picture > 0).map_or(rest, |rest| rest).trim_start();
        let Some(task) = task(rest) else {
            // The CPU itself with `-I`, and threads that have ended, which nobody can tell apart; wake-ups with `-w`, migrations
            // with `-M`.
            let nobody = rest.starts_with("<idle>") || rest.starts_with(":-1[-1");
            return if nobody || [" awakened: ", " migrated: "].iter().any(|what| rest.contains(what)) {
                Line::Other
            } else {
                Line::Unknown
            };
        };
        if task.times == [0; 3] {
            return Line::Timeless;
        }
        let Some(thread) = self.thread(&task, text) else { return Line::NoRoom };
        if text.slices.len() == MAX_ROWS {
            return Line::NoRoom;
        }
        let [wait_ns, delay_ns, run_ns] = task.times;
        text.slices.push(Slice { thread, cpu, end_ns, wait_ns, delay_ns, run_ns });
        Line::Row
    }

    fn end(&mut self, _: &mut Text) {}
}

impl Timehist {
    fn thread(&mut self, task: &Task<'_>, text: &mut Text) -> Option<u32> {
        let at = match self.threads.get(&task.tid) {
            Some(at) => *at,
            None if text.threads.len() == MAX_NAMES => return None,
            None => {
                let at = text.threads.len() as u32;
                self.threads.insert(task.tid, at);
                text.threads.push(Thread { tid: Some(task.tid), ..Thread::default() });
                at
            }
        };
        let thread = &mut text.threads[at as usize];
        if thread.name != task.name {
            task.name.clone_into(&mut thread.name);
        }
        thread.pid = task.pid.or(thread.pid);
        Some(at)
    }
}

/// Characters between the CPU and the task: with `-V` a blank, a digit a CPU and two blanks; without it two blanks.
fn picture(head: &str) -> usize {
    let between = head.split_once(" cpu ").and_then(|(_, rest)| rest.split_once("task name"));
    between.map_or(0, |(digits, _)| if digits.trim().is_empty() { 0 } else { 1 + digits.len() })
}

/// Head, rule, and what perf says before.
fn is_furniture(line: &str) -> bool {
    is_head(line)
        || line.trim_start().starts_with("[tid/pid]")
        || line.bytes().all(|byte| byte == b'-' || byte == b' ')
        || line.starts_with("Samples do not have callchains")
        || line.starts_with("Samples of sched_switch event do not have callchains")
}

/// Time, CPU, and what follows.
fn begin(line: &str) -> Option<(u64, u32, &str)> {
    let (time, rest) = line.trim_start().split_once(' ')?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((number::seconds(time)?, digits(cpu)?, rest))
}

struct Task<'a> {
    name: &'a str,
    tid: u32,
    /// Of a thread that is not the first of its process.
    pid: Option<u32>,
    times: [u64; 3],
}

/// `name[tid/pid]  wait  delay  run`, maybe with a priority before and states or callers behind. Names may have brackets and
/// spaces, so the bracket is the one that three times follow.
fn task(rest: &str) -> Option<Task<'_>> {
    rest.match_indices('[').take(MOST_BRACKETS).find_map(|(at, _)| {
        let (ids, behind) = rest[at + 1..].split_once(']')?;
        let (tid, pid) = match ids.split_once('/') {
            Some((tid, pid)) => (digits(tid)?, Some(digits(pid)?)),
            None => (digits(ids)?, None),
        };
        Some(Task { name: rest[..at].trim(), tid, pid, times: times(behind)? })
    })
}

/// Three times in a row, after one column at most that is none.
fn times(behind: &str) -> Option<[u64; 3]> {
    let mut columns = behind.split_whitespace();
    let first = columns.next()?;
    let wait = match number::milliseconds(first) {
        Some(wait) => wait,
        None => number::milliseconds(columns.next().filter(|_| first.starts_with(|c: char| c.is_ascii_digit()))?)?,
    };
    Some([wait, number::milliseconds(columns.next()?)?, number::milliseconds(columns.next()?)?])
}

fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{Tracer, parse};
    use super::*;

    /// As `perf sched timehist` prints it, with a name that has spaces and brackets, wake-ups of `-w` and callers.
    pub(crate) const TEXT: &str = "\
Samples do not have callchains.
           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
   79371.874569 [0011]  gcc[31949]                          0.014      0.000      1.148
   79371.874591 [0010]  a [b] c[31951/31949]                4.100      3.956      0.024  futex_wait <- do_syscall
   79371.874603 [0010]  migration/10[59]                    3.350      0.004      0.011
   79371.874604 [0011]  <idle>                              1.148      0.000      0.035
   79371.874723 [0005]  <idle>                                                              awakened: gcc[31949]
   79371.874999 [0005]  gcc[31949]                          0.100     11.002      0.330  S
what is this
";

    #[test]
    fn slices_of_threads_are_read() {
        let text = parse(Tracer::Timehist, "x", TEXT.as_bytes());
        let names: Vec<_> = text.threads.iter().map(|thread| (thread.name.as_str(), thread.tid, thread.pid)).collect();
        assert_eq!(
            names,
            [("gcc", Some(31949), None), ("a [b] c", Some(31951), Some(31949)), ("migration/10", Some(59), None)]
        );
        assert_eq!(text.slices.len(), 4);
        assert_eq!(
            text.slices[1],
            Slice {
                thread: 1,
                cpu: 10,
                end_ns: 79_371_874_591_000,
                wait_ns: 4_100_000,
                delay_ns: 3_956_000,
                run_ns: 24_000
            }
        );
        assert_eq!((text.slices[3].thread, text.slices[3].delay_ns), (0, 11_002_000));
        assert_eq!((text.lines.all, text.lines.others, text.lines.unknown), (11, 6, 1));
        assert_eq!(text.lines.first, Some((11, "what is this".into())));
    }

    /// As `perf sched timehist -V` prints it, of a CPU 2 that was idle, and the same with -I, which has no times.
    const PICTURES: &str = "\
           time    cpu  012  task name                       wait time  sch delay   run time
                             [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ---  ------------------------------  ---------  ---------  ---------
   58098.557865 [0000]  s    perf[21018]                         0.000      0.000      0.000
   58098.557891 [0000]  s    migration/0[18]                     0.000      0.003      0.025
   58098.557895 [0002]   wi  <idle>                              0.000      0.003      0.025
   58098.558071 [0001]   s   s o[21018]                          0.000      0.000      1.000
   58098.558590 [0002]    s  rustc[20849/20847]                  0.000      0.000      0.398
";

    #[test]
    fn a_picture_of_the_cpus_is_no_part_of_a_name() {
        let text = parse(Tracer::Timehist, "x", PICTURES.as_bytes());
        let names: Vec<_> = text.threads.iter().map(|thread| thread.name.as_str()).collect();
        assert_eq!(names, ["migration/0", "s o", "rustc"]);
        assert_eq!((text.slices.len(), text.lines.timeless, text.lines.unknown), (3, 1, 0));
    }

    #[test]
    fn rows_without_times_are_no_delays_of_nothing() {
        let rows = "58117.646401 [0001]  sh[21714]  0.000  0.000  0.000  do_wait <- kernel_wait4\n".repeat(5);
        let text = parse(Tracer::Timehist, "x", (TEXT.lines().nth(1).unwrap().to_owned() + "\n" + &rows).as_bytes());
        assert!(text.is_empty() && text.threads.is_empty(), "{text:?}");
        assert_eq!((text.lines.timeless, text.lines.others), (5, 1));
    }

    #[test]
    fn other_columns_and_the_summary_do_not_disturb() {
        let text = "   1.000001 [0000]  test[7]   120      0.001      0.002      0.003\n\
                    Runtime summary\n   test[7]  1  2  3.0\nanything\n";
        let text = parse(Tracer::Timehist, "x", text.as_bytes());
        assert_eq!((text.slices.len(), text.lines.others, text.lines.unknown), (1, 3, 0));
        assert_eq!((text.slices[0].wait_ns, text.slices[0].run_ns), (1_000, 3_000));
        let ended = "30866.806046 [0000]  :-1[-1/27311]  0.000  0.000  0.070  Z";
        assert_eq!(parse(Tracer::Timehist, "x", ended.as_bytes()).lines.others, 1);
        for bad in
            ["1.0 [0] x[1] 1.0 2.0", "1.0 [0] x[1] a 1.0 2.0 3.0", "1.0 [0] x[-1] 1.0 2.0 3.0", "1.0 x[1] 1.0 2.0 3.0"]
        {
            assert_eq!(parse(Tracer::Timehist, "x", bad.as_bytes()).lines.unknown, 1, "{bad}");
        }
    }
}
