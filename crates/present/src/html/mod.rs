//! The report: one HTML file that needs no network and no script. Sentences first, then pictures, then every number.

mod compared;
mod embed;
mod encode;
mod explained;
pub mod figures;
mod mesh;
pub(crate) mod page;
mod png;
mod scene;
mod tables;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::schema::NEAR;
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use crate::svg::{self, escape};
use crate::view;
use crate::words;
pub use embed::DEFAULT_EMBED;
pub use mesh::mesh;
use page::Page;
pub use scene::{Earlier, Messages, Scene};

/// What a browser may do with the file: show it. It cannot call home, and a hostile name cannot fetch anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

const G: Glyphs = Glyphs::Unicode;

/// Colours and classes of the pictures.
pub(crate) const FIGURES: &str = include_str!("style/figures.css");
/// The same colours for dark screens.
const DARK: &str = include_str!("style/dark.css");
/// The page around them.
const PAGE: &str = include_str!("style/page.css");

/// Read-outs and the message timeline; everything else is complete without it.
const SCRIPT: &str = concat!(
    include_str!("script/page.js"),
    include_str!("script/readouts.js"),
    include_str!("script/log.js"),
    include_str!("script/timeline.js"),
    include_str!("script/calls.js"),
    include_str!("script/links.js")
);

/// The report of a run as one self-contained HTML file.
pub fn report(scene: &Scene<'_>) -> String {
    let (run, summary) = (scene.run, scene.summary);
    let mut page = Page::new();
    let cases = scene.measured();
    heading(&mut page, scene, &cases);
    if let [case] = cases.as_slice() {
        cards(&mut page, case);
    }
    if let Some(earlier) = &scene.earlier {
        compared::verdict(&mut page, earlier);
        page.raw(&format!("<h3>{} by itself</h3>\n", escape(&summary.name)));
    }
    verdict(&mut page, run, summary);
    tables::gates(&mut page, summary);
    figures::all(&mut page, scene);
    if let Some(earlier) = &scene.earlier {
        compared::tables(&mut page, earlier);
    }
    if let Some(comparison) = &summary.comparison {
        tables::comparison(&mut page, &scene.grid(), comparison);
    }
    explained::tables(&mut page, summary);
    tables::latency(&mut page, run, &cases);
    tables::throughput(&mut page, run, summary);
    tables::programs(&mut page, run, summary);
    tables::costs(&mut page, &cases);
    tables::events(&mut page, &cases);
    tables::unavailable(&mut page, summary);
    tables::environment(&mut page, run, summary, &cases);
    page.raw(&format!(
        "<footer>msgpath {} · schema {} · run {} · {} rounds · this file is self-contained and makes no network request</footer>\n",
        escape(&run.header.version),
        escape(&summary.schema),
        escape(&summary.name),
        G.thousands(summary.totals.rounds)
    ));
    document(&format!("msgpath {} {}", summary.verb, summary.name), &page.finish(), SCRIPT)
}

/// A whole HTML file: `body` inside the page's style, with `script` where there is one.
pub(crate) fn document(title: &str, body: &str, script: &str) -> String {
    let script = match script {
        "" => String::new(),
        script => format!("<script type=\"module\">\n{script}</script>\n"),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{body}</main>\n{script}</body>\n</html>\n",
        escape(title),
        style(),
    )
}

/// One figure of the report as an SVG file; why there is none otherwise.
///
/// # Errors
/// The figure does not concern this run, its data is missing, or it is not a drawing.
pub fn figure_file(scene: &Scene<'_>, figure: &figures::Figure) -> Result<String, String> {
    match (figure.draw)(scene) {
        figures::Drawn::Nothing => Err("it does not concern this run".into()),
        figures::Drawn::Unavailable(why) => Err(why),
        figures::Drawn::Picture(picture) if picture.panels.is_empty() => Err("it is not a drawing".into()),
        figures::Drawn::Picture(picture) => Ok(svg::file(figure.question, &picture.panels, FIGURES)),
    }
}

/// The style sheet: light, dark where the screen asks for it or the reader chose it, and light again on paper.
fn style() -> String {
    let dark = DARK.trim();
    format!(
        "{FIGURES}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}\n{PAGE}"
    )
}

