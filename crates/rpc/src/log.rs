//! The lab's binary log: records of 96 bytes and nothing else, two for each call on each side.
//!
//! A record is the header of a message with the length of its body in place of the last four bytes, and the first 24
//! bytes of the body. There is no file header and no version, so every record is checked.

use crate::message::{Header, Kind, MAX_BODY, RPC_HEADER_BYTES};
use crate::tenlg::from_tenlg;

pub const RECORD_BYTES: usize = 96;
/// Bytes of the body in it.
pub const DATA_BYTES: usize = 24;
/// 1990-01-01 and 2100-01-01, µs since 1970: no stamp of the lab is outside.
const STAMPS: std::ops::Range<i64> = 631_152_000_000_000..4_102_444_800_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The fields of the header; `pad` is 0. A stamp that is 0 is not known.
    pub header: Header,
    /// Bytes of the whole body of this message.
    pub length: u32,
    /// Its first bytes, zero filled.
    pub data: [u8; DATA_BYTES],
}

/// What a record keeps of a body: its first bytes, zero filled.
pub fn first_bytes(body: &[u8]) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    let kept = body.len().min(DATA_BYTES);
    data[..kept].copy_from_slice(&body[..kept]);
    data
}

/// Why 96 bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A number that is no [`Kind`].
    #[error("type {0}; there are 0 to 4")]
    Kind(u16),
    /// Bytes that cannot be printed, or something after the first zero.
    #[error("a method that is not a name")]
    Method,
    /// A stamp that is missing where it must be, or outside of 1990 to 2099.
    #[error("T{number} of {value} µs since 1970 is not a time of a log")]
    Stamp {
        /// 1 to 4.
        number: usize,
        /// As read.
        value: i64,
    },
    /// A body longer than a message can have.
    #[error("a body of {0} bytes; a message has at most 16777215")]
    Length(u32),
}

impl Record {
    /// Reads and checks a record.
    ///
    /// # Errors
    /// [`RecordError`]: this is not a record of the lab, and what follows in the file is none either.
    pub fn parse(bytes: &[u8; RECORD_BYTES]) -> Result<Self, RecordError> {
        let (header, data) = bytes.split_at(RPC_HEADER_BYTES);
        let mut header = Header::parse(header).expect("72 bytes");
        let length = std::mem::take(&mut header.pad);
        let kind = Kind::from_number(header.kind).ok_or(RecordError::Kind(header.kind))?;
        let name = header.method.bytes();
        let printable = name.iter().all(|byte| (0x20..0x7f).contains(byte));
        if !printable || header.method.0[name.len()..].iter().any(|byte| *byte != 0) {
            return Err(RecordError::Method);
        }
        for (at, value) in header.t.into_iter().enumerate() {
            let unknown = value == 0 && (at > 0 || kind == Kind::Text);
            if !unknown && !STAMPS.contains(&value) {
                return Err(RecordError::Stamp { number: at + 1, value });
            }
        }
        if length as usize > MAX_BODY {
            return Err(RecordError::Length(length));
        }
        Ok(Self { header, length, data: data.try_into().expect("24 bytes") })
    }

    pub fn to_bytes(&self) -> [u8; RECORD_BYTES] {
        let mut out = [0; RECORD_BYTES];
        out[..RPC_HEADER_BYTES].copy_from_slice(&Header { pad: self.length, ..self.header }.to_bytes());
        out[RPC_HEADER_BYTES..].copy_from_slice(&self.data);
        out
    }

    /// What it is; a number that is none counts as text.
    pub fn kind(&self) -> Kind {
        Kind::from_number(self.header.kind).unwrap_or(Kind::Text)
    }

    /// The record of a message with this header and body, as seen at the point `kind`: which stamps and addresses it has
    /// follows from that.
    pub fn of(kind: Kind, header: &Header, body: &[u8]) -> Self {
        Self::from_parts(kind, header, body.len() as u32, first_bytes(body))
    }

