//! Traffic beside the rounds of a run: begun, looked at and ended by whoever measures. What the loops of the base carry out, and the
//! works of features, is a round of a pair of its own ([`Background`]); a workload that needs other processes brings a [`TrafficKind`].

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use msgpath_core::parts::Parts;
use msgpath_core::plugged::Plugged;
use msgpath_core::schema::DataRoute;
use msgpath_core::{Exit, Plan, Problem, Target, Workload};

use crate::background::Background;

/// Something that goes on while others measure. Dropped, it ends.
pub trait Traffic {
    /// Begins to send.
    ///
    /// # Errors
    /// It cannot send here, or an end is gone.
    fn begin(&mut self, stop: &AtomicBool) -> Result<Begun, Problem>;

    /// Looks after its ends, without waiting.
    ///
    /// # Errors
    /// It does not send any more, or an end is gone.
    fn look(&mut self) -> Result<(), Problem>;

    /// Ends it, where its messages are timed: what became of them, those of each thread in turn. It may begin again.
    ///
    /// # Errors
    /// It did not send any more, or an end is gone.
    fn measured(&mut self) -> Result<Vec<Sent>, Problem>;

    /// Ends it, whatever becomes of what is under way. It may begin again.
    ///
    /// # Errors
    /// An end is gone.
    fn end(&mut self) -> Result<(), Problem> {
        self.measured().map(drop)
    }
}

/// A message that was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When it was sent, or was to be sent by a schedule, ns of the monotonic clock of this machine.
    pub at_ns: u64,
    /// How long it took, ns; `None`: it was lost.
    pub took_ns: Option<u64>,
}

/// What it began with.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// Where its connections go; `None`: they stay on this machine, outside any namespace of a run.
    pub data: Option<DataRoute>,
    /// SO_COOKIE of the sockets of the near and the far end.
    pub cookies: [Vec<u64>; 2],
}

/// What is to go on.
pub struct Wanted<'a> {
    /// The far end of the run.
    pub target: &'a Target,
    /// One case.
    pub plan: Plan,
    /// What the workload must know besides.
    pub parts: Parts,
    /// Messages that are sent on each connection, at most.
    pub messages: u64,
    /// How long its ends live while nobody looks.
    pub lease: Duration,
}

/// Makes the traffic of a workload that a round of a pair of ends is not.
pub trait TrafficKind: Sync {
    fn workload(&self) -> &'static Workload;

    /// Makes it ready.
    ///
    /// # Errors
    /// It cannot be had here, or an end does not answer.
    fn open(&self, wanted: Wanted<'_>) -> Result<Box<dyn Traffic>, Problem>;
}

static ADDED: Plugged<dyn TrafficKind> = Plugged::new();

/// Makes kinds known, before any is wanted.
pub fn add(kinds: &[&'static dyn TrafficKind]) {
    ADDED.extend(kinds.iter().copied());
}

/// Makes traffic ready, by the kind of its workload.
///
/// # Errors
/// It cannot be had here, or an end does not answer.
pub fn open(wanted: Wanted<'_>) -> Result<Box<dyn Traffic>, Problem> {
    match ADDED.all().find(|kind| kind.workload() == wanted.plan.workload) {
        Some(kind) => kind.open(wanted),
        None => Ok(Box::new(Background::open(wanted)?)),
    }
}

/// E17: it does not send any more, and nobody told it to end.
pub fn ended_by_itself() -> Problem {
    Problem::new("E17", Exit::Unfinished, "the traffic beside the rounds ended by itself")
        .why("one of its ends has closed, or all of its messages were sent")
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Case;
    use msgpath_core::units::Pieces;

    static OTHER: Workload = Workload { name: "of another kind", ..*Workload::ECHO };

    struct Kind;

    impl TrafficKind for Kind {
        fn workload(&self) -> &'static Workload {
            &OTHER
        }

        fn open(&self, wanted: Wanted<'_>) -> Result<Box<dyn Traffic>, Problem> {
            Err(Problem::new("E05", Exit::CannotStart, format!("asked for {} messages", wanted.messages)))
        }
    }

    #[test]
    fn a_workload_with_a_kind_of_its_own_is_opened_by_it() {
        add(&[&Kind]);
        let case = Case::new("tcp:send".parse().unwrap(), Pieces::whole(64));
        let wanted = Wanted {
            target: &Target::Local,
            plan: Plan::new(&OTHER, vec![case]),
            parts: Parts::default(),
            messages: 7,
            lease: Duration::from_secs(1),
        };
        let problem = open(wanted).err().expect("its kind refuses");
        assert_eq!(problem.what, "asked for 7 messages");
    }
}
