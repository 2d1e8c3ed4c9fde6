//! The kernel's texts of counters. A column that is missing or no number is left out, never 0.

use crate::doctor::cgroup;

/// What a parser tells: a name as the kernel writes it, and its value.
pub(super) type Emit<'a> = &'a mut dyn FnMut(&str, u64);

/// In `/proc/net/snmp`: first word of the line, the kernel's name, ours.
pub(super) const SNMP: [(&str, &str, &str); 7] = [
    ("Ip:", "FragCreates", "Ip.FragCreates"),
    ("Ip:", "FragFails", "Ip.FragFails"),
    ("Ip:", "ReasmFails", "Ip.ReasmFails"),
    ("Tcp:", "RetransSegs", "Tcp.RetransSegs"),
    ("Udp:", "RcvbufErrors", "Udp.RcvbufErrors"),
    ("Udp:", "SndbufErrors", "Udp.SndbufErrors"),
    ("Udp:", "MemErrors", "Udp.MemErrors"),
];
/// In `/proc/net/snmp6`.
pub(super) const SNMP6: [(&str, &str); 6] = [
    ("Ip6FragCreates", "Ip6.FragCreates"),
    ("Ip6FragFails", "Ip6.FragFails"),
    ("Ip6ReasmFails", "Ip6.ReasmFails"),
    ("Udp6RcvbufErrors", "Udp6.RcvbufErrors"),
    ("Udp6SndbufErrors", "Udp6.SndbufErrors"),
    ("Udp6MemErrors", "Udp6.MemErrors"),
];

/// `/proc/net/netstat` and `/proc/net/snmp`: a line of names, then a line of values, both with the same first word.
pub(super) fn pairs(text: &str, first: &str, emit: Emit) {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(first));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return };
    for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
        if let Ok(value) = value.parse() {
            emit(name, value);
        }
    }
}

pub(super) fn snmp(text: &str, emit: Emit) {
    for line in ["Ip:", "Tcp:", "Udp:"] {
        pairs(text, line, &mut |name, value| {
            let wanted = SNMP.iter().find(|(first, theirs, _)| *first == line && *theirs == name);
            if let Some((.., ours)) = wanted {
                emit(ours, value);
            }
        });
    }
}

pub(super) fn snmp6(text: &str, emit: Emit) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        if let (Some((_, ours)), Ok(value)) = (SNMP6.iter().find(|(theirs, _)| *theirs == name), value.parse()) {
            emit(ours, value);
        }
    }
}

/// One line a CPU, hexadecimal: packets, dropped, time_squeeze ...
pub(super) fn softnet(text: &str, emit: Emit) {
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(1).map(|word| u64::from_str_radix(word, 16));
        for name in ["dropped", "time_squeeze"] {
            if let Some(Ok(value)) = words.next() {
                emit(name, value);
            }
        }
    }
}

/// `/proc/net/dev`: packets that each device took and gave.
pub(super) fn devices(text: &str, emit: Emit) {
    for line in text.lines() {
        let Some((name, counts)) = line.split_once(':') else { continue };
        let counts: Vec<&str> = counts.split_whitespace().collect();
        // Eight columns of what came, then eight of what left; packets are the second of each.
        for (what, column) in [("rx_packets", 1), ("tx_packets", 9)] {
            if let Some(Ok(value)) = counts.get(column).map(|count| count.parse()) {
                emit(&format!("{}.{what}", name.trim()), value);
            }
        }
    }
}

/// `/proc/stat`: of all CPUs, and of each what programs and the kernel for them used of it, and what was stolen. The time
/// of interrupts is nobody's program.
pub(super) fn stat(text: &str, emit: Emit) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (name, value) = match words.next() {
            Some("cpu") => ("steal", words.nth(7)),
            Some("ctxt") => ("ctxt", words.next()),
            Some("intr") => ("intr", words.next()),
            Some(cpu) if cpu.starts_with("cpu") => {
                // user nice system idle iowait irq softirq steal
                let ticks: Vec<u64> = words.take(8).map_while(|word| word.parse().ok()).collect();
                if let [user, nice, system, .., steal] = ticks[..] {
                    emit(&format!("{cpu}.busy"), user.wrapping_add(nice).wrapping_add(system));
                    if ticks.len() == 8 {
                        emit(&format!("{cpu}.steal"), steal);
                    }
                }
                continue;
            }
            _ => continue,
        };
        if let Some(Ok(value)) = value.map(str::parse) {
            emit(name, value);
        }
    }
}

