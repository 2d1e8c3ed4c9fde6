//! Tests of all figures.

use super::testing::drawn;
use crate::fixture;
use crate::html::{self, Earlier, Messages, Scene};

#[test]
fn two_runs_lie_in_one_drawing_wherever_there_are_lines() {
    let (compare, streams, load) = (fixture::compare(), fixture::stream_sizes(), fixture::load_curve());
    let figures = [
        (&super::threads::LATENCY, &compare),
        (&super::threads::SCALING, &compare),
        (&super::sizes::FIGURE, &compare),
        (&super::throughput::FIGURE, &streams),
        (&super::load::FIGURE, &load),
    ];
    for (figure, (run, summary)) in figures {
        let diff = msgpath_analyse::diff::diff(run, run, &[]);
        let earlier = Some(Earlier { run, summary, diff: &diff, messages: Messages::default() });
        let scene = Scene { earlier, ..Scene::new(run, summary) };
        let both = drawn(figure, &scene);
        assert!(both.contains(", earlier</text>") && both.contains("s0 was"), "{}: {both}", figure.name);
        // The page does not draw the earlier run once more below it.
        assert!(!html::report(&scene).contains(&format!("view-{}-earlier", figure.name)), "{}", figure.name);
        assert!(super::BOTH.contains(&figure.name), "{}", figure.name);
    }
}

/// Writes the reports of the fixtures to `$MSGPATH_LOOK`, to be looked at in a browser.
#[test]
#[ignore = "writes files for people"]
fn look() {
    let folder = std::path::PathBuf::from(std::env::var_os("MSGPATH_LOOK").expect("a folder in MSGPATH_LOOK"));
    let fixtures = [
        ("echo", fixture::echo()),
        ("sizes", fixture::echo_sizes()),
        ("compare", fixture::compare()),
        ("shapes", fixture::shapes()),
        ("load", fixture::load_curve()),
        ("stream", fixture::stream_sizes()),
    ];
    for (name, (run, summary)) in &fixtures {
        std::fs::write(folder.join(format!("{name}.html")), html::report(&Scene::new(run, summary))).unwrap();
    }
    let (run, summary, rows) = fixture::trials();
    let messages = Messages { logged: &rows, ..Messages::default() };
    let scene = Scene { messages, ..Scene::new(&run, &summary) };
    std::fs::write(folder.join("trials.html"), html::report(&scene)).unwrap();
    let ((a, of_a), (b, of_b)) = (fixture::echo(), fixture::slower_echo());
    let diff = msgpath_analyse::diff::diff(&a, &b, &[]);
    let scene = Scene {
        earlier: Some(Earlier { run: &a, summary: &of_a, diff: &diff, messages: Messages::default() }),
        ..Scene::new(&b, &of_b)
    };
    std::fs::write(folder.join("shift.html"), html::report(&scene)).unwrap();
}
