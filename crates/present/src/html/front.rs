//! The first screen of the report: the sentence that answers, one large picture, a chip for each kind of warning.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Finding, Warning};
use msgpath_core::foreign::command_again;
use msgpath_core::schema::NEAR;

use super::figures::{self, Done};
use super::page::Page;
use super::scene::Scene;
use super::{G, compared, tables};
use crate::svg::escape;
use crate::terminal::{answers, first_statements, is_answer, warning_kinds};
use crate::view;
use crate::words;

/// Sentences below the first one; the others are folded.
const SENTENCES: usize = 3;
/// Characters of a warning on its chip.
const CHIP: usize = 84;

/// Everything that is seen without scrolling.
pub(crate) fn write(page: &mut Page, scene: &Scene<'_>, cases: &[&CaseSummary], drawn: &[Done], large: &[&str]) {
    let summary = scene.summary;
    page.raw("<header>\n");
    if scene.earlier.is_none() {
        subject(page, scene, cases);
    }
    let answers: Vec<&Finding> = answers(summary).into_iter().filter(|finding| is_answer(finding)).collect();
    if let Some(earlier) = &scene.earlier {
        page.raw(&format!("<h1>{}</h1>\n", escape(&title(scene, cases))));
        compared::verdict(page, earlier);
    } else {
        match answers.split_first() {
            Some((first, others)) => {
                page.headline(first.confidence, &first.text, first.next.first());
                page.raw("<ul class=\"verdict\">\n");
                for finding in others.iter().take(SENTENCES) {
                    page.computed(finding.confidence, &finding.text, &[]);
                }
                page.raw("</ul>\n");
            }
            None => page.raw(&format!("<h1>{}</h1>\n", escape(&plain(scene, cases)))),
        }
    }
    limits(page, scene);
    if scene.earlier.is_none() {
        key_numbers(page, cases);
    }
    tables::gates(page, summary);
    page.raw("</header>\n");
    figures::large(page, drawn, large);
    chips(page, &summary.warnings);
    facts(page, scene);
}

/// What was measured, above the sentence.
fn title(scene: &Scene<'_>, cases: &[&CaseSummary]) -> String {
    let subject = match cases {
        [case] => format!("{}, {}, {}", case.case.path, words::message(&case.case), words::load(&case.case)),
        many => words::counted(many.len() as u64, "case"),
    };
    let runs = match &scene.earlier {
        Some(earlier) => format!("{} → {}: ", earlier.summary.name, scene.summary.name),
        None => String::new(),
    };
    format!("{runs}{}, {subject}", scene.summary.verb)
}

/// The sentence where no finding is one: what the load curve shows, or what was measured.
fn plain(scene: &Scene<'_>, cases: &[&CaseSummary]) -> String {
    let Some(curve) = scene.summary.load_curves.first() else { return title(scene, cases) };
    let of = format!("{} {}", curve.path, msgpath_core::units::size(curve.size));
    format!("{of}: {}", words::sustained(curve))
}

fn subject(page: &mut Page, scene: &Scene<'_>, cases: &[&CaseSummary]) {
    let text = format!("{} · {} · run {}", title(scene, cases), scene.summary.target, scene.summary.name);
    page.raw(&format!("<p class=\"subject\">{}</p>\n", escape(&text)));
}

/// What voids the numbers or cuts them short is never folded.
fn limits(page: &mut Page, scene: &Scene<'_>) {
    let (run, summary) = (scene.run, scene.summary);
    let incomplete = view::incomplete(run, summary).map(|text| ("not whole", text));
    let void = summary.comparison.as_ref().is_some_and(|comparison| comparison.control_failed).then(|| {
        ("void", "The baseline differed from its own hidden repetition, so the comparison below is void.".to_owned())
    });
    let limits: Vec<(&str, String)> = incomplete.into_iter().chain(void).collect();
    if limits.is_empty() {
        return;
    }
    page.raw("<ul class=\"verdict\">\n");
    for (tag, text) in limits {
        page.item("warning", tag, &text, &[]);
    }
    page.raw("</ul>\n");
}

