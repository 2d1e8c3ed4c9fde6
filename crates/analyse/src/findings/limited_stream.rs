//! W39: what limits a stream
//!
//! * **A window or a buffer**: the share of busy time in which the receiver's window or the send buffer was the limit.
//!   *Sure* where interval and both halves lie above 20 %, else *can't tell*.
//! * **Pacing**: what another congestion control brought in place of bbr. *Sure* where both halves agree, else
//!   *likely*.
//! * **The link**: the payload comes to 90 % or more of the link's speed.
//!
//! ## What it rests on
//!
//! * **A window or a buffer**: `tcpi_rwnd_limited` and `tcpi_sndbuf_limited` by `tcpi_busy_time` of the sender, one
//!   share a round.
//! * **Pacing**: an ablation, paired by pass, beyond the margin and after Holm; only where the path stays on the
//!   machine.
//! * **The link**: the receiver's bytes on its clock; the speed from `-o wire`, else the rate of `--link`, else the NIC
//!   of the route. Silent on loopback, on virtual devices without a typed speed, and where more came through than the
//!   link should carry.
//!
//! ## What to do
//!
//! * **Receiver's window**: a CPU of its own for the receiver; no `-o rcvbuf`, since a fixed buffer stops the kernel's
//!   sizing; then `net.ipv4.tcp_rmem`. **Send buffer**: likewise `-o sndbuf` and `net.ipv4.tcp_wmem`.
//! * **Pacing**: `-o congestion=cubic` inside one machine. On a network with queues measure there.
//! * **The link**: compare CPU time, or use a faster link.

use msgpath_core::plan::MIN_ROUNDS_FOR_CLAIMS;
use msgpath_core::schema::TcpInfo;
use msgpath_stats::describe::{deviation, mean};
use msgpath_stats::distributions::t_quantile;

use super::wording::{affected, again_with_rounds, finding, measured, percent, prefix, range, sentence, worst};
use super::{Detector, Input, Sentence};
use crate::series::sender;
use crate::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W39", detect };

/// Share of the busy time below which a limit is a matter of every stream.
const MUCH: f64 = 0.2;

/// One limit: how it is said, what ends it, and where TCP_INFO has it.
struct Limit {
    name: &'static str,
    cure: &'static str,
    fixed: &'static str,
    is_fixed: fn(&Input) -> bool,
    of: fn(&TcpInfo) -> u64,
}

const LIMITS: [Limit; 2] = [
    Limit {
        name: "the receiver's window held the sender back",
        cure: "the receiver reads too slowly, or its buffer is short (net.ipv4.tcp_rmem)",
        fixed: "-o rcvbuf was given, which switches the kernel's own sizing off",
        is_fixed: |input| input.plan.options.receive_buffer.is_some(),
        of: |tcp| tcp.rwnd_limited_us,
    },
    Limit {
        name: "the send buffer held the sender back",
        cure: "it is short for this path (net.ipv4.tcp_wmem)",
        fixed: "-o sndbuf was given, which switches the kernel's own sizing off",
        is_fixed: |input| input.plan.options.send_buffer.is_some(),
        of: |tcp| tcp.sndbuf_limited_us,
    },
];

fn detect(input: &Input) -> Vec<Sentence> {
    if input.plan.workload.timed {
        return Vec::new();
    }
    let limited = |limit: &Limit| {
        let much = measured(input).filter_map(|case| {
            let shares = shares(input, case, limit);
            (!shares.is_empty() && mean(&shares) > MUCH).then(|| (mean(&shares), case))
        });
        worst(much).map(|(case, cases)| say(input, case, cases, limit))
    };
    LIMITS.iter().filter_map(limited).collect()
}

/// The share of each round that has TCP_INFO: the round is the unit of evidence.
fn shares(input: &Input, case: &CaseSummary, limit: &Limit) -> Vec<f64> {
    let share = |tcp: TcpInfo| (tcp.busy_us > 0).then(|| (limit.of)(&tcp) as f64 / tcp.busy_us as f64);
    let rounds = input.rounds[case.case.id as usize].iter();
    rounds.filter_map(|round| share(sender(input.plan, round).tcp?)).collect()
}

