//! W184: certificates were not checked
//!
//! The run took any certificate: what was measured may be another server than the one that was named.
//!
//! ## What it rests on
//!
//! `--insecure-tls` of the run, or `sslmode=require` of its target.
//!
//! ## What to do
//!
//! `--cacert FILE` with the certificate of the authority that signed the server's; with PostgreSQL `sslmode=verify-full`.

use super::shared::calls;
use msgpath_analyse::findings::wording::warning;
use msgpath_analyse::findings::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W184", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let connections = calls(input).and_then(|(_, rpc)| rpc.connections.as_ref());
    let Some(connections) = connections.filter(|connections| connections.unchecked) else { return Vec::new() };
    vec![warning(
        "W184",
        "No certificate of the server was checked (--insecure-tls, sslmode=require)".into(),
        "anyone between client and server can answer in its place, so that the times may be those of another program",
        "--cacert FILE, with the certificate of the authority that signed the server's",
        [("handshakes", (connections.full + connections.resumed) as f64)],
    )]
}

#[cfg(test)]
mod tests {
    use crate::record::Handshakes;
    use crate::testing::{Calls, S, shaken};

    #[test]
    fn insecure_runs_are_said_to_be() {
        let calls = Calls::new(1, 0.0, 0.0).pings(20, S).over(Handshakes { unchecked: true, ..shaken(1, 0) });
        let sentences = calls.sentences("W184");
        assert!(sentences[0].contains("No certificate of the server was checked"), "{sentences:?}");
        assert!(Calls::new(1, 0.0, 0.0).pings(20, S).over(shaken(1, 0)).sentences("W184").is_empty());
    }
}
