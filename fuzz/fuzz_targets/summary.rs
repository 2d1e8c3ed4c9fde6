//! `summary.json` as `show` reads those of earlier runs, to put the range over runs beside the quantiles of the newest.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| msgpath_analyse::between::fuzz_stored(bytes));
