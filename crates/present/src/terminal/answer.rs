//! What stands first in a result and what stands below it: the sentences that a reader came for, what limits them in a
//! line for each kind, the one command to run next, and where the rest is.

use msgpath_analyse::Summary;
use msgpath_analyse::summary::{CaseSummary, Confidence, Finding, Warning};
use msgpath_record::Run;

use super::known::known;
use super::page::{Page, Paint, width, wrap};
use crate::{section, view, words};

/// Where the text of a finding starts.
pub const TEXT: usize = 14;
/// Lines of the sentences above the first table, ...
const SENTENCES: usize = 6;
/// ... on a page of so many columns: which of them are chosen, and what is advised, does not depend on the terminal.
const COLUMNS: usize = 80;
/// Kinds of warning that have a line of their own; one more than that is better than `1 more`.
const KINDS: usize = 4;
/// Characters of a code, beyond which its text moves to the right.
const CODE: usize = 4;
/// Cases that could not be measured that have a line of their own.
const CASES: usize = 3;

/// Findings that answer what was asked, the first one first. The others say how steady a run was, what would tell more,
/// or what else was seen.
const ANSWERS: [&str; 7] = ["V01", "V15", "V17", "V06", "V04", "V05", "V13"];
/// Findings about the run rather than about what it measured.
const OF_THE_RUN: [&str; 7] = ["V02", "V09", "V11", "V12", "V16", "W49", "W56"];

/// Where a finding stands among the answers: the lower, the sooner.
fn rank(finding: &Finding, verb: &str) -> usize {
    let code = finding.code.as_str();
    // What makes slow messages slow is what `explain` is asked.
    let stage =
        code.strip_prefix("W").and_then(|number| number.parse::<u32>().ok()).is_some_and(|n| (80..=93).contains(&n));
    let open = usize::from(finding.confidence == Confidence::CantTell) * 100;
    open + match ANSWERS.iter().position(|known| *known == code) {
        _ if verb == "explain" && stage => 0,
        _ if section::all().any(|section| section.sentences.contains(&code)) => 0,
        Some(at) => 1 + at,
        None if OF_THE_RUN.contains(&code) => 50,
        None => 20,
    }
}

/// Whether it is about what was measured, and not about the run.
pub fn is_answer(finding: &Finding) -> bool {
    !OF_THE_RUN.contains(&finding.code.as_str())
}

/// The findings that answer what was asked and stand above the first table: as many as fit, at least one, and only what was
/// decided unless nothing was.
pub fn answers(summary: &Summary) -> Vec<&Finding> {
    let mut ranked: Vec<&Finding> = summary.findings.iter().collect();
    ranked.sort_by_key(|finding| rank(finding, &summary.verb));
    let decided = ranked.iter().any(|finding| rank(finding, &summary.verb) < 50);
    let mut left = SENTENCES;
    let mut chosen = Vec::new();
    for finding in ranked {
        let lines = wrap(&finding.text, COLUMNS, TEXT, TEXT).len();
        if (decided && rank(finding, &summary.verb) >= 50) || (lines > left && !chosen.is_empty()) {
            break;
        }
        left = left.saturating_sub(lines);
        chosen.push(finding);
    }
    chosen
}

/// The warnings by kind (a code and what it means), what `--strict` refuses first, each with its first warning and how many there are.
pub fn kinds(warnings: &[Warning]) -> Vec<(&Warning, usize)> {
    let mut kinds: Vec<(&Warning, usize)> = Vec::new();
    for warning in warnings {
        match kinds.iter_mut().find(|(first, _)| (&first.code, &first.why) == (&warning.code, &warning.why)) {
            Some((_, count)) => *count += 1,
            None => kinds.push((warning, 1)),
        }
    }
    kinds.sort_by_key(|(first, _)| !first.strict);
    kinds
}

/// Whether a word of `text` begins with a digit: `32 %`, `(7`, `−3`; not `p50`.
fn has_number(text: &str) -> bool {
    let begins = |word: &str| word.trim_start_matches(['(', '+', '−', '±']).starts_with(|c: char| c.is_ascii_digit());
    text.split(' ').any(begins)
}

