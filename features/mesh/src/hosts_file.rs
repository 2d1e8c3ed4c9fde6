//! A file of hosts (TOML): where each is, what it shares with others, and how many pairs a shared thing takes at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::hosts::{self, MAX_HOSTS};

/// CPUs of a host have numbers below this.
pub(crate) const MAX_CPUS: u32 = 8192;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpec {
    /// Its name, by which a launcher reaches it.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Where its data goes; `None`: what the launcher knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// CPUs of its measuring threads; empty: chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// Its network device, where it shares that with other hosts of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
}

/// What hosts share that takes few pairs at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// What it is called: `uplink`.
    pub name: String,
    /// Whose it is.
    pub of: Of,
    /// So many pairs at a time.
    pub pairs: u32,
}

/// Whose a limited thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// That of a rack: pairs need it that leave the rack.
    Rack,
    /// That of the whole mesh: every pair needs it.
    Mesh,
}

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostsFile {
    /// How agents are started there; `None`: nothing is said.
    pub launch: Option<String>,
    pub program: Option<String>,
    /// Hosts, in the order of the file.
    pub hosts: Vec<HostSpec>,
    /// What they share.
    pub limits: Vec<Limit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Typed {
    launch: Option<String>,
    program: Option<String>,
    #[serde(default)]
    host: Vec<TypedHost>,
    #[serde(default)]
    rack: Vec<TypedRack>,
    #[serde(default)]
    limits: BTreeMap<String, TypedLimit>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedHost {
    name: String,
    rack: Option<String>,
    address: Option<String>,
    cpus: Option<String>,
    nic: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedRack {
    name: String,
    hosts: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TypedLimit {
    of: Of,
    pairs: u32,
}

/// Reads such a file.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<HostsFile, String> {
    let typed: Typed = toml::from_str(text).map_err(|error| error.to_string())?;
    let no_files: hosts::ReadFile<'_> = &mut |_| Err("a file of hosts cannot name another file".into());
    let mut found: Vec<HostSpec> = Vec::new();
    let mut seen = BTreeSet::new();
    for entry in typed.host {
        for (at, name) in hosts::parse(&entry.name, no_files)?.into_iter().enumerate() {
            if !seen.insert(name.clone()) {
                return Err(format!("{name} stands there twice"));
            }
            if found.len() == MAX_HOSTS {
                return Err(format!("more than {MAX_HOSTS} hosts"));
            }
            let number = hosts::number(&name).unwrap_or(at as u64 + 1);
            let filled = |text: &Option<String>| text.as_deref().map(|text| fill(text, &name, number)).transpose();
            let address = filled(&entry.address)?;
            let address = address.map(|text| text.parse().map_err(|_| format!("{text:?} is not an IP address")));
            let cpus = entry.cpus.as_deref().map_or(Ok(Vec::new()), cpus)?;
            let (rack, nic) = (filled(&entry.rack)?, filled(&entry.nic)?);
            found.push(HostSpec { rack, address: address.transpose()?, cpus, nic, name: name.clone() });
        }
    }
    for rack in typed.rack {
        hosts::check(&rack.name)?;
        for name in hosts::parse(&rack.hosts, no_files)? {
            let host = found.iter_mut().find(|host| host.name == name);
            let host = host.ok_or_else(|| format!("rack {} names {name}, which is no [[host]]", rack.name))?;
            if host.rack.replace(rack.name.clone()).is_some() {
                return Err(format!("{name} is in two racks"));
            }
        }
    }
    let limits = typed.limits.into_iter().map(|(name, TypedLimit { of, pairs })| match pairs {
        0 => Err(format!("limits.{name}: pairs must be > 0")),
        _ => Ok(Limit { name, of, pairs }),
    });
    Ok(HostsFile {
        launch: typed.launch,
        program: typed.program,
        limits: limits.collect::<Result<_, _>>()?,
        hosts: found,
    })
}

/// `0,2-3`.
fn cpus(text: &str) -> Result<Vec<u32>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < MAX_CPUS);
        let (Some(first), Some(last)) = (number(first), number(last)) else {
            return Err(format!("{text:?} is not a list of CPUs such as 2-3"));
        };
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

/// A text in which `{i}`, the number of the host, and sums with it (`{(i-1)/8+1}`) are computed; `{host}` is its name.
fn fill(text: &str, host: &str, number: u64) -> Result<String, String> {
    if text.len() > 200 {
        return Err("a text of more than 200 characters".into());
    }
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once('{') {
        let (inner, behind) = behind.split_once('}').ok_or_else(|| format!("{text:?}: a {{ without its }}"))?;
        filled += before;
        match inner.trim() {
            "host" => filled += host,
            sum => {
                let letters: Vec<char> = sum.chars().filter(|letter| !letter.is_whitespace()).collect();
                let mut sum = Sum { letters: &letters, i: i64::try_from(number).map_err(|_| "a number too large")? };
                let value = sum.terms().filter(|_| sum.letters.is_empty());
                filled += &value.ok_or_else(|| format!("{text:?}: {inner:?} cannot be computed"))?.to_string();
            }
        }
        rest = behind;
    }
    Ok(filled + rest)
}

/// Whole numbers, `i`, + - * / % and parentheses.
struct Sum<'a> {
    letters: &'a [char],
    i: i64,
}

impl Sum<'_> {
    fn next(&mut self, of: &str) -> Option<char> {
        let (first, rest) = self.letters.split_first()?;
        of.contains(*first).then(|| {
            self.letters = rest;
            *first
        })
    }

    fn terms(&mut self) -> Option<i64> {
        let mut value = self.factors()?;
        while let Some(sign) = self.next("+-") {
            let other = self.factors()?;
            value = if sign == '+' { value.checked_add(other)? } else { value.checked_sub(other)? };
        }
        Some(value)
    }

    fn factors(&mut self) -> Option<i64> {
        let mut value = self.factor()?;
        while let Some(sign) = self.next("*/%") {
            let other = self.factor()?;
            value = match sign {
                '*' => value.checked_mul(other)?,
                '/' => value.checked_div_euclid(other)?,
                _ => value.checked_rem_euclid(other)?,
            };
        }
        Some(value)
    }

    fn factor(&mut self) -> Option<i64> {
        if self.next("(").is_some() {
            // At most 200 letters, so at most 200 deep.
            let value = self.terms()?;
            return self.next(")").map(|_| value);
        }
        if self.next("i").is_some() {
            return Some(self.i);
        }
        let mut value: Option<i64> = None;
        while let Some(digit) = self.next("0123456789") {
            value = Some(value.unwrap_or(0).checked_mul(10)?.checked_add(i64::from(digit.to_digit(10)?))?);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn racks_addresses_and_limits() {
        let file = parse(
            r#"
            launch = "ssh"
            [[host]]
            name = "n[1-16]"
            rack = "r{(i-1)/8+1}"
            address = "10.1.0.{i}"
            cpus = "2-3"
            [[host]]
            name = "gpu[001-002]"
            nic = "{host}-nic"
            [[rack]]
            name = "gpus"
            hosts = "gpu[001-002]"
            [limits]
            uplink = { of = "rack", pairs = 4 }
            "#,
        )
        .unwrap();
        assert_eq!((file.launch.as_deref(), file.hosts.len()), (Some("ssh"), 18));
        let n9 = &file.hosts[8];
        assert_eq!((n9.name.as_str(), n9.rack.as_deref(), n9.cpus.as_slice()), ("n9", Some("r2"), &[2, 3][..]));
        assert_eq!(n9.address, Some("10.1.0.9".parse().unwrap()));
        let gpu = &file.hosts[17];
        assert_eq!((gpu.rack.as_deref(), gpu.nic.as_deref()), (Some("gpus"), Some("gpu002-nic")));
        assert_eq!(file.limits, [Limit { name: "uplink".into(), of: Of::Rack, pairs: 4 }]);
    }

    #[test]
    fn sums_of_the_number() {
        for (text, filled) in [
            ("r{(i-1)/8+1}", Some("r2")),
            ("{i}.{ i % 4 }", Some("9.1")),
            ("{host}!", Some("n9!")),
            ("{i", None),
            ("{}", None),
            ("{j}", None),
            ("{i/0}", None),
            ("{(i}", None),
            ("{9223372036854775807*i}", None),
            ("plain", Some("plain")),
        ] {
            assert_eq!(fill(text, "n9", 9).ok().as_deref(), filled, "{text}");
        }
        assert!(fill(&format!("{{{}1{}}}", "(".repeat(90), ")".repeat(90)), "n9", 9).is_ok_and(|value| value == "1"));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for text in [
            "[[host]]\nname = 'n1'\n[[host]]\nname = 'n[1-2]'",
            "[[host]]\nname = 'n1'\nspeed = 3",
            "[[host]]\nname = 'n1'\naddress = 'n1.example'",
            "[[host]]\nname = 'n1'\n[[rack]]\nname = 'r1'\nhosts = 'n2'",
            "[[host]]\nname = 'n1'\nrack = 'r1'\n[[rack]]\nname = 'r2'\nhosts = 'n1'",
            "[limits]\nuplink = { of = 'rack', pairs = 0 }",
            "[limits]\nuplink = { of = 'street', pairs = 1 }",
            "[[host]]\nname = '@file'",
            "[[host]]\nname = 'n1'\ncpus = 'all'",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
