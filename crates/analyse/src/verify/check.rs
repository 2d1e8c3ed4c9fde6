//! What a check found, of a record of any kind.

use msgpath_core::schema::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of [`Verification`] as JSON.
pub const SCHEMA: &str = "msgpath/verify/1";
/// Two floating-point numbers are the same up to this share: a text of JSON keeps 15 digits at least.
const ROUNDING: f64 = 1e-12;

/// What was compared, and what did not agree.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Verification {
    /// Name and version of this schema.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// `ok` where all agrees, `failed` where something does not, `partial` where the record is not whole.
    pub status: Status,
    /// Verb that wrote the record.
    pub verb: String,
    /// Name of the run.
    pub name: String,
    /// Version of msgpath that wrote it.
    pub written_by: String,
    /// Version of msgpath that checked it.
    pub checked_by: String,
    /// Where the record is not whole.
    pub damage: Option<String>,
    /// Rounds whose counts were compared, of a mesh those of all pairs.
    pub rounds: u64,
    /// Of a mesh: pairs whose measurement was read.
    pub pairs: u64,
    /// Of a watch: requests whose stages were added up.
    pub requests: u64,
    /// Of an import that stays text: texts whose checksum was compared.
    pub texts: u64,
    /// Rounds whose histogram was built again from single messages.
    pub rounds_from_messages: u64,
    /// Cases whose quantiles were compared with all their messages.
    pub cases_from_messages: u64,
    /// Numbers of the stored summary that agree.
    pub numbers: u64,
    /// What does not agree.
    pub disagreements: Vec<Disagreement>,
    /// What could not be compared, and why.
    pub notes: Vec<String>,
    /// What was compared with what, for people: a name and a text each. Empty: rounds and messages of a run.
    #[serde(skip)]
    pub compared: Vec<(&'static str, String)>,
}

/// A number, or a text, that does not agree.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct Disagreement {
    /// Which: `cases[0].quantiles[2].ns`, `case 0, pass 17: messages sent`.
    pub what: String,
    /// The value in the stored summary.
    pub stored: String,
    /// The value computed from the rest of the record.
    pub computed: String,
}

#[derive(Clone, Copy)]
pub struct Versions<'a> {
    /// The one that wrote the record.
    pub written_by: &'a str,
    pub checked_by: &'a str,
}

/// What is compared so far.
#[derive(Default)]
pub struct Check {
    pub(super) agreed: u64,
    pub(super) disagreements: Vec<Disagreement>,
}

impl Check {
    /// Something does not agree.
    pub fn differ(&mut self, what: &str, stored: String, computed: String) {
        self.disagreements.push(Disagreement { what: what.into(), stored, computed });
    }

    /// Both must be equal.
    pub fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: impl Fn() -> String, stored: T, computed: T) {
        if stored == computed {
            self.agreed += 1;
        } else {
            self.differ(&what(), format!("{stored:?}"), format!("{computed:?}"));
        }
    }

    /// Compares the stored summary with one computed again; what is known of any record.
    pub fn ended(
        mut self,
        stored: Option<&[u8]>,
        summary: &impl Serialize,
        status: Status,
        damage: Option<String>,
        versions: Versions<'_>,
    ) -> Verification {
        let Versions { written_by, checked_by } = versions;
        let (before, mut notes) = (self.agreed, Vec::new());
        match stored.map(serde_json::from_slice::<Value>) {
            _ if damage.is_some() => notes.push("the stored summary was not compared: the record is not whole".into()),
            Some(Ok(stored)) => self.trees("", &stored, &serde_json::to_value(summary).unwrap_or_default()),
            Some(Err(error)) => self.differ("summary.json", format!("no JSON ({error})"), "a summary".into()),
            None if status == Status::Failed => {
                notes.push("no summary is stored: the run failed before one was printed".into());
            }
            None => self.differ("summary.json", "missing".into(), "a summary".into()),
        }
        if written_by != checked_by {
            notes.push(format!(
                "msgpath {written_by} wrote the summary, this is {checked_by}: what the versions compute differently is \
                 listed too"
            ));
        }
        let numbers = self.agreed - before;
        Verification { numbers, notes, ..self.verified(damage, versions) }
    }

    /// What was found, where no summary is stored.
    pub fn verified(self, damage: Option<String>, versions: Versions<'_>) -> Verification {
        Verification {
            schema: SCHEMA.into(),
            status: match (&damage, self.disagreements.is_empty()) {
                (_, false) => Status::Failed,
                (Some(_), true) => Status::Partial,
                (None, true) => Status::Ok,
            },
            verb: String::new(),
            name: String::new(),
            written_by: versions.written_by.into(),
            checked_by: versions.checked_by.into(),
            damage,
            rounds: 0,
            pairs: 0,
            requests: 0,
            texts: 0,
            rounds_from_messages: 0,
            cases_from_messages: 0,
            numbers: 0,
            disagreements: self.disagreements,
            notes: Vec::new(),
            compared: Vec::new(),
        }
    }

    /// Two trees of JSON, number by number.
    pub(super) fn trees(&mut self, path: &str, stored: &Value, computed: &Value) {
        match (stored, computed) {
            (Value::Number(one), Value::Number(two)) => {
                let close = |a: f64, b: f64| (a - b).abs() <= ROUNDING * a.abs().max(b.abs());
                if one == two || one.as_f64().zip(two.as_f64()).is_some_and(|(a, b)| close(a, b)) {
                    self.agreed += 1;
                } else {
                    self.differ(path, one.to_string(), two.to_string());
                }
            }
            (Value::Object(one), Value::Object(two)) => {
                let inner = |name: &str| if path.is_empty() { name.into() } else { format!("{path}.{name}") };
                for (name, value) in one {
                    self.trees(&inner(name), value, two.get(name).unwrap_or(&Value::Null));
                }
                for (name, value) in two.iter().filter(|(name, value)| !one.contains_key(*name) && !value.is_null()) {
                    self.differ(&inner(name), "nothing".into(), short(value));
                }
            }
            (Value::Array(one), Value::Array(two)) => {
                if one.len() != two.len() {
                    self.differ(&format!("{path}.length"), one.len().to_string(), two.len().to_string());
                }
                for (at, (one, two)) in one.iter().zip(two).enumerate() {
                    self.trees(&format!("{path}[{at}]"), one, two);
                }
            }
            _ if stored == computed => {}
            _ => self.differ(path, short(stored), short(computed)),
        }
    }
}

/// A value of JSON on one line that is not too long.
fn short(value: &Value) -> String {
    const LONGEST: usize = 80;
    let text = if value.is_null() { "nothing".into() } else { value.to_string() };
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST).chain(['…']).collect() }
}
