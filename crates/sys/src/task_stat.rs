//! The line of `/proc/PID/stat`.

/// A task, its fields numbered as in proc_pid_stat(5).
#[derive(Clone, Debug)]
pub struct TaskStat<'a> {
    /// Its number (field 1).
    pub id: u32,
    /// Field 2, without its parentheses; it may hold anything, parentheses too.
    pub name: &'a str,
    rest: Vec<&'a str>,
}

impl<'a> TaskStat<'a> {
    /// `None`: this is not such a line.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (head, rest) = text.rsplit_once(')')?;
        let (id, name) = head.split_once('(')?;
        Some(Self { id: id.trim().parse().ok()?, name, rest: rest.split_whitespace().collect() })
    }

    /// Field `n` from 3 on; `None`: the kernel does not tell it.
    pub fn field(&self, n: usize) -> Option<&'a str> {
        self.rest.get(n.checked_sub(3)?).copied()
    }

    /// Field `n` as a number.
    pub fn number<T: std::str::FromStr>(&self, n: usize) -> Option<T> {
        self.field(n)?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_numbers_of_the_manual_and_names_hold_anything() {
        let stat = TaskStat::parse("12 (a) b (c)) R 1 x 12").unwrap();
        assert_eq!((stat.id, stat.name, stat.field(3), stat.number(4)), (12, "a) b (c)", Some("R"), Some(1_u32)));
        assert_eq!(
            (stat.number::<u32>(5), stat.number(6), stat.field(7), stat.field(2)),
            (None, Some(12_u32), None, None)
        );
        for none in ["", "12 (a", "x (a) R 1", "12 a) R"] {
            assert!(TaskStat::parse(none).is_none(), "{none}");
        }
    }
}
