//! How messages are offered, in words: the load of a case, a point that was not sustained, the ends of a load curve.

use msgpath_analyse::load_curve::which_sustained;
use msgpath_analyse::summary::{CaseSummary, LoadCurve, OpenLoop};
use msgpath_core::plan::{Case, Load, OPEN_INFLIGHT};
use msgpath_core::schedule::{Arrivals, Rate};
use msgpath_core::units::{Glyphs, three_digits};
use msgpath_stats::estimate::Estimate;
use msgpath_stats::quantile::Quantile;

use super::{counted, estimate_interval, interval, per_second, percent, quantile_name, quantile_value, with_interval};

fn places(case: &Case) -> String {
    let connections = counted(u64::from(case.connections), "connection");
    format!("{connections}, {}", counted(u64::from(case.threads), "thread"))
}

fn arrivals(arrivals: Arrivals) -> &'static str {
    match arrivals {
        Arrivals::Poisson => "Poisson",
        Arrivals::Constant => "at equal gaps",
    }
}

/// `1 connection, 1 thread, closed loop`, or `open loop, 10k/s Poisson, from the intended send`.
pub fn load(case: &Case) -> String {
    let places = places(case);
    match case.load {
        Load::Closed if case.inflight > 1 => format!("{places}, closed loop, {} in flight", case.inflight),
        Load::Closed => format!("{places}, closed loop"),
        Load::Open { rate, arrivals: distribution } => {
            let cap = match case.inflight {
                OPEN_INFLIGHT => String::new(),
                most => format!(", at most {most} in flight on a connection"),
            };
            format!("{places}, open loop, {rate} {}, from the intended send{cap}", arrivals(distribution))
        }
    }
}

/// The load of several cases: that of the first, or their range of rates.
pub fn loads(cases: &[&CaseSummary]) -> String {
    let Some(first) = cases.first() else { return String::new() };
    let mut rates: Vec<Rate> = cases.iter().filter_map(|case| case.case.load.rate()).collect();
    rates.sort_unstable();
    rates.dedup();
    match (rates.as_slice(), first.case.load) {
        ([low, .., high], Load::Open { arrivals: distribution, .. }) => format!(
            "{}, open loop, {} rates {low} to {high} {}, from the intended send",
            places(&first.case),
            rates.len(),
            arrivals(distribution)
        ),
        _ => load(&first.case),
    }
}

/// A rate as it is typed: `10k/s`.
pub fn asked(rate: f64) -> String {
    Rate::per_second(rate).map_or_else(|| per_second(rate), |rate| rate.to_string())
}

/// The open loop of a case that was not sustained: its latency means nothing and is not printed.
pub fn overloaded(case: &CaseSummary) -> Option<&OpenLoop> {
    case.open.as_ref().filter(|open| open.overloaded().is_some())
}

/// What is printed instead of latencies where a rate was not sustained.
pub fn not_sustained(open: &OpenLoop) -> String {
    let (achieved, asked) = (per_second(open.achieved_per_s.value), per_second(open.asked_per_s));
    format!("not sustained: {achieved} of {asked}{}", backlog(open.backlog_per_s.as_ref()))
}

/// `; the backlog grows by 11.8 k/s (95 %: 11.2 to 12.4 k/s)`; empty where no growth was seen.
pub fn backlog(slope: Option<&Estimate>) -> String {
    slope.filter(|slope| slope.value > 0.0).map_or_else(String::new, |slope| {
        format!("; the backlog grows by {}", with_interval(slope.value, slope.low, slope.high, per_second))
    })
}

/// `offered`, `late`, `in flight`, `client`: what an open loop knows of itself.
pub fn open_loop(open: &OpenLoop, glyphs: Glyphs) -> Vec<(&'static str, String)> {
    let achieved = &open.achieved_per_s;
    let mut offered = format!(
        "{} asked, {} scheduled, {} answered",
        per_second(open.asked_per_s),
        per_second(open.offered_per_s),
        with_interval(achieved.value, achieved.low, achieved.high, per_second)
    );
    if let Some(why) = open.why.as_ref().filter(|_| open.sustained.is_none()) {
        offered = format!("{offered}; {why}");
    }
    let mut late = format!("{} of the sends by more than one mean gap", percent(open.late_share));
    if open.overloaded().is_none() {
        let quantiles: Vec<String> = lateness(open)
            .map(|quantile| format!("{} {}", quantile_name(quantile.p), quantile_value(quantile, glyphs)))
            .collect();
        if !quantiles.is_empty() {
            late = format!("{} after the intended send; {late}", quantiles.join(", "));
        }
    }
    if open.blocked_share + open.not_running_share + open.own_share > 0.0 {
        late = format!(
            "{late}; of the lateness {} held up by the far end, {} ready but not running, {} the generator's own",
            percent(open.blocked_share),
            percent(open.not_running_share),
            percent(open.own_share)
        );
    }
    let mut in_flight = format!(
        "{} messages on average just before a send, {} at most",
        three_digits(open.mean_in_flight),
        open.most_in_flight
    );
    if let Some(little) = &open.little {
        let range = estimate_interval(little, three_digits);
        in_flight = format!(
            "{in_flight}; Little's law {} (1 where they agree with the rate and the round trips; 95 %: {range})",
            three_digits(little.value)
        );
    }
    let client = match open.client_busy {
        None => "n/a: its CPU time was not counted".into(),
        Some(busy) if busy > 0.5 => {
            format!("its threads were busy {} of the time: the client may be what is measured", percent(busy))
        }
        Some(busy) => format!("its threads were busy {} of the time", percent(busy)),
    };
    vec![("offered", offered), ("late", late), ("in flight", in_flight), ("client", client)]
}

