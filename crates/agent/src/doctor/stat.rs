//! Lines of `/proc/stat` and `/proc/PID/stat`.

use msgpath_sys::task_stat::TaskStat;

/// Time of all CPUs in `/proc/stat`, clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    pub all: u64,
    /// While the hypervisor ran others.
    pub steal: u64,
}

/// The first line of `/proc/stat`; `None` where it does not tell the time that was stolen.
pub fn ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; guest time is part of user time.
    let values: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let all = values.iter().fold(0_u64, |sum, value| sum.saturating_add(*value));
    (values.len() == 8).then(|| Ticks { all, steal: values[7] })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    /// That of who started it.
    pub parent: u32,
    /// As the kernel cuts it.
    pub name: String,
    /// `R`, `S`, ..., `Z` and `X` where it has ended.
    pub state: char,
}

/// From `/proc/PID/stat`.
pub fn process(stat: &str) -> Option<Process> {
    let stat = TaskStat::parse(stat)?;
    Some(Process {
        id: stat.id,
        parent: stat.number(4)?,
        name: stat.name.into(),
        state: stat.field(3)?.chars().next()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_all_cpus_has_eight_parts() {
        assert_eq!(ticks("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\n"), Some(Ticks { all: 36, steal: 8 }));
        assert_eq!(ticks("cpu  1 2 3 4\n"), None);
        assert_eq!(ticks("cpu  1 2 x 4 5 6 7 8\n"), None);
        let endless = format!("cpu  {} 1 0 0 0 0 0 2\n", u64::MAX);
        assert_eq!(ticks(&endless), Some(Ticks { all: u64::MAX, steal: 2 }));
    }

    #[test]
    fn names_may_contain_anything() {
        let seen = Process { id: 12, parent: 1, name: "a) b (c)".into(), state: 'R' };
        assert_eq!(process("12 (a) b (c)) R 1 12 12"), Some(seen));
        for none in ["12 (a", "x (a) R 1", "1 (a) R"] {
            assert_eq!(process(none), None);
        }
    }
}
