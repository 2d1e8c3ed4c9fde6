//! Starts the built program in a home of its own, with a limit on its time.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that any command of these tests may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

/// A port of loopback on which nobody listens, for a server to be started. Below the ports that the kernel gives to whoever
/// connects: one that it had given could be another test's before the server takes it.
pub(crate) fn free_port() -> u16 {
    let listener = listening();
    listener.local_addr().expect("it is bound").port()
}

/// A socket that listens at such a port, for a server that is a thread of the test: nobody can take it in between.
pub(crate) fn listening() -> TcpListener {
    const FIRST: u32 = 12_400;
    const COUNT: u32 = 20_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97);
    let ports = (0..COUNT).map(|_| (FIRST + start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT) as u16);
    let mut free = ports.filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    free.next().expect("a free port on loopback")
}

/// Whether nothing in `text` moves a cursor or turns the direction of writing.
pub(crate) fn harmless(text: &str) -> bool {
    text.lines().all(|line| msgpath_core::foreign::shown(line) == line)
}

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

    /// Asserts that standard output contains every part.
    #[track_caller]
    pub(crate) fn shows(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.out.contains(part), "{part:?} is not in:\n{}", self.out);
        }
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
    pub(crate) fn json(&self) -> crate::printed::Value {
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

    /// Where programs of this home put what does not last.
    pub(crate) fn temporary(&self) -> PathBuf {
        let folder = self.path().join("tmp");
        std::fs::create_dir_all(&folder).expect("a folder in the home");
        folder
    }

    /// The program with these arguments, in this home, without the caller's settings.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_msgpath"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        command.env("HOME", self.path()).env("XDG_DATA_HOME", self.path().join("data")).env("TMPDIR", self.temporary());
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        command
    }

    /// Starts it with the words of one line.
    pub(crate) fn start(&self, line: &str) -> Running {
        Running::new(self.command(&line.split_whitespace().collect::<Vec<_>>()))
    }

    /// Starts it with the words of one line and waits until it ends.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> Output {
        self.start(line).finish(LIMIT)
    }

    /// Starts it by another program, which takes something from it: for a user who is not root, or who may not have what is
    /// needed. `None`: this cannot be done here.
    #[track_caller]
    pub(crate) fn run_under(&self, starter: &[&str], line: &str) -> Option<Output> {
        let (program, words) = starter.split_first().expect("a program");
        let tried = Command::new(program).args(words).arg("true").stdout(Stdio::null()).stderr(Stdio::null()).status();
        let mut command = Command::new(program);
        command.args(words).arg(env!("CARGO_BIN_EXE_msgpath")).args(line.split(' '));
        command
            .env("HOME", "/")
            .env("XDG_DATA_HOME", "/nonexistent")
            .env("TMPDIR", self.temporary())
            .stdin(Stdio::null());
        tried.is_ok_and(|status| status.success()).then(|| Running::new(command).finish(LIMIT))
    }

    /// Starts it and waits until it ends.
    #[track_caller]
    pub(crate) fn msgpath(&self, arguments: &[&str]) -> Output {
        Running::new(self.command(arguments)).finish(LIMIT)
    }
}

/// Runs `msgpath` with these arguments in a fresh home.
pub(crate) fn msgpath(arguments: &[&str]) -> Output {
    Home::new().msgpath(arguments)
}

/// What a program in progress prints, as far as it has come.
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Printed {
    fn new(mut pipe: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let target = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length @ 1..) = pipe.read(&mut part) {
                target.lock().unwrap().extend(&part[..length]);
            }
        });
        Self { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// A program in progress; killed when dropped.
pub(crate) struct Running {
    child: Child,
    out: Printed,
    err: Printed,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        Self { child, out: Printed::new(out), err: Printed::new(err) }
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal: `INT`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        self.send(name, &self.child.id().to_string());
    }

    /// Sends a signal to a process that it started.
    pub(crate) fn send_to(&self, name: &str, pid: u32) {
        self.send(name, &pid.to_string());
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_some()
    }

    /// Waits until so many rounds of the run in `folder` are on the disk; `false`: it ended before.
    ///
    /// # Panics
    /// Neither within the time of a command.
    #[track_caller]
    pub(crate) fn meets(&mut self, folder: &Path, rounds: usize) -> bool {
        let there = || msgpath_record::read(folder).map_or(0, |run| run.rounds.len());
        assert!(within(LIMIT, || there() >= rounds || self.has_ended()), "{} rounds", there());
        !self.has_ended()
    }

    /// The processes that it started and that still run.
    pub(crate) fn children(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    }

    /// Sends a signal to its process group, which must be its own.
    pub(crate) fn signal_group(&self, name: &str) {
        self.send(name, &format!("-{}", self.child.id()));
    }

    fn send(&self, name: &str, to: &str) {
        let status = Command::new("sh").args(["-c", "kill -s \"$0\" -- \"$1\"", name, to]).status();
        assert!(status.is_ok_and(|status| status.success()), "SIG{name} to {to}");
    }

    /// Waits until this is in standard output.
    ///
    /// # Panics
    /// It does not come.
    #[cfg(feature = "courses")]
    #[track_caller]
    pub(crate) fn until_it_prints(&self, part: &str) {
        assert!(within(LIMIT, || self.out.text().contains(part)), "{part:?} is not in:\n{}", self.out.text());
    }

    /// Standard error so far, once it contains `part`.
    ///
    /// # Panics
    /// It does not say so in time.
    #[track_caller]
    pub(crate) fn until_it_says(&self, part: &str) -> String {
        let output = within(LIMIT, || self.err.text().contains(part));
        assert!(output, "{part:?} is not in:\n{}", self.err.text());
        self.err.text()
    }

    /// Whether it has not ended.
    pub(crate) fn goes_on(&mut self) -> bool {
        self.child.try_wait().expect("a child of ours").is_none()
    }

    /// Itself once standard error contains `part`, or what it left behind where it ended before.
    ///
    /// # Panics
    /// Neither within `limit`.
    #[track_caller]
    pub(crate) fn says_or_ends(mut self, part: &str, limit: Duration) -> Result<Self, Output> {
        let mut ended = false;
        let settled = within(limit, || {
            ended = !self.goes_on();
            ended || self.err.text().contains(part)
        });
        assert!(settled, "{part:?} is not in:\n{}", self.err.text());
        if ended { Err(self.finish(limit)) } else { Ok(self) }
    }

    /// Waits until it ends by itself.
    ///
    /// # Panics
    /// It takes longer than `limit`.
    #[track_caller]
    pub(crate) fn finish(mut self, limit: Duration) -> Output {
        let mut status = None;
        // What it started may outlive it and hold the pipes: that is waited for as well.
        let ended = within(limit, || {
            status = self.child.try_wait().expect("a child of ours");
            status.is_some() && self.out.reader.is_finished() && self.err.reader.is_finished()
        });
        let (out, err) = (self.out.text(), self.err.text());
        match status {
            Some(status) if ended => Output { code: status.code(), out, err },
            _ => panic!("not over after {limit:?} ({status:?})\nstandard output:\n{out}\nstandard error:\n{err}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether something becomes true within `limit`.
pub(crate) fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    holds()
}
