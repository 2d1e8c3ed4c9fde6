//! What a run that goes on would start, enter or reach because its record says so. A record is a folder that people
//! pass on: what it says is done where only this user can have written it, and is shown before; of any other the user types it again.

use msgpath_sys::say;
use std::path::{Path, PathBuf};

use clap::Args;
use msgpath_core::foreign::{shell_word, shown};
use msgpath_core::launch::joined;
use msgpath_core::plan::ChannelOptions;
use msgpath_core::program::{Program, Source};
use msgpath_core::schema::{FAR, NEAR, RunHeader};
use msgpath_core::{Exit, Launch, Problem, Target};
use msgpath_record::{owner, store};

use crate::problems::usage;
use crate::typed;

/// What was typed of it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Of a record that others may have written: what it starts and reaches, typed again")]
pub struct Typed {
    /// What starts the far end on its host
    #[arg(long, value_name = "LAUNCHER", value_parser = typed::launch)]
    pub launch: Option<Launch>,
    /// What msgpath is called on that host
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<String>,
    /// A program that is a server, with its name: new='./server {port}'; repeatable
    #[arg(long = "server", value_name = "PROGRAM", value_parser = typed::program)]
    pub programs: Vec<Program>,
    /// Where the far end is: HOST with --launch, else HOST:PORT, unix:/path ...
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// The network namespaces of the two ends: NEAR,FAR
    #[arg(long, value_name = "PLACES")]
    pub between: Option<String>,
    /// The token that the far end asks for
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub token_file: Option<PathBuf>,
}

/// One thing that is done because a record says so: a word of the command line without an option, or an option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    option: &'static str,
    value: String,
}

/// `option`: empty for a word without one.
pub fn said(option: &'static str, value: impl Into<String>) -> Said {
    Said { option, value: value.into() }
}

impl Said {
    /// As it is typed in a shell.
    fn words(&self) -> String {
        let value = shell_word(&self.value);
        if self.option.is_empty() { value } else { format!("{} {value}", self.option) }
    }
}

/// What a launcher is typed as.
pub fn of_launch(launch: &Launch) -> Vec<Said> {
    let program = launch.program.as_ref().map(|program| said("--program", program));
    std::iter::once(said("--launch", launch.typed())).chain(program).collect()
}

fn of_programs(programs: &[Program]) -> impl Iterator<Item = Said> {
    programs.iter().map(|program| said("--server", program.typed()))
}

impl Typed {
    /// All of it.
    pub fn said(&self) -> Vec<Said> {
        let Self { launch, program, programs, target, between, token_file } = self;
        let launch = launch.as_ref().map(|launch| said("--launch", launch.typed()));
        let program = program.as_ref().map(|program| said("--program", program));
        let target = target.as_ref().map(|target| said("--target", target));
        let between = between.as_ref().map(|between| said("--between", between));
        let token = token_file.as_ref().map(|file| said("--token-file", file.display().to_string()));
        let servers = of_programs(programs);
        launch.into_iter().chain(program).chain(servers).chain(target).chain(between).chain(token).collect()
    }
}

/// What a record has done when its run goes on.
pub struct Record<'a> {
    /// Of the run.
    pub name: &'a str,
    pub folder: &'a Path,
    /// How its verb is typed again.
    pub verb: String,
    /// What is started or reached.
    pub says: Vec<Said>,
    /// What is started, each a command line.
    pub starts: Vec<String>,
}

impl Record<'_> {
    /// Whether it is done: the record is this user's, or all of it was typed. What is started is shown.
    ///
    /// # Errors
    /// E11: the record says something else than what was typed. E88: it may be somebody else's.
    pub fn allow(&self, typed: &[Said]) -> Result<(), Problem> {
        if let Some(other) = typed.iter().find(|typed| !self.says.contains(typed)) {
            let says: Vec<String> = self.says.iter().map(Said::words).collect();
            let says = if says.is_empty() { "nothing of the kind".into() } else { says.join(" ") };
            return Err(usage(format!("the record of {} does not say {}", self.name, other.words()))
                .why(format!("it says {says}; what goes on is the same run"))
                .hint("leave it out, or measure anew"));
        }
        let missing: Vec<String> = self.says.iter().filter(|said| !typed.contains(said)).map(Said::words).collect();
        if !missing.is_empty()
            && let Some(why) = owner::others_record(&store::default_root(), self.folder)
        {
            let what =
                format!("the record of {} says what is started or reached, and others may have written it", self.name);
            let all: Vec<String> = self.says.iter().map(Said::words).collect();
            return Err(Problem::new("E88", Exit::CannotStart, what)
                .why(format!("{why}; not typed here: {}", missing.join(" ")))
                .hint(format!("{} {}   if that is what you want", self.verb, all.join(" "))));
        }
        for command in &self.starts {
            say!("note: starts: {}", shown(command));
        }
        Ok(())
    }
}

/// What is started on this machine for an agent on a host.
pub fn command_of(launch: &Launch) -> String {
    let this = std::env::current_exe().map_or_else(|_| "msgpath".into(), |path| path.display().to_string());
    joined(&launch.command(&this, &["__agent", "--launched"]))
}

fn command_of_program(program: &Program) -> Option<String> {
    match &program.source {
        Source::Command(words) => Some(format!("{} (in {})", joined(words), program.folder)),
        Source::Example(_) => Some(program.source.to_string()),
        Source::Address(_) | Source::Socket(_) | Source::Missing { .. } => None,
    }
}

/// Whether a run goes on as its record says. `verb`: how that is typed.
///
/// # Errors
/// As [`Record::allow`]; E11: a program of the record is started in another folder than this one.
pub fn run(header: &RunHeader, folder: &Path, verb: &str, typed: &Typed) -> Result<(), Problem> {
    let ChannelOptions { launch, between, token_file, .. } = &header.plan.options;
    let programs = &header.plan.programs;
    let mut says: Vec<Said> = launch.iter().flat_map(of_launch).chain(of_programs(programs)).collect();
    if let Some(launch) = launch {
        says.push(said("--target", &launch.host));
    } else if between.is_none() && programs.is_empty() && header.target != Target::Local.to_string() {
        says.push(said("--target", &header.target));
    }
    // Places of the run itself are made anew, or are gone.
    if let Some(between) = between.as_ref().filter(|between| between.is_kept()) {
        says.push(said("--between", format!("{},{}", between.of(NEAR).name, between.of(FAR).name)));
    }
    says.extend(token_file.iter().map(|file| said("--token-file", file)));
    let starts = launch.iter().map(command_of).chain(programs.iter().filter_map(command_of_program)).collect();
    let name = header.name.as_str();
    Record { name, folder, verb: format!("msgpath {verb} {}", shell_word(&folder.to_string_lossy())), says, starts }
        .allow(&typed.said())?;
    // Words such as ./server mean another program in another folder.
    let here = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
    let elsewhere = |program: &&Program| !program.folder.is_empty() && program.folder != here;
    match programs.iter().find(elsewhere).filter(|_| !typed.programs.is_empty()) {
        None => Ok(()),
        Some(program) => Err(usage(format!("{} was started in {}", program.name, program.folder))
            .why("what was typed means a program of this folder")
            .hint("in that folder, if it is yours")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_typed_is_quoted_for_a_shell() {
        assert_eq!(said("--launch", "ssh").words(), "--launch ssh");
        assert_eq!(said("--server", "a=./b 'c d'").words(), r"--server 'a=./b '\''c d'\'''");
        assert_eq!(said("", "n[1-2]").words(), "'n[1-2]'");
        assert_eq!(said("--target", "$(x)").words(), "--target '$(x)'");
    }
}