/// The statements of `text` that fit into `room`, but at least up to the end of the one with the first number: what says
/// how much is never left out. A statement ends at a full stop or a semicolon outside of brackets.
pub fn first_statements(text: &str, room: usize) -> &str {
    let text = text.trim_end_matches('.');
    let (mut depth, mut ends) = (0_i32, Vec::new());
    for (at, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 && (text[at..].starts_with("; ") || text[at..].starts_with(". ")) {
            ends.push(at);
        }
    }
    ends.push(text.len());
    let least = if has_number(text) { ends.iter().position(|end| has_number(&text[..*end])).unwrap_or(0) } else { 0 };
    let most = ends.iter().rposition(|end| width(&text[..*end]) <= room).unwrap_or(0);
    &text[..ends[least.max(most)]]
}

/// The same in one line of a table of checks or paths, whose whole text another line or `-v` has: what stands in brackets
/// or behind a colon gives way, then words, to `…`.
pub(super) fn in_a_line(text: &str, room: usize) -> String {
    let first = first_statements(text, room);
    if width(first) <= room {
        return first.to_owned();
    }
    let ends = [" (", ": "].into_iter().filter_map(|sign| first.find(sign).filter(|end| width(&first[..*end]) <= room));
    match ends.max() {
        Some(end) => first[..end].to_owned(),
        None => wrap(first, room.saturating_sub(2), 0, 0).swap_remove(0) + " …",
    }
}

impl Page {
    /// The sentences that a reader came for, each with its confidence word; then the gates that were asked for.
    pub fn answer(&mut self, summary: &Summary) {
        let chosen = answers(summary);
        if !chosen.is_empty() {
            self.gap();
        }
        for finding in chosen {
            self.finding(finding);
        }
        self.gates(&summary.gates);
    }

    /// One sentence with its confidence word.
    pub fn finding(&mut self, finding: &Finding) {
        self.computed(finding.confidence, &finding.text);
    }

    /// A computed sentence behind how sure it is.
    pub fn computed(&mut self, confidence: Confidence, text: &str) {
        let word = confidence.word();
        let lead = ["  ".into(), Paint::of(confidence).span(word), " ".repeat(TEXT - 2 - width(word)).into()];
        self.hanging(&lead, TEXT, text, Paint::Plain);
    }

    /// A line for each kind of warning, with how many there are; the kinds that come after the first few are counted.
    /// `-W`: all of them in full.
    pub fn warning_lines(&mut self, warnings: &[Warning], name: &str) {
        if self.style.warnings {
            return self.warnings(warnings);
        }
        let kinds = kinds(warnings);
        let head = match (kinds.len(), warnings.len()) {
            (0, _) => return,
            (_, 1) => "1 warning".to_owned(),
            (1, _) => "1 kind of warning".to_owned(),
            (n, _) => format!("{n} kinds of warning"),
        };
        let full = match name {
            _ if self.style.verbose => "in full below".to_owned(),
            "" => "in full: -W".to_owned(),
            name => format!("in full: msgpath show {name} -W"),
        };
        self.gap();
        self.line(&[Paint::Yellow.span(head), Paint::Dim.span(format!("   {full}"))]);
        let shown = if kinds.len() > KINDS + 1 { KINDS } else { kinds.len() };
        let codes: Vec<String> = kinds[..shown].iter().map(|(first, _)| self.style.clean(&first.code)).collect();
        let widest = codes.iter().map(|code| width(code)).max().unwrap_or(0).min(CODE);
        for ((first, count), code) in kinds.iter().zip(codes) {
            let more = if *count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            let pad = " ".repeat(widest.saturating_sub(width(&code)) + 2);
            let indent = 2 + width(&code) + width(&pad);
            let room = self.style.columns().saturating_sub(indent + width(&more));
            let text = format!("{}{more}", first_statements(&first.text, room));
            self.hanging(&["  ".into(), Paint::Yellow.span(code), pad.into()], indent, &text, Paint::Plain);
        }
        let mut more = Vec::new();
        kinds[shown..].iter().for_each(|(first, _)| view::push_new(&mut more, first.code.as_str()));
        if !more.is_empty() {
            self.text(2, &format!("{} more: {}", kinds.len() - shown, more.join(", ")), Paint::Dim);
        }
    }

