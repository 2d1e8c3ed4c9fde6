//! Is the report of a million messages written in under a second, and can a page with 100 000 messages be used at once?
//! A real run, the built program, a real browser.
//!
//! `cargo bench --bench report`. Ends with 1 where a target is missed. The part in the browser is skipped where none is
//! installed.
#![allow(clippy::print_stderr, clippy::print_stdout)]

#[allow(dead_code)] // the tests use the rest of it
#[path = "../tests/browser/calls.rs"]
mod calls;
#[allow(dead_code)] // the tests use the rest of it
#[path = "../tests/browser/chromium.rs"]
mod chromium;

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use serde_json::json;

const REPETITIONS: usize = 7;
/// Calls in the page of an RPC run: all of them, none left out.
const CALLS: u32 = 1_000_000;

/// Prints a measured value beside its target; whether it is met.
fn judge(what: &str, values: &mut [f64], unit: &str, target: f64) -> bool {
    values.sort_by(f64::total_cmp);
    let (low, median, high) = (values[0], values[values.len() / 2], values[values.len() - 1]);
    let met = median < target;
    println!(
        "{what:<46} {median:>8.2} {unit}  ({low:.2} to {high:.2}, n = {})  target < {target} {unit}: {}",
        values.len(),
        if met { "met" } else { "MISSED" }
    );
    met
}

fn main() -> ExitCode {
    let home = tempfile::tempdir().expect("a temporary folder");
    let data = home.path().join("data");
    let line = "echo -x unix:send -c 1000000 -r 20 -w 0 -o stamps=both,what-ifs=no --name million -qq";
    let status = Command::new(env!("CARGO_BIN_EXE_msgpath"))
        .args(line.split(' '))
        .env("HOME", home.path())
        .env("XDG_DATA_HOME", &data)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "msgpath {line}");
    let file = home.path().join("report.html");

    let mut seconds: Vec<f64> = (0..REPETITIONS).map(|_| write(&data, &file)).collect();
    let bytes = std::fs::metadata(&file).expect("the report").len() as f64;
    let mut met = judge("report of 1 000 000 messages, read to written", &mut seconds, "s", 1.0);
    met &= judge("its page, with 100 000 of them", &mut [bytes / 1e6], "MB", 2.5);
    if let Some(program) = chromium::installed() {
        met &= in_browser(&program, &file);
        met &= calls_in_browser(&program, &calls::page(home.path(), CALLS));
    }
    if met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The time of `msgpath report`, from its start to its end, s.
fn write(data: &Path, file: &Path) -> f64 {
    let begun = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_msgpath"));
    command.args(["report", "million", "-o"]).arg(file).env("XDG_DATA_HOME", data).stdout(Stdio::null());
    let status = command.status();
    let spent = begun.elapsed().as_secs_f64();
    assert!(status.is_ok_and(|status| status.success()), "msgpath report million");
    spent
}

fn in_browser(program: &Path, file: &Path) -> bool {
    let mut browser = chromium::Browser::start(program);
    let mut usable = Vec::new();
    for _ in 0..REPETITIONS {
        browser.open(file);
        browser.until("document.querySelector('#timeline.ready') !== null");
        let mark = browser.value("performance.getEntriesByName('timeline')[0].startTime");
        usable.push(mark.as_f64().expect("a time"));
    }
    let mut met = judge("timeline usable after the page was asked for", &mut usable, "ms", 1_000.0);

    // Ten steps in, at the slowest message and back out: each frame from the first to the last callback of its drawing.
    browser.call("Runtime.evaluate", json!({"expression": "document.querySelector('[data-do=all]').click()"}));
    let frames = browser.value(
        "(async () => { const c = document.querySelector('#tl-main'), spent = []; \
         c.focus(); c.scrollIntoView({block: 'center'}); \
         const frame = call => new Promise(done => { let begun; \
           requestAnimationFrame(() => begun = performance.now()); call(); \
           requestAnimationFrame(() => { c.getContext('2d').getImageData(0, 0, 1, 1); done(performance.now() - begun); }); }); \
         for (const delta of [...Array(20).fill(-200), ...Array(20).fill(200)]) \
           spent.push(await frame(() => c.dispatchEvent(new WheelEvent('wheel', \
             {deltaY: delta, ctrlKey: true, cancelable: true, clientX: c.getBoundingClientRect().left + c.clientWidth / 2})))); \
         return spent })()",
    );
    let mut frames: Vec<f64> = frames.as_array().expect("times").iter().filter_map(serde_json::Value::as_f64).collect();
    met &= judge("a frame while zooming, drawing and painting", &mut frames, "ms", 16.0);
    met
}

/// A page with a million calls: until it can be used, a frame while zooming, a search, and sorting by duration.
fn calls_in_browser(program: &Path, file: &Path) -> bool {
    let bytes = std::fs::metadata(file).expect("the page").len() as f64;
    let mut met = judge("page of 1 000 000 calls", &mut [bytes / 1e6], "MB", 40.0);
    let mut browser = chromium::Browser::start(program);
    let mut usable = Vec::new();
    for _ in 0..REPETITIONS {
        browser.open(file);
        browser.until("document.querySelector('#calls.ready') !== null");
        let mark = browser.value("performance.getEntriesByName('calls')[0].startTime");
        usable.push(mark.as_f64().expect("a time"));
    }
    met &= judge("timeline of 1 000 000 calls usable", &mut usable, "ms", 3_000.0);
    let numbers = |value: serde_json::Value| -> Vec<f64> {
        value.as_array().expect("times").iter().filter_map(serde_json::Value::as_f64).collect()
    };
    const FRAME: &str = "const c = document.querySelector('#calls-main'); c.focus(); c.scrollIntoView({block: 'center'}); \
        const frame = call => new Promise(done => { let begun; requestAnimationFrame(() => begun = performance.now()); call(); \
          requestAnimationFrame(() => { c.getContext('2d').getImageData(0, 0, 1, 1); done(performance.now() - begun); }); });";
    let mut frames = numbers(browser.value(&format!(
        "(async () => {{ {FRAME} const spent = []; \
         for (const key of [...Array(25).fill('+'), ...Array(25).fill('-')]) \
           spent.push(await frame(() => c.dispatchEvent(new KeyboardEvent('keydown', {{key}})))); return spent }})()"
    )));
    met &= judge("a frame while zooming among 1 000 000 calls", &mut frames, "ms", 16.0);
    let mut searches = numbers(browser.value(&format!(
        "(async () => {{ {FRAME} const s = document.querySelector('#calls-search'), spent = []; \
         for (const query of ['method:read', 'usec 100..200', 'status:failed', '^write', 'key:00042', '']) {{ \
           const begun = performance.now(); s.value = query; s.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}})); \
           await frame(() => {{}}); spent.push(performance.now() - begun); }} return spent }})()"
    )));
    met &= judge("a search through 1 000 000 calls", &mut searches, "ms", 1_000.0);
    let mut orders = numbers(browser.value(&format!(
        "(async () => {{ {FRAME} const spent = []; for (const order of ['duration', 'percentile', 'start']) {{ \
           const begun = performance.now(); document.querySelector(`[data-order=${{order}}]`).click(); \
           await frame(() => {{}}); spent.push(performance.now() - begun); }} return spent }})()"
    )));
    met &= judge("another order of 1 000 000 calls", &mut orders, "ms", 1_000.0);
    met
}
