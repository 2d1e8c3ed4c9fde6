//! What stands in the queues of this machine's network stack: queueing disciplines and counters of devices over rtnetlink, bytes in
//! sockets over sock_diag(7). Questions only; nothing is changed.

use std::io;

use crate::netlink::{Family, Netlink, attributes, push_attribute};

const RTM_GETLINK: u16 = 18;
const RTM_GETQDISC: u16 = 38;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const IFLA_IFNAME: u16 = 3;
const IFLA_STATS64: u16 = 23;
const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;
const TC_H_ROOT: u32 = u32::MAX;
const INET_DIAG_INFO: u16 = 2;
const IPPROTO_TCP: u8 = 6;
/// ESTABLISHED, FIN_WAIT1, CLOSE_WAIT.
const STATES_THAT_SEND: u32 = 1 << 1 | 1 << 4 | 1 << 8;
/// Bytes of `struct inet_diag_msg`, and where its fields lie.
const DIAG: usize = 72;
const COOKIE: usize = 44;
const WRITE_QUEUE: usize = 60;

/// A device of the calling thread's network namespace.
pub struct Device {
    netlink: Netlink,
    index: u32,
}

/// Bytes that passed a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub received: u64,
    pub sent: u64,
}

/// A queueing discipline with its statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// `tbf`, `fq_codel`.
    pub kind: String,
    /// It is the root: its statistics include those of the others.
    pub is_root: bool,
    /// Bytes that wait, with the headers of the link.
    pub backlog_bytes: u32,
    /// Packets that wait.
    pub backlog_packets: u32,
    /// Bytes that left it.
    pub sent_bytes: u64,
    /// Packets dropped.
    pub drops: u32,
    /// Packets with a congestion mark (ECN); `None`: this kind does not mark.
    pub marks: Option<u32>,
}

