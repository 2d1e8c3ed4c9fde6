//! `msgpath connect`: connections are counted and timed, and what keeps them from being made is named.

use std::time::{Duration, Instant};

use crate::command::Home;
use crate::networks::{in_namespaces, may_have_namespaces};

#[test]
fn connections_are_timed_shown_kept_and_compared() {
    let home = Home::new();
    let value = home.run("connect -x tcp,unix -P 4 -t 400ms -r 5 -w 0 --name one --json").ends_with(0).json();
    assert_eq!(value["verb"], "connect");
    for at in 0..2 {
        let (case, own) = (&value["cases"][at], &value["connect"]["cases"][at]);
        let p50 = |quantiles: &crate::printed::Value| quantiles[0]["ns"].as_u64().unwrap();
        // Connecting is a part of the time until the first byte.
        assert!(p50(&own["connect"]) < p50(&case["quantiles"]), "{own} {case}");
        assert_eq!((own["case"].as_u64(), own["kept"].as_array().map(Vec::len)), (Some(at as u64), Some(0)));
        assert!(case["rate_per_s"]["value"].as_f64() > Some(0.0), "{case}");
    }
    home.run("show one").ends_with(0).shows(&["connect", "time to first byte", "connections"]);
    home.run("verify one").ends_with(0);
    home.run("report one -o one.html").ends_with(0);
    home.run("connect -x tcp,unix -P 4 -t 400ms -r 5 -w 0 --requests 3 --close reset --name two -q").ends_with(0);
    let two = home.run("show two --json").ends_with(0).json();
    assert!(two["connect"]["cases"][0]["kept"][0]["ns"].as_u64() > Some(0), "{}", two["connect"]);
    home.run("diff one two").shows(&["requests on a connection"]);
}

#[test]
fn one_after_the_other_calls_wait_and_several_are_awaited_together() {
    let home = Home::new();
    let said = |typed: &str, wait: &str| {
        for path in ["tcp", "unix"] {
            let line = format!("connect -x {path} {typed} -t 300ms -r 5 -w 0 --no-save");
            home.run(&line).ends_with(0).shows(&[wait, "none lost"]);
        }
    };
    for typed in ["", "-P 1 --requests 3", "--close reset", "-l 100K --reply 100K"] {
        said(typed, "wait block");
    }
    for typed in ["-P 2", "-T 2", "--rate 100"] {
        said(typed, "wait epoll");
    }
    // Who names a wait has it.
    home.run("connect -x unix/epoll -t 300ms -r 5 -w 0 --no-save").ends_with(0).shows(&["wait epoll", "none lost"]);
    home.run("connect -x tcp/block -P 2").ends_with(2).says(&["no wait in -x"]);
}

#[test]
fn a_schedule_times_connections_from_their_intended_start() {
    let home = Home::new();
    let value = home.run("connect --rate 200 -t 1s -r 5 -w 0 --no-save --json").ends_with(0).json();
    let open = &value["cases"][0]["open"];
    assert!(open["asked_per_s"].as_f64() == Some(200.0) && open["service"][0]["ns"].as_u64() > Some(0), "{open}");
}

#[test]
fn tls_is_timed_apart_and_without_it_the_build_is_named() {
    let home = Home::new();
    if !cfg!(feature = "tls") {
        home.run("connect --tls -c 10").ends_with(2).says(&["error[E136]", "cargo build --release --features tls"]);
        return;
    }
    let value = home
        .run("connect --tls -x tcp,unix -P 4 -t 400ms -r 5 -w 0 --requests 2 --name one --json")
        .ends_with(0)
        .json();
    for own in value["connect"]["cases"].as_array().unwrap() {
        let p50 = |times: &str| own[times][0]["ns"].as_u64().unwrap();
        let first = value["cases"][own["case"].as_u64().unwrap() as usize]["quantiles"][0]["ns"].as_u64().unwrap();
        assert!(p50("connect") < first && 0 < p50("handshake") && p50("handshake") < first, "{own}");
        assert!(own["tls"].as_str().unwrap().starts_with("TLSv1_3 ") && own["failed"] == 0, "{own}");
    }
    home.run("show one").ends_with(0).shows(&["TLS handshake", "agreed on TLSv1_3"]);
    home.run("connect --tls --rate 100 --close reset -l 100 --reply 100K -t 1s -r 4 -w 0 --no-save -q").ends_with(0);
}

#[test]
fn what_connect_does_not_make_is_refused() {
    let home = Home::new();
    for line in ["-x udp:send", "-x tcp:writev", "-x shm:ring", "--pieces 2x10", "-o nodelay=no", "-x unixseq"] {
        home.run(&format!("connect {line} -c 10")).ends_with(2);
    }
}

#[test]
fn an_accept_queue_that_overflows_is_named_and_the_run_ends_in_its_time() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = "ip link set lo up
        \"$0\" connect -x tcp -P 16 --backlog 1 -o service-time=20ms -t 4s -r 2 -w 0 -o extend=no --name one -qq
        \"$0\" show one --json";
    let value = in_namespaces(&home, text).ends_with(0).json();
    let own = &value["connect"]["cases"][0];
    assert!(own["overflows"].as_u64() > Some(0), "{own}");
    assert!(value.to_string().contains("accept queue of the server overflowed"), "{}", value["warnings"]);

    // Nobody accepts while the server works for its first request.
    let begun = Instant::now();
    let text = "ip link set lo up
        \"$0\" connect -x tcp -P 16 --backlog 1 -o service-time=3s -t 2s -r 2 -w 0 --no-save";
    let output = in_namespaces(&home, text).ends_with(3);
    output.says(&["no connection brought a reply", "given up after"]);
    assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
}

#[test]
fn ports_that_are_used_up_are_named_with_their_numbers() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = "ip link set lo up; echo '40000 40063' >/proc/sys/net/ipv4/ip_local_port_range
        \"$0\" connect -x tcp -P 200 --close reset -t 1s -r 2 -w 0 -o extend=no --name one -qq
        \"$0\" show one --json";
    let value = in_namespaces(&home, text).ends_with(0).json();
    let text = value["warnings"].to_string();
    assert!(text.contains("no local port is left: 40000 to 40063") && text.contains("in TIME_WAIT"), "{text}");
}
