//! W177: a receiver lost what others had
//!
//! One receiver of a group lost messages that another one had, or its own buffer had no room for them. Where: *sure*, in its receive buffer,
//! where the kernel counts at least nine of ten of them there; *likely*, on the way to it, where its socket counts fewer than one of ten; else
//! both.
//!
//! ## What it rests on
//!
//! The numbers of the messages, and the drops of the receiver's socket (SO_MEMINFO; `drops` in /proc/net/udp).
//!
//! ## What to do
//!
//! In the receive buffer: a larger one (`-o rcvbuf=8M`, `sysctl net.core.rmem_max`), or a receiver that is woken sooner. On the way: the
//! receiver's device (`ip -s link`, `ethtool -S`), the switch between.

use msgpath_core::units::size;

use super::group;
use super::group_answer::share;
use crate::analyse::{Engine, GroupReceiver};
use msgpath_analyse::findings::wording::{again_set, finding, prefix, sentence};
use msgpath_analyse::findings::{Detector, Input, Sentence};
use msgpath_analyse::summary::{CaseSummary, Confidence};

pub(super) const DETECTOR: Detector = Detector { code: "W177", detect };

/// Receivers that have a sentence each.
const MOST: usize = 3;

fn detect(input: &Input) -> Vec<Sentence> {
    group::engines(input)
        .flat_map(|(case, engine)| {
            let mut lossy = losers(engine);
            lossy.sort_by_key(|one| std::cmp::Reverse(one.lost));
            lossy.into_iter().take(MOST).map(|one| say(input, case, engine, one)).collect::<Vec<_>>()
        })
        .collect()
}

/// Receivers that had something, and lost more than the one that lost least, or in their own buffers.
fn losers(engine: &Engine) -> Vec<&GroupReceiver> {
    let least = engine.receivers.iter().map(|one| one.lost).min().unwrap_or(0);
    let own = |one: &GroupReceiver| one.lost > least || one.overflowed.is_some_and(|drops| drops * 10 > one.lost);
    engine.receivers.iter().filter(|one| one.messages > 0 && one.lost > 0 && own(one)).collect()
}

fn say(input: &Input, case: &CaseSummary, engine: &Engine, one: &GroupReceiver) -> Sentence {
    let whole = engine.receivers.iter().filter(|other| other.lost == 0).count();
    let others = match whole {
        0 => "none had all".to_owned(),
        1 => "one other had all".to_owned(),
        count => format!("{count} others had all"),
    };
    let place = if one.place.is_empty() { String::new() } else { format!(" in {}", one.place) };
    let (confidence, where_lost) = match one.overflowed {
        Some(drops) if drops >= one.lost - one.lost / 10 => (
            Confidence::Sure,
            format!("its receive buffer ({}) was full: its socket dropped {}", size(one.buffer), drops),
        ),
        Some(drops) if drops > one.lost / 10 => (
            Confidence::Likely,
            format!(
                "its socket dropped {} in its receive buffer ({}), the rest was lost on the way",
                drops,
                size(one.buffer)
            ),
        ),
        Some(_) => (Confidence::Likely, "they were lost on the way to it: its socket dropped hardly any".into()),
        None => (Confidence::CantTell, "this kernel does not count what a socket drops".into()),
    };
    let row = if one.lost_in_a_row > 1 { format!(", up to {} in a row", one.lost_in_a_row) } else { String::new() };
    let text = format!(
        "{}receiver {}{place} lost {}{row}, and {others}: {where_lost}",
        prefix(input, case),
        one.receiver,
        share(one),
    );
    let next = match confidence {
        Confidence::Sure => vec![again_set(&input.run.header, "rcvbuf=8M")],
        _ => Vec::new(),
    };
    let numbers = [
        ("receiver", f64::from(one.receiver)),
        ("lost", one.lost as f64),
        ("overflowed", one.overflowed.map_or(f64::NAN, |drops| drops as f64)),
        ("buffer_bytes", one.buffer as f64),
    ];
    finding("W177", confidence, sentence(&text) + ".", numbers, next)
}

#[cfg(test)]
mod tests {
    use crate::analyse::testing::{group, joined, sentences};

    #[test]
    fn a_buffer_that_was_full_is_told_from_a_loss_on_the_way() {
        let said = sentences(&group(|_| ()), &super::DETECTOR);
        assert!(said.len() == 1 && said[0].starts_with("sure") && !said[0].contains("on the way"), "{said:?}");
        assert!(
            said[0].contains("Receiver 2 lost 100 (10 %") && said[0].contains("one other had all: its receive buffer"),
            "{said:?}"
        );
        let on_the_way = sentences(&group(|facts| joined(facts, 2).overflowed = Some(0)), &super::DETECTOR);
        assert!(
            on_the_way[0].starts_with("likely") && on_the_way[0].contains("lost on the way to it"),
            "{on_the_way:?}"
        );
        let both = sentences(&group(|facts| joined(facts, 2).overflowed = Some(50)), &super::DETECTOR);
        assert!(both[0].contains("the rest was lost on the way"), "{both:?}");
        let unknown = sentences(&group(|facts| joined(facts, 2).overflowed = None), &super::DETECTOR);
        assert!(unknown[0].contains("does not count"), "{unknown:?}");
    }

    #[test]
    fn receivers_that_lost_as_much_are_none_unless_their_buffers_were_full() {
        let said = sentences(
            &group(|facts| {
                joined(facts, 1).lost = 100;
                joined(facts, 2).overflowed = Some(0);
            }),
            &super::DETECTOR,
        );
        assert!(said.is_empty(), "{said:?}");
        let own = sentences(&group(|facts| joined(facts, 1).lost = 100), &super::DETECTOR);
        assert!(own.len() == 1 && own[0].contains("none had all: its receive buffer"), "{own:?}");
    }
}
