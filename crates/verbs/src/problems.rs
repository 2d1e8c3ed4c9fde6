//! The errors that belong to the command line: what happened, why, what to type.

use msgpath_core::path::nearest;
use msgpath_core::target::BadTarget;
use msgpath_core::{Exit, PathName, Problem, Target, units};

/// The error in its three parts; what no part of the program described is E00, a failure after the start.
pub fn as_problem(error: &anyhow::Error) -> Problem {
    error
        .downcast_ref::<Problem>()
        .cloned()
        .unwrap_or_else(|| Problem::new("E00", Exit::Unfinished, format!("{error:#}")))
}

/// A file that cannot be written.
pub fn cannot_write(path: &std::path::Path, error: &std::io::Error) -> Problem {
    Problem::new("E12", Exit::Unfinished, format!("cannot write {}: {error}", path.display()))
}

/// An option or a combination of options that makes no sense. E11.
pub fn usage(what: impl Into<String>) -> Problem {
    Problem::new("E11", Exit::Usage, what)
}

/// A value that is not what its option takes.
pub fn bad_value(option: &str, expected: String) -> Problem {
    usage(format!("{option} takes {expected}"))
}

/// E02: iperf3's `-c host`.
pub fn count_is_a_host(host: &str) -> Problem {
    Problem::new("E02", Exit::Usage, format!("-c takes a number, got {host:?}"))
        .why("in iperf3 -c names the server; here the target needs no flag")
        .hint(format!("msgpath stream {host}"))
}

/// A port that does not exist, or a text that is not a target.
pub fn bad_target(text: &str, error: &BadTarget) -> Problem {
    let problem = usage(error.to_string());
    match error {
        BadTarget::Group { host, broadcast } => many_peers(host, *broadcast),
        BadTarget::Port { typed, wraps_to } if *typed > 65_535 => problem
            .why(format!("a program that keeps 16 bits of it would silently use port {wraps_to}"))
            .hint(format!("{wraps_to} if that is what the other side really uses, or another port")),
        BadTarget::Port { .. } => problem.hint("leave out the port to use 5210"),
        BadTarget::Text(_) if text.parse::<u16>().is_ok() => {
            problem.why("a number alone would be read as an address").hint(format!("HOST:{text}, or -p {text}"))
        }
        BadTarget::Text(_) if text.contains("://") => problem.hint("tcp://HOST:PORT or udp://HOST:PORT"),
        BadTarget::Text(_) => problem.hint("a host such as hostB or 10.0.0.2:5210, or unix:/path, shm:name, pipe:name"),
    }
}

/// What a verb calls its operand that is a multicast group.
const GROUP_OPERAND: &str = "GROUP";

/// E116: an address that stands for many where one peer is meant.
fn many_peers(host: &str, broadcast: bool) -> Problem {
    let problem = |what: String| Problem::new("E116", Exit::Usage, what);
    if broadcast {
        return problem(format!("{host} is the broadcast address: no single peer is there"))
            .why("connections, replies and a server need one address of one host")
            .hint("the address of one host");
    }
    let group = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    problem(format!("{host} is a multicast group: no single peer is there"))
        .why("connections, replies and a server need one address of one host; to a group one sends, and many receive")
        .hint(match takes_groups() {
            Some(verb) => format!("msgpath {verb} udp://{group}"),
            None => "the address of one host".into(),
        })
}

/// The verb of a feature that measures multicast groups: its operand is called so.
fn takes_groups() -> Option<String> {
    let takes = |verb: &clap::Command| {
        let names = verb.get_positionals().filter_map(clap::Arg::get_value_names).flatten();
        names.into_iter().any(|name| name.as_str() == GROUP_OPERAND)
    };
    crate::verb::all().map(|verb| (verb.command)()).find(takes).map(|verb| verb.get_name().to_owned())
}

