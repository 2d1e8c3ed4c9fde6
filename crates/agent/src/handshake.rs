//! How both sides of a control channel prove that they have the token, before either orders anything: `serve` and whoever
//! comes to it, and who listens for agents of a feature.
//!
//! Whoever listens says with its greeting whether it asks for a token. A proof is an HMAC by the token over everything that
//! was said on the channel before it, a random number of each side among that, and over both addresses of the channel. So it
//! proves nothing on another channel: not later, not through another version of the first words, not from another address. What
//! both proofs give is a key by which every further frame is sealed ([`crate::seal`]).

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Instant;

use hmac::Mac;
use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};
use sha2::{Digest, Sha256};

use crate::greeting::GREETING;
use crate::seal::{Key, Seal, Seals};
use crate::token::{Label, Token};
use crate::wire::{self, Addresses, Admits, Frame, Incoming, Nonce, Opening, Proof, Proves};

/// Who proves what to whom: one side's proof is not the other's, and none is of use at another door.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// What stands for the end that came.
    pub near: Label,
    /// For the end that listens.
    pub far: Label,
}

/// A near end and a `serve`.
pub const SERVE: Roles = Roles { near: b"msgpath near", far: b"msgpath far " };

/// A frame that is whole before this time, and its bytes.
///
/// # Errors
/// `TimedOut`, `UnexpectedEof`; `InvalidData` for anything that is no such frame.
pub fn read_by<T: Frame>(stream: &mut (impl Read + AsFd), by: Instant) -> io::Result<(T, Vec<u8>)> {
    read_sealed_by(stream, &mut None, by)
}

/// The same of a frame that must be sealed, where there is a seal.
///
/// # Errors
/// As [`read_by`]; `PermissionDenied`: the other end has not said it.
pub fn read_sealed_by<T: Frame>(
    stream: &mut (impl Read + AsFd),
    seal: &mut Option<Seal>,
    by: Instant,
) -> io::Result<(T, Vec<u8>)> {
    let mut incoming = Incoming::new::<T>().sealed(seal.take());
    let frame = loop {
        let left = by.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time"));
        }
        match poll(stream.as_fd(), Interest::Read, i32::try_from(left.as_millis()).unwrap_or(i32::MAX).max(1)) {
            Ok(true) if incoming.fill(stream)? == 0 => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
            }
            Ok(true) => {
                if let Some(frame) = incoming.whole()? {
                    break frame;
                }
            }
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    };
    *seal = incoming.into_seal();
    Ok((wire::parse(frame.clone())?.0, frame))
}

impl Addresses {
    /// Those of a connection, as the end that came (`near`) or the one that listens sees them.
    ///
    /// # Errors
    /// As getsockname(2) and getpeername(2).
    pub fn of(stream: &TcpStream, near: bool) -> io::Result<Self> {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        let (own, other) = (plain(stream.local_addr()?), plain(stream.peer_addr()?));
        Ok(if near { Self { near: own, far: other } } else { Self { near: other, far: own } })
    }
}

/// What was said on a channel, both ways.
#[derive(Clone)]
struct Said(Sha256);

impl Said {
    /// The greeting and what followed it.
    fn opening(frame: &[u8]) -> Self {
        let mut said = Self(Sha256::new());
        said.note(&GREETING);
        said.note(frame);
        said
    }

