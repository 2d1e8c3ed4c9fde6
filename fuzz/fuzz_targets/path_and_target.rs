//! What a user types: paths, targets, sizes, pieces, counts, times.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_core::group::Group;
use msgpath_core::path::nearest;
use msgpath_core::units::{self, MAX_LIST, MAX_PIECES};
use msgpath_core::{PathName, PathSpec, Target, target};

fuzz_target!(|text: &str| {
    if let Ok(name) = text.parse::<PathName>() {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    let _ = text.parse::<PathSpec>();
    let _ = nearest(text, ["tcp:send", "tcp:writev", "shm:ring/spin"]);
    if let Ok(target) = text.parse::<Target>() {
        let _ = target.to_string();
    }
    if let Ok(group) = text.parse::<Group>() {
        assert!(text.parse::<Target>().is_err(), "a group is no peer");
        assert_eq!(group.to_string().parse(), Ok(group));
    }
    let _ = target::parse_port(text);
    for parse in [units::parse_size, units::parse_count, units::parse_time, units::parse_time_or_seconds] {
        let _ = parse(text);
    }
    if let Ok(sizes) = units::parse_sizes(text) {
        assert!((1..=MAX_LIST).contains(&sizes.len()));
        sizes.into_iter().for_each(|size| drop(units::size(size)));
    }
    let _ = units::parse_numbers(text);
    for pieces in units::parse_pieces(text).into_iter().flatten() {
        assert!((1..=MAX_PIECES).contains(&pieces.count) && pieces.size > 0);
        assert!(units::parse_pieces(&pieces.to_string()).is_ok_and(|again| again == [pieces]));
    }
});
