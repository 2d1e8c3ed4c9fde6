//! Columns of text. A table that is too wide loses the columns it can do without, or is split into several.

use super::page::{Paint, Span, Style, width, wrap};

/// How a column lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names and sentences.
    Left,
    /// Numbers.
    Right,
}

/// A column that stays whatever happens.
const ALWAYS: u8 = u8::MAX;

#[derive(Clone, Debug)]
struct Column {
    head: String,
    align: Align,
    /// The lower, the sooner it goes.
    keep: u8,
    /// It is no wider than this: its cells wrap.
    widest: usize,
}

#[derive(Clone, Debug)]
struct Row {
    cells: Vec<Span>,
    /// The last cell begins in its column, takes the rest of the line and wraps there.
    runs_on: bool,
}

/// A table with heads, for [`Page::table`](super::Page::table).
#[derive(Clone, Debug, Default)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Row>,
    gap: usize,
    wrap_last: bool,
    /// Heads may take several lines, and no column is wider than this: its cells wrap.
    widest: Option<usize>,
}

impl Table {
    /// A table without columns.
    pub fn new() -> Self {
        Self { gap: 2, ..Self::default() }
    }

    /// Blanks between columns, 2 unless told.
    pub fn gap(mut self, gap: usize) -> Self {
        self.gap = gap;
        self
    }

    /// The last column takes the room that is left and wraps in it.
    pub fn wrap_last(mut self) -> Self {
        self.wrap_last = true;
        self
    }

    /// Adds a column that stays.
    pub fn column(self, head: impl Into<String>, align: Align) -> Self {
        self.optional(head, align, ALWAYS)
    }

    /// Adds a column that goes when room is short; of several the one with the lowest `keep` goes first.
    pub fn optional(mut self, head: impl Into<String>, align: Align, keep: u8) -> Self {
        self.columns.push(Column { head: head.into(), align, keep, widest: usize::MAX });
        self
    }