    fn note(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// What a near end says beside its proof.
    fn answer(&mut self, nonce: &Nonce, addresses: Option<&Addresses>) {
        self.note(&nonce.0);
        self.note(addresses.map_or_else(String::new, |all| format!("{} {}", all.near, all.far)).as_bytes());
    }

    fn sum(&self) -> [u8; 32] {
        self.0.clone().finalize().into()
    }
}

/// The key of a channel on which both proofs were said.
fn channel(token: &Token, said: &Said) -> Key {
    Key(token.mac(b"msgpath keys", &said.sum()).finalize().into_bytes().into())
}

/// The question of whoever listens, and what was said so far.
pub struct Question {
    said: Said,
    /// The proof covers both addresses.
    bound: bool,
}

impl Question {
    /// A new one, and what is sent after the greeting. `bound`: the proof is to cover both addresses of the channel.
    ///
    /// # Errors
    /// No random number can be had.
    pub fn new(bound: bool) -> io::Result<(Self, Vec<u8>)> {
        let opening = wire::frame(&Opening::Challenge { nonce: Nonce::new()?, addresses: bound }, &[])?;
        Ok((Self { said: Said::opening(&opening), bound }, opening))
    }

    /// What is answered to a proof, with the seals of what follows where it is one. `seen`: both addresses as they are seen
    /// here.
    pub fn judge(
        &self,
        token: &Token,
        roles: Roles,
        proves: &Proves,
        seen: Option<&Addresses>,
    ) -> (Admits, Option<Seals>) {
        let mut said = self.said.clone();
        said.answer(&proves.nonce, proves.addresses.as_ref());
        if !token.is_proven(roles.near, &said.sum(), &proves.proof) {
            return (Admits::Refused, None);
        }
        if let Some(seen) = seen.filter(|seen| self.bound && proves.addresses.as_ref() != Some(*seen)) {
            return (Admits::Elsewhere { seen: seen.clone() }, None);
        }
        said.note(&proves.proof.0);
        let proof = token.proof(roles.far, &said.sum());
        said.note(&proof.0);
        (Admits::Proven { proof }, Some(Seals::new(&channel(token, &said), false)))
    }
}

/// Why a channel was not opened.
#[derive(Debug)]
pub enum Refusal {
    /// It broke, or something else was said.
    Io(io::Error),
    /// The other side has another token.
    OtherToken,
    /// The other side sees other addresses than these: a translator or a forwarder is between.
    Elsewhere {
        /// As they are seen here.
        here: Option<Box<Addresses>>,
        /// As they are seen there.
        there: Box<Addresses>,
    },
    /// The other side cannot prove that it has the token.
    Unproven,
}

impl Refusal {
    /// What the user reads: E73, E75, E17. `name`: who listens; `verb`: the command that listens there.
    pub fn problem(&self, name: &str, verb: &str) -> Problem {
        let problem = |code: &str, what: String| Problem::new(code, Exit::CannotStart, what);
        match self {
            Refusal::Io(error) => {
                Problem::new("E17", Exit::Unfinished, format!("the {name} vanished")).why(error.to_string())
            }
            Refusal::OtherToken => problem("E73", format!("the {name} has another token"))
                .hint(format!("a copy of the file that {verb} --token-file has there")),
            Refusal::Unproven => problem("E73", format!("the {name} cannot prove that it has the token"))
                .why("something else than the msgpath that is meant answers there"),
            Refusal::Elsewhere { here, there } => {
                let both = |all: &Addresses| format!("{} to {}", all.near, all.far);
                let here = here.as_deref().map_or_else(|| "none".into(), both);
                problem(
                    "E75",
                    format!("the {name} sees another connection than this end: {} there, {here} here", both(there)),
                )
                .why("NAT, a forwarded port or a tunnel is between the two, or somebody who passes on what is said")
                .hint(format!("where that is meant: {verb} --behind-nat there"))
            }
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Refusal::Io(error)
    }
}

/// What a near end has heard after the greeting.
pub struct Asked {
    said: Said,
    /// Whether it is asked for a token.
    pub opening: Opening,
}

impl Asked {
    /// Listens for it.
    ///
    /// # Errors
    /// `TimedOut`, `UnexpectedEof`; `InvalidData` for something else.
    pub fn listen(stream: &mut (impl Read + AsFd), by: Instant) -> io::Result<Self> {
        let (opening, frame) = read_by::<Opening>(stream, by)?;
        Ok(Self { said: Said::opening(&frame), opening })
    }

