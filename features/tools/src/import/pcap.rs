//! Captures of packets (pcap, pcapng), as round trips of TCP: from the first byte of a request to the first byte of its answer, as they passed
//! where the capture was made.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use msgpath_core::Histogram;

use super::{Case, Form, Round, Told, Unread};

pub(super) static FORM: Form = Form {
    name: "a capture of packets (pcap)",
    is: |begin| Numbers::of(begin).is_some() || Blocks::of(begin).is_some(),
    read,
};

/// Bytes of the head of a file, and of each packet.
const HEAD: usize = 24;
const PACKET: usize = 16;
/// Most connections that are followed.
const MOST_CONNECTIONS: usize = 100_000;
/// Rounds that the time of a capture is cut into.
const ROUNDS: u64 = 40;

/// How the numbers of a file are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbers {
    big: bool,
    /// A step of the fraction of a second, ns.
    step_ns: u64,
}

impl Numbers {
    /// By the first bytes: either order, µs or ns, version 2.
    fn of(begin: &[u8]) -> Option<Self> {
        let head = begin.get(..6)?;
        [(0xa1b2_c3d4_u32, 1_000), (0xa1b2_3c4d, 1)].into_iter().find_map(|(magic, step_ns)| {
            let big = head[..4] == magic.to_be_bytes() && head[4..] == [0, 2];
            let little = head[..4] == magic.to_le_bytes() && head[4..] == [2, 0];
            (big || little).then_some(Self { big, step_ns })
        })
    }

    fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self.big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    }
}

/// A packet as it was captured.
struct Packet<'a> {
    /// The kind of its link.
    link: u32,
    /// ns since 1970.
    stamp: u64,
    frame: &'a [u8],
}

/// The packets of a pcap, as far as they are whole.
fn classic(bytes: &[u8], numbers: Numbers, link: u32) -> impl Iterator<Item = Packet<'_>> {
    let mut at = HEAD;
    std::iter::from_fn(move || {
        let head = bytes.get(at..at + PACKET)?;
        let word = |place: usize| numbers.u32(head, place).unwrap_or_default();
        let stamp = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * numbers.step_ns;
        let frame = bytes.get(at + PACKET..)?.get(..word(8) as usize)?;
        at += PACKET + frame.len();
        Some(Packet { link, stamp, frame })
    })
}

/// The packets of a pcapng, as far as its blocks are whole.
struct Blocks<'a> {
    bytes: &'a [u8],
    at: usize,
    numbers: Numbers,
    /// Of each interface of the section: its link, and steps of its stamps in a second.
    interfaces: Vec<(u32, u64)>,
}

/// Kinds of blocks: a section, an interface, a packet.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
/// Interfaces of a section, at most.
const MOST_INTERFACES: usize = 1024;

impl<'a> Blocks<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let numbers = Self::order(bytes)?;
        Some(Self { bytes, at: 0, numbers, interfaces: Vec::new() })
    }

    /// How a section that begins here writes its numbers.
    fn order(block: &[u8]) -> Option<Numbers> {
        (block.get(..4)? == SECTION.to_be_bytes()).then_some(())?;
        let magic = block.get(8..12)?;
        let big = magic == 0x1a2b_3c4d_u32.to_be_bytes();
        (big || magic == 0x1a2b_3c4d_u32.to_le_bytes()).then_some(Numbers { big, step_ns: 1 })
    }

    /// Takes an interface: its link, and the step of its stamps, which is a µs unless an option says otherwise.
    fn interface(&mut self, body: &[u8]) {
        let numbers = self.numbers;
        let half = |at: usize| {
            let two: [u8; 2] = body.get(at..at + 2)?.try_into().ok()?;
            Some(if numbers.big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) })
        };
        let (mut steps, mut at) = (1_000_000, 8);
        while let (Some(code @ 1..), Some(length)) = (half(at), half(at + 2)) {
            if let (9, Some(value)) = (code, body.get(at + 4)) {
                steps = match value & 0x80 {
                    0 => 10_u64.checked_pow(u32::from(*value)),
                    _ => 1_u64.checked_shl(u32::from(value & 0x7f)),
                }
                .unwrap_or(1_000_000);
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        if self.interfaces.len() < MOST_INTERFACES {
            self.interfaces.push((half(0).unwrap_or_default().into(), steps));
        }
    }

    /// A packet of a known interface.
    fn packet(&self, body: &'a [u8]) -> Option<Packet<'a>> {
        let word = |at: usize| self.numbers.u32(body, at);
        let (link, steps) = *self.interfaces.get(word(0)? as usize)?;
        let ticks = u128::from(word(4)?) << 32 | u128::from(word(8)?);
        let stamp = u64::try_from(ticks * 1_000_000_000 / u128::from(steps)).ok()?;
        Some(Packet { link, stamp, frame: body.get(20..)?.get(..word(12)? as usize)? })
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            if let Some(numbers) = Self::order(rest) {
                self.numbers = numbers;
                self.interfaces.clear();
            }
            let (kind, length) = (self.numbers.u32(rest, 0)?, self.numbers.u32(rest, 4)? as usize);
            let body = rest.get(8..length.checked_sub(4)?)?;
            if length < 12 || length % 4 != 0 {
                return None;
            }
            self.at += length;
            match kind {
                INTERFACE => self.interface(body),
                ENHANCED_PACKET => {
                    if let Some(packet) = self.packet(body) {
                        return Some(packet);
                    }
                }
                _ => {}
            }
        }
    }
}

