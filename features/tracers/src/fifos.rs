//! A FIFO in the place of a record's data is named, and nobody waits for its writer.

use std::path::Path;
use std::process::Command;

use msgpath_record::RecordError;

use crate::record::{self, TracersHeader};

fn fifo(folder: &Path, name: &str) {
    let file = folder.join(name);
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(file).status().unwrap().success());
}

#[track_caller]
fn is_named<T>(read: Result<T, RecordError>, name: &str) {
    match read {
        Err(error @ RecordError::Read { .. }) => {
            let text = error.to_string();
            assert!(text.contains(name) && text.contains("FIFO"), "{text}");
        }
        Err(error) => panic!("{error:?}"),
        Ok(_) => panic!("{name} was read"),
    }
}

#[test]
fn texts_of_tracers() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("traced");
    let header = TracersHeader {
        schema: record::SCHEMA.into(),
        name: "a".into(),
        files: vec!["sched.txt".into()],
        ..TracersHeader::default()
    };
    record::write(&folder, &header, &[b"text".to_vec()]).unwrap();
    fifo(&folder, "1.txt");
    is_named(record::read(&folder), "1.txt");
}
