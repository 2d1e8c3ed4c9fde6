//! The text protocol of Boston University's CS 455/655: a line that sets up, probes that come back, a line that ends.
//!
//! | phase | client | server |
//! |---|---|---|
//! | set-up | `s rtt\|tput PROBES SIZE DELAY` | `200 OK: Ready`, or 404 and the end |
//! | measure | `m SEQ PAYLOAD`, SEQ from 1 | the same line after DELAY, or 404 and the end |
//! | end | `t` | `200 OK: Closing Connection`, or 404 and the end |
//!
//! The Italian variant says `h` (hello), `m` (misura) and `b` (bye). Servers in use leave out the end of the line, say
//! `READY` or `Closing connection`, or send a NUL behind a text: their answers are understood, the first form is sent.

use std::fmt;

use serde::Serialize;

use super::shown;

/// The most probes that one set-up may ask for.
pub const MOST_PROBES: u32 = 1_000_000;
/// The longest payload, bytes.
pub const MOST_PAYLOAD: u32 = 1 << 20;
/// The longest delay, ns: a minute.
pub const MOST_DELAY_NS: u64 = 60_000_000_000;
/// The longest line of set-up and end, bytes.
const SHORT_LINE: usize = 256;
/// Bytes of a probe that are not payload: `m`, two spaces, a sequence number, the end of the line in any form.
const PROBE_HEAD: usize = 32;

/// What a client wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Round-trip times.
    Rtt,
    /// Throughput, which the specification defines as size / RTT.
    Tput,
}

impl Measure {
    /// The word on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Rtt => "rtt",
            Measure::Tput => "tput",
        }
    }

    /// The measure of a word.
    pub fn of(word: &str) -> Option<Self> {
        [Measure::Rtt, Measure::Tput].into_iter().find(|measure| measure.word().eq_ignore_ascii_case(word))
    }
}

/// The letters of set-up and end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// `s`, `m`, `t`.
    #[default]
    English,
    /// `h`, `m`, `b`.
    Italian,
}

impl Dialect {
    fn letters(self) -> (&'static str, &'static str) {
        match self {
            Dialect::English => ("s", "t"),
            Dialect::Italian => ("h", "b"),
        }
    }

    /// The line that ends.
    pub fn end(self) -> String {
        format!("{}\n", self.letters().1)
    }
}

/// In which unit the delay of a set-up is meant; the specification does not fix it on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayUnit {
    /// Milliseconds.
    #[default]
    Ms,
    /// Seconds.
    S,
}

impl DelayUnit {
    /// A typed delay in ns: digits, with a fraction or without. `None`: it is not a number, or longer than a minute.
    pub fn ns(self, text: &str) -> Option<u64> {
        let plain = !text.is_empty()
            && text.len() <= 20
            && text.chars().all(|c| c.is_ascii_digit() || c == '.')
            && text.starts_with(|c: char| c.is_ascii_digit());
        let value: f64 = text.parse().ok().filter(|_| plain)?;
        let ns = value * if self == DelayUnit::Ms { 1e6 } else { 1e9 };
        (ns <= MOST_DELAY_NS as f64).then(|| ns.round() as u64)
    }
}

/// A set-up line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// What is measured.
    pub measure: Measure,
    /// How many probes come.
    pub probes: u32,
    /// Bytes of payload in each.
    pub size: u32,
    /// The delay as it stands on the line.
    pub delay: String,
    /// The delay that is meant, ns.
    pub delay_ns: u64,
    /// With which letters.
    pub dialect: Dialect,
}

impl Setup {
    /// The line, with its end.
    pub fn line(&self) -> String {
        let Self { measure, probes, size, delay, dialect, .. } = self;
        format!("{} {} {probes} {size} {delay}\n", dialect.letters().0, measure.word())
    }

    /// Reads a line without its end; `None`: it is not a valid set-up.
    pub fn parse(line: &str, unit: DelayUnit) -> Option<Self> {
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let dialect = match words.next()? {
            "s" => Dialect::English,
            "h" => Dialect::Italian,
            _ => return None,
        };
        let measure = Measure::of(words.next()?)?;
        let mut count = |most: u32| {
            let word = words.next().filter(|word| word.chars().all(|c| c.is_ascii_digit()))?;
            word.parse().ok().filter(|count| (1..=most).contains(count))
        };
        let (probes, size) = (count(MOST_PROBES)?, count(MOST_PAYLOAD)?);
        let delay = words.next()?.to_owned();
        let delay_ns = unit.ns(&delay)?;
        words.next().is_none().then_some(Self { measure, probes, size, delay, delay_ns, dialect })
    }

