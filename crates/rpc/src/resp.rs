//! RESP 2 and 3, the protocol of Redis: what the first line of a value says of the bytes after it. That is enough for who follows a stream
//! without keeping it (`watch`), and to go into a list that is not whole; values are read by `resp-rs`.

/// Values of one array, or bytes of one string, at most.
const MOST: u64 = 1 << 32;

/// What belongs to a value beside its first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// Nothing: the line is the value.
    Nothing,
    /// Nothing: there is no value.
    Null,
    /// So many bytes, CR and LF.
    Bytes(u64),
    /// So many values.
    Values(u64),
}

/// The first line of `bytes` without its CR LF, and its length with it; `None`: it has not ended.
pub fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

/// What follows a value's first line, given without its CR LF. `None`: no value begins so.
pub fn follows(line: &[u8]) -> Option<Follows> {
    let (kind, rest) = line.split_first()?;
    let count = || {
        let digits = std::str::from_utf8(rest).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse().ok().filter(|count| *count < MOST)
    };
    Some(match (kind, rest) {
        (b'+' | b'-' | b':' | b'#' | b',' | b'(', _) => Follows::Nothing,
        (b'_', b"") | (b'$' | b'*', b"-1") => Follows::Null,
        (b'$' | b'!' | b'=', _) => Follows::Bytes(count()?),
        (b'*' | b'~' | b'>', _) => Follows::Values(count()?),
        (b'%', _) => Follows::Values(2 * count()?),
        // An attribute stands in front of a value.
        (b'|', _) => Follows::Values(2 * count()? + 1),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_both_versions_is_known() {
        for (line, expected) in [
            ("+OK", Follows::Nothing),
            ("-ERR no", Follows::Nothing),
            (":1", Follows::Nothing),
            (",1.5", Follows::Nothing),
            ("#t", Follows::Nothing),
            ("(349", Follows::Nothing),
            ("_", Follows::Null),
            ("$-1", Follows::Null),
            ("*-1", Follows::Null),
            ("$5", Follows::Bytes(5)),
            ("!21", Follows::Bytes(21)),
            ("=15", Follows::Bytes(15)),
            ("*3", Follows::Values(3)),
            ("~3", Follows::Values(3)),
            (">2", Follows::Values(2)),
            ("%2", Follows::Values(4)),
            ("|1", Follows::Values(3)),
        ] {
            assert_eq!(follows(line.as_bytes()), Some(expected), "{line}");
        }
        for bad in ["", "$", "$x", "$-2", "$+5", "$99999999999", "*-3", "HTTP/1.1 200", "_x"] {
            assert_eq!(follows(bad.as_bytes()), None, "{bad}");
        }
    }
}