impl Device {
    /// The device of this name.
    ///
    /// # Errors
    /// There is none, or the kernel does not tell.
    pub fn named(name: &str) -> io::Result<Self> {
        let netlink = Netlink::open(Family::Route)?;
        let mut request = vec![0_u8; 16]; // struct ifinfomsg
        push_attribute(&mut request, IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        let answers = netlink.get(RTM_GETLINK, &request)?;
        let index = answers.iter().find_map(|(_, body)| word(body, 4)).ok_or(io::ErrorKind::NotFound)?;
        Ok(Self { netlink, index })
    }

    /// What passed it so far.
    ///
    /// # Errors
    /// It is gone, or the kernel does not count.
    pub fn passed(&self) -> io::Result<Passed> {
        let mut request = vec![0_u8; 16];
        request[4..8].copy_from_slice(&self.index.to_ne_bytes());
        let answers = self.netlink.get(RTM_GETLINK, &request)?;
        answers.iter().find_map(|(_, body)| passed(body)).ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Its queueing disciplines, but for those that see what comes in.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn qdiscs(&self) -> io::Result<Vec<Qdisc>> {
        let mut request = vec![0_u8; 20]; // struct tcmsg
        request[4..8].copy_from_slice(&self.index.to_ne_bytes());
        let answers = self.netlink.dump(RTM_GETQDISC, &request)?;
        let own = answers.iter().filter(|(_, body)| word(body, 4) == Some(self.index));
        Ok(own.filter_map(|(_, body)| qdisc(body)).collect())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// `struct rtnl_link_stats64` of a device.
fn passed(body: &[u8]) -> Option<Passed> {
    let stats = attributes(body.get(16..)?).find(|(kind, _)| *kind == IFLA_STATS64)?.1;
    Some(Passed { received: long(stats, 16)?, sent: long(stats, 24)? })
}

fn qdisc(body: &[u8]) -> Option<Qdisc> {
    let mut found = Qdisc { is_root: word(body, 12)? == TC_H_ROOT, ..Qdisc::default() };
    for (kind, value) in attributes(body.get(20..)?) {
        match kind {
            TCA_KIND => {
                found.kind = String::from_utf8_lossy(value.split(|byte| *byte == 0).next()?).into_owned();
            }
            TCA_STATS2 => read_statistics(&mut found, value),
            _ => {}
        }
    }
    (!found.kind.is_empty() && !["ingress", "clsact"].contains(&found.kind.as_str())).then_some(found)
}

/// The kind stands before its statistics.
fn read_statistics(qdisc: &mut Qdisc, statistics: &[u8]) {
    for (kind, value) in attributes(statistics) {
        match kind {
            TCA_STATS_BASIC => qdisc.sent_bytes = long(value, 0).unwrap_or(0),
            TCA_STATS_QUEUE => {
                let [packets, bytes, drops] = [0, 4, 8].map(|at| word(value, at).unwrap_or(0));
                (qdisc.backlog_packets, qdisc.backlog_bytes, qdisc.drops) = (packets, bytes, drops);
            }
            TCA_STATS_APP => {
                qdisc.marks = match qdisc.kind.as_str() {
                    // struct tc_fq_codel_xstats of type 0, struct tc_codel_xstats, struct tc_red_xstats.
                    "fq_codel" if word(value, 0) == Some(0) => word(value, 12),
                    "codel" => word(value, 24),
                    "red" => word(value, 12),
                    _ => None,
                };
            }
            _ => {}
        }
    }
}

/// What a TCP socket holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes that the other end has not acknowledged, sent or not (SIOCOUTQ).
    pub unacknowledged: u32,
    /// Those of them that have not left the socket (`tcpi_notsent_bytes`).
    pub unsent: u32,
    /// Its smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Bytes that the other end has acknowledged since it is connected (`tcpi_bytes_acked`).
    pub acknowledged: u64,
    /// Bytes that have come since then (`tcpi_bytes_received`).
    pub received: u64,
}

/// Sockets of the calling thread's network namespace.
pub struct Sockets(Netlink);

impl Sockets {
    /// Opens the question.
    ///
    /// # Errors
    /// As socket(2): a kernel without sock_diag, a seccomp filter.
    pub fn open() -> io::Result<Self> {
        Netlink::open(Family::SockDiag).map(Self)
    }

    /// What the TCP sockets with these cookies (SO_COOKIE) hold, as far as they send still.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn held(&self, cookies: &[u64]) -> io::Result<Vec<Held>> {
        let mut found = Vec::new();
        for family in [2_u8, 10] {
            let mut request = vec![0_u8; 56]; // struct inet_diag_req_v2
            (request[0], request[1], request[2]) = (family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1));
            request[4..8].copy_from_slice(&STATES_THAT_SEND.to_ne_bytes());
            let answers = self.0.dump(SOCK_DIAG_BY_FAMILY, &request)?;
            found.extend(answers.iter().filter_map(|(_, body)| held(body, cookies)));
        }
        Ok(found)
    }
}

fn held(body: &[u8], cookies: &[u64]) -> Option<Held> {
    let cookie = u64::from(word(body, COOKIE)?) | u64::from(word(body, COOKIE + 4)?) << 32;
    let info = attributes(body.get(DIAG..)?).find(|(kind, _)| *kind == INET_DIAG_INFO)?.1;
    let held = Held {
        unacknowledged: word(body, WRITE_QUEUE)?,
        unsent: word(info, 144)?,
        rtt_us: word(info, 68)?,
        acknowledged: long(info, 120)?,
        received: long(info, 128)?,
    };
    cookies.contains(&cookie).then_some(held)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn loopback_counts_what_passes_it() {
        let Ok(device) = Device::named("lo") else { return };
        let before = device.passed().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(&[1; 10_000]).unwrap();
        let after = device.passed().unwrap();
        assert!(after.sent >= before.sent + 10_000 && after.received >= before.received + 10_000);
        assert!(device.qdiscs().unwrap().iter().all(|qdisc| !qdisc.kind.is_empty()));
        assert!(Device::named("nosuchdevice").is_err());
    }

    #[test]
    fn bytes_that_are_not_read_stand_in_the_sender_s_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut sent = 0;
        while let Ok(count) = stream.write(&[7; 1 << 16]) {
            sent += count;
        }
        let cookie = crate::cookie::cookie(stream.as_fd()).unwrap();
        let Ok(sockets) = Sockets::open() else { return };
        let held = sockets.held(&[cookie]).unwrap();
        assert_eq!(held.len(), 1, "{held:?}");
        assert!(held[0].unsent > 0 && held[0].unacknowledged >= held[0].unsent, "{held:?} of {sent}");
        assert!(held[0].unacknowledged as usize <= sent && sockets.held(&[]).unwrap().is_empty());
    }

    #[test]
    fn statistics_of_a_discipline_are_read_by_their_kind() {
        let mut statistics = Vec::new();
        push_attribute(&mut statistics, TCA_STATS_BASIC, &[9_000_u64.to_ne_bytes(), [0; 8]].concat());
        let queue: Vec<u8> = [3_u32, 4_542, 2, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        push_attribute(&mut statistics, TCA_STATS_QUEUE, &queue);
        let own: Vec<u8> = [0_u32, 1_514, 0, 5, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        push_attribute(&mut statistics, TCA_STATS_APP, &own);
        let body = |kind: &[u8]| {
            let mut body = vec![0; 20];
            body[12..16].copy_from_slice(&TC_H_ROOT.to_ne_bytes());
            push_attribute(&mut body, TCA_KIND, kind);
            push_attribute(&mut body, TCA_STATS2, &statistics);
            body
        };
        let read = qdisc(&body(b"fq_codel\0")).unwrap();
        assert_eq!((read.backlog_packets, read.backlog_bytes, read.drops), (3, 4_542, 2));
        assert_eq!((read.sent_bytes, read.marks, read.is_root), (9_000, Some(5), true));
        assert_eq!(qdisc(&body(b"pfifo\0")).unwrap().marks, None);
        assert_eq!(qdisc(&body(b"ingress\0")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = (qdisc(&bytes), passed(&bytes), held(&bytes, &[0]));
        }
    }
}
