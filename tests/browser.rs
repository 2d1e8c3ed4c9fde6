//! Reports of real runs in a real browser: every picture is there, the timeline can be used, the console is silent, and
//! nothing is asked for beyond the file. Speed is not judged here but in `benches/report.rs`.
#![allow(clippy::print_stderr, clippy::print_stdout)]
#![forbid(unsafe_code)]

#[path = "browser/calls.rs"]
mod calls;
#[path = "browser/chromium.rs"]
mod chromium;
#[allow(dead_code)] // the other tests use the rest of it
#[path = "program/command.rs"]
mod command;
#[allow(dead_code)]
#[path = "program/printed.rs"]
mod printed;
#[path = "browser/racks.rs"]
mod racks;
#[path = "browser/reading.rs"]
mod reading;
#[path = "browser/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use chromium::Browser;
use command::{Home, within};
use serde_json::{Value, json};

/// The screen of the timeline.
const CANVAS: &str = "#tl-main";
const READY: &str = "document.querySelector('#timeline.ready') !== null";

/// A browser that has opened the report of a run.
#[track_caller]
fn open(program: &Path, report: &Path) -> Browser {
    let mut browser = Browser::start(program);
    browser.open(report);
    unfold(&mut browser);
    browser
}

/// Opens everything that is folded, as the key `o` does.
fn unfold(browser: &mut Browser) {
    browser.value("document.querySelectorAll('details.fold').forEach(fold => fold.open = true)");
    settle(browser);
}

/// A number that the timeline says about what it shows: `from`, `to`, `depth`, `selected`, `shown`.
#[track_caller]
fn state(browser: &mut Browser, name: &str) -> f64 {
    settle(browser);
    let value = browser.value(&format!("+document.querySelector('{CANVAS}').dataset.{name}"));
    value.as_f64().unwrap_or_else(|| panic!("{name}: {value}"))
}

/// Waits until what was asked for is drawn.
fn settle(browser: &mut Browser) {
    browser.value("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(() => drawn(1))))");
}

/// Different colours on the canvas: more than a few mean that something is drawn.
#[track_caller]
fn colours(browser: &mut Browser) -> u64 {
    settle(browser);
    // Read from a copy, so that the browser has no advice to give about the canvas.
    let count = "(() => { const c = document.querySelector('#tl-main'), g = new OffscreenCanvas(c.width, c.height).getContext('2d'); \
        g.drawImage(c, 0, 0); \
        return new Set(new Uint32Array(g.getImageData(0, 0, c.width, c.height).data.buffer)).size })()";
    browser.value(count).as_u64().expect("a number")
}

/// The page is quiet, and asked for nothing but itself.
#[track_caller]
fn is_quiet(browser: &Browser, report: &Path) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests(), [format!("file://{}", report.display())]);
}

fn text(browser: &mut Browser, selector: &str) -> String {
    settle(browser);
    browser.value(&format!("document.querySelector({selector:?}).textContent")).as_str().unwrap_or_default().into()
}