/// The quantiles of the lateness that are printed.
pub fn lateness(open: &OpenLoop) -> impl Iterator<Item = &Quantile> {
    open.lateness.iter().filter(|quantile| quantile.p == 0.5 || quantile.p == 0.99)
}

/// The rate at which the curve bends.
pub fn knee(curve: &LoadCurve) -> String {
    let name = quantile_name(curve.knee_p);
    match &curve.knee_per_s {
        None => format!("none: {name} did not double at the rates that were sustained"),
        Some(knee) => {
            let range = interval(knee.low, knee.high, per_second).unwrap_or_else(|| "no interval".into());
            format!("{name} has doubled at {}   {range}", per_second(knee.value))
        }
    }
}

/// Which rates were sustained.
pub fn sustained(curve: &LoadCurve) -> String {
    which_sustained(curve, asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::PathName;
    use msgpath_core::units::Pieces;

    #[test]
    fn loads_say_from_when_time_counts() {
        let closed = Case::new(PathName::new("tcp", "send", "block"), Pieces::whole(64));
        let rate = Rate::per_second(10_000.0).unwrap();
        let open =
            Case { load: Load::Open { rate, arrivals: Arrivals::Poisson }, inflight: OPEN_INFLIGHT, ..closed.clone() };
        assert_eq!(load(&closed), "1 connection, 1 thread, closed loop");
        assert_eq!(load(&open), "1 connection, 1 thread, open loop, 10k/s Poisson, from the intended send");
        let capped = Case { inflight: 8, load: Load::Open { rate, arrivals: Arrivals::Constant }, ..closed };
        assert!(
            load(&capped).ends_with("10k/s at equal gaps, from the intended send, at most 8 in flight on a connection")
        );
    }

    #[test]
    fn an_overloaded_point_says_how_fast_it_falls_behind() {
        let around = |value: f64, half: f64| Estimate { value, low: Some(value - half), high: Some(value + half) };
        let mut open = OpenLoop {
            asked_per_s: 50_000.0,
            offered_per_s: 50_010.0,
            achieved_per_s: around(38_200.0, 500.0),
            sustained: Some(false),
            why: Some("the backlog grows".into()),
            backlog_per_s: Some(around(11_800.0, 600.0)),
            service: Vec::new(),
            lateness: Vec::new(),
            late_share: 0.12,
            blocked_share: 0.81,
            not_running_share: 0.12,
            own_share: 0.07,
            mean_in_flight: 900.0,
            most_in_flight: 4_096,
            little: None,
            client_busy: Some(0.62),
        };
        assert_eq!(
            not_sustained(&open),
            "not sustained: 38.2 k/s of 50.0 k/s; the backlog grows by 11.8 k/s (95 %: 11.2 to 12.4 k/s)"
        );
        let known = open_loop(&open, Glyphs::Ascii);
        assert_eq!(
            known[1].1,
            "12.0 % of the sends by more than one mean gap; of the lateness 81.0 % held up by the far end, 12.0 % ready but not running, 7.00 % the generator's own"
        );
        assert_eq!(known[2].1, "900 messages on average just before a send, 4096 at most");
        assert!(known[3].1.ends_with("the client may be what is measured"));
        (open.backlog_per_s, open.client_busy) = (None, None);
        assert_eq!(not_sustained(&open), "not sustained: 38.2 k/s of 50.0 k/s");
        assert_eq!(open_loop(&open, Glyphs::Ascii)[3].1, "n/a: its CPU time was not counted");
    }

    #[test]
    fn the_ends_of_a_curve() {
        let mut curve = LoadCurve {
            path: PathName::new("tcp", "send", "block"),
            size: 64,
            threads: 1,
            connections: 1,
            points: Vec::new(),
            knee_p: 0.99,
            knee_per_s: Some(Estimate { value: 18_200.0, low: Some(16_100.0), high: None }),
            sustained_per_s: Some(32_000.0),
            overloaded_per_s: Some(64_000.0),
        };
        assert_eq!(knee(&curve), "p99 has doubled at 18.2 k/s   95 %: above 16.1 k/s");
        assert_eq!(sustained(&curve), "32k/s was sustained, 64k/s was not");
        curve.knee_per_s = None;
        assert_eq!(knee(&curve), "none: p99 did not double at the rates that were sustained");
    }
}