    /// As [`Self::of`], of a body of which only the length and the first bytes are known.
    pub fn from_parts(kind: Kind, header: &Header, length: u32, data: [u8; DATA_BYTES]) -> Self {
        let mut header = Header { kind: kind as u16, pad: 0, ..*header };
        let stamps = match kind {
            Kind::ReqSend => 1,
            Kind::ReqRcv => 2,
            Kind::RespSend => 3,
            Kind::RespRcv | Kind::Text => 4,
        };
        header.t[stamps..].fill(0);
        if matches!(kind, Kind::ReqSend | Kind::ReqRcv) {
            (header.lglen2, header.status) = (0, 0);
        }
        if kind == Kind::ReqSend {
            (header.client_ip, header.client_port) = (0, 0);
        }
        Self { header, length, data }
    }

    /// Bytes of the request's body, and whether they are an estimate: exact in the record of a request, within 4.5 % in
    /// that of a reply.
    pub fn request_length(&self) -> (u32, bool) {
        match self.kind() {
            Kind::ReqSend | Kind::ReqRcv => (self.length, false),
            _ => length_of(self.header.lglen1),
        }
    }

    /// Bytes of the reply's body, likewise.
    pub fn reply_length(&self) -> (u32, bool) {
        match self.kind() {
            Kind::RespSend | Kind::RespRcv => (self.length, false),
            _ => length_of(self.header.lglen2),
        }
    }

    /// The key in the record of a request whose method has one, as far as the record holds it.
    pub fn key(&self) -> Option<&[u8]> {
        let has_key = [b"read", b"sink"].iter().any(|name| self.header.method.bytes() == *name)
            || [&b"write"[..], b"delete", b"chksum"].contains(&self.header.method.bytes());
        if !has_key || !matches!(self.kind(), Kind::ReqSend | Kind::ReqRcv) {
            return None;
        }
        let (length, rest) = self.data.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let whole = length.checked_add(4).is_some_and(|end| end <= self.length as usize);
        whole.then(|| &rest[..length.min(rest.len())])
    }
}

/// What a one-byte length stands for. 0 and 1 byte share the byte 0, which the lab gives to an empty body mostly.
fn length_of(tenlg: u8) -> (u32, bool) {
    match tenlg {
        0 => (0, true),
        n => (u32::try_from(from_tenlg(n)).unwrap_or(u32::MAX).min(MAX_BODY as u32), true),
    }
}

/// Where a log stops being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {offset}: {why}")]
pub struct Damage {
    /// Offset of the record in the file.
    pub offset: u64,
    /// What is wrong with it.
    pub why: RecordError,
}

/// The whole records at the front of `bytes`, which begin at `offset` of their file.
pub fn records(bytes: &[u8], offset: u64) -> impl Iterator<Item = Result<Record, Damage>> + '_ {
    bytes.as_chunks::<RECORD_BYTES>().0.iter().enumerate().map(move |(at, bytes)| {
        Record::parse(bytes).map_err(|why| Damage { offset: offset + (at * RECORD_BYTES) as u64, why })
    })
}