#[test]
fn the_timeline_answers_pointer_keys_and_buttons() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x tcp:send -c 4000 -r 8 -w 0 -o stamps=both --name small");
    let mut browser = open(&program, &report);
    browser.until(READY);
    let (from, to) = (state(&mut browser, "from"), state(&mut browser, "to"));
    assert!(to > from && state(&mut browser, "shown") == 4_000.0);
    assert!(colours(&mut browser) > 5);
    let sharp =
        format!("(c => Math.abs(c.width - c.clientWidth * devicePixelRatio) < 2)(document.querySelector('{CANVAS}'))");
    assert_eq!(browser.value(&sharp), true, "one pixel of the canvas is one of the screen");

    // The wheel belongs to the page until the timeline has the focus.
    let at = browser.point(CANVAS, (0.5, 0.5));
    browser.mouse("mouseWheel", at, json!({"deltaX": 0, "deltaY": -100}));
    assert_eq!(state(&mut browser, "to"), to);
    let at = browser.point(CANVAS, (0.5, 0.5));
    browser.mouse("mouseWheel", at, json!({"deltaX": 0, "deltaY": -100, "modifiers": 2}));
    assert!(state(&mut browser, "to") - state(&mut browser, "from") < to - from, "Ctrl and wheel zoom");
    browser.click("[data-do=all]", (0.5, 0.5));
    assert_eq!(state(&mut browser, "to"), to);

    // The slowest, the next slowest, by key and by button, announced as text.
    browser.value(&format!("document.querySelector('{CANVAS}').focus()"));
    browser.key("n");
    let slowest = state(&mut browser, "selected");
    let output = text(&mut browser, "#tl-detail");
    assert!(output.contains("slower than") && output.contains("far end and reply"), "{output}");
    browser.key("n");
    assert_ne!(state(&mut browser, "selected"), slowest);
    browser.click("[data-do=next]", (0.5, 0.5));
    assert_ne!(text(&mut browser, "#tl-detail"), output);
    assert_eq!(browser.value("document.querySelector('#tl-detail').getAttribute('aria-live')"), "polite");
    assert!(state(&mut browser, "to") - state(&mut browser, "from") < 0.1 * (to - from));

    // Keys: zoom out, move, everything.
    browser.value(&format!("document.querySelector('{CANVAS}').focus()"));
    let span = state(&mut browser, "to") - state(&mut browser, "from");
    browser.key("-");
    assert!(state(&mut browser, "to") - state(&mut browser, "from") > span);
    let left = state(&mut browser, "from");
    // The slowest message may be one of the first: then there is nothing to the left of it.
    if left > from {
        browser.key("ArrowLeft");
        assert!(state(&mut browser, "from") < left);
    } else {
        browser.key("ArrowRight");
        assert!(state(&mut browser, "from") > left);
    }
    browser.key("Home");
    assert_eq!((state(&mut browser, "from"), state(&mut browser, "to")), (from, to));

    // Dragging moves, with Shift it measures.
    browser.key("+");
    let left = state(&mut browser, "from");
    drag(&mut browser, 0);
    assert!(state(&mut browser, "from") > left, "dragged to the left: later messages");
    let (left, before) = (state(&mut browser, "from"), colours(&mut browser));
    drag(&mut browser, 8);
    assert_eq!(state(&mut browser, "from"), left);
    assert!(colours(&mut browser) > before, "the measured stretch is shaded");

    // The strip moves the view; a click on it goes there.
    browser.click("#tl-strip", (0.1, 0.5));
    assert!(state(&mut browser, "from") < left);

    // Aligned by percentile.
    browser.click("[data-mode=rank]", (0.5, 0.5));
    let depth = state(&mut browser, "depth");
    assert_eq!(browser.value(&format!("document.querySelector('{CANVAS}').dataset.shows")), "rank");
    assert!((depth - 4_000_f64.log10()).abs() < 1e-9 && colours(&mut browser) > 3, "{depth}");
    browser.click("[data-do=in]", (0.5, 0.5));
    assert!(state(&mut browser, "depth") < depth);
    browser.click(CANVAS, (0.4, 0.5));
    let output = text(&mut browser, "#tl-detail");
    assert!(output.contains("slower than"), "{output}");
    is_quiet(&browser, &report);
}

/// Drags from the middle of the timeline 200 pixels to the left; 8 as modifier is Shift.
fn drag(browser: &mut Browser, modifiers: u32) {
    let (x, y) = browser.point(CANVAS, (0.5, 0.5));
    let held = json!({"button": "left", "buttons": 1, "clickCount": 1, "modifiers": modifiers});
    browser.mouse("mousePressed", (x, y), held.clone());
    for step in 1..=4 {
        browser.mouse("mouseMoved", (x - 50.0 * f64::from(step), y), held.clone());
    }
    browser.mouse("mouseReleased", (x - 200.0, y), held);
}

