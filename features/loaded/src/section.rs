//! What load adds to the analysis of a run.

use msgpath_analyse::Logs;
use msgpath_analyse::diff::Difference;
use msgpath_analyse::section::{NOTHING, Section};
use msgpath_analyse::summary::Summary;
use msgpath_core::parts::Part;
use msgpath_core::schema::RunHeader;
use msgpath_core::units::{BitUnits, bits_per_second};
use msgpath_record::{RecordError, Run};

use crate::analyse::{LoadedSummary, summarise};
use crate::findings::DETECTORS;
use crate::mix;
use crate::mix::analyse::MixSummary;
use crate::mix::record::{MixFacts, MixRound};
use crate::record::{LoadFacts, LoadedRound, rounds};

pub static SECTION: Section = Section { logs, summarise: add, detectors: DETECTORS, identity, ..NOTHING };

/// What was read beside the loaded rounds of a run.
#[derive(Default)]
pub struct Read(pub Vec<LoadedRound>);

/// What went on beside the rounds of a run.
#[derive(Default)]
pub struct Mixed(pub Vec<MixRound>);

impl Part for MixSummary {
    const NAME: &'static str = "mix";
}

impl Part for LoadedSummary {
    const NAME: &'static str = "loaded";
}

fn logs(run: &Run, logs: &mut Logs) -> Result<(), RecordError> {
    // A run that was made in memory is in no folder.
    if run.folder.as_os_str().is_empty() {
        return Ok(());
    }
    if run.header.parts.get::<LoadFacts>().is_some() {
        logs.add(Read(rounds(&run.folder)?));
    }
    if run.header.parts.get::<MixFacts>().is_some() {
        logs.add(Mixed(mix::record::rounds(&run.folder)?));
    }
    Ok(())
}

fn add(run: &Run, logs: &Logs, summary: &mut Summary) {
    if let Some(facts) = run.header.parts.get::<LoadFacts>() {
        let read = logs.own::<Read>().map_or(&[][..], |read| read.0.as_slice());
        let loaded = summarise(run, facts, read, summary);
        summary.sections.set(loaded);
    }
    if let Some(facts) = run.header.parts.get::<MixFacts>() {
        let rounds = logs.own::<Mixed>().map_or(&[][..], |mixed| mixed.0.as_slice());
        let mixed = mix::analyse::summarise(run, facts, rounds, summary);
        summary.sections.set(mixed);
    }
}

/// Another load is another question.
fn identity(a: &RunHeader, b: &RunHeader) -> Vec<Difference> {
    let difference =
        |what: &str, a: String, b: String| Difference { what: what.into(), end: String::new(), a, b, refuses: true };
    if let Some(mixes) = a.parts.get::<MixFacts>().zip(b.parts.get::<MixFacts>()) {
        let texts = |mix: &MixFacts| mix.besides.iter().map(|other| other.text.clone()).collect::<Vec<_>>().join("; ");
        return vec![difference("beside", texts(mixes.0), texts(mixes.1))];
    }
    let (Some(a), Some(b)) = (a.parts.get::<LoadFacts>(), b.parts.get::<LoadFacts>()) else { return Vec::new() };
    let rate = |facts: &LoadFacts| {
        facts.rate_bits.map_or("as much as passes".into(), |bits| bits_per_second(bits, BitUnits::Si))
    };
    vec![
        difference("load", a.transport.clone(), b.transport.clone()),
        difference("streams", a.streams.to_string(), b.streams.to_string()),
        difference("rate of the load", rate(a), rate(b)),
    ]
}
