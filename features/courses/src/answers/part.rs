//! What a page is made of.

use msgpath_analyse::{Logs, Summary};
use msgpath_present::answers::Page;
use msgpath_record::Run;

/// A run of a preset, as pages look at it.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its name in the preset.
    pub name: &'a str,
    pub run: &'a Run,
    pub summary: &'a Summary,
    pub logs: &'a Logs,
}

/// Makes a page of the runs of a preset.
pub type Make = fn(&[Part<'_>]) -> Page;

/// A run by its name in the preset.
pub fn part<'a>(parts: &[Part<'a>], name: &str) -> Option<Part<'a>> {
    parts.iter().copied().find(|part| part.name == name)
}
