//! A mix: echoes, streams and messages by a clock that go on beside the cases of a run, each switched off in turn, and what each does
//! to the other (docs/method/mix.md). `--beside` of `echo` and `stream`, `--under-load` of `compare`.
//!
//! | module | what |
//! |---|---|
//! | `typed` | the options: a text of another command line becomes a plan |
//! | `setting` | who is switched off in which rounds |
//! | `record` | what goes on beside, in the header; what it did in each round, a line of JSON in `mix.jsonl` |
//! | `run` | begins and ends it around the rounds, and measures it without them once a pass |
//! | `analyse` | each effect as a ratio of rounds of one pass |
//! | `view`, `figure` | the answer and the table on a terminal; each effect in the page |

pub mod analyse;
pub(crate) mod figure;
pub mod record;
pub mod run;
pub mod setting;
pub mod typed;
pub mod view;
