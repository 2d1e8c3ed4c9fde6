//! The report against its snapshot, against hostile text, and against its own promises.

use super::*;
use crate::fixture;

/// The part of the page after the style sheet.
fn body(html: &str) -> &str {
    html.split_once("</style>").unwrap().1
}

#[test]
fn the_report_of_an_echo() {
    let (run, summary) = fixture::echo();
    insta::assert_snapshot!("echo", body(&report(&run, &summary)));
}

#[test]
fn the_report_of_a_comparison() {
    let (run, summary) = fixture::compare();
    insta::assert_snapshot!("compare", body(&report(&run, &summary)));
}

#[test]
fn the_report_of_a_stream() {
    let (run, summary) = fixture::shapes();
    insta::assert_snapshot!("stream", body(&report(&run, &summary)));
}

#[test]
fn the_file_needs_nobody() {
    let (run, summary) = fixture::compare();
    let html = report(&run, &summary);
    assert!(html.contains(&format!("http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"")));
    for outside in ["http://", "https://", "src=", "href=", "url(", "@import", "<script", "<link", "<img"] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let (run, summary) = fixture::hostile();
    let html = report(&run, &summary);
    assert_eq!(html.matches("</style>").count(), 1);
    assert_eq!(html.matches("</title>").count(), html.matches("<title>").count());
    assert!(!html.contains("<script") && !html.contains("<img") && !html.contains(fixture::HOSTILE));
    assert!(html.matches("&lt;script&gt;alert(1)").count() > 20);
    assert_eq!(html.matches("onerror").count(), html.matches("&lt;img src=x onerror").count());
}

#[test]
fn every_tag_that_opens_closes() {
    for (run, summary) in
        [fixture::echo(), fixture::echo_sizes(), fixture::compare(), fixture::shapes(), fixture::hostile()]
    {
        let html = report(&run, &summary);
        for tag in [
            "main", "figure", "details", "table", "tr", "td", "th", "svg", "text", "ul", "li", "div", "span", "p",
            "h1", "h2", "h3",
        ] {
            let opened = html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
        assert!(!html.contains("NaN") && !html.contains("\"inf"));
    }
}

#[test]
fn every_picture_says_what_it_shows() {
    let (run, summary) = fixture::compare();
    let html = report(&run, &summary);
    assert_eq!(html.matches("<svg").count(), 4);
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), 4);
    assert_eq!(html.matches("Numbers behind figure").count(), html.matches("<figure>").count());
    assert!(html.contains("<title>tcp:zerocopy p50: "));
}

#[test]
fn a_run_without_rounds_still_has_a_report() {
    let (mut run, mut summary) = fixture::echo();
    run.rounds.clear();
    summary.cases.clear();
    assert!(!report(&run, &summary).contains("<svg"));
}
