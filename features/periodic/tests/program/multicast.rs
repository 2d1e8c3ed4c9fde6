//! Multicast groups, as a user measures them, and where they are refused.

use crate::printed::Value;

use crate::command::{Home, Output};
use crate::networks::{in_namespaces, may_have_namespaces};

/// Three hosts on a bridge: `a` (10.8.1.1), `b` (10.8.1.2) and `c` (10.8.1.3), each with the device v0; a fourth, `d` (10.8.2.2), behind the
/// router `a`, whose device to it is v1.
const HOSTS: &str = "
    mount -t tmpfs t /run; mkdir -p /run/netns
    ip link add br0 type bridge mcast_snooping 0; ip link set br0 up
    at=1
    for n in a b c; do
        ip netns add $n; ip -n $n link set lo up
        ip link add p$n type veth peer name v0 netns $n; ip link set p$n master br0 up
        ip -n $n addr add 10.8.1.$at/24 dev v0; ip -n $n link set v0 up; at=$((at+1))
    done
    ip netns add d; ip -n d link set lo up
    ip -n a link add v1 type veth peer name v0 netns d; ip -n a addr add 10.8.2.1/24 dev v1; ip -n a link set v1 up
    ip -n d addr add 10.8.2.2/24 dev v0; ip -n d link set v0 up; ip -n d route add default via 10.8.2.1
    ip netns exec a sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
    ip -n b route add 10.8.2.0/24 via 10.8.1.1
";

const SHORT: &str = "-c 60 --first 10 --period 2ms -r 5 -o message-log=1000";

fn receivers(output: &Output) -> Vec<Value> {
    let json: Value = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{} {}", output.out, output.err));
    json["periodic"]["engines"][0]["receivers"].as_array().expect("receivers").clone()
}

/// Its computed sentences, one after the other.
fn said(output: &Output) -> String {
    let json: Value = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{} {}", output.out, output.err));
    let texts =
        json["findings"].as_array().expect("findings").iter().map(|one| one["text"].as_str().unwrap_or_default());
    texts.collect::<Vec<_>>().join(" ")
}

fn contains(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
}

#[test]
fn receivers_of_both_families_have_every_message() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    for (group, count) in [("udp://239.77.1.1:5999", 2), ("udp://[ff15::77:1%mp0]", 4), ("239.77.1.2%mp0", 4)] {
        let name = format!("n{count}{}", group.len());
        let line = format!("periodic {group} --receivers {count} --between lab {SHORT} --name {name} --json");
        let output = home.run(&line).ends_with(0);
        let all = receivers(&output);
        assert_eq!(all.len(), count);
        for one in &all {
            assert_eq!((one["messages"].as_u64(), one["lost"].as_u64()), (Some(60), Some(0)), "{one}");
            assert_eq!((one["reordered"].as_u64(), one["duplicated"].as_u64()), (Some(0), Some(0)), "{one}");
            assert_eq!(
                (&one["hops"], &one["device"], &one["place"]),
                (&crate::printed::Value::Array(vec![1.into(), 1.into()]), &"mp0".into(), &"lab b".into()),
                "{one}"
            );
            assert_eq!(one["member"], true, "{one}");
            assert!(one["p50"]["ns"].as_u64().is_some() && one["loss"]["value"].as_f64() == Some(0.0), "{one}");
        }
        home.run(&format!("show {name}")).ends_with(0).shows(&[
            &format!("{count} receivers"),
            "each had all 60 messages, in order; none was lost",
            "reordered",
        ]);
        home.run(&format!("verify {name}")).ends_with(0);
    }
    let report = home.path().join("report.html");
    home.run(&format!("report n414 -o {}", report.display())).ends_with(0);
    assert!(std::fs::read_to_string(report).unwrap().contains("Delay and loss of each receiver"));
}

#[test]
fn a_receiver_that_loses_what_others_have_is_named_with_where() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let drops = "ip netns exec c nft 'table inet t { chain i { type filter hook input priority 0; \
                 udp dport 5210 numgen inc mod 4 0 drop; }; }'";
    let text = format!(
        "{HOSTS}{drops}\n\"$0\" periodic 239.77.2.1 --receivers 4 --between a,b,c {SHORT} --name one --json -qq"
    );
    let output = in_namespaces(&home, &text).ends_with(0);
    let all = receivers(&output);
    let places: Vec<_> = all.iter().map(|one| one["place"].as_str().unwrap_or_default().to_owned()).collect();
    assert_eq!(places, ["b", "c", "b", "c"]);
    for one in &all {
        let lost = one["lost"].as_u64().unwrap();
        assert_eq!(lost, if one["place"] == "c" { 15 } else { 0 }, "{one}");
        assert_eq!(one["overflowed"].as_u64(), Some(0), "{one}");
    }
    contains(&said(&output), &["Receiver 2 in c lost 15 (25 %", "lost on the way to it: its socket dropped"]);
}

