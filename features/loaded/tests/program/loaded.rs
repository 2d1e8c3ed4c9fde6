//! `msgpath loaded`: the time that a load adds is that of the queue it fills, and where there is no link it says so.

use crate::printed::Value;

use crate::command::Home;

/// Wire bytes of a packet of the load: 1400 of payload behind UDP, IPv4 and Ethernet.
const FRAME: f64 = 1400.0 + 8.0 + 20.0 + 14.0;
/// Packets that the queue of the link holds, and its bits a second: the queue is long beside what a busy machine adds.
const PACKETS: f64 = 100.0;
const RATE: f64 = 10e6;
/// Payload bits a second of a load that fills it.
const MORE: &str = "10500k";
const SHORT: &str = "-r 5 -t 6s -w 100ms --progress none";

/// A run on a link of that rate and queue; `None`: no lab here.
fn on_link(home: &Home, words: &str) -> Option<Value> {
    let link = "--between lab --link rate=10M,queue=100,offloads=off";
    let output = home.run(&format!("loaded {link} {words} {SHORT} --json"));
    if output.code == Some(3) {
        eprintln!("skipped: no lab with a rate here: {}", output.err);
        return None;
    }
    Some(output.ends_with(0).json())
}

fn directions(run: &Value) -> &[Value] {
    run["loaded"]["directions"].as_array().unwrap()
}

fn text_of(run: &Value) -> String {
    let findings = run["findings"].as_array().unwrap();
    let own = findings.iter().find(|finding| finding["code"] == "W165").expect("the answer");
    own["text"].as_str().unwrap().to_owned()
}

/// The parts of what is added sum to it, and none is below 0; or it is said that they cannot be told apart.
fn has_parts(direction: &Value) {
    let Some(shares) = direction["shares"].as_array() else {
        assert!(
            direction["excess_ns"]["low"].as_f64().unwrap() > 0.0 && direction["beyond_ns"].is_null(),
            "{direction}"
        );
        return;
    };
    let each: Vec<f64> = shares.iter().map(|share| share["share"].as_f64().unwrap()).collect();
    assert!((each.iter().sum::<f64>() - 1.0).abs() < 1e-6 && each.iter().all(|share| *share >= 0.0), "{direction}");
    assert!(direction["beyond_ns"]["value"].as_f64().unwrap() >= 0.0, "{direction}");
}

/// A little more than passes keeps the queue full. Messages that are dropped go again after 200 ms or more: they may be most of one round,
/// but not of all messages. Where the machine is so busy that its senders leave the queue short, what was read says so, and what is added
/// is compared with that.
#[test]
fn a_full_queue_adds_its_length_by_its_rate_in_each_direction() {
    let home = Home::new();
    let load = format!("--load udp --streams 2 --load-rate {MORE} --direction down,up --name queue");
    let Some(run) = on_link(&home, &load) else { return };
    let known_ns = PACKETS * FRAME * 8.0 / RATE * 1e9;
    assert_eq!(directions(&run).len(), 2, "{}", run["unavailable"]);
    for (direction, end) in directions(&run).iter().zip(["server", "client"]) {
        let quantile = |case: &Value, p: f64| {
            let quantiles = run["cases"][case.as_u64().unwrap() as usize]["quantiles"].as_array().unwrap();
            let own = quantiles.iter().find(|quantile| quantile["p"] == p).unwrap();
            own["ns"].as_f64().unwrap()
        };
        let idle = &run["loaded"]["idle"];
        let added = quantile(&direction["case"], 0.5) - quantile(idle, 0.5);
        let queue = &direction["queues"][0];
        let stands_ns = queue["queue_ns"]["value"].as_f64().unwrap();
        let packets = queue["queued_packets"]["value"].as_f64().unwrap();
        println!(
            "{end}: {} ms added, {} ms read, {} ms known, {packets} packets",
            added / 1e6,
            stands_ns / 1e6,
            known_ns / 1e6
        );
        // What a busy machine adds to a message is seen without load.
        let busy = 2.0 * quantile(idle, 0.99);
        assert!(added < 1.05 * known_ns + busy, "{added} ns are added, {known_ns} ns known: {direction}");
        assert!(stands_ns < 1.05 * known_ns && packets <= PACKETS, "more than there is room for: {queue}");
        let full = packets > 0.98 * PACKETS;
        if full {
            assert!((stands_ns / known_ns - 1.0).abs() < 0.05, "{queue}");
        }
        assert!(added > 0.95 * if full { known_ns } else { stands_ns } - busy, "{added} ns are added: {direction}");
        has_parts(direction);
        assert_eq!((queue["end"].as_str(), queue["device"].as_str()), (Some(end), Some("mp0")), "{queue}");
        assert_eq!(queue["qdiscs"], serde_json::json!(["tbf", "pfifo"]));
        assert!(queue["drops"].as_u64().unwrap() > 0 && direction["read"] == 5, "{direction}");
    }
    let text = text_of(&run);
    if text.contains("nothing is surely added") {
        eprintln!("skipped: other programs kept the CPUs, and the run says that it is not sure");
    } else {
        assert!(
            text.contains("stand in the queue of mp0 at the") && text.contains("fq_codel there would end it"),
            "{text}"
        );
    }
    // Read back, it says the same; what began with its load cannot go on without it.
    let shown = home.run("show queue").ends_with(0).out;
    // Where its lines break depends on the figures.
    let head: Vec<&str> = shown.lines().take(8).flat_map(str::split_whitespace).collect();
    assert!(head.join(" ").contains("stand in the queue of mp0"), "{shown}");
    home.run("verify queue").ends_with(0);
    home.run("report queue -o queue.html").ends_with(0);
    let page = std::fs::read_to_string(home.path().join("queue.html")).unwrap();
    assert!(page.contains("fig-loaded-queue") && page.contains("load down, queue at the server"));
    home.run("resume queue").says(&["nothing is missing"]);
    home.run("diff queue queue").ends_with(0).shows(&["down 64 B"]);
}

