//! Options that features add to a verb: kept as they were typed, and read by the feature that added them.

use std::marker::PhantomData;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

/// Who adds options to a verb.
pub trait Adds {
    /// The command with them.
    fn to(command: Command) -> Command;
}

/// What was typed of the options that `A` adds.
#[derive(Clone, Debug, Default)]
pub struct Added<A>(pub(crate) ArgMatches, PhantomData<A>);

impl<A> FromArgMatches for Added<A> {
    fn from_arg_matches(typed: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(typed.clone(), PhantomData))
    }

    fn update_from_arg_matches(&mut self, typed: &ArgMatches) -> Result<(), clap::Error> {
        self.0 = typed.clone();
        Ok(())
    }
}

impl<A: Adds> Args for Added<A> {
    fn augment_args(command: Command) -> Command {
        A::to(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        A::to(command)
    }
}

/// The first of these options that was typed.
pub(crate) fn typed_among(options: &Command, typed: &ArgMatches) -> Option<String> {
    let is_typed = |arg: &&Arg| typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
    let arg = options.get_arguments().find(is_typed)?;
    Some(match arg.get_short() {
        Some(short) => format!("-{short}"),
        None => format!("--{}", arg.get_long().unwrap_or_default()),
    })
}
