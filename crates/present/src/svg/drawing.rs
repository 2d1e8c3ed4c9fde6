//! A picture as text. Every text that comes from outside goes through [`escape`].

use std::fmt::Write;

use msgpath_core::foreign::must_be_escaped;

use super::Svg;

/// `text` as it may stand in HTML or SVG, between tags or in a quoted attribute. What a terminal obeys or hides is replaced: XML cannot
/// hold a control character, not even escaped.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if must_be_escaped(c) && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Which end of a text lies at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text starts there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

/// Shapes in the order in which they are drawn. Classes and colours are those of the report's style sheet; positions
/// are pixels from the top left.
#[derive(Clone, Debug)]
pub struct Drawing {
    width: f64,
    height: f64,
    attributes: String,
    body: String,
}

impl Drawing {
    /// An empty picture.
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, attributes: String::new(), body: String::new() }
    }

    /// Gives the picture an attribute, such as `data-geo` for the script.
    pub fn attribute(&mut self, name: &'static str, value: &str) {
        // Writing to a String cannot fail.
        let _ = write!(self.attributes, " {name}=\"{}\"", escape(value));
    }

    /// Shapes as they are. Text of others must have gone through [`escape`].
    pub fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(text);
        self.body.push('\n');
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.put(format_args!(
            r#"<line class="{}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#,
            escape(class)
        ));
    }

    /// A line through points; nothing with fewer than two.
    pub fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() >= 2 {
            self.put(format_args!(r#"<path class="{}" d="{}"/>"#, escape(class), steps(points)));
        }
    }

    /// The surface between a line and another below it.
    pub fn band(&mut self, class: &str, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
        if upper.len() >= 2 && upper.len() == lower.len() {
            let around: Vec<_> = upper.iter().chain(lower.iter().rev()).copied().collect();
            self.put(format_args!(r#"<path class="{}" d="{}Z"/>"#, escape(class), steps(&around)));
        }
    }

    /// A point that tells `title` when pointed at.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), radius: f64, title: &str) {
        self.put(format_args!(
            r#"<circle class="{}" cx="{x:.1}" cy="{y:.1}" r="{radius}"><title>{}</title></circle>"#,
            escape(class),
            escape(title)
        ));
    }

    /// A rectangle that tells `title` when pointed at; no title where it is empty. `opacity` is that of the filling.
    pub fn rectangle(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        opacity: f64,
        title: &str,
    ) {
        let title = if title.is_empty() { String::new() } else { format!("<title>{}</title>", escape(title)) };
        self.put(format_args!(
            r#"<rect class="{}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill-opacity="{opacity:.2}">{title}</rect>"#,
            escape(class)
        ));
    }

    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            r#"<text class="{}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{}</text>"#,
            escape(class),
            escape(text)
        ));
    }

    /// The picture; `label` says in one sentence what it shows to those who cannot see it.
    pub fn finish(self, label: &str) -> Svg {
        Svg {
            width: self.width,
            height: self.height,
            label: label.into(),
            attributes: self.attributes,
            body: self.body,
        }
    }
}

fn steps(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{x:.1},{y:.1}", if at == 0 { 'M' } else { 'L' });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_cannot_get_through() {
        assert_eq!(escape("</style><script>\"'&"), "&lt;/style&gt;&lt;script&gt;&quot;&#39;&amp;");
        assert_eq!(escape("a\x1b[0mb\n"), "a\u{fffd}[0mb\n");
        let mut drawing = Drawing::new(10.0, 10.0);
        drawing.text("a\" onload=\"x", (1.0, 2.0), Anchor::End, "<b>");
        drawing.dot("d", (1.0, 2.0), 2.0, "</title><script>");
        let svg = drawing.finish("\"><script>").markup();
        assert!(!svg.contains("<script") && !svg.contains("<b>") && !svg.contains("\" onload=\""), "{svg}");
    }

    #[test]
    fn shapes_are_drawn_where_they_are_put() {
        let mut drawing = Drawing::new(100.0, 50.0);
        drawing.path("p", &[(0.0, 0.0), (1.25, 2.0)]);
        drawing.path("p", &[(0.0, 0.0)]);
        drawing.band("b", &[(0.0, 1.0), (2.0, 1.0)], &[(0.0, 3.0), (2.0, 4.0)]);
        let svg = drawing.finish("two lines").markup();
        assert_eq!(svg.matches("<path").count(), 2);
        assert!(svg.contains(r#"d="M0.0,0.0L1.2,2.0""#), "{svg}");
        assert!(svg.contains("M0.0,1.0L2.0,1.0L2.0,4.0L0.0,3.0Z"), "{svg}");
        assert!(svg.starts_with(r#"<svg viewBox="0 0 100 50""#) && svg.contains(r#"aria-label="two lines""#));
    }
}
