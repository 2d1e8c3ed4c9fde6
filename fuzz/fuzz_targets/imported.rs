//! Results that measuring tools wrote: any bytes are rounds within the limits of a run, or a reason.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_tools::import::FORMS;

fuzz_target!(|bytes: &[u8]| {
    for form in FORMS {
        let _ = (form.is)(bytes);
        match (form.read)(bytes, Some(1e3)) {
            Ok(told) => {
                assert!(!told.cases.is_empty() && told.cases.len() <= 32);
                for case in &told.cases {
                    assert!((1..=400).contains(&case.rounds.len()));
                    assert!(told.stream || case.rounds.iter().all(|round| round.bytes == 0));
                }
            }
            Err(unread) => assert!(!unread.why.is_empty()),
        }
    }
});
