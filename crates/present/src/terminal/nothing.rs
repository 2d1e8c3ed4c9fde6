//! A run that ended before its first round was whole.

use msgpath_analyse::Summary;
use msgpath_record::Run;

use super::page::{Page, Paint, Style};

/// What is said instead of tables of zeros that nobody counted.
pub fn nothing(run: &Run, summary: &Summary, style: Style) -> String {
    let mut page = Page::new(style);
    page.head(run, summary, std::slice::from_ref(&summary.target));
    page.text(0, "No round is whole, so there is nothing to show.", Paint::Plain);
    page.gates(&summary.gates);
    page.unavailable(summary);
    page.gap();
    page.saved(run, summary);
    page.finish()
}
