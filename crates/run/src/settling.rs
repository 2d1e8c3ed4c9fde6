//! How long a kind of case takes to settle: the pilot runs it without a pause, and looks how its numbers move with the time
//! since the load began (docs/method/rounds.md#settling).

use msgpath_agent::loops::LOST;
use msgpath_core::plan::{CaseRole, Load};
use msgpath_core::schema::EndReport;
use msgpath_core::settling::Settling;
use msgpath_core::units::Pieces;
use msgpath_core::{Case, Traits};
use msgpath_stats::settling::{Stretches, Timed, first_settled};

use crate::pilot::Tries;
use crate::round::{Round, RoundError};

/// Messages of a stretch that are looked at.
const MOST_ROWS: usize = 1 << 18;
/// The first of the ever longer rounds of a stream: so long are its two halves, ns.
const FIRST_HALF_NS: u64 = 50_000_000;
/// The last one has halves of at most this share of the time of the case, ...
const HALF_SHARE: u64 = 10;
/// ... and of at most so long, ns.
const LONGEST_HALF_NS: u64 = 2_000_000_000;

/// What decides how long a case takes to settle: everything but the size of its messages, its send method and its rate.
pub(crate) fn kind(case: &Case) -> Case {
    let mut kind = Case {
        id: 0,
        role: CaseRole::Measured,
        size: 1,
        reply: 1,
        pieces: Pieces::whole(1),
        load: Load::Closed,
        of_capacity: None,
        phase: 0,
        label: None,
        inflight: case.inflight.min(2),
        ..case.clone()
    };
    kind.path.method = String::new();
    kind.traits = Traits::default();
    kind
}

/// How long the case takes to settle, of which `extent_ns` are to be measured; `None`: it shows too little to tell. `run_ns`: see
/// [`Stretches::new`].
///
/// # Errors
/// The case cannot be measured here, or the run ends.
pub(crate) fn find(tries: &mut Tries<'_, '_>, extent_ns: u64, run_ns: u64) -> Result<Option<Settling>, RoundError> {
    if !tries.plan().workload.is_echoed() {
        return of_stream(tries, extent_ns).map(Some);
    }
    Stretches::new(extent_ns, run_ns).find(|length| {
        if tries.is_stopped() {
            return Ok(None);
        }
        let round = tries.round(tries.in_time(length as f64), 0, MOST_ROWS)?;
        // In the end it is slower or faster than in the beginning: the next one lasts as long as it is meant to.
        tries.message_ns = tries.pace_of(&round);
        Ok(Some(timed(&round)))
    })
}

/// The messages of a round in the order of time.
fn timed(round: &Round) -> Vec<Timed> {
    let mut all: Vec<Timed> = round
        .rows
        .iter()
        .flatten()
        .filter(|kept| kept.row.latency != LOST)
        .map(|kept| (kept.row.start, kept.row.latency as f64))
        .collect();
    all.sort_unstable_by_key(|(start, _)| *start);
    let begin = all.first().map_or(0, |(start, _)| *start);
    all.iter_mut().for_each(|(start, _)| *start -= begin);
    all
}

/// Rounds of a stream, each twice as long as the one before; its first half is trimmed. So the time since a connection began is
/// seen in the windows 0 to T, T to 2T, 2T to 4T ...
fn of_stream(tries: &mut Tries<'_, '_>, extent_ns: u64) -> Result<Settling, RoundError> {
    let longest = (extent_ns / HALF_SHARE).clamp(FIRST_HALF_NS, LONGEST_HALF_NS);
    // Begin, time per message, and messages until then.
    let mut windows: Vec<(u64, f64, u64)> = Vec::new();
    let mut half = FIRST_HALF_NS;
    while half <= longest && !tries.is_stopped() {
        let messages = tries.in_time(half as f64);
        let round = tries.round(messages, messages, 0)?;
        let [sender, receiver] =
            if tries.plan().reverse { [round.far(), round.near()] } else { [round.near(), round.far()] };
        tries.message_ns = tries.pace_of(&round);
        if windows.is_empty() {
            windows.push((0, in_the_beginning(receiver).unwrap_or(tries.message_ns), 0));
        }
        windows.push((sender.trimmed_ns, tries.message_ns, sender.delivery.sent));
        half *= 2;
    }
    let Some((last, steady, _)) = windows.last().copied() else { return Ok(Settling::NotWithinNs(0)) };
    let shown: Vec<(u64, f64)> = windows.iter().map(|(from, ns, _)| (*from, *ns)).collect();
    let settled = first_settled(&shown, steady).filter(|at| *at < last);
    let before = |at: u64| windows.iter().find(|(from, ..)| *from == at).map_or(0, |(.., messages)| *messages);
    Ok(settled.map_or(Settling::NotWithinNs(last), |at| Settling::WithinNs((before(at) as f64 * steady) as u64)))
}

/// Time per message of what was trimmed, ns.
fn in_the_beginning(receiver: &EndReport) -> Option<f64> {
    let size = receiver.bytes_received as f64 / receiver.delivery.received as f64;
    let messages = receiver.trimmed_bytes as f64 / size;
    (messages > 0.0 && size > 0.0).then(|| receiver.trimmed_ns as f64 / messages)
}