/// A host, as it is typed where no other grammar reads it, is one peer.
///
/// # Errors
/// E116.
pub fn check_one_peer(host: &str) -> Result<(), Problem> {
    msgpath_core::group::check_one_peer(host).map_err(|error| bad_target(host, &error))
}

/// E09 for a text that does not even have the form of a path.
pub fn not_a_path(text: &str) -> Problem {
    let names: Vec<String> = msgpath_paths::all().into_iter().map(|entry| entry.name.to_string()).collect();
    let problem = Problem::new("E09", Exit::Usage, format!("{text:?} is not a message path"));
    match nearest(&text.to_ascii_lowercase(), names.iter().map(String::as_str)) {
        Some(name) => problem.hint(format!("{name}        list: msgpath paths")),
        None => {
            problem.why("a path is transport:send-method, with /wait if it is not the default").hint("msgpath paths")
        }
    }
}

/// E51: a setting of TCP on a path that has no TCP socket.
pub fn no_setting(path: &PathName) -> Problem {
    let named = path.setting.map_or("", |setting| setting.name());
    Problem::new("E51", Exit::Usage, format!("+{named} has no meaning for {}", path.clone().with(None)))
        .why("nodelay, nagle and cork are settings of TCP sockets")
        .hint(format!("-x tcp:writes+{named}"))
}

/// E07: a message larger than the transport carries.
pub fn too_large(size: u64, path: &PathName, limit: u64) -> Problem {
    let fits = match limit {
        0..2048 => limit.to_string(),
        2048..0x20_0000 => format!("{}K", limit >> 10),
        _ => format!("{}M", limit >> 20),
    };
    let most = msgpath_paths::transport(&path.transport).and_then(|transport| transport.max_message());
    let family = match most.filter(|most| *most > limit) {
        Some(most) => format!(" over IPv4, {most} over IPv6"),
        None => String::new(),
    };
    Problem::new(
        "E07",
        Exit::Usage,
        format!(
            "{} does not fit in one {} message (largest here: {limit} bytes{family})",
            units::size_short(size),
            path.transport
        ),
    )
    .hint(format!("-l {fits}, or a path that carries a stream, such as tcp:send"))
}

/// E38: all was sent, and nothing came of it.
pub fn nothing_came(what: String, why: impl Into<String>) -> Problem {
    Problem::new("E38", Exit::Unfinished, what).why(why)
}

/// E10: a path that cannot reach the target.
pub fn cannot_reach(path: &PathName, target: &Target) -> Problem {
    let problem = |why: String| Problem::new("E10", Exit::Usage, format!("path {path} cannot reach {target} ({why})"));
    match (target, target.transport()) {
        (_, Some(named)) if named != path.transport => {
            problem(format!("the target names {named}, the path names {}", path.transport))
                .hint(format!("-x {named}, or a target without {named}:"))
        }
        _ => problem(format!("{} stays on one machine", path.transport)).hint("leave out the target, or use tcp:send"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_does_not_fit_names_one_that_does() {
        let problem = too_large(1 << 20, &PathName::new("udp", "send", "block"), 65_507);
        assert_eq!((problem.code.as_str(), problem.exit), ("E07", Exit::Usage));
        assert!(
            problem.what.contains("1M") && problem.what.contains("65507") && problem.hint.contains("-l 63K"),
            "{problem}"
        );
        assert!(too_large(100, &PathName::new("mq", "send", "block"), 64).hint.contains("-l 64"));
        assert!(too_large(1 << 30, &PathName::new("shm", "ring", "spin"), 64 << 20).hint.contains("-l 64M"));
    }

    #[test]
    fn a_path_that_cannot_reach_says_why() {
        let host: Target = "10.0.0.2".parse().unwrap();
        assert!(cannot_reach(&PathName::new("unix", "send", "block"), &host).what.contains("stays on one machine"));
        let udp: Target = "udp://10.0.0.2".parse().unwrap();
        assert!(cannot_reach(&PathName::new("tcp", "send", "block"), &udp).what.contains("the target names udp"));
    }
}