#[test]
fn pictures_are_read_off_and_lead_to_the_messages() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x tcp:send -c 6000 -r 10 -w 0 --name linked");
    let mut browser = open(&program, &report);
    browser.until(READY);

    browser.point("#fig-spectrum svg", (0.3, 0.5));
    let output = text(&mut browser, "#fig-spectrum .tip");
    assert!(output.starts_with('p') && (output.contains("µs") || output.contains("ms")), "{output}");

    // The fullest cell of the heat map, in the units of the page.
    let place = browser.value(
        "(() => { const m = JSON.parse(document.querySelector('#data-heat').textContent).maps[0], \
         g = JSON.parse(document.querySelector('#fig-heat svg').dataset.geo); let best = [0, 0, 0]; \
         m.columns.forEach((c, x) => c.counts.forEach((n, y) => { if (n > best[0]) best = [n, x, c.first + y] })); \
         return [(g.left + (g.right - g.left) * (best[1] + .5) / m.columns.length) / g.w, \
         (g.bottom - (g.bottom - g.top) * (best[2] + .5) / m.rows) / g.h, best[0]] })()",
    );
    let share = (place[0].as_f64().expect("a place"), place[1].as_f64().expect("a place"));
    browser.point("#fig-heat svg", share);
    assert!(text(&mut browser, "#fig-heat .tip").ends_with(&format!("{} messages", place[2])));
    let (from, to) = (state(&mut browser, "from"), state(&mut browser, "to"));
    browser.click("#fig-heat svg", share);
    let seen = state(&mut browser, "to") - state(&mut browser, "from");
    assert!(seen < 0.5 * (to - from), "{seen} ns of {}", to - from);
    let output = text(&mut browser, "#tl-detail");
    assert!(output.starts_with(&format!("{n} of the {n} messages of the cell", n = place[2])), "{output}");
    is_quiet(&browser, &report);
}

#[test]
fn a_hundred_thousand_messages_can_be_used() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x unix:send -c 120000 -r 10 -w 0 -o stamps=both --name large");
    let mut browser = open(&program, &report);
    browser.until(READY);
    assert_eq!(state(&mut browser, "shown"), 100_000.0);
    assert!(text(&mut browser, "#fig-timeline .q").contains("of 120000 logged messages"));
    browser.click("[data-do=next]", (0.5, 0.5));
    let near = state(&mut browser, "shown");
    assert!((1.0..50_000.0).contains(&near), "{near} messages around the slowest");
    browser.click("[data-mode=rank]", (0.5, 0.5));
    // All that was logged counts, not only what is in the file.
    assert!((state(&mut browser, "depth") - 120_000_f64.log10()).abs() < 1e-6);
    assert!(colours(&mut browser) > 3);
    is_quiet(&browser, &report);
}

#[test]
fn an_open_loop_with_several_connections_shows_its_stages_and_lanes() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let line = "echo -x tcp:send,unix:send -P 2 --rate 4000 -c 1500 -r 5 -w 0 -o stamps=both --name open";
    let report = runs::report(&home, line);
    let mut browser = open(&program, &report);
    browser.until(READY);
    assert!(text(&mut browser, ".tl-keys").contains("waiting to be sent"));
    let options = browser.value("document.querySelector('#tl-case').options.length");
    assert_eq!(options, 2);
    let name = browser.value(&format!("document.querySelector('{CANVAS}').dataset.case"));
    browser.value(
        "(() => { const c = document.querySelector('#tl-case'); c.value = 1; c.dispatchEvent(new Event('change')) })()",
    );
    settle(&mut browser);
    assert_ne!(browser.value(&format!("document.querySelector('{CANVAS}').dataset.case")), name);
    assert!(state(&mut browser, "shown") > 0.0);
    // A row of the table leads to its message.
    browser.value("document.querySelector('#fig-timeline details').open = true");
    browser.click("#fig-timeline details button", (0.5, 0.5));
    assert!(state(&mut browser, "selected") >= 0.0 && state(&mut browser, "shown") >= 1.0);
    is_quiet(&browser, &report);
}