fn heading(page: &mut Page, scene: &Scene<'_>, cases: &[&CaseSummary]) {
    let (run, summary) = (scene.run, scene.summary);
    let subject = match cases {
        [case] => format!("{}, {}, {}", case.case.path, words::message(&case.case), words::load(&case.case, G)),
        many => words::counted(many.len() as u64, "case", G),
    };
    let runs = match &scene.earlier {
        Some(earlier) => format!("{} → {}: ", earlier.summary.name, summary.name),
        None => String::new(),
    };
    page.raw(&format!("<h1>{}{}, {}</h1>\n", escape(&runs), escape(&summary.verb), escape(&subject)));
    let header = &run.header;
    let facts = [
        format!("{} → {}", header.host(NEAR).host, summary.target),
        format!("Linux {}", header.host(NEAR).kernel),
        header.host(NEAR).cpu.clone(),
        format!("started {}", header.started),
        view::placement(run),
    ];
    page.raw(&format!(
        "<p class=\"mut\">{}<br><code>{}</code></p>\n",
        escape(&facts.join(" · ")),
        escape(&header.command.join(" "))
    ));
}

/// The figures that people quote, with their intervals.
fn cards(page: &mut Page, case: &CaseSummary) {
    let mut cards = Vec::new();
    if let Some(throughput) = &case.throughput {
        let print = |bits| words::throughput(bits, Default::default());
        let bits = &throughput.receiver_bits;
        cards.push((
            "throughput".to_owned(),
            print(bits.value),
            format!("95 %: {}", words::estimate_interval(bits, print)),
        ));
        let sender = &throughput.sender_bits;
        cards.push(("sender's clock".into(), print(sender.value), words::sender_until(&case.case).into()));
    } else {
        for p in [0.5, 0.99, 0.999] {
            if let Some(quantile) = words::quantile(case, p) {
                let range = words::quantile_range(quantile, G);
                let mut range = if quantile.is_interval() { format!("95 %: {range}") } else { range };
                let between = words::between_range(case, p, G);
                if let Some(runs) = words::between_runs(&case.between).filter(|_| !between.is_empty()) {
                    range += &format!("; {runs}: {between}");
                }
                cards.push((words::quantile_name(p), words::quantile_value(quantile, G), range));
            }
        }
    }
    let messages = case.messages.max(case.delivery.received);
    cards.push((
        "messages".into(),
        G.thousands(messages),
        format!("{}, {}", words::losses(&case.delivery, G), words::payloads(&case.delivery)),
    ));
    page.raw("<div class=\"cards\">\n");
    for (name, value, note) in cards {
        page.raw(&format!(
            "<div class=\"card\"><span>{}</span><b>{}</b><span>{}</span></div>\n",
            escape(&name),
            escape(&value),
            escape(&note)
        ));
    }
    page.raw("</div>\n");
}

/// Warnings, then findings with their confidence words.
fn verdict(page: &mut Page, run: &Run, summary: &Summary) {
    page.raw("<ul class=\"verdict\">\n");
    if let Some(text) = view::incomplete(run, summary) {
        page.raw(&format!("<li class=\"warning\"><span class=\"tag\">not whole</span>{}</li>\n", escape(&text)));
    }
    if summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed) {
        page.raw("<li class=\"warning\"><span class=\"tag\">void</span>The baseline differed from its own hidden repetition, so the comparison below is void.</li>\n");
    }
    for warning in &summary.warnings {
        page.raw(&format!(
            "<li class=\"warning\"><span class=\"tag\">warning {}</span>{}",
            escape(&warning.code),
            escape(&warning.text)
        ));
        for (lead, text) in [("", &warning.why), ("fix: ", &warning.fix)] {
            if !text.is_empty() {
                page.raw(&format!("<span class=\"next\">{lead}{}</span>", escape(text)));
            }
        }
        page.raw("</li>\n");
    }
    for finding in &summary.findings {
        let class = match finding.confidence {
            Confidence::Sure => "sure",
            Confidence::Likely => "likely",
            Confidence::CantTell => "cant-tell",
        };
        page.raw(&format!(
            "<li class=\"{class}\"><span class=\"tag\">{}</span>{}",
            escape(finding.confidence.word()),
            escape(&finding.text)
        ));
        for command in &finding.next {
            page.raw(&format!("<span class=\"next\">next: <code>{}</code></span>", escape(command)));
        }
        page.raw("</li>\n");
    }
    page.raw("</ul>\n");
}

#[cfg(test)]
mod tests;
