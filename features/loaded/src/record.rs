//! What a run under load keeps beside its rounds: the load, in the header; what was read of the queues in each loaded round, a line of
//! JSON in `loaded.jsonl`.

use std::fmt;
use std::path::Path;

use msgpath_core::parts::Part;
use msgpath_core::schema::{FAR, NEAR};
use msgpath_record::RecordError;
use msgpath_record::lines::{self, Limits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Its name, within the folder of the run.
const FILE: &str = "loaded.jsonl";
const LIMITS: Limits = Limits { line: 4 << 20, lines: 20_000 };
/// Most samples of an end in a round.
pub const MAX_SAMPLES: usize = 2048;

/// Where the load goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the server to the client.
    Down,
    /// From the client to the server.
    Up,
    /// Both at once.
    Both,
}

impl Direction {
    pub const ALL: [Direction; 3] = [Direction::Down, Direction::Up, Direction::Both];

    /// As typed, printed, and the label of its case.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Down => "down",
            Direction::Up => "up",
            Direction::Both => "both",
        }
    }

    /// That of a case with this label; `None`: its rounds are idle.
    pub fn of(label: Option<&str>) -> Option<Self> {
        Self::ALL.into_iter().find(|direction| Some(direction.name()) == label)
    }

    /// The ends that send.
    pub fn senders(self) -> &'static [usize] {
        match self {
            Direction::Down => &[FAR],
            Direction::Up => &[NEAR],
            Direction::Both => &[NEAR, FAR],
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The load, as it was asked for.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct LoadFacts {
    /// `tcp`, `udp`.
    pub transport: String,
    /// Streams in each direction.
    pub streams: u32,
    /// Payload bits a second of all streams of a direction; `None`: as much as passes.
    pub rate_bits: Option<f64>,
    /// Both ends are on this machine, outside any namespace: there is no link.
    pub shared_machine: bool,
}

impl Part for LoadFacts {
    const NAME: &'static str = "loaded";
}

/// What stood where at one moment, at one end. `None`: not known there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct At {
    /// Of the clock of that end, ns.
    pub t_ns: u64,
    /// Bytes that the device received since it is up.
    pub received: Option<u64>,
    /// Bytes that it sent.
    pub sent: Option<u64>,
    /// Bytes that wait in its queueing disciplines.
    pub backlog_bytes: Option<u64>,
    /// Packets that wait there.
    pub backlog_packets: Option<u64>,
    /// Bytes that left them.
    pub left_bytes: Option<u64>,
    /// Packets that they dropped.
    pub drops: Option<u64>,
    /// Packets that they marked.
    pub marks: Option<u64>,
    /// Bytes that the device has taken and not sent (BQL).
    pub device_bytes: Option<u64>,
    /// Bytes of the load that the other end has not acknowledged.
    pub unacknowledged_bytes: Option<u64>,
    /// Those of them that have not left their socket.
    pub unsent_bytes: Option<u64>,
    /// Smoothed round trip of the load, mean of its sockets, ns.
    pub rtt_ns: Option<u64>,
    /// Bytes that the other end has acknowledged to its sockets since they are connected.
    pub socket_acknowledged: Option<u64>,
    /// Bytes that have come to them.
    pub socket_received: Option<u64>,
}

/// What one end read in a round.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueLog {
    /// The device that leads to the other end.
    pub device: Option<String>,
    /// Kinds of its queueing disciplines, the root first.
    pub kinds: Vec<String>,
    /// In the order of time.
    pub samples: Vec<At>,
}

/// A new connection that was made while a load went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// When it was begun, ns after the round.
    pub t_ns: u64,
    /// How long connecting took, ns; `None`: it was not connected a little after the round.
    pub connect_ns: Option<u64>,
    /// From then until the reply to its request had come, ns; `None`: none had.
    pub reply_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoadedRound {
    pub case: u32,
    pub pass: u32,
    /// The load was steady when it began.
    pub steady: bool,
    /// How long the load ran before, ns.
    pub before_ns: u64,
    /// When its ends began to read, ns since the start of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_ns: Option<u64>,
    /// The near and the far end; `None`: nobody reads there.
    pub ends: [Option<QueueLog>; 2],
    /// New connections that were begun in it; `None`: none could be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probes: Option<Vec<Probe>>,
}

/// Appends a round.
///
/// # Errors
/// The file cannot be written.
pub fn append(folder: &Path, round: &LoadedRound) -> Result<(), RecordError> {
    lines::append(&folder.join(FILE), std::slice::from_ref(round))
}

/// All rounds up to the first line that is not whole; none of a run without load.
///
/// # Errors
/// The file cannot be read.
pub fn rounds(folder: &Path) -> Result<Vec<LoadedRound>, RecordError> {
    lines::read(&folder.join(FILE), LIMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_read_back_up_to_a_cut() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(rounds(place.path()).unwrap(), []);
        let samples = vec![At { t_ns: 1, backlog_bytes: Some(5), ..At::default() }];
        let log = QueueLog { device: Some("mp0".into()), kinds: vec!["tbf".into()], samples };
        let probes = Some(vec![Probe { t_ns: 1, connect_ns: Some(2), reply_ns: None }]);
        let round = |pass| LoadedRound {
            pass,
            ends: [Some(log.clone()), None],
            probes: probes.clone().filter(|_| pass > 0),
            ..LoadedRound::default()
        };
        append(place.path(), &round(0)).unwrap();
        append(place.path(), &round(1)).unwrap();
        assert_eq!(rounds(place.path()).unwrap(), [round(0), round(1)]);
        let file = place.path().join(FILE);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(rounds(place.path()).unwrap(), [round(0)]);
        assert!(append(Path::new("/nowhere/at/all"), &round(0)).is_err());
    }

    #[test]
    fn a_case_has_a_direction_by_its_label() {
        for direction in Direction::ALL {
            assert_eq!(Direction::of(Some(direction.name())), Some(direction));
        }
        assert_eq!((Direction::of(Some("idle")), Direction::of(None)), (None, None));
    }
}
