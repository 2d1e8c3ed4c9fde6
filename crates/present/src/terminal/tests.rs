//! Every form at every width, against its snapshot; and what must hold at all of them.

use std::sync::LazyLock;
use std::time::Duration;

use msgpath_analyse::Summary;
use msgpath_analyse::headline::Headline;
use msgpath_analyse::summary::{CaseSummary, Latency, Warning};
use msgpath_core::schema::{MessageRow, Status};
use msgpath_core::units::{BitUnits, Glyphs};
use msgpath_core::{Delivery, Unavailable};
use msgpath_record::Run;

use super::*;
use crate::fixture;

fn path_rows() -> Vec<PathRow> {
    let works = |name: &str, summary: &str| PathRow {
        name: name.into(),
        summary: summary.into(),
        state: Ok(()),
        notes: String::new(),
    };
    let broken =
        |name: &str, why: &str, hint: &str| PathRow { state: Err(Unavailable::new(why, hint)), ..works(name, "") };
    vec![
        works("tcp:send", "one send() for the whole message"),
        works("tcp:send/spin", "one send() for the whole message"),
        broken("tcp:send/busy-poll", "SO_BUSY_POLL needs CAP_NET_ADMIN", "run it as root"),
        works(
            "tcp:writev/epoll",
            "one writev() with a buffer for each piece, gathered by the kernel on its way to the socket",
        ),
        broken("tcp:uring", "io_uring is switched off on this machine (kernel.io_uring_disabled = 2)", ""),
        broken("tcp:uring/spin", "io_uring is switched off on this machine (kernel.io_uring_disabled = 2)", ""),
        PathRow { notes: "Linux 5.19".into(), ..works("shm:ring/futex", "a ring in shared memory") },
    ]
}

fn run_rows() -> Vec<RunRow> {
    let row = |name: &str, status| RunRow {
        name: name.into(),
        when: "2026-01-15 10:04".into(),
        verb: "compare".into(),
        target: "10.0.0.2:5210".into(),
        cases: Some(96),
        rounds: Some(3_840),
        status,
        ago: Some(Duration::from_secs(3 * 3_600 + 59)),
        headline: Some(Headline {
            path: "shm:ring/futex".into(),
            label: None,
            bytes: 64,
            p50_ns: Some(12_300),
            bits_per_s: None,
            cases: 96,
        }),
    };
    vec![row("test-otter", Status::Ok), row("test-heron", Status::Partial), row("test-newt", Status::Failed)]
}

/// What the forms show, built once for all styles.
struct Fixtures {
    echo: (Run, Summary),
    sizes: (Run, Summary),
    gated: (Run, Summary),
    compare: (Run, Summary),
    stream: (Run, Summary),
    shapes: (Run, Summary),
    trials: (Run, Summary, Vec<MessageRow>),
    open: (Run, Summary),
    overloaded: (Run, Summary),
    curve: (Run, Summary),
    unsettled: (Run, Summary),
    crossings: (Run, Summary),
}

static FIXTURES: LazyLock<Fixtures> = LazyLock::new(|| Fixtures {
    echo: fixture::echo(),
    sizes: fixture::echo_sizes(),
    gated: fixture::gated(),
    compare: fixture::compare(),
    stream: fixture::stream(),
    shapes: fixture::shapes(),
    trials: fixture::trials(),
    open: fixture::open_loop(),
    overloaded: fixture::overloaded(),
    curve: fixture::load_curve(),
    unsettled: fixture::unsettled(),
    crossings: fixture::crossings(),
});

