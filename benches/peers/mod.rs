//! What other tools report of the same thing on the same CPUs.

use std::sync::atomic::AtomicBool;

use msgpath_core::Plan;
use msgpath_tools::{Exchange, Printed, Turn};

use crate::bare;

/// What a tool prints of the first case of a plan after so many seconds; `None`: it is not installed, or does no such thing.
pub fn ask(name: &str, plan: &Plan, seconds: u32) -> Option<Printed> {
    let tool = msgpath_tools::tool(name)?;
    let exchange = Exchange::of(&plan.cases[0], plan.workload)?;
    let (near, far) = bare::cpus();
    let (work, tools, near, far) = ([(0, exchange)], [tool], [near], [far]);
    let turn = Turn { number: 0, pass: 0, work: &work, tools: &tools, seconds, near: &near, far: &far };
    let run = turn.take(&AtomicBool::new(false), &mut || ()).pop()?;
    (tool.read)(&exchange, &run.output).ok()
}
