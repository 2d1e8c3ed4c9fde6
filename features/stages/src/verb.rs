//! `msgpath explain`: where the time of a message goes.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_core::Workload;
use msgpath_core::parts::Parts;
use msgpath_core::schema::RunHeader;
use msgpath_core::{CaseRole, Plan, Problem, Target};

use msgpath_verbs::measure::{self, View};
use msgpath_verbs::options::{Common, Options, StagesArg, TimedOptions};
use msgpath_verbs::problems::usage;
use msgpath_verbs::request::{Request, Verb, layers, request};
use msgpath_verbs::verb::{Asked, Group};
use msgpath_verbs::{again, gates, output, runs};

use crate::present::terminal::explain;

/// What is typed, and the verb of the record.
pub const NAME: &str = "explain";
const TRACED: Verb = Verb::Traced(NAME);

/// Where the time of a message goes
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  msgpath explain                        64 bytes over TCP, split into stages
  msgpath explain -x udp:send -l 1K      another path, another size
  msgpath explain @last                  the last run, traced now if it was not
  msgpath explain --layers               what each layer of the stack adds")]
pub struct Arguments {
    /// A run: @last, a name, a folder. Left out: something is measured now, as by echo
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Layer breakdown, the same message over ever fewer layers: a handler with its service time (-o service-time=20us), the socket with each wait, raw
    /// Ethernet, shared memory; prints what each layer adds
    #[arg(long, conflicts_with = "run", help_heading = "Message and path")]
    layers: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    timed: TimedOptions,
}

impl Arguments {
    /// The options with stages on, unless layers are taken away instead.
    fn options(&self) -> Options {
        let mut options = Options { timed: self.timed.clone(), ..self.common.options() };
        if options.timed.stages == StagesArg::Off && !self.layers {
            options.timed.stages = StagesArg::Light;
        }
        options
    }

    /// What will be measured where no run is named.
    fn request(&self) -> Result<Request, Problem> {
        if self.layers {
            return layers(&self.options());
        }
        request(TRACED, &self.options(), None)
    }
}

impl msgpath_verbs::verb::Verb for Arguments {
    const NAME: &str = NAME;
    const GROUP: Group = Group::Understand;
    const BEFORE: Option<&str> = Some("diff");
    const SHORT: Option<(&str, &str)> =
        Some(("path len time rounds rate layers stages between cpu set json verbose", ""));

    fn run(&self, words: Vec<String>) -> Result<ExitCode> {
        run(self, words)
    }

    fn request(&self) -> Option<Result<Request, Problem>> {
        Some(Arguments::request(self))
    }

    fn asked(&self) -> Asked {
        Asked::of(false, &self.options())
    }

    // Explaining is splitting into stages: there it is never off.
    fn adapted(command: clap::Command) -> clap::Command {
        command.mut_arg("stages", |arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            arg.hide_default_value(true).help(format!("{help} [default: light]"))
        })
    }
}

fn run(arguments: &Arguments, words: Vec<String>) -> Result<ExitCode> {
    let Some(name) = &arguments.run else {
        return measure::measure(TRACED, arguments.request()?, &arguments.options(), words);
    };
    let run = runs::read(&runs::find(name)?)?;
    if !run.header.plan.workload.is_echoed() {
        return Err(usage(format!(
            "{} is not an echo: only messages that are timed there and back are split",
            run.header.name
        ))
        .hint("msgpath explain")
        .into());
    }
    if run.header.plan.stages.is_some() {
        if let Some(gate) = arguments.common.evidence().fail_if.first() {
            let what = format!("--fail-if '{gate}' is about what is measured now, and {name} was measured before");
            return Err(usage(what).hint(format!("msgpath explain --fail-if '{gate}'")).into());
        }
        let summary = runs::summarise(&run)?;
        let result = arguments.options().result;
        let view = View {
            trials: None,
            whole: Some(explain),
            quiet: result.quiet,
            verbose: result.verbose,
            warnings: result.warnings,
            units: result.units.into(),
            look: &result.look,
        };
        output::print(measure::text(&run, &summary, &view))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut options = arguments.options();
    let (launch, connection) = (&options.connection.launch, &options.connection);
    let typed = again::Typed {
        launch: launch.launch.clone(),
        program: launch.program.clone(),
        programs: Vec::new(),
        target: None,
        between: connection.places.named().filter(|_| run.header.plan.options.between.is_some()).map(str::to_owned),
        token_file: launch.token_file.clone(),
    };
    again::run(&run.header, &run.folder, NAME, &typed)?;
    if let Some(between) = &run.header.plan.options.between
        && !options.connection.places.is_asked()
    {
        options.connection.places.be_alike(between);
    }
    let again = Request {
        plan: again(&run.header.plan, &options)?,
        target: target_of(&run.header),
        notes: vec![format!("{} was not traced: the same is measured again, and traced", run.header.name)],
        parts: Parts::default(),
    };
    measure::measure(TRACED, again, &options, words)
}

/// Where a run was measured: its header has the target as people read it, and `this machine` and ends in places are no
/// addresses.
fn target_of(header: &RunHeader) -> Target {
    match header.plan.options.between {
        Some(_) => Target::Local,
        None => header.target.parse().unwrap_or(Target::Local),
    }
}

/// The measured cases of a plan once more, traced.
fn again(plan: &Plan, options: &Options) -> Result<Plan, Problem> {
    gates::of_one_run(&options.evidence.fail_if, Workload::ECHO)?;
    let mut plan = plan.clone();
    plan.gates.clone_from(&options.evidence.fail_if);
    plan.cases.retain(|case| case.role == CaseRole::Measured && case.phase == 0);
    for (id, case) in plan.cases.iter_mut().enumerate() {
        case.id = id as u32;
    }
    plan.stages = options.timed.stages.into();
    plan.refine = false;
    plan.options.between = None;
    plan.try_causes = plan.cases.len() == 1;
    plan.validate()?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::Case;
    use msgpath_core::plan::Between;
    use msgpath_core::units::Pieces;

    #[test]
    fn a_run_is_measured_again_where_it_was_measured() {
        let plan = Plan::new(Workload::ECHO, vec![Case::new("tcp:send".parse().unwrap(), Pieces::whole(64))]);
        let mut header = RunHeader::new("a", "echo", plan);
        header.target = Target::Local.to_string();
        assert_eq!(target_of(&header), Target::Local);
        header.target = "lab-near → lab-far (delay=1ms)".into();
        header.plan.options.between = Some(Between::default());
        assert_eq!(target_of(&header), Target::Local);
        header.plan.options.between = None;
        header.target = "192.0.2.1:9".into();
        assert_eq!(target_of(&header).to_string(), "192.0.2.1:9");
    }
}