/// Every form there is, by name.
fn forms(style: Style) -> Vec<(&'static str, String)> {
    let Fixtures { echo: (echo_run, echo_summary), sizes: (sizes_run, sizes_summary), .. } = &*FIXTURES;
    let Fixtures { compare: (compare_run, compare_summary), stream: (stream_run, stream_summary), .. } = &*FIXTURES;
    let Fixtures { shapes: (shapes_run, shapes_summary), trials: (trials_run, trials_summary, rows), .. } = &*FIXTURES;
    vec![
        ("echo", echo(echo_run, echo_summary, style)),
        ("echo_sizes", echo(sizes_run, sizes_summary, style)),
        ("compare", compare(compare_run, compare_summary, style)),
        ("stream", stream(stream_run, stream_summary, style, BitUnits::Si)),
        ("stream_binary", stream(stream_run, stream_summary, style, BitUnits::Binary)),
        ("stream_cases", stream(shapes_run, shapes_summary, style, BitUnits::Si)),
        ("write_shape", write_shape(shapes_run, shapes_summary, style, BitUnits::Si)),
        ("write_shape_binary", write_shape(shapes_run, shapes_summary, style, BitUnits::Binary)),
        ("each", each(trials_run, trials_summary, rows, style)),
        ("paths", paths(&path_rows(), style)),
        ("runs", runs(&run_rows(), style)),
        ("verdict", verdict(compare_run, compare_summary, style, BitUnits::Si)),
        ("gates", echo(&FIXTURES.gated.0, &FIXTURES.gated.1, style)),
        ("gates_quiet", verdict(&FIXTURES.gated.0, &FIXTURES.gated.1, style, BitUnits::Si)),
        ("open_loop", echo(&FIXTURES.open.0, &FIXTURES.open.1, style)),
        ("overloaded", echo(&FIXTURES.overloaded.0, &FIXTURES.overloaded.1, style)),
        ("load_curve", echo(&FIXTURES.curve.0, &FIXTURES.curve.1, style)),
        ("unsettled", echo(&FIXTURES.unsettled.0, &FIXTURES.unsettled.1, style)),
        ("crossings", compare(&FIXTURES.crossings.0, &FIXTURES.crossings.1, style)),
        ("doctor", doctor(&fixture::doctor(), Some(0.013), "msgpath doctor", style)),
        ("doctor_fix", doctor_fix(&fixture::doctor(), style)),
    ]
}

const WIDTHS: [u16; 3] = [100, 80, 60];

#[test]
fn every_form_at_every_width() {
    for width in WIDTHS {
        for (name, text) in forms(Style { width, ..Style::default() }) {
            insta::assert_snapshot!(format!("{name}_{width}"), text);
        }
    }
    for (name, text) in forms(Style { glyphs: Glyphs::Ascii, ..Style::default() }) {
        insta::assert_snapshot!(format!("{name}_ascii"), text);
    }
    let wide = forms(Style { width: 200, ..Style::default() });
    assert_eq!(wide, forms(Style::default()), "a wider terminal shows the same");
    for (name, text) in forms(Style { width: 80, verbose: true, ..Style::default() }) {
        if ["echo", "echo_sizes", "compare", "stream", "stream_cases", "crossings", "gates", "doctor", "paths"]
            .contains(&name)
        {
            insta::assert_snapshot!(format!("{name}_80_verbose"), text);
        }
    }
    let full = Style { width: 80, warnings: true, ..Style::default() };
    insta::assert_snapshot!("compare_80_warnings", compare(&FIXTURES.compare.0, &FIXTURES.compare.1, full));
}

/// Lines that a reader sees without scrolling.
const FIRST: usize = 25;

/// Ten kinds of warning, each with a long text, one of them of many cases.
fn warned(mut summary: Summary) -> Summary {
    for n in 40..50 {
        for case in 0..if n == 45 { 16 } else { 1 } {
            summary.warnings.push(Warning {
                code: format!("W{n}"),
                text: format!(
                    "case {case} was disturbed by something that takes a line to say: {}",
                    "and so on ".repeat(30)
                ),
                why: "the reason is long as well ".repeat(5),
                fix: "and so is what helps ".repeat(5),
                evidence: Default::default(),
                strict: n == 49,
            });
        }
    }
    summary
}

/// Whether `part` stands in the lines that are seen without scrolling.
fn is_seen(name: &str, text: &str, part: &str) {
    let seen: Vec<&str> = text.lines().take(FIRST).collect();
    assert!(seen.iter().any(|line| line.contains(part)), "{name}: {part:?} is not in:\n{}", seen.join("\n"));
}

