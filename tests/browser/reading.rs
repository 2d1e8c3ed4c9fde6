//! Reading off, by pointer and by keys; what one figure does to the others; the page folded and unfolded.

use serde_json::json;

use super::chromium;
use super::command::Home;
use super::{READY, is_quiet, open, runs, settle, text, unfold};

#[test]
fn a_span_of_the_heat_map_is_seen_in_the_other_figures() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x tcp:send -c 4000 -r 20 -w 0 -o stamps=both --name span");
    let mut browser = open(&program, &report);
    browser.until(READY);
    let (x, y) = browser.point("#fig-heat svg", (0.3, 0.5));
    let held = json!({"button": "left", "buttons": 1, "clickCount": 1});
    browser.mouse("mousePressed", (x, y), held.clone());
    browser.mouse("mouseMoved", (x + 60.0, y), held.clone());
    browser.mouse("mouseMoved", (x + 120.0, y), held.clone());
    browser.mouse("mouseReleased", (x + 120.0, y), held);
    settle(&mut browser);
    let count = |browser: &mut super::Browser, selector: &str| {
        browser.value(&format!("document.querySelectorAll({selector:?}).length")).as_u64().expect("a number")
    };
    for selector in [
        "#fig-heat rect.brush",
        "#fig-spectrum path.span",
        "#fig-shapes path.span",
        "#fig-points rect.brush",
        "#fig-stages .span-stages",
    ] {
        assert_eq!(count(&mut browser, selector), 1, "{selector}");
    }
    let output = text(&mut browser, "#fig-spectrum .span-note");
    assert!(output.contains("messages, as exact as"), "{output}");
    assert_ne!(browser.value("document.documentElement.dataset.span"), "");
    // By keys: what was chosen goes, and another span is chosen.
    browser.value("document.querySelector('#fig-heat svg').focus()");
    browser.key("Escape");
    settle(&mut browser);
    assert_eq!(count(&mut browser, ".span, .span-note, .brush"), 0);
    is_quiet(&browser, &report);
}

#[test]
fn every_drawing_is_read_off_by_keys() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let line = "compare -x tcp:send,unix:send,pipe:write --len 64,1K -c 1000 -r 10 -w 0 -o refine=no --name keys";
    let report = runs::report(&home, line);
    let mut browser = open(&program, &report);
    browser.until(READY);
    // Whatever has a note by pointer has one by keys; no drawing keeps titles that a browser shows as well.
    assert_eq!(browser.value("document.querySelectorAll('main svg :not(svg) > title').length"), 0);
    let silent = browser.value(
        "(() => { const out = []; for (const svg of document.querySelectorAll('main svg[tabindex]')) { \
         if (!svg.getClientRects().length) continue; svg.focus(); \
         svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true})); \
         const tip = [...svg.closest('.panels').querySelectorAll('.tip')].find(tip => !tip.hidden && tip.textContent); \
         if (!tip) out.push(svg.getAttribute('aria-label')); } return out })()",
    );
    assert_eq!(silent, json!([]));
    assert!(browser.value("document.querySelectorAll('main svg[tabindex]').length").as_u64() > Some(8));
    // The cross-hair has all paths of a size.
    let output = browser.value(
        "(() => { const svg = document.querySelector('#fig-sizes svg'); svg.focus(); \
         svg.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true})); \
         return svg.closest('.panels').querySelector('.tip:not([hidden])').textContent })()",
    );
    let output = output.as_str().expect("a text");
    assert!(["tcp:send", "unix:send", "pipe:write"].iter().all(|path| output.contains(path)), "{output}");
    // A path that is clicked is bold wherever paths are drawn.
    browser.value("document.querySelector('#fig-sizes .name').dispatchEvent(new MouseEvent('click', {bubbles: true}))");
    assert_ne!(browser.value("document.documentElement.dataset.bold"), "");
    let weight = "getComputedStyle(document.querySelector('#fig-spectrum .ln.s' + document.documentElement.dataset.bold)).strokeWidth";
    assert_eq!(browser.value(weight), "3.6px");
    is_quiet(&browser, &report);
}

#[test]
fn everything_but_the_first_picture_is_folded_and_found() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    let report = runs::report(&home, "echo -x tcp:send -c 500 -r 5 -w 0 --name folded");
    let mut browser = super::Browser::start(&program);
    browser.open(&report);
    browser.until(READY);
    let open_ones = "document.querySelectorAll('details.fold[open]').length";
    assert_eq!(browser.value(open_ones), 0);
    let height = browser.value("document.querySelector('#fig-spectrum svg').getBoundingClientRect().bottom");
    assert!(height.as_f64() < Some(900.0), "the first picture is on the first screen: {height}");
    browser.value("[...document.querySelectorAll('nav a')].find(link => link.hash === '#fold-heat').click()");
    assert_eq!(browser.value("document.querySelector('#fold-heat').open"), true);
    // The slowest message: its figure opens, and the canvas has its size.
    browser.value("document.body.focus()");
    browser.key("n");
    settle(&mut browser);
    assert_eq!(browser.value("document.querySelector('#fold-timeline').open"), true);
    assert!(browser.value("document.querySelector('#tl-main').width").as_u64() > Some(300));
    browser.key("o");
    assert_eq!(browser.value("document.querySelectorAll('details.fold:not([open])').length"), 0);
    browser.key("?");
    assert_eq!(browser.value("document.querySelector('#keys').open"), true);
    is_quiet(&browser, &report);
}

#[test]
fn stages_swell_under_the_slider() {
    let Some(program) = chromium::installed() else { return };
    let home = Home::new();
    home.run("explain -x tcp:send -c 6000 -r 10 -w 0 --name anatomy");
    let folder = home.runs().join("anatomy");
    let report = folder.join("report.html");
    home.msgpath(&["report", folder.to_str().expect("a plain path")]).ends_with(0);
    if !std::fs::read_to_string(&report).expect("a report").contains("id=\"fig-anatomy\"") {
        return eprintln!("skipped: the kernel cannot be traced here");
    }
    let mut browser = open(&program, &report);
    browser.until(READY);
    let head = "document.querySelector('#fig-anatomy .stage text').textContent";
    let usual = browser.value(head);
    assert!(usual.as_str().is_some_and(|text| text.starts_with("p45")), "{usual}");
    let last = "(() => { const s = document.querySelector('#fig-anatomy input[type=range]'); s.value = s.max; \
                s.dispatchEvent(new Event('input')); return s.max })()";
    assert_ne!(browser.value(last), "0");
    assert_ne!(browser.value(head), usual);
    is_quiet(&browser, &report);
    unfold(&mut browser);
}
