//! Options that have no meaning for a verb, or not together.

use msgpath_core::plan::{Expectation, Metric};
use msgpath_core::{Exit, PathName, Problem};

use super::Verb;
use crate::options::{Options, StagesArg};
use crate::problems::usage;

/// An option that a verb would silently ignore is an error.
pub(super) fn refuse_what_has_no_meaning(verb: Verb, options: &Options) -> Result<(), Problem> {
    let message = &options.message;
    if message.reverse && verb.workload().is_echoed() {
        return Err(usage("-R has no meaning here: an echo goes both ways").hint("msgpath stream -R"));
    }
    if !verb.workload().timed {
        if message.reply.is_some() {
            return Err(usage("--reply has no meaning here: a stream is answered once, at its end")
                .hint("msgpath echo --reply SIZE"));
        }
        if message.inflight.as_ref().is_some_and(|depths| depths.0 != [1]) {
            return Err(usage("--inflight has no meaning here: a stream has as much in flight as the path holds")
                .hint("leave it out"));
        }
        if message.rate.is_some() || message.every.is_some() {
            return Err(
                usage("a stream has no rate: it sends as fast as the path takes").hint("msgpath echo --rate 10k")
            );
        }
        if message.service_time.is_some() {
            return Err(usage("--service-time has no meaning here: a stream is answered once, at its end")
                .hint("msgpath echo --service-time 5us"));
        }
    }
    if message.inflight.as_ref().is_some_and(|depths| depths.0.len() > 1)
        && (verb.is_compare() || verb.each().is_some() || evidence_is_traced(verb, options))
    {
        return Err(usage("a list of --inflight belongs to echo, which has a row for each").hint("one number"));
    }
    if message.event_loop {
        refuse_beside_an_event_loop(verb, options)?;
    }
    if message.arrivals.is_some() && message.rate.is_none() && message.every.is_none() {
        return Err(usage("--arrivals has no meaning without a schedule").hint("--rate 10k, or leave it out"));
    }
    let evidence = &options.evidence;
    match (evidence.metric, verb) {
        (None, _) => {}
        (Some(_), Verb::Echo { .. } | Verb::Stream | Verb::Traced(_)) => {
            return Err(usage("--metric belongs to compare").hint("msgpath compare --metric p99"));
        }
        (Some(Metric::Throughput), Verb::Compare { stream: false }) => {
            return Err(usage("--metric throughput belongs to streams").hint("msgpath compare --stream"));
        }
        (Some(metric @ (Metric::P50 | Metric::P99 | Metric::Mean)), Verb::Compare { stream: true }) => {
            return Err(usage(format!("--metric {} has no meaning here: a stream has no round trips", metric.name()))
                .hint("--metric throughput, or leave out --stream"));
        }
        (Some(_), Verb::Compare { .. }) => {}
    }
    match (evidence.expect, verb.workload().timed) {
        (Some(Expectation::Bits(_)), true) => {
            return Err(usage("--expect takes a time here: an echo is timed").hint("--expect 50us"));
        }
        (Some(Expectation::Time(_)), false) => {
            return Err(usage("--expect takes bits per second here: a stream is counted").hint("--expect 10G"));
        }
        _ => {}
    }
    if evidence.stages != StagesArg::Off {
        if !verb.workload().timed {
            return Err(usage("--stages has no meaning here: the messages of a stream are not timed one by one")
                .hint("msgpath echo --stages light"));
        }
        if verb.each().is_some() {
            return Err(usage("--stages needs rounds, and --each has one").hint("leave out one of the two"));
        }
    }
    if options.result.jsonl && matches!(verb, Verb::Traced(_)) {
        return Err(usage(format!("--jsonl has no meaning with {}", verb.name())).hint("msgpath echo --jsonl"));
    }
    if evidence.no_refine && !verb.is_compare() {
        return Err(
            usage("--no-refine belongs to compare, which alone adds sizes near a crossing").hint("leave it out")
        );
    }
    if verb.each().is_some() && (message.rate.is_some() || message.every.is_some()) {
        return Err(usage("--each prints single messages one after the other, not those of a schedule")
            .hint("msgpath echo --rate 10k, then msgpath show --each"));
    }
    if verb.each().is_some() {
        if options.evidence.count.is_none() {
            return Err(usage("--each prints every trial, so it needs their number").hint("msgpath echo -c 10 --each"));
        }
        if options.evidence.rounds.is_some() || options.evidence.restarts > 1 {
            return Err(usage("--each has one round (with --fresh, one a trial)").hint("leave out -r and --restarts"));
        }
        if options.evidence.message_log == Some(0) {
            return Err(usage("--each prints the per-message log, and --message-log 0 keeps none")
                .hint("leave out --message-log"));
        }
    }
    Ok(())
}

/// Whether messages are split into stages.
fn evidence_is_traced(verb: Verb, options: &Options) -> bool {
    options.evidence.stages != StagesArg::Off || matches!(verb, Verb::Traced(_))
}

/// What one event loop does not do.
fn refuse_beside_an_event_loop(verb: Verb, options: &Options) -> Result<(), Problem> {
    let no = |what: &str, hint: &str| Err(event_loop(format!("--event-loop {what}")).hint(hint));
    if !verb.workload().is_echoed() {
        return no(
            "serves echoes: a stream is not answered message by message",
            "msgpath echo -x tcp:send/epoll --event-loop",
        );
    }
    if evidence_is_traced(verb, options) {
        return no(
            "cannot be split into stages: a thread that waits for all connections waits for none",
            "leave out --event-loop",
        );
    }
    Ok(())
}

/// At least one of the paths must have an event loop; the others are listed as not measured.
///
/// # Errors
/// E45: none has.
pub(super) fn an_event_loop_fits(paths: &[PathName]) -> Result<(), Problem> {
    let fits = |path: &PathName| msgpath_paths::Entry::find(path).map_or(Ok(()), |entry| entry.event_loop());
    let Some(reason) = paths.first().and_then(|path| fits(path).err()) else { return Ok(()) };
    if paths.iter().any(|path| fits(path).is_ok()) {
        return Ok(());
    }
    Err(event_loop(reason.why).hint(reason.hint))
}

/// E45.
fn event_loop(what: String) -> Problem {
    Problem::new("E45", Exit::Usage, what)
}
