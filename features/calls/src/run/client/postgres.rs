//! The address of a PostgreSQL server, as libpq reads it: `postgres://anna@host:5432/db?host=/run/postgresql`.

use std::fmt;

use msgpath_core::target::{BadTarget, parse_port};
use msgpath_core::{Exit, Problem};

use super::target::{Protocol, RpcTarget, decoded, host_and_port, who_calls};
use crate::agent::client::orders::{Checks, Login, Secret};

/// The port of a server that was told nothing.
pub const PORT: u16 = 5432;
/// Values of `sslmode`: whether TLS is spoken, and what is checked then. `allow` and `prefer` leave it to libpq; here it is not.
const MODES: [(&str, bool, Checks); 6] = [
    ("disable", false, Checks::All),
    ("allow", false, Checks::All),
    ("prefer", false, Checks::All),
    ("require", true, Checks::Nothing),
    ("verify-ca", true, Checks::Signature),
    ("verify-full", true, Checks::All),
];
/// Parameters of libpq that are options here.
const OPTIONS: [(&str, &str); 3] = [("sslrootcert", "--cacert"), ("sslcert", "--cert"), ("sslkey", "--cert-key")];

/// What stands behind `postgres://`. A host that begins with a slash is the folder of a Unix socket.
pub(super) fn read(rest: &str) -> Option<RpcTarget> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (place, path) = place.split_at(place.find('/').unwrap_or(place.len()));
    let (who, place) = place.rsplit_once('@').unwrap_or(("", place));
    let mut login = if who.is_empty() { Login::default() } else { who_calls(who) };
    let bad = || BadTarget::Text(String::new());
    let (mut host, mut port) = match place {
        "" => (String::new(), None),
        place if place.starts_with("%2F") || place.starts_with("%2f") => (decoded(place), None),
        place => host_and_port(place, bad).ok().map(|(host, port)| (host.to_owned(), port))?,
    };
    let mut database = decoded(path.trim_start_matches('/'));
    let mut mode = None;
    for word in query.split('&').filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=')?;
        let value = decoded(value);
        match name {
            "host" if value.starts_with('/') => host = value,
            "host" => host = host_and_port(&value, bad).ok().filter(|(_, port)| port.is_none())?.0.to_owned(),
            "port" => port = Some(parse_port(&value).ok()?),
            "user" => login.user = Some(value).filter(|user| !user.is_empty()),
            "password" => login.password = Some(Secret::new(value)),
            "dbname" => database = value,
            "sslmode" => mode = Some(MODES.iter().find(|(name, ..)| *name == value)?),
            _ => return None,
        }
    }
    let texts = [&host, &database, login.user.as_ref().unwrap_or(&database)];
    if host.is_empty() || texts.iter().any(|text| text.contains(char::is_control)) {
        return None;
    }
    let folder = host.starts_with('/').then(|| host.trim_end_matches('/').to_owned());
    let socket = folder.map(|folder| format!("{folder}/.s.PGSQL.{}", port.unwrap_or(PORT)));
    if socket.is_some() {
        (host, port) = ("localhost".into(), None);
    }
    // As libpq has it: over a Unix socket no TLS is spoken.
    let (_, tls, checks) = *mode.filter(|_| socket.is_none()).unwrap_or(&MODES[0]);
    Some(RpcTarget {
        protocol: Protocol::Postgres,
        tls,
        checks,
        host,
        socket,
        typed_port: port,
        path: format!("/{database}"),
        login,
    })
}

/// As it is printed and recorded: without the password.
pub(super) fn put(target: &RpcTarget, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let user = target.login.user.as_ref().map_or_else(String::new, |user| format!("{user}@"));
    let host = if target.host.contains(':') { format!("[{}]", target.host) } else { target.host.clone() };
    match target.socket.as_ref().and_then(|socket| socket.rsplit_once("/.s.PGSQL.")) {
        Some((folder, port)) => {
            write!(f, "postgres://{user}{}?host={folder}", target.path)?;
            if port == PORT.to_string() { Ok(()) } else { write!(f, "&port={port}") }
        }
        None => {
            write!(f, "postgres://{user}{host}:{}{}", target.port(), target.path)?;
            let mode = MODES.iter().find(|(_, tls, checks)| target.tls && *tls && *checks == target.checks);
            mode.map_or(Ok(()), |(name, ..)| write!(f, "?sslmode={name}"))
        }
    }
}

/// The words of a target's query.
fn query(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = text.split_once('?').map_or("", |(_, query)| query);
    query.split('&').filter_map(|word| word.split_once('='))
}

/// A target as typed with the `sslmode` of the environment, where it has none of its own.
///
/// # Errors
/// E11: a parameter that is an option here.
pub fn with_mode(text: &str, of_environment: Option<&str>) -> Result<String, Problem> {
    if let Some((name, option)) = OPTIONS.into_iter().find(|(name, _)| query(text).any(|(typed, _)| typed == *name)) {
        return Err(Problem::new("E11", Exit::Usage, format!("{name} in a target is not read"))
            .hint(format!("{option} FILE, an option of rpc")));
    }
    let typed = query(text).any(|(name, _)| name == "sslmode");
    Ok(match of_environment.filter(|mode| !typed && !mode.is_empty()) {
        Some(mode) => format!("{text}{}sslmode={mode}", if text.contains('?') { "&" } else { "?" }),
        None => text.to_owned(),
    })
}

