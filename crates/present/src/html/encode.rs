//! Bytes and numbers as they may stand in the page.

use std::fmt::Write;

use serde::Serialize;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 with padding (RFC 4648, section 4).
pub fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let letter = ALPHABET[(word >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= chunk.len() { letter as char } else { '=' });
        }
    }
    out
}

/// A text as the body of a `data:` link (RFC 3986: everything but the unreserved characters is escaped).
pub fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' => out.push(byte as char),
            _ => {
                let _ = write!(out, "%{byte:02X}"); // writing to a String cannot fail
            }
        }
    }
    out
}

/// Numbers for the script: a block that no browser runs. Nothing in it can end it.
pub fn json_block(id: &str, value: &impl Serialize) -> String {
    // Numbers and strings of our own types cannot fail to be written.
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".into()).replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"{}\">{json}</script>\n", crate::svg::escape(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_rfc() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
        assert_eq!(base64(&[0xff, 0xfe]), "//4=");
    }

    #[test]
    fn links_hold_no_character_with_a_meaning() {
        assert_eq!(percent("a,1.5\n\"<µ>&#"), "a,1.5%0A%22%3C%C2%B5%3E%26%23");
    }

    #[test]
    fn a_block_ends_where_it_should() {
        let block = json_block("data-x", &["</script><script>alert(1)"]);
        assert_eq!(block.matches("</script>").count(), 1, "{block}");
        assert!(block.contains("\\u003c/script>"));
    }
}