#[test]
fn a_full_receive_buffer_is_named() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    // More than one core can take: the sender does not wait, and a buffer holds two messages.
    let line = "periodic 239.77.3.1 --receivers 2 --between lab -c 20000 --first 10 --period 1us -r 5 -l 1K -o rcvbuf=1K --name full --json";
    let output = home.run(line).ends_with(0);
    for one in &receivers(&output) {
        let number = |key: &str| one[key].as_u64().unwrap();
        assert!(number("lost") > 0 && number("overflowed") == number("lost"), "{one}");
        assert_eq!(number("lost") + number("messages"), 20_000, "{one}");
    }
    contains(&said(&output), &["none had all: its receive buffer (", "was full: its socket dropped"]);
    // Which findings the first screen has room for, and where its lines break, depends on the figures.
    for (line, said) in [("show full", "dropped because its buffer was full"), ("show full -v", "its receive buffer (")]
    {
        let shown = home.run(line).ends_with(0).out;
        let words: Vec<&str> = shown.split_whitespace().collect();
        assert!(words.join(" ").contains(said), "{line}: {shown}");
    }
}

#[test]
fn a_router_and_another_device_are_named_where_nothing_arrives() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let run = |options: &str| {
        let text = format!("{HOSTS}\"$0\" periodic {options} {SHORT} --no-save --json -qq");
        in_namespaces(&home, &text)
    };
    // The first receiver is in c, the second in d.
    let behind = run("239.77.4.1%v0 --receivers 2 --between b,c,d").ends_with(0);
    contains(&said(&behind), &["reached receiver 2 in d: the router 10.8.2.1 stands", "TTL 1 reaches 0"]);
    let all_of_it = run("239.77.4.1%v0 --receivers 1 --between b,d");
    assert_ne!(all_of_it.code, Some(0), "{}{}", all_of_it.out, all_of_it.err);
    let text = format!(
        "{HOSTS}ip netns exec a \"$0\" periodic 239.77.4.2%v0 --join v1 --receivers 1 {SHORT} --name other -qq || true\n\"$0\" show other --json"
    );
    contains(&said(&in_namespaces(&home, &text)), &["joined on v1, and the datagrams leave by v0"]);
}

/// What the clocks of the hosts are ahead by, s (time_namespaces(7)).
const AHEAD_S: u32 = 86_400;

/// The machine has one crystal, so the truth of two clocks is known.
#[test]
fn receivers_on_hosts_have_clocks_of_their_own_and_the_truth_lies_within_their_bound() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let run = |launch: &str, name: &str| {
        let text = format!(
            "{HOSTS}ip addr add 10.8.1.9/24 dev br0; ip route add 224.0.0.0/4 dev br0
             {launch} true || exit 77
             \"$0\" periodic 239.77.6.1 --receivers b,c --launch \"ip netns exec {{host}} {launch} {{program}}\" \
             --program \"$0\" {SHORT} --name {name} --json -qq"
        );
        in_namespaces(&home, &text)
    };
    let apart = run(&format!("unshare -T --monotonic {AHEAD_S} -f --kill-child"), "apart");
    if apart.code == Some(77) {
        return eprintln!("skipped: no time namespace can be made here");
    }
    let apart = apart.ends_with(0);
    for (one, host) in receivers(&apart).iter().zip(["b", "c"]) {
        assert_eq!((one["messages"].as_u64(), one["lost"].as_u64()), (Some(60), Some(0)), "{one}");
        assert_eq!((&one["place"], &one["device"]), (&host.into(), &"v0".into()), "{one}");
        let within = one["clock_within_ns"].as_u64().unwrap();
        let off = one["clock_offset_ns"].as_i64().unwrap() + i64::from(AHEAD_S) * 1_000_000_000;
        assert!(within > 0 && off.unsigned_abs() <= within, "{one}");
        let end = |key: &str| one["p50"][key].as_u64();
        let ns = end("ns").unwrap();
        assert!(end("lo_ns").is_none_or(|low| low <= ns.saturating_sub(within)), "{one}");
        assert!(end("hi_ns").is_none_or(|high| high >= ns + within), "{one}");
    }
    contains(&said(&apart), &["2 receivers of 239.77.6.1 on br0", "by clocks that are known within ±"]);
    let shown = home.run("show apart").ends_with(0).out.split_whitespace().collect::<Vec<_>>().join(" ");
    contains(&shown, &["1 in b", "a receiver on each host", "by two clocks, read over their control channels"]);
    home.run("verify apart").ends_with(0);
    // Hosts that read the clock of the sender have nothing to align.
    let one_clock = run("env", "one").ends_with(0);
    assert!(receivers(&one_clock).iter().all(|one| one["clock_within_ns"].is_null() && one["lost"] == 0));
}

