//! The messages of the reference, byte by byte: what the lab's programs sent.

use crate::seed::{Lfsr, increment, padded};
use crate::tenlg::tenlg;
use crate::*;

/// T1 of every message here, µs.
const T1: i64 = 1_700_000_000_123_456;

/// Bytes of hexadecimal digits; spaces do not matter.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}

#[test]
fn checksums_of_markers() {
    let golden = [
        (0, "e51745d6"),
        (4, "e91745d6"),
        (9, "ee1745d6"),
        (30, "031845d6"),
        (68, "291845d6"),
        (100_004, "899e46d6"),
        (1_000_009, "2e5a54d6"),
        (16_777_215, "e41745d6"),
    ];
    for (body, checksum) in golden {
        let marker = Marker { header: 72, body };
        assert_eq!(marker.to_bytes()[12..], bytes(checksum), "{body}");
        assert_eq!(Marker::parse(&marker.to_bytes()), Ok(marker));
    }
}

#[test]
fn markers_that_are_none() {
    let of = |header, body| Marker { header, body }.to_bytes();
    for header in [0, 1, 71, 4096, u32::MAX] {
        assert_eq!(Marker::parse(&of(header, 0)), Err(MarkerError::Header(header)));
    }
    assert_eq!(Marker::parse(&of(72, 16_777_216)), Err(MarkerError::Body(16_777_216)));
    assert!(Marker::parse(&of(4095, 16_777_215)).is_ok());
    for at in 0..MARKER_BYTES {
        let mut bytes = of(72, 30);
        bytes[at] ^= 1 << (at % 8);
        assert!(Marker::parse(&bytes).is_err(), "byte {at}");
    }
}

/// A request of the client, as it goes out: server dialled as 127.0.0.1 port 23200.
fn request(method: &str, rpcid: u32, body: &[u8]) -> Vec<u8> {
    let header = Header {
        rpcid,
        t: [T1, 0, 0, 0],
        server_ip: 0x7f00_0001,
        server_port: 23_200,
        lglen1: tenlg(body.len() as u64),
        method: Method::new(method),
        ..Header::default()
    };
    let mut out = Marker { header: 72, body: body.len() as u32 }.to_bytes().to_vec();
    out.extend(header.to_bytes());
    out.extend(body);
    out
}

fn strings(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    parts.iter().for_each(|part| put_string(&mut out, part));
    out
}

#[test]
fn requests() {
    let ping = request("ping", Lfsr::new(1).step(), b"");
    let golden = "e517c5d1 48000000 00000000 e51745d6
        02000000 00000000 40222018240a0600 0000000000000000 0000000000000000 0000000000000000
        00000000 0100007f 0000 a05a 00 00 0000 70696e6700000000 00000000 00000000";
    assert_eq!(ping, bytes(golden));
    assert_eq!(first_hash(&ping), Some(0x1fa6_282e));
    assert_eq!(first_hash(&ping[..31]), None);

    let mut seed = Lfsr::new(1);
    let value = padded(b"vvvvv", 20, &mut seed);
    let write = request("write", seed.step(), &strings(&[b"kk", &value]));
    let golden = "e517c5d1 48000000 1e000000 031845d6
        00200000 00000000 40222018240a0600 0000000000000000 0000000000000000 0000000000000000
        00000000 0100007f 0000 a05a 31 00 0000 7772697465000000 00000000 00000000
        020000006b6b 1400000076767676765f626365695f716161615f61616161";
    assert_eq!(write, bytes(golden));
    assert_eq!(first_hash(&write), Some(0x1fa6_07d4));

    let methodname = request("methodname", Lfsr::new(1).step(), &strings(&[b"x"]));
    assert_eq!(methodname[..16], bytes("e517c5d1 48000000 05000000 ea1745d6"));
    assert_eq!((methodname[16 + 52], &methodname[16 + 56..16 + 64]), (0x17, bytes("6d6574686f646e61").as_slice()));
    assert_eq!(methodname[88..], bytes("0100000078"));
    assert_eq!(first_hash(&methodname), Some(0x1fa6_2824));
}

/// Requests in a row, each with keys and values drawn as the client does: key padding, value padding, id.
#[track_caller]
fn row(
    method: &str,
    key: Option<(&[u8], usize)>,
    value: Option<(&[u8], usize)>,
    step: bool,
    golden: &[(u32, u32, &str)],
) -> Vec<Vec<u8>> {
    let mut seed = Lfsr::new(1);
    let mut bases = [key, value].map(|base| base.map(|(base, pad)| (base.to_vec(), pad)));
    let mut out = Vec::new();
    for (rpcid, hash, body) in golden {
        let parts: Vec<Vec<u8>> = bases.iter().flatten().map(|(base, pad)| padded(base, *pad, &mut seed)).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let message = request(method, seed.step(), &strings(&parts));
        assert_eq!(message[16..20], rpcid.to_le_bytes());
        assert_eq!(first_hash(&message), Some(*hash), "{rpcid:x}");
        assert!(message[88..].starts_with(&bytes(body)), "{rpcid:x}");
        if step {
            bases.iter_mut().flatten().for_each(|(base, _)| increment(base));
        }
        out.push(message);
    }
    out
}

