//! What measuring tools of others said between the rounds of a run (`--tools`): a line of JSON for each time that one ran, in
//! `tools.jsonl` beside the rounds. Their words stay as they were; what they mean is read anew by whoever shows them.

use std::path::Path;

use msgpath_record::RecordError;
use msgpath_record::lines::{self, Limits};
use serde::{Deserialize, Serialize};

/// Its name, within the folder of the run.
const TOOLS_FILE: &str = "tools.jsonl";
/// Most bytes of what a tool writes that are kept.
pub const MAX_TOOL_OUTPUT: usize = 128 << 10;
/// The longest line is an output in which every byte is escaped.
const LIMITS: Limits = Limits { line: 1 << 20, lines: 4096 };

/// One time that a tool ran, or could not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolRun {
    /// Which turn of the tools, from 0: in each, every tool runs once for every case that it can do.
    pub turn: u32,
    /// The pass after whose first rounds it ran.
    pub pass: u32,
    /// The case of ours that it does.
    pub case: u32,
    pub tool: String,
    /// What was started as its server; empty where nothing was.
    pub server: Vec<String>,
    /// What was started as its client.
    pub client: Vec<String>,
    /// What the client wrote, up to [`MAX_TOOL_OUTPUT`].
    pub output: String,
    /// Why there is no number; empty where it ran.
    pub why: String,
    /// What helps against that.
    pub hint: String,
}

/// Appends a line for each of them.
///
/// # Errors
/// The file cannot be written.
pub fn append_tool_runs(folder: &Path, runs: &[ToolRun]) -> Result<(), RecordError> {
    lines::append(&folder.join(TOOLS_FILE), runs)
}

/// All of a run, up to the first line that is not whole; none where no tool ran.
///
/// # Errors
/// The file cannot be read.
pub fn tool_runs(folder: &Path) -> Result<Vec<ToolRun>, RecordError> {
    lines::read(&folder.join(TOOLS_FILE), LIMITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(turn: u32) -> ToolRun {
        let output = "a \u{1b}[31mred\n\"line\"\u{fffd}".to_owned();
        ToolRun { turn, tool: "one".into(), client: vec!["one".into(), "-c".into()], output, ..ToolRun::default() }
    }

    #[test]
    fn what_tools_said_is_read_back_up_to_a_cut() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(tool_runs(place.path()).unwrap(), []);
        append_tool_runs(place.path(), &[run(0)]).unwrap();
        append_tool_runs(place.path(), &[run(1), run(2)]).unwrap();
        assert_eq!(tool_runs(place.path()).unwrap(), [run(0), run(1), run(2)]);
        let file = place.path().join(TOOLS_FILE);
        let whole = std::fs::read(&file).unwrap();
        std::fs::write(&file, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(tool_runs(place.path()).unwrap(), [run(0), run(1)]);
        // A newer version may say more; nothing that says less is an error.
        std::fs::write(&file, b"{\"tool\":\"x\",\"more\":1}\n{}\nno JSON\n{}\n").unwrap();
        assert_eq!(tool_runs(place.path()).unwrap().len(), 2);
        assert!(append_tool_runs(Path::new("/nowhere/at/all"), &[run(0)]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let place = tempfile::tempdir().unwrap();
            std::fs::write(place.path().join(TOOLS_FILE), &bytes).unwrap();
            prop_assert!(tool_runs(place.path()).unwrap().len() <= bytes.len());
        }
    }
}
