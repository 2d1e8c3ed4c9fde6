//! What a feature adds to what is printed of a run: its view on a terminal, its figures and tables. A view is chosen
//! by who knows the run: the base asks every section, and shows an echo or a stream where none has a view.

use msgpath_analyse::Summary;
use msgpath_core::plugged::Plugged;
use msgpath_record::{Messages, Run};

use crate::Style;
use crate::html::figures::{Divided, Figure};
use crate::html::page::Page;
use crate::terminal;

/// The whole of a run on a terminal, with the messages that were logged.
pub type Whole = fn(&Run, &Summary, &dyn Messages, Style) -> String;

/// What a feature adds.
pub struct Section {
    /// The run on a terminal; `None`: it is not this feature's.
    pub terminal: fn(&Run, &Summary, Style) -> Option<String>,
    /// Its verb, and how a run of it is shown, whatever else is known of the run.
    pub of_verb: Option<(&'static str, Whole)>,
    /// What stands below the times of an echo, or of what is shown as one.
    pub below: fn(&mut terminal::Page, &Run, &Summary),
    /// What stands behind the view of a run, whosever view that is; empty: it has nothing to add.
    pub behind: fn(&Run, &Summary, Style) -> String,
    /// Its tables of the page, before those of the base.
    pub tables: fn(&mut Page, &Summary),
    /// The time of a case (its id) in more parts than the stamps of its messages tell; `None`: it does not know them.
    pub divided: fn(&Summary, u32) -> Option<Divided>,
    /// Its figures that stand before those of the base; the first of them that can be drawn is that of the first screen.
    pub leading: &'static [Figure],
    /// Its other figures. They stand behind those of the base.
    pub figures: &'static [Figure],
    /// Names of those that answer what its verb asks, the best first.
    pub answers: &'static [&'static str],
    /// Codes of the sentences that answer what its verb asks: they stand before those of the base.
    pub sentences: &'static [&'static str],
    /// Names of those that are drawn once in a page of two runs: they have a canvas.
    pub once: &'static [&'static str],
    /// What brings its figures to life, as part of the module of the page; empty: nothing has to.
    pub script: &'static str,
}

/// Of a feature that has nothing of it.
pub const NOTHING: Section = Section {
    terminal: |_, _, _| None,
    of_verb: None,
    below: |_, _, _| (),
    behind: |_, _, _| String::new(),
    tables: |_, _| (),
    divided: |_, _| None,
    leading: &[],
    figures: &[],
    answers: &[],
    sentences: &[],
    once: &[],
    script: "",
};

static ADDED: Plugged<Section> = Plugged::new();

/// Lists a section, before anything is printed; a second time changes nothing.
pub fn add(section: &'static Section) {
    ADDED.add(section);
}

/// All sections of this program.
pub(crate) fn all() -> impl Iterator<Item = &'static Section> {
    ADDED.all()
}

/// The view of the feature whose run it is.
pub fn terminal(run: &Run, summary: &Summary, style: Style) -> Option<String> {
    all().find_map(|section| (section.terminal)(run, summary, style))
}

/// How runs of a verb are shown, where that is a feature's matter.
pub fn of_verb(verb: &str) -> Option<Whole> {
    all().filter_map(|section| section.of_verb).find(|(own, _)| *own == verb).map(|(_, whole)| whole)
}

/// What stands behind the view of a run.
pub fn behind(run: &Run, summary: &Summary, style: Style) -> String {
    all().map(|section| (section.behind)(run, summary, style)).collect()
}
