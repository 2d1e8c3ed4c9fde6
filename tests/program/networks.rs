//! Networks as they are: firewalls, routers and addresses between two ends, in namespaces of their own.

use std::process::{Command, Stdio};

use crate::command::{Home, LIMIT, Output, Running};

/// Whether this user may have namespaces; says why a test is skipped where not.
pub(crate) fn may_have_namespaces() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-rnm", "ip", "link"]).stdout(Stdio::null()).stderr(Stdio::null());
    let may = command.status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("skipped: no user namespaces, or no iproute2");
    }
    may
}

/// Runs a script as root of namespaces of its own, of which nothing is left afterwards. `$0` is the program.
pub(crate) fn in_namespaces(home: &Home, text: &str) -> Output {
    let own = home.command(&[]);
    let mut command = Command::new("unshare");
    command.args(["-rnmpf", "--kill-child", "--mount-proc", "sh", "-ec", text, env!("CARGO_BIN_EXE_msgpath")]);
    command.current_dir(home.path()).stdin(Stdio::null());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Running::new(command).finish(LIMIT)
}

/// The host of the script (10.8.1.2), a router `r` and a host `b` (10.8.2.2) behind it.
const ROUTER: &str = "
    ip link set lo up; mount -t tmpfs t /run; mkdir -p /run/netns
    for n in r b; do ip netns add $n; ip -n $n link set lo up; done
    ip link add a0 type veth peer name r0 netns r
    ip -n b link add b0 type veth peer name r1 netns r
    ip addr add 10.8.1.2/24 dev a0; ip -n r addr add 10.8.1.1/24 dev r0
    ip -n b addr add 10.8.2.2/24 dev b0; ip -n r addr add 10.8.2.1/24 dev r1
    ip link set a0 up; ip -n r link set r0 up; ip -n r link set r1 up; ip -n b link set b0 up
    ip netns exec r sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
    ip route add default via 10.8.1.1; ip -n b route add default via 10.8.2.1
    serve() {
        ip netns exec b \"$0\" serve 10.8.2.2 --insecure -q \"$@\" 2>serve.log &
        until ip netns exec b ss -Hltn sport = 5210 | grep -q .; do kill -0 $!; sleep 0.1; done
    }
";

/// From the first host to `b` nothing passes but TCP to these ports.
fn passes(first: u16, last: u16) -> String {
    let drop = |from: u32, to: u32| format!("ip -n r rule add iif r0 ipproto tcp dport {from}-{to} blackhole\n");
    drop(1, u32::from(first) - 1) + &drop(u32::from(last) + 1, 65_534)
}

const SHORT: &str = "-c 200 -r 2 -w 0 -o extend=no --name one -qq";

#[test]
fn closed_data_ports_are_named_within_seconds_and_an_open_range_is_enough() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = format!("{ROUTER}{}serve\n\"$0\" echo 10.8.2.2 -x tcp:send,tcp:writev {SHORT}", passes(5210, 5210));
    let output = in_namespaces(&home, &text).ends_with(3);
    let output = output.says(&["error[E72]: data connection to 10.8.2.2, port ", ": dropped", "(5210 passes)"]);
    output.says(&["from 10.8.1.2 here to 10.8.2.2", "--data-ports"]);
    let text = format!(
        "{ROUTER}{}serve --data-ports 5211-5212\n\"$0\" echo 10.8.2.2 {SHORT}\n\"$0\" show one --json",
        passes(5210, 5212)
    );
    assert_eq!(in_namespaces(&home, &text).ends_with(0).json()["target"], "10.8.2.2:5210");
}

#[test]
fn datagrams_that_are_dropped_cost_their_cases_alone() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = format!(
        "{ROUTER}ip -n r rule add iif r0 ipproto udp blackhole\nserve\n\"$0\" echo 10.8.2.2 -x tcp:send,udp:send {SHORT} || [ $? = 4 ]
        \"$0\" show one --json"
    );
    let value = in_namespaces(&home, &text).ends_with(0).json();
    assert_eq!(value["cases"].as_array().unwrap().len(), 1);
    let why = value["unavailable"][0]["reason"]["why"].as_str().unwrap();
    assert!(why.contains("data over udp to 10.8.2.2: dropped") && why.contains("(5210 passes)"), "{why}");
}

