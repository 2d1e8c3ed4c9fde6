//! An end: what a process does that takes part in a run.
//!
//! It gets orders over a stream of bytes, examines its machine, runs message loops in a team of threads, and reports what it
//! counted. It knows no plan, no case and no record: those are the coordinator's.
//!
//! | module | what |
//! |---|---|
//! | `session` | the session of an end, near or far, for an agent and for `serve` alike |
//! | `confine` | what `serve` and an agent on another host take from themselves before they measure, and who starts the threads that measure: a filter of system calls holds for the others only |
//! | `launched` | an agent on another host: its first bytes, and the address that it finds for data connections |
//! | `role` | the first order of an agent: an end, or a process of a feature |
//! | `wire`, `greeting` | the framed protocol of orders and reports; what `serve` says before anything is sent to it |
//! | `serve` | the far end started by hand, one session per near end |
//! | `token`, `handshake` | who may come to it: a shared secret; how both sides prove to have it, bound to one channel and its addresses |
//! | `seal` | frames that can come from nobody but the other end, by the key that the two proofs give |
//! | `presence` | the end of a control channel, seen whatever a session does, and every wait ended with it |
//! | `crowd` | who makes room where more come than there are places |
//! | `team`, `thread` | the measuring threads of one end; one of them: pins itself, makes its ends, trims, measures, counts |
//! | `ends` | the ends as a thread's job sees them: the loops of its role, and what is counted around them |
//! | `loops` | the message loops: echo at both ends, a stream's sender and receiver |
//! | `event_loop` | the same for an echo whose thread serves many connections from one epoll set |
//! | `ahead` | receive calls that ask for more than a message |
//! | `given_up` | which answers are late and which come twice, of messages that were given up for lost |
//! | `in_time` | rounds that go on for a time: several near ends begin and end together |
//! | `open` | the open loop: a sending and a receiving thread for each connection |
//! | `pacer`, `lateness` | when a sender by a schedule may go on, of messages and of calls; why it was late |
//! | `meter` | what a thread used and its connections counted, around the measured messages |
//! | `payload` | what messages contain, and how it is compared |
//! | `memory`, `plausible` | what a round takes and a far end gives; whether a far end's report can be |
//! | `names` | all addresses of a name, and the one that answers |
//! | `environment`, `namespace` | the machine of one end; the network namespace that it moves to |
//! | `works` | workloads of features that have loops of their own |
//! | `observe` | tracing back ends: BPF tracepoints, perf events, or none and why; their completeness test; how events reach the coordinator |
//! | `program` | programs of others as far ends: started, waited for until they listen, watched, ended; what one message to them brings back |
//! | `doctor` | what on that machine will spoil a measurement: one file per group of checks, listed in `CHECKS` |
//! | `floors`, `send_costs`, `route` | what a message cannot be faster than here; what handing one over is made of; which device leads to the other end |
//! | `counters`, `speed`, `events` | what the kernel counted during a round; whether the CPU kept its speed; events of CPU and kernel, counted in the measuring threads |
//!
//! Invariant: a loop contains the measured thing only: no allocation, no lock, no formatting; two clock
//! readings and one store a message. Invariant: it never sees `run`.
#![forbid(unsafe_code)]

mod ahead;
pub mod confine;
pub mod counters;
pub mod crowd;
pub mod doctor;
pub mod ends;
pub mod environment;
pub mod event_loop;
pub mod events;
pub mod failure;
pub mod floors;
mod given_up;
pub mod greeting;
pub mod handshake;
mod in_time;
pub mod last_output;
pub mod lateness;
pub mod launched;
pub mod loops;
pub mod memory;
pub mod meter;
pub mod names;
pub mod namespace;
pub mod observe;
pub mod open;
pub mod pacer;
pub mod payload;
pub mod plausible;
mod presence;
mod privileges;
pub mod program;
pub mod role;
pub mod route;
pub mod seal;
mod send_costs;
pub mod serve;
mod session;
pub mod speed;
pub mod team;
pub mod thread;
pub mod token;
pub mod wire;
pub mod works;

pub use memory::Budget;
pub use privileges::{Peer, Reach, Spinning};
pub use serve::{ServeAddress, ServeOptions, serve};
pub use session::{Begun, Lease, Terms, agent, roles, session, started};
