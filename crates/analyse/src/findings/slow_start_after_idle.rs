//! W32: what an idle gap costs a TCP connection
//!
//! Either the congestion window fell over an idle gap: from how many segments to how many, and whether a message still
//! fits. Or it was kept and messages take longer after gaps all the same: then caches and CPUs became cold, not TCP.
//! *Likely*; *can't tell* for a smaller window where segments were retransmitted or the setting could not be read.
//!
//! ## What it rests on
//!
//! TCP_INFO before and after gaps of more than 200 ms in an open loop; `tcp_slow_start_after_idle`, the congestion
//! control. Cold: the ratio to the same case without gaps, beyond 2 % in both halves, at least half of the messages
//! after a gap. Silent in a closed loop; for the window also with the setting at 0, and with bbr, which the kernel does
//! not restart.
//!
//! ## What to do
//!
//! `sysctl net.ipv4.tcp_slow_start_after_idle=0` at the sender, or a congestion control that keeps its window. Messages
//! that fit into ten segments are not concerned.

use msgpath_core::Plan;
use msgpath_core::schema::{NEAR, OpenRound};
use msgpath_core::units::{per_second, size};
use msgpath_stats::paired::{log_ratios, paired};
use msgpath_stats::steady::halves_agree;
use msgpath_stats::verdict::{LEAST_MARGIN, LEVEL};

use super::wording::{again_set, finding, interval, measured, percent, prefix, sentence};
use super::{Detector, Input, Sentence};
use crate::series::seed;
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W32", detect };

fn detect(input: &Input) -> Vec<Sentence> {
    let tcp = measured(input).filter(|case| case.case.traits.segments);
    tcp.filter_map(|case| {
        let gap = Gap::of(input, case)?;
        if gap.after < gap.before { smaller_window(input, case, &gap) } else { cold(input, case, &gap) }
    })
    .collect()
}

/// The idle gaps of a case.
struct Gap {
    /// How many.
    gaps: u64,
    /// Congestion window before the gap that cost most of it, segments.
    before: u32,
    /// And after it.
    after: u32,
}

impl Gap {
    fn of(input: &Input, case: &CaseSummary) -> Option<Self> {
        let mut sum = OpenRound::default();
        input.rounds[case.case.id as usize].iter().filter_map(|round| round.open.as_ref()).for_each(|one| sum.add(one));
        let (before, after) = sum.idle_cwnd?;
        (sum.idle_gaps > 0).then_some(Self { gaps: sum.idle_gaps, before, after })
    }
}

/// At a rate, where the case has one.
fn at_rate(case: &CaseSummary) -> String {
    case.case.load.rate().map_or_else(String::new, |rate| format!(" at {}", per_second(rate.value())))
}

/// The congestion control of a case: as the near end's socket said, or the system's.
pub(super) fn congestion<'a>(input: &'a Input, case: &'a CaseSummary) -> Option<&'a str> {
    let of_socket =
        case.conditions.granted.iter().find(|entry| entry.end == "near" && entry.option == "TCP_CONGESTION");
    let of_system = || input.run.header.host(NEAR).facts.get("tcp congestion control").map(String::as_str);
    of_socket.map(|entry| entry.granted.as_str()).or_else(of_system).filter(|name| !name.starts_with("n/a"))
}

