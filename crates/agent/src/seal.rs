//! Frames of a control channel that can come from nobody but the other end. Whoever has proven to have the token, and has
//! heard the other side's proof, shares a key with it that no other channel has: made of the token and of everything that
//! was said before. Each frame then ends with an HMAC-SHA-256 over the number of frames before it, its header and its
//! content, by a key of its direction. So nothing can be changed, left out, added, said twice or sent back by what is
//! between the two. It is not enciphered, but for the keys of data connections.

use std::io::{self, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Bytes that a sealed frame has more than a plain one.
pub const SEAL: usize = 32;

/// A key, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub [u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// The HMAC of some texts, each with its length before it.
    pub fn mac(&self, texts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        texts.iter().for_each(|text| {
            mac.update(&(text.len() as u64).to_le_bytes());
            mac.update(text);
        });
        mac
    }

    #[must_use]
    pub fn derive(&self, purpose: &str) -> Self {
        Self(self.mac(&[purpose.as_bytes()]).finalize().into_bytes().into())
    }
}

/// Seals the frames of one direction, or opens them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    key: Key,
    count: u64,
}

impl Seal {
    /// From the first frame on.
    pub fn new(key: Key) -> Self {
        Self { key, count: 0 }
    }

    fn next(&mut self, frame: &[u8]) -> Hmac<Sha256> {
        let count = self.count.to_le_bytes();
        self.count += 1;
        self.key.mac(&[&count, frame])
    }

    /// What follows the next frame.
    pub fn seal(&mut self, frame: &[u8]) -> [u8; SEAL] {
        self.next(frame).finalize().into_bytes().into()
    }

    /// Whether the next frame is what the other end has said.
    pub fn opens(&mut self, frame: &[u8], seal: &[u8]) -> bool {
        self.next(frame).verify_slice(seal).is_ok()
    }
}

/// Texts that are said enciphered: a keystream of HMACs of a counter, which is never the same twice. The frame around
/// them is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Veil {
    key: Key,
    count: u64,
}

impl Veil {
    fn stream(&mut self) -> [u8; 32] {
        let block = self.key.mac(&[&self.count.to_le_bytes()]).finalize().into_bytes().into();
        self.count += 1;
        block
    }

    fn apply(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes.len());
        for part in bytes.chunks(32) {
            out.extend(part.iter().zip(self.stream()).map(|(byte, stream)| byte ^ stream));
        }
        out
    }

    pub fn hide(&mut self, texts: &[String]) -> Vec<String> {
        texts.iter().map(|text| hex(&self.apply(text.as_bytes()))).collect()
    }

    /// The texts that the other end has enciphered, in the order in which it did.
    ///
    /// # Errors
    /// `InvalidData`: they are none.
    pub fn show(&mut self, texts: &[String]) -> io::Result<Vec<String>> {
        let invalid =
            || io::Error::new(io::ErrorKind::InvalidData, "addresses that were not enciphered by the far end");
        let text = |hidden: &String| String::from_utf8(self.apply(&bytes(hidden)?)).ok();
        texts.iter().map(text).collect::<Option<_>>().ok_or_else(invalid)
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The bytes of a hexadecimal text.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty().then_some(())?;
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// What one end of a control channel needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seals {
    /// For what it says.
    pub says: Seal,
    /// For what it hears.
    pub hears: Seal,
    /// For the addresses that the far end offers.
    pub veil: Veil,
}

impl Seals {
    /// Bytes of [`Seals::to_bytes`].
    pub const BYTES: usize = 3 * (32 + 8);