#[test]
fn rows_of_requests() {
    let writes = row(
        "write",
        Some((b"k9", 0)),
        Some((b"zz", 12)),
        true,
        &[
            (0x200, 0x1fa6_2a24, "020000006b39 0c0000007a7a5f626365695f71616161"),
            (0x40000, 0x1fa2_2824, "020000006c30 0c00000061615f616161615f61616161"),
            (0x800_0000, 0x17a6_2824, "020000006c31 0c00000061625f616161615f61616161"),
        ],
    );
    for write in writes {
        assert_eq!((&write[..16], write[16 + 52]), (bytes("e517c5d1 48000000 16000000 fb1745d6").as_slice(), 0x2d));
    }
    let pings = row(
        "ping",
        None,
        Some((b"vvvvv", 300)),
        false,
        &[(0xe3c4_7253, 0xfc62_55bf, "2c010000 7676767676 5f62636569"), (0x544a_d242, 0x4bec_f5ae, "2c010000")],
    );
    for ping in pings {
        assert_eq!((&ping[..16], ping[16 + 52]), (bytes("e517c5d1 48000000 30010000 151945d6").as_slice(), 0x52));
    }
    let reads = row(
        "read",
        Some((b"kkkkk", 10)),
        None,
        true,
        &[(0x20, 0x1fa6_2814, "0a0000006b6b6b6b6b5f62636569"), (0x400, 0x1fa6_2c34, "0a0000006b6b6b6b6c5f61616161")],
    );
    for read in reads {
        assert_eq!((&read[..16], read[16 + 52]), (bytes("e517c5d1 48000000 0e000000 f31745d6").as_slice(), 0x26));
    }
}

#[test]
fn a_value_to_sink_is_drawn_once() {
    let mut seed = Lfsr::new(1);
    let value = padded(b"vv", 12, &mut seed);
    assert_eq!(value, bytes("76765f626365695f71616161"));
    let mut key = b"kk".to_vec();
    let golden: [(u32, u32, &str); 3] = [
        (0x200, 0x1fa6_2a24, "020000006b6b"),
        (0x400, 0x1fa6_2c24, "020000006b6c"),
        (0x800, 0x1fa6_2024, "020000006b6d"),
    ];
    for (rpcid, hash, head) in golden {
        let sink = request("sink", seed.step(), &strings(&[&key, &value]));
        assert_eq!((&sink[16..20], first_hash(&sink)), (&rpcid.to_le_bytes()[..], Some(hash)));
        assert_eq!(sink[88..94], bytes(head));
        increment(&mut key);
    }
}

#[test]
fn replies() {
    // A ping and its reply: the server fills T2, T3, the client's address, the length, the type; T1 stays.
    let golden = "07000000 00000000 40222018240a0600 0000000000000000 0000000000000000 0000000000000000
        00000000 0100007f 0000 3930 20 00 0000 70696e6700000000 00000000 00000000";
    let request = Header::parse(&bytes(golden)).unwrap();
    assert_eq!((request.rpcid, request.server_port, request.t), (7, 12_345, [T1, 0, 0, 0]));
    assert_eq!((request.method, request.lglen1), (Method::new("ping"), tenlg(9)));
    let reply = Header {
        t: [T1, i64::from_le_bytes([0xaa; 8]), i64::from_le_bytes([0xaa; 8]), 0],
        client_ip: 0x7f00_0001,
        client_port: 0xbbbb,
        lglen2: tenlg(9),
        kind: Kind::RespSend as u16,
        ..request
    };
    let golden = "07000000 00000000 40222018240a0600 aaaaaaaaaaaaaaaa aaaaaaaaaaaaaaaa 0000000000000000
        0100007f 0100007f bbbb 3930 20 20 0200 70696e6700000000 00000000 00000000";
    assert_eq!(reply.to_bytes().to_vec(), bytes(golden));
    let mut body = bytes("0500000068656c6c6f");
    assert_eq!(take_string(&mut body.as_slice()), Some(&b"hello"[..]));
    body.pop();
    assert_eq!(take_string(&mut body.as_slice()), None);

    // The stats of the lab's server: one string of 71 bytes.
    let stats = format!("Stats: 4 {}", "0 ".repeat(31));
    let body = strings(&[stats.as_bytes()]);
    assert_eq!((body.len(), &body[..4], tenlg(75)), (75, &[0x47, 0, 0, 0][..], 0x3e));
    assert_eq!((tenlg(14), tenlg(9), tenlg(3)), (0x26, 0x20, 0x10));
    assert_eq!(
        (Status(1).name(), Status(2).name(), Status(7).name()),
        ("Fail".into(), "TooBusy".into(), "ERROR_7".into())
    );
}

#[test]
fn a_header_that_is_too_short_or_longer() {
    let header = Header { rpcid: 9, parent: 0x1122_3344, status: 1, pad: Header::TELL, ..Header::default() };
    let mut bytes = header.to_bytes().to_vec();
    assert_eq!(Header::parse(&bytes[..71]), Err(HeaderError::Short(71)));
    assert_eq!(Telling::of(&header, &bytes), None);
    let telling = Telling { waited_ns: u64::MAX, served_ns: 2, lock_ns: 3 };
    bytes.extend(telling.to_bytes());
    assert_eq!((Header::parse(&bytes), Telling::of(&header, &bytes)), (Ok(header), Some(telling)));
    assert_eq!(bytes[4..8], [0x44, 0x33, 0x22, 0x11]);
}