#[test]
fn ports_that_are_used_up_are_named_with_their_range() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "ip link set lo up; echo 40000 40009 >/proc/sys/net/ipv4/ip_local_port_range
        \"$0\" serve -q & until ss -Hltn sport = 5210 | grep -q .; do kill -0 $!; sleep 0.1; done
        \"$0\" echo 127.0.0.1 -x tcp:send/epoll -P 30 -T 1 {SHORT}"
    );
    let output = in_namespaces(&Home::new(), &text);
    assert_eq!(output.code, Some(3), "{}", output.err);
    output.says(&["no local port is left: 40000 to 40009", "in TIME_WAIT"]);
}

#[test]
fn doctor_names_closed_data_ports() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!("{ROUTER}{}serve\n\"$0\" doctor 10.8.2.2 -v", passes(5210, 5210));
    let output = in_namespaces(&Home::new(), &text).ends_with(0);
    assert!(output.out.contains("STOP  A/A resolution"), "{}", output.out);
    let plain = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("data connection to 10.8.2.2, port ") && plain.contains("(5210 passes)"), "{plain}");
}

#[test]
fn too_large_messages_are_named_with_a_size_that_passes_and_smaller_ones_are_measured() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    // The router's link to b takes 1300 bytes, and its ICMP never leaves.
    let hole = "ip -n r link set r1 mtu 1300; ip -n r rule add iif lo ipproto icmp blackhole\n";
    let text = format!(
        "{ROUTER}{hole}serve\n\"$0\" echo 10.8.2.2 -l 64,1000,4K {SHORT} || [ $? = 4 ]\n\"$0\" show one --json"
    );
    let value = in_namespaces(&home, &text).ends_with(0).json();
    let sizes: Vec<u64> =
        value["cases"].as_array().unwrap().iter().map(|case| case["case"]["size_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 1000]);
    let why = value["unavailable"][0]["reason"]["why"].as_str().unwrap();
    for part in [
        "too large",
        "messages of 1208 bytes pass",
        "retransmitted",
        "MTU here 1500, there 1500",
        "path MTU black hole",
    ] {
        assert!(why.contains(part), "{part:?} is not in {why}");
    }
}

/// The host of the script and a host `b` on one link, with link-local addresses $A and $B.
const LINK: &str = "
    ip link set lo up; mount -t tmpfs t /run; mkdir -p /run/netns
    ip netns add b; ip -n b link set lo up
    ip link add v0 type veth peer name v1 netns b
    for w in v0; do echo 0 >/proc/sys/net/ipv6/conf/$w/accept_dad; done
    ip netns exec b sh -c 'echo 0 >/proc/sys/net/ipv6/conf/v1/accept_dad'
    ip link set v0 up; ip -n b link set v1 up
    link_address() { ip $2 -o -6 addr show dev $1 scope link | awk '{print $4}' | cut -d/ -f1; }
    until [ -n \"$(link_address v0)\" ] && [ -n \"$(link_address v1 '-n b')\" ]; do sleep 0.1; done
    A=$(link_address v0) B=$(link_address v1 '-n b')
    until_serves() { until ip netns exec b ss -Hltn sport = 5210 | grep -q .; do kill -0 $!; sleep 0.1; done; }
";

#[test]
fn a_link_local_address_carries_control_and_data_and_is_shown_by_device() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = format!(
        "{LINK}ip netns exec b \"$0\" serve -B $B%v1 --token-file token -q 2>serve.log & until_serves
        until [ -s token ]; do sleep 0.1; done
        \"$0\" compare -x tcp:send,udp:send \"[$B%v0]:5210\" -o bind=$A%v0 --token-file token {SHORT}
        cat data/msgpath/one/run.json"
    );
    let header = in_namespaces(&home, &text).ends_with(0).json();
    assert!(header["target"].as_str().unwrap().ends_with("%v0]:5210"), "{}", header["target"]);
    let data = &header["data"];
    for end in ["far", "near", "near_seen"] {
        let address = data[end].as_str().unwrap();
        assert!(address.starts_with("fe80::") && address.ends_with("%v0"), "{end}: {address}");
    }
    assert_eq!(header["floors"]["route"]["device"], "v0");
}

#[test]
fn a_name_is_tried_at_all_its_addresses_and_the_measured_one_is_shown() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    // The first address is silent, the second refuses.
    let text = format!(
        "{LINK}ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1; ip -n b addr add 10.7.0.3/24 dev v1
        printf '10.7.0.77 several\\n10.7.0.3 several\\n10.7.0.2 several\\n' >hosts; mount --bind hosts /etc/hosts
        ip neigh add 10.7.0.77 lladdr 02:00:00:00:00:77 dev v0
        ip netns exec b \"$0\" serve 10.7.0.2 --insecure -q 2>serve.log & until_serves
        \"$0\" echo several -x tcp:send -c 200 -r 2 -w 0 -o extend=no --name one"
    );
    in_namespaces(&home, &text).ends_with(0).shows(&["several:5210 at 10.7.0.2 (the name has 2 more)"]);
}

