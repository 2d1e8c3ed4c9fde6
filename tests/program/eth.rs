//! Raw Ethernet, as a user starts it.

use crate::command::Home;

/// Whether packet sockets can be opened here; says so where not.
pub(crate) fn there() -> bool {
    let known = Home::new().run("paths --json").ends_with(0).json();
    let entry = known["paths"].as_array().unwrap().iter().find(|entry| entry["path"] == "eth:send").unwrap().clone();
    if entry["available"] == false {
        eprintln!("skipped: eth: {}", entry["why"]);
    }
    entry["available"] != false
}

#[test]
fn messages_go_there_and_back_in_frames() {
    if !there() {
        return;
    }
    let run = |options: &str| Home::new().run(&format!("echo -w 0 -o what-ifs=no --no-save --json {options}"));
    for path in ["eth:send", "eth:sendmsg/poll", "eth:sendmmsg/epoll", "eth:send/sigio", "eth:send/spin"] {
        let output = run(&format!("-x {path} -l 1 -c 200 -r 2")).ends_with(0).json();
        let delivery = &output["cases"][0]["delivery"];
        // What comes later than the loss timeout, beside other work, is counted as lost and as late.
        assert_eq!((delivery["sent"].as_u64(), &delivery["lost"]), (Some(200), &delivery["late"]), "{path}");
    }
    // Several connections and pieces share an EtherType; a message may be as large as the device takes.
    run("-x eth --pieces 15x100 -P 2 -c 100 -r 2").ends_with(0);
    run("-x eth -l 65000 -c 20 -r 2 -o ethertype=0x88b6").ends_with(0);
    run("-x eth --rate 1k -t 200ms -r 4 -o mac=broadcast").ends_with(0);
}

#[test]
fn the_time_of_a_frame_is_split_into_stages() {
    if !there() {
        return;
    }
    for path in ["eth:send", "eth-ring:send"] {
        let output =
            Home::new().run(&format!("explain -x {path} -t 1s -r 5 -w 0 --no-save --json")).ends_with(0).json();
        let stages = &output["attribution"][0];
        if stages["known_by"].is_null() {
            return eprintln!("skipped: {path}: {}", stages["not_shown_because"]);
        }
        // Beside other work a message may lack a stage, but not because nobody knows its socket.
        let unseen = "its socket was not seen to become readable";
        assert!(stages["not_attributed"].get(unseen).is_none(), "{path}: {stages}");
        assert!(stages["complete"].as_u64() > Some(0), "{path}: {stages}");
    }
}

#[test]
fn what_cannot_be_had_is_said_with_its_cure() {
    let home = Home::new();
    let refused = |options: &str, parts: &[&str]| {
        let output = home.run(&format!("echo -w 0 --no-save -x eth {options}")).ends_with(3);
        assert!(parts.iter().all(|part| output.err.contains(part)), "{options}: {}", output.err);
    };
    refused("-o device=nosuch0", &["no interface nosuch0", "ip link"]);
    refused("-o ethertype=0x0800", &["IPv4", "0x88b5"]);
    refused("-o ethertype=0x86dd", &["IPv6"]);
    refused("-o ethertype=0x05dc", &["length of the frame"]);
    home.run("echo -x eth -o ethertype=wide").ends_with(2);
    home.run("echo -x eth -o mac=1:2").ends_with(2);
    let large = home.run("echo -w 0 --no-save -x eth -l 1M");
    assert!(large.err.contains("largest"), "{}", large.err);
    let unknown = home.run("echo -x eth:writev").ends_with(2);
    assert!(unknown.err.contains("is not made for eth"), "{}", unknown.err);
}
