//! What the tests of what goes into a report share.

pub fn unbase64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is not a letter of base64"),
    };
    let mut out = Vec::new();
    for four in text.as_bytes().chunks(4) {
        let letters: Vec<u32> = four.iter().filter(|c| **c != b'=').map(|c| value(*c).into()).collect();
        let bits = letters.iter().enumerate().fold(0, |bits, (at, value)| bits | value << (18 - 6 * at));
        out.extend(&bits.to_be_bytes()[1..letters.len()]);
    }
    out
}