#[test]
fn the_traffic_class_is_set_at_both_ends_and_read_on_arrival() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let granted = |value: &crate::printed::Value| -> Vec<String> {
        let cases = value["cases"].as_array().unwrap().iter();
        let all = cases.flat_map(|case| case["granted"].as_array().unwrap());
        let classes = all.filter(|one| one["option"].as_str().unwrap().starts_with("traffic class"));
        classes.map(|one| format!("{} {} {}", one["end"], one["option"], one["granted"]).replace('"', "")).collect()
    };
    let text = format!(
        "{LINK}ip addr add fd00::1/64 dev v0 nodad; ip -n b addr add fd00::2/64 dev v1 nodad
        ip netns exec b \"$0\" serve fd00::2 --insecure -q 2>serve.log & until_serves
        \"$0\" compare -x tcp:send,udp:send fd00::2 -o tos=ef,device=v0 {SHORT}
        \"$0\" show one --json"
    );
    let value = in_namespaces(&home, &text).ends_with(0).json();
    let found = granted(&value);
    for line in ["near traffic class 0xb8", "far traffic class 0xb8", "far traffic class on arrival 0xb8"] {
        assert!(found.iter().filter(|one| *one == line).count() >= 2, "{line}: {found:?}");
    }
    let device = value["cases"][0]["granted"].as_array().unwrap().iter();
    assert_eq!(device.filter(|one| one["option"] == "SO_BINDTODEVICE" && one["granted"] == "v0").count(), 1);
}

#[test]
fn a_setting_of_packets_is_refused_where_there_are_none() {
    let home = Home::new();
    for setting in ["tos=ef", "device=lo"] {
        home.run(&format!("echo -x unix:send -o {setting}")).ends_with(2).says(&["error[E51]", "has no meaning"]);
    }
    home.run("echo -x tcp:send -o device=nodevice0 -c 100 -r 2 --no-save").ends_with(3).says(&["-o device=nodevice0"]);
}

#[test]
fn a_device_that_is_not_there_is_named_with_those_that_are() {
    let home = Home::new();
    let output = home.run("echo fe80::1%nodevice:5211 -c 10").ends_with(3);
    output.says(&[
        "fe80::1%nodevice names the network device nodevice, which this machine does not have",
        "one of ",
        "lo",
    ]);
}

/// The name `several` of [`LINK`]: its first address is silent, its second refuses, its third, 10.7.0.2, is that of `b`.
const SEVERAL: &str = "
    ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1; ip -n b addr add 10.7.0.3/24 dev v1
    printf '10.7.0.77 several\\n10.7.0.3 several\\n10.7.0.2 several\\n' >hosts; mount --bind hosts /etc/hosts
    ip neigh add 10.7.0.77 lladdr 02:00:00:00:00:77 dev v0
    serves() { until ip netns exec b ss -Hltn sport = $1 | grep -q .; do kill -0 $!; sleep 0.1; done; }
";

#[test]
fn programs_of_others_are_tried_at_all_addresses_of_a_name() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "{LINK}{SEVERAL}ip netns exec b \"$0\" serve --compat echo -B 10.7.0.2 -p 7000 --insecure -q 2>serve.log & serves 7000
        \"$0\" echo raw://several:7000 -o frame=line -x tcp:send -c 200 -r 2 -w 0 -o extend=no --name one
        \"$0\" compat echo several 7000 10"
    );
    let output = in_namespaces(&Home::new(), &text).ends_with(0);
    output.shows(&["raw://several:7000 at 10.7.0.2 (the name has 2 more)"]);
}

#[test]
fn a_program_at_an_address_of_a_link_is_measured() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "{LINK}ip netns exec b \"$0\" serve --compat echo -B $B%v1 -p 7000 --insecure -q 2>serve.log &
        until ip netns exec b ss -Hltn sport = 7000 | grep -q .; do kill -0 $!; sleep 0.1; done
        \"$0\" echo \"raw://[$B%v0]:7000\" -o frame=line -x tcp:send {SHORT}; \"$0\" show one --json"
    );
    let value = in_namespaces(&Home::new(), &text).ends_with(0).json();
    assert!(value["target"].as_str().unwrap().ends_with("%v0]:7000"), "{}", value["target"]);
}

