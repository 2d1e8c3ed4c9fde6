//! Crossovers in words.

use msgpath_core::units;
use msgpath_stats::crossover::{Crossing as Found, CrossoverKind};

use super::{about_size, bound, interval};

/// A crossover in words; parts that there is nothing to say about are empty.
pub struct Crossing {
    /// From which size the path pays.
    pub text: String,
    /// The interval of that size.
    pub range: String,
    /// Which sizes are not decided, and whether some were added.
    pub more: String,
}

impl Crossing {
    /// The interval with what else is known of it.
    pub fn details(&self) -> String {
        let parts: Vec<&str> =
            [&self.range, &self.more].into_iter().map(String::as_str).filter(|p| !p.is_empty()).collect();
        parts.join("; ")
    }
}

/// From which size a path pays. `sizes`: the smallest and the largest that were measured.
pub fn crossover(crossover: &Found, sizes: (u64, u64)) -> Crossing {
    let at = crossover.size.map_or_else(|| "an unknown size".into(), about_size);
    let text = match crossover.kind {
        CrossoverKind::AlwaysFaster => "faster at every size measured".into(),
        CrossoverKind::NeverFaster => "slower at every size measured".into(),
        CrossoverKind::Equivalent => "no difference was shown at any size".into(),
        CrossoverKind::At => format!("starts to pay at {at}"),
        CrossoverKind::FasterBelow => format!("pays only below {at}"),
        CrossoverKind::Several => several(&crossover.crossings, &at),
        CrossoverKind::Undecided => "the data do not decide".into(),
    };
    let range = match (crossover.low, crossover.high) {
        (Some(low), None) if crossover.outside > 0.0 => {
            format!("95 %: above {}; > {} with {}", about_size(low), units::size(sizes.1), bound(crossover.outside))
        }
        (None, Some(high)) if crossover.outside > 0.0 => {
            format!("95 %: below {}; < {} with {}", about_size(high), units::size(sizes.0), bound(crossover.outside))
        }
        (None, None) if crossover.outside > 0.0 && crossover.kind == CrossoverKind::Undecided => {
            let (low, high) = (units::size(sizes.0), units::size(sizes.1));
            format!("{} of the resamples have no crossing between {low} and {high}", bound(crossover.outside))
        }
        (low, high) => interval(low, high, about_size).unwrap_or_default(),
    };
    let mut more = Vec::new();
    if let Some((low, high)) = crossover.undecided {
        let (low, high) = (units::size(low), units::size(high));
        more.push(if low == high { format!("undecided at {low}") } else { format!("undecided from {low} to {high}") });
    }
    if crossover.refined {
        more.push("refined".into());
    }
    Crossing { text, range, more: more.join("; ") }
}

/// `crosses twice, at 1.20 KiB and 40.0 KiB`.
fn several(crossings: &[f64], last: &str) -> String {
    let Some((end, before)) = crossings.split_last().filter(|(_, before)| !before.is_empty()) else {
        return format!("crosses more than once, last at {last}");
    };
    let times = if before.len() == 1 { "twice".into() } else { format!("{} times", crossings.len()) };
    let before: Vec<String> = before.iter().copied().map(about_size).collect();
    format!("crosses {times}, at {} and {}", before.join(", "), about_size(*end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(kind: CrossoverKind) -> Found {
        Found {
            kind,
            size: Some(32_768.0),
            low: Some(24_576.0),
            high: Some(40_960.0),
            crossings: vec![32_768.0],
            undecided: None,
            outside: 0.0,
            refined: false,
        }
    }

    fn output(found: Found) -> String {
        let crossing = crossover(&found, (64, 1 << 20));
        format!("{} | {}", crossing.text, crossing.details())
    }

    #[test]
    fn what_a_crossing_rests_on_is_said() {
        assert_eq!(output(at(CrossoverKind::At)), "starts to pay at 32.0 KiB | 95 %: 24.0 to 40.0 KiB");
        let refined = Found { undecided: Some((16_384, 65_536)), refined: true, ..at(CrossoverKind::At) };
        assert!(output(refined).ends_with("40.0 KiB; undecided from 16 KiB to 64 KiB; refined"));
        let beyond = Found { high: None, outside: 0.97, ..at(CrossoverKind::At) };
        assert!(output(beyond).ends_with("| 95 %: above 24.0 KiB; > 1 MiB with 97 %"));
        let before = Found { low: None, outside: 0.3, ..at(CrossoverKind::FasterBelow) };
        assert!(output(before).ends_with("| 95 %: below 40.0 KiB; < 64 B with 30 %"));
        let open = Found { low: None, high: None, outside: 0.6, ..at(CrossoverKind::Undecided) };
        assert_eq!(
            output(open),
            "the data do not decide | 60 % of the resamples have no crossing between 64 B and 1 MiB"
        );
    }

    #[test]
    fn every_crossing_is_listed() {
        let crossings = |sizes: &[f64]| {
            output(Found { crossings: sizes.to_vec(), low: None, high: None, ..at(CrossoverKind::Several) })
        };
        assert_eq!(crossings(&[1024.0, 40_960.0]), "crosses twice, at 1.00 KiB and 40.0 KiB | ");
        assert_eq!(crossings(&[64.0, 1024.0, 40_960.0]), "crosses 3 times, at 64.0 B, 1.00 KiB and 40.0 KiB | ");
        assert_eq!(crossings(&[]), "crosses more than once, last at 32.0 KiB | ");
    }
}