    /// For the process of an agent that takes a channel over.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let all =
            [(&self.says.key, self.says.count), (&self.hears.key, self.hears.count), (&self.veil.key, self.veil.count)];
        let mut bytes = [0; Self::BYTES];
        for (part, (key, count)) in bytes.chunks_mut(40).zip(all) {
            part[..32].copy_from_slice(&key.0);
            part[32..].copy_from_slice(&count.to_le_bytes());
        }
        bytes
    }

    /// What [`Seals::to_bytes`] has made.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let part = |at: usize| {
            let (mut key, mut count) = ([0; 32], [0; 8]);
            key.copy_from_slice(&bytes[40 * at..40 * at + 32]);
            count.copy_from_slice(&bytes[40 * at + 32..40 * (at + 1)]);
            (Key(key), u64::from_le_bytes(count))
        };
        let [(says, said), (hears, heard), (veil, veiled)] = [part(0), part(1), part(2)];
        Self {
            says: Seal { key: says, count: said },
            hears: Seal { key: hears, count: heard },
            veil: Veil { key: veil, count: veiled },
        }
    }

    /// Of the end that came (`near`) or of the one that listens, by the key of their channel.
    pub fn new(channel: &Key, near: bool) -> Self {
        let [from_near, from_far] = ["from near", "from far"].map(|way| Seal::new(channel.derive(way)));
        let (says, hears) = if near { (from_near, from_far) } else { (from_far, from_near) };
        Self { says, hears, veil: Veil { key: channel.derive("addresses"), count: 0 } }
    }
}

/// Seals each frame that is written with one call, as `wire::write` does. Without a seal it passes on what it gets.
pub struct Sealing<W> {
    to: W,
    seal: Option<Seal>,
}

impl<W: Write> Sealing<W> {
    /// Frames to this writer.
    pub fn new(to: W, seal: Option<Seal>) -> Self {
        Self { to, seal }
    }

    /// The writer, and the seal of the next frame.
    pub fn into_parts(self) -> (W, Option<Seal>) {
        (self.to, self.seal)
    }
}

impl<W: Write> Write for Sealing<W> {
    fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
        self.write_all(frame).map(|()| frame.len())
    }

    fn write_all(&mut self, frame: &[u8]) -> io::Result<()> {
        let Some(seal) = &mut self.seal else { return self.to.write_all(frame) };
        let mut sealed = Vec::with_capacity(frame.len() + SEAL);
        sealed.extend_from_slice(frame);
        // The kind of the frame is said in its header, which is sealed with it.
        if let Some(kind) = sealed.get_mut(crate::wire::KIND) {
            *kind = crate::wire::SEALED;
        }
        let end = seal.seal(&sealed);
        sealed.extend_from_slice(&end);
        self.to.write_all(&sealed)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> [Seals; 2] {
        let key = Key([7; 32]);
        [Seals::new(&key, true), Seals::new(&key, false)]
    }

    #[test]
    fn sealed_frame_opens_once_in_its_turn_and_direction() {
        let [mut near, mut far] = both();
        let (first, second) = (near.says.seal(b"one"), near.says.seal(b"two"));
        assert!(!far.hears.clone().opens(b"two", &second), "left out");
        assert!(far.hears.opens(b"one", &first));
        assert!(!far.hears.clone().opens(b"one", &first), "said twice");
        assert!(!near.hears.clone().opens(b"one", &first), "sent back");
        for (frame, seal) in [(&b"twO"[..], second), (b"two", [0; SEAL])] {
            assert!(!far.hears.clone().opens(frame, &seal), "changed");
        }
        assert!(far.hears.opens(b"two", &second));
        let [mut other, _] = [Seals::new(&Key([8; 32]), true), far];
        assert_ne!(other.says.seal(b"one"), first, "another channel");
        assert_eq!(format!("{:?}", near.says.key), "Key(..)");
        assert_eq!(Seals::from_bytes(&near.to_bytes()), near, "counts go with the keys");
    }

    #[test]
    fn offered_addresses_are_shown_to_the_other_end_alone() {
        let [mut near, mut far] = both();
        let said: Vec<String> = ["127.0.0.1:80 00ff", "", &"x".repeat(100)].map(str::to_owned).into();
        for _ in 0..2 {
            let hidden = far.veil.hide(&said);
            assert!(hidden.iter().zip(&said).all(|(hidden, said)| said.is_empty() || !hidden.contains(said.as_str())));
            assert_eq!(near.veil.show(&hidden).unwrap(), said);
        }
        for bad in ["0", "0g", "é", "ff"] {
            let shown = near.veil.clone().show(&[bad.to_owned()]);
            assert!(shown.is_err() || shown.unwrap() != [bad], "{bad}");
        }
        assert!(bytes("zz").is_none() && bytes("abc").is_none());
    }
}