#[test]
fn a_server_of_calls_is_tried_at_all_addresses_of_its_name() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "{LINK}{SEVERAL}ip netns exec b \"$0\" serve --rpc 10.7.0.2 --insecure -q 2>serve.log & serves 12345
        \"$0\" rpc several -k 100 ping"
    );
    in_namespaces(&Home::new(), &text).ends_with(0).shows(&["several:12345 at 10.7.0.2 (the name has 2 more)"]);
}

#[test]
fn the_family_that_is_asked_for_is_the_family_between_namespaces() {
    if !may_have_namespaces() {
        return;
    }
    let far = |output: Output| output.ends_with(0).json()["data"]["far"].as_str().map(str::to_owned);
    let run = |addresses: &str, options: &str| {
        let text = format!(
            "{LINK}ip netns add a; ip link set v0 netns a; ip -n a link set lo up; ip -n a link set v0 up; {addresses}
            \"$0\" echo --between a,b {options} {SHORT}; cat data/msgpath/one/run.json"
        );
        in_namespaces(&Home::new(), &text)
    };
    let v6 = "ip -n a addr add fd00::1/64 dev v0 nodad; ip -n b addr add fd00::2/64 dev v1 nodad";
    let both = format!("{v6}; ip -n a addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1");
    assert_eq!(far(run(&both, "-x tcp:send -o ip=6")).as_deref(), Some("fd00::2"));
    assert_eq!(far(run(&both, "-x tcp:send")).as_deref(), Some("10.7.0.2"));
    assert_eq!(far(run(v6, "-x udp:send")).as_deref(), Some("fd00::2"));
    run(v6, "-x tcp:send -o ip=4").ends_with(2).says(&["another family than fd00::1"]);
    // Frames need no address, and what needs one says so.
    run("ip -n b link set v1 down; ip -n b link set v1 name v0; ip -n b link set v0 up", "-x eth:send -o device=v0")
        .ends_with(0);
    let text = format!(
        "{LINK}ip netns add a; ip link set v0 netns a; ip -n a link set lo up; ip -n a link set v0 up
        \"$0\" periodic -x eth -n 2 --between a,b -c 20 -q"
    );
    in_namespaces(&Home::new(), &text).ends_with(0);
    run("true", "-x tcp:send").ends_with(2).says(&["a has no address, and tcp:send"]);
}

#[test]
fn a_mesh_from_one_of_its_hosts_gives_an_address_that_the_others_reach() {
    if !may_have_namespaces() {
        return;
    }
    // The coordinator's host is `a`, whose name means 127.0.1.1 on it; no name of the other one is known.
    let run = |addresses: &str| {
        let text = format!(
            "{LINK}{addresses}
            printf '127.0.1.1 a\\n' >hosts; mount --bind hosts /etc/hosts
            printf '#!/bin/sh\\nw=; [ $1 = a ] || w=\"ip netns exec $1\"; shift; exec $w \"$@\"\\n' >launcher; chmod +x launcher
            \"$0\" mesh a,b --launch \"$PWD/launcher {{host}}\" --program \"$0\" -t 100ms -r 2 --both --name one"
        );
        in_namespaces(&Home::new(), &text).ends_with(0).shows(&["2 of 2 pairs"]);
    };
    run("ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1");
    run("ip addr add fd00::1/64 dev v0 nodad; ip -n b addr add fd00::2/64 dev v1 nodad");
}