/// The numbers that people quote of a single case, each with its range.
fn key_numbers(page: &mut Page, cases: &[&CaseSummary]) {
    let [case] = cases else { return };
    let mut numbers: Vec<(String, String, String)> = Vec::new();
    if let Some(throughput) = &case.throughput {
        let print = |bits| words::throughput(bits, Default::default());
        let bits = &throughput.receiver_bits;
        numbers.push(("throughput".into(), print(bits.value), words::estimate_interval(bits, print)));
        let sender = print(throughput.sender_bits.value);
        numbers.push(("sender's clock".into(), sender, words::sender_until(&case.case).into()));
    } else {
        for p in [0.5, 0.9, 0.99, 0.999] {
            let Some(quantile) = words::quantile(case, p) else { continue };
            let mut range = words::quantile_range(quantile, G);
            let between = words::between_range(case, p, G);
            if let Some(runs) = words::between_runs(&case.repeats.between).filter(|_| !between.is_empty()) {
                range += &format!("; {runs}: {between}");
            }
            numbers.push((words::quantile_name(p), words::quantile_value(quantile, G), range));
        }
    }
    let messages = case.messages.max(case.delivery.received);
    let kept = format!("{}, {}", words::losses(&case.delivery), words::payloads(&case.delivery));
    numbers.push(match case.counts_messages() {
        true => ("messages".into(), messages.to_string(), kept),
        false => ("messages".into(), "n/a".into(), "their size is not known".into()),
    });
    page.raw("<dl class=\"key\">\n");
    for (name, value, note) in numbers {
        page.raw(&format!(
            "<div><dt>{}</dt><dd><b>{}</b> <span class=\"mut\">{}</span></dd></div>\n",
            escape(&name),
            escape(&value),
            escape(&note)
        ));
    }
    page.raw("</dl>\n");
}

/// A chip for each kind of warning; opened, it has their texts.
fn chips(page: &mut Page, warnings: &[Warning]) {
    if warnings.is_empty() {
        return;
    }
    page.raw("<div class=\"chips\" aria-label=\"warnings\">\n");
    for (first, count) in warning_kinds(warnings) {
        let times = if count > 1 { format!(" ×{count}") } else { String::new() };
        page.raw(&format!(
            "<details class=\"chip\"><summary><b>{}</b> {}{times}</summary>\n",
            escape(&first.code),
            escape(first_statements(&first.text, CHIP))
        ));
        for warning in warnings.iter().filter(|warning| warning.code == first.code) {
            page.raw(&format!("<p>{}", escape(&warning.text)));
            for (lead, text) in [("", &warning.why), ("fix: ", &warning.fix)] {
                if !text.is_empty() {
                    page.raw(&format!("<span class=\"next\">{lead}{}</span>", escape(text)));
                }
            }
            page.raw("</p>\n");
        }
        page.raw("</details>\n");
    }
    page.raw("</div>\n");
}

/// Where and how, in small print.
fn facts(page: &mut Page, scene: &Scene<'_>) {
    let header = &scene.run.header;
    let facts = [
        format!("{} → {}", header.host(NEAR).host, scene.summary.target),
        format!("Linux {}", header.host(NEAR).kernel),
        header.host(NEAR).cpu.clone(),
        format!("started {}", header.started),
        view::placement(scene.run),
    ];
    page.raw(&format!(
        "<p class=\"facts\">{}<br><code>{}</code></p>\n",
        escape(&facts.join(" · ")),
        escape(&command_again(&header.command))
    ));
}

/// All findings with what to run next.
pub(crate) fn findings(page: &mut Page, summary: &Summary) {
    if summary.findings.is_empty() {
        return;
    }
    page.section("All findings, and what to run next");
    page.raw("<ul class=\"verdict\">\n");
    for finding in &summary.findings {
        page.computed(finding.confidence, &finding.text, &finding.next);
    }
    page.raw("</ul>\n");
}
