//! A program that is started to be watched, and ends with the watching.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::{self, Command, Stdio};
use std::time::{Duration, Instant};

use msgpath_core::{Exit, Problem};
use msgpath_sys::signal::ask_to_end;
use msgpath_sys::user::User;

/// How long it may take to end after SIGTERM.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) struct Child(process::Child);

impl Child {
    /// Starts the program, as `user` where that is another one; `None`: there is none. What it prints goes to standard error, so that
    /// results stay readable.
    pub(super) fn start(command: &[OsString], user: Option<&User>) -> Result<Option<Self>, Problem> {
        let Some((program, arguments)) = command.split_first() else { return Ok(None) };
        let stdout = std::io::stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from);
        let mut start = Command::new(program);
        start.args(arguments).stdin(Stdio::null()).stdout(stdout);
        if let Some(user) = user {
            user.starts(&mut start);
        }
        let child = start.spawn().map_err(|error| {
            let what = format!("{} cannot be started", program.to_string_lossy());
            Problem::new("E61", Exit::CannotStart, what).why(error.to_string())
        })?;
        Ok(Some(Self(child)))
    }

    pub(super) fn id(&self) -> i32 {
        self.0.id() as i32
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        ask_to_end(self.0.id());
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if self.has_ended() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // It was asked, and is ours.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
