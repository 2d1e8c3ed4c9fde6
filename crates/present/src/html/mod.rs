//! The report: one HTML file that needs no network and no script. Sentences first, then pictures, then every number.

mod crossover;
mod page;
mod spectrum;
mod tables;
mod winners;

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Confidence};
use msgpath_core::units::Glyphs;
use msgpath_record::Run;

use crate::svg::escape;
use crate::view::{self, Grid};
use crate::words;
use page::Page;

/// What a browser may do with the file: show it. It cannot call home, and a hostile name cannot fetch anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

const G: Glyphs = Glyphs::Unicode;

/// The report of a run as one self-contained HTML file.
pub fn report(run: &Run, summary: &Summary) -> String {
    let mut page = Page::new();
    let cases = view::measured(summary);
    let grid = Grid::new(summary);
    heading(&mut page, run, summary, &cases);
    if let [case] = cases.as_slice() {
        cards(&mut page, case);
    }
    verdict(&mut page, run, summary);
    spectrum::figure(&mut page, run, summary, &cases);
    if let Some(comparison) = &summary.comparison {
        crossover::figure(&mut page, &grid, comparison);
        winners::figure(&mut page, &grid, comparison);
        tables::comparison(&mut page, &grid, comparison);
    }
    tables::latency(&mut page, &cases);
    tables::throughput(&mut page, run, summary);
    tables::costs(&mut page, &cases);
    tables::unavailable(&mut page, summary);
    tables::environment(&mut page, run, &cases);
    page.raw(&format!(
        "<footer>msgpath {} · schema {} · run {} · {} rounds · this file is self-contained and makes no network request</footer>\n",
        escape(&run.header.version),
        escape(&summary.schema),
        escape(&summary.name),
        G.thousands(summary.totals.rounds)
    ));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n{}</main>\n</body>\n</html>\n",
        escape(&format!("msgpath {} {}", summary.verb, summary.name)),
        include_str!("style.css"),
        page.finish()
    )
}

fn heading(page: &mut Page, run: &Run, summary: &Summary, cases: &[&CaseSummary]) {
    let subject = match cases {
        [case] => format!("{}, {}, {}", case.case.path, words::message(&case.case), words::load(&case.case, G)),
        many => words::counted(many.len() as u64, "case", G),
    };
    page.raw(&format!("<h1>{}, {}</h1>\n", escape(&summary.verb), escape(&subject)));
    let header = &run.header;
    let facts = [
        format!("{} → {}", header.near.host, summary.target),
        format!("Linux {}", header.near.kernel),
        header.near.cpu.clone(),
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
                let range = words::quantile_interval(quantile, G);
                let range = if quantile.claim { format!("95 %: {range}") } else { range };
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