fn smaller_window(input: &Input, case: &CaseSummary, gap: &Gap) -> Option<Sentence> {
    let setting = input.run.header.host(NEAR).facts.get("tcp_slow_start_after_idle").map(String::as_str);
    let control = congestion(input, case);
    // Switched off, or a control with its own law of the window (bbr): the kernel does not restart it after idle.
    if setting == Some("0") || control.is_some_and(|name| name.starts_with("bbr")) {
        return None;
    }
    let mut text = format!(
        "{}the congestion window fell from {} to {} segments over an idle gap of more than 200 ms{} \
         (tcp_slow_start_after_idle = {}, {})",
        prefix(input, case),
        gap.before,
        gap.after,
        at_rate(case),
        setting.unwrap_or("n/a"),
        control.unwrap_or("congestion control n/a"),
    );
    let mss = case.end(NEAR).tcp.map(|tcp| u64::from(tcp.snd_mss)).filter(|mss| *mss > 0);
    let segments = mss.map(|mss| case.case.size.div_ceil(mss));
    match segments {
        Some(segments) if segments > u64::from(gap.after) => text.push_str(&format!(
            ". A message of {} has {segments} segments, so its rest waits for acknowledgements: the rate measures slow start",
            size(case.case.size)
        )),
        Some(segments) => text.push_str(&format!(
            ". A message of {} has {segments} segment{} and still fits; longer ones would measure slow start",
            size(case.case.size),
            if segments == 1 { "" } else { "s" }
        )),
        None => {}
    }
    // A loss makes the window smaller as well.
    let again = case.end(NEAR).tcp.map(|tcp| tcp.total_retrans);
    let lossless = setting == Some("1") && again == Some(0);
    if !lossless {
        text.push_str(match again {
            Some(1..) => {
                ". Segments were retransmitted, which makes the window smaller too; with the setting at 0 it would show"
            }
            _ => ". With the setting at 0 it would show whether that is why",
        });
    }
    text.push_str(". Keep it with sysctl net.ipv4.tcp_slow_start_after_idle=0 at the sender");
    let numbers = [
        ("idle_gaps", gap.gaps as f64),
        ("cwnd_before", f64::from(gap.before)),
        ("cwnd_after", f64::from(gap.after)),
        ("segments_of_a_message", segments.map_or(f64::NAN, |segments| segments as f64)),
        ("retransmitted_segments", again.map_or(f64::NAN, |again| again as f64)),
    ];
    let next = vec![again_set(&input.run.header, "congestion=bbr")];
    let confidence = if lossless { Confidence::Likely } else { Confidence::CantTell };
    Some(finding("W32", confidence, sentence(&text) + ".", numbers, next))
}

