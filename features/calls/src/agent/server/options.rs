//! How a server behaves, as its order says it.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The lab's port.
pub const LAB_PORT: u16 = 12345;

/// A thread that takes the store's lock again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHog {
    /// How long it holds the lock; it sleeps meanwhile, so that only the lock is short, not a CPU.
    pub hold: Duration,
    /// From one time to the next; longer than `hold`.
    pub every: Duration,
}

/// How the server behaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerOptions {
    /// Address or name to listen at; `None`: 127.0.0.1.
    pub host: Option<String>,
    /// Port; 0: one that is free.
    pub port: u16,
    /// How many ports, one after the other.
    #[serde(default = "one")]
    pub ports: u16,
    /// Threads that serve; 0: one for each CPU.
    pub threads: usize,
    /// The most that keys, values and messages in progress may take, bytes.
    pub memory: u64,
    /// Connections at the same time.
    pub connections: usize,
    /// How long a connection may ask nothing.
    pub idle: Duration,
    /// How long it may where all places are taken and another one comes.
    #[serde(default = "sure")]
    pub sure: Duration,
    /// How long a message may take from its first byte to its last, and a reply to be taken.
    pub message: Duration,
    /// Whether the `quit` method stops the server.
    pub may_quit: bool,
    /// Where the lab's log is written.
    pub log: Option<PathBuf>,
    /// Connections that open and close are printed.
    pub verbose: bool,
    /// Waits are told from the kernel's receive stamps.
    pub kernel_stamps: bool,
    /// A thread that takes the store's lock.
    pub lock_hog: Option<LockHog>,
    /// Threads that do nothing but spin.
    pub cpu_hogs: u32,
}

fn sure() -> Duration {
    Duration::from_secs(1)
}

fn one() -> u16 {
    1
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            host: None,
            port: LAB_PORT,
            ports: one(),
            threads: 0,
            memory: 1 << 30,
            connections: 4096,
            idle: Duration::from_secs(600),
            sure: sure(),
            message: Duration::from_secs(10),
            may_quit: false,
            log: None,
            verbose: false,
            kernel_stamps: false,
            lock_hog: None,
            cpu_hogs: 0,
        }
    }
}
