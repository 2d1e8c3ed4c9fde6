//! Lines of a fixed greatest width: spans with a colour, wrapping with hanging indents, the ASCII form.

use msgpath_analyse::summary::Confidence;
use msgpath_core::foreign::shown;
use msgpath_core::units::Glyphs;

use super::table::Table;

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; output uses at least 60 and at most 100 of them.
    pub width: u16,
    /// Whether ANSI colours are written. No meaning rests on them.
    pub color: bool,
    /// Unicode, or ASCII only.
    pub glyphs: Glyphs,
    /// `-v`: costs, steadiness, every finding and warning in full, below what is printed anyway.
    pub verbose: bool,
    /// `-W`: warnings in full, instead of a line for each kind.
    pub warnings: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 100, color: false, glyphs: Glyphs::Unicode, verbose: false, warnings: false }
    }
}

impl Style {
    /// The widest line, in characters.
    pub fn columns(self) -> usize {
        usize::from(self.width.clamp(60, 100))
    }

    /// `text` as it may be printed: what a terminal would obey is escaped, and in ASCII mode nothing but ASCII is left.
    pub fn clean(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        // Our own texts may have line feeds where they can be wrapped.
        for c in shown(&text.replace(['\n', '\t'], " ")).chars() {
            match c {
                c if c.is_ascii() || self.glyphs == Glyphs::Unicode => out.push(c),
                c => out.push_str(ascii(c)),
            }
        }
        out
    }
}

/// What stands for a character that ASCII does not have.
fn ascii(c: char) -> &'static str {
    match c {
        'µ' | 'μ' => "u",
        '\u{2009}' | '\u{a0}' | '\u{202f}' => " ",
        '–' | '−' | '—' => "-",
        '±' => "+/-",
        '×' => "x",
        '·' => ".",
        '▲' => "^",
        '▼' => "v",
        '★' => "*",
        '≈' => "~",
        '≥' => ">=",
        '≤' => "<=",
        '→' => "->",
        '←' => "<-",
        '…' => "...",
        '“' | '”' => "\"",
        '‘' | '’' => "'",
        '█' => "#",
        _ => "?",
    }
}

/// A colour, by what it is for. Words or signs say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    /// Text.
    #[default]
    Plain,
    /// Headings, and the numbers that are looked for first.
    Bold,
    /// Hints.
    Dim,
    /// `sure`, better, done.
    Green,
    /// Worse, failed.
    Red,
    /// `can't tell`, warnings, widened ranges.
    Yellow,
    /// `likely`, names of runs.
    Blue,
}

impl Paint {
    /// The colour of how sure a sentence is.
    pub fn of(confidence: Confidence) -> Self {
        match confidence {
            Confidence::Sure => Paint::Green,
            Confidence::Likely => Paint::Blue,
            Confidence::CantTell => Paint::Yellow,
        }
    }

    fn code(self) -> Option<&'static str> {
        Some(match self {
            Paint::Plain => return None,
            Paint::Bold => "1",
            Paint::Dim => "2",
            Paint::Red => "31",
            Paint::Green => "32",
            Paint::Yellow => "33",
            Paint::Blue => "34",
        })
    }

    /// A piece of text in this colour.
    pub fn span(self, text: impl Into<String>) -> Span {
        Span { text: text.into(), paint: self }
    }
}

/// A piece of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub paint: Paint,
}

impl From<&str> for Span {
    fn from(text: &str) -> Self {
        Paint::Plain.span(text)
    }
}

impl From<String> for Span {
    fn from(text: String) -> Self {
        Paint::Plain.span(text)
    }
}

/// Characters of a text: the width of a line is counted in them.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// The lines of a result, being written.
pub struct Page {
    /// How it is printed.
    pub style: Style,
    out: String,
}

impl Page {
    /// An empty page.
    pub fn new(style: Style) -> Self {
        Self { style, out: String::new() }
    }

    pub fn finish(self) -> String {
        self.out
    }

    /// One line. What does not fit is cut, which only a name longer than a line can bring about.
    pub fn line(&mut self, spans: &[Span]) {
        let mut left = self.style.columns();
        let mut line = String::new();
        for span in spans {
            let text: String = self.style.clean(&span.text).chars().take(left).collect();
            left -= width(&text);
            match span.paint.code().filter(|_| self.style.color && !text.trim().is_empty()) {
                Some(code) => line.push_str(&format!("\x1b[{code}m{text}\x1b[0m")),
                None => line.push_str(&text),
            }
        }
        self.out.push_str(line.trim_end_matches(' '));
        self.out.push('\n');
    }

    /// A line that is to be copied: neither coloured nor cut, so it may be wider than the terminal.
    pub fn verbatim(&mut self, text: &str) {
        let text = self.style.clean(text);
        self.out.push_str(text.trim_end_matches(' '));
        self.out.push('\n');
    }

    /// Lines so far.
    pub fn lines(&self) -> usize {
        self.out.lines().count()
    }