/// The logs of the reference, for the tests of whoever reads them.
#[doc(hidden)]
pub mod golden {
    /// Six records of a client: a write in two, a failed read, a ping to a server whose clock is 3 ms behind, a dropped
    /// piece of work, an unknown status.
    pub const CLIENT: [&str; 6] = [
        "002000000000000040222018240a0600000000000000000000000000000000000000000000000000000000000200090a00003930310000007772697465000000000000001e000000020000006b6b1400000076767676765f626365695f716161",
        "002000000000000040222018240a06009a222018240a06009f222018240a0600f4222018240a06000100090a0200090a409c39303100030077726974650000000000000000000000000000000000000000000000000000000000000000000000",
        "004000000500000028262018240a060082262018240a060087262018240a0600dc262018240a06000100090a0200090a409c39301a00030072656164000000000100000000000000000000000000000000000000000000000000000000000000",
        "0080000000000000102a2018240a0600581e2018240a06005c1e2018240a06003c2b2018240a06000100090a0200090a409c3930a6a6030070696e670000000000000000a4860100a086010076767676765f626365695f716161615f61616161",
        "0000010000000000f82d2018240a060000000000000000000000000000000000f82d2018240a060000000000000000000000000000000300576f726b000000000200000000000000000000000000000000000000000000000000000000000000",
        "0000020000000000e0312018240a0600e1312018240a0600e2312018240a0600e3312018240a06000100090a0200090a01000200000003006d6574686f646e610700000000000000220000000000000000000000000000000000000000000000",
    ];
    /// The server's two records of that write.
    pub const SERVER: [&str; 2] = [
        "002000000000000040222018240a06009a222018240a0600000000000000000000000000000000000100090a0200090a409c3930310001007772697465000000000000001e000000020000006b6b1400000076767676765f626365695f716161",
        "002000000000000040222018240a06009a222018240a06009f222018240a060000000000000000000100090a0200090a409c39303100020077726974650000000000000000000000000000000000000000000000000000000000000000000000",
    ];
    /// A ping of a real run, to a server whose clock was shifted by about -2.8 ms.
    pub const PING: [&str; 2] = [
        "dc9d361b0000000022d7e4f1bd600600000000000000000000000000000000000000000000000000000000000200090a00003e303d00000070696e6700000000000000004400000040000000765f35346c775f317731625f636569685f7a6633",
        "dc9d361b0000000022d7e4f1bd600600c0cce4f1bd600600c4cce4f1bd60060046d8e4f1bd6006000100090a0200090a04be3e303d3d030070696e6700000000000000004400000040000000765f35346c775f317731625f636569685f7a6633",
    ];

    /// The bytes of such records.
    pub fn bytes(records: &[&str]) -> Vec<u8> {
        let digits: Vec<u8> =
            records.concat().bytes().map(|digit| (digit as char).to_digit(16).unwrap_or(0) as u8).collect();
        digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, put_string};
    use proptest::prelude::*;

    fn parsed(hex: &[&str]) -> Vec<Record> {
        records(&golden::bytes(hex), 0).map(Result::unwrap).collect()
    }

    #[test]
    fn the_records_of_the_reference() {
        let log = parsed(&golden::CLIENT);
        let [sent, received, read, ping, work, odd] = log[..] else { panic!("{} records", log.len()) };
        assert_eq!((sent.kind(), sent.header.t, sent.length), (Kind::ReqSend, [1_700_000_000_123_456, 0, 0, 0], 30));
        assert_eq!(
            (sent.key(), sent.request_length(), sent.reply_length()),
            (Some(&b"kk"[..]), (30, false), (0, true))
        );
        let t1 = 1_700_000_000_123_456;
        assert_eq!(received.header.t, [t1, t1 + 90, t1 + 95, t1 + 180]);
        assert_eq!(
            (received.request_length(), received.reply_length(), received.key()),
            ((29, true), (0, false), None)
        );
        assert_eq!((received.header.client_ip, received.header.client_port), (0x0a09_0001, 40_000));
        assert_eq!((read.header.parent, read.header.status, read.header.rpcid), (5, 1, 16_384));
        assert_eq!((ping.header.t[1] - ping.header.t[0], ping.length), (-3_000, 100_004));
        assert_eq!((work.header.t[1], work.header.status, work.header.method), (0, 2, Method::new("Work")));
        assert_eq!((odd.header.status, odd.length, odd.header.method.bytes()), (7, 0, &b"methodna"[..]));
        let server = parsed(&golden::SERVER);
        assert_eq!((server[0].kind(), server[0].key()), (Kind::ReqRcv, Some(&b"kk"[..])));
        assert_eq!((server[1].kind(), server[1].header.t[3]), (Kind::RespSend, 0));
        let ping = parsed(&golden::PING)[1];
        assert_eq!(ping.header.t.map(|t| t - ping.header.t[0]), [0, -2_658, -2_654, 292]);
        for record in log.iter().chain(&server) {
            assert_eq!(Record::parse(&record.to_bytes()).as_ref(), Ok(record));
        }
        for (record, hex) in log.iter().zip(golden::CLIENT) {
            assert_eq!(record.to_bytes().to_vec(), golden::bytes(&[hex]));
        }
    }

