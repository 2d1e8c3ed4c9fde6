//! Lines of a fixed greatest width: spans with a colour, wrapping with hanging indents, the ASCII form.

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
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 100, color: false, glyphs: Glyphs::Unicode }
    }
}

impl Style {
    /// The widest line, in characters.
    pub fn columns(self) -> usize {
        usize::from(self.width.clamp(60, 100))
    }

    /// `text` as it may be printed: no control characters, and in ASCII mode nothing but ASCII.
    pub(crate) fn clean(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match c {
                '\n' | '\t' => out.push(' '),
                c if c.is_control() => out.push('?'),
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

/// A colour, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Paint {
    #[default]
    Plain,
    Bold,
    Dim,
    Green,
    Red,
    Yellow,
    Blue,
}

impl Paint {
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
    pub(crate) fn span(self, text: impl Into<String>) -> Span {
        Span { text: text.into(), paint: self }
    }
}

/// A piece of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) text: String,
    pub(crate) paint: Paint,
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
pub(crate) fn width(text: &str) -> usize {
    text.chars().count()
}

/// The lines of a result, being written.
pub(crate) struct Page {
    pub(crate) style: Style,
    out: String,
}

impl Page {
    pub(crate) fn new(style: Style) -> Self {
        Self { style, out: String::new() }
    }

    /// The text.
    pub(crate) fn finish(self) -> String {
        self.out
    }

    /// One line. What does not fit is cut, which only a name longer than a line can bring about.
    pub(crate) fn line(&mut self, spans: &[Span]) {
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

    /// An empty line, unless there is one already.
    pub(crate) fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// A bold line after a gap.
    pub(crate) fn heading(&mut self, text: &str) {
        self.gap();
        self.hanging(&[], 0, text, Paint::Bold);
    }

    /// `text` behind `lead`, wrapped; the lines after the first start at `indent`.
    pub(crate) fn hanging(&mut self, lead: &[Span], indent: usize, text: &str, paint: Paint) {
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
    pub(crate) fn text(&mut self, indent: usize, text: &str, paint: Paint) {
        self.hanging(&[" ".repeat(indent).into()], indent, text, paint);
    }

    /// A table, indented by two.
    pub(crate) fn table(&mut self, table: Table) {
        for line in table.lines(self.style, self.style.columns() - 2) {
            let mut spans = vec![Span::from("  ")];
            spans.extend(line);
            self.line(&spans);
        }
    }
}

/// Breaks `text` at spaces into lines that end at `columns`; the first starts at `first`, the others at `indent`.
pub(crate) fn wrap(text: &str, columns: usize, first: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut room = columns.saturating_sub(first).max(1);
    for word in text.split(' ') {
        let mut word: String = word.into();
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
    fn nothing_reaches_the_terminal_that_moves_its_cursor() {
        let style = Style::default();
        assert_eq!(style.clean("host\x1b[2J\r\nb"), "host?[2J? b");
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
