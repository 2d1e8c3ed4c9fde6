//! `--beside` and `--under-load`: each of several workloads is switched off in turn, and what it does to the others is known.

use crate::printed::Value;

use crate::command::Home;

/// Bits a second of the link: its queue is long beside what a busy machine adds.
const RATE: f64 = 4e6;
/// A queue of 100 packets of 1514 bytes there, ns: where TCP hands over several packets as one, more of them have room.
const FULL_NS: f64 = 100.0 * 1514.0 * 8.0 / RATE * 1e9;

fn effect<'a>(run: &'a Value, on: &str, by: &str) -> &'a Value {
    let effects = run["mix"]["mains"][0]["effects"].as_array().unwrap();
    effects.iter().find(|effect| effect["on"] == on && effect["by"] == by).expect("an effect")
}

#[test]
fn a_stream_beside_an_echo_adds_its_queue_and_takes_it_away_again() {
    let home = Home::new();
    let link =
        "--between lab --link rate=4M,queue=100,offloads=off -r 5 -t 16s -w 100ms --progress none --json --name mix";
    let mut words: Vec<&str> = vec!["echo", "-l", "64", "--beside", "stream -l 16K -P 2"];
    words.extend(link.split(' '));
    let output = home.msgpath(&words);
    if output.code == Some(3) {
        return eprintln!("skipped: no lab with a rate here: {}", output.err);
    }
    let run = output.ends_with(0).json();
    let value = |effect: &Value, side: &str| effect[side]["value"].as_f64().unwrap();
    let echo = effect(&run, "echo", "stream");
    let added = value(echo, "with") - value(echo, "without");
    println!("{added} ns are added, a queue of single packets holds {FULL_NS} ns");
    assert!(added > 0.1 * FULL_NS, "{echo}");
    assert_eq!((&echo["confidence"], &echo["of_run"]), (&"sure".into(), &true.into()), "{echo}");
    // Off again, the queue is empty again.
    assert!(value(echo, "without") < added / 10.0, "{echo}");
    let stream = effect(&run, "stream", "echo");
    let bits = value(stream, "without");
    // What is acknowledged comes in lumps of up to 64 KiB.
    assert!((0.6 * RATE..1.2 * RATE).contains(&bits), "payload of a link of {RATE} bit/s: {stream}");
    let off = &run["mix"]["besides"][0]["off"];
    assert!(off["rounds"] == 5 && (off["bits"]["value"].as_f64().unwrap() / bits - 1.0).abs() < 1e-9, "{off}");
    let shown = home.run("show mix").ends_with(0).out;
    let head: Vec<&str> = shown.lines().take(8).flat_map(str::split_whitespace).collect();
    assert!(head.join(" ").contains("beside stream (") && head.join(" ").contains("times slower"), "{shown}");
    home.run("verify mix").ends_with(0);
    home.run("report mix -o mix.html").ends_with(0);
    assert!(std::fs::read_to_string(home.path().join("mix.html")).unwrap().contains("fig-mix"));
    home.run("diff mix mix").ends_with(0);
}

#[test]
fn messages_by_a_clock_are_switched_off_as_others_are() {
    let home = Home::new();
    let mut words = vec!["echo", "-l", "64", "--beside", "periodic -n 3 --period 5ms", "--beside", "stream -l 16K"];
    words.extend("-r 5 -t 6s -w 50ms --progress none --json --name clock".split(' '));
    let run = home.msgpath(&words).ends_with(0).json();
    for (on, by, metric) in [
        ("echo", "periodic", "p50"),
        ("echo", "stream", "p50"),
        ("periodic", "echo", "one_way_p50"),
        ("periodic", "stream", "one_way_p50"),
        ("stream", "periodic", "throughput"),
    ] {
        let effect = effect(&run, on, by);
        // A pass in which nothing of one of them came is left out, as the machine wants it.
        let passes = effect["passes"].as_u64().unwrap();
        assert!((1..=5).contains(&passes) && effect["metric"] == metric, "{effect}");
        assert!(effect["ratio"]["value"].as_f64().is_some_and(|ratio| ratio > 0.0), "{effect}");
    }
    let other = &run["mix"]["besides"][0];
    assert!(other["text"] == "periodic -n 3 --period 5ms" && other["off"]["rounds"] == 5, "{other}");
    // In the record it stands with all that it takes to begin again.
    let shown = home.run("show clock").ends_with(0).out;
    assert!(shown.contains("periodic one-way p50") && shown.contains("echo p50"), "{shown}");
    home.run("verify clock").ends_with(0);
}

