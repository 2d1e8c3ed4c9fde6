//! Who else used the CPUs while a run was measured: the tasks of `/proc` with the most CPU time, sampled between rounds.

mod stat;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use msgpath_core::schema::OtherTask;
use msgpath_sys::clock;
use stat::{Stat, parse};

/// Samples are so far apart at least, so that they cost the run next to nothing ...
const EVERY: Duration = Duration::from_secs(1);
/// ... and each ends after so many tasks or so much CPU time, on a machine that has more of them. While others have the
/// CPU the sample costs nothing, and they are whom it is about.
const MOST_TASKS: usize = 5_000;
const LONGEST_NS: u64 = 20_000_000;
/// So many tasks are named.
const NAMED: usize = 8;
/// USER_HZ is 100 on Linux.
const TICK_NS: u64 = 10_000_000;

/// Adds up what others use from sample to sample.
pub struct Others {
    proc: PathBuf,
    own: u32,
    /// Name of this process, where its far end may be somebody else's process of the same name.
    own_name: Option<String>,
    /// Start of this process, ticks since boot.
    own_start: u64,
    /// Where a sample that was cut short ended: the next goes on there.
    reached: u32,
    begun: Instant,
    last: Option<Instant>,
    before: BTreeMap<u32, Stat>,
    used: BTreeMap<(u32, u64), (Stat, u64)>,
    /// No end of the run is on this machine.
    elsewhere: bool,
}

impl Others {
    /// Nothing is sampled yet. `alone`: this process has started all ends; else one of its name may be the far end, or have started it, and
    /// none of that name is named.
    pub fn new(alone: bool) -> Self {
        Self::at(PathBuf::from("/proc"), alone)
    }

    fn at(proc: PathBuf, alone: bool) -> Self {
        let own = std::process::id();
        let (own_name, own_start) =
            read(&proc, own).map_or((None, u64::MAX), |stat| (Some(stat.name).filter(|_| !alone), stat.started));
        let (before, used) = (BTreeMap::new(), BTreeMap::new());
        let begun = Instant::now();
        Self { proc, own, own_name, own_start, reached: 0, begun, last: None, before, used, elsewhere: false }
    }

    /// The same; it sees nothing where all near ends are `elsewhere`.
    #[must_use]
    pub fn unless(self, elsewhere: bool) -> Self {
        Self { elsewhere, ..self }
    }

    /// Takes a sample, unless the last one was taken a moment ago.
    pub fn sample(&mut self) {
        if self.last.is_none_or(|last| last.elapsed() >= EVERY) {
            self.sample_now();
        }
    }

    fn sample_now(&mut self) {
        if self.elsewhere {
            return;
        }
        let Ok(tasks) = fs::read_dir(&self.proc) else { return };
        let (begin, used, first) = (Instant::now(), clock::thread_cpu(), self.last.is_none());
        let mut now = BTreeMap::new();
        let mut pids: Vec<u32> = tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        let next = pids.partition_point(|pid| *pid <= self.reached);
        pids.rotate_left(next);
        self.reached = 0;
        for (at, pid) in pids.into_iter().enumerate() {
            if at >= MOST_TASKS || clock::thread_cpu() - used > LONGEST_NS {
                break;
            }
            self.reached = pid;
            now.extend(read(&self.proc, pid).map(|stat| (pid, stat)));
        }
        for (pid, stat) in &now {
            let before = self.before.get(pid).filter(|before| before.started == stat.started);
            // A task that was not seen before is younger than this process, or was out of reach.
            let young = !first && stat.started > self.own_start;
            let since = before.map_or(if young { 0 } else { stat.ticks }, |before| before.ticks);
            let more = stat.ticks.saturating_sub(since);
            if more > 0 && !self.is_ours(*pid, &now) {
                let used = self.used.entry((*pid, stat.started)).or_insert_with(|| (stat.clone(), 0));
                *used = (stat.clone(), used.1 + more);
            }
        }
        if first {
            self.begun = begin;
        }
        self.last = Some(Instant::now());
        // What a short sample did not reach is known from before; tasks that have ended do not pile up.
        self.before.extend(now);
        while self.before.len() > 2 * MOST_TASKS {
            self.before.pop_first();
        }
    }

    /// This process, what it started, and a far end that somebody started by the same name.
    fn is_ours(&self, pid: u32, tasks: &BTreeMap<u32, Stat>) -> bool {
        let mut at = pid;
        for _ in 0..64 {
            if at == self.own {
                return true;
            }
            match tasks.get(&at) {
                Some(stat) if self.own_name.as_ref() == Some(&stat.name) => return true,
                Some(stat) => at = stat.parent,
                None => return false,
            }
        }
        false
    }