    /// Proves that this side has the token, and hears whether the other has. `own`: both addresses as they are seen here.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn prove(
        self,
        stream: &mut (impl Read + Write + AsFd),
        token: &Token,
        roles: Roles,
        own: Option<Addresses>,
        by: Instant,
    ) -> Result<Seals, Refusal> {
        let Self { mut said, opening } = self;
        let bound = matches!(opening, Opening::Challenge { addresses: true, .. });
        let (nonce, addresses) = (Nonce::new()?, own.clone().filter(|_| bound));
        said.answer(&nonce, addresses.as_ref());
        let proof = token.proof(roles.near, &said.sum());
        wire::write(stream, &Proves { nonce, addresses, proof }, &[])?;
        said.note(&proof.0);
        match read_by::<Admits>(stream, by)?.0 {
            Admits::Proven { proof } if token.is_proven(roles.far, &said.sum(), &proof) => {
                said.note(&proof.0);
                Ok(Seals::new(&channel(token, &said), true))
            }
            Admits::Proven { .. } => Err(Refusal::Unproven),
            Admits::Refused => Err(Refusal::OtherToken),
            Admits::Elsewhere { seen } => Err(Refusal::Elsewhere { here: own.map(Box::new), there: Box::new(seen) }),
        }
    }
}

impl Token {
    /// The proof of one side over what was said.
    fn proof(&self, who: Label, said: &[u8; 32]) -> Proof {
        Proof(self.mac(who, said).finalize().into_bytes().into())
    }