#[test]
fn the_first_number_of_every_result_is_seen_without_scrolling() {
    let fixtures = &*FIXTURES;
    for more in [false, true] {
        let with = |summary: &Summary| if more { warned(summary.clone()) } else { summary.clone() };
        for verbose in [false, true] {
            let style = Style { width: 80, verbose, ..Style::default() };
            let median = |summary: &Summary| {
                let case = summary.cases.iter().find(|case| case.rounds > 0).unwrap();
                Glyphs::Unicode.time(case.latency.quantiles[0].ns.unwrap() as f64)
            };
            for (name, (run, summary)) in
                [("echo", &fixtures.echo), ("sizes", &fixtures.sizes), ("open", &fixtures.open)]
            {
                is_seen(name, &echo(run, &with(summary), style), &format!(" {}", median(summary)));
            }
            let text = echo(&fixtures.curve.0, &with(&fixtures.curve.1), style);
            is_seen("load curve", &text, "/s  ");
            let (run, summary) = &fixtures.compare;
            is_seen("compare", &compare(run, &with(summary), style), &median(summary));
            let bits = |summary: &Summary| {
                let throughput = summary.cases[0].throughput.as_ref().unwrap();
                msgpath_core::units::bits_per_second(throughput.receiver_bits.value, BitUnits::Si)
            };
            let (run, summary) = &fixtures.stream;
            is_seen("stream", &stream(run, &with(summary), style, BitUnits::Si), &bits(summary));
            let (run, summary) = &fixtures.shapes;
            is_seen("stream of shapes", &stream(run, &with(summary), style, BitUnits::Si), "bit/s");
            is_seen("write shape", &write_shape(run, &with(summary), style, BitUnits::Si), "Gbit/s");
            let found = msgpath_analyse::diff::diff(&fixtures.echo.0, &fixtures.echo.0, &[]);
            is_seen("diff", &diff(&found, style), "+0.0 %");
            is_seen("doctor", &doctor(&fixture::doctor(), Some(0.013), "msgpath doctor", style), "WARN");
            is_seen("paths", &paths(&path_rows(), style), if verbose { "tcp:send" } else { "tcp  send" });
        }
    }
}

#[test]
fn every_kind_of_warning_is_one_line() {
    let (run, summary) = &FIXTURES.echo;
    let mut summary = warned(summary.clone());
    summary.warnings.retain(|warning| warning.code.as_str() >= "W40");
    let text = echo(run, &summary, Style { width: 80, ..Style::default() });
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  W")).collect();
    assert_eq!(lines.len(), 4, "{text}");
    assert!(lines[0].contains("W49 "), "what --strict refuses is first: {text}");
    assert!(text.contains("10 kinds of warning") && text.contains("6 more: W43, W44, W45, W46, W47, W48"), "{text}");
    let style = Style { warnings: true, ..Style::default() };
    assert_eq!(echo(run, &summary, style).matches("fix: ").count(), 25);
    assert_eq!(verdict(run, &summary, Style::default(), BitUnits::Si).matches("fix: ").count(), 0);
}

#[test]
fn quiet_names_what_was_not_measured_and_has_a_number_for_each_case() {
    let (run, summary) = &FIXTURES.echo;
    let mut summary = summary.clone();
    summary.cases.extend(vec![crate::view::measured(&summary)[0].clone(); 5]);
    summary.findings.retain(|finding| finding.code != "V01");
    let case = msgpath_core::Case::new(
        msgpath_core::PathName::new("udp", "send", "block"),
        msgpath_core::units::Pieces::whole(64),
    );
    let reason = Unavailable::new("the port is closed", "");
    summary.unavailable.push(msgpath_core::schema::UnavailableCase { case, reason });
    let text = verdict(run, &summary, Style::default(), BitUnits::Si);
    let missing = text.split_once("not measured").expect("a heading").1;
    assert!(missing.contains("udp:send") && missing.contains("the port is closed"), "{text}");
    assert!(text.contains("p50") && text.contains("p99"), "{text}");
}