    /// Why the tasks of others are not among those that are sampled; `None`: they are. Task 1 belongs to root and is
    /// always there.
    fn unseen(&self) -> Option<String> {
        if self.elsewhere {
            return Some("the clients run on other hosts".into());
        }
        let error = fs::read(self.proc.join("1/stat")).err()?;
        Some(match fs::read_dir(&self.proc) {
            Ok(_) => format!("/proc hides the tasks of others (hidepid, proc(5)): {}", error.kind()),
            Err(error) => format!("/proc cannot be read: {}", error.kind()),
        })
    }

    /// A last sample, and the tasks with the most CPU time since the first, most of it first; then why those of others are
    /// not among them, if so.
    pub fn finish(&mut self) -> (Vec<OtherTask>, Option<String>) {
        self.sample_now();
        let lasted = self.begun.elapsed().as_nanos().max(1) as f64;
        let mut used: Vec<_> = self.used.iter().collect();
        used.sort_by_key(|(key, (_, ticks))| (std::cmp::Reverse(*ticks), **key));
        let task = |((pid, _), (stat, ticks)): (&(u32, u64), &(Stat, u64))| OtherTask {
            pid: *pid,
            name: stat.name.clone(),
            cpu_ns: ticks * TICK_NS,
            share: (ticks * TICK_NS) as f64 / lasted,
            cpu: stat.cpu,
        };
        (used.into_iter().take(NAMED).map(task).collect(), self.unseen())
    }
}

fn read(proc: &Path, pid: u32) -> Option<Stat> {
    parse(&String::from_utf8_lossy(&fs::read(proc.join(format!("{pid}/stat"))).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// The shell spins until it is killed, or has used 20 s of CPU time.
    #[test]
    fn who_spins_is_named() {
        let mut others = Others::new(true);
        // As if the test were somebody else, and had begun long ago: the shell may start in the same tick.
        (others.own, others.own_start) = (u32::MAX, 0);
        others.sample_now();
        let spin = ["-c", "ulimit -t 20; while :; do :; done"];
        let mut child = match Command::new("sh").args(spin).stdin(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => return eprintln!("skipped: sh cannot be started: {error}"),
        };
        let begin = Instant::now();
        let ticks = |pid| read(Path::new("/proc"), pid).map_or(0, |stat| stat.ticks);
        while ticks(child.id()) < 20 && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut used = None;
        while used.is_none() && begin.elapsed() < Duration::from_secs(120) {
            others.sample_now();
            used = others.used.iter().find(|((pid, _), _)| *pid == child.id()).map(|(_, used)| used.clone());
        }
        let _ = child.kill();
        let _ = child.wait();
        let (stat, ticks) = used.expect("it is among them");
        assert!(stat.name == "sh" || stat.name == "dash" || stat.name == "bash", "{stat:?}");
        assert!(ticks >= 20, "{ticks}");
        assert!(others.finish().0.len() <= NAMED);
    }

    #[test]
    fn what_cannot_be_seen_has_its_reason() {
        let folder = std::env::temp_dir().join(format!("msgpath-others-{}", std::process::id()));
        fs::create_dir_all(folder.join("4711")).unwrap();
        let line = "4711 (ours) S 1 1 1 0 -1 0 1 0 0 0 300 45 0 0 20 0 1 0 777 1";
        fs::write(folder.join("4711/stat"), line).unwrap();
        let hidden = Others::at(folder.clone(), true).finish().1.unwrap();
        fs::create_dir_all(folder.join("1")).unwrap();
        fs::write(folder.join("1/stat"), line.replace("4711", "1")).unwrap();
        let shown = Others::at(folder.clone(), true).finish().1;
        fs::remove_dir_all(&folder).unwrap();
        let gone = Others::at(folder, true).finish().1.unwrap();
        assert!(hidden.contains("hidepid") && shown.is_none() && gone.contains("cannot be read"), "{hidden} {gone}");
    }

    #[test]
    fn our_own_are_not_blamed() {
        let mut others = Others::new(true);
        others.sample_now();
        let stat = |name: &str, parent| Stat { name: name.into(), parent, ticks: 1, started: 1, cpu: None };
        let own_name = read(Path::new("/proc"), others.own).expect("this process").name;
        let tasks = BTreeMap::from([
            (others.own, stat("test", 1)),
            (70_001, stat("child", others.own)),
            (70_002, stat("child of a child", 70_001)),
            (70_003, stat("other", 1)),
            (70_004, stat(&own_name, 1)),
        ]);
        assert!([others.own, 70_001, 70_002].into_iter().all(|pid| others.is_ours(pid, &tasks)));
        assert!(!others.is_ours(70_003, &tasks) && !others.is_ours(70_004, &tasks));
        // A `serve` that somebody started may be the far end.
        let beside = Others::new(false);
        assert!(!beside.is_ours(70_003, &tasks) && beside.is_ours(70_004, &tasks));
    }
}