/// What a packet of TCP says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    sequence: u32,
    /// Bytes of payload, as the head of IP says: a capture may have cut them off.
    payload: u32,
    begins: bool,
    accepts: bool,
}

/// Two bytes of a packet.
fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The packet of IP in a frame of this link.
fn ip_of(link: u32, frame: &[u8]) -> Option<&[u8]> {
    match link {
        // Loopback of BSD; raw; Ethernet; Linux "cooked", both versions.
        0 => frame.get(4..),
        12 | 101 | 228 | 229 => Some(frame),
        1 => {
            let tagged = matches!(two(frame, 12)?, 0x8100 | 0x88a8);
            let at = if tagged { 16 } else { 12 };
            matches!(two(frame, at)?, 0x0800 | 0x86dd).then(|| frame.get(at + 2..))?
        }
        113 => frame.get(16..),
        276 => frame.get(20..),
        _ => None,
    }
}

/// The segment of TCP in a packet of IP; `None`: it is another, a fragment, or cut too short.
fn segment(ip: &[u8]) -> Option<Segment> {
    let (from, to, tcp, length) = match ip.first()? >> 4 {
        4 => {
            let head = usize::from(ip[0] & 15) * 4;
            let whole = ip.get(9) == Some(&6) && two(ip, 6)? & 0x3fff == 0;
            let address = |at: usize| Some(IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(ip.get(at..at + 4)?).ok()?)));
            let length = usize::from(two(ip, 2)?).checked_sub(head)?;
            whole.then_some((address(12)?, address(16)?, ip.get(head..)?, length))?
        }
        6 => {
            let address =
                |at: usize| Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(ip.get(at..at + 16)?).ok()?)));
            (ip.get(6) == Some(&6)).then_some((address(8)?, address(24)?, ip.get(40..)?, usize::from(two(ip, 4)?)))?
        }
        _ => return None,
    };
    let (head, flags) = (usize::from(tcp.get(12)? >> 4) * 4, *tcp.get(13)?);
    Some(Segment {
        from: (from, two(tcp, 0)?),
        to: (to, two(tcp, 2)?),
        sequence: u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?),
        payload: length.checked_sub(head)? as u32,
        begins: flags & 0x12 == 0x02,
        accepts: flags & 0x12 == 0x12,
    })
}

struct Connection {
    server: (IpAddr, u16),
    /// When the request began that has no answer yet, ns.
    asked: Option<u64>,
    /// The byte that comes next from the client, and from the server: what is behind it was sent before.
    next: [Option<u32>; 2],
}

impl Connection {
    fn of(first: &Segment) -> Self {
        // Without its begin: the server is who has the lower port.
        let is_client = first.begins || (!first.accepts && first.from.1 >= first.to.1);
        let server = if is_client { first.to } else { first.from };
        Self { server, asked: None, next: [None; 2] }
    }

    /// Takes a segment with payload at this time: how long an answer took, where it is the first of one.
    fn takes(&mut self, segment: &Segment, at: u64) -> Option<u64> {
        let by_server = segment.from == self.server;
        let next = &mut self.next[usize::from(by_server)];
        let end = segment.sequence.wrapping_add(segment.payload);
        // Sent again: its end is not beyond what was sent.
        if next.is_some_and(|next| (end.wrapping_sub(next) as i32) <= 0) {
            return None;
        }
        *next = Some(end);
        match by_server {
            true => self.asked.take().and_then(|asked| at.checked_sub(asked)),
            false => {
                self.asked.get_or_insert(at);
                None
            }
        }
    }
}

/// What was seen of a server: times, with when they ended.
type Times = BTreeMap<(IpAddr, u16), Vec<(u64, u64)>>;

