//! What is said to Redis on a new connection before the first call: who calls, and which database.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use msgpath_core::counts::CallCounts;
use msgpath_core::foreign::shown;
use msgpath_core::{Exit, Problem};
use msgpath_sys::poll::{Interest, poll};

use super::orders::{Login, Secret};
use super::redis;
use super::stream::Stream;
use super::wire::Frame;

impl Login {
    /// The commands, each with its name.
    fn commands(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut commands = Vec::new();
        if let Some(Secret(password)) = &self.password {
            let words = ["AUTH"].into_iter().chain(self.user.as_deref()).chain([password.as_str()]);
            commands.push(("AUTH", redis::array(&words.collect::<Vec<_>>())));
        }
        if self.database > 0 {
            commands.push(("SELECT", redis::array(&["SELECT", &self.database.to_string()])));
        }
        commands
    }

    /// Says it on a connection, and waits for the answers.
    ///
    /// # Errors
    /// E65: the server refuses, or does not answer in time.
    pub fn say(&self, stream: &Stream, patience: Duration) -> Result<(), Problem> {
        let commands = self.commands();
        if commands.is_empty() {
            return Ok(());
        }
        let failed = |what: &str, why: String| {
            Problem::new("E65", Exit::CannotStart, format!("the server did not take {what}")).why(why)
        };
        for (what, request) in commands {
            let reply = ask(stream, &request, patience).map_err(|why| failed(what, why))?;
            if let Some(remark) = reply.filter(|remark| remark.failed) {
                let hint = redis::advice(&remark.text).unwrap_or_default();
                return Err(failed(what, format!("it says: {}", shown(&remark.text))).hint(hint));
            }
        }
        Ok(())
    }
}

/// A request and what is to be said of its reply.
fn ask(stream: &Stream, request: &[u8], patience: Duration) -> Result<Option<super::wire::Remark>, String> {
    let text = |error: io::Error| error.to_string();
    // A new connection has room for a request of this length.
    stream.send(request, &mut CallCounts::default()).map_err(text)?;
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let patience = patience.as_millis().try_into().unwrap_or(i32::MAX);
        if !poll(stream.as_fd(), Interest::Read, patience).map_err(text)? {
            return Err("it does not answer".into());
        }
        let got = match stream.recv_now(&mut part) {
            // Of TLS a part came, or what is none of the answer.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            got => got.map_err(text)?,
        };
        if got == 0 {
            return Err("it closed the connection".into());
        }
        bytes.extend_from_slice(&part[..got]);
        if let Frame::Whole(whole) = redis::frame(&bytes)? {
            return Ok(redis::reply(&bytes[..whole])?.remark);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    use super::*;

    fn login() -> Login {
        Login { user: Some("anna".into()), password: Some(Secret::new("s3cret word".into())), database: 2 }
    }

    #[test]
    fn user_password_and_database_are_said_in_this_order() {
        let said: Vec<u8> = login().commands().into_iter().flat_map(|(_, bytes)| bytes).collect();
        let expected = "*3\r\n$4\r\nAUTH\r\n$4\r\nanna\r\n$11\r\ns3cret word\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n2\r\n";
        assert_eq!(String::from_utf8(said).unwrap(), expected);
        assert!(Login::default().commands().is_empty());
    }

    #[test]
    fn a_password_is_never_printed() {
        assert!(!format!("{:?}", login()).contains("s3cret"));
    }

    /// What is said of a server that answers so.
    fn told(answers: &'static [u8]) -> Result<(), Problem> {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let (mut other, _) = server.accept().unwrap();
        other.write_all(answers).unwrap();
        drop(other.shutdown(std::net::Shutdown::Write));
        login().say(&OwnedFd::from(stream).into(), Duration::from_secs(60))
    }

    #[test]
    fn refused_login_says_why() {
        told(b"+OK\r\n").unwrap_err();
        let problem = told(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n").unwrap_err();
        assert_eq!(problem.code, "E65");
        assert!(problem.to_string().contains("did not take AUTH") && problem.to_string().contains("WRONGPASS"));
        assert!(problem.hint.contains("--password-file") && !problem.to_string().contains("s3cret"));
    }
}
