//! Who may come: a secret that both sides of a control channel have in a file, and prove to each other without saying it
//! ([`crate::handshake`]).

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use msgpath_core::{Exit, Problem};
use msgpath_sys::files::open_regular_typed;
use sha2::Sha256;

use crate::wire::{Nonce, VERSION};

/// Names the file of a token where no option does.
pub const ENVIRONMENT: &str = "MSGPATH_TOKEN_FILE";
/// A token that could be guessed is none.
const LEAST: usize = 16;
const MOST: usize = 4 << 10;

#[derive(Clone, PartialEq, Eq)]
pub struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Nonce {
    /// One that nobody can know before.
    ///
    /// # Errors
    /// As getrandom(2).
    pub fn new() -> io::Result<Self> {
        msgpath_sys::random::bytes().map(Self)
    }
}

/// What stands in a proof for whoever has made it.
pub type Label = &'static [u8; 12];

impl Token {
    /// The token of these bytes; white space around it is not part of it.
    fn of(bytes: &[u8]) -> Result<Self, String> {
        let token = bytes.trim_ascii();
        match token.len() {
            LEAST..=MOST => Ok(Self(token.to_vec())),
            length => Err(format!("a token has {LEAST} to {MOST} bytes, and this has {length}")),
        }
    }

    /// The token in a file, with what the user should know of that file.
    ///
    /// # Errors
    /// E73: it cannot be read, or is none.
    pub fn read(file: &Path) -> Result<(Self, Option<String>), Problem> {
        let problem = |why: String| {
            Problem::new("E73", Exit::CannotStart, format!("{} has no token: {why}", file.display()))
                .hint("the file that msgpath serve --token-file has on the other machine, copied")
        };
        let read = || -> io::Result<(Vec<u8>, u32)> {
            let input = open_regular_typed(file)?;
            let mode = input.metadata()?.mode();
            let mut bytes = Vec::new();
            input.take(MOST as u64 + 64).read_to_end(&mut bytes)?;
            Ok((bytes, mode))
        };
        let (bytes, mode) = read().map_err(|error| problem(error.to_string()))?;
        let token = Self::of(&bytes).map_err(problem)?;
        let open = (mode & 0o044 != 0)
            .then(|| format!("other users of this machine can read {0}: chmod 600 {0}", file.display()));
        Ok((token, open))
    }

    /// Makes a token and a file for it, which nobody else can read; nothing where the file is there.
    ///
    /// # Errors
    /// E73: the file cannot be made.
    pub fn make(file: &Path) -> Result<bool, Problem> {
        let made = || -> io::Result<bool> {
            let secret: [u8; 32] = msgpath_sys::random::bytes()?;
            let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
                Ok(mut new) => new.write_all(format!("{hex}\n").as_bytes()).map(|()| true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(error),
            }
        };
        made().map_err(|error| {
            Problem::new("E73", Exit::CannotStart, format!("no token can be put into {}: {error}", file.display()))
        })
    }

    /// The HMAC of a text for one purpose.
    pub(crate) fn mac(&self, label: Label, text: &[u8; 32]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length");
        mac.update(label);
        mac.update(&[VERSION]);
        mac.update(text);
        mac
    }
}

/// The file of the token that a near end is to use: as typed, else as the environment says.
pub fn file(typed: Option<&str>) -> Option<PathBuf> {
    typed
        .map(PathBuf::from)
        .or_else(|| std::env::var_os(ENVIRONMENT).filter(|name| !name.is_empty()).map(PathBuf::from))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A token that this text tells from others.
    pub fn token(text: &str) -> Token {
        Token::of(format!("{text}-0123456789abcdef").as_bytes()).unwrap()
    }

    #[test]
    fn labels_differ_and_a_token_is_not_shown() {
        let crate::handshake::Roles { near, far } = crate::handshake::SERVE;
        assert!(near != far && near != b"msgpath keys" && far != b"msgpath keys");
        let [ours, other] = [token("ours"), token("other")].map(|token| token.mac(near, &[0; 32]).finalize());
        assert_ne!(ours, other);
        assert_eq!(format!("{:?}", token("ours")), "Token(..)");
    }

    #[test]
    fn a_token_that_could_be_guessed_is_none() {
        assert!(
            Token::of(b"short").is_err() && Token::of(&[b' '; 40]).is_err() && Token::of(&[b'x'; MOST + 1]).is_err()
        );
        assert_eq!(Token::of(b"  0123456789abcdef \n").unwrap().0, b"0123456789abcdef");
    }

    #[test]
    fn a_file_is_made_once_and_for_one_user() {
        let folder = std::env::temp_dir().join(format!("msgpath-token-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("token");
        assert!(Token::read(&file).is_err());
        assert!(Token::make(&file).unwrap());
        let (first, open) = Token::read(&file).unwrap();
        assert_eq!((open, std::fs::metadata(&file).unwrap().mode() & 0o777), (None, 0o600));
        assert!(!Token::make(&file).unwrap(), "it stays");
        assert_eq!(Token::read(&file).unwrap().0, first);
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        assert!(Token::read(&file).unwrap().1.is_some());
        assert!(Token::make(&folder.join("none/token")).is_err());
        let fifo = folder.join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert!(Token::read(&fifo).unwrap_err().what.contains("it is a FIFO"), "it is not waited for");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