    #[test]
    fn two_records_a_call_on_each_side_as_the_lab_writes_them() {
        let mut body = Vec::new();
        put_string(&mut body, b"kk");
        put_string(&mut body, b"vvvvv_bcei_qaaa_aaaa");
        let [_, whole, ..] = parsed(&golden::CLIENT)[..] else { panic!("no records") };
        let client = [Record::of(Kind::ReqSend, &whole.header, &body), Record::of(Kind::RespRcv, &whole.header, b"")];
        assert_eq!(client.map(|record| record.to_bytes()).concat(), golden::bytes(&golden::CLIENT[..2]));
        let server = [Record::of(Kind::ReqRcv, &whole.header, &body), Record::of(Kind::RespSend, &whole.header, b"")];
        assert_eq!(server.map(|record| record.to_bytes()).concat(), golden::bytes(&golden::SERVER));
    }

    #[test]
    fn what_is_no_record_is_refused_with_its_offset() {
        let whole = golden::bytes(&golden::CLIENT);
        let broken = |at: usize, value: &[u8]| {
            let mut bytes = whole.clone();
            bytes[192 + at..192 + at + value.len()].copy_from_slice(value);
            let found: Vec<_> = records(&bytes, 960).collect();
            assert_eq!(found.iter().filter(|record| record.is_err()).count(), 1);
            found[2].unwrap_err()
        };
        assert_eq!(broken(54, &[5, 0]), Damage { offset: 1_152, why: RecordError::Kind(5) });
        assert_eq!(broken(56, b"a\x07").why, RecordError::Method);
        assert_eq!(broken(56, b"a\0b").why, RecordError::Method);
        assert_eq!(broken(8, &[0; 8]).why, RecordError::Stamp { number: 1, value: 0 });
        assert_eq!(broken(24, &[1, 0, 0, 0, 0, 0, 0, 0]).why, RecordError::Stamp { number: 3, value: 1 });
        assert_eq!(broken(68, &[0xff; 4]).why, RecordError::Length(u32::MAX));
        assert!(broken(54, &[5, 0]).to_string().starts_with("byte 1152: type 5"));
        assert!(Record::parse(&[0; RECORD_BYTES]).is_err());
        assert_eq!(records(&whole[..200], 0).count(), 2, "the rest of a record is none");
    }

    #[test]
    fn a_length_inside_the_body_is_not_believed() {
        let [mut record, ..] = parsed(&golden::CLIENT)[..] else { panic!("no records") };
        record.data[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(record.key(), None);
        record.data[..4].copy_from_slice(&26_u32.to_le_bytes());
        assert_eq!(record.key().map(<[u8]>::len), Some(20), "as far as the record holds it");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0_u8..6) {
            for record in records(&bytes, 0).flatten() {
                prop_assert_eq!(Record::parse(&record.to_bytes()), Ok(record));
            }
            let mut one = [0; RECORD_BYTES];
            let length = bytes.len().min(RECORD_BYTES);
            one[..length].copy_from_slice(&bytes[..length]);
            one[8..16].copy_from_slice(&1_700_000_000_123_456_i64.to_le_bytes());
            one[16..40].fill(0);
            one[54..64].copy_from_slice(&[kind, 0, b'p', b'i', b'n', b'g', 0, 0, 0, 0]);
            one[71] = 0;
            if let Ok(record) = Record::parse(&one) {
                prop_assert_eq!(record.to_bytes(), one);
                prop_assert!(record.key().is_none_or(|key| key.len() <= 20));
            }
        }
    }
}
