//! W92: what the stages cannot say
//!
//! * **Not shown, or joined**: stages were asked for and are missing, with the reason and what would grant them; or
//!   tracepoints are missing, so that two stages are one number; or one of two ends could not trace.
//! * **Tracing costs more**: tracing adds at least 10 %, and more than the difference that the stages explain.
//!
//! ## What it rests on
//!
//! * **Not shown**: below 95 % of the messages with all stages no split is shown, since the known ones are not like the
//!   others.
//! * **Tracing costs more**: the ratio of the traced replica to the case, paired by pass; the stage that grew most.
//!
//! ## What to do
//!
//! CAP_BPF and CAP_PERFMON for the better back end, fewer messages in flight, a larger `-o message-log`. Cost:
//! `--stages light`; the BPF back end costs a third of perf's (`explain -v` says which was used).

use super::growth::traced;
use msgpath_analyse::findings::wording::{list, prefix, sentence, warning};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_core::schema::{FAR, Tracing};

pub(super) const DETECTOR: Detector = Detector { code: "W92", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let why = "where the time goes is not known without them";
    let none = |(case, stages): (_, &crate::analyse::CaseStages)| {
        let reason = stages.why.as_ref()?;
        let header = &input.run.header;
        let cures = cures(header.tracing.iter().chain(&header.end(FAR).tracing));
        let text = format!("{}the stages are not shown: {reason}", prefix(input, case));
        let numbers = [("messages", stages.messages as f64), ("complete", stages.complete as f64)];
        Some(warning("W92", sentence(&text), why, &cures, numbers))
    };
    let mut sentences: Vec<Sentence> = traced(input).filter_map(none).collect();
    sentences.extend(two_clocks(input));
    sentences.extend(one_end(input));
    let joined = traced(input).find(|(_, stages)| stages.why.is_none() && !stages.missing.is_empty());
    sentences.extend(joined.map(|(_, stages)| {
        let missing: Vec<String> = stages.missing.iter().map(|(name, why)| format!("{name} ({why})")).collect();
        let text = format!("boundaries between stages are missing: {}", list(&missing));
        let why = "the stages on both sides are one number; their names say so";
        warning("W92", sentence(&text), why, "", [("missing", stages.missing.len() as f64)])
    }));
    sentences
}

/// What would let those trace that cannot.
fn cures<'a>(tracings: impl Iterator<Item = &'a Tracing>) -> String {
    let refused = tracings.flat_map(|tracing| &tracing.refused).filter(|(_, why)| !why.hint.is_empty());
    refused.map(|(name, why)| format!("{name}: {}", why.hint)).collect::<Vec<_>>().join("; ")
}

/// Of two ends that trace themselves one could not.
fn one_end(input: &Input) -> Option<Sentence> {
    let (_, stages) = traced(input).find(|(_, stages)| stages.why.is_none() && !stages.untraced.is_empty())?;
    let (end, reason) = stages.untraced.first()?;
    let header = &input.run.header;
    let own = if end == "far end" { &header.end(FAR).tracing } else { &header.tracing };
    let text = format!("the kernel was traced at one end, not at the {end} ({reason})");
    let why = "what happens there is one number with the way between the ends";
    Some(warning("W92", sentence(&text), why, &cures(own.iter()), [("ends", 1.0)]))
}

/// Ends without a common clock, and no packet between them that both could see: their stamps have to do.
fn two_clocks(input: &Input) -> Option<Sentence> {
    let header = &input.run.header;
    input.plan.stages.filter(|_| !header.one_clock() && traced(input).next().is_none())?;
    let (_, reason) = header.tracing.as_ref()?.refused.first()?;
    let text = format!("the kernel was not traced ({}): the stages are those of the stamps of both ends", reason.why);
    let why = "request, far end and reply are known, but not what each of them is spent on";
    Some(warning("W92", sentence(&text), why, &reason.hint, [("clocks", 2.0)]))
}

#[cfg(test)]
mod tests {
    use crate::section::SECTION;
    use crate::testing::{Setup, sentences, traced};
    use msgpath_analyse::logs::Logs;
    use msgpath_analyse::section;
    use msgpath_analyse::testing::Build;
    use msgpath_analyse::testing::said_with;
    use msgpath_core::Unavailable;
    use msgpath_core::plan::StageSet;
    use msgpath_core::schema::{EventKind, FAR, NEAR, Tracing};
    use msgpath_record::Run;

    #[test]
    fn says_why_there_are_no_stages() {
        let mut traced = traced(&Setup::over("tcp:send"), 50);
        assert!(sentences(&traced, &super::DETECTOR).is_empty());
        traced.log().events.here().truncate(10);
        let texts = sentences(&traced, &super::DETECTOR);
        assert!(
            texts[0].starts_with("The stages are not shown: the stages of 500 of 2000 messages are known"),
            "{texts:?}"
        );
        assert!(texts[0].contains("its round has no kernel events"), "{texts:?}");
    }

    #[test]
    fn two_clocks_without_packets_between_them_are_not_traced() {
        let mut run = Build::echo(&["unix:send"], &[64]).run();
        run.header.plan.stages = Some(StageSet::Light);
        run.header.host_mut(FAR).boot_id = "two".into();
        section::add(&SECTION);
        let said = |run: &Run| said_with(run, &Logs::default(), &super::DETECTOR);
        assert!(said(&run).is_empty(), "nothing was refused");
        let reason = Unavailable::new("no packet is seen", "a path over IP");
        let refused = vec![("kernel tracing".into(), reason)];
        run.header.tracing = Some(Tracing { refused, ..Tracing::default() });
        let sentence = "The kernel was not traced (no packet is seen): the stages are those of the stamps of both ends";
        assert_eq!(said(&run), [sentence]);
        run.header.host_mut(FAR).boot_id = run.header.host(NEAR).boot_id.clone();
        assert!(said(&run).is_empty());
    }

    #[test]
    fn names_missing_boundaries() {
        let traced = traced(&Setup { without: vec![EventKind::SkDataReady], ..Setup::over("tcp:send") }, 50);
        assert_eq!(
            sentences(&traced, &super::DETECTOR),
            ["Boundaries between stages are missing: sk_data_ready (this kernel has none)"]
        );
    }
}
