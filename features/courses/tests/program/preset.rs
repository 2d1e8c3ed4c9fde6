//! `msgpath preset`: files of one's own, mistakes with their place, what -o writes, runs that cannot be made.

use std::fs;

use crate::command::{Home, free_port, harmless};
use crate::own_preset::{TWO, own};

#[test]
fn a_preset_of_somebody_else_moves_no_cursor() {
    let home = Home::new();
    let evil = r"\u001b[2J\u009b31m\u202e";
    let hostile = TWO
        .replace("two runs\"", &format!("two runs{evil}\""))
        .replace("A test.\"", &format!("A{evil} test.\\nIts second line.\""))
        .replace("verb = \"echo\"", &format!("verb = \"echo\"\nabout = \"of{evil} its own\""));
    let file = own(&home, &hostile);
    let shown = home.run(&format!("preset show {file}")).ends_with(0);
    let shown = shown.shows(&["own: two runs\\u{1b}[2J", "A\\u{1b}[2J", "\nIts second line.\n"]);
    let ran = home.run(&format!("preset {file} -o out")).ends_with(0).says(&["run 1 of 2: first, of\\u{1b}[2J"]);
    for output in [shown, ran] {
        assert!(harmless(&output.out) && harmless(&output.err), "{:?}\n{:?}", output.out, output.err);
    }
    // An option that cannot be is quoted in the error.
    let file = own(&home, &TWO.replacen("warmup = \"0\"", &format!("warmup = \"{evil}\""), 1));
    let refused = home.run(&format!("preset show {file}")).ends_with(2).says(&["error[E42]"]);
    assert!(harmless(&refused.err), "{:?}", refused.err);
    let file = own(&home, &TWO.replacen("set = \"what-ifs=no\"", &format!("name = \"a{evil}\""), 1));
    let refused = home.run(&format!("preset show {file}"));
    assert!(harmless(&refused.out) && harmless(&refused.err), "{:?}\n{:?}", refused.out, refused.err);
}

#[test]
fn a_file_of_ones_own_is_carried_out_and_written() {
    let home = Home::new();
    let file = own(&home, TWO);
    let out = home.path().join("out");
    let output = home.run(&format!("preset {file} -v -o {}", out.display())).ends_with(0);
    output.says(&["2 runs", "run 1 of 2: first", "run 2 of 2: second"]).shows(&["own: two runs", "pipe there"]);
    for name in
        ["answers.html", "answers.txt", "answers.json", "published.csv", "first/report.html", "second/rounds.csv"]
    {
        assert!(out.join(name).metadata().is_ok_and(|facts| facts.len() > 100), "{name}");
    }
    let json: crate::printed::Value = serde_json::from_slice(&fs::read(out.join("answers.json")).unwrap()).unwrap();
    let rows = json["tables"][0]["rows"].as_array().unwrap();
    assert!(rows[0][2]["value"].as_f64().unwrap() > 0.0, "{rows:?}");
    assert_eq!(rows[1][2]["kind"], "missing", "tcp was not measured: {rows:?}");
    assert_eq!(json["answers"][0]["text"].as_str().unwrap().split(' ').take(3).collect::<Vec<_>>(), ["1", "of", "2"]);
    let html = fs::read_to_string(out.join("answers.html")).unwrap();
    assert!(html.contains("another machine") && html.contains("not measured here") && !html.contains("http://"));
}

#[test]
fn options_that_were_typed_go_to_every_run() {
    let home = Home::new();
    let file = own(&home, TWO);
    let json = home.run(&format!("preset {file} --json -- --count 100")).ends_with(0).json();
    assert_eq!(json["findings"].as_array().unwrap().len(), 2);
    home.run(&format!("preset {file} -- --name x")).ends_with(2).says(&["names of their own"]);
    home.run(&format!("preset {file} -- --proceses 3")).ends_with(2).says(&["--proceses"]);
}

#[test]
fn what_is_planned_for_longer_than_the_budget_is_not_started() {
    let home = Home::new();
    let file = own(&home, &TWO.replace("count = 400\nrounds", "time = \"60s\"\nrounds"));
    home.run(&format!("preset {file} --budget 5s")).ends_with(2).says(&["2 runs", "more than the budget of 5 s"]);
}

#[test]
fn a_mistake_is_named_with_its_place() {
    let home = Home::new();
    let place = |text: &str| own(&home, text);
    home.run(&format!("preset {}", place(&TWO.replace("len = 64", "lenn = 64"))))
        .ends_with(2)
        .says(&["own.toml:22:1", "--lenn"]);
    home.run(&format!("preset {}", place("summary = 3"))).ends_with(2).says(&["own.toml:1:11"]);
    home.run(&format!("preset {}", place(&TWO.replace("\"echo\"", "\"serve\"")))).ends_with(2).says(&["own.toml:8:8"]);
    home.run("preset nowhere.toml").ends_with(2).says(&["cannot be read"]);
    home.run("preset copy-lader").ends_with(2).says(&["copy-ladder"]);
    home.run("preset --repro nagel").ends_with(2).says(&["nagle"]);
}

#[test]
fn a_run_that_cannot_be_made_does_not_keep_the_others() {
    let home = Home::new();
    // A far end that nobody has started.
    let words = format!("verb = \"echo\"\nwords = [\"127.0.0.1:{}\"]", free_port());
    let of_tcp = TWO.replace("unix:send,pipe:write", "tcp:send");
    let text = of_tcp.replace("verb = \"compare\"", &words);
    let file = own(&home, &text);
    let output = home.run(&format!("preset {file}")).ends_with(3);
    output.shows(&["own: two runs", "not measured", "second"]).says(&["error[E01]"]);
    let none = own(&home, &text.replace("verb = \"echo\"\n\n", &format!("{words}\n\n")));
    home.run(&format!("preset {none}")).ends_with(3).says(&["no run of own could be made"]);
}