/// All interrupts of each CPU: the columns summed. `ERR` and `MIS` have one number for the whole machine.
pub(super) fn interrupts(text: &str, emit: Emit) {
    let mut lines = text.lines();
    let Some(cpus) = lines.next() else { return };
    let mut sums: Vec<(&str, u64)> =
        cpus.split_whitespace().filter_map(|cpu| Some((cpu.strip_prefix("CPU")?, 0))).collect();
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if matches!(name.trim(), "ERR" | "MIS") {
            continue;
        }
        for (sum, word) in sums.iter_mut().zip(rest.split_whitespace()) {
            let Ok(value) = word.parse::<u64>() else { break };
            sum.1 = sum.1.wrapping_add(value);
        }
    }
    let mut name = String::with_capacity(8);
    for (cpu, sum) in sums {
        name.clear();
        name.push_str("cpu");
        name.push_str(cpu);
        emit(&name, sum);
    }
}

pub(super) fn cpu_stat(text: &str, emit: Emit) {
    if let Some((times, microseconds)) = cgroup::throttling(text) {
        emit("nr_throttled", times);
        emit("throttled_usec", microseconds);
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=12345`.
pub(super) fn pressure(text: &str, emit: Emit) {
    let some = text.lines().find(|line| line.starts_with("some "));
    if let Some(Ok(total)) = some.and_then(|line| line.split("total=").nth(1)).map(|total| total.trim().parse()) {
        emit("some_usec", total);
    }
}

pub(super) fn number(text: &str, name: &str, emit: Emit) {
    if let Ok(value) = text.trim().parse() {
        emit(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(parse: fn(&str, Emit), text: &str) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        parse(text, &mut |name, value| all.push((name.to_owned(), value)));
        all
    }

    fn one(name: &str, value: u64) -> (String, u64) {
        (name.to_owned(), value)
    }

    #[test]
    fn names_stand_above_their_values() {
        let tcp: fn(&str, Emit) = |text, emit| pairs(text, "Tcp:", emit);
        let both =
            "Tcp: RetransSegs\nTcp: 7\nUdp: RcvbufErrors X MemErrors\nUdp: 1 2 3\nUdpLite: MemErrors\nUdpLite: 9\n";
        let read = [one("Tcp.RetransSegs", 7), one("Udp.RcvbufErrors", 1), one("Udp.MemErrors", 3)];
        assert_eq!(parsed(snmp, both), read);
        let text = "Ip: A\nIp: 1\nTcp: RtoMin MaxConn RetransSegs\nTcp: 200 -1 7\n";
        assert_eq!(parsed(tcp, text), [one("RtoMin", 200), one("RetransSegs", 7)]);
        assert_eq!(parsed(tcp, "Tcp: A B C\nTcp: 1 2\n"), [one("A", 1), one("B", 2)], "a column is missing");
        assert_eq!(parsed(tcp, "Tcp: A\n"), []);
        assert_eq!(
            parsed(snmp6, "Udp6RcvbufErrors \t 5\nUdp6\nUdpLite6RcvbufErrors 9\n"),
            [one("Udp6.RcvbufErrors", 5)]
        );
    }

    #[test]
    fn every_source_is_read_as_the_kernel_writes_it() {
        let text = "01bbaadd 0000000a 00000002 0\n00000001 00000001 zz\nonly\n";
        assert_eq!(parsed(softnet, text), [one("dropped", 10), one("time_squeeze", 2), one("dropped", 1)]);
        let text = "Inter-| Receive | Transmit\n face |bytes\n lo: 9 2 0 0 0 0 0 0 9 3 0 0 0 0 0 0\neth0:1 x\n";
        assert_eq!(parsed(devices, text), [one("lo.rx_packets", 2), one("lo.tx_packets", 3)]);
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8\nintr 99 1 2\nctxt 12\n";
        let of_all = [one("steal", 8), one("cpu0.busy", 6), one("cpu0.steal", 8), one("intr", 99), one("ctxt", 12)];
        assert_eq!(parsed(stat, text), of_all);
        assert_eq!(parsed(stat, "cpu7 1 2 3 4\ncpufreq\n"), [one("cpu7.busy", 6)]);
        assert_eq!(parsed(stat, "cpu 1 2 3\nintr\n"), [], "a kernel without steal");
        let text = "      CPU0  CPU2\n 24:  1  5  IO-APIC 5-edge ACPI\nLOC: 10 20 Local timer\nERR: 3\nbroken\nX: 1\n";
        assert_eq!(parsed(interrupts, text), [one("cpu0", 12), one("cpu2", 25)]);
        assert_eq!(parsed(pressure, "some avg10=0.42 total=123\nfull total=9\n"), [one("some_usec", 123)]);
        assert_eq!(parsed(pressure, "some\n"), []);
        assert_eq!(parsed(cpu_stat, "nr_throttled 2\nthrottled_usec 30\n").len(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "(\\PC|\n|TcpExt: |intr |cpu |CPU1 |some total=|:|[0-9a-f]{1,20} ){0,40}") {
            for parse in [snmp, snmp6, softnet, devices, stat, interrupts, cpu_stat, pressure, |text: &str, emit: Emit| pairs(text, "TcpExt:", emit)] {
                parsed(parse, &text);
            }
        }
    }
}
