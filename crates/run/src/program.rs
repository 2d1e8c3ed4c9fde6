//! A far end of others: what is made of its part of a round.

use msgpath_agent::wire::RoundOrder;
use msgpath_core::schema::EndRound;

use crate::round::RoundError;

/// The CPU time of the measured messages. A program is watched from outside, so what is known is its time in the whole round: it
/// is shared out evenly among all messages, those that were trimmed and the one before them.
pub(crate) fn shared_out(order: &RoundOrder, mut far: EndRound, measured: u64) -> EndRound {
    let connections = u64::from(order.connections);
    let all = measured + (order.trim + 1) * connections;
    let share = u128::from(far.report.user_ns) * u128::from(measured) / u128::from(all.max(1));
    far.report.user_ns = share as u64;
    far
}

/// A problem of a round with the name of the program in it.
pub(crate) fn named(order: &RoundOrder, error: RoundError) -> RoundError {
    match (error, &order.program) {
        (RoundError::Problem(mut problem), Some(program)) => {
            problem.what = format!("{}: {}", program.program.name, problem.what);
            RoundError::Problem(problem)
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_agent::program::ProgramOrder;
    use msgpath_core::program::Talk;
    use msgpath_core::{Exit, Problem, Program};

    fn order() -> RoundOrder {
        let plan = msgpath_core::Plan::new(
            msgpath_core::Workload::Echo,
            vec![msgpath_core::Case::new("tcp:send".parse().unwrap(), msgpath_core::units::Pieces::whole(64))],
        );
        let stop = std::sync::atomic::AtomicBool::new(false);
        let orders = crate::orders::Orders { plan: &plan, one_machine: true, spare: &[], stop: &stop };
        let program = Program::parse("new=./server {port}").unwrap();
        let order = orders.round(&plan.cases[0], 90, 9);
        RoundOrder { program: Some(Box::new(ProgramOrder { program, talk: Talk::default() })), ..order }
    }

    #[test]
    fn what_a_program_took_is_shared_by_all_messages() {
        let mut far = EndRound::default();
        far.report.user_ns = 1_000_000;
        // 90 measured, 9 trimmed, and one before all.
        assert_eq!(shared_out(&order(), far, 90).report.user_ns, 900_000);
    }

    #[test]
    fn a_problem_names_its_program() {
        let problem = Problem::new("E06", Exit::Unfinished, "message 3 came back different");
        let RoundError::Problem(named) = named(&order(), problem.into()) else { panic!("a problem") };
        assert_eq!(named.what, "new: message 3 came back different");
    }
}