/// The warnings of a result that have a code.
fn warnings(value: &crate::printed::Value, code: &str) -> Vec<String> {
    let all = value["warnings"].as_array().unwrap().iter().filter(|one| one["code"] == code);
    all.map(|one| one["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn fragments_are_named_with_their_number() {
    if !may_have_namespaces() {
        return;
    }
    let run = |addresses: &str, far: &str, size: u32| {
        let text = format!(
            "{LINK}{addresses}; ip netns exec b \"$0\" serve {far} --insecure -q 2>serve.log & until_serves
            \"$0\" echo {far} -x udp:send -l {size} -o rcvbuf=4M {SHORT}; \"$0\" show one --json"
        );
        let value = in_namespaces(&Home::new(), &text).ends_with(0).json();
        warnings(&value, "W189")
    };
    let v4 = "ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1";
    let found = run(v4, "10.7.0.2", 65_507);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("45 fragments of at most 1500 B, the MTU of v0; the kernel made "), "{found:?}");
    let v6 = "ip addr add fd00::1/64 dev v0 nodad; ip -n b addr add fd00::2/64 dev v1 nodad";
    let found = run(v6, "fd00::2", 65_527);
    assert!(found[0].contains("46 fragments of at most 1500 B"), "{found:?}");
    assert!(run(v4, "10.7.0.2", 1472).is_empty());
}

#[test]
fn the_device_that_carried_the_packets_is_named_where_it_is_another() {
    if !may_have_namespaces() {
        return;
    }
    let run = |bind: &str| {
        let text = format!(
            "{LINK}ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1
            ip link add d0 type veth peer name d1; ip link set d0 up; ip link set d1 up; ip addr add 10.7.0.9/24 dev d0
            ip netns exec b \"$0\" serve 10.7.0.2 --insecure -q 2>serve.log & until_serves
            \"$0\" echo 10.7.0.2 -x tcp:send,udp:send -o bind={bind} {SHORT}; \"$0\" show one --json"
        );
        warnings(&in_namespaces(&Home::new(), &text).ends_with(0).json(), "W191")
    };
    assert_eq!(run("10.7.0.9"), ["10.7.0.9 is an address of d0, and the packets left through v0"]);
    assert!(run("10.7.0.1").is_empty());
}

#[test]
fn a_name_server_that_is_silent_delays_no_agent_whose_address_is_given() {
    if !may_have_namespaces() {
        return;
    }
    // Queries go to an address of a device that drops all: they are answered by nobody.
    let text = "ip link set lo up; ip link add d0 type veth peer name d1; ip link set d0 up; ip link set d1 up
        ip addr add 192.0.2.1/24 dev d0; ip neigh add 192.0.2.53 lladdr 02:00:00:00:00:53 dev d0
        printf 'nameserver 192.0.2.53\\noptions timeout:30 attempts:3\\n' >resolv.conf
        mount --bind resolv.conf /etc/resolv.conf
        for known in '--address 127.0.0.1' ''; do
            timeout 60 \"$0\" echo far.example --launch \"sh -c 'exec $0 __agent --launched' {host}\" $known -x tcp:send \
                -c 200 -r 2 -w 0 -o extend=no --no-save -qq
        done";
    in_namespaces(&Home::new(), text).ends_with(0);
}

#[test]
fn a_host_of_a_mesh_that_dies_is_told_by_its_name() {
    if !may_have_namespaces() {
        return;
    }
    // The agent on `b` is killed as often as it is started, each time once the mesh has begun and a data connection of it is there.
    let text = format!(
        "{LINK}ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1; : >pids
        printf '#!/bin/sh\\nw=; [ $1 = a ] || {{ w=\"ip netns exec $1\"; echo $$ >>pids; }}; shift; exec $w \"$@\"\\n' >launcher
        chmod +x launcher
        (until find . -name mesh.json | grep -q .; do sleep 0.1; done
        for turn in 1 2 3; do
            until [ $(wc -l <pids) -ge $turn ] && ip netns exec b ss -Htn state established | grep -q .; do sleep 0.1; done
            kill -9 $(tail -n 1 pids)
        done) &
        \"$0\" mesh a,b --launch \"$PWD/launcher {{host}}\" --program \"$0\" -t 20s -r 10 --name one"
    );
    let output = in_namespaces(&Home::new(), &text).ends_with(4).says(&["the agent of b vanished"]);
    assert!(!output.err.contains("10.7.0.2"), "{}", output.err);
}

/// The sizes of packets of both ends, of the first case: MTU of the device, path MTU.
fn packet_sizes(value: &crate::printed::Value) -> [[Option<u64>; 2]; 2] {
    [0, 1].map(|end| {
        let device = &value["ends"][end]["device"];
        assert!(device["gso_max_bytes"].as_u64() > Some(0) && device["gso"].as_bool().is_some(), "{device}");
        [device["mtu_bytes"].as_u64(), value["cases"][0]["ends"][end]["path_mtu_bytes"].as_u64()]
    })
}

#[test]
fn mtus_of_both_ends_are_recorded_and_a_difference_is_named() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = format!(
        "{LINK}ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1; ip -n b link set v1 mtu 9000
        ip netns exec b \"$0\" serve 10.7.0.2 --insecure -q 2>serve.log & until_serves
        \"$0\" compare -l 64 -x tcp:send,udp:send 10.7.0.2 {SHORT}; \"$0\" show one --json"
    );
    let value = in_namespaces(&home, &text).ends_with(0).json();
    assert_eq!(packet_sizes(&value), [[Some(1500), Some(1500)], [Some(9000), Some(9000)]]);
    assert_eq!(
        warnings(&value, "W194"),
        ["The MTU of v0 at the client is 1500, that of v1 at the server 9000: packets of both have at most 1500 B"]
    );
    home.run("show one -v")
        .ends_with(0)
        .shows(&["sends by v0, MTU 1500, path MTU 1500, GSO on", "sends by v1, MTU 9000"]);
}

