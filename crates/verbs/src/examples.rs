//! The example servers of `--far example:LANGUAGE`: built before a run, in the user's cache.

use std::path::PathBuf;

use msgpath_core::Unavailable;
use msgpath_core::program::{Program, Source};
use msgpath_courses::servers::{SERVERS, server};

/// Makes commands of the examples among these programs. What cannot be built here is left out of the run with its reason.
pub(crate) fn build(programs: &mut [Program]) {
    for program in programs {
        if let Source::Example(name) = &program.source {
            program.source = match ready(name) {
                Ok(words) => Source::Command(words),
                Err(Unavailable { why, hint }) => Source::Missing { example: name.clone(), why, hint },
            };
        }
    }
}

fn ready(name: &str) -> Result<Vec<String>, Unavailable> {
    let server = server(name).ok_or_else(|| {
        let names: Vec<&str> = SERVERS.iter().map(|server| server.name).collect();
        Unavailable::new(format!("there is no example server in {name}"), format!("one of {}", names.join(", ")))
    })?;
    let root = cache().ok_or_else(|| {
        Unavailable::new("there is no folder to build it in", "XDG_CACHE_HOME, or HOME with a folder of yours")
    })?;
    server.ready(&root)
}

/// The user's cache; never a folder that others may write to.
fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(root.join("msgpath").join("servers"))
}
