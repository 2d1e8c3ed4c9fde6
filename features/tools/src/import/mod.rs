//! Results of measuring tools, of files that they wrote: what a file tells becomes the rounds of cases, what it does not tell is said.
//! A form is one file and a line in [`FORMS`].

mod hgrm;
mod hlog;
mod iperf3;
mod netperf;
mod pcap;
#[cfg(feature = "programs")]
mod run;

use msgpath_core::Histogram;
use msgpath_core::histogram::SparseHistogram;

#[cfg(feature = "programs")]
pub use run::IMPORTER;

/// All that are read.
pub static FORMS: [&Form; 5] = [&iperf3::FORM, &netperf::FORM, &hgrm::FORM, &hlog::FORM, &pcap::FORM];

/// The largest file that is read, bytes: it is held in memory as a whole.
pub const MOST_BYTES: u64 = 256 << 20;
/// Most rounds of a case: the intervals of a longer file are brought together.
const MOST_ROUNDS: usize = 400;
/// Most messages of an interval.
const MOST_MESSAGES: u64 = 1 << 40;
/// Most cases of a file.
const MOST_CASES: usize = 32;

/// What a tool writes.
pub struct Form {
    /// What a file of it is.
    pub name: &'static str,
    /// Whether a file that begins so is one.
    pub is: fn(&[u8]) -> bool,
    /// What it tells. The second is the unit of its times as the user says, ns.
    pub read: fn(&[u8], Option<f64>) -> Result<Told, Unread>,
}

/// Why nothing was read of a file.
#[derive(Debug, PartialEq)]
pub struct Unread {
    /// The reason, without a full stop.
    pub why: String,
    /// What helps.
    pub hint: &'static str,
}

impl Unread {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), hint: "" }
    }
}

/// What a file tells.
#[derive(Debug, Default)]
pub struct Told {
    /// Who wrote it.
    pub tool: String,
    /// Bytes in a time, not times of messages.
    pub stream: bool,
    /// Who listened; empty: it does not say.
    pub target: String,
    /// Who connected; empty: it does not say.
    pub client: String,
    /// When it began, s since 1970; 0: it does not say.
    pub began: u64,
    /// The client is who received.
    pub reverse: bool,
    /// Rates of a stream as its sender counted it and as its receiver did, bits/s, where its rounds are the one brought to the other.
    pub shared_out: Option<(f64, f64)>,
    /// What was measured.
    pub cases: Vec<Case>,
    /// What it does not tell, a sentence each.
    pub lacks: Vec<String>,
}

/// One thing that was measured.
#[derive(Debug, Default)]
pub struct Case {
    /// What it is called; empty: it has no name.
    pub name: String,
    /// Transport; empty: it does not say.
    pub transport: &'static str,
    /// How messages were handed over, as the tool does it; empty: it does not say.
    pub method: &'static str,
    /// Bytes of a message; not known without a method.
    pub size: u32,
    pub connections: u32,
    pub rounds: Vec<Round>,
}

/// An interval.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Its begin, ns after the first.
    pub start_ns: u64,
    pub ns: u64,
    /// Bytes that it carried.
    pub bytes: u64,
    /// Times of its messages.
    pub times: SparseHistogram,
}

impl Told {
    /// With intervals brought together where there are more than a run takes.
    ///
    /// # Errors
    /// It tells of nothing, or of too much.
    fn checked(mut self) -> Result<Self, Unread> {
        self.cases.retain(|case| !case.rounds.is_empty());
        match self.cases.len() {
            0 => return Err(Unread::new("it has no interval in which something was measured")),
            cases if cases > MOST_CASES => return Err(Unread::new(format!("{cases} cases (at most {MOST_CASES})"))),
            _ => {}
        }
        for case in &mut self.cases {
            if case.rounds.len() > MOST_ROUNDS {
                let each = case.rounds.len().div_ceil(MOST_ROUNDS);
                self.lacks.push(format!("its intervals were brought together, {each} in each round"));
                case.rounds = case.rounds.chunks(each).map(together).collect();
            }
        }
        Ok(self)
    }
}

fn together(rounds: &[Round]) -> Round {
    let mut times = Histogram::new();
    rounds.iter().for_each(|round| times.merge_sparse(&round.times));
    let sum = |of: fn(&Round) -> u64| rounds.iter().map(of).fold(0, u64::saturating_add);
    Round {
        start_ns: rounds[0].start_ns,
        ns: sum(|round| round.ns),
        bytes: sum(|round| round.bytes),
        times: times.to_sparse(),
    }
}

/// Seconds as ns; `None`: no length of time that a run can have.
fn ns_of(seconds: f64) -> Option<u64> {
    (seconds.is_finite() && (0.0..1e10).contains(&seconds)).then_some((seconds * 1e9) as u64)
}

fn has(begin: &[u8], text: &str) -> bool {
    begin.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The unit of times, ns: as the user says, else as the file does.
fn unit(typed: Option<f64>, told: Option<f64>) -> Result<f64, Unread> {
    typed.or(told).ok_or_else(|| Unread {
        why: "the file does not say in which unit its times are".into(),
        hint: "--unit us   or ns, ms, s",
    })
}

/// What is said of a file that holds times and not of what.
const OF_WHAT: &str = "the file does not say what its times are of: they are shown as round trips, and neither transport nor size nor anything of both ends is known";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_apart() {
        let name = |begin: &str| {
            let mut found = FORMS.iter().filter(|form| (form.is)(begin.as_bytes()));
            let first = found.next().map(|form| form.name);
            assert!(found.next().is_none(), "{begin}");
            first
        };
        assert_eq!(
            name("{\n\t\"start\":\t{\n\t\t\"connected\": [],\n\t\t\"version\": \"iperf 3.12\","),
            Some("iperf3's JSON")
        );
        assert!(
            name("       Value     Percentile TotalCount 1/(1-Percentile)\n").is_some_and(|name| name.contains("hgrm"))
        );
        assert!(name("#[Histogram log format version 1.3]\n").is_some_and(|name| name.contains("hlog")));
        assert!(
            name("MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0\nMEAN_LATENCY=21.3\n")
                .is_some_and(|name| name.contains("netperf"))
        );
        for other in ["", "t1,t4\n1,2\n", "{ \"title\" : \"x\",\n\"events\" : [\n"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn more_intervals_than_a_run_takes_are_brought_together() {
        let mut times = Histogram::new();
        times.record(7);
        let round = |at: u64| Round { start_ns: at, ns: 10, bytes: 3, times: times.to_sparse() };
        let rounds = (0..MOST_ROUNDS as u64 + 1).map(round).collect();
        let told = Told { cases: vec![Case { rounds, ..Case::default() }, Case::default()], ..Told::default() };
        let told = told.checked().unwrap();
        let rounds = &told.cases[0].rounds;
        assert_eq!((told.cases.len(), rounds.len(), told.lacks.len()), (1, 201, 1));
        assert_eq!((rounds[0].ns, rounds[0].bytes, rounds[0].times.total(), rounds[1].start_ns), (20, 6, 2, 2));
        assert!(Told::default().checked().is_err());
    }
}