/// What the timeline of calls says about itself: `from`, `to`, `rowFrom`, `rowTo`, `selected`, `matching`.
#[track_caller]
fn calls_state(browser: &mut Browser, name: &str) -> f64 {
    settle(browser);
    let value = browser.value(&format!("+document.querySelector('#calls-main').dataset.{name}"));
    value.as_f64().unwrap_or_else(|| panic!("{name}: {value}"))
}

/// Types into the search box of the timeline of calls; how many calls match, and what is said.
#[track_caller]
fn search(browser: &mut Browser, query: &str) -> (f64, String) {
    browser.value(&format!(
        "(() => {{ const s = document.querySelector('#calls-search'); s.value = {query:?}; \
         s.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}})) }})()"
    ));
    (calls_state(browser, "matching"), text(browser, "#calls-found"))
}

#[test]
fn calls_can_be_searched_sorted_and_measured() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = calls::page(folder.path(), 3_000);
    let mut browser = open(&program, &report);
    browser.until("document.querySelector('#calls.ready') !== null");
    assert_eq!(calls_state(&mut browser, "matching"), 3_000.0);
    assert!(text(&mut browser, "#calls-found").starts_with("3000 calls, 1.5"));
    assert_eq!(browser.value("document.querySelectorAll('#calls .tl-kind').length"), 3);
    assert_eq!(
        browser.value("document.querySelectorAll('#calls .tl-kind')[2].textContent"),
        format!("{}, 100 B there, 100 B back", calls::METHODS[2])
    );

    // The grammar of the search.
    for (query, matching) in [
        ("method:write", 1_000.0),
        ("!method:write", 2_000.0),
        ("status:failed", 30.0),
        ("status:none", 1.0),
        ("usec 100..199", 300.0),
        ("usec ..29", 29.0),
        ("read usec 100..199", 100.0),
        ("conn:2", 750.0),
        ("parent:3", 1.0),
        ("key:key00042", 1.0),
        ("^read\\\\.(2|5)$", 2.0),
        ("nosuchthing", 0.0),
        ("", 3_000.0),
    ] {
        assert_eq!(search(&mut browser, &query.replace("\\\\", "\\")).0, matching, "{query}");
    }
    assert!(search(&mut browser, "usec 100..199").1.starts_with("300 of 3000 calls match, 44."));
    // What is wrong is said, and nothing changes.
    let (matching, output) = search(&mut browser, "(");
    assert!(matching == 300.0 && output.contains("egular expression"), "{output}");
    assert!(search(&mut browser, "usec x").1.contains("range"));
    search(&mut browser, "");

    // Sorted by duration the slowest stand first; by percentile they are last.
    browser.click("[data-order=duration]", (0.5, 0.5));
    let axis = "document.querySelector('#calls-main').dataset.axis";
    assert_eq!((calls_state(&mut browser, "from"), browser.value(axis)), (0.0, json!("aligned")));
    (0..7).for_each(|_| browser.click("#calls [data-do=taller]", (0.5, 0.5)));
    assert!(calls_state(&mut browser, "rowTo") - calls_state(&mut browser, "rowFrom") < 30.0);
    browser.click("#calls [data-do=next]", (0.5, 0.5));
    let output = text(&mut browser, "#calls-detail");
    assert!(
        output.contains("1.02 ms") && output.contains("lock wait") && output.contains("estimate 800 ns"),
        "{output}"
    );
    assert!(calls_state(&mut browser, "rowFrom") < 5.0);
    browser.click("[data-order=percentile]", (0.5, 0.5));
    assert_eq!(calls_state(&mut browser, "rowFrom"), 0.0);
    assert!((calls_state(&mut browser, "rowTo") - 3_000_f64.log10()).abs() < 1e-9);

    // Coloured and grouped by connection: those of the first stand before those of the second, and the key names all four.
    browser.click("[data-order=group]", (0.5, 0.5));
    browser.click("[data-hue=connection]", (0.5, 0.5));
    let state =
        "(({ hue, order, shown }) => `${hue} ${order} ${shown > 0}`)(document.querySelector('#calls-main').dataset)";
    browser.until(&format!("{state} === 'connection group true'"));
    assert_eq!(browser.value("document.querySelectorAll('#calls .tl-keys .tl-key')[3].textContent"), "connection 3");
    assert_eq!(browser.value("document.querySelectorAll('#calls .tl-kind').length"), 0);
    browser.click("[data-hue=server]", (0.5, 0.5));
    assert_eq!(browser.value("document.querySelectorAll('#calls .tl-keys .tl-key')[0].textContent"), "10.9.0.2");
    browser.click("[data-hue=kind]", (0.5, 0.5));
    browser.click("[data-order=percentile]", (0.5, 0.5));

    // By time, with the keys: the next slowest, its neighbours, a call and the one that made it.
    browser.click("[data-axis=wall]", (0.5, 0.5));
    browser.value("document.querySelector('#calls-main').focus()");
    browser.key("n");
    let (slowest, span) =
        (calls_state(&mut browser, "selected"), calls_state(&mut browser, "to") - calls_state(&mut browser, "from"));
    assert!(span < 4e6, "{span}");
    browser.key(".");
    assert_eq!(calls_state(&mut browser, "selected"), slowest + 1.0);
    browser.key("-");
    assert!(calls_state(&mut browser, "to") - calls_state(&mut browser, "from") > span);
    browser.key("Home");
    search(&mut browser, "id:14");
    browser.value("document.querySelector('#calls-main').focus()");
    browser.key("n");
    assert_eq!(calls_state(&mut browser, "selected"), 13.0);
    assert!(text(&mut browser, "#calls-detail").contains("called by write.13"));
    browser.key("p");
    assert_eq!((calls_state(&mut browser, "selected"), calls_state(&mut browser, "matching")), (12.0, 3_000.0));

    // Measuring snaps to the edges of the calls.
    let (x, y) = browser.point("#calls-main", (0.3, 0.5));
    let held = json!({"button": "left", "buttons": 1, "clickCount": 1, "modifiers": 8});
    browser.mouse("mousePressed", (x, y), held.clone());
    browser.mouse("mouseMoved", (x + 60.0, y), held.clone());
    browser.mouse("mouseReleased", (x + 60.0, y), held);
    assert!(text(&mut browser, "#calls-detail").starts_with("Measured "));

    // A row of the table leads to its call; "/" leads to the search.
    browser.value("document.querySelector('#fig-rpc-calls details').open = true");
    browser.click("#fig-rpc-calls details button", (0.5, 0.5));
    assert_eq!(calls_state(&mut browser, "selected"), 999.0);
    browser.value("document.querySelector('#calls-main').focus()");
    browser.key("/");
    assert_eq!(browser.value("document.activeElement.id"), "calls-search");
    is_quiet(&browser, &report);
}

