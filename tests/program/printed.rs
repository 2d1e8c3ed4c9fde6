//! What the program printed as JSON, read strictly. A key or an element that is not there fails the test that asks for it and says which
//! there are, so a renamed key can not pass as a null, and no assertion about it is empty. `get` asks whether there is one.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::Index;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    String(String),
    Array(Vec<Value>),
    Object(Fields),
}

pub(crate) type Fields = BTreeMap<String, Value>;

impl Value {
    /// The field of that name, where there is one.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.as_object()?.get(name)
    }

    /// For whoever takes any JSON.
    pub(crate) fn plain(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("names are texts")
    }

    /// What a path such as `/examined/checks` leads to, where it leads to something.
    pub(crate) fn pointer(&self, path: &str) -> Option<&Value> {
        path.split('/').skip(1).try_fold(self, |value, part| match value {
            Self::Array(values) => values.get(part.parse::<usize>().ok()?),
            _ => value.get(part),
        })
    }

    pub(crate) fn as_object(&self) -> Option<&Fields> {
        if let Self::Object(fields) = self { Some(fields) } else { None }
    }

    pub(crate) fn as_array(&self) -> Option<&Vec<Value>> {
        if let Self::Array(values) = self { Some(values) } else { None }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(whether) = self { Some(*whether) } else { None }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    pub(crate) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    pub(crate) fn as_i64(&self) -> Option<i64> {
        if let Self::Number(number) = self { number.as_i64() } else { None }
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Number(_))
    }

    pub(crate) fn is_string(&self) -> bool {
        self.as_str().is_some()
    }

    pub(crate) fn is_array(&self) -> bool {
        self.as_array().is_some()
    }

    pub(crate) fn is_object(&self) -> bool {
        self.as_object().is_some()
    }
}

impl<Name: AsRef<str> + ?Sized> Index<&Name> for Value {
    type Output = Value;

    #[track_caller]
    fn index(&self, name: &Name) -> &Value {
        let name = name.as_ref();
        let Some(fields) = self.as_object() else { panic!("`{name}` of what has no fields: {self}") };
        let names = || fields.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        fields.get(name).unwrap_or_else(|| panic!("no `{name}`; there is {}", names()))
    }
}

impl Index<usize> for Value {
    type Output = Value;

    #[track_caller]
    fn index(&self, at: usize) -> &Value {
        let Some(values) = self.as_array() else { panic!("element {at} of what is no list: {self}") };
        values.get(at).unwrap_or_else(|| panic!("element {at} of {}", values.len()))
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl PartialEq<String> for Value {
    fn eq(&self, other: &String) -> bool {
        *self == **other
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

impl PartialEq<f64> for Value {
    fn eq(&self, other: &f64) -> bool {
        self.as_f64() == Some(*other)
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(number.into())
            }
        }

        impl PartialEq<$integer> for Value {
            fn eq(&self, other: &$integer) -> bool {
                self.as_i64().is_some_and(|number| i128::from(number) == *other as i128)
                    || self.as_u64().is_some_and(|number| i128::from(number) == *other as i128)
            }
        }
    )*};
}

integers!(i32 i64 u16 u32 u64 usize);

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_string())
    }
}

impl From<bool> for Value {
    fn from(whether: bool) -> Self {
        Self::Bool(whether)
    }
}

impl PartialEq<serde_json::Value> for Value {
    fn eq(&self, other: &serde_json::Value) -> bool {
        self.plain() == *other
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if f.alternate() { serde_json::to_string_pretty(self) } else { serde_json::to_string(self) };
        f.write_str(&text.expect("names are texts"))
    }
}

#[test]
fn what_is_not_there_is_no_null() {
    let value: Value = serde_json::from_str(r#"{"a": [null, {"b": 2, "c": -1.5}], "d": "e"}"#).unwrap();
    assert!(value["a"][0].is_null() && value["a"][1]["b"] == 2 && value["a"][1]["c"] == -1.5 && value["d"] == "e");
    assert!(value.get("b").is_none() && value.pointer("/a/1/b").is_some() && value.pointer("/a/2").is_none());
    let fails = |absent: fn(&Value)| std::panic::catch_unwind(|| absent(&value)).is_err();
    assert!(fails(|value| drop(value["b"].clone())) && fails(|value| drop(value["a"][2].clone())));
    assert!(fails(|value| drop(value["a"][0]["b"].clone())));
    assert_eq!(value.to_string(), r#"{"a":[null,{"b":2,"c":-1.5}],"d":"e"}"#);
}
