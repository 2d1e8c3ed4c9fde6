//! The server's half of the lab's log: two records a call, written as the lab's server writes them.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use msgpath_rpc::log::{RECORD_BYTES, Record, first_bytes};
use msgpath_rpc::{Header, Kind};
use msgpath_sys::files::Output;

/// Records are handed to the kernel in blocks of about this size, bytes.
const BLOCK: usize = 64 * 1024;

/// Whether a record of this request can be read back. A log has no file header and no checksums, so readers tell records
/// from rubbish by their fields; one client's rubbish must not spoil the others' records.
fn is_readable(request: &Header) -> bool {
    Record::parse(&Record::of(Kind::ReqSend, request, &[]).to_bytes()).is_ok()
}

/// The file that all threads write to.
pub struct LogFile {
    file: Mutex<File>,
    /// Nothing is written after the first failure: a log with a gap in it would be believed.
    failed: AtomicBool,
    error: Mutex<Option<io::Error>>,
}

impl LogFile {
    /// Creates it in the place of one that is there.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = Output::typed(path)?.in_place()?;
        Ok(Self { file: Mutex::new(file), failed: AtomicBool::new(false), error: Mutex::new(None) })
    }

    /// Why it is not whole, if it is not. Answered once.
    pub fn failure(&self) -> Option<io::Error> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn append(&self, bytes: &[u8]) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes);
        if let Err(error) = written {
            self.failed.store(true, Ordering::Relaxed);
            *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }
}

/// One thread's records on their way to the file.
pub struct Log<'a> {
    file: &'a LogFile,
    records: Vec<u8>,
}

impl<'a> Log<'a> {
    /// Towards `file`.
    pub fn new(file: &'a LogFile) -> Self {
        Self { file, records: Vec::with_capacity(BLOCK + 2 * RECORD_BYTES) }
    }

    /// Both records of a call: the request with T1 and T2, the reply with T3 as well. `false`: it is left out, because
    /// no reader would take it.
    pub fn call(&mut self, request: &Header, request_body: (usize, &[u8]), reply: &Header, reply_body: &[u8]) -> bool {
        if !is_readable(request) {
            return false;
        }
        let (length, body) = request_body;
        let (client_ip, client_port) = (reply.client_ip, reply.client_port);
        let received = Header { t: [request.t[0], reply.t[1], 0, 0], client_ip, client_port, ..*request };
        let received = Record::from_parts(Kind::ReqRcv, &received, length as u32, first_bytes(body));
        self.records.extend_from_slice(&received.to_bytes());
        self.records.extend_from_slice(&Record::of(Kind::RespSend, reply, reply_body).to_bytes());
        if self.records.len() >= BLOCK {
            self.flush();
        }
        true
    }

    /// Hands over what there is.
    pub fn flush(&mut self) {
        if !self.records.is_empty() {
            self.file.append(&self.records);
            self.records.clear();
        }
    }
}

impl Drop for Log<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_rpc::Method;

    /// The server's two records of the reference write: `write kk vvvvv_bcei_qaaa_aaaa`, rpcid 0x2000.
    const RECEIVED: &str = "002000000000000040222018240a06009a222018240a0600000000000000000000000000000000000100090a0200090a\
                            409c3930310001007772697465000000000000001e000000020000006b6b1400000076767676765f626365695f716161";
    const SENT: &str = "002000000000000040222018240a06009a222018240a06009f222018240a060000000000000000000100090a0200090a\
                        409c39303100020077726974650000000000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn both_records_are_the_labs() {
        let path = std::env::temp_dir().join(format!("msgpath-server-log-{}", std::process::id()));
        let t1 = 1_700_000_000_123_456;
        let request = Header {
            rpcid: 0x2000,
            t: [t1, 0, 0, 0],
            server_ip: 0x0a09_0002,
            server_port: 12345,
            lglen1: 0x31,
            method: Method::new("write"),
            ..Header::default()
        };
        let reply = Header {
            t: [t1, t1 + 90, t1 + 95, 0],
            client_ip: 0x0a09_0001,
            client_port: 0x9c40,
            kind: Kind::RespSend as u16,
            ..request
        };
        let body = b"\x02\0\0\0kk\x14\0\0\0vvvvv_bcei_qaaa_aaaa";
        {
            let file = LogFile::create(&path).unwrap();
            assert!(Log::new(&file).call(&request, (body.len(), body), &reply, &[]));
            assert!(file.failure().is_none());
        }
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, format!("{RECEIVED}{SENT}"));
    }

    #[test]
    fn what_no_reader_would_take_is_left_out() {
        let good = Header { t: [1_700_000_000_123_456, 0, 0, 0], method: Method::new("methodna"), ..Header::default() };
        assert!(is_readable(&good) && is_readable(&Header { method: Method::new(""), ..good }));
        for t1 in [0, -1, 1, i64::MAX] {
            assert!(!is_readable(&Header { t: [t1, 0, 0, 0], ..good }), "{t1}");
        }
        for method in [*b"a\0b\0\0\0\0\0", *b"\x1b[31m\0\0\0", [0xff; 8]] {
            assert!(!is_readable(&Header { method: Method(method), ..good }), "{method:?}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_fails_once_and_says_so() {
        let Ok(file) = LogFile::create(Path::new("/dev/full")) else {
            println!("skipped: no /dev/full here");
            return;
        };
        for _ in 0..2 {
            let mut log = Log::new(&file);
            let request = Header { t: [1_700_000_000_123_456, 0, 0, 0], ..Header::default() };
            assert!(log.call(&request, (0, &[]), &Header::default(), &[]));
        }
        assert!(file.failure().is_some() && file.failure().is_none());
    }
}
