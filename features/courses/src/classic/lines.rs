//! Lines that come back unchanged, and the table of trials that a report shows.

use std::fmt::Write;

use msgpath_core::units::Glyphs;
use serde::Serialize;

use super::Spread;

/// A line that is longer than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// Bytes as they come, cut into lines. Holds at most one line and what was pushed last.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins.
    begin: usize,
    /// Up to here there is no end of that line.
    searched: usize,
}

impl Lines {
    /// Appends what was received.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.begin > 0 {
            self.buffer.drain(..self.begin);
            self.searched -= self.begin;
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line with its end; `None`: more must come.
    ///
    /// # Errors
    /// It is longer than `limit` bytes, its end included, or will be.
    pub fn next_line(&mut self, limit: usize) -> Result<Option<&[u8]>, TooLong> {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        self.searched = end.map_or(self.buffer.len(), |end| self.searched + end + 1);
        let length = self.searched - self.begin;
        // Without its end it has at least one byte more.
        if length + usize::from(end.is_none()) > limit {
            return Err(TooLong);
        }
        if end.is_none() {
            return Ok(None);
        }
        let line = self.begin..self.searched;
        self.begin = self.searched;
        Ok(Some(&self.buffer[line]))
    }

    /// Bytes of a line that has not ended.
    pub fn pending(&self) -> usize {
        self.buffer.len() - self.begin
    }
}

/// The message of a size: zero bytes and the end of the line, which the size may include.
pub fn message(size: usize, with_newline: bool) -> Vec<u8> {
    let zeros = if with_newline { size.saturating_sub(1) } else { size };
    let mut line = vec![0; zeros];
    line.push(b'\n');
    line
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Trial {
    /// connect() until it returned, ns; `None`: the connection was there already.
    pub connect_ns: Option<u64>,
    /// From before the first send until the whole line was read, ns.
    pub exchange_ns: u64,
    /// Segments that the kernel retransmitted on this connection until then; `None`: it does not say.
    pub retransmitted: Option<u64>,
}

/// The trials of one size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The size that was asked for, bytes.
    pub size: usize,
    /// Trials in their order.
    pub trials: Vec<Trial>,
}

impl Column {
    fn exchanges(&self) -> Vec<u64> {
        self.trials.iter().map(|trial| trial.exchange_ns).collect()
    }
}

/// Width of a column.
const WIDTH: usize = 12;

fn row(out: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    let _ = write!(out, "{head:<12}");
    for cell in cells {
        let _ = write!(out, "{cell:>WIDTH$}");
    }
    out.push('\n');
}

/// The table of the reports: whole milliseconds, as their timer has them, and an average. A trial below one of the
/// table's steps is 0 in it.
pub fn classic_table(columns: &[Column]) -> String {
    let ms = |ns: u64| ns / 1_000_000;
    let mut out = String::new();
    row(&mut out, "ms", columns.iter().map(|column| format!("{} bytes", column.size)));
    let trials = columns.iter().map(|column| column.trials.len()).max().unwrap_or(0);
    for at in 0..trials {
        let cell =
            |column: &Column| column.trials.get(at).map_or_else(String::new, |trial| ms(trial.exchange_ns).to_string());
        row(&mut out, &format!("Trial #{}", at + 1), columns.iter().map(cell));
    }
    let average = |column: &Column| {
        let sum: u64 = column.trials.iter().map(|trial| ms(trial.exchange_ns)).sum();
        format!("{:.1}", sum as f64 / column.trials.len().max(1) as f64)
    };
    row(&mut out, "Average", columns.iter().map(average));
    out
}