    /// A probe with its end.
    pub fn probe(&self, sequence: u32) -> Vec<u8> {
        let mut line = format!("m {sequence} ").into_bytes();
        line.resize(line.len() + self.size as usize, b'x');
        line.push(b'\n');
        line
    }
}

/// What the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To a set-up.
    Ready,
    /// The line that came, after the delay.
    Echo,
    /// To an end.
    Closing,
    /// A set-up that is none.
    BadSetup,
    /// A probe that is none, or not the next.
    BadMeasurement,
    /// An end that is none.
    BadTermination,
}

impl Answer {
    /// What is sent; empty for [`Answer::Echo`], which sends the line itself.
    pub fn text(self) -> &'static str {
        match self {
            Answer::Ready => "200 OK: Ready\n",
            Answer::Echo => "",
            Answer::Closing => "200 OK: Closing Connection\n",
            Answer::BadSetup => "404 ERROR: Invalid Connection Setup Message\n",
            Answer::BadMeasurement => "404 ERROR: Invalid Measurement Message\n",
            Answer::BadTermination => "404 ERROR: Invalid Connection Termination Message\n",
        }
    }

    /// Whether the connection ends with it.
    pub fn ends(self) -> bool {
        !matches!(self, Answer::Ready | Answer::Echo)
    }
}

/// The server's side of one connection: lines in, answers out. No I/O and no clock.
#[derive(Debug)]
pub struct Session {
    unit: DelayUnit,
    setup: Option<Setup>,
    answered: u32,
}

impl Session {
    /// Before the set-up. Delays are in `unit`.
    pub fn new(unit: DelayUnit) -> Self {
        Self { unit, setup: None, answered: 0 }
    }

    /// The longest line that may come now, with its end, bytes.
    pub fn limit(&self) -> usize {
        self.setup.as_ref().map_or(SHORT_LINE, |setup| setup.size as usize + PROBE_HEAD)
    }

    /// What was asked for, once it was.
    pub fn setup(&self) -> Option<&Setup> {
        self.setup.as_ref()
    }

    /// Probes that were sent back.
    pub fn answered(&self) -> u32 {
        self.answered
    }

    /// The answer to a line that is longer than allowed.
    pub fn too_long(&self) -> Answer {
        match &self.setup {
            None => Answer::BadSetup,
            Some(setup) if self.answered < setup.probes => Answer::BadMeasurement,
            Some(_) => Answer::BadTermination,
        }
    }

    /// The answer to a line. Its end, a carriage return and NULs around it may be there.
    ///
    /// An end may come before all probes have: what is asked of it is its form.
    pub fn take(&mut self, line: &[u8]) -> Answer {
        let line = bare(line);
        let Some(setup) = &self.setup else {
            let setup = std::str::from_utf8(line).ok().and_then(|line| Setup::parse(line, self.unit));
            let answer = if setup.is_some() { Answer::Ready } else { Answer::BadSetup };
            self.setup = setup;
            return answer;
        };
        if line == setup.dialect.letters().1.as_bytes() {
            return Answer::Closing;
        }
        let begins = |letter: &str| line.starts_with(letter.as_bytes());
        if self.answered >= setup.probes && !begins("m") || begins(setup.dialect.letters().1) {
            return Answer::BadTermination;
        }
        let next = format!("m {} ", self.answered + 1);
        let payload = line.strip_prefix(next.as_bytes());
        if self.answered < setup.probes && payload.is_some_and(|payload| payload.len() == setup.size as usize) {
            self.answered += 1;
            return Answer::Echo;
        }
        Answer::BadMeasurement
    }
}

/// A line without what may stand around it.
pub fn bare(line: &[u8]) -> &[u8] {
    let around = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
    let begin = line.iter().position(|byte| !around(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !around(byte)).map_or(begin, |end| end + 1);
    &line[begin..end]
}

/// Which good answer a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// After a set-up.
    Ready,
    /// After an end.
    Closing,
}

/// What a server said to a set-up or an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerReply {
    /// What was expected, in one of the forms in use.
    Good,
    /// A 404.
    Refused(String),
    /// Something else.
    Unclear(String),
}

impl fmt::Display for ServerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerReply::Good => f.write_str("as expected"),
            ServerReply::Refused(text) | ServerReply::Unclear(text) => f.write_str(text),
        }
    }
}

