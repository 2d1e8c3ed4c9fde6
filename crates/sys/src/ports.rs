//! Why no local port is left for a connection: the kernel says `EADDRNOTAVAIL` or `EADDRINUSE`, which reads like a wrong address.

use std::io;

use rustix::io::Errno;

/// Where the ports of connections come from (ip(7)).
const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
/// How the sentence begins.
const NONE_LEFT: &str = "no local port is left";
/// Sockets of this network namespace by protocol (proc(5)).
const SOCKETS: [&str; 2] = ["/proc/net/sockstat", "/proc/net/sockstat6"];

/// What connect(2) or bind(2) to any port said, in words where all local ports are taken.
pub fn explained(error: Errno) -> io::Error {
    let plain = io::Error::from(error);
    if ![Errno::ADDRNOTAVAIL, Errno::ADDRINUSE].contains(&error) {
        return plain;
    }
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    match exhausted(&text(RANGE), &SOCKETS.map(text).concat()) {
        Some(why) => io::Error::new(plain.kind(), why),
        None => plain,
    }
}

/// What [`explained`] says where all local ports are taken; nothing of another error.
pub fn used_up(error: &io::Error) -> Option<String> {
    error.get_ref().map(ToString::to_string).filter(|text| text.starts_with(NONE_LEFT))
}

/// The sentence, if so many connections are there. Each takes a port, if they lead to one address; with fewer than half of the ports
/// taken the address is what is wrong.
fn exhausted(range: &str, sockets: &str) -> Option<String> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u16>().ok());
    let (least, most) = (ends.next()??, ends.next()??);
    let count = |name: &str| -> u64 {
        let lines = sockets.lines().filter(|line| line.starts_with("TCP"));
        let numbers = lines.filter_map(|line| line.split_whitespace().skip_while(|word| *word != name).nth(1));
        numbers.filter_map(|number| number.parse::<u64>().ok()).sum()
    };
    let (open, waiting) = (count("inuse"), count("tw"));
    (open + waiting >= u64::from(most.saturating_sub(least)) / 2).then(|| {
        format!(
            "{NONE_LEFT}: {least} to {most} (net.ipv4.ip_local_port_range), {open} TCP sockets are \
             open and {waiting} in TIME_WAIT"
        )
    })
}

/// How often the accept queue of a server of this network namespace had no room, since it was made (ListenOverflows); `None`: the kernel
/// does not tell.
pub fn overflows() -> Option<u64> {
    counter(&std::fs::read_to_string("/proc/net/netstat").ok()?, "TcpExt:", "ListenOverflows")
}

/// A number of a file of which a line has names and the next their values, both behind the same word.
fn counter(text: &str, of: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(of));
    let at = lines.next()?.split_whitespace().position(|word| word == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stands_below_its_name() {
        let text = "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 3 17\nIpExt: InNoRoutes\nIpExt: 9\n";
        assert_eq!(counter(text, "TcpExt:", "ListenOverflows"), Some(17));
        assert_eq!((counter(text, "TcpExt:", "ListenDrops"), counter(text, "Tcp:", "x")), (None, None));
        assert!(overflows().is_some());
    }

    #[test]
    fn ports_and_connections_in_time_wait_are_counted() {
        let sockets = |tw: u32| {
            format!(
                "sockets: used 9\nTCP: inuse 3 orphan 0 tw {tw} alloc 4 mem 1\nUDP: inuse 1 mem 0\nTCP6: inuse 2\nUDP6: inuse 7\n"
            )
        };
        assert_eq!(
            exhausted("40000\t40200\n", &sockets(200)).unwrap(),
            "no local port is left: 40000 to 40200 (net.ipv4.ip_local_port_range), 5 TCP sockets are open and \
             200 in TIME_WAIT"
        );
        assert_eq!(exhausted("40000\t40200\n", &sockets(20)), None, "IPv6 that is off is no lack of ports");
        assert_eq!(exhausted("", &sockets(200)), None);
        assert_eq!(explained(Errno::CONNREFUSED).kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(explained(Errno::ADDRNOTAVAIL).kind(), io::ErrorKind::AddrNotAvailable);
    }
}
