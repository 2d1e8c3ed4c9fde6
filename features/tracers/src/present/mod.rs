//! Imported texts of tracers (`perf sched timehist`, `strace`) as a page of questions and answers. Every number is one of the
//! text, or a sum of them; nothing is said of why.

mod lanes;

use msgpath_analyse::summary::Confidence;
use msgpath_core::foreign::shown;
use msgpath_core::units::Glyphs;
use msgpath_present::answers::{Answer, Cell, Page, Table};
use msgpath_present::{counted, percent};

use crate::analyse::{Calls, LONG_NS, MOST, OfCall, TextSummary, TracersSummary, Waits};
use crate::parse::{Lines, Tracer};

pub use lanes::html;

const G: Glyphs = Glyphs::Unicode;
/// Of so many long delays it is said when they were.
const FEW: u64 = 3;
/// From this share on they are at the start.
const MOSTLY: f64 = 0.5;

pub fn page(summary: &TracersSummary) -> Page {
    let files: Vec<String> =
        summary.texts.iter().map(|text| format!("{} ({})", shown(&text.file), text.tracer.name())).collect();
    let about = summary.title.as_ref().map_or_else(|| files.join(", "), |title| shown(title).into_owned());
    let mut page = Page { title: format!("import {}: {about}", summary.name), ..Page::default() };
    for text in &summary.texts {
        // Which text an answer is about is said where there are several.
        let of = if summary.texts.len() > 1 { format!("{}: ", shown(&text.file)) } else { String::new() };
        let answers = [waits(text), calls(text), table(text), vec![understood(text)]].into_iter().flatten();
        page.answers.extend(answers.map(|answer| Answer { question: format!("{of}{}", answer.question), ..answer }));
    }
    page
}

fn time(ns: f64) -> Cell {
    Cell::Time(ns.into())
}

fn sure(question: &str, text: String) -> Answer {
    Answer::new(question, Confidence::Sure, text).whole()
}

fn waits(text: &TextSummary) -> Vec<Answer> {
    let Some(waits) = &text.waits else { return Vec::new() };
    let mut answers = vec![delays(text, waits)];
    if waits.long >= FEW {
        answers.push(when(waits));
    }
    let Some(first) = waits.threads.first().filter(|first| first.delay_ns > 0.0) else { return answers };
    let columns = ["thread", "slices", "on a CPU", "delay in all", "longest delay", "off the CPU otherwise"];
    let mut table = Table::new("threads", "Threads, what was delayed longest in all first", &columns);
    for thread in &waits.threads {
        table.row([
            Cell::text(&thread.name),
            Cell::count(thread.slices),
            time(thread.run_ns),
            time(thread.delay_ns),
            time(thread.longest_ns),
            time(thread.off_ns),
        ]);
    }
    let mut note =
        "Off the CPU otherwise: asleep, or preempted. A thread that is preempted is not woken, so waiting for its CPU \
                    again is not a delay here."
            .to_owned();
    if waits.more_threads > 0 {
        note += &format!(" {} more.", counted(waits.more_threads as u64, "thread"));
    }
    let words = format!(
        "{}: {} in {}, while it ran for {}",
        first.name,
        G.time(first.delay_ns),
        counted(first.slices, "slice"),
        G.time(first.run_ns)
    );
    answers.push(sure("Which thread waited longest in all?", words).with(table.note(note)));
    answers
}

fn delays(text: &TextSummary, waits: &Waits) -> Answer {
    let question = "How long did threads wait for a CPU after they were woken?";
    let all = format!("of {} of {}", counted(waits.delays.count, "slice"), counted(text.threads, "thread"));
    let Some(worst) = waits.worst.first() else { return sure(question, format!("not at all: none {all} was delayed")) };
    let words = format!(
        "p50 {}, p99 {}, at most {}: {} on CPU {}, {} after the start; {all}",
        G.time(waits.delays.p50_ns),
        G.time(waits.delays.p99_ns),
        G.time(worst.delay_ns),
        worst.thread,
        worst.cpu,
        G.time(worst.at_ns)
    );
    let mut table = Table::new("delays", "The longest delays", &["thread", "CPU", "ran at", "delay"]);
    for one in &waits.worst {
        table.row([Cell::text(&one.thread), Cell::count(one.cpu.into()), time(one.at_ns), time(one.delay_ns)]);
    }
    sure(question, words).with(table)
}