/// Reads an answer. `ended`: nothing more can come. Returns it with the number of bytes that it took, or `None` while it
/// may go on.
///
/// An answer whose words are known is whole without the end of its line: some servers never send that.
pub fn server_reply(bytes: &[u8], expected: Expected, ended: bool) -> Option<(ServerReply, usize)> {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\n' | b'\r' | 0))?;
    let rest = &bytes[begin..];
    let end = rest.iter().position(|byte| *byte == b'\n');
    let text = bare(&rest[..end.unwrap_or(rest.len())]);
    let taken = begin + end.map_or(rest.len(), |end| end + 1);
    // Letters and digits alone: signs and capitals differ between servers.
    let words: String =
        text.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(|byte| byte.to_ascii_lowercase() as char).collect();
    let known: &[&str] = match expected {
        Expected::Ready => &["200okready", "ready"],
        Expected::Closing => &["200okclosingconnection", "closingconnection"],
    };
    if known.contains(&words.as_str()) {
        return Some((ServerReply::Good, taken));
    }
    let errors = [Answer::BadSetup, Answer::BadMeasurement, Answer::BadTermination];
    let is_error = errors.iter().any(|answer| bare(answer.text().as_bytes()).eq_ignore_ascii_case(text));
    if !is_error && end.is_none() && !ended && text.len() <= SHORT_LINE {
        return None;
    }
    Some(match text {
        [b'2', b'0', b'0', ..] => (ServerReply::Good, taken),
        [b'4', b'0', b'4', ..] => (ServerReply::Refused(shown(text)), taken),
        _ => (ServerReply::Unclear(shown(text)), taken),
    })
}

