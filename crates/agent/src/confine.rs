//! What a far end takes from itself before strangers reach it, or on a host that is not the user's alone. Nothing that a
//! measurement needs, and nothing that would cost one time. A filter of system calls costs each of them 20 ns, and threads inherit it
//! from whoever starts them: so it holds for the threads that listen, and those that measure are started by one that was made before
//! it (docs/serve.md).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};

use msgpath_paths::meta::Family;
use msgpath_paths::registry::TRANSPORTS;
use msgpath_sys::confine::{Kept, change_only_beneath, drop_unused_capabilities, no_new_privileges};
use msgpath_sys::seccomp::refuse_unused;

/// Where message queues are files; a rule for it holds for queues by name.
const QUEUES: &str = "/dev/mqueue";

static STATE: OnceLock<String> = OnceLock::new();
static OUTSIDE: OnceLock<Outside> = OnceLock::new();

/// What this process has taken from itself, for people; `None`: nothing.
pub fn state() -> Option<&'static str> {
    STATE.get().map(String::as_str)
}

/// Takes it from the calling thread and all that it will start: called before there are others. Files can be changed beneath
/// these folders only. What the kernel does not offer, or a transport needs, is left, and said.
pub fn confine(folders: &[&Path]) {
    STATE.get_or_init(|| {
        // Counted first: a thread that tried something may be listed for a moment after it has ended.
        let others = std::fs::read_dir("/proc/self/task").map_or(0, |tasks| tasks.count().saturating_sub(1));
        let (mut says, outside) = taken(folders);
        if let Some(outside) = outside {
            let _ = OUTSIDE.set(outside);
        }
        if others > 0 {
            says += &format!("; {others} threads that ran before keep what they had");
        }
        says
    });
}

/// Starts a thread that measures: no filter holds for it, where this process has one.
///
/// # Errors
/// No further thread can be had.
pub fn spawn<T: Send + 'static>(
    thread: Builder,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    match OUTSIDE.get() {
        Some(outside) => outside.spawn(thread, work),
        None => thread.spawn(work),
    }
}

/// Does what measures, takes the connections of a round, or looks at how this process measures, in such a thread; without a filter,
/// here.
///
/// # Errors
/// As [`spawn`].
pub fn outside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    match OUTSIDE.get() {
        Some(outside) => {
            let thread = outside.spawn(Builder::new().name("outside".into()), work)?;
            thread.join().map_err(|_| io::Error::other("the thread ended early"))
        }
        None => Ok(work()),
    }
}

/// A thread for which the filter does not hold, and which starts others.
struct Outside(Sender<Box<dyn FnOnce() + Send>>);

impl Outside {
    /// Made before there is a filter. It ends with this.
    fn new() -> io::Result<Self> {
        let (sender, orders) = channel::<Box<dyn FnOnce() + Send>>();
        Builder::new().name("outside".into()).spawn(move || orders.into_iter().for_each(|order| order()))?;
        Ok(Self(sender))
    }

    fn spawn<T: Send + 'static>(
        &self,
        thread: Builder,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<JoinHandle<T>> {
        let (sender, started) = channel();
        let order = move || drop(sender.send(thread.spawn(work)));
        let gone = || io::Error::other("the thread that starts others has ended");
        self.0.send(Box::new(order)).map_err(|_| gone())?;
        started.recv().map_err(|_| gone())?
    }
}

/// Stands for the folders in what is said.
const FOLDERS: &str = "{folders}";

/// Takes as much as leaves every transport working; what that is, and who starts the threads that measure.
fn taken(folders: &[&Path]) -> (String, Option<Outside>) {
    let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let queues = Path::new(QUEUES);
    let mut folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    folders.extend(queues.is_dir().then(|| queues.to_owned()));
    let before = working();
    let mut levels = [Some(Kept::Files), Some(Kept::Names), None].into_iter();
    let found = levels.find(|level| tried(&folders, *level).as_ref() == Some(&before));
    match found.map(|level| take(&folders, level).and_then(|taken| Ok((taken, filtered()?)))) {
        Some(Ok((taken, (filter, outside)))) => {
            (format!("{}; {filter}", taken.replace(FOLDERS, &shown.join(" and "))), outside)
        }
        Some(Err(error)) => (format!("nothing: {error}"), None),
        None => ("nothing: a transport would not work".into(), None),
    }
}