#[test]
fn where_a_group_cannot_be_had_is_said_with_what_to_type() {
    if !may_have_namespaces() {
        return;
    }
    let home = Home::new();
    let refuses = |group: &str, parts: &[&str]| {
        let text = format!(
            "ip link set lo up; ip link add v0 type veth peer name v1; ip link set v1 up multicast off\n\
             \"$0\" periodic {group} -c 10 --no-save -qq"
        );
        in_namespaces(&home, &text).ends_with(3).says(parts);
    };
    refuses("239.77.5.1", &["E05", "no device for 239.77.5.1", "udp://239.77.5.1%v"]);
    refuses("239.77.5.1%v7", &["no device named v7", "name the device"]);
    refuses("239.77.5.1%v0", &["v0 is down", "ip link set dev v0 up"]);
    refuses("239.77.5.1%v1", &["no MULTICAST flag", "ip link set dev v1 multicast on"]);
    refuses("udp://[ff15::1%lo]", &["do not come back over lo", "--between lab"]);
    for (options, part) in [
        ("10.0.0.1", "not a multicast group"),
        ("239.77.5.1 -n 3", "cannot be used with"),
        ("239.77.5.1 -T 2", "cannot be used with"),
        ("239.77.5.1 --receivers 64", "63"),
        ("239.77.5.1 --ttl 0", "--ttl"),
        ("--receivers 3", "GROUP"),
        ("239.77.5.1 --receivers a,b", "--receivers hosta,hostb --launch ssh"),
        ("239.77.5.1 --receivers 2 --launch ssh", "needs their names"),
        ("239.77.5.1 --receivers a,-b --launch ssh", "is not a host"),
        ("239.77.5.1 --receivers a,b --launch ssh --start storm", "their clocks are read first"),
        ("239.77.5.1 --receivers a,b --launch ssh --between lab", "cannot be used with"),
        ("239.77.5.1%lo -x shm", "does not reach a multicast group"),
        ("239.77.5.1 -o device=eth0", "stands behind the group"),
        ("--between a,b,c", "two sides"),
    ] {
        let output = home.run(&format!("periodic {options} --no-save"));
        assert!(matches!(output.code, Some(2 | 3)), "{options}: {:?} {}", output.code, output.err);
        assert!(output.err.contains(part), "{options}: {}", output.err);
    }
}

#[test]
fn a_group_is_no_peer_of_any_verb() {
    let home = Home::new();
    for line in [
        "echo 239.1.1.1",
        "echo udp://239.1.1.1:7",
        "echo 255.255.255.255",
        "echo raw://239.1.1.1:7",
        "echo --server raw://239.1.1.1:7",
        "echo 239.1.1.1 -x tcp:send",
        "stream udp://239.1.1.1",
        "stream [ff15::1%lo]:5210",
        "compare ff15::1",
        "serve 239.1.1.1",
        "serve -B 239.1.1.1",
        "serve -B ff02::1%lo",
        "serve --rpc -B 239.1.1.1",
        "doctor 239.1.1.1",
        "connect tcp://239.1.1.1",
        "loaded 239.1.1.1",
        "rpc udp://239.1.1.1 list",
        "rpc 239.1.1.1 list",
        "rpc redis://239.1.1.1 GET x",
        "rpc http://[ff15::1]/ GET",
        "mesh 239.1.1.1,239.1.1.2",
        "compat discard 239.1.1.1 7",
    ] {
        let output = home.run(line);
        assert_eq!(output.code, Some(2), "{line}: {}{}", output.out, output.err);
        if line.starts_with("rpc udp://") {
            continue; // its grammar has no such scheme
        }
        assert!(output.err.contains("error[E116]") && output.err.contains("try: "), "{line}: {}", output.err);
    }
    home.run("echo -o bind=239.1.1.1").ends_with(2).says(&["is a multicast group, not one peer"]);
}
