//! Stages on a terminal, in the report, in the JSON.

mod anatomy;
mod divided;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod json;
mod tables;
pub mod terminal;

use msgpath_present::section::{NOTHING, Section};

pub static SECTION: Section = Section {
    of_verb: Some((crate::verb::NAME, terminal::explain)),
    behind: terminal::stages_of,
    tables: tables::tables,
    divided: divided::divided,
    leading: &[anatomy::FIGURE],
    ..NOTHING
};

/// What it adds to the schema of `--json`.
pub const SCHEMA: &str = include_str!("schema.json");

#[cfg(test)]
mod tests {
    use msgpath_analyse::summary::Warning;
    use msgpath_present::html::{Scene, figure_file, report};
    use msgpath_present::section;
    use msgpath_present::terminal::Style;
    use msgpath_record::NO_MESSAGES;

    use super::*;

    /// Lines that are seen without scrolling.
    const FIRST: usize = 25;

    #[test]
    fn the_report_begins_with_the_anatomy_and_every_tag_closes() {
        section::add(&SECTION);
        let (run, summary) = fixture::explained();
        let html = report(&Scene::new(&run, &summary));
        let first = html.find("<figure id=\"fig-").unwrap();
        assert!(html[first..].starts_with("<figure id=\"fig-anatomy\""));
        for tag in [
            "main", "figure", "details", "table", "tr", "td", "th", "svg", "text", "ul", "li", "div", "span", "p",
            "h1", "h2", "h3",
        ] {
            let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(!html.contains("NaN") && !html.contains("\"inf"));
        assert!(html.contains("who held the CPU while the receiver was runnable"));
        let svg = figure_file(&Scene::new(&run, &summary), &anatomy::FIGURE).unwrap();
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn the_first_number_is_seen_without_scrolling() {
        let (run, mut summary) = fixture::explained();
        for more in [false, true] {
            summary.warnings.extend((40..50).filter(|_| more).map(|n| Warning {
                code: format!("W{n}"),
                text: format!("something took a line to say: {}", "and so on ".repeat(30)),
                why: "the reason is long as well ".repeat(5),
                fix: "and so is what helps ".repeat(5),
                evidence: Default::default(),
                strict: n == 49,
            }));
            for verbose in [false, true] {
                let style = Style { width: 80, verbose, ..Style::default() };
                let text = terminal::explain(&run, &summary, &NO_MESSAGES, style);
                assert!(text.lines().take(FIRST).any(|line| line.contains("round trip ")), "{text}");
            }
        }
    }
}