fn say(input: &Input, case: &CaseSummary, cases: usize, limit: &Limit) -> Sentence {
    let shares = shares(input, case, limit);
    let value = mean(&shares);
    let half = t_quantile(0.975, shares.len() as f64 - 1.0) * deviation(&shares) / (shares.len() as f64).sqrt();
    let (first, second) = shares.split_at(shares.len() / 2);
    let claim = shares.len() >= MIN_ROUNDS_FOR_CLAIMS as usize;
    let sure = claim && value - half > MUCH && mean(first) > MUCH && mean(second) > MUCH;
    let mut text = format!("{}{} % of the busy time {}", prefix(input, case), percent(value), limit.name);
    if claim {
        let (low, high) = ((value - half).max(0.0), (value + half).min(1.0));
        text.push_str(&format!(" (95 %: {} %)", range(percent(low), percent(high))));
    }
    let cure = if (limit.is_fixed)(input) { limit.fixed } else { limit.cure };
    text.push_str(&format!(": {cure}{}", affected(cases)));
    let numbers =
        [("share", value), ("half_width", if claim { half } else { f64::NAN }), ("rounds", shares.len() as f64)];
    if sure {
        return finding("W39", Confidence::Sure, sentence(&text) + ".", numbers, vec![]);
    }
    text.push_str(". More rounds would tell whether it is more than 20 %");
    let more = 2 * u64::from(input.plan.rounds.max(MIN_ROUNDS_FOR_CLAIMS));
    let next = vec![again_with_rounds(&input.run.header, more)];
    finding("W39", Confidence::CantTell, sentence(&text) + ".", numbers, next)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Build, sentences};
    use msgpath_core::schema::TcpInfo;
    use msgpath_stats::simulate::normal;

    /// A stream whose sender was limited for so much of every round by the window, and by its own buffer.
    fn texts(build: Build, window: impl Fn(u32) -> f64, buffer: f64) -> Vec<String> {
        let mut run = build.run();
        for round in &mut run.rounds {
            let tcp = TcpInfo {
                busy_us: 100_000,
                rwnd_limited_us: (window(round.pass) * 1e5) as u64,
                sndbuf_limited_us: (buffer * 1e5) as u64,
                ..TcpInfo::default()
            };
            let reverse = run.header.plan.reverse;
            if reverse { round.far_mut() } else { round.near_mut() }.tcp = Some(tcp);
        }
        sentences(&run, &super::DETECTOR)
    }

    fn stream() -> Build {
        Build::stream(&["tcp:send"], &[65_536])
    }

    #[test]
    fn speaks_of_each_limit() {
        assert_eq!(
            texts(stream(), |pass| 0.82 + 0.01 * f64::from(pass % 2), 0.0),
            [
                "sure: 82 % of the busy time the receiver's window held the sender back (95 %: 82 to 83 %): the receiver \
              reads too slowly, or its buffer is short (net.ipv4.tcp_rmem)."
            ]
        );
        let mut fixed = stream().reverse();
        fixed.plan.options.send_buffer = Some(4096);
        let both = texts(fixed, |_| 0.3, 0.5);
        assert!(both.len() == 2 && both[1].contains("-o sndbuf was given"), "{both:?}");
    }

    #[test]
    fn cannot_tell_where_rounds_or_halves_disagree() {
        for texts in
            [texts(stream(), |pass| if pass < 20 { 0.1 } else { 0.6 }, 0.0), texts(stream().rounds(3), |_| 0.8, 0.0)]
        {
            assert!(texts[0].starts_with("can't tell: "), "{texts:?}");
        }
    }

    #[test]
    fn is_rarely_sure_of_a_share_that_is_not_above_the_limit() {
        let sure = (0..100).filter(|seed| {
            let noise = std::cell::RefCell::new(fastrand::Rng::with_seed(*seed));
            let share = |_| (0.2 + 0.05 * normal(&mut noise.borrow_mut())).max(0.0);
            texts(stream().messages(1), share, 0.0).iter().any(|text| text.starts_with("sure"))
        });
        let sure = sure.count();
        assert!(sure <= 5, "{sure} of 100");
    }

    #[test]
    fn is_silent_below_a_fifth_and_without_tcp_info() {
        assert!(texts(stream(), |_| 0.19, 0.18).is_empty());
        assert!(texts(Build::echo(&["tcp:send"], &[64]), |_| 0.8, 0.8).is_empty());
        assert!(sentences(&stream().run(), &super::DETECTOR).is_empty());
    }
}