fn read(bytes: &[u8], _: Option<f64>) -> Result<Told, Unread> {
    let mut packets: Box<dyn Iterator<Item = Packet<'_>>> = match Blocks::of(bytes) {
        Some(blocks) => Box::new(blocks),
        None => {
            let numbers = Numbers::of(bytes).ok_or_else(|| Unread::new("its head is none"))?;
            let link = numbers.u32(bytes, 20).ok_or_else(|| Unread::new("its head is cut"))? & 0xffff;
            Box::new(classic(bytes, numbers, link))
        }
    };
    let (mut connections, mut times) = (BTreeMap::new(), Times::new());
    let (mut segments, mut left_out, mut links) = (0_u64, 0_u64, BTreeSet::new());
    let (mut first, mut last) = (u64::MAX, 0);
    for Packet { link, stamp, frame } in &mut packets {
        links.insert(link);
        (first, last) = (first.min(stamp), last.max(stamp));
        let Some(segment) = ip_of(link, frame).and_then(segment) else { continue };
        segments += 1;
        let key = (segment.from.min(segment.to), segment.from.max(segment.to));
        if connections.len() >= MOST_CONNECTIONS && !connections.contains_key(&key) {
            left_out += 1;
            continue;
        }
        if segment.begins {
            connections.insert(key, Connection::of(&segment));
        }
        let connection = connections.entry(key).or_insert_with(|| Connection::of(&segment));
        if segment.payload > 0
            && let Some(ns) = connection.takes(&segment, stamp)
        {
            times.entry(connection.server).or_default().push((stamp, ns));
        }
    }
    if segments == 0 {
        return Err(Unread {
            why: match links.first() {
                Some(link) => format!("no packet in it is one of TCP over a link that is known (its link is {link})"),
                None => "no packet in it is one of TCP".into(),
            },
            hint: "tcpdump -w FILE tcp",
        });
    }
    let mut lacks = vec![
        "a round trip is from the first packet of a request to the first of its answer where the capture was made; requests that overlap are one".into(),
        "nothing is known of both ends".into(),
    ];
    if left_out > 0 {
        lacks.push(format!("{left_out} packets of more than {MOST_CONNECTIONS} connections were left out"));
    }
    told(times, (first, last), connections.len(), lacks)
}