/// How long it takes is judged by `benches/report.rs`; here it is printed.
#[test]
#[ignore = "a page of 30 MB"]
fn a_million_calls_can_be_used() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = calls::page(folder.path(), 1_000_000);
    eprintln!("{} bytes", std::fs::metadata(&report).expect("the page").len());
    let mut browser = open(&program, &report);
    browser.until("document.querySelector('#calls.ready') !== null");
    eprintln!("usable after {} ms", browser.value("performance.getEntriesByName('calls')[0].startTime"));
    let spent = |browser: &mut Browser, what: &str, script: &str| {
        let ms = browser.value(&format!(
            "(async () => {{ const begun = performance.now(); {script}; await new Promise(requestAnimationFrame); \
             await new Promise(requestAnimationFrame); return performance.now() - begun }})()"
        ));
        eprintln!("{what}: {ms} ms");
    };
    let query = |text: &str| {
        format!(
            "const s = document.querySelector('#calls-search'); s.value = '{text}'; \
             s.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}}))"
        )
    };
    spent(&mut browser, "a search for a method", &query("method:read"));
    assert_eq!(calls_state(&mut browser, "matching"), 333_333.0);
    spent(&mut browser, "a regular expression", &query("^write"));
    spent(&mut browser, "everything again", &query(""));
    for order in ["duration", "percentile", "start"] {
        spent(&mut browser, order, &format!("document.querySelector('[data-order={order}]').click()"));
    }
    spent(&mut browser, "by time", "document.querySelector('[data-axis=wall]').click()");
    for _ in 0..3 {
        spent(&mut browser, "zoom in", "document.querySelector('#calls [data-do=in]').click()");
    }
    assert_eq!(calls_state(&mut browser, "matching"), 1_000_000.0);
    is_quiet(&browser, &report);
}

