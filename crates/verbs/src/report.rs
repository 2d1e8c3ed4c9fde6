//! What a report is made of: a run, its numbers and its messages, as the record has them.

use std::path::Path;

use msgpath_analyse::one_way::OnOneClock;
use msgpath_analyse::{Logs, Summary, summarise_with};
use msgpath_core::Problem;
use msgpath_present::html::{self, Earlier, Messages, Scene};
use msgpath_record::{MessageLog, Run};

use crate::output::OutputFile;
use crate::runs;

/// A report larger than this takes a browser seconds to open, bytes.
const LARGE: usize = 10_000_000;

/// A run with everything that its report shows.
pub struct Reported {
    pub run: Run,
    pub summary: Summary,
    pub logs: Logs,
    messages: OnOneClock<MessageLog>,
}

impl Reported {
    /// The run that the user means.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn find(text: &str) -> Result<Self, Problem> {
        Self::of(&runs::find(text)?)
    }

    /// The run in this folder.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn of(folder: &Path) -> Result<Self, Problem> {
        let run = runs::read(folder)?;
        let logs = runs::logs(&run)?;
        let mut summary = summarise_with(&run, &logs);
        let messages = runs::on_one_clock(&run, &summary)?;
        runs::with_earlier(&run, &mut summary);
        Ok(Self { summary, run, logs, messages })
    }

    /// Its messages, of which at most `embed` go into a file.
    pub fn logged(&self, embed: usize) -> Messages<'_> {
        let not_kept = self.run.end.as_ref().map_or(0, |end| end.messages_not_kept);
        Messages { logged: &self.messages, embed, not_kept }
    }

    /// What the figures may look at; at most `embed` messages go into the file.
    pub fn scene<'a>(&'a self, embed: usize, earlier: Option<Earlier<'a>>) -> Scene<'a> {
        Scene { logs: Some(&self.logs), ..scene(&self.run, &self.summary, &self.messages, embed, earlier) }
    }
}

fn scene<'a>(
    run: &'a Run,
    summary: &'a Summary,
    logged: &'a OnOneClock<MessageLog>,
    embed: usize,
    earlier: Option<Earlier<'a>>,
) -> Scene<'a> {
    let not_kept = run.end.as_ref().map_or(0, |end| end.messages_not_kept);
    Scene { messages: Messages { logged, embed, not_kept }, earlier, ..Scene::new(run, summary) }
}

/// Writes the report of a run that has just ended.
///
/// # Errors
/// The log cannot be read, or the file cannot be written.
pub fn write_of(run: &Run, summary: &Summary, logs: &Logs, file: &OutputFile) -> Result<(), Problem> {
    let messages = runs::on_one_clock(run, summary)?;
    let scene = Scene { logs: Some(logs), ..scene(run, summary, &messages, html::DEFAULT_EMBED, None) };
    write(&scene, file).map(drop)
}

/// Writes a report; the note where it is large.
///
/// # Errors
/// The file cannot be written.
pub fn write(scene: &Scene<'_>, file: &OutputFile) -> Result<Option<String>, Problem> {
    let page = html::report(scene);
    file.write(&page)?;
    Ok((page.len() > LARGE).then(|| {
        format!("the report has {:.0} MB and opens slowly; a smaller --embed makes it smaller", page.len() as f64 / 1e6)
    }))
}