/// Datagrams to a group cross the link behind the stream, whose queue is known.
#[test]
fn datagrams_by_a_clock_wait_in_the_queue_of_a_stream() {
    let home = Home::new();
    let link =
        "--between lab --link rate=8M,queue=100,offloads=off -r 5 -t 12s -w 100ms --progress none --json --no-save";
    let group = "periodic udp://239.1.1.1 --receivers 2 --period 20ms";
    let mut words = vec!["echo", "-l", "64", "--beside", "stream -l 16K", "--beside", group];
    words.extend(link.split(' '));
    let output = home.msgpath(&words);
    if output.code == Some(3) {
        return eprintln!("skipped: no lab with a rate here: {}", output.err);
    }
    let run = output.ends_with(0).json();
    let clock = effect(&run, "periodic", "stream");
    let [without, with] = ["without", "with"].map(|side| clock[side]["value"].as_f64().unwrap());
    let full_ns = FULL_NS * RATE / 8e6;
    println!("they wait {} ms more, a full queue holds {} ms", (with - without) / 1e6, full_ns / 1e6);
    assert!(clock["confidence"] == "sure" && clock["metric"] == "one_way_p50", "{clock}");
    assert!((0.1..2.0).contains(&((with - without) / full_ns)), "{clock}");
}

#[test]
fn what_is_of_the_verb_of_the_run_is_told_from_it() {
    let home = Home::new();
    let words = ["echo", "-l", "64", "--beside", "echo -x unix -l 64", "--beside", "stream -l 16K"];
    let short = "-r 5 -t 2s -w 50ms --progress none --json --no-save".split(' ');
    let run = home.msgpath(&words.into_iter().chain(short).collect::<Vec<_>>()).ends_with(0).json();
    assert!(effect(&run, "echo", "echo 2")["of_run"] == true && effect(&run, "echo 2", "echo")["of_run"] == false);
}

#[test]
fn each_of_several_is_switched_off() {
    let home = Home::new();
    let mut words = vec!["stream", "-l", "16K", "--beside", "echo -l 64 --rate 500", "--beside", "echo -x unix -l 64"];
    words.extend("-r 5 -t 5s -w 50ms --progress none --json --no-save".split(' '));
    let run = home.msgpath(&words).ends_with(0).json();
    let labels: Vec<&str> =
        run["cases"].as_array().unwrap().iter().map(|case| case["case"]["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["alone", "beside", "without 1", "without 2"]);
    for (on, by) in
        [("stream", "echo 1"), ("stream", "echo 2"), ("echo 1", "stream"), ("echo 1", "echo 2"), ("echo 2", "stream")]
    {
        let effect = effect(&run, on, by);
        assert!(effect["passes"] == 5 && effect["ratio"]["low"].is_number(), "{effect}");
    }
    let off = &run["mix"]["besides"][0]["off"];
    assert!(
        off["rounds"] == 5 && off["lost"] == 0 && off["p99_ns"]["value"].as_f64() > off["p50_ns"]["value"].as_f64(),
        "{off}"
    );
}

#[test]
fn paths_are_compared_under_load() {
    let home = Home::new();
    let words =
        "compare -x tcp:send,unix:send -l 64 --under-load=stream -r 5 -t 4s -w 50ms --progress none --no-save --json";
    let run = home.run(words).ends_with(0).json();
    let mains = run["mix"]["mains"].as_array().unwrap();
    let names: Vec<&str> = mains.iter().map(|main| main["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["tcp:send", "unix:send"]);
    let least =
        run["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "W168").expect("the answer");
    assert!(least["text"].as_str().unwrap().contains("suffers least under the load"), "{least}");
}

#[test]
fn what_has_no_meaning_beside_is_refused_by_name() {
    let home = Home::new();
    for (text, said) in [
        ("rpc -t 3s", "`rpc` is not what can go on here"),
        ("periodic -c 10", "--count has no meaning here"),
        ("periodic -x shm,udp", "one path, one size and one rate"),
        ("periodic -n 60 --period 100us", "more than a process keeps"),
        ("", "`` is not what can go on here"),
        ("echo -t 3s", "--time has no meaning here"),
        ("stream --launch ssh", "--launch has no meaning here"),
        ("echo --inflight 4", "--inflight has no meaning here"),
        ("echo n2", "TARGET has no meaning here"),
        ("echo --beside echo", "--beside has no meaning here"),
        ("echo 'x", "quotation"),
        ("echo -l 64,1K", "one path, one size and one rate"),
        ("echo --rate 50%", "one path, one size and one rate"),
        ("stream -x udp:send", "a stream over udp is not counted"),
        ("echo --nothing", "--nothing"),
        ("echo -h", "an option that prints a text"),
    ] {
        home.msgpath(&["echo", "--beside", text]).ends_with(2).says(&[said]);
    }
    for words in ["-c 100", "--stages light", "--each -c 5", "-t 60s -r 10"] {
        let words: Vec<&str> = ["echo", "--beside", "stream"].into_iter().chain(words.split(' ')).collect();
        home.msgpath(&words).ends_with(2);
    }
    let many: Vec<&str> = std::iter::once("echo").chain(["--beside", "stream"].repeat(5)).collect();
    home.msgpath(&many).ends_with(2).says(&["5 go on beside, 4 may"]);
}