/// A start at which all threads want a CPU at once is where such delays come from most often.
fn when(waits: &Waits) -> Answer {
    let share = waits.long_early as f64 / waits.long as f64;
    let place = if share >= MOSTLY { "mostly at the start" } else { "spread over the run" };
    let words = format!(
        "{place}: {} of {} delays of {} and more are in the first tenth of the time ({})",
        waits.long_early,
        waits.long,
        G.time(LONG_NS as f64),
        G.time(waits.early_ns)
    );
    sure("When were the long delays?", words)
}

/// `none has a time` where the text was made without `-T`.
fn of_calls(name: &str, title: &str, kinds: &[OfCall], single: bool) -> Table {
    let few: &[&str] = &["call", "calls", "failed", "time in all", "share"];
    let columns = [few, if single { &["p50", "p99", "longest"] } else { &[] }].concat();
    let mut table = Table::new(name, title, &columns);
    for kind in kinds {
        let mut cells = vec![
            Cell::text(&kind.name),
            Cell::count(kind.calls),
            Cell::count(kind.failed),
            Cell::or_missing(kind.ns, Cell::Time, "no time"),
            Cell::or_missing(kind.share, Cell::Share, "no time"),
        ];
        if single {
            let of = |ns: Option<f64>| Cell::or_missing(ns, Cell::Time, "no time");
            let times = kind.times;
            cells.extend([
                of(times.map(|times| times.p50_ns)),
                of(times.map(|times| times.p99_ns)),
                of(times.map(|times| times.longest_ns)),
            ]);
        }
        table.row(cells);
    }
    table
}

fn calls(text: &TextSummary) -> Vec<Answer> {
    let Some(calls) = &text.calls else { return Vec::new() };
    let mut table = of_calls("calls", "Calls, what takes most time first", &calls.kinds, true);
    let mut note =
        "Times are those of strace, which stops a thread twice in each call: without it calls are shorter. A call \
                    that waits has its waiting in it."
            .to_owned();
    if calls.more_kinds > 0 {
        note += &format!(" {} more.", counted(calls.more_kinds as u64, "name"));
    }
    table = table.note(note);
    let question = "In which calls was the time?";
    let first = calls.kinds.first().and_then(|kind| Some((kind, kind.share?)));
    let mut answers = vec![match first {
        Some((kind, share)) => {
            let words = format!(
                "{}: {} of the time in calls, {} of {}, in {}; {} of {} in all",
                kind.name,
                percent(share),
                G.time(kind.ns.unwrap_or(0.0)),
                G.time(calls.ns),
                counted(kind.calls, "call"),
                counted(calls.count, "call"),
                counted(text.threads, "thread")
            );
            sure(question, words).with(table)
        }
        None => {
            let words = format!("{} have no time: record them with strace -T", counted(calls.count, "call"));
            Answer::new(question, Confidence::CantTell, words).whole().with(table)
        }
    }];
    answers.extend(longest(calls));
    answers.extend(failed(calls));
    answers
}

fn longest(calls: &Calls) -> Option<Answer> {
    let long = calls.longest.first()?;
    let mut table = Table::new("longest", "The longest calls", &["call", "thread", "began at", "took"]);
    for one in &calls.longest {
        let at = Cell::or_missing(one.at_ns, Cell::Time, "no -ttt");
        table.row([Cell::text(&one.call), Cell::text(&one.thread), at, time(one.ns)]);
    }
    let at = long.at_ns.map_or_else(String::new, |ns| format!(", {} after the start", G.time(ns)));
    // First the time: the name of a call keeps its letters.
    let words = format!("{}: {} of {}{at}", G.time(long.ns), long.call, long.thread);
    Some(sure("Which call took longest?", words).with(table))
}

