//! Options that have no meaning for a verb, or not together.

use msgpath_core::plan::{Expectation, Metric};
use msgpath_core::{Exit, PathName, Problem};

use super::Verb;
use crate::options::{Options, StagesArg};
use crate::problems::usage;

/// An option that a verb would silently ignore is an error.
pub(super) fn refuse_what_has_no_meaning(verb: Verb, options: &Options) -> Result<(), Problem> {
    let (timed, settings) = (&options.timed, &options.settings);
    refuse_of_streams(verb, options)?;
    if timed.inflight.as_ref().is_some_and(|depths| depths.0.len() > 1)
        && (verb.is_compare() || verb.each().is_some() || is_traced(verb, options))
    {
        return Err(usage("a list of --inflight belongs to echo, which has a row for each").hint("one number"));
    }
    if options.server.event_loop {
        refuse_beside_an_event_loop(verb, options)?;
    }
    if settings.arrivals.is_some() && timed.rate.is_none() {
        return Err(usage("-o arrivals has no meaning without a schedule").hint("--rate 10k, or leave it out"));
    }
    if settings.channel.bind.is_some() && options.connection.places.is_asked() {
        return Err(usage("-o bind is for a network, and --between has its own addresses").hint("leave out -o bind"));
    }
    if timed.stages != StagesArg::Off && verb.each().is_some() {
        return Err(usage("--stages needs rounds, and --each has one").hint("leave out one of the two"));
    }
    if options.result.jsonl && matches!(verb, Verb::Traced(_)) {
        return Err(usage(format!("--jsonl has no meaning with {}", verb.name())).hint("msgpath echo --jsonl"));
    }
    if settings.is_typed("refine") && !verb.is_compare() {
        return Err(usage("-o refine belongs to compare, which alone adds sizes near a crossing").hint("leave it out"));
    }
    if settings.fresh && verb.each().is_none() {
        return Err(usage("-o fresh has no meaning without --each").hint("msgpath echo -c 10 --each -o fresh=yes"));
    }
    if verb.each().is_some() && timed.rate.is_some() {
        return Err(usage("--each prints single messages one after the other, not those of a schedule")
            .hint("msgpath echo --rate 10k, then msgpath show --each"));
    }
    if verb.each().is_some() {
        if options.evidence.count.is_none() {
            return Err(usage("--each prints every trial, so it needs their number").hint("msgpath echo -c 10 --each"));
        }
        if options.evidence.rounds.is_some() || settings.restarts > 1 {
            return Err(
                usage("--each has one round (with -o fresh=yes, one a trial)").hint("leave out -r and -o restarts")
            );
        }
        if settings.message_log == Some(0) {
            return Err(usage("--each prints the per-message log, and -o message-log=0 keeps none")
                .hint("leave out -o message-log"));
        }
    }
    Ok(())
}

/// What `compare` takes for round trips or for streams alone, and a setting or an estimate of the other kind.
fn refuse_of_streams(verb: Verb, options: &Options) -> Result<(), Problem> {
    let (timed, settings) = (&options.timed, &options.settings);
    let is_timed = verb.workload().timed;
    let no = |what: &str, hint: &str| Err(usage(what.to_owned()).hint(hint));
    if is_timed && options.flow.reverse {
        return no("-R has no meaning here: an echo goes both ways", "msgpath compare --stream -R");
    }
    if !is_timed && timed.reply.is_some() {
        return no("--reply has no meaning here: a stream is answered once, at its end", "leave out --stream");
    }
    if !is_timed && timed.inflight.is_some() {
        return no("--inflight has no meaning here: a stream has as much in flight as the path holds", "leave it out");
    }
    if !is_timed && timed.rate.is_some() {
        return no("a stream has no rate: it sends as fast as the path takes", "msgpath echo --rate 10k");
    }
    if !is_timed && timed.stages != StagesArg::Off {
        return no(
            "--stages has no meaning here: the messages of a stream are not timed one by one",
            "msgpath echo --stages light",
        );
    }
    if !is_timed && settings.service_time.is_some() {
        return no(
            "-o service-time has no meaning here: a stream is answered once, at its end",
            "msgpath echo -o service-time=5us",
        );
    }
    match (options.compared.metric, is_timed) {
        (Some(Metric::Throughput), true) => {
            return no("--metric throughput belongs to streams", "msgpath compare --stream");
        }
        (Some(metric @ (Metric::P50 | Metric::P99 | Metric::Mean)), false) => {
            return no(
                &format!("--metric {} has no meaning here: a stream has no round trips", metric.name()),
                "--metric throughput, or leave out --stream",
            );
        }
        _ => {}
    }
    match (options.evidence.expect, is_timed) {
        (Some(Expectation::Bits(_)), true) => no("--expect takes a time here: an echo is timed", "--expect 50us"),
        (Some(Expectation::Time(_)), false) => {
            no("--expect takes bits per second here: a stream is counted", "--expect 10G")
        }
        _ => Ok(()),
    }
}

/// Whether messages are split into stages.
fn is_traced(verb: Verb, options: &Options) -> bool {
    options.timed.stages != StagesArg::Off || matches!(verb, Verb::Traced(_))
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
    if is_traced(verb, options) {
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