#[test]
fn a_load_that_leaves_room_adds_less_than_a_full_queue() {
    let home = Home::new();
    // A fifth of the link: a sender would have to be late by a second to fill the queue.
    let load = "--load udp --streams 2 --load-rate 1M --direction up --no-save";
    let Some(run) = on_link(&home, load) else { return };
    let up = &directions(&run)[0];
    let packets = up["queues"][0]["queued_packets"]["value"].as_f64().unwrap();
    assert!(packets < PACKETS / 2.0 && up["queues"][0]["drops"] == 0, "{up}");
    // The messages take what is left.
    let least = 1e6 * FRAME / 1400.0;
    assert!(up["load_bits"]["value"].as_f64().unwrap() > 0.95 * least && up["read"] == 5, "{up}");
}

/// fq_codel is not in every kernel; where it is, messages do not wait for what waits there of the load.
#[test]
fn a_queue_that_is_fair_keeps_the_messages_from_waiting() {
    let home = Home::new();
    let bed = "ip link set lo up; mount -t tmpfs t /run; mkdir -p /run/netns; ip netns add b; ip -n b link set lo up
        ip link add v0 type veth peer name v1 netns b; ip addr add 10.8.1.1/24 dev v0; ip -n b addr add 10.8.1.2/24 dev v1
        ip link set v0 up; ip -n b link set v1 up
        tc qdisc add dev v0 root handle 1: tbf rate 10mbit burst 32768 latency 500ms && tc qdisc add dev v0 parent 1: fq_codel || exit 77
        ip netns exec b \"$0\" serve 10.8.1.2 --insecure -q &
        until ip netns exec b ss -Hltn sport = 5210 | grep -q .; do kill -0 $!; sleep 0.1; done
        \"$0\" loaded 10.8.1.2 --load udp --load-rate 12M --direction up";
    if !crate::networks::may_have_namespaces() {
        return;
    }
    let output = crate::networks::in_namespaces(&home, &format!("{bed} {SHORT} --no-save --json"));
    if output.code == Some(77) {
        return eprintln!("skipped: no fq_codel in this kernel");
    }
    let run = output.ends_with(0).json();
    let up = &directions(&run)[0];
    let (queue, added) = (&up["queues"][0], up["added_ns"]["value"].as_f64().unwrap());
    assert!(queue["fair"] == true && added < queue["queue_ns"]["value"].as_f64().unwrap() / 4.0, "{up}");
}

/// What the RPM is made of is known from the queue that was read in the same rounds.
#[test]
fn the_rpm_is_made_of_what_new_connections_and_the_load_took() {
    let home = Home::new();
    let load = "--load tcp --streams 4 --direction up --name rpm";
    let Some(run) = on_link(&home, load) else { return };
    let up = &directions(&run)[0];
    has_parts(up);
    let own = &up["responsiveness"];
    let value = |name: &str| own[name]["value"].as_f64().unwrap_or_else(|| panic!("{name}: {up}"));
    // What stands in the queue, by the rate at which it leaves: where TCP hands over several packets as one, it is more than 100 of them.
    let queue = &up["queues"][0];
    let wait_ns =
        8e9 * queue["queued_bytes"]["value"].as_f64().unwrap() / queue["left_bits"]["value"].as_f64().unwrap();
    println!("{own}, the queue holds {wait_ns} ns");
    let foreign = 60e9 / ((value("connect_ns") + value("request_ns")) / 2.0);
    let loaded = 60e9 / value("round_trip_ns");
    for (name, known) in [("foreign_rpm", foreign), ("loaded_rpm", loaded), ("rpm", (foreign + loaded) / 2.0)] {
        assert!((value(name) / known - 1.0).abs() < 1e-6, "{name}: {own}");
    }
    // A new connection waits behind the load at every step, as the load itself does; one whose SYN is dropped waits for a second more.
    for name in ["connect_ns", "request_ns", "round_trip_ns"] {
        assert!(value(name) > wait_ns / 3.0 && value(name) < 3.0 * wait_ns + 1e9, "{name}: {own}");
    }
    assert!(own["probes"].as_u64().unwrap() > 20, "{own}");
    assert!(text_of(&run).contains("RPM of TCP, without TLS: "), "{}", text_of(&run));
    home.run("show rpm").ends_with(0).shows(&["RPM, TCP only", "draft-ietf-ippm-responsiveness", "TLS is no part"]);
    home.run("verify rpm").ends_with(0);
}

#[test]
fn on_loopback_no_link_is_measured() {
    let home = Home::new();
    let output =
        home.run("loaded --direction up,both --streams 1 -t 500ms -r 5 -w 50ms --progress none --no-save").ends_with(0);
    let first = output.out.lines().take(7).collect::<Vec<_>>().join(" ");
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first.contains("no link is measured") && first.contains("share"), "{}", output.out);
    assert!(first.contains("(up)") && first.contains("(both)"), "{}", output.out);
}

#[test]
fn what_cannot_be_a_load_is_refused() {
    let home = Home::new();
    for words in [
        "loaded -x tcp:send,udp:send",
        "loaded -l 64,1K",
        "loaded --streams 1000",
        "loaded --load-rate 1",
        "loaded --direction left",
        "loaded -c 100",
        "loaded -t 60s -r 10",
    ] {
        assert_eq!(home.run(words).code, Some(2), "{words}");
    }
}