/// The window was kept, and the same message without gaps, in the same run, is faster all the same.
fn cold(input: &Input, case: &CaseSummary, gap: &Gap) -> Option<Sentence> {
    // Most messages must come after a gap, for the median to be one of them.
    if 2 * gap.gaps < case.messages {
        return None;
    }
    let own = &input.series[case.case.id as usize];
    let same = |other: &&CaseSummary| {
        let (a, b) = (&other.case, &case.case);
        a.path == b.path
            && (a.size, a.reply, a.pieces) == (b.size, b.reply, b.pieces)
            && (a.threads, a.connections, a.inflight) == (b.threads, b.connections, b.inflight)
    };
    let busy = measured(input).filter(same);
    busy.filter(|other| other.case.id != case.case.id && Gap::of(input, other).is_none()).find_map(|other| {
        let d: Vec<f64> = log_ratios(own, &input.series[other.case.id as usize]).into_iter().map(|(_, d)| d).collect();
        let family = input.plan.cases.iter().filter(|case| !Plan::counted(case)).count();
        let paired = paired(&d, family, seed(input.plan, &case.case, &other.case))?;
        let (low, high) = ((paired.mean - paired.half?).exp(), (paired.mean + paired.half?).exp());
        if low <= 1.0 + LEAST_MARGIN || paired.p? > LEVEL || !halves_agree(&d) {
            return None;
        }
        let longer = |ratio: f64| format!("{} %", percent(ratio - 1.0));
        let text = format!(
            "{}after idle gaps{} the congestion window is kept ({} segments), and the {} is still {} longer than{} \
             ({}): not TCP, but what became cold meanwhile (caches, a sleeping CPU)",
            prefix(input, case),
            at_rate(case),
            gap.after,
            input.plan.metric().name(),
            longer(paired.mean.exp()),
            if other.case.load.rate().is_some() { at_rate(other) } else { " in a closed loop".into() },
            interval(Some(low), Some(high), longer).unwrap_or_default(),
        );
        let numbers = [("idle_gaps", gap.gaps as f64), ("ratio", paired.mean.exp()), ("low", low), ("high", high)];
        Some(finding("W32", Confidence::Likely, sentence(&text) + ".", numbers, vec![]))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, grant, sentences};
    use msgpath_core::plan::Load;
    use msgpath_core::schedule::{Arrivals, Rate};
    use msgpath_core::schema::{NEAR, OpenRound, TcpInfo};
    use msgpath_record::Run;

    /// Rounds of 1 MiB messages with a gap before each, and so many segments retransmitted.
    fn run(path: &str, cwnd: (u32, u32), setting: &str, retransmitted: u64) -> Run {
        let mut build = Build::echo(&[path], &[1 << 20]).messages(20);
        build.plan.cases[0].load = Load::Open { rate: Rate::per_second(2.0).unwrap(), arrivals: Arrivals::Constant };
        let mut run = build.run();
        run.header.host_mut(NEAR).facts.insert("tcp_slow_start_after_idle".into(), setting.into());
        run.header.host_mut(NEAR).facts.insert("tcp congestion control".into(), "cubic".into());
        for round in &mut run.rounds {
            round.open = Some(OpenRound { idle_gaps: 20, idle_cwnd: Some(cwnd), ..OpenRound::default() });
            round.near_mut().tcp = Some(TcpInfo { snd_mss: 1448, total_retrans: retransmitted, ..TcpInfo::default() });
        }
        run
    }

    #[test]
    fn speaks_of_the_window_that_fell() {
        assert_eq!(
            sentences(&run("tcp:send", (1443, 540), "1", 0), "W32"),
            [
                "likely: The congestion window fell from 1443 to 540 segments over an idle gap of more than 200 ms at 2.00 \
              /s (tcp_slow_start_after_idle = 1, cubic). A message of 1 MiB has 725 segments, so its rest waits \
              for acknowledgements: the rate measures slow start. Keep it with sysctl \
              net.ipv4.tcp_slow_start_after_idle=0 at the sender."
            ]
        );
        assert!(sentences(&run("tcp:send", (1443, 800), "1", 0), "W32")[0].contains("725 segments and still fits"));
    }

    #[test]
    fn cannot_tell_where_segments_were_lost() {
        let texts = sentences(&run("tcp:send", (1443, 540), "1", 3), "W32");
        assert!(texts[0].starts_with("can't tell: ") && texts[0].contains("were retransmitted"), "{texts:?}");
    }

    #[test]
    fn is_silent_where_the_window_is_kept_or_follows_another_law() {
        assert!(sentences(&run("tcp:send", (694, 694), "1", 0), "W32").is_empty());
        assert!(sentences(&run("tcp:send", (1443, 540), "0", 0), "W32").is_empty());
        assert!(sentences(&run("unix:send", (1443, 540), "1", 0), "W32").is_empty());
        let mut bbr = run("tcp:send", (1443, 540), "1", 0);
        grant(&mut bbr, 0, "TCP_CONGESTION", "-", "bbr");
        assert!(sentences(&bbr, "W32").is_empty());
    }

    /// Two rates of one path, the lower one with gaps and `factor` times as slow.
    fn two_rates(factor: f64) -> Vec<String> {
        let mut build = Build::echo(&["tcp:send"], &[64, 64]).messages(20);
        build.plan.cases[0].load = Load::Open { rate: Rate::per_second(2.0).unwrap(), arrivals: Arrivals::Constant };
        build.plan.cases[1].load = Load::Open { rate: Rate::per_second(5e3).unwrap(), arrivals: Arrivals::Constant };
        let mut run = build.factor(move |case| if case.id == 0 { factor } else { 1.0 }).run();
        for round in run.rounds.iter_mut().filter(|round| round.case == 0) {
            round.open = Some(OpenRound { idle_gaps: 20, idle_cwnd: Some((10, 10)), ..OpenRound::default() });
        }
        sentences(&run, "W32")
    }

    #[test]
    fn tells_what_is_cold_from_what_is_slow_start() {
        let texts = two_rates(2.0);
        assert!(texts[0].starts_with("likely: "), "{texts:?}");
        assert!(texts[0].contains("is kept (10 segments), and the p50 is still 99 %"), "{texts:?}");
        assert!(texts[0].contains("longer than at 5.00 k/s"), "{texts:?}");
        assert!(two_rates(1.0).is_empty());
    }
}
