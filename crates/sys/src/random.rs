//! Bytes that nobody can guess: keys, names and seeds.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of getrandom(2). Requests of up to 256 bytes are answered whole.
///
/// # Errors
/// The kernel, or a filter of system calls, has none to give.
pub fn bytes<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256) };
    let mut bytes = [0; N];
    match retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty()))? {
        got if got == N => Ok(bytes),
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
    }
}

/// A random number.
///
/// # Errors
/// As [`bytes`].
pub fn number() -> io::Result<u64> {
    bytes().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn no_two_are_the_same_and_every_byte_is_filled() {
        let all: BTreeSet<[u8; 16]> = (0..64).map(|_| super::bytes().unwrap()).collect();
        assert_eq!(all.len(), 64);
        // 64 zeros at one place: once in 2^512.
        assert!((0..16).all(|at| all.iter().any(|bytes| bytes[at] != 0)));
        assert_ne!(super::number().unwrap(), super::number().unwrap());
    }
}