/// Puts in what was not typed, as libpq does: the user of the environment, and the database of that name.
///
/// # Errors
/// E65: nobody knows who calls.
pub fn complete(target: &mut RpcTarget, variable: impl Fn(&str) -> Option<String>) -> Result<(), Problem> {
    let named = |name: &str| variable(name).filter(|text| !text.is_empty());
    let of_environment = || ["PGUSER", "USER", "LOGNAME"].into_iter().find_map(named);
    let user = target.login.user.take().or_else(of_environment).ok_or_else(|| {
        Problem::new("E65", Exit::Usage, "the target names no user, and neither PGUSER nor USER is set")
            .hint("postgres://USER@HOST/DATABASE")
    })?;
    if target.path == "/" {
        target.path += &named("PGDATABASE").unwrap_or_else(|| user.clone());
    }
    target.login.user = Some(user);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_postgres_are_read_and_printed() {
        for (typed, printed) in [
            ("postgres://anna@h:1/db", "postgres://anna@h:1/db"),
            ("postgresql://h", "postgres://h:5432/"),
            ("postgres://anna:s3cret@[::1]/db?sslmode=prefer", "postgres://anna@[::1]:5432/db"),
            ("postgres:///db?host=/run/postgresql", "postgres:///db?host=/run/postgresql"),
            (
                "postgres://anna@?host=/run/postgresql/&port=6000&dbname=x",
                "postgres://anna@/x?host=/run/postgresql&port=6000",
            ),
            ("postgres://%2Frun%2Fpostgresql/db", "postgres:///db?host=/run/postgresql"),
            ("postgres://h/db?user=bob&password=s3cret", "postgres://bob@h:5432/db"),
            ("postgres://h/db?sslmode=disable", "postgres://h:5432/db"),
            ("postgres://a@h/db?sslmode=require", "postgres://a@h:5432/db?sslmode=require"),
            ("postgres://h/db?sslmode=verify-ca", "postgres://h:5432/db?sslmode=verify-ca"),
            ("postgres://h/db?sslmode=verify-full", "postgres://h:5432/db?sslmode=verify-full"),
            ("postgres:///db?host=/run/postgresql&sslmode=require", "postgres:///db?host=/run/postgresql"),
        ] {
            let target = typed.parse::<RpcTarget>().unwrap();
            assert_eq!(target.to_string(), printed, "{typed}");
        }
        let socket = "postgres:///db?host=/run/postgresql&port=6000".parse::<RpcTarget>().unwrap().socket;
        assert_eq!(socket.as_deref(), Some("/run/postgresql/.s.PGSQL.6000"));
        for bad in [
            "postgres://",
            "postgres:///db",
            "postgres://h:0/db",
            "postgres://h/db?sslmode=maybe",
            "postgres://h/db?what=x",
            "postgres://h/db?port=x",
            "postgres://h/d%00b",
            "postgres://h?host=a:1",
        ] {
            let error = bad.parse::<RpcTarget>();
            assert!(error.is_err(), "{bad}: {error:?}");
        }
    }

    #[test]
    fn user_and_database_come_from_the_environment() {
        let complete = |text: &str, variables: &[(&str, &str)]| {
            let mut target = text.parse::<RpcTarget>().unwrap();
            let variable =
                |name: &str| variables.iter().find(|(own, _)| *own == name).map(|(_, text)| (*text).to_owned());
            complete(&mut target, variable).map(|()| target.to_string())
        };
        assert_eq!(complete("postgres://h", &[("USER", "bob")]).unwrap(), "postgres://bob@h:5432/bob");
        let both = [("PGUSER", "eve"), ("PGDATABASE", "x"), ("USER", "bob")];
        assert_eq!(complete("postgres://h", &both).unwrap(), "postgres://eve@h:5432/x");
        assert_eq!(complete("postgres://anna@h/db", &both).unwrap(), "postgres://anna@h:5432/db");
        assert_eq!(complete("postgres://h", &[]).unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn sslmode_of_the_environment_counts_where_none_is_typed() {
        let target = |text: &str, mode| {
            let target: RpcTarget = with_mode(text, mode).unwrap().parse().unwrap();
            (target.tls, target.checks)
        };
        assert_eq!(target("postgres://h", Some("verify-full")), (true, Checks::All));
        assert_eq!(target("postgres://h?port=1", Some("require")), (true, Checks::Nothing));
        assert_eq!(target("postgres://h?sslmode=verify-ca", Some("disable")), (true, Checks::Signature));
        for (text, mode) in [("postgres://h?sslmode=disable", Some("require")), ("postgres://h", None)] {
            assert!(!target(text, mode).0, "{text}");
        }
        assert!(with_mode("postgres://h?sslkey=/x", None).unwrap_err().hint.contains("--cert-key FILE"));
    }
}
