//! A finished picture: as a part of a page, or as a file of its own.

use std::fmt::Write;

use super::escape;

/// A picture.
#[derive(Clone, Debug)]
pub struct Svg {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) label: String,
    /// Further attributes, escaped.
    pub(super) attributes: String,
    pub(super) body: String,
}

impl Svg {
    /// As it stands in a page, which brings the style sheet.
    pub fn markup(&self) -> String {
        // What is drawn for the whole width may grow a little with it.
        let (wide, most) = if self.width > 800.0 { (" class=\"wide\"", self.width * 1.2) } else { ("", self.width) };
        format!(
            "<svg{wide} viewBox=\"0 0 {} {}\" style=\"max-width:{most:.0}px\" role=\"img\" aria-label=\"{}\"{}>\n{}</svg>\n",
            self.width,
            self.height,
            escape(&self.label),
            self.attributes,
            self.body
        )
    }
}

/// Pictures side by side in rows of `columns`, as one.
pub fn grid(panels: &[Svg], columns: usize) -> Svg {
    let columns = columns.clamp(1, panels.len().max(1));
    let mut body = String::new();
    let mut width = 0.0_f64;
    let mut y = 0.0;
    for row in panels.chunks(columns) {
        let mut x = 0.0;
        for panel in row {
            // Writing to a String cannot fail.
            let _ = writeln!(
                body,
                "<svg x=\"{x}\" y=\"{y}\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n{2}</svg>",
                panel.width, panel.height, panel.body
            );
            x += panel.width + MARGIN;
        }
        width = width.max(x - MARGIN);
        y += row.iter().map(|panel| panel.height).fold(0.0, f64::max) + MARGIN;
    }
    let labels: Vec<&str> = panels.iter().map(|panel| panel.label.as_str()).collect();
    Svg { width, height: (y - MARGIN).max(0.0), label: labels.join(". "), attributes: String::new(), body }
}

const MARGIN: f64 = 16.0;
const TITLE: f64 = 34.0;

/// Pictures, one below the other under a title, as a file that stands alone: light, with its style inside and every
/// `var(--token)` of it replaced, because the programs that turn SVG into PDF do not know them.
pub fn file(title: &str, panels: &[Svg], style: &str) -> String {
    let width = panels.iter().map(|panel| panel.width).fold(0.0, f64::max) + 2.0 * MARGIN;
    let height = TITLE + panels.iter().map(|panel| panel.height + MARGIN).sum::<f64>();
    let labels: Vec<&str> = panels.iter().map(|panel| panel.label.as_str()).collect();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n<style>\n{}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text class=\"b\" x=\"{MARGIN}\" y=\"22\">{}</text>\n",
        escape(&labels.join(". ")),
        resolved(style),
        escape(title)
    );
    let mut y = TITLE;
    for panel in panels {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<svg x=\"{MARGIN}\" y=\"{y}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\">\n{}</svg>",
            panel.width,
            panel.height,
            panel.width,
            panel.height,
            resolve(&panel.body, style)
        );
        y += panel.height + MARGIN;
    }
    out + "</svg>\n"
}

/// The style sheet without its variables and comments.
fn resolved(style: &str) -> String {
    let rules: String = style.split_inclusive('\n').filter(|line| !line.starts_with(":root")).collect();
    let rules = match (rules.find("/*"), rules.find("*/")) {
        (Some(from), Some(to)) => format!("{}{}", &rules[..from], rules[to + 2..].trim_start()),
        _ => rules,
    };
    resolve(&rules, style)
}

/// `text` with every `var(--name)` replaced by what the `:root` of `style` says.
fn resolve(text: &str, style: &str) -> String {
    let root = style.split_once(":root{").and_then(|(_, rest)| rest.split_once('}')).map_or("", |(root, _)| root);
    let mut out = text.to_owned();
    for (name, value) in root.split(';').filter_map(|declaration| declaration.split_once(':')) {
        out = out.replace(&format!("var({name})"), value);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::{Anchor, Drawing};

    #[test]
    fn a_file_stands_alone() {
        let panel = || {
            let mut drawing = Drawing::new(100.0, 50.0);
            drawing.attribute("data-geo", "\"x\"");
            drawing.text("m", (1.0, 2.0), Anchor::Start, "<b>");
            drawing.finish("one")
        };
        let style = "/* tokens */\n:root{--mut:#123456;--fg:#000}\nsvg .m{fill:var(--mut)}\n";
        let svg = file("a < b", &[panel(), panel()], style);
        assert!(svg.contains("svg .m{fill:#123456}") && !svg.contains("var(") && !svg.contains("/*"), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("width=\"132\" height=\"166\""), "{svg}");
        assert_eq!((svg.matches("<svg").count(), svg.matches("</svg>").count()), (3, 3));
        assert!(panel().markup().contains("data-geo=\"&quot;x&quot;\""));
    }
}
