//! Unsigned LEB128, the integer form of the record.

pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes one value from the front of `bytes`; `None` where it is cut off or longer than 64 bits.
#[inline]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trip(value: u64) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(take(&mut bytes.as_slice()), Some(value));
            bytes.pop();
            prop_assert_eq!(take(&mut bytes.as_slice()), None);
        }
    }
}
