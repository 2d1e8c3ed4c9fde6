//! The coordinator: reaches the ends, orders rounds, watches the kernel meanwhile, and writes the record.
//!
//! | module | what |
//! |---|---|
//! | `execute` | reaches the ends, pilots every case, plans and carries out the rounds, writes each; `Progress` is told |
//! | `resume` | a run that was cut short: whether it may go on, and with what it has; `execute` then skips what is recorded |
//! | `pilot`, `orders` | whether a case can be measured here and how fast it is; what each end is told of a round |
//! | `capacity` | the rate that a path takes, where `--rate` asks for shares of it |
//! | `suspects` | which causes the pilot makes worth an ablation |
//! | `diagnose`, `who` | both ends examined, before a run and for `msgpath doctor`; who else answers at a port |
//! | `launch` | how an agent is reached, one file a launcher: started here, in a network namespace, on another host by a program that gives a pipe (`on_host`), or listening (`msgpath serve`) |
//! | `reach` | whether data connections to another host come about, before anything else is measured; where they go |
//! | `link`, `placement` | the coordinator's end of the stream to an agent; which CPUs the ends use |
//! | `program` | a far end of others: where it is, whether it is the same one, what is made of its CPU time |
//! | `round` | one round: an order to each end, a report of each, brought together |
//! | `clients` | several near ends of one round: what each is told of it, and what they report together |
//! | `written` | what every run writes alike, those of features as well: header, conditions of a round, its end |
//! | `traffic` | what goes on beside the rounds, begun and ended between them: the plug point of features |
//! | `background` | traffic that is a round of another pair of ends |
//! | `others` | who else used the CPUs during a round |
//! | `simulate` | the near end's loop under cachegrind |
//! | `replicas` | the traced replica of each case: stages come from it, and what tracing costs |
//! | `traces` | who traces the kernel under each end; events of both in one list |
//! | `places` | two ends in network namespaces of this machine, and the link between them |
//!
//! **Stages.** With `--stages` every measured case has a *traced replica*: the same once more, in rounds of its own between the
//! others, while the kernel is traced. The case itself is measured untouched. The ratio of the two, with its interval, is what
//! tracing costs; it stands beside every split. Both ends stamp before and after their calls in such a round, the threads
//! and sockets are named to the tracer (thread ids, SO_COOKIE), and the events go into the record as they are. On one clock the
//! coordinator traces both ends. Between two the far end's agent traces its own kernel, where its parent orders it (`Reach::Own`), and its events
//! come back before its report, by its own clock (`KernelEvent::end`, `EndTrace`). `analyse`
//! rebuilds what each receiver did at every moment and charges every nanosecond to a stage.
//!
//! **Where the ends are.** `Between` puts the ends into network namespaces: who asks for the run moves this process to the near one before it
//! has a second thread, and the near end starts there; the far end is told where to go.
//!
//! **Programs of others.** With `--server` the agent of the far end measures nothing: it starts the program when the first round asks for it,
//! offers its address, reads its CPU time at both ends of a round, and ends it when it ends itself. The near end connects without a key,
//! tries one message (`program::first_reply`), and runs the usual loop with a payload that the program understands. Such a case has a path
//! with `@name` and the trait `program`; what nobody counted of its far end is `Counted::CpuTime` or `Nothing`, never 0.
//! Only whoever started an agent may have it start programs (`Reach::Own`).
//!
//! An ablation is a case like any other, with `Case::ablation` naming the case it explains and the one thing that is changed; `Plan`
//! says what that means for options, CPUs and buffers. When the rounds that were planned are recorded, `execute` asks its
//! caller once whether there are sizes to add near a crossing (`NextPhase`); `run` itself never looks at a number.
//!
//! Invariant: nothing here is printed or interpreted; `Progress` is called
//! between rounds. Invariant: it measures nothing: messages and calls are measured by agents, and no end is a thread
//! of another.
#![forbid(unsafe_code)]

mod background;
mod between;
mod budget;
mod capacity;
mod clients;
mod diagnose;
pub mod examples;
mod execute;
pub mod launch;
mod link;
mod orders;
mod others;
mod pilot;
mod placement;
pub mod places;
mod program;
mod reach;
mod replicas;
pub mod resume;
mod round;
mod settling;
mod simulate;
mod suspects;
mod traces;
pub mod traffic;
pub mod who;
pub mod written;

pub use diagnose::{DoctorRequest, Examination, WHO_ANSWERS, examine, examine_alone, floors_alone};
pub use execute::{NextPhase, Progress, Request, execute, patience};
pub use link::{Link, Pair, had, until_over, vanished};
pub use orders::Orders;
pub use others::Others;
pub use pilot::{Pace, Sought, pilot};
pub use placement::placement;
pub use round::{RoundError, out_of_turn};
