//! Starts the built program in a home of its own, with a limit on its time.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that any command of these tests may take.
const LIMIT: Duration = Duration::from_secs(60);

/// What a command left behind.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit code; `None`: ended by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Output {
    /// Asserts the exit code, and shows what was printed where it differs.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "standard output:\n{}\nstandard error:\n{}", self.out, self.err);
        self
    }

    /// Asserts that standard error contains every part.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is not in:\n{}", self.err);
        }
        self
    }

    /// Standard output as one JSON value.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}:\n{}", self.out))
    }
}

/// A fresh home folder; gone when dropped.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the runs of this home are kept.
    pub(crate) fn runs(&self) -> PathBuf {
        self.path().join("data/msgpath")
    }

    /// The program with these arguments, in this home, without the caller's settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_msgpath"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env("HOME", self.path()).env("XDG_DATA_HOME", self.path().join("data"));
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        command
    }

    /// Starts it and waits until it ends.
    pub(crate) fn msgpath(&self, arguments: &[&str]) -> Output {
        Running::new(self.command(arguments)).finish(LIMIT)
    }
}

/// Runs `msgpath` with these arguments in a fresh home.
pub(crate) fn msgpath(arguments: &[&str]) -> Output {
    Home::new().msgpath(arguments)
}

/// A program under way; killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: std::thread::JoinHandle<String>,
    err: std::thread::JoinHandle<String>,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        fn drain(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = pipe.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        Self { child, out: drain(out), err: drain(err) }
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// It takes longer than `limit`.
    pub(crate) fn finish(mut self, limit: Duration) -> Output {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                break Some(status);
            }
            if begun.elapsed() > limit {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break None;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let (out, err) = (self.out.join().expect("reader"), self.err.join().expect("reader"));
        let status = status.unwrap_or_else(|| {
            panic!("still running after {limit:?}\nstandard output:\n{out}\nstandard error:\n{err}")
        });
        Output { code: status.code(), out, err }
    }
}
