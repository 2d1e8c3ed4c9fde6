//! Reading what the kernel shows as text. What cannot be read says why.

use std::fs;
use std::io;

/// The reason that is printed after `n/a: `.
pub fn reason(path: &str, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "not in this kernel".into(),
        io::ErrorKind::PermissionDenied => "needs root".into(),
        _ => error.to_string(),
    };
    format!("{path}: {why}")
}

/// A whole file.
pub fn text(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| reason(path, &error))
}

/// A file of one line, without its end; an empty one is a reason.
pub fn line(path: &str) -> Result<String, String> {
    let line = text(path)?.trim().to_owned();
    if line.is_empty() { Err(format!("{path}: empty")) } else { Ok(line) }
}

/// A file that holds one number.
pub fn number(path: &str) -> Result<u64, String> {
    let line = line(path)?;
    line.parse().map_err(|_| format!("{path}: not a number: {}", line.chars().take(40).collect::<String>()))
}

/// The names in a folder, in order; none where it cannot be read.
pub fn names(folder: &str) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The value of `key` in lines such as `Key:  value`.
pub fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// CPUs as the kernel lists them: `0-2,5`. Anything else is left out.
pub fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            cpus.extend(first..=last.min(first.saturating_add(8191)));
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_garbage_is_left_out() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert!(cpu_list("").is_empty());
        assert_eq!(cpu_list("managed_irq,domain,3"), [3]);
        assert_eq!(cpu_list("7-3,x-y,4294967295-4294967295").len(), 1);
        assert_eq!(cpu_list("0-4294967295").len(), 8192);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert_eq!(text("/proc/no such file").unwrap_err(), "/proc/no such file: not in this kernel");
        assert!(number("/proc/self/comm").unwrap_err().contains("not a number"));
        assert!(names("/proc/no such folder").is_empty());
        assert_eq!(field("A:\t1\nTracerPid:\t0\n", "TracerPid"), Some("0"));
        assert_eq!(field("nothing", "TracerPid"), None);
    }
}
