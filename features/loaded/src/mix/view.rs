//! A mix on a terminal: the answer, what each does to the other, each of what goes on.

use msgpath_analyse::Summary;
use msgpath_core::units::{BitUnits, Glyphs, bits_per_second};
use msgpath_present::terminal::{Align, Page, Paint, Span, Style, Table};
use msgpath_present::{view, words};
use msgpath_record::Run;
use msgpath_stats::estimate::Estimate;

use super::analyse::{Compared, Effect, MixSummary, OtherMeans};
use crate::findings::MIX_ANSWERS;
use crate::findings::mixed::change;

/// The view of such a run.
pub(crate) fn terminal(run: &Run, summary: &Summary, style: Style) -> Option<String> {
    let mix = summary.sections.get::<MixSummary>()?;
    let mut page = Page::new(style);
    let cases = view::measured(summary);
    let besides: Vec<String> = mix.besides.iter().map(|other| other.text.clone()).collect();
    let first = cases.first().filter(|_| mix.mains.len() == 1);
    let first = first.map_or_else(|| words::counted(mix.mains.len() as u64, "case"), |case| case.case.path.to_string());
    let facts = [first, summary.target.clone(), format!("beside {}", besides.join(", "))];
    page.head_with(run, summary, &facts, &[view::placement(run)]);
    page.gap();
    for finding in summary.findings.iter().filter(|finding| MIX_ANSWERS.contains(&finding.code.as_str())) {
        page.finding(finding);
    }
    page.gates(&summary.gates);
    page.gap();
    page.table(effects(mix, style.glyphs));
    page.text(2, "Rounds with everything by rounds of the same pass in which `by` is switched off.", Paint::Dim);
    page.gap();
    page.table(others(mix, style.glyphs));
    page.limits(run, summary, &cases);
    page.in_full(run, summary, &cases);
    page.more(run, summary, &cases, &[]);
    Some(page.finish())
}

/// A value of a metric.
pub(crate) fn print(metric: Compared, value: f64, glyphs: Glyphs) -> String {
    match metric {
        Compared::Throughput => bits_per_second(value, BitUnits::Si),
        Compared::P50 | Compared::OneWayP50 => glyphs.time(value),
    }
}

fn effects(mix: &MixSummary, glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("who", Align::Left)
        .column("by", Align::Left)
        .optional("without", Align::Right, 5)
        .column("with", Align::Right)
        .column("change", Align::Left)
        .optional("range, 95 %", Align::Left, 4);
    for effect in mix.mains.iter().flat_map(|main| &main.effects) {
        let value = |estimate: &Option<Estimate>| {
            estimate.as_ref().map_or_else(|| "n/a".into(), |own| print(effect.metric, own.value, glyphs))
        };
        let (text, ends) = change(effect);
        table.row([
            who(effect).into(),
            effect.by.as_str().into(),
            value(&effect.without).into(),
            Paint::Bold.span(value(&effect.with)),
            text.into(),
            ends.map_or_else(Span::default, Span::from),
        ]);
    }
    table
}

/// Who is slowed down, with what is compared.
fn who(effect: &Effect) -> String {
    format!("{}{}", effect.on, effect.metric.suffix())
}

fn others(mix: &MixSummary, glyphs: Glyphs) -> Table {
    let mut table = Table::new()
        .column("beside", Align::Left)
        .column("while", Align::Left)
        .optional("p50", Align::Right, 3)
        .optional("p99", Align::Right, 4)
        .optional("lost", Align::Right, 2)
        .optional("throughput", Align::Right, 5);
    for (at, other) in mix.besides.iter().enumerate() {
        let mut row = |name: &str, goes: String, means: &OtherMeans| {
            let time = |ns: &Option<Estimate>| ns.as_ref().map_or_else(String::new, |ns| glyphs.time(ns.value));
            let bits = means.bits.as_ref().map_or_else(String::new, |bits| bits_per_second(bits.value, BitUnits::Si));
            let lost = if means.p50_ns.is_some() { means.lost.to_string() } else { String::new() };
            table.row([
                name.into(),
                goes.into(),
                time(&means.p50_ns).into(),
                time(&means.p99_ns).into(),
                lost.into(),
                bits.into(),
            ]);
        };
        row(&other.name, "without".into(), &other.off);
        for main in &mix.mains {
            if let Some(means) = main.others.get(at) {
                row("", format!("with {}", main.name), means);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MixBed;

    fn shown(bed: &MixBed, width: u16) -> String {
        let (run, logs) = bed.run();
        let summary = msgpath_analyse::summarise_with(&run, &logs);
        terminal(&run, &summary, Style { width, ..Style::default() }).unwrap()
    }

    #[test]
    fn the_answer_stands_first_and_fits_in_its_width() {
        for bed in [
            MixBed { slower: 12.0, stream_keeps: 0.9, ..MixBed::default() },
            MixBed { slower: 12.0, second: Some([3.0, 2.0]), ..MixBed::default() },
        ] {
            for width in [60, 80, 100] {
                let text = shown(&bed, width);
                assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
                let first: Vec<&str> = text.lines().take(8).flat_map(str::split_whitespace).collect();
                assert!(first.join(" ").contains("beside stream ("), "{text}");
            }
        }
        let text = shown(&MixBed { slower: 12.0, ..MixBed::default() }, 100);
        for part in ["echo p50", "times slower", "stream -l 16K", "with echo"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn other_runs_are_not_its_own() {
        let run = msgpath_analyse::testing::Build::echo(&["tcp:send"], &[64]).run();
        let summary = msgpath_analyse::summarise_with(&run, &msgpath_analyse::Logs::default());
        assert!(terminal(&run, &summary, Style::default()).is_none());
    }
}
