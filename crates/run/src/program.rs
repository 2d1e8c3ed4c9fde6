//! A far end of others: where it is, whether it is the same one, and what is made of its part of a round.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use msgpath_agent::names;
use msgpath_agent::program::sha256;
use msgpath_agent::wire::RoundOrder;
use msgpath_core::program::Source;
use msgpath_core::schema::{EndRound, Environment, EventFacts, RunHeader};
use msgpath_core::{Exit, Plan, Problem};

use crate::link::Pair;
use crate::round::RoundError;

/// What is known of the far end where that is a program on another machine: next to nothing. The agent that stands for it is
/// here, and what it knows is of this machine.
///
/// # Errors
/// E10: other cases of the plan have their far end here.
pub(crate) fn place(plan: &Plan, pair: &mut Pair) -> Result<(), Problem> {
    for program in &plan.programs {
        let Source::Address(address) = &program.source else { continue };
        // What is not known is said when the case is tried.
        let found = names::addresses_of(address, plan.options.family).unwrap_or_default();
        let Some(ip) = found.first().map(SocketAddr::ip).filter(|_| !found.iter().any(|one| is_here(one.ip()))) else {
            continue;
        };
        let only = |case: &msgpath_core::Case| case.path.program.as_ref() == Some(&program.name);
        if !plan.cases.iter().all(only) {
            let what = format!("{} is on another machine, and the other far ends are here", program.source);
            return Err(Problem::new("E10", Exit::Usage, what)
                .why("what differs would be the way, not the program")
                .hint(format!("msgpath echo {}", program.source)));
        }
        let far = &mut pair.far;
        far.environment = Environment { host: address.clone(), ..Environment::default() };
        (far.cpus, far.counters, far.events) = (Vec::new(), Vec::new(), EventFacts::default());
        (far.peer, pair.away) = (Some((ip, 0).into()), true);
    }
    Ok(())
}

/// Whether an address is one of this machine.
fn is_here(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}

/// In what programs that would be started again differ from those of a run, sentence by sentence.
pub(crate) fn differences(header: &RunHeader) -> Vec<String> {
    let files = header.programs.iter().flat_map(|facts| facts.files.iter().map(move |file| (&facts.name, file)));
    let changed = files.filter(|(_, (path, sum))| sha256(Path::new(path)).ok().as_ref() != Some(sum));
    changed.map(|(name, (path, _))| format!("{path} of the far end {name} is not the file that it was")).collect()
}

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
    use msgpath_agent::wire::ProgramOrder;
    use msgpath_core::Program;
    use msgpath_core::program::Talk;

    fn case() -> msgpath_core::Case {
        msgpath_core::Case::new("tcp:send".parse().unwrap(), msgpath_core::units::Pieces::whole(64))
    }

    fn order() -> RoundOrder {
        let plan = Plan::new(msgpath_core::Workload::ECHO, vec![case()]);
        let stop = std::sync::atomic::AtomicBool::new(false);
        let orders = crate::orders::Orders { plan: &plan, one_clock: true, spare: &[], stop: &stop, usual_ns: None };
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
    fn an_address_of_this_machine_is_known() {
        assert!(is_here("127.0.0.1".parse().unwrap()) && !is_here("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn a_program_that_was_built_anew_is_noticed() {
        let path = std::env::temp_dir().join(format!("msgpath-program-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let sum = sha256(&path).unwrap();
        let facts = |sum| msgpath_core::program::ProgramFacts {
            name: "server".into(),
            files: vec![(path.display().to_string(), sum)],
            ..Default::default()
        };
        let mut header = RunHeader::new("x", "echo", Plan::new(msgpath_core::Workload::ECHO, vec![case()]));
        header.programs = vec![facts(sum)];
        assert!(differences(&header).is_empty());
        std::fs::write(&path, "new").unwrap();
        let texts = differences(&header);
        std::fs::remove_file(&path).unwrap();
        assert!(texts[0].ends_with("of the far end server is not the file that it was"), "{texts:?}");
    }

    #[test]
    fn a_problem_names_its_program() {
        let problem = Problem::new("E06", Exit::Unfinished, "message 3 came back different");
        let RoundError::Problem(named) = named(&order(), problem.into()) else { panic!("a problem") };
        assert_eq!(named.what, "new: message 3 came back different");
    }
}