/// Removes `ESC [ ... m`.
fn without_colour(text: &str) -> String {
    let mut parts = text.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |out, part| out + part.split_once('m').unwrap().1)
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let (hostile_run, hostile_summary) = fixture::hostile();
    for width in [0, 60, 61, 72, 80, 99, 100, 400] {
        let style = Style { width, ..Style::default() };
        let mut all = forms(style);
        all.push(("hostile", compare(&hostile_run, &hostile_summary, style)));
        all.push(("hostile echo", echo(&hostile_run, &hostile_summary, style)));
        let verbose = Style { verbose: true, ..style };
        all.extend(forms(verbose));
        all.push(("hostile in full", compare(&hostile_run, &hostile_summary, verbose)));
        all.push(("hostile echo in full", echo(&hostile_run, &hostile_summary, verbose)));
        for (name, text) in all {
            for line in text.lines() {
                let copied = name == "doctor_fix" && (!line.starts_with("# ") || line.starts_with("# undo: "));
                assert!(line.chars().count() <= style.columns() || copied, "{name} at {width}: {line}");
                assert_eq!(line, line.trim_end(), "{name} ends a line in blanks");
            }
        }
    }
}

#[test]
fn ascii_is_ascii() {
    for (name, text) in forms(Style { glyphs: Glyphs::Ascii, ..Style::default() }) {
        assert!(text.is_ascii(), "{name}: {:?}", text.chars().find(|c| !c.is_ascii()));
        assert!(
            !text.contains('?') || ["compare", "verdict", "crossings"].contains(&name),
            "{name} has a character nobody thought of: {text}"
        );
    }
}

#[test]
fn colour_changes_no_character() {
    let coloured = forms(Style { color: true, ..Style::default() });
    for ((name, plain), (_, coloured)) in forms(Style::default()).into_iter().zip(coloured) {
        assert!(coloured.contains("\x1b["), "{name} has no colour");
        let stripped: String =
            without_colour(&coloured).lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        assert_eq!(stripped, plain, "{name}");
    }
}

#[test]
fn what_is_not_whole_says_so() {
    let (mut run, mut summary) = fixture::echo();
    summary.status = Status::Partial;
    run.damage =
        Some(msgpath_record::Damage { file: "rounds.bin".into(), offset: 4096, why: "a block is cut off".into() });
    let text = echo(&run, &summary, Style::default()).replace('\n', " ");
    assert!(text.contains("not as it was written") && text.contains("rounds.bin is whole up to byte 4096"), "{text}");
    run.end = None;
    let text = echo(&run, &summary, Style::default()).replace('\n', " ");
    assert!(text.contains("cut short") && !text.contains("msgpath resume"), "{text}");
    (run.damage, run.folder) = (None, "runs/test-data".into());
    run.header.pilots = vec![msgpath_core::resume::Pilot::default()];
    let text = echo(&run, &summary, Style::default());
    assert!(text.contains("next   msgpath resume test-data"), "{text}");
}