/// A case for each server, the one with the most round trips first.
fn told(times: Times, (first, last): (u64, u64), connections: usize, lacks: Vec<String>) -> Result<Told, Unread> {
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by_key(|(_, times)| std::cmp::Reverse(times.len()));
    let (servers, slice) = (times.len(), (last.saturating_sub(first) / ROUNDS).max(1));
    times.truncate(super::MOST_CASES);
    let case = |((ip, port), times): &((IpAddr, u16), Vec<(u64, u64)>)| {
        let mut rounds: BTreeMap<u64, Histogram> = BTreeMap::new();
        for (at, ns) in times {
            rounds.entry(((at - first) / slice).min(ROUNDS - 1)).or_default().record(*ns);
        }
        let round = |(number, times): (u64, Histogram)| Round {
            start_ns: number * slice,
            ns: slice,
            times: times.to_sparse(),
            ..Round::default()
        };
        let name = std::net::SocketAddr::new(*ip, *port).to_string();
        Case { name, transport: "tcp", rounds: rounds.into_iter().map(round).collect(), ..Case::default() }
    };
    let cases: Vec<Case> = times.iter().map(case).collect();
    let target = cases.first().map_or_else(String::new, |case| case.name.clone());
    let tool = format!("TCP, connections: {connections}, servers: {servers}");
    Told { tool, target, began: first / 1_000_000_000, cases, lacks, ..Told::default() }.checked()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of Ethernet at this µs: ports, flags, sequence number, payload.
    fn packet(us: u32, (from, to): (u16, u16), flags: u8, sequence: u32, payload: u16) -> Vec<u8> {
        let mut frame =
            [[0; 12].as_slice(), &[8, 0, 0x45, 0], &(40 + payload).to_be_bytes(), &[0, 0, 0x40, 0, 64, 6, 0, 0]]
                .concat();
        let host = |port: u16| [10, 0, 0, if port == 80 { 2 } else { 1 }];
        frame.extend([host(from), host(to)].concat());
        frame.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
        frame.extend([sequence.to_be_bytes(), [0; 4]].concat());
        frame.extend([0x50, flags, 0, 0, 0, 0, 0, 0]);
        // The capture has cut off the payload.
        let words = [1_700_000_000, us, frame.len() as u32, frame.len() as u32 + u32::from(payload)];
        [words.map(u32::to_le_bytes).concat(), frame].concat()
    }

    fn file(packets: &[Vec<u8>]) -> Vec<u8> {
        let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1];
        [head.map(u32::to_le_bytes).concat(), packets.concat()].concat()
    }

    const UP: (u16, u16) = (40_000, 80);
    const DOWN: (u16, u16) = (80, 40_000);

    #[test]
    fn round_trips_are_from_request_to_answer() {
        let bytes = file(&[
            packet(0, UP, 0x02, 99, 0),
            packet(50, DOWN, 0x12, 499, 0),
            packet(100, UP, 0x18, 100, 10),
            packet(130, UP, 0x18, 110, 10),
            packet(150, UP, 0x18, 110, 10), // again
            packet(300, DOWN, 0x18, 500, 1000),
            packet(310, DOWN, 0x18, 1500, 1000),
            packet(400, UP, 0x18, 120, 10),
            packet(450, UP, 0x10, 130, 0), // an acknowledgement
            packet(700, DOWN, 0x18, 2500, 5),
        ]);
        let told = read(&bytes, None).unwrap();
        assert_eq!((told.cases.len(), told.cases[0].name.as_str(), told.began), (1, "10.0.0.2:80", 1_700_000_000));
        let rounds = &told.cases[0].rounds;
        let times: Vec<_> = rounds.iter().map(|round| (round.times.total(), round.times.min())).collect();
        assert_eq!(times, [(1, Some(200_000)), (1, Some(300_000))]);
        // Without its begin, and cut in the middle of a packet.
        let bytes = file(&[packet(0, DOWN, 0x18, 1, 5), packet(1, UP, 0x18, 1, 5), packet(3, DOWN, 0x18, 6, 5)]);
        let told = read(&[bytes.as_slice(), &[1; 20]].concat(), None).unwrap();
        assert_eq!((told.target.as_str(), told.cases[0].rounds[0].times.max()), ("10.0.0.2:80", Some(2_000)));
    }

    /// The packets of a pcap as a pcapng, with stamps in steps of 10^-9 s where `ns`.
    fn blocks(pcap: &[u8], ns: bool, big: bool) -> Vec<u8> {
        let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let block = |kind: u32, body: &[u8]| {
            let mut body = body.to_vec();
            body.resize(body.len().next_multiple_of(4), 0);
            let length = word(12 + body.len() as u32);
            [word(kind).as_slice(), &length, &body, &length].concat()
        };
        let option = [half(9).as_slice(), &half(1), &[9, 0, 0, 0], &[0; 4]].concat();
        let interface = [half(1).as_slice(), &[0; 6], if ns { &option } else { &[] }].concat();
        let section = [word(0x1a2b_3c4d).as_slice(), &half(1), &half(0), &[0xff; 8]].concat();
        let mut out = [block(SECTION, &section), block(INTERFACE, &interface), block(5, b"statistics!!")].concat();
        for Packet { stamp, frame, .. } in classic(pcap, Numbers::of(pcap).unwrap(), 1) {
            let ticks = if ns { stamp } else { stamp / 1000 };
            let words = [0, (ticks >> 32) as u32, ticks as u32, frame.len() as u32, frame.len() as u32];
            out.extend(block(ENHANCED_PACKET, &[words.map(word).concat().as_slice(), frame].concat()));
        }
        out
    }

    #[test]
    fn a_pcapng_tells_the_same() {
        let pcap = file(&[packet(0, UP, 0x18, 1, 5), packet(300, DOWN, 0x18, 1, 5), packet(900, UP, 0x18, 6, 5)]);
        for (ns, big) in [(false, false), (true, false), (true, true)] {
            let bytes = blocks(&pcap, ns, big);
            let told = read(&bytes, None).unwrap();
            assert_eq!((told.began, told.cases[0].rounds[0].times.max()), (1_700_000_000, Some(300_000)), "{ns} {big}");
            for cut in 0..bytes.len() {
                let _ = read(&bytes[..cut], None);
            }
        }
        let mut hostile = blocks(&pcap, false, false);
        hostile[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(read(&hostile, None).unwrap_err().why.contains("no packet in it"));
        hostile[4..8].copy_from_slice(&[0; 4]);
        assert!(read(&hostile, None).is_err());
    }

    #[test]
    fn what_has_no_round_trip_says_so() {
        assert!(read(&file(&[packet(0, UP, 0x02, 1, 0)]), None).unwrap_err().why.contains("no interval"));
        assert!(read(&file(&[]), None).unwrap_err().why.contains("no packet in it is one of TCP"));
        assert!(read(&file(&[])[..22], None).unwrap_err().why.contains("cut"));
    }
}