    /// What another page of the same style has.
    pub fn append(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// An empty line, unless there is one already.
    pub fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// A bold line after a gap.
    pub fn heading(&mut self, text: &str) {
        self.gap();
        self.hanging(&[], 0, text, Paint::Bold);
    }

    /// `text` behind `lead`, wrapped; the lines after the first start at `indent`.
    pub fn hanging(&mut self, lead: &[Span], indent: usize, text: &str, paint: Paint) {
        let text = self.style.clean(text);
        let lead_width = lead.iter().map(|span| width(&self.style.clean(&span.text))).sum();
        let mut spans = lead.to_vec();
        for line in wrap(&text, self.style.columns(), lead_width, indent) {
            spans.push(paint.span(line));
            self.line(&spans);
            spans = vec![" ".repeat(indent).into()];
        }
    }

    /// `text` wrapped at `indent`.
    pub fn text(&mut self, indent: usize, text: &str, paint: Paint) {
        self.hanging(&[" ".repeat(indent).into()], indent, text, paint);
    }

    /// A table, indented by two.
    pub fn table(&mut self, table: Table) {
        for line in table.lines(self.style, self.style.columns() - 2) {
            let mut spans = vec![Span::from("  ")];
            spans.extend(line);
            self.line(&spans);
        }
    }
}

/// A number keeps its unit on its line.
fn glued(number: &str, unit: &str) -> bool {
    const UNITS: [&str; 19] = [
        "%", "ns", "µs", "us", "ms", "s", "/s", "k/s", "M/s", "G/s", "B", "KiB", "MiB", "GiB", "k", "M", "Mbit/s",
        "Gbit/s", "GB/s",
    ];
    number.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&unit.trim_end_matches([',', '.', ';', ':', ')']))
}

/// The words of `text`; a number and its unit are one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if glued(last, word) => *last = format!("{last} {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Breaks `text` at spaces into lines that end at `columns`; the first starts at `first`, the others at `indent`.
pub fn wrap(text: &str, columns: usize, first: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut room = columns.saturating_sub(first).max(1);
    for mut word in words(text) {
        let space = usize::from(!line.is_empty());
        if !line.trim().is_empty() && width(&line) + space + width(&word) > room {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            room = columns.saturating_sub(indent).max(1);
            if word.is_empty() {
                continue;
            }
        } else if space > 0 {
            line.push(' ');
        }
        // A single word longer than a line is broken where the line ends.
        while width(&word) > room.saturating_sub(width(&line)) && width(&line) < room {
            let taken: String = word.chars().take(room - width(&line)).collect();
            word = word.chars().skip(width(&taken)).collect();
            line.push_str(&taken);
            lines.push(std::mem::take(&mut line));
            room = columns.saturating_sub(indent).max(1);
        }
        line.push_str(&word);
    }
    lines.push(line.trim_end().to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_with_a_hanging_indent() {
        let mut page = Page::new(Style { width: 60, ..Style::default() });
        page.hanging(&["  sure        ".into()], 14, &"word ".repeat(20), Paint::Plain);
        let out = page.finish();
        assert!(out.lines().count() == 3 && out.lines().all(|line| width(line) <= 60), "{out}");
        assert!(out.lines().nth(1).unwrap().starts_with("              word"));
        assert_eq!(out.matches("word").count(), 20);
    }

    #[test]
    fn a_word_longer_than_the_line_is_broken_not_lost() {
        let lines = wrap(&"x".repeat(25), 10, 4, 2);
        assert_eq!(lines, ["xxxxxx", "xxxxxxxx", "xxxxxxxx", "xxx"]);
        assert_eq!(wrap("", 10, 0, 0), [""]);
        assert_eq!(wrap("a  b", 10, 0, 0), ["a  b"]);
    }

    #[test]
    fn a_number_keeps_its_unit() {
        assert_eq!(wrap("it took 7.10 µs.", 14, 0, 0), ["it took", "7.10 µs."]);
        assert_eq!(wrap("1.31 (95 %: 1.2)", 9, 0, 0), ["1.31", "(95 %:", "1.2)"]);
        assert_eq!(wrap("after 6 rounds", 8, 0, 0), ["after 6", "rounds"]);
    }

    #[test]
    fn nothing_reaches_the_terminal_that_moves_its_cursor() {
        let style = Style::default();
        assert_eq!(style.clean("host\x1b[2J\r\nb\u{202e}"), "host\\u{1b}[2J\\r b\\u{202e}");
        let ascii = Style { glyphs: Glyphs::Ascii, ..style };
        assert_eq!(ascii.clean("1\u{2009}234 µs ±2 % ▲ ≈ é"), "1 234 us +/-2 % ^ ~ ?");
    }

    #[test]
    fn colour_only_when_asked() {
        let write = |color| {
            let mut page = Page::new(Style { color, ..Style::default() });
            page.line(&[Paint::Green.span("sure"), "  x".into()]);
            page.finish()
        };
        assert_eq!(write(false), "sure  x\n");
        assert_eq!(write(true), "\x1b[32msure\x1b[0m  x\n");
    }
}
