//! How an agent gets to another host: the words of a program that gives a pipe to it, as ssh does. No shell reads them here.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Stands for the host in a template.
const HOST: &str = "{host}";
/// Stands for msgpath and what it is told to be.
const PROGRAM: &str = "{program}";
/// What msgpath is called on another host unless it is said.
const USUAL: &str = "msgpath";

/// The launchers that have a name, each with its template. `-u`: srun holds output back until a line is whole, and no frame
/// is a line. `-T`, and no `-t`: a terminal in between changes bytes.
const NAMED: [(&str, &str); 7] = [
    (
        "ssh",
        "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=3 -o ServerAliveCountMax=3 -- {host} exec {program}",
    ),
    ("slurm", "srun -u --overlap -N1 -n1 -w {host} {program}"),
    ("docker", "docker exec -i {host} {program}"),
    ("podman", "podman exec -i {host} {program}"),
    ("kubectl", "kubectl exec -i {host} -- {program}"),
    ("netns", "ip netns exec {host} {program}"),
    ("mpi", "mpirun -np 1 --host {host} {program}"),
];
/// The launcher whose hosts have the files of this machine.
const SAME_FILES: &str = "netns";

/// What is said instead of a launcher where agents come by themselves.
const COMES: &str = "join";

/// An agent on another host, and what starts it there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The launcher as people read it: `ssh`, or the first word of a template.
    pub by: String,
    /// The template.
    pub words: Vec<String>,
    /// The host, in the launcher's words: a name for ssh, a container, a namespace.
    #[serde(default)]
    pub host: String,
    /// What msgpath is called there; `None`: this program where the host has this machine's files, else `msgpath`.
    #[serde(default)]
    pub program: Option<String>,
    /// Where its data connections go, as the user says; `None`: the agent finds it.
    #[serde(default)]
    pub address: Option<IpAddr>,
}

/// What is not a launcher.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadLaunch {
    /// One word that names none.
    #[error("{0:?} is not a launcher")]
    Unknown(String),
    /// A quote that does not end.
    #[error("a quote in {0:?} does not end")]
    Quote(String),
    /// It could be taken for an option, or for several words.
    #[error("{0:?} is not a host")]
    Host(String),
}

impl Launch {
    /// The names of the launchers that have one.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// A launcher by its name, or a template: several words, quoted as in a shell where one has a space.
    ///
    /// # Errors
    /// [`BadLaunch`].
    pub fn parse(text: &str) -> Result<Self, BadLaunch> {
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let words = split(named.map_or(text, |(_, template)| template))?;
        match (named, words.as_slice()) {
            (None, [] | [_]) => Err(BadLaunch::Unknown(text.into())),
            _ => {
                let file = words[0].rsplit('/').next().unwrap_or_default();
                let by = named.map_or(file, |(name, _)| *name).into();
                Ok(Self { by, words, host: String::new(), program: None, address: None })
            }
        }
    }

    /// No launcher: agents come by themselves.
    pub fn none() -> Self {
        Self { by: COMES.into(), words: Vec::new(), host: String::new(), program: None, address: None }
    }

    /// Whether agents come by themselves.
    pub fn is_none(&self) -> bool {
        self.words.is_empty()
    }

    /// The same for a host.
    ///
    /// # Errors
    /// [`BadLaunch::Host`].
    pub fn on(&self, host: &str) -> Result<Self, BadLaunch> {
        let strange = |letter: char| letter.is_control() || letter.is_whitespace();
        match host.is_empty() || host.starts_with('-') || host.contains(strange) {
            true => Err(BadLaunch::Host(host.into())),
            false => Ok(Self { host: host.into(), ..self.clone() }),
        }
    }

    /// The launcher as it is typed: its name, or its template.
    pub fn typed(&self) -> String {
        match Self::parse(&self.by) {
            Ok(named) if named.words == self.words => self.by.clone(),
            _ => joined(&self.words),
        }
    }

    /// Whether a launcher that was read from a record is one that could have been typed, for a host that could have been.
    ///
    /// # Errors
    /// [`BadLaunch`].
    pub fn check(&self) -> Result<(), BadLaunch> {
        let typed = self.typed();
        let parsed = Self::parse(&typed)?;
        // The template of a name may have been another one in the version that wrote it.
        let called = parsed.by == self.by || Self::names().any(|name| name == self.by);
        match (called && parsed.words == self.words, &self.program) {
            (false, _) => Err(BadLaunch::Unknown(typed)),
            (true, Some(program)) if program.is_empty() || program.starts_with('-') => {
                Err(BadLaunch::Unknown(program.clone()))
            }
            (true, _) => self.on(&self.host).map(drop),
        }
    }

    /// What is started here. `this`: this program, where the host has its file; `agent`: what msgpath is told there.
    pub fn command(&self, this: &str, agent: &[&str]) -> Vec<String> {
        let usual = if self.by == SAME_FILES { this } else { USUAL };
        let program = std::iter::once(self.program.as_deref().unwrap_or(usual));
        let program: Vec<String> = program.chain(agent.iter().copied()).map(Into::into).collect();
        let mut command = Vec::new();
        for word in &self.words {
            match word.as_str() {
                PROGRAM => command.extend(program.iter().cloned()),
                word => command.push(word.replace(HOST, &self.host).replace(PROGRAM, &program.join(" "))),
            }
        }
        if !self.words.iter().any(|word| word.contains(PROGRAM)) {
            command.extend(program);
        }
        command
    }
}