#[test]
fn calls_without_a_script_are_drawn_and_listed() {
    let Some(program) = chromium::installed() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = calls::page(folder.path(), 300);
    let mut browser = Browser::start(&program);
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&report);
    let shown = |browser: &mut Browser, selector: &str| -> usize {
        let root = browser.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
        let found = browser.call("DOM.querySelectorAll", json!({"nodeId": root, "selector": selector}));
        found["nodeIds"].as_array().expect("nodes").len()
    };
    assert_eq!(shown(&mut browser, "#fig-rpc-first svg"), 3);
    assert!(shown(&mut browser, "#fig-rpc-first svg rect") >= 3 * 20 * 3);
    assert_eq!(shown(&mut browser, "#fig-rpc-calls details tr"), 21);
    assert_eq!((shown(&mut browser, "#fig-rpc-calls noscript p"), shown(&mut browser, "#calls.ready")), (1, 0));
    is_quiet(&browser, &report);
}

#[test]
fn runs_with_little_to_show_are_shown() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let mut browser = Browser::start(&program);

    let one = runs::report(&home, "echo -x unix:send -c 1 -r 1 -w 0 --name one");
    browser.open(&one);
    unfold(&mut browser);
    browser.until(READY);
    assert_eq!(state(&mut browser, "shown"), 1.0);
    browser.click("[data-do=next]", (0.5, 0.5));
    assert_eq!(state(&mut browser, "selected"), 0.0);
    browser.click("[data-mode=rank]", (0.5, 0.5));
    assert!(colours(&mut browser) > 2);
    is_quiet(&browser, &one);

    let early = runs::killed_early(&home);
    browser.open(&early);
    let why = text(&mut browser, "#not-drawn");
    assert!(why.contains("no round was finished"), "{why}");
    is_quiet(&browser, &early);

    let lost = runs::all_lost(&home);
    browser.open(&lost);
    unfold(&mut browser);
    browser.until(READY);
    assert_eq!(state(&mut browser, "shown"), 50.0);
    browser.click("[data-do=next]", (0.5, 0.5));
    assert_eq!(state(&mut browser, "selected"), -1.0, "none arrived, so none is the slowest");
    browser.click("#fig-timeline > details summary", (0.01, 0.5));
    browser.click("#fig-timeline details button", (0.5, 0.5));
    assert!(text(&mut browser, "#tl-detail").contains("lost"));
    browser.click("[data-mode=rank]", (0.5, 0.5));
    settle(&mut browser);
    is_quiet(&browser, &lost);
}

#[test]
fn without_a_script_everything_else_is_there() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x unix:send -c 300 -r 5 -w 0 --name plain");
    let mut browser = Browser::start(&program);
    browser.call("Emulation.setScriptExecutionDisabled", json!({"value": true}));
    browser.open(&report);
    // Asked from outside the page, where no script is needed.
    let shown = |browser: &mut Browser, selector: &str| -> Vec<Value> {
        let root = browser.call("DOM.getDocument", json!({}))["root"]["nodeId"].clone();
        let found = browser.call("DOM.querySelectorAll", json!({"nodeId": root, "selector": selector}));
        found["nodeIds"].as_array().expect("nodes").clone()
    };
    assert_eq!(shown(&mut browser, "noscript p").len(), 1);
    assert_eq!(shown(&mut browser, "#timeline.ready").len(), 0);
    assert!(!shown(&mut browser, "#fig-spectrum svg path").is_empty());
    assert_eq!(shown(&mut browser, "#fig-timeline details tr").len(), 21);
    is_quiet(&browser, &report);
}

