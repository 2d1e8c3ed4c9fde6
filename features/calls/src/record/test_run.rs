//! A small run of calls, and the golden one.

use std::path::{Path, PathBuf};

use crate::workload::CALLS;
use msgpath_core::plan::{Case, Extent, Plan};
use msgpath_core::schema::RunHeader;
use msgpath_core::units::Pieces;
use msgpath_core::workload;

use super::{RpcFacts, RpcPair, RpcRow};

/// Two kinds of calls, with one pair of machines.
pub(crate) fn header() -> RunHeader {
    let case = |id| Case { id, reply: 88, ..Case::new("tcp:send/block".parse().unwrap(), Pieces::whole(118)) };
    let extent = Extent::Count(30);
    let plan = Plan { rounds: 3, extent, trim: 0, message_log: 0, ..Plan::new(&CALLS, vec![case(0), case(1)]) };
    workload::add(&CALLS);
    let mut header = RunHeader::new("brisk-otter", "rpc", plan);
    let pair = RpcPair { client: "10.9.0.1".into(), server: "10.9.0.2".into(), same_machine: None };
    header.parts.set(RpcFacts {
        protocol: "lab".into(),
        client_step_ns: 1000,
        pairs: vec![pair],
        ..RpcFacts::default()
    });
    header
}

/// `count` calls of a round, by a server whose clock is 3 ms behind; every tenth has no server stamps.
pub(crate) fn calls(case: u32, pass: u32, count: u64) -> Vec<RpcRow> {
    let mut key = [0; 16];
    key[..5].copy_from_slice(b"kkkkk");
    (0..count)
        .map(|n| RpcRow {
            case,
            pass,
            rpcid: 1 << (n % 31),
            request_bytes: 118,
            reply_bytes: 88,
            key,
            start_ns: u64::from(pass * 2 + case) * 1_500_000_000 + n * 200_000,
            latency_ns: Some(8_000 + u64::from(case) * 5_000 + u64::from(pass) * 10 + n % 10 * 100),
            received_ns: (n % 10 != 9).then_some(-2_990_000),
            replied_ns: (n % 10 != 9).then_some(-2_989_000),
            ..RpcRow::default()
        })
        .collect()
}

/// The golden run of the record, which has the calls of a round.
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/record/tests/golden/run-3-block-4")
}

mod tests {
    use msgpath_record::{Rows, RunLog, RunWriter, columns, framed};
    use proptest::prelude::*;

    use super::*;
    use crate::record;

    /// Writes the calls of the golden run: `cargo test -p msgpath-calls write_the_golden_calls -- --ignored`. Only for a new version.
    #[test]
    #[ignore = "writes into the sources"]
    fn write_the_golden_calls() {
        let block = framed(RpcRow::KIND, columns::encode::<RpcRow>(0, 0, &calls(0, 0, 20))).unwrap();
        std::fs::write(golden().join(RpcRow::FILE), block).unwrap();
    }

    #[test]
    fn the_golden_calls_read_as_ever_and_are_written_to_the_bit() {
        let read: Vec<RpcRow> = record::calls(&golden()).unwrap().map(Result::unwrap).collect();
        assert_eq!((read.len(), read[8].received_ns, read[9].received_ns), (20, Some(-2_990_000), None));
        assert_eq!(read, calls(0, 0, 20));
        let block = framed(RpcRow::KIND, columns::encode::<RpcRow>(0, 0, &read)).unwrap();
        assert_eq!(std::fs::read(golden().join(RpcRow::FILE)).unwrap(), block);
        let run = msgpath_record::read(&golden()).unwrap();
        assert_eq!(run.header.parts.get::<RpcFacts>().unwrap().pairs[0].client, "10.9.0.1");
        assert_eq!(record::by_round(&run).unwrap().index(), [(0, 0, 20)]);
    }

    #[test]
    fn a_call_of_another_run_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let mut rows = calls(0, 0, 3);
        rows[2].pair = 1;
        RunWriter::create(place.path(), &header()).unwrap().rows::<RpcRow>(&rows).unwrap();
        let damage = record::calls(place.path()).unwrap().find_map(Result::err).unwrap();
        assert!(damage.file == "rpcs.mpl" && damage.why.contains("pair 1"), "{damage}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            msgpath_record::block::rows_again::<RpcRow>(&bytes);
        }
    }
}
