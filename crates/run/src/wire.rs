//! The framed protocol between the near end and the agent: over standard input and output, or a socket.
//!
//! A frame is magic `mp`, version, kind (all in 4 bytes), the lengths of its two parts (u32 little-endian each), the
//! CRC-32 of both, then JSON, then bytes. Parts are limited; nothing is allocated before the length was checked.

use std::io::{self, Read, Write};

use msgpath_core::doctor::{Check, Examine};
use msgpath_core::plan::{ChannelOptions, Dispatch, Stamps, Work, Workload};
use msgpath_core::schema::{
    EndReport, Environment, EventCounts, EventFacts, Granted, KernelCounts, ThreadRecord, TracedThread,
};
use msgpath_core::units::Pieces;
use msgpath_core::{PathName, Problem, Unavailable};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Both ends must speak the same version.
pub const VERSION: u8 = 4;
/// Most bytes of JSON in a frame: what all threads of the largest round counted has room.
pub const MAX_JSON: usize = 2 << 20;
/// Most bytes that follow the JSON.
pub const MAX_BYTES: usize = 64 << 20;
const MAGIC: [u8; 2] = *b"mp";
const HEADER: usize = 16;

/// What the near end says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToFar {
    /// First: who am I. The agent ends when it has heard nothing for `lease_ms`.
    Hello {
        /// Version of msgpath.
        version: String,
        /// The lease.
        lease_ms: u64,
    },
    /// Examine your machine.
    Examine(Examine),
    /// Prepare a round.
    Round(Box<RoundOrder>),
    /// The near end has connected from these addresses.
    Connect {
        /// One a connection; empty texts where the transport needs none.
        locals: Vec<String>,
    },
    /// The near end's part of the round is over.
    Finish,
    /// Nothing new, but alive.
    Alive,
    /// The end.
    Bye,
}

/// What the far end says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToNear {
    /// Answer to `Hello`.
    Hello {
        /// Version of msgpath.
        version: String,
        /// The machine.
        environment: Box<Environment>,
        /// CPUs of the agent in the order in which it would use them.
        cpus: Vec<u32>,
        /// Kernel counters that can be read here, by name.
        counters: Vec<String>,
        /// Events of CPU and kernel that its threads can count.
        events: Box<EventFacts>,
    },
    /// Answer to `Examine`.
    Examined {
        /// What was seen.
        checks: Vec<Check>,
    },
    /// Answer to `Round`: connect here.
    Offered {
        /// One a connection.
        addresses: Vec<String>,
    },
    /// Answer to `Connect`: the threads wait for messages.
    Ready {
        /// Options of the first connection.
        granted: Vec<Granted>,
        /// Bytes that a reply can wait in without a reader.
        room: Option<u64>,
        /// The measuring threads, for whoever traces them.
        threads: Vec<TracedThread>,
    },
    /// Answer to `Finish`, followed by the arrival stamps where they were asked for.
    Done {
        /// What happened here.
        report: Box<EndReport>,
        /// Kernel counters that changed during the round.
        kernel: KernelCounts,
        /// Time of a fixed piece of computing just before the round, ns.
        speed_ns: u64,
        /// Events that its threads counted, all together.
        events: EventCounts,
        /// The threads one by one, where there are several.
        threads: Vec<ThreadRecord>,
        /// How many arrival stamps follow for each thread (u64 little-endian each). In a traced round as many stamps of
        /// the moments just before each reply was sent follow them.
        stamps: Vec<u32>,
    },
    /// This cannot be measured here.
    Unavailable(Unavailable),
    /// The round failed here.
    Failed(Problem),
}

/// Everything the far end must know of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoundOrder {
    /// Echo or stream.
    pub workload: Workload,
    /// The far end sends (stream).
    pub reverse: bool,
    /// The path.
    pub path: PathName,
    /// The message.
    pub pieces: Pieces,
    /// Bytes of the reply (echo).
    pub reply: u64,
    /// Connections in all.
    pub connections: u32,
    /// Threads.
    pub threads: u32,
    /// How a thread serves its connections.
    pub dispatch: Dispatch,
    /// Messages under way on a connection.
    pub inflight: u32,
    /// Measured messages on each connection.
    pub messages: u64,
    /// Messages before them that are not measured.
    pub trim: u64,
    /// The near end of an echo stops early after this long, ns; 0: never. Then the far end's last message does not
    /// come, and that is no error.
    pub patience_ns: u64,
    /// CPUs of the threads, in turn; empty: not pinned.
    pub cpus: Vec<u32>,
    /// Stamps.
    pub stamps: Stamps,
    /// Both ends stamp before and after their calls, because the kernel is traced.
    pub traced: bool,
    /// The measuring threads get a higher priority.
    pub urgent: bool,
    /// They count events of CPU and kernel.
    pub events: bool,
    /// Connection options.
    pub options: ChannelOptions,
    /// Work for each message before it is answered (echo).
    pub work: Option<Work>,
    /// Seed of the work.
    pub seed: u64,
    /// Bytes over which message buffers rotate; 0: one buffer.
    pub working_set: u64,
}

