//! `msgpath stream`, as a user starts it.

use crate::printed::Value;

use crate::command::Home;

/// The cases of a stream that must work; checked: what was sent arrived, and the receiver's clock ran.
#[track_caller]
fn cases(options: &str) -> Vec<Value> {
    let value = Home::new().run(&format!("stream -w 0 --json {options}")).ends_with(0).json();
    let cases = value["cases"].as_array().unwrap().clone();
    for case in &cases {
        let delivery = &case["delivery"];
        assert_eq!(delivery["sent"], delivery["received"], "{options}: {case}");
        assert_eq!(delivery["lost"], 0, "{options}: {case}");
        assert!(
            case["throughput"]["receiver_bits_per_s"]["value"].as_f64().is_some_and(|bits| bits > 0.0),
            "{options}: {case}"
        );
    }
    cases
}

#[track_caller]
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("not a number: {value}"))
}

#[test]
fn everything_that_is_sent_arrives() {
    let paths = "tcp:send,unix:send,unixseq:send,pipe:write,fifo:write,shm:ring/futex,tcp:uring,tcp:zerocopy";
    let cases = cases(&format!("-l 4K -c 200 -r 2 -x {paths}"));
    assert_eq!(cases.len(), paths.split(',').count());
    for case in &cases {
        assert_eq!(case["messages"], 200, "{case}");
        assert_eq!(case["delivery"]["verified"], 200, "messages of 4 KiB are compared whole: {case}");
    }
}

#[test]
fn the_far_end_can_send() {
    for options in ["-R", "-R -P 4 -T 2"] {
        let cases = cases(&format!("{options} -l 4K -c 200 -r 2"));
        let calls = |end: usize, call: &str| number(&cases[0]["ends"][end]["calls"][call]);
        assert!(calls(1, "send_calls") >= 200, "{options}: {}", cases[0]["ends"][1]["calls"]);
        assert!(calls(0, "recv_full") >= 200, "{options}: {}", cases[0]["ends"][0]["calls"]);
        // The near end sends nothing but the acknowledgement.
        assert!(calls(0, "send_calls") <= 8, "{options}: {}", cases[0]["ends"][0]["calls"]);
    }
}

#[test]
fn write_shapes_count_reads_and_segments_beside_a_reference() {
    let home = Home::new();
    let line = "stream --pieces 100x15 -c 200 -x tcp:writes,tcp:writev,tcp:send -w 0";
    let text = home.run(line).ends_with(0).out;
    for part in ["#reads", "full", "short", "empty", "segments", "reference", "100x15", "tcp:writes", "Gbit/s"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let value = home.run("show --json").ends_with(0).json();
    let cases = value["cases"].as_array().unwrap();
    let measured: Vec<_> = cases.iter().filter(|case| case["case"]["role"] == "measured").collect();
    assert_eq!(measured.len(), 3);
    for (case, sends) in measured.iter().zip([20_000, 200, 200]) {
        let calls = &case["ends"][1]["calls"];
        assert_eq!(number(&case["ends"][0]["calls"]["send_calls"]), sends, "{case}");
        assert_eq!(number(&calls["recv_full"]), 200, "a message has one read that completes it: {calls}");
        let all = number(&calls["recv_full"]) + number(&calls["recv_short"]) + number(&calls["recv_empty"]);
        assert_eq!(number(&calls["recv_calls"]), all, "{calls}");
        assert!(number(&case["ends"][0]["tcp"]["data_segs_out"]) > 0, "{}", case["ends"][0]["tcp"]);
    }
    let reference: Vec<_> = cases.iter().filter(|case| case["case"]["role"] == "reference").collect();
    assert_eq!(reference.len(), 1);
    assert_eq!(reference[0]["case"]["size_bytes"], 128 << 10);
}

#[test]
fn a_receive_call_may_ask_for_more_than_a_message() {
    let paths = "tcp:send,unix:send/epoll,pipe:write/spin,tcp:uring/uring,unixseq:send";
    for options in ["", "-P 4 -T 2", "-R"] {
        let cases = cases(&format!("-l 100 -c 20000 -r 2 -o read-size=128K -x {paths} {options}"));
        for case in &cases {
            let calls = case["ends"][if options == "-R" { 0 } else { 1 }]["calls"].clone();
            let (full, messages) = (number(&calls["recv_full"]), number(&case["messages"]));
            let framed = case["case"]["path"].as_str().is_some_and(|path| path.starts_with("unixseq"));
            // A call may complete several messages, but where boundaries are preserved.
            assert!(full > 0 && if framed { full == messages } else { full <= messages }, "{options}: {case}");
            assert_eq!(case["delivery"]["verified"], case["messages"], "{options}: {case}");
        }
    }
    let home = Home::new();
    for line in ["stream -o read-size=17M", "echo -o read-size=0"] {
        assert!(home.run(line).ends_with(2).err.contains("16 MiB"));
    }
    assert!(
        home.run("stream --pieces 100x15 -c 100 -r 2 -w 0 -o read-size=64K")
            .ends_with(0)
            .out
            .contains("receive calls of up to 64 KiB")
    );
}

#[test]
fn nagle_and_cork_are_write_shapes_too() {
    for options in ["-o nodelay=no", "-o cork=yes"] {
        let cases = cases(&format!("--pieces 100x15 -c 100 -r 1 -x tcp:writes {options}"));
        let case = cases.iter().find(|case| case["case"]["role"] == "measured").unwrap();
        let segments = number(&case["ends"][0]["tcp"]["data_segs_out"]);
        assert!(segments > 0 && segments <= 10_000, "{options}: {segments} segments for 10 000 writes");
    }
}

#[test]
fn binary_units_are_beside_the_others_and_named() {
    let home = Home::new();
    let text = home.run("stream -l 16K -c 200 -r 1 -w 0 --units binary").ends_with(0).out;
    assert!(text.contains("bit/s") && text.contains("ibit/s"), "{text}");
    let text = home.run("show").ends_with(0).out;
    assert!(!text.contains("ibit/s"), "only when asked for:\n{text}");
}

#[test]
fn a_stream_of_datagrams_ends_whatever_is_lost() {
    for options in ["", "-R", "-P 2"] {
        let line = format!("stream -x udp:send -l 1400 -c 1000 -r 1 -w 0 -o rcvbuf=4K --json {options}");
        let value = Home::new().run(&line).ends_with(0).json();
        let delivery = &value["cases"][0]["delivery"];
        let count = |name: &str| number(&delivery[name]);
        assert_eq!(count("sent"), 1000, "{options}: {delivery}");
        assert_eq!(count("sent"), count("received") + count("lost"), "{options}: {delivery}");
        assert!(count("received") > 0, "{options}: {delivery}");
    }
}
