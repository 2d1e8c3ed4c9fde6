//! The report against its snapshot, against hostile text, and against its own promises.

use super::*;
use crate::fixture;
use msgpath_core::Workload;
use msgpath_core::schema::{MessageRow, NEAR};
use msgpath_core::workload::{Answer, Duration};
use msgpath_record::Run;

/// The part of the page between the style sheet and the script.
fn body(html: &str) -> &str {
    html.split_once("</style>").unwrap().1.rsplit_once("<script type=\"module\">").unwrap().0
}

#[test]
fn the_report_of_an_echo() {
    let (run, summary) = fixture::echo();
    insta::assert_snapshot!("echo", body(&report(&Scene::new(&run, &summary))));
}

#[test]
fn the_report_of_a_comparison() {
    let (run, summary) = fixture::compare();
    insta::assert_snapshot!("compare", body(&report(&Scene::new(&run, &summary))));
}

#[test]
fn the_report_of_a_stream() {
    let (run, summary) = fixture::shapes();
    insta::assert_snapshot!("stream", body(&report(&Scene::new(&run, &summary))));
}

/// Its messages go one way, and are timed.
static ONE_WAY: Workload = Workload {
    name: "one way",
    duration: Duration { name: "one-way time", many: "One-way times", what: "Time is one way." },
    open_duration: None,
    answer: Answer::None,
    copies: Err("one message goes to many"),
    fans_out: true,
    ..*Workload::ECHO
};

#[test]
fn one_way_times_are_not_called_round_trips() {
    let logged: Vec<MessageRow> = (0..200)
        .map(|n| MessageRow { sequence: n, start_ns: n * 20_000, latency_ns: Some(9_000), ..MessageRow::default() })
        .collect();
    // One path, and several of them, with several sizes and thread counts.
    for (mut run, mut summary) in [fixture::echo(), fixture::compare()] {
        run.header.plan.workload = &ONE_WAY;
        // Engines of a periodic run are not compared.
        summary.comparison = None;
        let messages = Messages { logged: &logged, embed: DEFAULT_EMBED, not_kept: 0 };
        let html = report(&Scene { messages, ..Scene::new(&run, &summary) });
        let text = body(&html).to_lowercase();
        assert!(text.contains("one-way times of every case") && text.contains("one-way time, log scale"));
        assert!(!text.contains("one way is not half"));
        let wrong = text.find("round trip").map(|at| text[..at].chars().rev().take(200).collect::<String>());
        assert_eq!(wrong.map(|text| text.chars().rev().collect::<String>()), None);
    }
}

#[test]
fn an_open_loop_has_latencies_and_no_round_trips() {
    let (run, summary) = fixture::load_curve();
    let html = report(&Scene::new(&run, &summary));
    assert!(html.contains("latency from the intended send (log)"));
    let other = body(&html).to_lowercase().replace("the round trip from just before the actual", "");
    assert!(!other.contains("round trip"), "an open loop has two times, and no picture is of the other");
}

