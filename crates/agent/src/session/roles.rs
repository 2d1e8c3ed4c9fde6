//! What a session can be beside an end of messages: roles of features. Each has orders that nobody else understands; its rounds
//! begin and end as those of messages do.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use msgpath_core::foreign::shown_bytes;
use msgpath_core::plugged::Plugged;
use msgpath_core::{Exit, Problem};

use super::Lease;
use crate::wire::{Body, FromEnd};

/// Most characters of the name of a role that is not there.
const MAX_NAME: usize = 40;

/// A session in a role. Only orders come here; what is measured is the role's own.
pub trait SessionRole: Send {
    /// Carries out an order of this role. Returns what is said to it.
    ///
    /// # Errors
    /// `InvalidData` for what is no order, or not now: it ends the session.
    fn order(&mut self, body: &Body, context: &Context<'_>) -> io::Result<FromEnd>;

    /// Measures the round that was made ready, until it is over; `goes` is asked now and then how it goes on. Returns what is said
    /// then: [`FromEnd::Over`], or why there is nothing to report. `None`: there is no round.
    fn go(&mut self, goes: &mut dyn FnMut() -> Goes) -> Option<FromEnd>;

    /// Says what the round has measured. `false`: there is none.
    ///
    /// # Errors
    /// As the writer.
    fn report(&mut self, to: &mut dyn Write) -> io::Result<bool>;
}

/// What a role has of its session.
pub struct Context<'a> {
    /// The near end has gone.
    pub gone: &'a Arc<AtomicBool>,
    pub(super) lease: &'a Lease,
}

impl Context<'_> {
    /// From now on the near end may be silent for ever: that its pipe ends says enough.
    pub fn silence_is_fine(&self) {
        self.lease.lasts(None);
    }
}

/// How a round goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goes {
    On,
    /// It ends early, with the replies in progress.
    ToItsEnd,
    /// Nobody waits for its end.
    Nowhere,
}

/// A role, as a feature lists it.
pub struct ListedRole {
    /// As orders name it.
    pub name: &'static str,
    /// For one session.
    pub begin: fn() -> Box<dyn SessionRole>,
}

static ADDED: Plugged<ListedRole> = Plugged::new();

/// Makes roles known, before there is a session.
pub fn add(roles: &'static [ListedRole]) {
    ADDED.extend(roles);
}

/// A role by its name.
///
/// # Errors
/// It was not built in.
pub(super) fn find(name: &str) -> Result<&'static ListedRole, Problem> {
    ADDED.all().find(|role| role.name == name).ok_or_else(|| {
        let name = shown_bytes(name.as_bytes(), MAX_NAME);
        Problem::new("E05", Exit::CannotStart, format!("this end has no role {name}"))
            .why("msgpath was built there without the feature that has it")
            .hint("the same build of msgpath at both ends")
    })
}

/// The near end of a session, for tests of roles.
#[cfg(any(test, feature = "testing"))]
pub mod testing {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::thread::JoinHandle;
    use std::time::Duration;

    use super::{Lease, ListedRole};
    use crate::wire::{self, FromEnd, ToEnd};
    use crate::{Begun, Peer, Reach, Terms};

    /// A session that can be in these roles, reached so: its control channel, and how it ends.
    pub fn session(roles: &'static [ListedRole], reach: Reach) -> (UnixStream, JoinHandle<io::Result<()>>) {
        super::add(roles);
        let (control, mut from) = UnixStream::pair().unwrap();
        let ended = std::thread::spawn(move || {
            let (mut to, peer) = (from.try_clone().unwrap(), Peer { reach, ..Peer::default() });
            let lease = Lease::new(Duration::from_secs(60));
            crate::session(&mut from, &mut to, Begun::default(), peer, &Terms::default(), &lease)
        });
        (control, ended)
    }

    pub fn says(control: &mut UnixStream, told: &ToEnd) {
        wire::write(control, told, &[]).unwrap();
    }

    /// What it says next.
    pub fn hears(control: &mut UnixStream) -> (FromEnd, Vec<u8>) {
        wire::read(control).unwrap().unwrap()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use super::testing::{hears, says, session};
    use super::*;
    use crate::Reach;
    use crate::wire::{self, ToEnd};

    pub static ROLES: [ListedRole; 1] = [ListedRole { name: "test", begin: || Box::new(Patient::default()) }];

    /// An order of the role below.
    pub fn told(what: &str) -> ToEnd {
        ToEnd::role(ROLES[0].name, &what).unwrap()
    }

    /// Waits until nobody waits for it any more: on `wait` at once, after `round` when it goes.
    #[derive(Default)]
    struct Patient {
        ready: bool,
        measured: bool,
    }

    impl SessionRole for Patient {
        fn order(&mut self, body: &Body, context: &Context<'_>) -> io::Result<FromEnd> {
            match body.read::<String>()?.as_str() {
                "wait" => {
                    while !context.gone.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                "round" => self.ready = true,
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            Ok(FromEnd::ready())
        }

        fn go(&mut self, goes: &mut dyn FnMut() -> Goes) -> Option<FromEnd> {
            while self.ready && goes() == Goes::On {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.measured = self.ready;
            std::mem::take(&mut self.ready).then_some(FromEnd::Over)
        }

        fn report(&mut self, mut to: &mut dyn Write) -> io::Result<bool> {
            if self.measured {
                wire::write(&mut to, &FromEnd::role(&7)?, &[1, 2, 3])?;
            }
            Ok(std::mem::take(&mut self.measured))
        }
    }

    #[test]
    fn a_round_of_a_role_begins_and_ends_as_one_of_messages() {
        let (mut control, ended) = session(&ROLES, Reach::Own);
        says(&mut control, &told("round"));
        assert!(matches!(hears(&mut control).0, FromEnd::Ready { .. }));
        says(&mut control, &ToEnd::Go);
        says(&mut control, &ToEnd::Alive);
        says(&mut control, &ToEnd::Finish);
        assert_eq!(hears(&mut control).0, FromEnd::Over);
        assert_eq!(hears(&mut control), (FromEnd::role(&7).unwrap(), vec![1, 2, 3]));
        says(&mut control, &ToEnd::Finish);
        assert!(ended.join().unwrap().is_err(), "it was reported");
        let (mut control, ended) = session(&ROLES, Reach::Own);
        says(&mut control, &told("round"));
        says(&mut control, &ToEnd::Go);
        says(&mut control, &ToEnd::Finish);
        says(&mut control, &ToEnd::Go);
        assert!(ended.join().unwrap().is_err(), "it was not made ready again");
    }

    #[test]
    fn only_a_parent_gives_a_role_and_only_one_that_there_is() {
        for reach in [Reach::Joined, Reach::Machine, Reach::Network] {
            let (mut control, ended) = session(&ROLES, reach);
            says(&mut control, &told("round"));
            assert!(ended.join().unwrap().unwrap_err().to_string().contains("only a parent"));
        }
        let (mut control, ended) = session(&ROLES, Reach::Own);
        says(&mut control, &ToEnd::role(&"x\u{1b}".repeat(1000), &()).unwrap());
        let FromEnd::Failed(failure) = hears(&mut control).0 else { panic!("it is there") };
        let problem = Problem::from(failure);
        assert!(problem.what.contains("this end has no role x") && problem.what.len() < 300, "{problem}");
        says(&mut control, &told("something else"));
        assert!(ended.join().unwrap().is_err(), "an order that the role does not know");
    }
}
