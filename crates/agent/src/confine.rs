//! What a far end takes from itself before strangers reach it, or on a host that is not the user's alone. Nothing that a
//! measurement needs, and nothing that would cost one time: a filter of system calls would cost each of them 20 ns, and threads
//! and processes inherit it from whoever starts them, so that the measuring ones cannot be without it (docs/serve.md).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use msgpath_paths::registry::TRANSPORTS;
use msgpath_sys::confine::{Kept, change_only_beneath, drop_unused_capabilities, no_new_privileges};

/// Where message queues are files; a rule for it holds for queues by name.
const QUEUES: &str = "/dev/mqueue";

static STATE: OnceLock<String> = OnceLock::new();

/// What this process has taken from itself, for people; `None`: nothing.
pub fn state() -> Option<&'static str> {
    STATE.get().map(String::as_str)
}

/// Takes it from the calling thread and all that it will start: called before there are others. Files can be changed beneath
/// these folders only. What the kernel does not offer, or a transport needs, is left, and said.
pub fn confine(folders: &[&Path]) {
    STATE.get_or_init(|| {
        let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let queues = Path::new(QUEUES);
        let mut folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
        folders.extend(queues.is_dir().then(|| queues.to_owned()));
        let before = working();
        let levels = [Some(Kept::Files), Some(Kept::Names), None];
        let level = levels.into_iter().find(|level| tried(&folders, *level).as_ref() == Some(&before));
        match level.map(|level| take(&folders, level)) {
            Some(Ok(taken)) => taken.replace(FOLDERS, &shown.join(" and ")),
            Some(Err(error)) => format!("nothing: {error}"),
            None => "nothing: a transport would not work".into(),
        }
    });
}

/// Stands for the folders in what is said.
const FOLDERS: &str = "{folders}";

/// Takes it; what was taken.
fn take(folders: &[PathBuf], level: Option<Kept>) -> io::Result<String> {
    no_new_privileges()?;
    let given_up = drop_unused_capabilities()?;
    let mut taken = vec!["no new privileges".to_owned()];
    taken.extend((given_up > 0).then(|| format!("{given_up} capabilities given up")));
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    taken.push(match level {
        None => "no Landlock".into(),
        Some(kept) => {
            let version = change_only_beneath(&folders, kept)?;
            let what = if kept == Kept::Files { "changes files" } else { "makes and removes files" };
            format!("Landlock {version}: executes nothing, {what} beneath {FOLDERS} only")
        }
    });
    Ok(taken.join("; "))
}

/// Whether each transport works.
fn working() -> Vec<bool> {
    TRANSPORTS.iter().map(|transport| transport.probe().is_ok()).collect()
}

/// The same for a thread that has taken it from itself. `None`: it cannot be taken.
fn tried(folders: &[PathBuf], level: Option<Kept>) -> Option<Vec<bool>> {
    let folders = folders.to_vec();
    let tries = move || take(&folders, level).ok().map(|_| working());
    std::thread::Builder::new().name("confined".into()).spawn(tries).ok()?.join().ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_works_as_before() {
        std::thread::spawn(|| {
            let before = working();
            confine(&[&std::env::temp_dir()]);
            let state = state().expect("it was said");
            assert!(state.starts_with("no new privileges"), "{state}");
            assert_eq!(working(), before, "{state}");
            println!("{state}");
        })
        .join()
        .unwrap();
    }
}