    /// What limits the numbers above: warnings, disturbed rounds, options that were not granted, cases without numbers.
    pub fn limits(&mut self, run: &Run, summary: &Summary, cases: &[&CaseSummary]) {
        self.warning_lines(&summary.warnings, kept(run, summary));
        if summary.warnings.is_empty() {
            self.gap();
        }
        if let Some(text) = view::calm_rounds(summary) {
            self.text(2, &text, Paint::Dim);
        }
        if self.style.verbose {
            return;
        }
        let mut refused = Vec::new();
        for granted in cases.iter().flat_map(|case| &case.conditions.granted).filter(|granted| !granted.same) {
            view::push_new(&mut refused, (&granted.end, &granted.option));
        }
        if !refused.is_empty() {
            let (options, were) =
                (words::counted(refused.len() as u64, "option"), if refused.len() == 1 { "was" } else { "were" });
            self.text(2, &format!("{options} {were} not granted as asked (-v lists)"), Paint::Yellow);
        }
        self.missing(summary);
    }

    /// A line for each of the first cases that could not be measured.
    pub fn missing(&mut self, summary: &Summary) {
        let rows = view::unavailable(summary);
        if rows.is_empty() {
            return;
        }
        self.heading("not measured");
        let widest = rows.iter().take(CASES).map(|(path, ..)| width(path)).max().unwrap_or(0).min(30);
        for (path, why, _) in rows.iter().take(CASES) {
            let indent = width(path).max(widest) + 4;
            let pad = " ".repeat(widest.saturating_sub(width(path)) + 2);
            let why = first_statements(why, self.style.columns().saturating_sub(indent));
            self.hanging(&["  ".into(), path.as_str().into(), pad.into()], indent, why, Paint::Plain);
        }
        if rows.len() > CASES {
            self.text(2, &format!("{} more: -v", rows.len() - CASES), Paint::Dim);
        }
    }

    /// `-v`: every finding with the commands to run next, warnings in full, what was asked and not granted, what could not
    /// be measured.
    pub fn in_full(&mut self, run: &Run, summary: &Summary, cases: &[&CaseSummary]) {
        if !self.style.verbose {
            return;
        }
        self.findings(&summary.findings);
        if !self.style.warnings {
            self.warnings(&summary.warnings);
        }
        if let Some(text) = view::calm(run, summary) {
            self.gap();
            self.text(0, &text, Paint::Dim);
        }
        self.refusals(cases);
        self.unavailable(summary);
    }

    /// The command that tells most, what `-v` adds, and where the run is.
    pub fn more(&mut self, run: &Run, summary: &Summary, cases: &[&CaseSummary], also: &[&str]) {
        let chosen = answers(summary);
        let all = chosen.iter().copied().chain(&summary.findings);
        let resume = view::goes_on(run, summary);
        let next = resume.as_ref().or_else(|| all.flat_map(|finding| &finding.next).next());
        self.gap();
        if self.style.verbose {
            return self.saved(run, summary);
        }
        if let Some(next) = next {
            self.hanging(&["next   ".into()], 7, next, Paint::Plain);
        }
        let mut parts: Vec<String> = Vec::new();
        let hidden = summary.findings.len().saturating_sub(chosen.len());
        if hidden > 0 {
            parts.push(words::counted(hidden as u64, "more finding"));
        }
        parts.extend(also.iter().map(|part| (*part).to_owned()));
        for case in cases {
            for (label, _) in known(case, self.style.glyphs) {
                view::push_new(&mut parts, if label == "first" { "first messages".into() } else { label.to_owned() });
            }
        }
        if !summary.ablations.is_empty() {
            parts.push("what was tried".into());
        }
        parts.push("both machines".into());
        let again = match kept(run, summary) {
            "" => "-v".to_owned(),
            name => format!("msgpath show {name} -v"),
        };
        self.hanging(&["more   ".into()], 7, &format!("{again}: {}", parts.join(", ")), Paint::Plain);
        self.saved(run, summary);
    }
}