#[test]
fn a_link_in_the_middle_with_a_smaller_mtu_is_named() {
    if !may_have_namespaces() {
        return;
    }
    // The host of the script, routers r and s, and b; the link between the routers takes 1300 bytes.
    let text = format!(
        "ip link set lo up; mount -t tmpfs t /run; mkdir -p /run/netns
        for n in r s b; do ip netns add $n; ip -n $n link set lo up; done
        ip link add a0 type veth peer name r0 netns r
        ip -n r link add r1 mtu 1300 type veth peer name s0 mtu 1300 netns s
        ip -n s link add s1 type veth peer name b0 netns b
        ip addr add 10.8.1.2/24 dev a0; ip -n r addr add 10.8.1.1/24 dev r0
        ip -n r addr add 10.8.3.1/24 dev r1; ip -n s addr add 10.8.3.2/24 dev s0
        ip -n s addr add 10.8.2.1/24 dev s1; ip -n b addr add 10.8.2.2/24 dev b0
        ip link set a0 up; ip -n b link set b0 up
        for d in r0 r1; do ip -n r link set $d up; done; for d in s0 s1; do ip -n s link set $d up; done
        for n in r s; do ip netns exec $n sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'; done
        ip -n r route add 10.8.2.0/24 via 10.8.3.2; ip -n s route add 10.8.1.0/24 via 10.8.3.1
        ip route add default via 10.8.1.1; ip -n b route add default via 10.8.2.1
        ip netns exec b \"$0\" serve 10.8.2.2 --insecure -q 2>serve.log &
        until ip netns exec b ss -Hltn sport = 5210 | grep -q .; do kill -0 $!; sleep 0.1; done
        \"$0\" echo 10.8.2.2 -x tcp:send -l 4K {SHORT}; \"$0\" show one --json"
    );
    let value = in_namespaces(&Home::new(), &text).ends_with(0).json();
    assert_eq!(packet_sizes(&value), [[Some(1500), Some(1300)]; 2]);
    assert_eq!(
        warnings(&value, "W194"),
        ["From client to server a packet has at most 1300 B: a link on the way has a smaller MTU than a0 (1500)"]
    );
}

#[test]
fn a_device_carries_control_and_data_where_no_route_leads() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let run = |options: &str| {
        let text = format!(
            "{LINK}ip addr add 10.7.0.1/32 dev v0; ip -n b addr add 10.7.0.2/24 dev v1
            for w in all v0; do echo 0 >/proc/sys/net/ipv4/conf/$w/rp_filter; done
            ip netns exec b \"$0\" serve 10.7.0.2 --insecure -q 2>serve.log & until_serves
            \"$0\" compare -l 64 -x tcp:send,udp:send 10.7.0.2 {options} -c 200 -r 2 -w 0 -o extend=no --no-save --json"
        );
        in_namespaces(&home, &text)
    };
    run("").ends_with(3).says(&["error[E01]", "no route of this machine leads there", "-o device=NAME", "v0"]);
    let value = run("-o device=v0").ends_with(0).json();
    assert_eq!(
        (&value["ends"][0]["device"]["name"], &value["ends"][1]["device"]["name"]),
        (&"v0".into(), &"v1".into())
    );
    run("-o device=v9").ends_with(3).says(&["-o device=v9 cannot be had here", "of this machine: v0"]);
}

#[test]
fn an_address_in_a_vrf_is_measured_through_its_device() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let kernel = in_namespaces(&home, "ip link add vrf1 type vrf table 10");
    if kernel.code != Some(0) {
        return eprintln!("skipped: this kernel has no VRF: {}", kernel.err.trim());
    }
    let run = |options: &str| {
        let text = format!(
            "{LINK}ip link add vrf1 type vrf table 10; ip link set vrf1 up; ip link set v0 master vrf1
            ip addr add 10.7.0.1/24 dev v0; ip -n b addr add 10.7.0.2/24 dev v1
            ip netns exec b \"$0\" serve 10.7.0.2 --insecure -q 2>serve.log & until_serves
            \"$0\" compare -l 64 -x tcp:send,udp:send 10.7.0.2 {options} -c 200 -r 2 -w 0 -o extend=no --no-save --json"
        );
        in_namespaces(&home, &text)
    };
    run("").ends_with(3).says(&["error[E01]", "no route of this machine leads there", "-o device=NAME", "vrf1"]);
    for device in ["vrf1", "v0"] {
        let value = run(&format!("-o device={device}")).ends_with(0).json();
        assert_eq!(value["ends"][0]["device"]["name"], device);
    }
}

