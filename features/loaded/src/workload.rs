//! The workload: an echo beside which other traffic goes on.

use msgpath_core::Workload;

/// There and back, idle and under load in turn.
pub static LOADED: Workload = Workload {
    name: "loaded",
    runs: "echoes under load",
    resumes: Err("its load has ended with it"),
    stages: Err("a message that waits for other traffic waits outside its own stages"),
    ..*Workload::ECHO
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_messages_are_those_of_an_echo() {
        assert!(LOADED.is_echoed() && LOADED.timed && LOADED.paired.is_ok() && LOADED.resumes.is_err());
        assert_eq!(LOADED.watched_names(), Workload::ECHO.watched_names());
    }
}
