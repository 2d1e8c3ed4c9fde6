//! The body of the report, being written: sections, figures, tables.

use msgpath_analyse::summary::Confidence;
use msgpath_core::units::Glyphs;

use crate::svg::escape;

pub(super) const G: Glyphs = Glyphs::Unicode;

/// How sure a sentence is, as a class of the style sheet.
pub(crate) fn class(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Sure => "sure",
        Confidence::Likely => "likely",
        Confidence::CantTell => "cant-tell",
    }
}

#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    /// A smaller line below.
    note: String,
    class: &'static str,
}

impl Cell {
    /// A cell with a class of the style sheet.
    pub fn of(class: &'static str, text: impl Into<String>) -> Self {
        Self { text: text.into(), note: String::new(), class }
    }

    /// Adds a smaller line below.
    pub(crate) fn with_note(mut self, note: String) -> Self {
        self.note = note;
        self
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::of("", text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

pub struct Page {
    out: String,
    /// A section is open: it ends where the next one begins.
    folded: bool,
    /// Identifiers and names of what the reader can go to.
    contents: Vec<(String, String)>,
}

impl Page {
    pub(crate) fn new() -> Self {
        Self { out: String::new(), folded: false, contents: Vec::new() }
    }

    /// The contents, and the body.
    pub(crate) fn finish(mut self) -> (String, String) {
        self.end_section();
        let links: String = self
            .contents
            .iter()
            .map(|(id, name)| format!("<a href=\"#{}\">{}</a>\n", escape(id), escape(name)))
            .collect();
        (links, self.out)
    }

    /// A line of the contents.
    pub(crate) fn listed(&mut self, id: &str, name: &str) {
        self.contents.push((id.into(), name.into()));
    }

    /// Begins a section that is folded until somebody wants it. It goes on to the next section or the end.
    pub fn section(&mut self, name: &str) {
        let id = format!("part-{}", self.contents.len() + 1);
        self.fold(&id, name, false);
    }

    /// A section that is there without being asked for.
    pub(crate) fn open_section(&mut self, name: &str) {
        let id = format!("part-{}", self.contents.len() + 1);
        self.fold(&id, name, true);
    }

    /// The same with an identifier of its own.
    pub(crate) fn fold(&mut self, id: &str, name: &str, open: bool) {
        self.end_section();
        self.listed(id, name);
        let open = if open { " open" } else { "" };
        self.raw(&format!(
            "<details class=\"fold\" id=\"{}\"{open}>\n<summary><h2>{}</h2></summary>\n",
            escape(id),
            escape(name)
        ));
        self.folded = true;
    }

    /// What follows stands by itself.
    pub(crate) fn end_section(&mut self) {
        if std::mem::take(&mut self.folded) {
            self.raw("</details>\n");
        }
    }

    /// Markup as it is. Text of others must have gone through [`escape`].
    pub(crate) fn raw(&mut self, markup: &str) {
        self.out.push_str(markup);
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.raw(&format!("<h2>{}</h2>\n", escape(text)));
    }

    /// The sentence that answers, as the heading of the page, and what to type next.
    pub(crate) fn headline(&mut self, confidence: Confidence, text: &str, next: Option<&String>) {
        let (first, rest) = first_sentence(text);
        let class = class(confidence);
        let tag = escape(confidence.word());
        self.raw(&format!("<h1 class=\"{class}\"><span class=\"tag\">{tag}</span>{}</h1>\n", escape(first)));
        if !rest.is_empty() {
            self.raw(&format!("<p>{}</p>\n", escape(rest)));
        }
        if let Some(command) = next {
            self.raw(&format!("<p class=\"next\">next: <code>{}</code></p>\n", escape(command)));
        }
    }

    pub fn note(&mut self, text: &str) {
        self.raw(&format!("<p class=\"mut\">{}</p>\n", escape(text)));
    }

    /// A sentence of a list: its class in the style sheet, the word in front of it, and what to type next.
    pub(crate) fn item(&mut self, class: &str, tag: &str, text: &str, next: &[String]) {
        self.raw(&format!("<li class=\"{class}\"><span class=\"tag\">{}</span>{}", escape(tag), escape(text)));
        for command in next {
            self.raw(&format!("<span class=\"next\">next: <code>{}</code></span>", escape(command)));
        }
        self.raw("</li>\n");
    }

    /// The same of a computed sentence.
    pub(crate) fn computed(&mut self, confidence: Confidence, text: &str, next: &[String]) {
        self.item(class(confidence), confidence.word(), text, next);
    }

    /// A table that is folded away where it is long.
    pub(crate) fn long_table(&mut self, heads: &[String], rows: &[Vec<Cell>]) {
        const LONG: usize = 16;
        if rows.len() <= LONG {
            return self.table(heads, rows);
        }
        self.raw(&format!("<details><summary>{} rows</summary>\n", rows.len()));
        self.table(heads, rows);
        self.raw("</details>\n");
    }

    pub fn table(&mut self, heads: &[String], rows: &[Vec<Cell>]) {
        self.raw("<div class=\"wide\"><table>\n<tr>");
        for (at, head) in heads.iter().enumerate() {
            // A column of text is headed on the left, like its cells.
            let left = rows.iter().any(|row| row.get(at).is_some_and(|cell| matches!(cell.class, "l" | "w l")));
            self.raw(&format!("<th{}>{}</th>", if left { " class=\"l\"" } else { "" }, escape(head)));
        }
        self.raw("</tr>\n");
        for row in rows {
            self.raw("<tr>");
            for cell in row {
                let class = if cell.class.is_empty() { String::new() } else { format!(" class=\"{}\"", cell.class) };
                let note = if cell.note.is_empty() {
                    String::new()
                } else {
                    format!("<span class=\"i\">{}</span>", escape(&cell.note))
                };
                self.raw(&format!("<td{class}>{}{note}</td>", escape(&cell.text)));
            }
            self.raw("</tr>\n");
        }
        self.raw("</table></div>\n");
    }
}

/// The first sentence of a finding, and what follows it. A full stop within brackets or a number ends nothing.
fn first_sentence(text: &str) -> (&str, &str) {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 && at > 40 && text[at..].starts_with(". ") {
            return (&text[..=at], text[at + 2..].trim());
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headline_is_one_sentence() {
        let text = "Slow messages are slow because the receiver waited (95 %: 5.20 ms. to 5.95 ms). Meanwhile ran: x.";
        assert_eq!(first_sentence(text).1, "Meanwhile ran: x.");
        assert!(first_sentence(text).0.ends_with("5.95 ms)."));
        assert_eq!(first_sentence("Half came back within 4.2 µs."), ("Half came back within 4.2 µs.", ""));
    }
}
