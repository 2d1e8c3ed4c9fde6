//! Every form at every width, against its snapshot; and what must hold at all of them.

use std::sync::LazyLock;

use msgpath_analyse::Summary;
use msgpath_core::Unavailable;
use msgpath_core::schema::{MessageRow, Status};
use msgpath_core::units::{BitUnits, Glyphs};
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
        cases: 96,
        rounds: 3_840,
        status,
    };
    vec![row("test-otter", Status::Ok), row("test-heron", Status::Partial), row("test-newt", Status::Failed)]
}

/// What the forms show, built once for all styles.
struct Fixtures {
    echo: (Run, Summary),
    sizes: (Run, Summary),
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
        ("verdict", verdict(compare_summary, style)),
        ("open_loop", echo(&FIXTURES.open.0, &FIXTURES.open.1, style)),
        ("overloaded", echo(&FIXTURES.overloaded.0, &FIXTURES.overloaded.1, style)),
        ("load_curve", echo(&FIXTURES.curve.0, &FIXTURES.curve.1, style)),
        ("unsettled", echo(&FIXTURES.unsettled.0, &FIXTURES.unsettled.1, style)),
        ("crossings", compare(&FIXTURES.crossings.0, &FIXTURES.crossings.1, style)),
        ("doctor", doctor(&fixture::doctor(), Some(0.013), style)),
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
fn the_warning_stands_before_the_table() {
    let (run, summary) = fixture::compare();
    let text = compare(&run, &summary, Style::default());
    assert!(text.find("[W20]").unwrap() < text.find("median round trip").unwrap());
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
    assert!(text.contains("cut short"), "{text}");
}

#[test]
fn a_rate_that_was_not_sustained_has_no_latency() {
    let (run, summary) = &FIXTURES.overloaded;
    let text = echo(run, summary, Style::default());
    assert!(text.contains("not sustained: 38.2 k of 50.0 k msg/s; the backlog grows by"), "{text}");
    let quantile = summary.cases[0].quantiles[0].ns.unwrap() as f64;
    assert!(!text.contains(&Glyphs::Unicode.time(quantile)) && !text.contains("p50"), "{text}");
    let (run, summary) = &FIXTURES.curve;
    let text = echo(run, summary, Style::default());
    let row = text.lines().find(|line| line.trim_start().starts_with("64k/s")).unwrap();
    assert!(row.contains("not sustained") && !row.contains("µs"), "{row}");
}

#[test]
fn levels_widen_the_range_and_the_number_stays() {
    let (run, summary) = &FIXTURES.unsettled;
    let text = echo(run, summary, Style::default());
    let median = Glyphs::Unicode.time(summary.cases[0].quantiles[0].ns.unwrap() as f64);
    let row = text.lines().find(|line| line.trim_start().starts_with("p50")).unwrap();
    assert!(row.contains(&format!(" {median}  ")) && row.contains(" – ") && row.contains(" µs, 12 levels"), "{row}");
    assert!(!text.contains(&format!("({median})")) && !text.to_lowercase().contains("no claim"), "{text}");
    assert!(text.contains("measured 8.10 µs"), "{text}");
    let tried = text.lines().find(|line| line.trim_start().starts_with("spin")).unwrap();
    assert!(tried.contains("  3.81 µs  8.10 µs  "), "{tried}");
    let (run, summary) = &FIXTURES.crossings;
    let text = compare(run, summary, Style::default());
    assert!(text.contains("Range of p50: 64 B 7.10 – 9.60 µs, drift."), "{text}");
}

#[test]
fn sizes_near_a_crossing_are_no_columns_of_the_main_table() {
    let (run, summary) = &FIXTURES.crossings;
    let text = compare(run, summary, Style::default());
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