#[test]
fn the_file_needs_nobody() {
    let (run, summary) = fixture::compare();
    // A pattern within a picture is not outside.
    let html = report(&Scene::new(&run, &summary)).replace("url(#hatch)", "");
    assert!(html.contains(&format!("http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"")));
    for outside in ["http://", "https://", "src=", "href=\"h", "url(", "@import", "import(", "fetch(", "<link", "<img"]
    {
        assert!(!html.contains(outside), "{outside}");
    }
}

/// Whether every script tag behind the style sheet is one that the page writes: numbers, the log, and its own script.
fn only_own_scripts(html: &str) -> bool {
    let own = ["<script type=\"application/json\" id=\"data-", "<script type=\"text/plain\" id=\"log\">"];
    body(html).matches("<script").count() == own.iter().map(|tag| body(html).matches(tag).count()).sum::<usize>()
}

#[test]
fn hostile_names_stay_text() {
    let (run, summary) = fixture::hostile();
    let html = report(&Scene::new(&run, &summary));
    assert_eq!(html.matches("</style>").count(), 1);
    assert_eq!(html.matches("</title>").count(), html.matches("<title>").count());
    assert!(only_own_scripts(&html) && !html.contains("<img") && !html.contains(fixture::HOSTILE));
    assert!(html.matches("&lt;script&gt;alert(1)").count() > 20);
    let as_text = html.matches("&lt;img src=x onerror=").count() + html.matches("\\u003cimg src=x onerror=").count();
    assert_eq!(html.matches("onerror=").count(), as_text);
}

#[test]
fn a_comparison_of_two_runs_says_what_changed_and_what_forbids_it() {
    let ((mut a, of_a), (b, of_b)) = (fixture::echo(), fixture::slower_echo());
    let page = |a: &Run| {
        let diff = msgpath_analyse::diff::diff(a, &b, &[]);
        let earlier = Some(Earlier { run: a, summary: &of_a, diff: &diff, messages: Messages::default() });
        report(&Scene { earlier, ..Scene::new(&b, &of_b) })
    };
    let html = page(&a);
    assert!(
        html.contains("p50 is slower") && html.contains("id=\"fig-shift\"") && html.contains(", earlier</h3>"),
        "{html}"
    );
    a.header.host_mut(NEAR).kernel = fixture::HOSTILE.into();
    a.header.name = fixture::HOSTILE.into();
    let html = page(&a);
    assert!(html.contains("The runs must not be compared: kernel (near) was &lt;/style&gt;"));
    assert!(!html.contains("p50 is slower") && !html.contains("<img") && only_own_scripts(&html));
}

#[test]
fn every_figure_can_be_a_file_or_says_why_not() {
    let (run, summary) = fixture::hostile();
    let scene = Scene::new(&run, &summary);
    let mut files = 0;
    for figure in figures::FIGURES {
        match figure_file(&scene, figure) {
            Err(why) => assert!(!why.is_empty()),
            Ok(svg) => {
                files += 1;
                assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ") && svg.ends_with("</svg>\n"));
                assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
                assert!(
                    !svg.contains("var(") && !svg.contains("<script") && !svg.contains(fixture::HOSTILE),
                    "{}",
                    figure.name
                );
            }
        }
    }
    assert!(files >= 5, "{files}");
    let names: std::collections::BTreeSet<&str> = figures::FIGURES.iter().map(|figure| figure.name).collect();
    assert_eq!(names.len(), figures::FIGURES.len());
}

#[test]
fn every_tag_that_opens_closes() {
    for (run, summary) in [
        fixture::echo(),
        fixture::echo_sizes(),
        fixture::gated(),
        fixture::compare(),
        fixture::shapes(),
        fixture::hostile(),
    ] {
        let html = report(&Scene::new(&run, &summary));
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
    let html = report(&Scene::new(&run, &summary));
    let html = body(&html);
    let pictures = html.matches("<svg").count();
    assert!(pictures >= 8, "{pictures}");
    assert_eq!(html.matches("role=\"img\" aria-label=\"").count(), pictures);
    assert_eq!(html.matches("<summary>Numbers</summary>").count(), html.matches("<p class=\"q\">").count());
    assert!(html.contains("<title>tcp:zerocopy p50: "));
}

#[test]
fn gates_stand_after_the_sentences() {
    let (run, mut summary) = fixture::gated();
    summary.gates[0].cases[0].name = fixture::HOSTILE.into();
    let html = report(&Scene::new(&run, &summary));
    let (gates, figure) = (html.find("<h2>Gates</h2>").unwrap(), html.find("<figure").unwrap());
    assert!(gates < figure && html.contains("failed (sure)") && html.contains("p99 &gt; 1ms"), "{html}");
    assert!(!html.contains(fixture::HOSTILE));
    let (run, summary) = fixture::echo_sizes();
    assert!(!report(&Scene::new(&run, &summary)).contains("<h2>Gates</h2>"));
}

#[test]
fn a_run_without_rounds_still_has_a_report() {
    let (mut run, mut summary) = fixture::echo();
    run.rounds.clear();
    summary.cases.clear();
    assert!(!body(&report(&Scene::new(&run, &summary))).contains("<svg"));
}

#[test]
fn the_first_screen_is_a_sentence_a_picture_and_chips() {
    let (run, summary) = fixture::compare();
    let html = report(&Scene::new(&run, &summary));
    let page = body(&html);
    let at = |what: &str| page.find(what).unwrap_or_else(|| panic!("{what}"));
    let order = [at("<nav"), at("<h1"), at("<figure id=\"fig-sizes\""), at("class=\"chips\""), at("class=\"fold\"")];
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(page.matches("<h1").count(), 1);
    // Everything but the first picture is folded, and the contents lead there.
    assert!(!page.contains("<details class=\"fold\" open") && !page.contains(" open>"));
    for (_, link) in page
        .match_indices("<a href=\"#")
        .map(|(at, _)| page[at + 10..].split_once('"').unwrap())
        .map(|(id, _)| ((), id))
    {
        assert!(page.contains(&format!("id=\"{link}\"")), "{link}");
    }
    let kinds = crate::terminal::warning_kinds(&summary.warnings).len();
    assert_eq!(page.matches("<details class=\"chip\">").count(), kinds);
}

#[test]
fn a_verb_begins_with_the_picture_of_its_own_question() {
    let first = |(run, summary): (Run, msgpath_analyse::Summary)| {
        let html = report(&Scene::new(&run, &summary));
        let from = html.find("<figure id=\"fig-").unwrap() + 16;
        html[from..].split('"').next().unwrap().to_owned()
    };
    for (fixture, name) in [
        (fixture::echo(), "spectrum"),
        (fixture::echo_sizes(), "sizes"),
        (fixture::compare(), "sizes"),
        (fixture::load_curve(), "load"),
        (fixture::shapes(), "bars"),
        (fixture::stream_sizes(), "sizes"),
    ] {
        assert_eq!(first(fixture), name);
    }
}

#[test]
fn layers_stand_on_the_page() {
    let (mut run, mut summary) = fixture::compare();
    assert!(!report(&Scene::new(&run, &summary)).contains("What each layer adds"));
    run.header.plan.layers = true;
    let [beneath, above] = fixture::layers(&summary.cases);
    summary.layers = vec![above, beneath];
    let page = report(&Scene::new(&run, &summary));
    let table = page.split("What each layer adds").last().unwrap();
    for text in ["3.10 µs", "2.90 to 3.30 µs", "1.14"] {
        assert!(table.contains(text), "{text}");
    }
}
