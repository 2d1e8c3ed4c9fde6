//! Message authentication, one tag a message, by well-kept crates.
//!
//! All components of a run have one key of 32 random bytes. `hmac` is HMAC-SHA-256 over the message with that key.
//! `poly1305` is a one-time authenticator: a key of its own is derived for every message, as HMAC-SHA-256 of the group's key
//! over the sender's and the message's number, which never come twice in a run (the way ChaCha20-Poly1305 takes a key from
//! its nonce). Both keys are made anew for every call, as a program does that keeps no state between messages.

use hmac::{Hmac, KeyInit, Mac as _};
use poly1305::Poly1305;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Bytes of the group's key.
pub const KEY: usize = 32;

/// How messages are authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mac {
    /// Not at all.
    #[default]
    None,
    /// HMAC-SHA-256.
    Hmac,
    /// Poly1305 with a key for each message.
    Poly1305,
}

impl Mac {
    /// As typed and recorded.
    pub fn name(self) -> &'static str {
        match self {
            Mac::None => "none",
            Mac::Hmac => "hmac",
            Mac::Poly1305 => "poly1305",
        }
    }

    /// Bytes of a tag.
    pub fn length(self) -> usize {
        match self {
            Mac::None => 0,
            Mac::Hmac => 32,
            Mac::Poly1305 => 16,
        }
    }

    /// Writes the tag of `message` behind it: `whole` is the message followed by room for the tag.
    pub fn seal(self, key: &[u8; KEY], nonce: [u8; 8], whole: &mut [u8]) {
        let (message, tag) = whole.split_at_mut(whole.len() - self.length());
        self.tag(key, nonce, message, |computed| tag.copy_from_slice(computed));
    }

    /// Whether the tag at the end of `whole` is that of what precedes it. Takes the same time wherever they differ.
    pub fn fits(self, key: &[u8; KEY], nonce: [u8; 8], whole: &[u8]) -> bool {
        let Some(at) = whole.len().checked_sub(self.length()) else { return false };
        let (message, tag) = whole.split_at(at);
        let mut differ = 0;
        self.tag(key, nonce, message, |computed| {
            differ = computed.iter().zip(tag).fold(0, |differ, (a, b)| differ | (a ^ b));
        });
        differ == 0
    }

    fn tag(self, key: &[u8; KEY], nonce: [u8; 8], message: &[u8], then: impl FnOnce(&[u8])) {
        let keyed = || Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
        match self {
            Mac::None => {}
            Mac::Hmac => {
                let mut mac = keyed();
                mac.update(message);
                then(&mac.finalize().into_bytes());
            }
            Mac::Poly1305 => {
                let mut derived = keyed();
                derived.update(&nonce);
                let mac = Poly1305::new(&derived.finalize().into_bytes());
                then(&mac.compute_unpadded(message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        // Test case 2: key "Jefe" is shorter than ours, so the key is padded as HMAC pads it: with zeros.
        let mut key = [0; KEY];
        key[..4].copy_from_slice(b"Jefe");
        let mut whole = b"what do ya want for nothing?".to_vec();
        whole.extend([0; 32]);
        Mac::Hmac.seal(&key, [0; 8], &mut whole);
        let tag: String = whole[28..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(tag, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }

    #[test]
    fn a_changed_byte_a_changed_number_and_another_key_are_seen() {
        let key = [7; KEY];
        for mac in [Mac::Hmac, Mac::Poly1305] {
            let mut whole = vec![3; 100];
            mac.seal(&key, *b"nonce  1", &mut whole);
            assert!(mac.fits(&key, *b"nonce  1", &whole));
            for at in [0, 50, 99] {
                let mut changed = whole.clone();
                changed[at] ^= 1;
                assert!(!mac.fits(&key, *b"nonce  1", &changed), "{mac:?} {at}");
            }
            assert!(!mac.fits(&[8; KEY], *b"nonce  1", &whole));
            assert!(!mac.fits(&key, *b"nonce  1", &[]));
        }
        let mut whole = vec![3; 100];
        Mac::Poly1305.seal(&key, *b"nonce  1", &mut whole);
        assert!(!Mac::Poly1305.fits(&key, *b"nonce  2", &whole), "a key for each message");
        assert!(Mac::None.fits(&key, [0; 8], &whole));
    }
}
