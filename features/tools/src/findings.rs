//! W186: a rate that two ends counted
//!
//! The rate of an imported stream is what its receiver took over the whole run, shared out over the intervals that its sender counted; with
//! both rates. *Sure*: read from the file.
//!
//! ## What it rests on
//!
//! `iperf3 -J` of the sending end has the bytes of each interval as the sender handed them over, and one total of the receiver. The bytes
//! of every interval are multiplied by what the receiver took of what was sent, so the rate of the run is the receiver's; when in the
//! run the two differed, the file does not tell.
//!
//! ## What to do
//!
//! Import the file of the receiving end (`iperf3 -s -J`, or `-R` at the client): its intervals are what was received.

use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_core::parts::Part;
use msgpath_core::schema::RunHeader;
use msgpath_core::units::{BitUnits, bits_per_second};
use serde::{Deserialize, Serialize};

/// All of them.
pub static DETECTORS: &[Detector] = &[Detector { code: "W186", detect }];

/// What both ends of an imported stream counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportFacts {
    /// As the sender counted, bits per second.
    pub sent_bits_per_s: f64,
    /// As the receiver counted, bits per second.
    pub received_bits_per_s: f64,
}

impl Part for ImportFacts {
    const NAME: &str = "import";
}

fn detect(input: &Input) -> Vec<Sentence> {
    said(&input.run.header).into_iter().collect()
}

fn said(header: &RunHeader) -> Option<Sentence> {
    let facts = header.parts.get::<ImportFacts>()?;
    let rate = |bits| bits_per_second(bits, BitUnits::Si);
    let (sent, received) = (facts.sent_bits_per_s, facts.received_bits_per_s);
    Some(warning(
        "W186",
        format!(
            "the rate is the receiver's of the whole run ({}), shared out over intervals that the sender counted ({})",
            rate(received),
            rate(sent)
        ),
        "the file has intervals of the sender only: how the rate changed is how the sender handed over, not how data arrived",
        "import the file of the receiving end: iperf3 -s -J, or iperf3 -c HOST -R -J",
        [("sent_bits_per_s", sent), ("received_bits_per_s", received)],
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::plan::Plan;
    use msgpath_core::units::Pieces;
    use msgpath_core::{Case, PathName, Workload};

    #[test]
    fn speaks_of_an_import_whose_rate_was_shared_out() {
        let case = Case::new(PathName::new("tcp", "write", "block"), Pieces::whole(64));
        let mut header = RunHeader::new("one", "import", Plan::new(Workload::STREAM, vec![case]));
        assert!(said(&header).is_none());
        header.parts.set(ImportFacts { sent_bits_per_s: 9.5e9, received_bits_per_s: 9.48e9 });
        let Some(Sentence::Warning(warning)) = said(&header) else { panic!("silent") };
        assert!(warning.text.contains("(9.48 Gbit/s)") && warning.text.contains("(9.50 Gbit/s)"), "{}", warning.text);
    }
}
