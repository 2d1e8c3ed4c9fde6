//! `msgpath report` and `msgpath export --figure`, as a user starts them.

use crate::command::Home;

#[test]
fn the_report_of_a_run_has_its_pictures_and_its_messages() {
    let home = Home::new();
    home.run("echo -x unix:send -c 2000 -r 6 -w 0 -o stamps=both --name one -q").ends_with(0);
    let text = home.run("report").ends_with(0).out;
    let file = home.runs().join("one/report.html");
    assert_eq!(text, format!("report   {}\n", file.display()));
    let page = std::fs::read_to_string(&file).unwrap();
    for figure in ["spectrum", "stages", "heat", "conditions", "timeline"] {
        assert!(page.contains(&format!("<figure id=\"fig-{figure}\"")), "{figure}");
    }
    assert!(page.contains("request: send to arrival") && page.contains("id=\"log\">"), "no messages");
    home.run("report one --embed 0 -o small.html").ends_with(0);
    let small = std::fs::read_to_string(home.path().join("small.html")).unwrap();
    assert!(small.len() < page.len() && !small.contains("id=\"log\">"));
}

#[test]
fn two_runs_are_compared_and_three_are_refused() {
    let home = Home::new();
    for name in ["a", "b"] {
        home.run(&format!("echo -x unix:send -c 500 -r 6 -w 0 --name {name} -q")).ends_with(0);
    }
    let text = home.run("report a b").ends_with(0).out;
    assert!(text.trim_end().ends_with("b/report-against-a.html"), "{text}");
    let page = std::fs::read_to_string(home.runs().join("b/report-against-a.html")).unwrap();
    assert!(page.contains("<h1>a → b: ") && page.contains("<figure id=\"fig-shift\""));
    let refused = home.run("report a b a").ends_with(2);
    assert!(refused.err.contains("msgpath report a a"), "{}", refused.err);
    let missing = home.run("report nosuch").ends_with(2);
    assert!(missing.err.contains("error[E08]"), "{}", missing.err);
}

#[test]
fn figures_are_saved_as_files() {
    let home = Home::new();
    home.run("compare -x tcp:send,unix:send -l 64,1K -r 5 -c 300 -w 0 --name c -q").ends_with(0);
    let text = home.run("report c --svg pictures").ends_with(0).out;
    assert!(text.contains("figures  pictures: ") && text.contains("crossover"), "{text}");
    let svg = std::fs::read_to_string(home.path().join("pictures/crossover.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.contains("unix:send"));
    assert_eq!(home.run("export c --figure crossover").ends_with(0).out, svg);
    home.run("export c --figure crossover -o x.svg").ends_with(0);
    assert_eq!(std::fs::read_to_string(home.path().join("x.svg")).unwrap(), svg);
    let unknown = home.run("export c --figure crosover").ends_with(2);
    assert!(unknown.err.contains("--figure crossover") && unknown.err.contains("spectrum, "), "{}", unknown.err);
    let absent = home.run("export c --figure load").ends_with(3);
    assert!(absent.err.contains("the run has no figure load"), "{}", absent.err);
}
