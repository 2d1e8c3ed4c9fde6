//! What a far end takes from itself before strangers reach it, or on a host that is not the user's alone. Nothing that a
//! measurement needs, and nothing that would cost one time: a filter of system calls would cost each of them 20 ns
//! (docs/serve.md).

use std::path::Path;
use std::sync::OnceLock;

use msgpath_sys::confine;

static STATE: OnceLock<String> = OnceLock::new();

/// What this process has taken from itself, for people; `None`: nothing.
pub fn state() -> Option<&'static str> {
    STATE.get().map(String::as_str)
}

/// Takes it from the calling thread and all that it will start: called before there are others. Files can be changed beneath
/// these folders only. What the kernel does not offer is left, and said.
pub fn confine(folders: &[&Path]) {
    STATE.get_or_init(|| {
        if let Err(error) = confine::no_new_privileges() {
            return format!("nothing: {error}");
        }
        let mut taken = vec!["no new privileges".to_owned()];
        match confine::drop_unused_capabilities() {
            Ok(0) => {}
            Ok(count) => taken.push(format!("{count} capabilities given up")),
            Err(error) => taken.push(format!("capabilities kept: {error}")),
        }
        let shown: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        taken.push(match confine::write_only_beneath(folders) {
            Ok(version) => {
                format!("Landlock {version}: executes nothing, changes files beneath {} only", shown.join(" and "))
            }
            Err(error) => format!("no Landlock: {error}"),
        });
        taken.join("; ")
    });
}
