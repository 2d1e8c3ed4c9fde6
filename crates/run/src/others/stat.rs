//! A line of `/proc/PID/stat`.

use msgpath_core::foreign::shown_bytes;
use msgpath_sys::task_stat::TaskStat;

/// The line, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Shown as it can be printed.
    pub name: String,
    /// Who started it.
    pub parent: u32,
    /// CPU time, clock ticks.
    pub ticks: u64,
    /// When it began, clock ticks since boot.
    pub started: u64,
    /// Where it ran last.
    pub cpu: Option<u32>,
}

/// `None`: this is no such line.
pub fn parse(text: &str) -> Option<Stat> {
    let stat = TaskStat::parse(text)?;
    Some(Stat {
        name: shown_bytes(stat.name.as_bytes(), 64),
        parent: stat.number(4)?,
        ticks: stat.number::<u64>(14)?.saturating_add(stat.number(15)?),
        started: stat.number(22)?,
        cpu: stat.number(39),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_hold_anything() {
        let text = "4711 (a) (b\u{1b}[2J) R 12 1 1 0 -1 4194304 1 0 0 0 300 45 0 0 20 0 1 0 777 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 17 3 0 0";
        let stat = parse(text).unwrap();
        assert_eq!((stat.name.as_str(), stat.parent, stat.ticks, stat.started), ("a) (b\\u{1b}[2J", 12, 345, 777));
        assert_eq!(stat.cpu, Some(3));
        assert_eq!(parse(&text.replace("300", &u64::MAX.to_string())).unwrap().ticks, u64::MAX);
        assert_eq!(parse("1 (x) S 1"), None);
        assert_eq!(parse(""), None);
    }
}
