//! `run.json`, `mesh.json`, and the end of a run with its checksum: what is read can be written and is read the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    msgpath_record::fuzz_header(bytes);
    msgpath_mesh::record::fuzz_header(bytes);
    msgpath_tracers::record::fuzz_header(bytes);
    msgpath_watch::record::fuzz(bytes);
});
