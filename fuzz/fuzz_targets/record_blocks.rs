//! The files of a run and of a mesh: blocks, their payloads, the header.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    msgpath_record::fuzz_blocks(bytes);
    msgpath_record::block::rows_again::<msgpath_calls::record::RpcRow>(bytes);
    msgpath_mesh::record::fuzz_pairs(bytes);
    msgpath_watch::record::fuzz(bytes);
});
