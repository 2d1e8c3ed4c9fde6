//! Colour, width and characters of what is printed: options first, then the environment, then the terminal.

use std::io::IsTerminal;
use std::os::fd::AsFd;

use msgpath_core::units::Glyphs;
use msgpath_present::Style;

use crate::options::{Look, When};

/// The style of a result on standard output.
pub fn stdout(look: &Look) -> Style {
    let (stdout, terminal) = (std::io::stdout(), std::io::stdout().is_terminal());
    Style {
        width: width(terminal.then_some(stdout)),
        color: color(look.color, terminal, &environment),
        glyphs: glyphs(),
        ..Style::default()
    }
}

/// Whether text on standard output has colours where no option says.
pub fn color_by_default() -> bool {
    color(When::Auto, std::io::stdout().is_terminal(), &environment)
}

/// The style of a result in a file: no colour, the full width.
pub fn file() -> Style {
    Style { width: width(None::<std::io::Stdout>), color: false, glyphs: glyphs(), ..Style::default() }
}

/// Unicode, unless the locale is not UTF-8.
pub fn glyphs() -> Glyphs {
    if !is_utf8(&environment) { Glyphs::Ascii } else { Glyphs::Unicode }
}

/// Columns of the terminal that standard error writes to.
pub fn stderr_columns() -> usize {
    let stderr = std::io::stderr();
    width(stderr.is_terminal().then_some(stderr)).into()
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// `--color`, then NO_COLOR, then CLICOLOR_FORCE and FORCE_COLOR, then the terminal and TERM.
fn color(when: When, terminal: bool, environment: &dyn Fn(&str) -> Option<String>) -> bool {
    let forced = |name| environment(name).is_some_and(|value| value != "0");
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto if environment("NO_COLOR").is_some() => false,
        When::Auto if forced("CLICOLOR_FORCE") || forced("FORCE_COLOR") => true,
        When::Auto => terminal && environment("TERM").is_some_and(|term| term != "dumb"),
    }
}

/// The first of LC_ALL, LC_CTYPE and LANG decides, as in locale(7). Nothing set means the C locale in name only: most
/// programs are started so in containers, whose terminals are UTF-8 all the same.
fn is_utf8(environment: &dyn Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(environment).is_none_or(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}

/// COLUMNS, then the terminal, if it is one.
fn width(terminal: Option<impl AsFd>) -> u16 {
    let asked = environment("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
    let real = || terminal.and_then(msgpath_sys::terminal::columns);
    asked.or_else(real).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<'a>(variables: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_string())
    }

    #[test]
    fn colour_follows_the_order_of_precedence() {
        let term = ("TERM", "xterm");
        assert!(color(When::Always, false, &set(&[("NO_COLOR", "1")])));
        assert!(!color(When::Never, true, &set(&[("FORCE_COLOR", "1"), term])));
        assert!(!color(When::Auto, true, &set(&[("NO_COLOR", "1"), ("FORCE_COLOR", "1"), term])));
        assert!(color(When::Auto, false, &set(&[("CLICOLOR_FORCE", "1")])));
        assert!(!color(When::Auto, false, &set(&[("CLICOLOR_FORCE", "0")])));
        assert!(color(When::Auto, true, &set(&[term])));
        assert!(!color(When::Auto, false, &set(&[term])));
        assert!(!color(When::Auto, true, &set(&[("TERM", "dumb")])));
    }

    #[test]
    fn the_locale_decides_the_characters() {
        assert!(is_utf8(&set(&[])));
        assert!(is_utf8(&set(&[("LANG", "pt_BR.UTF-8")])));
        assert!(!is_utf8(&set(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")])));
        assert!(is_utf8(&set(&[("LC_ALL", "C.utf8")])));
    }
}