/// Packets of the way from the router to a host, `r0` to this one, `r1` to `b`, have at most 1300 bytes, and no ICMP says so.
fn hole(device: &str) -> String {
    format!("ip -n r rule add iif lo ipproto icmp blackhole; ip -n r link set {device} mtu 1300\n")
}

/// Why a case of a result was not measured.
fn reason(value: &crate::printed::Value, at: usize) -> &str {
    value["unavailable"][at]["reason"]["why"].as_str().unwrap_or_default()
}

#[test]
fn replies_that_are_too_large_on_their_way_back_are_named() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = format!(
        "{ROUTER}{}serve\n\"$0\" echo 10.8.2.2 -l 64,4K {SHORT}; \"$0\" show one --json; \"$0\" show one >shown
        \"$0\" stream 10.8.2.2 -R -l 64 -t 1s --no-save -qq",
        hole("r0")
    );
    let output = in_namespaces(&home, &text).ends_with(3);
    let output =
        output.says(&["error[E72]: tcp to 10.8.2.2: too large: messages of 1208 bytes pass", "path MTU black hole"]);
    let value = output.json();
    assert_eq!(value["cases"].as_array().unwrap().len(), 1);
    for part in ["messages of 1208 bytes pass", "MTU here 1500, there 1500", "retransmitted 3 times"] {
        assert!(reason(&value, 0).contains(part), "{part:?} is not in {}", reason(&value, 0));
    }
    let shown = std::fs::read_to_string(home.path().join("shown")).unwrap();
    assert!(shown.contains("tcp:send, 4 KiB  tcp to 10.8.2.2: too large: messages of 1208 bytes pass"), "{shown}");
}

#[test]
fn a_black_hole_that_opens_during_a_run_costs_its_size_and_resume_measures_it() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "{ROUTER}serve
        (until [ $(stat -c %s data/msgpath/one/rounds.mpl 2>/dev/null || echo 0) -gt 12000 ]; do sleep 0.1; done
         {}) &
        \"$0\" echo 10.8.2.2 -x tcp:send -l 64,4K -t 3s -r 15 -w 0 -o extend=no,what-ifs=no --name one -qq || [ $? = 4 ]
        \"$0\" show one --json
        ip -n r link set r1 mtu 1500
        \"$0\" resume one --target 10.8.2.2:5210 -qq; \"$0\" show one --json",
        hole("r1").trim_end()
    );
    let output = in_namespaces(&Home::new(), &text).ends_with(0);
    let begin = "error[E05]: tcp:send, 4 KiB: tcp to 10.8.2.2: too large: messages of 1208 bytes pass";
    let output = output.says(&[begin, "the rest of the run went on", "msgpath resume one"]);
    let values = serde_json::Deserializer::from_str(&output.out).into_iter::<crate::printed::Value>();
    let values: Vec<_> = values.map(Result::unwrap).collect();
    let rounds = |value: &crate::printed::Value| [0, 1].map(|at| value["cases"][at]["rounds"].as_u64().unwrap());
    let [whole, cut] = rounds(&values[0]);
    assert!(whole == 15 && (1..15).contains(&cut), "{whole} {cut}");
    assert_eq!(rounds(&values[1]), [15, 15]);
}

#[test]
fn large_datagrams_and_streams_that_are_dropped_are_named_before_the_first_case() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let text = format!(
        "{ROUTER}{}serve\n\"$0\" echo 10.8.2.2 -x udp:send -l 64,4K {SHORT}; \"$0\" show one --json
        \"$0\" stream 10.8.2.2 -l 64 -t 1s --no-save -qq",
        hole("r1")
    );
    let output = in_namespaces(&home, &text).ends_with(3);
    let value = output.json();
    assert_eq!(value["cases"].as_array().unwrap().len(), 1);
    let why = reason(&value, 0);
    assert!(why.starts_with("udp to 10.8.2.2: too large: messages of 1208 bytes pass"), "{why}");
    // Small messages of a stream share its segments.
    output.says(&["error[E72]: tcp to 10.8.2.2: too large", "mend the MTU"]);
}

#[test]
fn doctor_names_packets_that_are_too_large() {
    if !may_have_namespaces() {
        return;
    }
    let output = in_namespaces(&Home::new(), &format!("{ROUTER}{}serve\n\"$0\" doctor 10.8.2.2 -v", hole("r1")));
    let output = output.ends_with(0);
    let plain = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in
        ["23 WARN data connections", "tcp to 10.8.2.2: too large: messages of 1208 bytes pass", "udp to 10.8.2.2"]
    {
        assert!(plain.contains(part), "{part:?} is not in {plain}");
    }
    let output = in_namespaces(&Home::new(), &format!("{ROUTER}serve\n\"$0\" doctor 10.8.2.2 -v")).ends_with(0);
    let plain = output.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plain.contains("23 OK data connections messages of 9000 bytes go there and back"), "{plain}");
}