/// Takes what holds for every thread, those that measure too; what was taken.
fn take(folders: &[PathBuf], level: Option<Kept>) -> io::Result<String> {
    no_new_privileges()?;
    let dropped = drop_unused_capabilities()?;
    let mut taken = vec!["no new privileges".to_owned()];
    taken.push(match (dropped.held, dropped.bounded) {
        (0, _) => "no capabilities to drop".into(),
        (held, true) => format!("{held} capabilities dropped"),
        (held, false) => format!("{held} capabilities dropped, without CAP_SETPCAP not from the bounding set"),
    });
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

/// Refuses the calling thread the system calls that only threads which measure make, wherever the kernel has filters. No transport is
/// asked whether it works so: what a round does with its connections is done [`outside`].
fn filtered() -> io::Result<(String, Option<Outside>)> {
    let outside = Outside::new()?;
    Ok(match refuse_unused() {
        Ok(count) => (format!("seccomp: {count} system calls refused to threads that do not measure"), Some(outside)),
        Err(error) => (format!("no seccomp: {error}"), None),
    })
}

/// Whether each transport works. AF_XDP is not tried: that makes a network namespace and two devices, whose removal keeps the
/// kernel's lock of all devices for longer than an agent takes to start. The test tries it.
fn working() -> Vec<bool> {
    let light = TRANSPORTS.iter().filter(|transport| transport.meta().family != Family::Xsk);
    light.map(|transport| transport.probe().is_ok()).collect()
}

/// The same for a thread that has taken it from itself. `None`: it cannot be taken.
fn tried(folders: &[PathBuf], level: Option<Kept>) -> Option<Vec<bool>> {
    let folders = folders.to_vec();
    let tries = move || take(&folders, level).ok().map(|_| working());
    Builder::new().name("confined".into()).spawn(tries).ok()?.join().ok()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::read::field;
    use msgpath_sys::confine::landlock_version;
    use msgpath_sys::seccomp::kernel_has_filters;

    /// Filters that hold for the calling thread; `None`: the kernel does not say.
    fn filters() -> Option<u32> {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        field(&status, "Seccomp_filters")?.parse().ok()
    }

    /// What seccomp is for the calling thread: 0 nothing, 2 a filter.
    fn mode() -> Option<String> {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        field(&status, "Seccomp").map(str::to_owned)
    }

    fn all_working() -> Vec<bool> {
        TRANSPORTS.iter().map(|transport| transport.probe().is_ok()).collect()
    }

    #[test]
    fn no_file_is_made_outside_of_the_folders_where_the_kernel_has_landlock() {
        std::thread::spawn(|| {
            // The sources may lie among the temporary files, where a file may be made.
            let outside = [env!("CARGO_MANIFEST_DIR"), "/var/tmp"].map(Path::new);
            let outside = outside.into_iter().find(|folder| !folder.starts_with(std::env::temp_dir()));
            let file = outside.expect("/var/tmp is another folder").join(format!("not-here-{}", std::process::id()));
            let makes = || std::fs::write(&file, "x").and_then(|()| std::fs::remove_file(&file));
            if let Err(error) = makes() {
                return println!("skipped: this user makes no file here: {error}");
            }
            let (says, outside) = taken(&[&std::env::temp_dir()]);
            if let Err(error) = landlock_version() {
                assert!(says.contains("no Landlock"), "{says}");
                return println!("skipped: this kernel has no Landlock: {error}");
            }
            assert_eq!(makes().unwrap_err().kind(), io::ErrorKind::PermissionDenied, "{says}");
            let file = file.clone();
            let measuring = outside.map(|outside| {
                let work = move || std::fs::write(&file, "x").map_err(|error| error.kind());
                outside.spawn(Builder::new(), work).unwrap().join().unwrap()
            });
            assert!(measuring.is_none_or(|made| made == Err(io::ErrorKind::PermissionDenied)), "{says}");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn threads_that_listen_have_the_filter_and_every_transport_works_in_those_that_measure() {
        std::thread::spawn(|| {
            let (before, had) = (all_working(), filters());
            let (says, outside) = taken(&[&std::env::temp_dir()]);
            assert!(says.starts_with("no new privileges"), "{says}");
            if !kernel_has_filters() {
                assert!(says.contains("no seccomp: ") && outside.is_none(), "{says}");
                return println!("skipped: this kernel has no filters of system calls: {says}");
            }
            assert!(says.contains("system calls refused to threads that do not measure"), "{says}");
            let outside = outside.expect("what starts threads without the filter");
            let working = outside.spawn(Builder::new(), all_working).unwrap().join().unwrap();
            assert_eq!(working, before, "{says}");
            assert_eq!(mode().as_deref(), Some("2"), "a filter, says the kernel");
            let Some(had) = had else { return println!("skipped: the kernel does not count filters") };
            assert_eq!(filters(), Some(had + 1), "those that listen");
            assert_eq!(std::thread::spawn(filters).join().unwrap(), Some(had + 1), "and those that they start");
            let measures = Builder::new().name("far-0".into());
            let named = || (filters(), std::thread::current().name().map(str::to_owned));
            let found = outside.spawn(measures, named).unwrap().join().unwrap();
            assert_eq!(found, (Some(had), Some("far-0".into())));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn where_nothing_was_taken_work_is_done_here() {
        let here = std::thread::current().id();
        assert_eq!(outside(|| std::thread::current().id()).unwrap(), here);
        assert_eq!(spawn(Builder::new(), || 7).unwrap().join().unwrap(), 7);
    }
}