    /// Adds a row; missing cells are blank.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Span>) {
        let mut cells: Vec<Span> = cells.into_iter().collect();
        cells.resize(self.columns.len(), Span::default());
        self.rows.push(Row { cells, runs_on: false });
    }

    /// Adds a row whose last cell takes the rest of the line, whatever columns there are.
    pub fn row_with_note(&mut self, cells: impl IntoIterator<Item = Span>) {
        self.rows.push(Row { cells: cells.into_iter().collect(), runs_on: true });
    }

    fn widths(&self, style: Style) -> Vec<usize> {
        let of = |text: &str| width(&style.clean(text));
        let cell = |row: &Row, at: usize| match row.cells.get(at) {
            Some(cell) if !row.runs_on || at + 1 < row.cells.len() => of(&cell.text),
            _ => 0,
        };
        let head = |head: &str| match self.widest {
            Some(_) => head.split(' ').map(of).max().unwrap_or(0),
            None => of(head),
        };
        let of_column =
            |at: usize| self.rows.iter().map(|row| cell(row, at)).max().unwrap_or(0).max(head(&self.columns[at].head));
        let widest = self.widest.unwrap_or(usize::MAX);
        (0..self.columns.len()).map(|at| of_column(at).min(widest).min(self.columns[at].widest)).collect()
    }

    fn total(&self, widths: &[usize]) -> usize {
        widths.iter().sum::<usize>() + self.gap * widths.len().saturating_sub(1)
    }

    fn remove(&mut self, at: usize) {
        self.columns.remove(at);
        for row in &mut self.rows {
            if at < row.cells.len() - usize::from(row.runs_on) {
                row.cells.remove(at);
            }
        }
    }

    /// Removes columns until the rest fits, as far as there are some that may go; the widths of the rest.
    fn narrow(&mut self, style: Style, room: usize) -> Vec<usize> {
        const NARROWEST: usize = 20;
        let mut widths = self.widths(style);
        loop {
            let last = widths.len().saturating_sub(1);
            if self.wrap_last && last > 0 {
                let others = self.total(&widths) - widths[last];
                widths[last] = widths[last].min(room.saturating_sub(others).max(NARROWEST));
            }
            let sacrifice = (0..self.columns.len()).filter(|at| self.columns[*at].keep < ALWAYS).rev();
            match sacrifice.min_by_key(|at| self.columns[*at].keep) {
                Some(at) if self.total(&widths) > room => {
                    self.remove(at);
                    widths = self.widths(style);
                }
                _ => return widths,
            }
        }
    }

    /// The lines, none wider than `room` as long as the columns that stay allow it.
    pub fn lines(mut self, style: Style, room: usize) -> Vec<Vec<Span>> {
        let widths = self.narrow(style, room);
        let mut lines = Vec::new();
        if self.columns.iter().any(|column| !column.head.is_empty()) {
            let head: Vec<Span> = self.columns.iter().map(|column| Paint::Bold.span(&column.head)).collect();
            self.push(&mut lines, style, &widths, &head);
        }
        for row in &self.rows {
            match row.cells.split_last() {
                Some((note, cells)) if row.runs_on => {
                    let start = widths[..cells.len()].iter().map(|width| width + self.gap).sum();
                    let at = lines.len();
                    self.push(&mut lines, style, &widths[..cells.len()], cells);
                    let mut parts = wrap(&style.clean(&note.text), room.saturating_sub(start), 0, 0).into_iter();
                    lines[at].extend([" ".repeat(self.gap).into(), note.paint.span(parts.next().unwrap_or_default())]);
                    lines.extend(parts.map(|part| vec![" ".repeat(start).into(), note.paint.span(part)]));
                }
                _ => self.push(&mut lines, style, &widths, &row.cells),
            }
        }
        lines
    }

    /// A row; what is wider than its column goes on in the lines below.
    fn push(&self, lines: &mut Vec<Vec<Span>>, style: Style, widths: &[usize], row: &[Span]) {
        let part = |(cell, room): (&Span, &usize)| match style.clean(&cell.text) {
            text if width(&text) <= *room => vec![text],
            text => wrap(&text, *room, 0, 0),
        };
        let parts: Vec<Vec<String>> = row.iter().zip(widths).map(part).collect();
        for at in 0..parts.iter().map(Vec::len).max().unwrap_or(0) {
            let mut line = Vec::new();
            for (((column, cell), parts), room) in self.columns.iter().zip(row).zip(&parts).zip(widths) {
                let text = parts.get(at).cloned().unwrap_or_default();
                let blank = " ".repeat(room.saturating_sub(width(&text)));
                let text = cell.paint.span(text);
                match column.align {
                    Align::Left => line.extend([text, blank.into()]),
                    Align::Right => line.extend([blank.into(), text]),
                }
                line.push(" ".repeat(self.gap).into());
            }
            line.pop();
            lines.push(line);
        }
    }

    /// Several tables that all begin with the first column and are each at most `room` wide.
    pub fn split(self, style: Style, room: usize) -> Vec<Table> {
        self.split_after(1, style, room)
    }

    /// The same with every cell in one of them, however long it is: heads and cells wrap, and each part begins with the
    /// first `lead` columns, which say what a row is.
    pub fn split_whole(mut self, lead: usize, style: Style, room: usize) -> Vec<Table> {
        let half = room / 2;
        self.widest = Some(half.saturating_sub(self.gap).max(1));
        self.wrap_leading(lead, style, half);
        let lead = (1..=lead.max(1)).rev().find(|lead| self.total(&self.widths(style)[..*lead]) <= half).unwrap_or(1);
        self.split_after(lead, style, room)
    }

    /// Lets the widest of the first columns wrap, between words, until they fit together as far as they can.
    fn wrap_leading(&mut self, lead: usize, style: Style, room: usize) {
        let of = |text: &str| style.clean(text).split(' ').map(width).max().unwrap_or(0);
        let word = |at: usize| {
            self.rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| of(&cell.text)).max().unwrap_or(0)
        };
        let lead = lead.min(self.columns.len());
        let words: Vec<usize> = (0..lead).map(word).collect();
        loop {
            let widths = self.widths(style);
            let shrinks = (0..lead).filter(|at| widths[*at] > words[*at].max(1));
            let Some(at) = shrinks.max_by_key(|at| widths[*at]).filter(|_| self.total(&widths[..lead]) > room) else {
                return;
            };
            self.columns[at].widest = widths[at] - 1;
        }
    }

    fn split_after(self, lead: usize, style: Style, room: usize) -> Vec<Table> {
        let widths = self.widths(style);
        let first = self.total(&widths[..lead.min(widths.len())]);
        let mut groups: Vec<Vec<usize>> = vec![Vec::new()];
        let mut used = first;
        for (at, column) in widths.iter().enumerate().skip(lead) {
            used += self.gap + column;
            if used > room && groups.last().is_some_and(|group| !group.is_empty()) {
                groups.push(Vec::new());
                used = first + self.gap + column;
            }
            if let Some(group) = groups.last_mut() {
                group.push(at);
            }
        }
        let part = |group: Vec<usize>| {
            let mut table = self.clone();
            for at in (lead..widths.len()).rev().filter(|at| !group.contains(at)) {
                table.remove(at);
            }
            table
        };
        groups.into_iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new()
            .column("path", Align::Left)
            .optional("aaaaaaaaaa", Align::Right, 1)
            .optional("bbbbbbbbbb", Align::Right, 2)
            .column("cccccccccc", Align::Right);
        table.row(["tcp:send".into(), "1".into(), "2".into(), "3".into()]);
        table
    }

    fn text(lines: Vec<Vec<Span>>) -> Vec<String> {
        let whole = |line: &Vec<Span>| line.iter().map(|span| span.text.as_str()).collect::<String>();
        lines.iter().map(|line| whole(line).trim_end().to_owned()).collect()
    }

    #[test]
    fn columns_go_in_the_order_of_their_worth() {
        let lines = text(table().lines(Style::default(), 40));
        assert_eq!(lines, ["path      bbbbbbbbbb  cccccccccc", "tcp:send           2           3"]);
        assert_eq!(text(table().lines(Style::default(), 25))[0], "path      cccccccccc");
    }

    #[test]
    fn a_wide_table_becomes_several() {
        let parts: Vec<_> = table()
            .split(Style::default(), 32)
            .into_iter()
            .map(|part| text(part.lines(Style::default(), 99)))
            .collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0][0], "path      aaaaaaaaaa  bbbbbbbbbb");
        assert_eq!(parts[1][1], "tcp:send           3");
    }

    #[test]
    fn every_part_has_all_of_what_says_what_a_row_is() {
        let mut table = Table::new()
            .column("size", Align::Right)
            .column("method", Align::Left)
            .column("calls", Align::Right)
            .column("throughput", Align::Right);
        for method in ["A1: fields copied together, one call", "A2: one sendmsg over the fields"] {
            table.row(["64 B".into(), method.into(), "1.00".into(), "0.50 Gbit/s (0.49 to 0.51)".into()]);
        }
        let parts: Vec<_> = table
            .split_whole(2, Style::default(), 40)
            .into_iter()
            .map(|part| text(part.lines(Style::default(), 40)))
            .collect();
        assert!(parts.len() > 1, "{parts:?}");
        for part in parts {
            assert!(part.iter().all(|line| line.chars().count() <= 40), "{part:?}");
            assert!(part[0].starts_with("size  method"), "{part:?}");
            assert!(["A1:", "A2:"].iter().all(|key| part.iter().any(|line| line.contains(key))), "{part:?}");
        }
    }

    #[test]
    fn a_note_takes_the_rest_of_the_line() {
        let mut table = table();
        table.row_with_note(["a longer path".into(), "one two three four".into()]);
        let lines = text(table.clone().lines(Style::default(), 60));
        assert_eq!(lines[2], "a longer path  one two three four");
        assert_eq!(lines[0], "path           aaaaaaaaaa  bbbbbbbbbb  cccccccccc");
        // Columns that go take no note with them.
        assert_eq!(
            text(table.lines(Style::default(), 27))[2..],
            ["a longer path  one two", "               three four"]
        );
    }

    #[test]
    fn the_last_column_wraps_under_itself() {
        let mut table = Table::new().column("a", Align::Left).column("b", Align::Left).wrap_last();
        table.row(["x".into(), "one two three four five six".into()]);
        let lines = text(table.lines(Style::default(), 23));
        assert_eq!(lines[1..], ["x  one two three four", "   five six"]);
    }

    #[test]
    fn a_part_begins_with_what_says_what_a_row_is() {
        let mut table = Table::new()
            .column("run", Align::Left)
            .column("path", Align::Left)
            .column("throughput of the receiver", Align::Right)
            .column("reason", Align::Left);
        table.row(["a".into(), "tcp:send".into(), "1.00".into(), "one two three four five".into()]);
        let parts: Vec<_> = table
            .split_whole(2, Style::default(), 30)
            .into_iter()
            .map(|part| text(part.lines(Style::default(), 30)))
            .collect();
        assert_eq!(
            parts[0],
            [
                "run  path      throughput",
                "                   of the",
                "                 receiver",
                "a    tcp:send        1.00"
            ]
        );
        assert_eq!(parts[1], ["run  path      reason", "a    tcp:send  one two three", "               four five"]);
    }
}