/// As people read it: `n2 (ssh)`.
impl std::fmt::Display for Launch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.host, self.by)
    }
}

/// The words of a command line as a text of which [`Launch::parse`] and [`Program::parse`](crate::Program::parse) make the same words.
pub fn joined(words: &[String]) -> String {
    let plain = |letter: char| !letter.is_whitespace() && letter != '\'' && letter != '"';
    let quoted = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r#"'"'"'"#)),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The words of a text. Quotes hold one together; nothing else has a meaning.
fn split(text: &str) -> Result<Vec<String>, BadLaunch> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in text.chars() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('\'' | '"', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (letter, None) if letter.is_whitespace() => words.extend(word.take()),
            (letter, _) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    match quote {
        Some(_) => Err(BadLaunch::Quote(text.into())),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn command(template: &str, host: &str) -> String {
        Launch::parse(template)
            .unwrap()
            .on(host)
            .unwrap()
            .command("/here/msgpath", &["__agent", "--launched"])
            .join("|")
    }

    #[test]
    fn templates_become_words_without_a_shell() {
        assert!(command("ssh", "n2").ends_with("|--|n2|exec|msgpath|__agent|--launched"));
        assert_eq!(command("netns", "n2"), "ip|netns|exec|n2|/here/msgpath|__agent|--launched");
        assert_eq!(command("kubectl", "pod-1"), "kubectl|exec|-i|pod-1|--|msgpath|__agent|--launched");
        assert_eq!(command("nsenter -t {host} -n", "77"), "nsenter|-t|77|-n|msgpath|__agent|--launched");
        assert_eq!(
            command("ssh -J 'a b' u@{host} 'sudo {program}'", "n2"),
            "ssh|-J|a b|u@n2|sudo msgpath __agent --launched"
        );
        assert!(command("slurm", "n2").starts_with("srun|-u|"), "a frame is not a line");
        assert!(Launch::names().all(|name| Launch::parse(name).unwrap().by == name));
        assert!(Launch::none().is_none() && Launch::names().all(|name| !Launch::parse(name).unwrap().is_none()));
    }

    #[test]
    fn the_program_has_the_name_that_it_has_there() {
        let launch = Launch { program: Some("/opt/msgpath".into()), ..Launch::parse("netns").unwrap() };
        assert_eq!(launch.on("a").unwrap().command("/here", &["x"]).join(" "), "ip netns exec a /opt/msgpath x");
        assert_eq!(launch.on("a").unwrap().to_string(), "a (netns)");
    }

    #[test]
    fn a_template_is_called_after_its_program() {
        assert_eq!(Launch::parse("/opt/bin/enter -x {host}").unwrap().by, "enter");
    }

    #[test]
    fn what_is_no_launcher_or_host_is_refused() {
        assert_eq!(Launch::parse("shh"), Err(BadLaunch::Unknown("shh".into())));
        assert_eq!(Launch::parse(""), Err(BadLaunch::Unknown(String::new())));
        assert_eq!(Launch::parse("a 'b"), Err(BadLaunch::Quote("a 'b".into())));
        let ssh = Launch::parse("ssh").unwrap();
        for host in ["", "-oProxyCommand=true", "a b", "a\nb"] {
            assert_eq!(ssh.on(host), Err(BadLaunch::Host(host.into())));
        }
    }

    #[test]
    fn a_launcher_of_a_record_is_one_that_can_be_typed() {
        for text in ["ssh", "slurm", "ssh -J 'a b' u@{host} 'sudo {program}'", "sh -c 'echo \"it'\"'s\" {program}"] {
            let launch = Launch::parse(text).unwrap().on("n2").unwrap();
            assert_eq!(Launch::parse(&launch.typed()).unwrap().words, launch.words, "{text}");
            assert_eq!(launch.check(), Ok(()), "{text}");
        }
        let ssh = Launch::parse("ssh").unwrap().on("n2").unwrap();
        assert_eq!(ssh.typed(), "ssh");
        for wrong in [
            Launch { by: "rsh".into(), words: vec!["sh".into(), "-c".into(), "x".into()], ..ssh.clone() },
            Launch { words: Vec::new(), ..ssh.clone() },
            Launch { host: "-oProxyCommand=x".into(), ..ssh.clone() },
            Launch { program: Some("-x".into()), ..ssh.clone() },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn joined_words_are_read_back(words in proptest::collection::vec(".{0,8}", 2..5)) {
            prop_assert_eq!(split(&joined(&words)).unwrap(), words);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}", host in ".{0,10}") {
            if let Ok(launch) = Launch::parse(&text).and_then(|launch| launch.on(&host)) {
                prop_assert!(!launch.command("this", &["x"]).is_empty());
            }
        }
    }
}
