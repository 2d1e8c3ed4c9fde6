//! Places on this machine for the two ends of a run, each a network namespace, which a feature finds or makes: `--between`. Without
//! such a feature there is no such option.

use std::marker::PhantomData;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::plugged::Plugged;
use msgpath_core::{Exit, Problem};

use crate::problems;

pub const OPTION: &str = "between";

/// What finds and makes places. All but the options moves this process to the near end's place, and is called before it has any
/// other thread: threads stay where they were started.
pub trait Maker: Sync {
    /// What may be named, for the help.
    fn help(&self) -> &'static str;

    /// The command of a verb, with options about what is made.
    fn options(&self, verb: Command) -> Command;

    /// The places that are named.
    ///
    /// # Errors
    /// They are not there and cannot be made.
    fn find(&self, named: &str, typed: &ArgMatches) -> Result<Places, Problem>;

    /// The place of one more near end; this process stays where it is.
    ///
    /// # Errors
    /// It is not there.
    fn place(&self, named: &str) -> Result<EndPlace, Problem>;

    /// Places for another run like those of a record: what ended with that run is made again.
    ///
    /// # Errors
    /// As [`Maker::find`].
    fn alike(&self, between: &Between) -> Result<Places, Problem>;

    /// The places of a run that goes on, where they are still what they were.
    ///
    /// # Errors
    /// They are gone, or others have their names.
    fn again(&self, between: &Between) -> Result<Places, Problem>;
}

/// Where two ends run.
pub struct Places {
    pub between: Between,
    /// What the user must know, sentence by sentence.
    pub notes: Vec<String>,
    /// Whatever must live as long as they do.
    pub held: Option<Box<dyn Held>>,
}

impl Places {
    /// What is to be said when all is over.
    pub fn after(&mut self) -> Option<String> {
        self.held.as_mut()?.after()
    }
}

/// What ends with a run that it was made for.
pub trait Held {
    /// What it has to say when all is over.
    fn after(&mut self) -> Option<String>;
}

/// What the option means for a verb.
pub trait Terms {
    /// Before and behind what may be named, in the help.
    const HELP: (&'static str, &'static str);
    /// Options that exclude it.
    const EXCLUDES: &'static [&'static str];
    /// Most places that may be named.
    const MOST: usize = 2;
}

/// The places that a run is asked to have.
#[derive(Clone, Debug, Default)]
pub struct Asked<T> {
    typed: ArgMatches,
    alike: Option<Between>,
    verb: PhantomData<T>,
}

impl<T> Asked<T> {
    /// As they were named.
    pub fn named(&self) -> Option<&str> {
        self.typed.try_get_one::<String>(OPTION).ok().flatten().map(String::as_str)
    }

    /// They are to be like those of a record.
    pub fn be_alike(&mut self, between: &Between) {
        self.alike = Some(between.clone());
    }

    /// Whether there are to be any.
    pub fn is_asked(&self) -> bool {
        self.named().is_some() || self.alike.is_some()
    }
}

impl<T: Terms> Asked<T> {
    /// Finds or makes them, and moves this process to the near end's place. Called before it has any other thread.
    ///
    /// # Errors
    /// As [`Maker::find`]; E11: too many.
    pub fn find(&self) -> Result<Option<Places>, Problem> {
        let count = self.named().map_or(0, |named| named.split(',').count());
        if count > T::MOST {
            return Err(
                problems::usage(format!("{count} places, and this verb has {} ends", T::MOST)).hint("--between A,B")
            );
        }
        match (&self.alike, self.named()) {
            (Some(between), _) => maker_of(between)?.alike(between).map(Some),
            (None, Some(named)) => maker().map(|maker| maker.find(named, &self.typed)).transpose(),
            (None, None) => Ok(None),
        }
    }
}

/// Finds the places of near ends that have a name and none yet. Called before the process may move itself.
///
/// # Errors
/// As [`Maker::place`]; E40 where no feature makes places.
pub fn of_clients(clients: &mut [EndPlace]) -> Result<(), Problem> {
    for client in clients.iter_mut().filter(|client| !client.name.is_empty() && client.namespace.is_empty()) {
        let maker = maker().ok_or_else(|| {
            Problem::new("E40", Exit::CannotStart, format!("the place {} cannot be entered", client.name))
                .why("this msgpath was built without what makes places for the ends of a run")
        })?;
        *client = maker.place(&client.name)?;
    }
    Ok(())
}

/// The places of a run that goes on. Moves this process, as [`Asked::find`] does.
///
/// # Errors
/// As [`Maker::again`]; E40 where no feature makes places.
pub fn again(between: &Between) -> Result<Places, Problem> {
    maker_of(between)?.again(between)
}

/// Those of the features, of which the first one is asked.
pub(crate) static ALL: Plugged<dyn Maker> = Plugged::new();

fn maker() -> Option<&'static dyn Maker> {
    ALL.all().next()
}

fn maker_of(between: &Between) -> Result<&'static dyn Maker, Problem> {
    maker().ok_or_else(|| {
        let names: Vec<&str> = between.ends.iter().map(|end| end.name.as_str()).collect();
        Problem::new("E40", Exit::CannotStart, format!("the places {} cannot be entered", names.join(", ")))
            .why("this msgpath was built without what makes places for the ends of a run")
    })
}

impl<T> FromArgMatches for Asked<T> {
    fn from_arg_matches(typed: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self { typed: typed.clone(), alike: None, verb: PhantomData })
    }

    fn update_from_arg_matches(&mut self, typed: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(typed)?;
        Ok(())
    }
}

impl<T: Terms> Args for Asked<T> {
    fn augment_args(command: Command) -> Command {
        let Some(maker) = maker() else { return command };
        let (before, behind) = T::HELP;
        let between = Arg::new(OPTION)
            .long(OPTION)
            .value_name("PLACES")
            .help(format!("{before}{}{behind}", maker.help()))
            .conflicts_with_all(T::EXCLUDES);
        maker.options(command.arg(between))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