#[test]
fn data_ports_that_a_firewall_rejects_are_named() {
    if !may_have_namespaces() {
        return;
    }
    // `prohibit` answers as firewalls do that reject (ICMP 3, 13).
    let text = format!(
        "{ROUTER}ip -n r rule add iif r0 ipproto tcp dport 5211-65534 prohibit\nserve\n\"$0\" echo 10.8.2.2 {SHORT}"
    );
    let output = in_namespaces(&Home::new(), &text).ends_with(3);
    output.says(&["error[E72]: data connection to 10.8.2.2, port ", ": rejected (No route to host)", "(5210 passes)"]);
}

#[test]
fn a_name_that_is_served_on_one_of_its_families_is_measured_there() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "ip link set lo up; printf '127.0.0.1 localhost\\n::1 localhost\\n' >hosts; mount --bind hosts /etc/hosts
        \"$0\" serve -B ::1 -q & until ss -Hltn sport = 5210 | grep -q .; do kill -0 $!; sleep 0.1; done
        for verb in 'echo -x tcp:send' 'echo -x udp:send' stream connect; do
            \"$0\" $verb localhost -c 200 -r 2 -w 0 -o extend=no --no-save
        done
        \"$0\" echo localhost -o ip=4 {SHORT}"
    );
    let output = in_namespaces(&Home::new(), &text).ends_with(3);
    assert_eq!(output.out.matches("localhost:5210 at ::1 (the name has 1 more)").count(), 4, "{}", output.out);
    // The family that was asked for is not served, and no other one is taken for it.
    output.says(&["error[E01]", "localhost:5210"]);
}

#[test]
fn a_traffic_class_that_a_router_clears_is_named() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!(
        "{ROUTER}ip netns exec r tc qdisc add dev r1 clsact && ip netns exec r tc filter add dev r1 egress protocol ip u32 \
            match u32 0 0 action pedit ex munge ip tos set 0 pipe csum ip4h || {{ echo no tc >&2; exit 77; }}
        serve\n\"$0\" compare 10.8.2.2 -l 64 -x tcp:send,udp:send -o tos=ef {SHORT}; \"$0\" show one --json"
    );
    let output = in_namespaces(&Home::new(), &text);
    if output.code == Some(77) {
        return eprintln!("skipped: {}", output.err.trim());
    }
    let said = warnings(&output.ends_with(0).json(), "W22");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("traffic class on arrival") && said[0].contains("asked for 0xb8, got 0x00"), "{said:?}");
}

#[test]
fn calls_that_find_no_local_port_blame_this_machine() {
    if !may_have_namespaces() {
        return;
    }
    let text = "ip link set lo up; echo 40000 40009 >/proc/sys/net/ipv4/ip_local_port_range
        \"$0\" serve --rpc -q & until ss -Hltn sport = 12345 | grep -q .; do kill -0 $!; sleep 0.1; done
        \"$0\" rpc 127.0.0.1 -P 30 -k 100 ping --no-save";
    let output = in_namespaces(&Home::new(), text).ends_with(3);
    let output = output.says(&["error[E01]: no local port is left: 40000 to 40009", "in TIME_WAIT", "this machine"]);
    assert!(!output.err.contains("nobody answers"), "{}", output.err);
}

#[test]
fn a_stream_of_datagrams_between_hosts_has_a_size_that_needs_no_fragments() {
    if !may_have_namespaces() {
        return;
    }
    let text =
        format!("{ROUTER}serve\n\"$0\" stream 10.8.2.2 -x udp:send -o rcvbuf=4M {SHORT}; \"$0\" show one --json");
    let value = in_namespaces(&Home::new(), &text).ends_with(0).json();
    assert_eq!(value["cases"][0]["case"]["size_bytes"], 1400);
    assert!(warnings(&value, "W189").is_empty(), "{}", value["warnings"]);
}

#[test]
fn largest_datagrams_are_those_of_their_family() {
    let home = Home::new();
    home.run("echo -x udp:send -l 65508 -c 10 --no-save").ends_with(2).says(&["error[E07]", "65507 bytes over IPv4"]);
    home.run("echo -x udp:send -o ip=6 -l 65528 -c 10 --no-save").ends_with(2).says(&["error[E07]", "65527 bytes"]);
}
