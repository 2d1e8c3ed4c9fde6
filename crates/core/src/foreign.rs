//! Text from outside: of a far end, a file, another program. It is kept as it came and made harmless where it leaves, for a
//! terminal or a log, by [`shown`].

use std::borrow::Cow;
use std::fmt::Write;

/// `text` on one line, with nothing in it that a terminal obeys or hides: control characters (ESC, line feeds, C1), what
/// turns the direction of writing, and what has no width are written as escapes, `\n` or `\u{1b}`. All else stays as it is.
pub fn shown(text: &str) -> Cow<'_, str> {
    if !text.chars().any(must_be_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if must_be_escaped(c) => write!(out, "{}", c.escape_default()).expect("a string takes everything"),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The same line by line, for a text that may have several.
pub fn shown_lines(text: &str) -> String {
    text.lines().map(shown).collect::<Vec<_>>().join("\n")
}

/// The same for bytes that may be no text, and of at most `limit` characters: `…` stands for the rest.
pub fn shown_bytes(bytes: &[u8], limit: usize) -> String {
    // No character has more than 4 bytes.
    let begin = &bytes[..bytes.len().min(limit.saturating_mul(4).saturating_add(4))];
    let text = String::from_utf8_lossy(begin);
    let text = shown(&text);
    let mut characters = text.chars();
    let mut out: String = characters.by_ref().take(limit).collect();
    if begin.len() < bytes.len() || characters.next().is_some() {
        out.push('…');
    }
    out
}

/// What an end advises that this process did not start. It is printed where a command to type may stand, so it says whose word it is.
pub fn advice_of_far_end(advice: &str) -> String {
    if advice.is_empty() { String::new() } else { format!("what the far end advises: {}", shown(advice)) }
}

/// A word as a shell takes it, whatever is in it.
pub fn shell_word(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:,=@%+".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command line that a record has, to be typed again: it starts msgpath and nothing else, whatever the record says.
pub fn command_again(command: &[String]) -> String {
    let words = command.iter().skip(1).map(|word| shell_word(word));
    std::iter::once("msgpath".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// `text` as a cell of a CSV file: on one line and harmless, as [`shown`] has it, and with an apostrophe before what a spreadsheet
/// would take for a formula. Numbers stay numbers.
pub fn cell(text: &str) -> Cow<'_, str> {
    let text = shown(text);
    match is_formula(&text) {
        true => Cow::Owned(format!("'{text}")),
        false => text,
    }
}

/// The text of a cell: without the apostrophe that [`cell`] puts before a formula.
pub fn text_of_cell(cell: &str) -> &str {
    cell.strip_prefix('\'').filter(|text| is_formula(text)).unwrap_or(cell)
}

/// Whether a spreadsheet would compute it, or would if the apostrophes before it were fewer.
fn is_formula(text: &str) -> bool {
    let is_number = || text.bytes().all(|byte| b"0123456789.eE+-".contains(&byte)) && text.parse::<f64>().is_ok();
    // The last four are the wide forms that East Asian settings read alike.
    text.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'])
        && !is_number()
}

/// A document of JSON with the same value, whose strings have no character left that a terminal obeys or hides.
pub fn shown_json(document: &str) -> Cow<'_, str> {
    // JSON has escaped what is below a space in strings; elsewhere it lays the document out.
    let is_left = |c: char| c > ' ' && must_be_escaped(c);
    if !document.chars().any(is_left) {
        return Cow::Borrowed(document);
    }
    let mut out = String::with_capacity(document.len() + 16);
    for c in document.chars() {
        match c {
            c if is_left(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("a string takes everything");
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether `c` moves a cursor, ends a line, turns the direction of writing or cannot be seen.
pub fn must_be_escaped(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_command_of_a_record_starts_msgpath_alone() {
        let words = ["rm", "echo", "$(x)", "a;b", "it's", "", "-x", "tcp:send"].map(String::from);
        assert_eq!(command_again(&words), r"msgpath echo '$(x)' 'a;b' 'it'\''s' '' -x tcp:send");
        assert_eq!(command_again(&[]), "msgpath");
    }

    #[test]
    fn what_a_terminal_obeys_is_escaped_and_the_rest_stays() {
        for (text, expected) in [
            ("db-7, 18.1 µs — “fine” \\ é 漢", "db-7, 18.1 µs — “fine” \\ é 漢"),
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("one\r\ntwo\tx\x07\x7f", "one\\r\\ntwo\\tx\\u{7}\\u{7f}"),
            ("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}"),
            ("abc\u{202e}txt.exe\u{2066}", "abc\\u{202e}txt.exe\\u{2066}"),
            ("a\u{200b}b\u{2028}c\u{feff}\u{e0041}", "a\\u{200b}b\\u{2028}c\\u{feff}\\u{e0041}"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert!(matches!(shown("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_of_a_text_stay_lines() {
        assert_eq!(shown_lines("one\x1b[2J\ntwo\r\n\u{202e}three"), "one\\u{1b}[2J\ntwo\n\\u{202e}three");
    }

    #[test]
    fn bytes_are_limited_in_what_is_read_and_in_what_is_shown() {
        assert_eq!(shown_bytes(b"abc", 3), "abc");
        assert_eq!(shown_bytes(b"abcd", 3), "abc…");
        assert_eq!(shown_bytes(b"\xff\x1b", 20), "\u{fffd}\\u{1b}");
        assert_eq!(shown_bytes(&[b'x'; 1 << 20], 4), "xxxx…");
        assert_eq!(shown_bytes(b"x", 0), "…");
    }

    #[test]
    fn formulas_of_others_are_text_and_numbers_stay_numbers() {
        for (text, expected) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\u{ff1d}1", "'\u{ff1d}1"),
            ("\t=1", "\\t=1"),
            ("\r=1", "\\r=1"),
            ("'=1", "''=1"),
            ("-", "'-"),
            ("-1.5e-3", "-1.5e-3"),
            ("-12", "-12"),
            ("+7", "+7"),
            ("'quoted", "'quoted"),
            ("GET /=", "GET /="),
            ("", ""),
        ] {
            assert_eq!(cell(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_cell_is_harmless_and_gives_its_text_back(text in "['=+@\\-\\t0-9.e]{0,3}(?s).{0,8}") {
            let cell = cell(&text);
            let begin = cell.chars().next().unwrap_or(' ');
            let is_number = cell.parse::<f64>().is_ok();
            prop_assert!(is_number || !"=+-@\u{ff1d}\u{ff0b}\u{ff0d}\u{ff20}\t\r".contains(begin), "{:?}", cell);
            prop_assert!(!cell.chars().any(must_be_escaped), "{:?}", cell);
            let shown = shown(&text);
            prop_assert_eq!(text_of_cell(&cell), shown.as_ref());
        }

        #[test]
        fn json_keeps_its_value_and_shows_it(text in "\\PC*|(?s).*") {
            for document in [serde_json::to_string(&[&text]).unwrap(), serde_json::to_string_pretty(&[&text]).unwrap()] {
                let shown = shown_json(&document);
                prop_assert!(!shown.chars().any(|c| c != '\n' && must_be_escaped(c)), "{:?}", shown);
                prop_assert_eq!(serde_json::from_str::<[String; 1]>(&shown).unwrap(), [text.clone()]);
            }
        }

        #[test]
        fn nothing_unsafe_passes_and_nothing_is_escaped_twice(text in "\\PC*|(?s).*") {
            let once = shown(&text).into_owned();
            prop_assert!(!once.chars().any(must_be_escaped), "{:?}", once);
            prop_assert!(once.lines().count() <= 1);
            prop_assert_eq!(shown(&once), once.as_str());
        }

        #[test]
        fn any_bytes_become_a_line_of_at_most_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..200), limit in 0_usize..60) {
            let text = shown_bytes(&bytes, limit);
            prop_assert!(text.chars().count() <= limit + 1);
            prop_assert!(!text.chars().any(must_be_escaped));
        }
    }
}