/// How far a probe has come back: `Some(bytes)` once it is whole, with the bytes that it took. Its end of line may be
/// missing, and may stand before it, left over from the answer before.
///
/// # Errors
/// It is something else; the text says what.
pub fn came_back(bytes: &[u8], probe: &[u8]) -> Result<Option<usize>, String> {
    let begin = bytes.iter().position(|byte| !matches!(byte, b'\n' | b'\r' | 0)).unwrap_or(bytes.len());
    let (rest, probe) = (&bytes[begin..], bare(probe));
    let common = rest.len().min(probe.len());
    if rest[..common] != probe[..common] {
        return Err(shown(bare(rest)));
    }
    if common < probe.len() {
        return Ok(None);
    }
    // What ends the line belongs to it where it is there already.
    let behind = rest[common..].iter().take_while(|byte| matches!(byte, b'\n' | b'\r' | 0)).count();
    Ok(Some(begin + common + behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answers(lines: &[&[u8]]) -> Vec<Answer> {
        let mut session = Session::new(DelayUnit::Ms);
        lines.iter().map(|line| session.take(line)).collect()
    }

    #[test]
    fn a_whole_conversation() {
        let good = answers(&[b"s rtt 2 3 0\n", b"m 1 abc\n", b"m 2 \0x \n", b"t\n"]);
        assert_eq!(good, [Answer::Ready, Answer::Echo, Answer::Echo, Answer::Closing]);
        let italian = answers(&[b"h tput 1 3 0.5\r\n", b"\0m 1 abc\n\0", b"b\n"]);
        assert_eq!(italian, [Answer::Ready, Answer::Echo, Answer::Closing]);
    }

    #[test]
    fn every_error_answer() {
        let setups: [&[u8]; 12] = [
            b"",
            b"s",
            b"s rtt 1 1\n",
            b"s rtt 1 1 0 0\n",
            b"s ping 1 1 0\n",
            b"s rtt 0 1 0\n",
            b"s rtt 1 0 0\n",
            b"s rtt -1 1 0\n",
            b"s rtt 1 1 -1\n",
            b"s rtt 1 9999999999 0\n",
            b"m 1 x\n",
            b"\xff\xfe\n",
        ];
        for setup in setups {
            assert_eq!(answers(&[setup]), [Answer::BadSetup], "{setup:?}");
        }
        assert_eq!(answers(&[b"s rtt 1 1 nan\n"]), [Answer::BadSetup]);
        assert_eq!(answers(&[b"s rtt 1 1 60001\n"]), [Answer::BadSetup]);
        let probes: [&[u8]; 7] =
            [b"m 2 abc\n", b"m 0 abc\n", b"m 1 ab\n", b"m 1 abcd\n", b"m 1\n", b"x\n", b"m  1 abc\n"];
        for probe in probes {
            assert_eq!(answers(&[b"s rtt 2 3 0\n", probe])[1], Answer::BadMeasurement, "{probe:?}");
        }
        let ends: [&[u8]; 3] = [b"t now\n", b"x\n", b"b\n"];
        for end in ends {
            assert_eq!(answers(&[b"s rtt 1 3 0\n", b"m 1 abc\n", end])[2], Answer::BadTermination, "{end:?}");
        }
        assert_eq!(answers(&[b"s rtt 1 3 0\n", b"m 1 abc\n", b"m 2 abc\n"])[2], Answer::BadMeasurement);
        assert_eq!(answers(&[b"s rtt 5 3 0\n", b"terminate\n"])[1], Answer::BadTermination);
        let mut session = Session::new(DelayUnit::Ms);
        assert_eq!((session.limit(), session.too_long()), (256, Answer::BadSetup));
        session.take(b"s rtt 1 1000 0\n");
        assert_eq!((session.limit(), session.too_long()), (1032, Answer::BadMeasurement));
        session.take(&Setup::parse("s rtt 1 1000 0", DelayUnit::Ms).unwrap().probe(1));
        assert_eq!((session.answered(), session.too_long()), (1, Answer::BadTermination));
    }

    #[test]
    fn delays_are_ms_or_s() {
        assert_eq!(DelayUnit::Ms.ns("100"), Some(100_000_000));
        assert_eq!(DelayUnit::S.ns("0.25"), Some(250_000_000));
        for wrong in ["", ".", "inf", "nan", "1e3", "-1", "+1", "61", "1.2.3"] {
            assert_eq!(DelayUnit::S.ns(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn answers_of_other_servers_are_understood() {
        let good = |text: &str, expected| server_reply(text.as_bytes(), expected, false);
        for text in ["200 OK: Ready\n", "200 OK: Ready", "READY", "200 OK:Ready\0", "\n200 ok: ready\r\n"] {
            assert_eq!(good(text, Expected::Ready), Some((ServerReply::Good, text.len())), "{text:?}");
        }
        for text in ["200 OK: Closing Connection\n", "200 OK: Closing connection", "Closing connection\0"] {
            assert_eq!(good(text, Expected::Closing), Some((ServerReply::Good, text.len())), "{text:?}");
        }
        assert_eq!(good("200 OK: Rea", Expected::Ready), None);
        assert_eq!(good("", Expected::Ready), None);
        assert_eq!(good("200 OK - go ahead\n", Expected::Ready), Some((ServerReply::Good, 18)));
        let refused = ServerReply::Refused("404 ERROR: Invalid Connection Setup Message".into());
        assert_eq!(good("404 ERROR: Invalid Connection Setup Message", Expected::Ready), Some((refused.clone(), 43)));
        assert_eq!(good("404 no", Expected::Ready), None);
        assert_eq!(server_reply(b"404 no", Expected::Ready, true), Some((ServerReply::Refused("404 no".into()), 6)));
        assert_eq!(good("\x1b[2Jhello\n", Expected::Ready), Some((ServerReply::Unclear("\\u{1b}[2Jhello".into()), 10)));
        assert!(matches!(server_reply(&[b'x'; 300], Expected::Ready, false), Some((ServerReply::Unclear(_), 300))));
    }

    #[test]
    fn a_probe_is_whole_without_its_end() {
        let probe = b"m 1 xx\n";
        assert_eq!(came_back(b"m 1 x", probe), Ok(None));
        assert_eq!(came_back(b"m 1 xx", probe), Ok(Some(6)));
        assert_eq!(came_back(b"\nm 1 xx\n\0", probe), Ok(Some(9)));
        assert_eq!(came_back(b"", probe), Ok(None));
        assert_eq!(came_back(b"404 ERROR\n", probe), Err("404 ERROR".into()));
    }

    proptest! {
        #[test]
        fn a_set_up_is_read_back(probes in 1_u32..=MOST_PROBES, size in 1_u32..=MOST_PAYLOAD, delay in 0_u32..60_000, italian: bool, tput: bool) {
            let dialect = if italian { Dialect::Italian } else { Dialect::English };
            let measure = if tput { Measure::Tput } else { Measure::Rtt };
            let setup = Setup { measure, probes, size, delay: delay.to_string(), delay_ns: u64::from(delay) * 1_000_000, dialect };
            let line = setup.line();
            prop_assert_eq!(Setup::parse(line.trim_end(), DelayUnit::Ms), Some(setup));
        }

        #[test]
        fn any_lines_are_safe(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let mut session = Session::new(DelayUnit::S);
            session.take(b"s rtt 3 2 0\n");
            for line in &lines {
                session.take(line);
                prop_assert!(session.answered() <= 3);
                for expected in [Expected::Ready, Expected::Closing] {
                    if let Some((_, taken)) = server_reply(line, expected, true) {
                        prop_assert!(taken <= line.len());
                    }
                }
                if let Ok(Some(taken)) = came_back(line, b"m 1 xx\n") {
                    prop_assert!(taken <= line.len());
                }
            }
        }
    }
}
