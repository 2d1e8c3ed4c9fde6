//! `msgpath verify`: every printed number once more, from the record.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use msgpath_analyse::verify::{Verification, verify_with};
use msgpath_core::foreign::shown_json;
use msgpath_core::{Exit, Problem};
use msgpath_present::terminal;
use msgpath_record::MessageLog;
use msgpath_sys::say;

use crate::kind::Kind;
use crate::options::Look;
use crate::verb::Group;
use crate::{looks, output, runs};

/// Compute every printed number again
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// A name, the folder of a recording, @last or @-2
    #[arg(value_name = "RUN", default_value = "@last")]
    run: String,
    #[command(flatten)]
    look: Look,
}

impl crate::verb::Verb for Arguments {
    const NAME: &str = "verify";
    const GROUP: Group = Group::Keep;
    const BESIDE: Option<&str> = Some("go on with a run, check its numbers");

    fn run(&self, _: Vec<String>) -> Result<ExitCode> {
        run(self)
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (other, folder) = runs::find_any(&arguments.run)?;
    let check = checked(other, &folder)?;
    let text = if arguments.look.json {
        shown_json(&serde_json::to_string(&check)?).into_owned() + "\n"
    } else {
        terminal::verify(&check, looks::stdout(&arguments.look))
    };
    output::print(&text)?;
    Ok(match verdict(&check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            say!("{problem}");
            problem.exit.code().into()
        }
    })
}

fn checked(other: Option<&Kind>, folder: &Path) -> Result<Verification, Problem> {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let stored = msgpath_record::read_summary(folder)?;
    let stored = stored.as_deref();
    if let Some(kind) = other {
        return (kind.verify)(folder, stored, VERSION);
    }
    let run = runs::recorded(folder)?;
    let messages = MessageLog::open(&run)?;
    Ok(verify_with(&run, &messages, &runs::logs(&run)?, stored, VERSION))
}

fn verdict(check: &Verification) -> Result<(), Problem> {
    if let Some(damage) = &check.damage {
        return Err(Problem::new(
            "E28",
            Exit::Unfinished,
            format!("the record of {} is not whole: {damage}", check.name),
        )
        .why("what is before that place was checked"));
    }
    let Some(first) = check.disagreements.first() else { return Ok(()) };
    let problem = Problem::new("E27", Exit::CheckFailed, format!("{} does not agree with its record", check.name))
        .why(format!("{}: stored {}, computed {}", first.what, first.stored, first.computed));
    Err(match check.written_by == check.checked_by {
        true => problem,
        false => problem.hint(format!("msgpath {}, which wrote it", check.written_by)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_analyse::verify::Disagreement;
    use msgpath_core::schema::Status;

    #[test]
    fn damage_ends_with_4_and_a_difference_with_1() {
        let good = Verification {
            schema: String::new(),
            status: Status::Ok,
            verb: "echo".into(),
            name: "brisk-otter".into(),
            written_by: "0.1.0".into(),
            checked_by: "0.2.0".into(),
            damage: None,
            rounds: 1,
            pairs: 0,
            requests: 0,
            texts: 0,
            rounds_from_messages: 1,
            cases_from_messages: 1,
            numbers: 1,
            disagreements: Vec::new(),
            notes: Vec::new(),
            compared: Vec::new(),
        };
        assert_eq!(verdict(&good), Ok(()));
        let one = Disagreement { what: "totals.lost".into(), stored: "0".into(), computed: "1".into() };
        let differs = Verification { disagreements: vec![one], ..good };
        let problem = verdict(&differs).unwrap_err();
        assert_eq!(problem.exit.code(), 1);
        assert!(problem.why.contains("totals.lost: stored 0") && problem.hint.contains("0.1.0"), "{problem}");
        let damaged = Verification { damage: Some("rounds.mpl is whole up to byte 9".into()), ..differs };
        assert_eq!(verdict(&damaged).unwrap_err().exit.code(), 4);
    }
}
