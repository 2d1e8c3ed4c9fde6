//! Commands for iproute2, in batches: each batch is one process, so a lab is made in a fraction of a second.

use std::io::{self, Write};
use std::net::IpAddr;
use std::process::{Command, Stdio};

use msgpath_core::{Exit, Problem};
use msgpath_sys::child::{self, MakerEnds};
use msgpath_sys::netns;

/// `ip` or `tc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Ip,
    Tc,
}

impl Program {
    fn name(self) -> &'static str {
        match self {
            Program::Ip => "ip",
            Program::Tc => "tc",
        }
    }

    /// The directories of programs for the administrator may be missing in the PATH of others.
    fn command(self) -> Command {
        let mut command = Command::new(self.name());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all = path;
        all.push(":/usr/sbin:/sbin:/usr/bin:/bin");
        command.env("PATH", all);
        // One that outlived a killed maker would still work on what the next one makes under the same names.
        child::own(&mut command, MakerEnds::Kills);
        command
    }
}

/// Carries out `lines` of the calling thread's network namespace, or of a named one.
///
/// # Errors
/// E40: the program is missing, or what it said.
pub fn batch(program: Program, namespace: Option<&str>, lines: &[String]) -> Result<(), Problem> {
    if lines.is_empty() {
        return Ok(());
    }
    let message = carry_out(program, namespace, lines).map_err(|error| missing(program, &error))?;
    match message {
        Ok(()) => Ok(()),
        Err(message) => Err(Problem::new("E40", Exit::CannotStart, format!("the lab could not be made: {message}"))
            .hint("msgpath lab status   for what is there; msgpath lab down   removes it")),
    }
}

/// Whether the kernel has netem: tried in a namespace that is gone afterwards. Needs CAP_SYS_ADMIN.
pub fn has_netem() -> bool {
    let tried = std::thread::Builder::new().spawn(|| {
        netns::unshare().is_ok() && batch(Program::Tc, None, &["qdisc add dev lo root netem delay 1us".into()]).is_ok()
    });
    tried.is_ok_and(|tried| tried.join().unwrap_or(false))
}

/// The addresses of a named namespace that hold beyond its links, those of its loopback left out; none: frames need none.
///
/// # Errors
/// E40: ip(8) did not say.
pub fn addresses(namespace: &str) -> Result<Vec<IpAddr>, Problem> {
    let output = Program::Ip
        .command()
        .args(["-n", namespace, "-o", "addr", "show", "up", "scope", "global"])
        .output()
        .map_err(|error| missing(Program::Ip, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(listed).collect())
}

/// The address of a line such as `2: v0    inet6 fd00::1/64 scope global`.
fn listed(line: &str) -> Option<IpAddr> {
    let mut words = line.split_whitespace().skip_while(|word| !["inet", "inet6"].contains(word));
    words.nth(1)?.split('/').next()?.parse().ok()
}

fn missing(program: Program, error: &io::Error) -> Problem {
    Problem::new("E40", Exit::CannotStart, format!("{} could not be started: {error}", program.name()))
        .why("the lab is made with iproute2")
        .hint("apt install iproute2, or what your distribution calls it")
}

fn carry_out(program: Program, namespace: Option<&str>, lines: &[String]) -> io::Result<Result<(), String>> {
    let mut command = program.command();
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let text = lines.join("\n") + "\n";
    // A program that ended early says why on its standard error.
    let _ = child.stdin.take().expect("piped").write_all(text.as_bytes());
    let output = child.wait_with_output()?;
    let message = String::from_utf8_lossy(&output.stderr);
    let first = message.lines().find(|line| !line.starts_with("Command failed")).unwrap_or("it failed without a word");
    Ok(if output.status.success() { Ok(()) } else { Err(format!("{}: {first}", program.name())) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_listed() {
        let found = |line| listed(line).map(|address| address.to_string());
        let v4 = "2: v0    inet 10.7.0.1/24 scope global v0\\       valid_lft forever preferred_lft forever";
        assert_eq!(found(v4).as_deref(), Some("10.7.0.1"));
        assert_eq!(found("2: v0    inet6 fd00::1/64 scope global nodad").as_deref(), Some("fd00::1"));
        assert_eq!(found("2: v0    link/ether 02:00:00:00:00:01"), None);
    }

    #[test]
    fn what_fails_is_said() {
        match carry_out(Program::Ip, None, &["link show dev nowhere-at-all".into()]) {
            Ok(message) => assert!(message.unwrap_err().contains("nowhere-at-all")),
            Err(error) => eprintln!("skipped: {error}"),
        }
        assert!(batch(Program::Tc, None, &[]).is_ok());
    }
}