#[test]
fn an_old_browser_is_told_and_keeps_the_rest() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x unix:send -c 300 -r 5 -w 0 --name old");
    let mut browser = Browser::start(&program);
    browser.call("Page.addScriptToEvaluateOnNewDocument", json!({"source": "delete globalThis.DecompressionStream"}));
    browser.open(&report);
    browser.until("document.querySelector('#tl-detail').textContent.includes('cannot unpack')");
    assert_eq!(browser.value(READY), false);
    is_quiet(&browser, &report);
}

#[test]
fn the_theme_button_turns_light_into_dark_and_back() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x unix:send -c 300 -r 5 -w 0 --name themes");
    let mut browser = open(&program, &report);
    browser.screen(false, 1_200);
    browser.until(READY);
    let background = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(background);
    browser.click("#theme", (0.5, 0.5));
    let dark = browser.value(background);
    assert_ne!(light, dark);
    browser.click("#theme", (0.5, 0.5));
    assert_eq!(browser.value(background), light);
    browser.screen(true, 1_200);
    assert_ne!(browser.value(background), light);
    is_quiet(&browser, &report);
}

#[test]
fn the_browser_of_the_tests_leaves_nothing_behind() {
    let Some(program) = chromium::installed() else { return };
    let browser = Browser::start(&program);
    let folder: PathBuf = browser.folder();
    assert!(folder.exists() && !processes_with(&folder).is_empty());
    drop(browser);
    assert!(within(Duration::from_secs(60), || processes_with(&folder).is_empty()), "{:?}", processes_with(&folder));
    assert!(!folder.exists());
}

/// Command lines that name a folder.
fn processes_with(folder: &Path) -> Vec<String> {
    let folder = folder.to_string_lossy();
    std::fs::read_dir("/proc")
        .expect("processes")
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(&*folder))
        .collect()
}

/// Pictures of the report of a real run, to be looked at: `cargo test --test browser -- --ignored`, into the folder that
/// `MSGPATH_PICTURES` names.
#[test]
#[ignore = "writes pictures for people"]
fn pictures() {
    let Some(program) = chromium::installed() else { return };
    let folder = PathBuf::from(std::env::var_os("MSGPATH_PICTURES").expect("MSGPATH_PICTURES=FOLDER"));
    let home = Home::new();
    let line = "echo -x tcp:send -P 4 --rate 20000 -t 6s -r 20 -w 0.2s -o stamps=both --name real";
    let report = runs::report(&home, line);
    std::fs::copy(&report, folder.join("report.html")).expect("a folder that can be written");
    for (name, dark) in [("light", false), ("dark", true)] {
        for width in [1_400, 800] {
            let mut browser = open(&program, &report);
            browser.screen(dark, width);
            browser.until(READY);
            let shoot = |browser: &mut Browser, what: &str, selector: &str| {
                settle(browser);
                browser.screenshot(selector, &folder.join(format!("{what}-{name}-{width}.png")));
            };
            shoot(&mut browser, "page", "html");
            shoot(&mut browser, "time", "#fig-timeline");
            browser.click("[data-do=next]", (0.5, 0.5));
            shoot(&mut browser, "slowest", "#fig-timeline");
            (0..5).for_each(|_| browser.click("[data-do=out]", (0.5, 0.5)));
            shoot(&mut browser, "around", "#fig-timeline");
            browser.click("[data-mode=rank]", (0.5, 0.5));
            shoot(&mut browser, "aligned", "#fig-timeline");
        }
    }
}
