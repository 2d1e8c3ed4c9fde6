//! The far end as a process: whatever its parent does, it ends.

use std::io::{BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use msgpath_agent::role::Role;
use msgpath_agent::wire::{self, FromEnd, ToEnd};

use crate::command::{Home, within};

struct Agent {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    _home: Home,
}

impl Agent {
    fn new() -> Self {
        let home = Home::new();
        let mut command = home.command(&["__agent"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let (mut to, from) = (child.stdin.take(), BufReader::new(child.stdout.take().expect("piped")));
        Role::End { places: None }.give(to.as_mut().expect("piped")).expect("it listens");
        Self { child, to, from, _home: home }
    }

    /// Greets it, and returns what it answers.
    fn greet(&mut self, lease_ms: u64) -> FromEnd {
        self.say(&ToEnd::Hello { version: env!("CARGO_PKG_VERSION").into(), lease_ms });
        wire::read(&mut self.from).expect("a frame").expect("no end").0
    }

    fn say(&mut self, message: &ToEnd) {
        let mut frame = Vec::new();
        wire::write(&mut frame, message, &[]).unwrap();
        self.write(&frame);
    }

    fn write(&mut self, bytes: &[u8]) {
        let to = self.to.as_mut().expect("open");
        to.write_all(bytes).unwrap();
        to.flush().unwrap();
    }

    /// With which code it ends, if it does.
    fn ends_within(&mut self, limit: Duration) -> Option<i32> {
        let mut code = None;
        within(limit, || {
            code = self.child.try_wait().expect("a child of ours").and_then(|status| status.code());
            code.is_some()
        });
        code
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SOON: Duration = Duration::from_secs(30);

#[test]
fn it_greets_with_its_version_and_machine() {
    let mut agent = Agent::new();
    let FromEnd::Hello { version, environment, cpus, .. } = agent.greet(60_000) else { panic!("no greeting") };
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    assert!(!environment.kernel.is_empty() && !cpus.is_empty(), "{environment:?}");
    agent.say(&ToEnd::Bye);
    assert_eq!(agent.ends_within(SOON), Some(0));
}

#[test]
fn a_closed_input_ends_it() {
    let mut agent = Agent::new();
    agent.greet(60_000);
    assert_eq!(agent.ends_within(Duration::from_millis(100)), None, "a lease of a minute is not over");
    agent.to = None;
    assert_eq!(agent.ends_within(SOON), Some(0));
    let mut never_greeted = Agent::new();
    never_greeted.to = None;
    assert_eq!(never_greeted.ends_within(SOON), Some(0));
}

#[test]
fn silence_beyond_the_lease_ends_it_and_signs_of_life_keep_it() {
    let mut agent = Agent::new();
    agent.greet(3000);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(4500) {
        agent.say(&ToEnd::Alive);
        assert_eq!(agent.ends_within(Duration::from_millis(100)), None, "after {:?}", begun.elapsed());
    }
    // Its input stays open: nothing but the lease ends it.
    assert_eq!(agent.ends_within(SOON), Some(4));
}

#[test]
fn damage_ends_it() {
    let mut alive = Vec::new();
    wire::write(&mut alive, &ToEnd::Alive, &[]).unwrap();
    for (what, at) in [("magic", 0), ("version", 2), ("length", 7), ("checksum", 12), ("content", alive.len() - 1)] {
        let mut agent = Agent::new();
        agent.greet(60_000);
        let mut damaged = alive.clone();
        damaged[at] ^= 0x80;
        agent.write(&damaged);
        assert_eq!(agent.ends_within(SOON), Some(4), "{what}");
    }
    let mut out_of_turn = Agent::new();
    out_of_turn.greet(60_000);
    out_of_turn.say(&ToEnd::Finish);
    assert_eq!(out_of_turn.ends_within(SOON), Some(4), "the end of a round that was not begun");
}
