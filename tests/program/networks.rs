//! Networks as they are: firewalls, routers and addresses between two ends, in namespaces of their own.

use std::process::{Command, Stdio};

use crate::command::{Home, LIMIT, Output, Running};

/// Whether this user may have namespaces; says why a test is skipped where not.
fn may_have_namespaces() -> bool {
    let mut command = Command::new("unshare");
    command.args(["-rnm", "ip", "link"]).stdout(Stdio::null()).stderr(Stdio::null());
    let may = command.status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("skipped: no user namespaces, or no iproute2");
    }
    may
}

/// Runs a script as root of namespaces of its own, of which nothing is left afterwards. `$0` is the program.
fn in_namespaces(home: &Home, text: &str) -> Output {
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
        "{ROUTER}ip -n r rule add iif r0 ipproto udp blackhole\nserve\n\"$0\" compare tcp:send,udp:send 10.8.2.2 {SHORT}
        \"$0\" show one --json"
    );
    let value = in_namespaces(&home, &text).ends_with(0).json();
    assert_eq!(value["cases"].as_array().unwrap().len(), 1);
    let why = value["unavailable"][0]["reason"]["why"].as_str().unwrap();
    assert!(why.contains("udp to 10.8.2.2: dropped") && why.contains("(5210 passes)"), "{why}");
}

#[test]
fn doctor_names_closed_data_ports() {
    if !may_have_namespaces() {
        return;
    }
    let text = format!("{ROUTER}{}serve\n\"$0\" doctor 10.8.2.2", passes(5210, 5210));
    let output = in_namespaces(&Home::new(), &text).ends_with(0);
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
    let text = format!("{ROUTER}{hole}serve\n\"$0\" echo 10.8.2.2 -l 64,1000,4K {SHORT}\n\"$0\" show one --json");
    let value = in_namespaces(&home, &text).ends_with(0).json();
    let sizes: Vec<u64> =
        value["cases"].as_array().unwrap().iter().map(|case| case["case"]["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [64, 1000]);
    let why = value["unavailable"][0]["reason"]["why"].as_str().unwrap();
    for part in ["too large", "messages of 1208 bytes pass", "retransmitted", "MTU here 1500", "path MTU black hole"] {
        assert!(why.contains(part), "{part:?} is not in {why}");
    }
}