/// The same trials in µs with everything that an average hides; the connection has a row of its own.
pub fn table(columns: &[Column], glyphs: Glyphs) -> String {
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    let unit = if glyphs == Glyphs::Ascii { "us" } else { "µs" };
    let spreads: Vec<Option<Spread>> = columns.iter().map(|column| Spread::of(&column.exchanges())).collect();
    let mut out = String::new();
    row(&mut out, unit, columns.iter().map(|column| format!("{} bytes", column.size)));
    let mut line = |head: &str, value: &dyn Fn(&Spread) -> f64| {
        row(
            &mut out,
            head,
            spreads.iter().map(|spread| spread.as_ref().map_or("n/a".into(), |spread| us(value(spread)))),
        );
    };
    line("mean", &|spread| spread.mean);
    line("deviation", &|spread| spread.deviation);
    line("min", &|spread| spread.min as f64);
    line("median", &|spread| spread.median);
    line("p90", &|spread| spread.p90 as f64);
    line("max", &|spread| spread.max as f64);
    let first = |column: &Column| column.trials.first().map_or("n/a".into(), |trial| us(trial.exchange_ns as f64));
    row(&mut out, "first", columns.iter().map(first));
    let connect = |column: &Column| {
        let times: Vec<u64> = column.trials.iter().filter_map(|trial| trial.connect_ns).collect();
        Spread::of(&times).map_or("n/a".into(), |spread| us(spread.median))
    };
    row(&mut out, "connect", columns.iter().map(connect));
    let again = |column: &Column| {
        let known: Option<u64> = column.trials.iter().map(|trial| trial.retransmitted).sum();
        known.map_or("n/a".into(), |count| count.to_string())
    };
    row(&mut out, "retransmits", columns.iter().map(again));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_that_never_ends_is_refused_at_the_limit() {
        let mut lines = Lines::default();
        lines.push(b"abc\nde");
        assert_eq!(lines.next_line(4), Ok(Some(&b"abc\n"[..])));
        assert_eq!(lines.next_line(4), Ok(None));
        assert_eq!(lines.pending(), 2);
        lines.push(b"f");
        assert_eq!(lines.next_line(4), Ok(None), "three bytes, and an end would still fit");
        lines.push(b"g");
        assert_eq!(lines.next_line(4), Err(TooLong));
        let mut whole = Lines::default();
        whole.push(b"abcd\n");
        assert_eq!(whole.next_line(4), Err(TooLong));
    }

    #[test]
    fn a_size_may_include_the_end_of_the_line() {
        assert_eq!(message(3, false), [0, 0, 0, b'\n']);
        assert_eq!(message(3, true), [0, 0, b'\n']);
        assert_eq!((message(0, false), message(0, true)), (vec![b'\n'], vec![b'\n']));
    }

    #[test]
    fn tables() {
        let trial = |exchange_ns, connect_ns, retransmitted| Trial { connect_ns, exchange_ns, retransmitted };
        let columns = [
            Column {
                size: 10,
                trials: vec![trial(5_400_000, Some(80_000), Some(0)), trial(12_900_000, Some(90_000), Some(2))],
            },
            Column { size: 1000, trials: vec![trial(4_999_999, None, None)] },
        ];
        assert_eq!(
            classic_table(&columns),
            "ms              10 bytes  1000 bytes\n\
             Trial #1               5           4\n\
             Trial #2              12            \n\
             Average              8.5         4.0\n"
        );
        assert_eq!(
            table(&columns, Glyphs::Ascii),
            "us              10 bytes  1000 bytes\n\
             mean              9150.0      5000.0\n\
             deviation         5303.3         0.0\n\
             min               5400.0      5000.0\n\
             median            9150.0      5000.0\n\
             p90              12900.0      5000.0\n\
             max              12900.0      5000.0\n\
             first             5400.0      5000.0\n\
             connect             85.0         n/a\n\
             retransmits            2         n/a\n"
        );
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_arrive(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..200),
            cuts in prop::collection::vec(1_usize..20, 1..20),
        ) {
            let mut lines = Lines::default();
            let mut out = Vec::new();
            let mut rest = &bytes[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                lines.push(now);
                while let Some(line) = lines.next_line(300).unwrap() {
                    prop_assert!(line.ends_with(b"\n") && line[..line.len() - 1].iter().all(|byte| *byte != b'\n'));
                    out.extend_from_slice(line);
                }
                rest = later;
            }
            prop_assert_eq!(out.len() + lines.pending(), bytes.len());
            prop_assert!(bytes.starts_with(&out));
        }
    }
}
