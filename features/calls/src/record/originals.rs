//! What a run was imported from, as it was: the records of the lab's logs, or of the events of its JSON, 96 bytes each.
//!
//! The columns of a run keep neither the bodies' first bytes nor the ports of every client. So that an import exported
//! again is the same file, its records stand beside them in the folder of the run, where all files were of one form.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use msgpath_record::RecordError;
use msgpath_rpc::log::{RECORD_BYTES, Record, records};
use msgpath_sys::files::{Output, open_regular};
use msgpath_verbs::importers::ForeignFile;

/// The records of binary logs, one file after the other: a log itself.
pub(super) const LOG_FILE: &str = "lab.log";
/// The events of JSON as records; their bodies are as the JSON shows them.
const EVENTS_FILE: &str = "lab-events.log";
/// The most bytes of logs that are copied.
const MOST: u64 = 1 << 30;

/// The records that are to be kept.
#[derive(Debug)]
pub(super) enum Originals {
    /// Those of these logs.
    Logs(Vec<ForeignFile>),
    /// These, from JSON.
    Events(Vec<Record>),
}

impl Originals {
    /// Writes them into the folder of a run.
    pub(super) fn keep(&self, folder: &Path) -> Result<(), RecordError> {
        let cannot = RecordError::Export;
        match self {
            Originals::Logs(files) => {
                let bytes: u64 =
                    files.iter().filter_map(|file| file.source().metadata().ok()).map(|data| data.len()).sum();
                if bytes > MOST {
                    return Ok(());
                }
                let mut out = BufWriter::new(Output::replacing(&folder.join(LOG_FILE)).map_err(cannot)?);
                for file in files {
                    let file = File::open(file.source()).map_err(cannot)?;
                    let length = file.metadata().map_err(cannot)?.len();
                    let whole = length - length % RECORD_BYTES as u64;
                    io::copy(&mut file.take(whole), &mut out).map_err(cannot)?;
                }
                written(out)
            }
            Originals::Events(records) => {
                let mut out = BufWriter::new(Output::replacing(&folder.join(EVENTS_FILE)).map_err(cannot)?);
                for record in records {
                    out.write_all(&record.to_bytes()).map_err(cannot)?;
                }
                written(out)
            }
        }
    }
}

/// Puts the file in its place.
fn written(out: BufWriter<Output>) -> Result<(), RecordError> {
    let finished = out.into_inner().map_err(io::IntoInnerError::into_error).and_then(Output::finish);
    finished.map_err(RecordError::Export)
}

/// The log that a run was imported from.
pub(super) fn log(folder: &Path) -> Option<BufReader<File>> {
    open_regular(&folder.join(LOG_FILE)).ok().map(BufReader::new)
}

/// All records that a run was imported from; `None`: there are none, or they are not whole.
pub(super) fn all(folder: &Path) -> Option<Vec<Record>> {
    let file = [LOG_FILE, EVENTS_FILE].into_iter().find_map(|name| open_regular(&folder.join(name)).ok())?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes).ok()?;
    records(&bytes, 0).collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use msgpath_core::schema::NEAR;
    use std::path::Path;

    use msgpath_core::plan::{Case, Plan};
    use msgpath_core::schema::RunHeader;
    use msgpath_core::units::Pieces;
    use msgpath_rpc::log::golden;
    use msgpath_rpc::{Header, Kind, Method};
    use proptest::prelude::*;

    use super::*;
    use crate::record::export::EXPORTERS;
    use crate::record::import::read_files;

    /// A file imported, and exported again.
    fn again(file: &Path, to: &str) -> Vec<u8> {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("run");
        let plan =
            Plan::new(&crate::workload::CALLS, vec![Case::new("tcp:send/block".parse().unwrap(), Pieces::whole(1))]);
        let import = read_files(&[ForeignFile::open(file.to_path_buf()).unwrap()]).unwrap();
        let title = import.title.clone();
        msgpath_core::workload::add(&crate::workload::CALLS);
        let mut header = RunHeader::new("run", "import", plan);
        header.host_mut(NEAR).facts.extend(title.map(|title| ("title".to_owned(), title)));
        import.write(&folder, header).unwrap();
        let mut out = Vec::new();
        let exporter = EXPORTERS.iter().find(|exporter| exporter.name() == to).unwrap();
        exporter.export(&msgpath_record::read(&folder).unwrap(), &mut out).unwrap();
        out
    }

    fn written(place: &Path, name: &str, bytes: &[u8]) -> std::path::PathBuf {
        let file = place.join(name);
        std::fs::write(&file, bytes).unwrap();
        file
    }

    #[test]
    fn the_logs_of_the_reference_come_back() {
        let place = tempfile::tempdir().unwrap();
        for log in [&golden::CLIENT[..], &golden::SERVER, &golden::PING] {
            let bytes = golden::bytes(log);
            let file = written(place.path(), "a.log", &bytes);
            assert_eq!(again(&file, "lab-log"), bytes);
            let json = again(&file, "rpc-json");
            let file = written(place.path(), "a.json", &json);
            assert_eq!(String::from_utf8_lossy(&again(&file, "rpc-json")), String::from_utf8_lossy(&json));
        }
        let json = String::from_utf8(again(&written(place.path(), "p.log", &golden::bytes(&golden::PING)), "rpc-json"));
        assert!(json.unwrap().contains("v_54lw_1w1b_ceih_zf3"), "the bodies are there");
    }

    fn call() -> impl Strategy<Value = [Record; 2]> {
        let stamps = (0_i64..90_000_000, -5_000_i64..5_000, 0_i64..5_000, 0_i64..9_000);
        let method = prop::sample::select(vec!["ping", "write", "read", "methodna", "x"]);
        let ends = (any::<u32>(), any::<u16>(), any::<u16>());
        (stamps, method, ends, any::<u32>(), 0_u32..3, any::<[u8; 24]>(), (0_u32..70_000, any::<bool>())).prop_map(
            |(
                (t1, there, work, back),
                method,
                (server_ip, client_port, server_port),
                rpcid,
                status,
                data,
                (length, client),
            )| {
                let t1 = 1_700_000_000_000_000 + t1;
                let header = Header {
                    rpcid,
                    parent: rpcid / 7,
                    t: [t1, t1 + there, t1 + there + work, t1 + back],
                    client_ip: 0x0a09_0001,
                    server_ip,
                    client_port,
                    server_port,
                    lglen1: data[0],
                    lglen2: data[1],
                    method: Method::new(method),
                    status,
                    ..Header::default()
                };
                let kinds = if client { [Kind::ReqSend, Kind::RespRcv] } else { [Kind::ReqRcv, Kind::RespSend] };
                kinds.map(|kind| Record::from_parts(kind, &header, length, data))
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_imported_is_exported_byte_for_byte(calls in prop::collection::vec(call(), 1..40)) {
            let place = tempfile::tempdir().unwrap();
            let bytes: Vec<u8> = calls.iter().flatten().flat_map(|record| record.to_bytes()).collect();
            let file = written(place.path(), "any.log", &bytes);
            prop_assert_eq!(again(&file, "lab-log"), bytes);
        }
    }
}
