//! `verify` of watched programs: rows and counts against each other, and every stored number once more from both.

use std::collections::BTreeMap;

use msgpath_analyse::verify::{Check, Verification, Versions};
use msgpath_core::schema::Status;
use msgpath_core::watch::{ServiceCounts, Times};
use msgpath_present::words::counted;

use super::{Choice, summarise};
use crate::record::{WatchEnd, Watched};

/// Checks a record. `stored` is the summary kept beside it, `version` that of this program.
pub fn verify_watched(watched: &Watched, stored: Option<&[u8]>, version: &str) -> Verification {
    let header = &watched.header;
    let summary = summarise(watched, Choice::asked(header));
    let mut check = Check::default();
    check.same(|| "requests whose stages do not add up".into(), watched.not_adding_up, 0);
    if let Some(end) = &watched.end {
        counts(watched, end, &mut check);
    }
    let damage = summary.cut_short.clone();
    let versions = Versions { written_by: &header.version, checked_by: version };
    let found = check.ended(stored, &summary, Status::Ok, damage, versions);
    let requests = watched.rows.len() as u64 + watched.not_adding_up;
    let text = format!("{}: stages against the whole, rows against the counts", counted(requests, "request"));
    let compared = vec![("requests", text)];
    Verification { verb: "watch".into(), name: header.name.clone(), requests, compared, ..found }
}

/// What the end says against the rows and against itself.
fn counts(watched: &Watched, end: &WatchEnd, check: &mut Check) {
    check.same(|| "requests with a row".into(), end.rows_kept, watched.rows.len() as u64 + watched.not_adding_up);
    let mut rows = BTreeMap::<u32, u64>::new();
    watched.rows.iter().for_each(|row| *rows.entry(row.service).or_default() += 1);
    let mut slices = BTreeMap::<u32, u64>::new();
    for (service, times) in end.slices.iter().flat_map(|slice| &slice.times) {
        *slices.entry(*service).or_default() += Times::total(times);
    }
    for ServiceCounts { service, requests, framed, times, .. } in &end.services {
        // Each is a part of the other: most requests have no row, and the last moments are in no slice.
        let parts = [
            ("requests with a row", rows.get(service).copied().unwrap_or(0), *requests),
            ("requests by their protocol", *framed, *requests),
            ("requests by their time", times.total(), *requests),
            ("requests of all slices", slices.get(service).copied().unwrap_or(0), times.total()),
        ];
        for (what, part, whole) in parts {
            if part > whole {
                check.differ(&format!("server {service}: {what}"), part.to_string(), format!("at most {whole}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::record::Slice;
    use msgpath_core::watch::Stage;

    use super::*;
    use crate::analyse::testing::{Load, watched};
    use msgpath_analyse::verify::Disagreement;

    fn recorded() -> (Watched, Vec<u8>) {
        let mut watched = watched(&Load { stage: Stage::WorkLock, ..Load::default() });
        watched.header.version = "0.1.0".into();
        watched.header.slowest = 3;
        let end = watched.end.as_mut().unwrap();
        end.rows_kept = watched.rows.len() as u64;
        end.slices =
            vec![Slice { ns: 3_000_000_000, times: vec![(0, end.services[0].times.clone())], ..Slice::default() }];
        let stored = serde_json::to_vec(&summarise(&watched, Choice::asked(&watched.header))).unwrap();
        (watched, stored)
    }

    #[test]
    fn a_whole_record_agrees_with_itself() {
        let (watched, stored) = recorded();
        let check = verify_watched(&watched, Some(&stored), "0.1.0");
        assert_eq!((check.status, &check.disagreements[..], &check.notes[..]), (Status::Ok, &[][..], &[][..]));
        assert_eq!((check.requests, check.verb.as_str()), (1000, "watch"));
        assert!(check.numbers >= 100, "{}", check.numbers);
    }

    #[test]
    fn a_row_that_is_missing_or_changed_and_a_count_that_was_changed_are_found() {
        let found = |change: &dyn Fn(&mut Watched), what: &str| {
            let (mut watched, stored) = recorded();
            change(&mut watched);
            let check = verify_watched(&watched, Some(&stored), "0.1.0");
            assert_eq!(check.status, Status::Failed, "{what}");
            let named = |one: &Disagreement| one.what == what;
            assert!(check.disagreements.iter().any(named), "{what}: {:#?}", check.disagreements);
        };
        let end =
            |change: &'static dyn Fn(&mut WatchEnd)| move |watched: &mut Watched| change(watched.end.as_mut().unwrap());
        found(&|watched| _ = watched.rows.pop(), "requests with a row");
        found(&|watched| watched.not_adding_up = 1, "requests whose stages do not add up");
        found(&|watched| watched.rows[7].total_ns *= 1_000, "servers[0].slowest[0].total_ns");
        found(&|watched| watched.header.target = "port 1".into(), "target");
        found(&end(&|end| end.services[0].requests -= 1), "server 0: requests with a row");
        found(&end(&|end| end.services[0].framed = 1_001), "server 0: requests by their protocol");
        found(&end(&|end| end.services[0].times.0[0].1 += 1), "server 0: requests by their time");
        found(&end(&|end| end.slices[0].times[0].1.0[0].1 += 1), "server 0: requests of all slices");
        found(&end(&|end| end.connections = 4), "connections");
        found(&end(&|end| end.duration_ns += 1_000_000_000), "seconds");
    }

    #[test]
    fn a_record_without_an_end_or_summary_says_so() {
        let (mut watched, stored) = recorded();
        let check = verify_watched(&watched, None, "0.2.0");
        assert_eq!((check.status, check.disagreements[0].what.as_str()), (Status::Failed, "summary.json"));
        assert!(check.notes[0].contains("msgpath 0.1.0 wrote"));
        watched.end = None;
        let check = verify_watched(&watched, Some(&stored), "0.1.0");
        assert!(check.status == Status::Partial && check.damage.unwrap().contains("cut short"));
    }
}
