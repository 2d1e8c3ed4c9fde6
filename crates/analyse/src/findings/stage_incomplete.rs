//! W92: stages were asked for and are not shown, or boundaries between them are missing.

use super::stage_growth::traced;
use super::wording::{list, prefix, sentence, warning};
use super::{Detector, Input, Sentence};

pub(super) const DETECTOR: Detector = Detector { code: "W92", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let why = "where the time goes is not known without them";
    let none = |(case, stages): (_, &crate::attribution::CaseStages)| {
        let reason = stages.why.as_ref()?;
        let refused = input.run.header.tracing.iter().flat_map(|tracing| &tracing.refused);
        let cures: Vec<String> = refused
            .filter(|(_, why)| !why.hint.is_empty())
            .map(|(name, why)| format!("{name}: {}", why.hint))
            .collect();
        let text = format!("{}the stages are not shown: {reason}", prefix(input, case));
        let numbers = [("messages", stages.messages as f64), ("complete", stages.complete as f64)];
        Some(warning("W92", sentence(&text), why, &cures.join("; "), numbers))
    };
    let mut sentences: Vec<Sentence> = traced(input).filter_map(none).collect();
    let joined = traced(input).find(|(_, stages)| stages.why.is_none() && !stages.missing.is_empty());
    sentences.extend(joined.map(|(_, stages)| {
        let missing: Vec<String> = stages.missing.iter().map(|(name, why)| format!("{name} ({why})")).collect();
        let text = format!("boundaries between stages are missing: {}", list(&missing));
        let why = "the stages on both sides are one number; their names say so";
        warning("W92", sentence(&text), why, "", [("missing", stages.missing.len() as f64)])
    }));
    sentences
}

#[cfg(test)]
mod tests {
    use crate::testing_trace::{Setup, sentences, traced};
    use msgpath_core::schema::EventKind;

    #[test]
    fn says_why_there_are_no_stages() {
        let mut traced = traced(&Setup::over("tcp:send"), 50);
        assert!(sentences(&traced, "W92").is_empty());
        traced.logs.events.here().truncate(10);
        let texts = sentences(&traced, "W92");
        assert!(
            texts[0].starts_with("The stages are not shown: the stages of 500 of 2000 messages are known"),
            "{texts:?}"
        );
        assert!(texts[0].contains("its round has no kernel events"), "{texts:?}");
    }

    #[test]
    fn names_missing_boundaries() {
        let traced = traced(&Setup { without: vec![EventKind::SkDataReady], ..Setup::over("tcp:send") }, 50);
        assert_eq!(
            sentences(&traced, "W92"),
            ["Boundaries between stages are missing: sk_data_ready (this kernel has none)"]
        );
    }
}