impl RoundOrder {
    /// The reply: cut like the message where it is as long.
    pub fn reply_pieces(&self) -> Pieces {
        if self.reply == self.pieces.total() { self.pieces } else { Pieces::whole(self.reply as u32) }
    }

    /// Bytes of the larger of message and reply.
    pub fn largest(&self) -> u64 {
        match self.workload {
            Workload::Echo | Workload::Rpc | Workload::Periodic => self.pieces.total().max(self.reply),
            Workload::Stream => self.pieces.total(),
        }
    }

    /// Limits that an honest near end keeps; anything else is refused.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        use msgpath_core::plan::{MAX_CONNECTIONS, MAX_SIZE, MAX_WORK_NS, MAX_WORKING_SET};
        let size = |bytes: u64| (1..=MAX_SIZE).contains(&bytes);
        if !size(self.pieces.total()) || (self.workload == Workload::Echo && !size(self.reply)) {
            return Err("a size out of range");
        }
        if self.pieces.count > msgpath_core::units::MAX_PIECES {
            return Err("too many pieces");
        }
        if !(1..=MAX_CONNECTIONS).contains(&self.connections)
            || self.threads == 0
            || !self.connections.is_multiple_of(self.threads)
            || !(1..=4096).contains(&self.inflight)
        {
            return Err("connections, threads or messages in flight out of range");
        }
        if self.messages == 0 || self.messages > 1 << 40 || self.trim > 1 << 40 {
            return Err("a number of messages out of range");
        }
        if self.work.is_some_and(|work| work.mean_ns > MAX_WORK_NS) || self.working_set > MAX_WORKING_SET {
            return Err("work or a working set out of range");
        }
        Ok(())
    }
}

/// Writes one frame with one call.
///
/// # Errors
/// As the writer.
pub fn write<T: Serialize>(out: &mut impl Write, message: &T, bytes: &[u8]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    if json.len() > MAX_JSON || bytes.len() > MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a frame beyond its limit"));
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&json);
    crc.update(bytes);
    let mut frame = Vec::with_capacity(HEADER + json.len() + bytes.len());
    frame.extend(MAGIC);
    frame.extend([VERSION, 0]);
    frame.extend((json.len() as u32).to_le_bytes());
    frame.extend((bytes.len() as u32).to_le_bytes());
    frame.extend(crc.finalize().to_le_bytes());
    frame.extend(&json);
    frame.extend(bytes);
    out.write_all(&frame)?;
    out.flush()
}

/// Reads one frame. `Ok(None)`: the other end closed between two frames.
///
/// # Errors
/// `InvalidData` for anything that is not a frame of this version; `UnexpectedEof` for half a frame.
pub fn read<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<(T, Vec<u8>)>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut header = [0; HEADER];
    match from.read(&mut header[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut header[1..])?,
    }
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
    if header[..2] != MAGIC {
        return Err(invalid("not msgpath at the other end".into()));
    }
    if header[2] != VERSION {
        return Err(invalid(format!("the other end speaks version {}, this is version {VERSION}", header[2])));
    }
    let (json_length, length) = (word(4) as usize, word(8) as usize);
    if json_length > MAX_JSON || length > MAX_BYTES {
        return Err(invalid("a frame beyond its limit".into()));
    }
    let mut json = vec![0; json_length];
    from.read_exact(&mut json)?;
    let mut bytes = Vec::new();
    // Grows with what really arrives, not with what the header claims.
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() != length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&json);
    crc.update(&bytes);
    if crc.finalize() != word(12) {
        return Err(invalid("a frame with a wrong checksum".into()));
    }
    let message =
        serde_json::from_slice(&json).map_err(|error| invalid(format!("a frame that says nothing: {error}")))?;
    Ok(Some((message, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_cross_and_damage_is_seen() {
        let mut bytes = Vec::new();
        let message = ToFar::Connect { locals: vec!["a".into(), "b".into()] };
        write(&mut bytes, &message, &[1, 2, 3]).unwrap();
        let (read_back, extra) = read::<ToFar>(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!((read_back, extra), (message, vec![1, 2, 3]));
        for at in (0..bytes.len()).filter(|at| *at != 3) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(read::<ToFar>(&mut damaged.as_slice()).is_err(), "byte {at}");
        }
        for length in 1..bytes.len() {
            assert!(read::<ToFar>(&mut &bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(read::<ToFar>(&mut [].as_slice()).unwrap().is_none());
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Vec::new();
        write(&mut bytes, &ToFar::Bye, &[]).unwrap();
        bytes[2] = 9;
        assert!(read::<ToFar>(&mut bytes.as_slice()).unwrap_err().to_string().contains("version 9"));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read::<ToNear>(&mut bytes.as_slice());
        }
    }
}
