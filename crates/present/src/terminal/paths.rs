//! `msgpath paths`: what works here, and why the rest does not.

use msgpath_core::problem::Unavailable;
use msgpath_core::{PathName, path::DEFAULT_WAIT};

use super::page::{Page, Paint, Span, Style};
use super::table::{Align, Table};
use crate::view::push_new;

/// A path and whether it can be used on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRow {
    /// Full name, `tcp:send/epoll`.
    pub name: String,
    /// What it does, in a few words.
    pub summary: String,
    /// Whether a live probe could use it.
    pub state: Result<(), Unavailable>,
    /// Anything else worth a line; may be empty.
    pub notes: String,
}

/// A rare setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    /// As typed, `sndbuf=SIZE`.
    pub name: String,
    /// What it means.
    pub doc: String,
    /// Transports that take it; empty: it is about the run.
    pub transports: Vec<String>,
}

/// The settings of `-o`: those of transports, then those of a run.
pub fn settings(rows: &[SettingRow], style: Style) -> String {
    let mut page = Page::new(style);
    for (heading, of_paths) in [("of sockets and paths", true), ("of a run", false)] {
        page.heading(heading);
        let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
        for row in rows.iter().filter(|row| row.transports.is_empty() != of_paths) {
            let takes = if of_paths { format!(" ({})", row.transports.join(" ")) } else { String::new() };
            table.row([Paint::Green.span(&row.name), Span::from(format!("{}{takes}", row.doc))]);
        }
        page.table(table);
    }
    page.finish()
}

/// One line per transport with the waits of its first method, and one per send method, which names its waits where they
/// are others; paths that do not work follow with the reason.
pub fn paths(rows: &[PathRow], style: Style) -> String {
    let mut page = Page::new(style);
    let mut groups: Vec<(String, Vec<(String, &PathRow)>)> = Vec::new();
    for row in rows {
        let (base, wait) = match row.name.parse::<PathName>() {
            Ok(name) => (format!("{}:{}", name.transport, name.method), name.wait),
            Err(_) => (row.name.clone(), DEFAULT_WAIT.to_owned()),
        };
        match groups.iter_mut().find(|(known, _)| *known == base) {
            Some((_, members)) => members.push((wait, row)),
            None => groups.push((base, vec![(wait, row)])),
        }
    }
    let transport = |base: &str| base.split(':').next().unwrap_or_default().to_owned();
    let mut transports = Vec::new();
    for (base, _) in &groups {
        push_new(&mut transports, transport(base));
    }
    let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
    let mut broken = Vec::new();
    for name in &transports {
        let mut usual: Option<Vec<&str>> = None;
        for (base, members) in groups.iter().filter(|(base, _)| transport(base) == *name) {
            let works: Vec<&(String, &PathRow)> = members.iter().filter(|(_, row)| row.state.is_ok()).collect();
            if let Some((_, first)) = works.first() {
                let waits: Vec<&str> = works.iter().map(|(wait, _)| wait.as_str()).collect();
                let mut text = first.summary.clone();
                if !first.notes.is_empty() {
                    text = format!("{text}; {}", first.notes);
                }
                match &usual {
                    None => {
                        table.row([Paint::Bold.span(name), Paint::Dim.span(format!("waits: {}", waits.join(" ")))]);
                        usual = Some(waits);
                    }
                    Some(usual) if *usual != waits => text = format!("{text}; waits: {}", waits.join(" ")),
                    Some(_) => {}
                }
                table.row([Paint::Green.span(base), text.into()]);
            }
            // One line per reason, with the waits it holds for.
            let mut reasons: Vec<(&Unavailable, Vec<&str>)> = Vec::new();
            for (wait, row) in members {
                if let Err(reason) = &row.state {
                    match reasons.iter_mut().find(|(known, _)| *known == reason) {
                        Some((_, waits)) => waits.push(wait),
                        None => reasons.push((reason, vec![wait])),
                    }
                }
            }
            for (reason, waits) in reasons {
                let all = waits.len() == members.len();
                broken.push((if all { base.clone() } else { format!("{base}/{}", waits.join(",")) }, reason));
            }
        }
    }
    let count = |ok: bool| rows.iter().filter(|row| row.state.is_ok() == ok).count();
    page.line(&[Paint::Bold.span("paths"), format!("  {} work here, {} do not", count(true), count(false)).into()]);
    page.gap();
    page.table(table);
    if !broken.is_empty() {
        page.heading("not available");
        let mut table = Table::new().column("", Align::Left).column("", Align::Left).wrap_last();
        for (name, reason) in broken {
            let text =
                if reason.hint.is_empty() { reason.why.clone() } else { format!("{}; {}", reason.why, reason.hint) };
            table.row([Paint::Yellow.span(name), Span::from(text)]);
        }
        page.table(table);
    }
    page.finish()
}