/// The name of a run that is on disk; empty where it is not kept.
pub fn kept<'a>(run: &Run, summary: &'a Summary) -> &'a str {
    if run.folder.as_os_str().is_empty() { "" } else { &summary.name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::terminal::Style;

    #[test]
    fn nothing_is_cut_before_its_number() {
        let text =
            "other work shared the CPUs: in 40 of 40 rounds the threads waited 32 % of their time; nothing helps";
        assert_eq!(first_statements(text, 30), text.trim_end_matches("; nothing helps"));
        assert_eq!(first_statements(text, 120), text);
        assert_eq!(first_statements("short.", 64), "short");
        let text = "the clocks disagree; by 3 ms (2 to 4; both ways). More rounds. Or none";
        assert_eq!(first_statements(text, 10), "the clocks disagree; by 3 ms (2 to 4; both ways)");
        assert_eq!(first_statements(text, 63), "the clocks disagree; by 3 ms (2 to 4; both ways). More rounds");
        assert_eq!(first_statements("p50 is missing; so is p99", 10), "p50 is missing");
    }

    /// Every warning of the fixtures, on a narrow terminal.
    #[test]
    fn every_warning_in_the_list_has_its_number() {
        let fixtures = [crate::fixture::echo(), crate::fixture::compare(), crate::fixture::stream()];
        let mut seen = 0;
        for (run, summary) in fixtures {
            let style = Style { width: 60, ..Style::default() };
            let mut page = Page::new(style);
            page.limits(&run, &summary, &[]);
            let text = page.finish();
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for (warning, _) in kinds(&summary.warnings).into_iter().take(KINDS) {
                let number = warning.text.split(' ').find(|word| has_number(word));
                let begins = warning.text.split(' ').next().unwrap_or_default();
                let line = text.split(&format!("{} ", warning.code)).nth(1).unwrap_or_default();
                assert!(line.starts_with(begins) && !line.contains('…'), "{text}");
                assert!(number.is_none_or(|number| line.contains(number)), "{}: {number:?} in {line}", warning.code);
                seen += 1;
            }
        }
        assert!(seen >= 3, "{seen} warnings");
    }

    #[test]
    fn findings_that_stand_first_and_the_advice_do_not_depend_on_the_width() {
        let (run, mut summary) = fixture::echo();
        // Two lines each on 100 columns, three on 80, of which two have room.
        let text = "this sentence is as long as two lines of a wide terminal, ".repeat(3);
        let finding = |code: &str| fixture::finding(code, Confidence::Sure, &text, &[&format!("msgpath show {code}")]);
        summary.findings = ["V13", "V04", "V05"].map(finding).to_vec();
        let told = |width: u16| {
            let mut page = Page::new(Style { width, ..Style::default() });
            page.answer(&summary);
            page.more(&run, &summary, &[], &[]);
            page.finish().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert!([60, 80].iter().all(|width| told(*width) == told(100)), "{:?}\n{:?}", told(80), told(100));
        assert!(told(80).contains(&"finding,".to_owned()), "one is left for -v: {:?}", told(80));
    }

    #[test]
    fn kinds_are_counted_and_what_strict_refuses_is_first() {
        let warning = |code: &str, why: &str, strict| Warning {
            code: code.into(),
            text: "it is so".into(),
            why: why.into(),
            fix: String::new(),
            evidence: Default::default(),
            strict,
        };
        let warnings = [
            warning("W46", "tasks", false),
            warning("W46", "interrupts", false),
            warning("W46", "interrupts", false),
            warning("W20", "", true),
        ];
        let kinds: Vec<(&str, usize)> =
            kinds(&warnings).into_iter().map(|(first, count)| (first.code.as_str(), count)).collect();
        assert_eq!(kinds, [("W20", 1), ("W46", 1), ("W46", 2)]);
    }
}
