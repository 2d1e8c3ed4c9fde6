//! A preset of the user's own, for tests that go through all verbs.

use std::fs;

use crate::command::Home;

pub(crate) const TWO: &str = r#"
summary = "two runs"
about = "A test."
source = "nowhere"

[[run]]
name = "first"
verb = "echo"

[run.options]
count = 400
rounds = 5
warmup = "0"
set = "what-ifs=no"

[[run]]
name = "second"
verb = "compare"

[run.options]
path = "unix:send,pipe:write"
len = 64
count = 400
rounds = 5
warmup = "0"

[[published]]
label = "pipe there"
value = 5
quantity = "p50"
run = "second"
path = "pipe:write"
size = 64
because = "another machine"

[[published]]
label = "not measured"
value = 5
quantity = "p50"
run = "second"
path = "tcp:send"
size = 64
"#;

/// Writes it into the home; where it is.
pub(crate) fn own(home: &Home, text: &str) -> String {
    let file = home.path().join("own.toml");
    fs::write(&file, text).unwrap();
    file.display().to_string()
}