fn failed(calls: &Calls) -> Option<Answer> {
    let most = calls.errors.first()?;
    let mut table = Table::new("errors", "Errors", &["call", "error", "times", "of its calls"]);
    for one in &calls.errors {
        table.row([Cell::text(&one.call), Cell::text(&one.error), Cell::count(one.count), Cell::count(one.of)]);
    }
    let words = format!(
        "{} of {}; most often {} with {}, {} of {}",
        calls.failed,
        counted(calls.count, "call"),
        most.call,
        most.error,
        most.count,
        most.of
    );
    Some(sure("Which calls failed?", words).with(table))
}

/// `strace -c`.
fn table(text: &TextSummary) -> Vec<Answer> {
    let Some(first) = text.counted.first() else { return Vec::new() };
    let (count, failed) = text.counted.iter().fold((0_u64, 0_u64), |(count, failed), row| {
        (count.saturating_add(row.calls), failed.saturating_add(row.failed))
    });
    let rows = &text.counted[..text.counted.len().min(MOST)];
    let mut note = "strace -c counts the CPU time of the kernel, so a call that waits takes next to nothing; with -w it counts from begin \
                    to end. The text does not say which."
        .to_owned();
    if rows.len() < text.counted.len() {
        note += &format!(" {} more.", counted((text.counted.len() - rows.len()) as u64, "name"));
    }
    let table = of_calls("counted", "Calls as strace -c counted them", rows, false).note(note);
    let kind = &first.name;
    let calls = counted(first.calls, "call");
    let words = match first.share {
        Some(share) => format!(
            "{kind}: {} of the time of all, {} in {calls}; {} in all, {failed} failed",
            percent(share),
            G.time(first.ns.unwrap_or(0.0)),
            counted(count, "call")
        ),
        None => {
            format!("no call took any time that was counted; most often {kind}, {calls} of {count}, {failed} failed")
        }
    };
    vec![sure("Which calls does the table have?", words).with(table)]
}

fn understood(text: &TextSummary) -> Answer {
    let Lines { all, others, unknown, first, not_kept, halves, timeless } = &text.lines;
    let rows = all.saturating_sub(others + unknown + not_kept + halves + timeless);
    let what = match text.tracer {
        Tracer::Timehist => "slices of threads",
        Tracer::Strace => "calls, or rows of a table",
    };
    let mut words = format!("{}: {rows} of {what}, {others} heads, signals and the like", counted(*all, "line"));
    if *timeless > 0 {
        words += &format!(", {timeless} without times");
    }
    if *halves > 0 {
        words += &format!(", {halves} ends of calls without their begin");
    }
    if *not_kept > 0 {
        words += &format!(", {not_kept} beyond what is kept");
    }
    words += &match first {
        Some((number, line)) => format!(", {unknown} not understood, the first of them line {number}: {line}"),
        None => ", all understood".to_owned(),
    };
    sure("How much of the text was understood?", words)
}

#[cfg(test)]
pub(crate) mod tests {
    use crate::analyse::summarise;
    use crate::parse::{Tracer, parse};
    use crate::record::TracersHeader;

    use super::*;
    use msgpath_present::{Style, answers};