    /// Whether the other side has the token and has heard the same, in a time that says nothing about the token.
    fn is_proven(&self, who: Label, said: &[u8; 32], proof: &Proof) -> bool {
        self.mac(who, said).verify_slice(&proof.0).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;
    use crate::token::tests::token;
    use crate::wire::{Joining, VERSION};

    /// Another door.
    const OTHER: Roles = Roles { near: b"other   near", far: b"other   far " };

    fn at(near: &str, far: &str) -> Addresses {
        Addresses { near: near.parse().unwrap(), far: far.parse().unwrap() }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    /// A near end that proves to a question of ours; the proof, and what it makes of the answer that `judge` gives.
    fn meets(
        token: &Token,
        (own, roles, bound): (Option<Addresses>, Roles, bool),
        judge: impl FnOnce(&Question, Proves) -> Admits,
    ) -> Result<Seals, Refusal> {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let (question, frame) = Question::new(bound).unwrap();
        far.write_all(&frame).unwrap();
        let asked = Asked::listen(&mut near, soon()).unwrap();
        let token = token.clone();
        std::thread::scope(|scope| {
            let proves = scope.spawn(move || asked.prove(&mut near, &token, roles, own, soon()));
            let (said, _) = read_by::<Proves>(&mut far, soon()).unwrap();
            wire::write(&mut far, &judge(&question, said), &[]).unwrap();
            proves.join().unwrap()
        })
    }

    #[test]
    fn a_frame_that_drips_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(b"mp").unwrap();
        let error = read_by::<Joining>(&mut far, Instant::now() + Duration::from_millis(30)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        near.write_all(&[b'm', b'p', VERSION, 0, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(read_by::<Joining>(&mut far, soon()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(near);
    }

    #[test]
    fn both_sides_get_the_same_channel() {
        let (token, seen) = (token("ours"), at("10.0.0.1:40000", "10.0.0.2:5210"));
        for bound in [true, false] {
            let mut far = None;
            let near = meets(&token, (Some(seen.clone()), SERVE, bound), |question, proves| {
                assert_eq!(proves.addresses.is_some(), bound);
                let (answer, seals) = question.judge(&token, SERVE, &proves, Some(&seen));
                far = seals;
                answer
            });
            let (mut near, mut far) = (near.unwrap(), far.unwrap());
            let sealed = near.says.seal(b"frame");
            assert!(far.hears.opens(b"frame", &sealed));
            let sealed = far.says.seal(b"answer");
            assert!(near.hears.opens(b"answer", &sealed));
        }
    }

    #[test]
    fn proof_holds_for_one_token_role_channel_and_address() {
        let (ours, other) = (token("ours"), token("other"));
        let seen = at("10.0.0.1:40000", "10.0.0.2:5210");
        let refused = |answer: &Admits| matches!(answer, Admits::Refused);
        let judged = meets(&ours, (Some(seen.clone()), SERVE, true), |question, proves| {
            assert!(refused(&question.judge(&other, SERVE, &proves, Some(&seen)).0), "another token");
            assert!(refused(&question.judge(&ours, OTHER, &proves, Some(&seen)).0), "to another door");
            let (again, _) = Question::new(true).unwrap();
            assert!(refused(&again.judge(&ours, SERVE, &proves, Some(&seen)).0), "heard before");
            for moved in [at("10.0.0.9:40000", "10.0.0.2:5210"), at("10.0.0.1:40000", "10.0.0.9:5210")] {
                let answer = question.judge(&ours, SERVE, &proves, Some(&moved)).0;
                assert_eq!(answer, Admits::Elsewhere { seen: moved.clone() });
                let forged = Proves { addresses: Some(moved.clone()), ..proves.clone() };
                assert!(
                    refused(&question.judge(&ours, SERVE, &forged, Some(&moved)).0),
                    "the proof covers the addresses"
                );
            }
            let silent = Proves { addresses: None, ..proves.clone() };
            assert!(refused(&question.judge(&ours, SERVE, &silent, Some(&seen)).0));
            for byte in 0..32 {
                let mut wrong = proves.clone();
                wrong.proof.0[byte] ^= 1;
                assert!(refused(&question.judge(&ours, SERVE, &wrong, Some(&seen)).0));
            }
            question.judge(&ours, SERVE, &proves, Some(&seen)).0
        });
        assert!(judged.is_ok());
    }

    #[test]
    fn near_end_believes_no_answer_but_the_proof_of_who_listens() {
        let (ours, other) = (token("ours"), token("other"));
        let way = || (None, SERVE, false);
        let back = meets(&ours, way(), |_, proves| Admits::Proven { proof: proves.proof });
        assert!(matches!(back, Err(Refusal::Unproven)), "its own proof, sent back");
        let mesh = meets(&ours, way(), |question, proves| {
            // Whoever listens for agents has the token as well, and proves something else with it.
            let mut said = question.said.clone();
            said.answer(&proves.nonce, None);
            said.note(&proves.proof.0);
            Admits::Proven { proof: ours.proof(OTHER.far, &said.sum()) }
        });
        assert!(matches!(mesh, Err(Refusal::Unproven)));
        let refused = meets(&ours, way(), |question, proves| question.judge(&other, SERVE, &proves, None).0);
        assert!(matches!(refused, Err(Refusal::OtherToken)));
        // A relay that says that no address is asked for, where one is: the first words are in the proof.
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let (question, _) = Question::new(true).unwrap();
        let weaker = Opening::Challenge { nonce: Nonce::new().unwrap(), addresses: false };
        wire::write(&mut far, &weaker, &[]).unwrap();
        let asked = Asked::listen(&mut near, soon()).unwrap();
        std::thread::scope(|scope| {
            let ours = &ours;
            let proves = scope.spawn(move || asked.prove(&mut near, ours, SERVE, None, soon()));
            let (said, _) = read_by::<Proves>(&mut far, soon()).unwrap();
            let (answer, seals) = question.judge(ours, SERVE, &said, None);
            assert!(answer == Admits::Refused && seals.is_none());
            wire::write(&mut far, &answer, &[]).unwrap();
            assert!(proves.join().unwrap().is_err());
        });
    }
}