#[test]
fn the_write_shape_of_a_lossy_path_is_not_timed_to_an_acknowledgement() {
    let (run, mut summary) = fixture::shapes();
    let text = |summary: &Summary| {
        let text = write_shape(&run, summary, Style::default(), BitUnits::Si);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(text(&summary).contains("Time is the sender's, until the last acknowledgement, all rounds"));
    summary.cases.iter_mut().for_each(|case| case.case.traits.lossy = true);
    let text = text(&summary);
    assert!(text.contains("Time is the sender's, until its last send call returned, all rounds"), "{text}");
    assert!(!text.contains("until the last acknowledgement"), "{text}");
}

#[test]
fn a_rate_that_was_not_sustained_has_no_latency() {
    let (run, summary) = &FIXTURES.overloaded;
    let text = echo(run, summary, Style::default());
    assert!(text.contains("not sustained: 38.2 k/s of 50.0 k/s; the backlog grows by"), "{text}");
    assert!(!text.contains("p50") && !text.contains("fastest"), "{text}");
    let (run, summary) = &FIXTURES.curve;
    let text = echo(run, summary, Style::default());
    let row = text.lines().find(|line| line.trim_start().starts_with("64k/s")).unwrap();
    assert!(row.contains("not sustained") && !row.contains("µs"), "{row}");
}

#[test]
fn levels_widen_the_range_and_the_number_stays() {
    let (run, summary) = &FIXTURES.unsettled;
    let verbose = Style { verbose: true, ..Style::default() };
    let text = echo(run, summary, verbose);
    let median = Glyphs::Unicode.time(summary.cases[0].latency.quantiles[0].ns.unwrap() as f64);
    let row = text.lines().find(|line| line.trim_start().starts_with("p50")).unwrap();
    assert!(row.contains(&format!(" {median}  ")) && row.contains(" to ") && row.contains(" µs, 12 levels"), "{row}");
    assert!(!text.contains(&format!("({median})")) && !text.to_lowercase().contains("no claim"), "{text}");
    assert!(text.contains("measured 8.10 µs"), "{text}");
    let tried = text.lines().find(|line| line.trim_start().starts_with("spin")).unwrap();
    assert!(tried.contains("  3.81 µs  8.10 µs  "), "{tried}");
    let (run, summary) = &FIXTURES.crossings;
    let text = compare(run, summary, Style::default());
    assert!(text.contains("Range of p50: 64 B 7.10 to 9.60 µs, drift."), "{text}");
}

#[test]
fn sizes_near_a_crossing_are_no_columns_of_the_main_table() {
    let (run, summary) = &FIXTURES.crossings;
    let text = compare(run, summary, Style { verbose: true, ..Style::default() });
    let at = text.find("near the crossing").unwrap();
    let main = text.lines().find(|line| line.trim_start().starts_with("64 B")).unwrap();
    assert!(!main.contains("27554 B"), "{main}");
    let heads: Vec<&str> = text[at..].lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(heads, ["24", "KiB", "27554", "B", "48", "KiB"]);
}

#[test]
fn an_empty_summary_prints_without_a_panic() {
    let (mut run, mut summary) = fixture::compare();
    run.rounds.clear();
    summary.cases.clear();
    summary.comparison = None;
    let style = Style::default();
    for text in [
        echo(&run, &summary, style),
        compare(&run, &summary, style),
        stream(&run, &summary, style, BitUnits::Si),
        each(&run, &summary, &[], style),
    ] {
        assert!(text.contains("test-data"));
    }
    assert!(runs(&[], style).contains("No run"));
}

#[test]
fn a_baseline_that_lost_all_says_so_and_hides_no_other_path() {
    let (run, mut summary) = FIXTURES.compare.clone();
    let comparison = summary.comparison.as_mut().unwrap();
    let baseline = comparison.baseline.clone();
    (comparison.ratios, comparison.tails) = (Vec::new(), Vec::new());
    let lost = |case: &&mut CaseSummary| case.case.path == baseline;
    for case in summary.cases.iter_mut().filter(lost) {
        case.delivery = Delivery { sent: 10, lost: 10, ..Delivery::default() };
        case.latency = Latency::default();
    }
    let text = compare(&run, &summary, Style::default());
    assert!(text.contains(&format!("the baseline {baseline} lost all of its")), "{text}");
    let other = summary.cases.iter().find(|case| case.case.path != baseline).unwrap();
    let value = super::compare::absolute(other, "p50", Glyphs::Unicode);
    assert!(value != "n/a" && text.contains(&value), "{value}\n{text}");
}

#[test]
fn a_void_comparison_keeps_its_gates() {
    let mut summary = FIXTURES.compare.1.clone();
    summary.comparison.as_mut().unwrap().control_failed = true;
    summary.gates = FIXTURES.gated.1.gates.clone();
    let text = compare(&FIXTURES.compare.0, &summary, Style::default());
    assert!(text.contains("is void") && text.contains("failed (sure)  p99 > 1ms"), "{text}");
}