    /// TEST DATA: what nobody traced.
    const SCHED: &str = "\
           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
     100.011002 [0000]  planted[10]                         0.000      7.002      1.000
     100.013000 [0001]  planted[11/10]                      0.000      4.585      0.400
     100.014000 [0001]  planted[12/10]                      0.000      3.956      0.200
     100.500000 [0000]  planted[10]                       480.000      0.043      0.300
     100.900000 [0000]  planted[10]                       399.000      0.007      0.300
what is this
";
    const CALLS: &str = "\
7 1700000000.000000 recvfrom(3, 0, 64, 0, NULL, NULL) = 16 <0.000100>
7 1700000000.001000 recvfrom(3, 0, 64, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable) <0.000010>
8 1700000000.001500 clock_nanosleep(CLOCK_REALTIME, 0, NULL, NULL) = 0 <0.001000>
7 1700000000.002000 recvfrom(3, 0, 64, 0, NULL, NULL) = 16 <0.000400>
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 75.00    0.000300           1       300           recvfrom
 25.00    0.000100           5        20         2 openat
------ ----------- ----------- --------- --------- ----------------
100.00    0.000400           1       320         2 total
";

    pub(crate) fn summary() -> TracersSummary {
        let header = TracersHeader { name: "test-data".into(), ..TracersHeader::default() };
        let texts = [(Tracer::Timehist, "sched.txt", SCHED), (Tracer::Strace, "trace.txt", CALLS)];
        summarise(&header, &texts.map(|(tracer, file, text)| parse(tracer, file, text.as_bytes())))
    }

    fn said(page: &Page, question: &str) -> String {
        let answer = page.answers.iter().find(|answer| answer.question.ends_with(question));
        answer.unwrap_or_else(|| panic!("{question}: {:#?}", page.answers)).text.clone()
    }

    #[test]
    fn sentences_are_made_of_the_numbers() {
        let page = page(&summary());
        let delays = said(&page, "How long did threads wait for a CPU after they were woken?");
        assert!(delays.starts_with("p50 3.96 ms, p99 7.00 ms, at most 7.00 ms: planted[10] on CPU 0"), "{delays}");
        let when = said(&page, "When were the long delays?");
        assert!(when.starts_with("Mostly at the start: 3 of 3 delays of 1.00 ms and more"), "{when}");
        let which = said(&page, "Which thread waited longest in all?");
        assert!(which.starts_with("planted[10]: 7.05 ms in 3 slices, while it ran for 1.60 ms"), "{which}");
        let calls = said(&page, "In which calls was the time?");
        assert!(calls.contains("clock_nanosleep: 66.2 % of the time in calls, 1.00 ms of 1.51 ms"), "{calls}");
        assert!(
            said(&page, "Which call took longest?")
                .starts_with("1.00 ms: clock_nanosleep of thread 8, 1.50 ms after the start")
        );
        assert!(said(&page, "Which calls failed?").contains("1 of 4 calls; most often recvfrom with EAGAIN, 1 of 3"));
        assert!(said(&page, "Which calls does the table have?").contains("75.0 % of the time of all"));
        let understood = said(&page, "sched.txt: How much of the text was understood?");
        assert!(understood.contains("1 not understood, the first of them line 9: what is this"), "{understood}");
        assert!(said(&page, "trace.txt: How much of the text was understood?").contains("all understood"));
    }

    #[test]
    fn the_first_number_stands_on_the_first_screen() {
        let text = answers::text(&page(&summary()), Style { width: 80, ..Style::default() });
        assert!(text.lines().take(25).any(|line| line.contains("7.00 ms")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn few_or_no_delays_are_not_explained() {
        let header = TracersHeader::default();
        let text = "1.000001 [0000] x[7] 0.000 0.000 0.003\n";
        let page = page(&summarise(&header, &[parse(Tracer::Timehist, "x", text.as_bytes())]));
        assert_eq!(page.answers.len(), 2, "{page:#?}");
        assert!(page.answers[0].text.starts_with("Not at all: none of 1 slice of 1 thread"), "{page:#?}");
        // Calls without a time are counted, and what would show it is said.
        let page = super::page(&summarise(&header, &[parse(Tracer::Strace, "x", b"read(3) = 0\n")]));
        assert_eq!(page.answers[0].confidence, Confidence::CantTell);
        assert!(page.answers[0].text.contains("strace -T"), "{page:#?}");
    }
}
