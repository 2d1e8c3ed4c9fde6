//! What the base says of periodic runs.

use msgpath_analyse::Logs;
use msgpath_analyse::testing::{Build, texts};
use msgpath_analyse::verify::verify;

#[test]
fn a_periodic_run_has_no_replies() {
    let mut build = Build::echo(&["tcp:send"], &[64]);
    build.plan.workload = &crate::workload::PERIODIC;
    let mut run = build.run();
    // One message may go to many: what was to be delivered counts as sent.
    for round in &mut run.rounds {
        let delivered = round.latency.total() - round.latency.lost();
        let (sent, lost) = (round.latency.total(), round.latency.lost());
        let near = &mut round.near_mut().delivery;
        (near.sent, near.received, near.lost) = (sent, delivered, lost);
        round.first = Default::default();
        *round.far_mut() = Default::default();
        (round.far_mut().delivery.received, round.far_mut().bytes_received) = (delivered, 64 * delivered);
    }
    let sentences = texts(&run, &Logs::default());
    assert!(sentences[0].starts_with("V01 In this run half of the messages arrived within 20"), "{sentences:?}");
    for text in sentences {
        for wrong in ["came back", "far end", "received", "round trip"] {
            assert!(!text.contains(wrong), "{text}");
        }
    }
    assert!(verify(&run, &[], None, "0.1.0").disagreements.iter().all(|one| one.what == "summary.json"));
}
