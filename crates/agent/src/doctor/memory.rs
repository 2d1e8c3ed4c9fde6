//! Memory: huge pages, swap, page merging, pressure, and where programs are put.

use msgpath_core::remedy::{Remedy, Setting};
use msgpath_core::units::{size, three_digits};

use super::verdict::Verdict;
use super::{Context, read};

/// Share of the last ten seconds in which some task waited for memory that warns, %.
const PRESSURE_PERCENT: f64 = 1.0;

/// Check 12.
pub(super) fn memory(_: &Context) -> Verdict {
    Verdict::all([
        Verdict::read(read::line(&Setting::HugePages.path()), |text| huge_pages(&text)),
        Verdict::read(read::text("/proc/swaps"), |text| swap(&text)),
        Verdict::read(read::line(&Setting::PageMerging.path()), |text| merging(&text)),
        Verdict::read(read::text("/proc/pressure/memory"), |text| pressure(&text)),
        Verdict::read(read::line(&Setting::AddressLayout.path()), |text| layout(&text)),
    ])
}

fn huge_pages(text: &str) -> Verdict {
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    let Some(now) = chosen else {
        return Verdict::none(format!("{}: not as expected", Setting::HugePages.path()));
    };
    let cure = "madvise: with always, the kernel collects and clears huge pages while messages wait";
    Verdict::warn_if(now == "always", format!("huge pages {now}"), cure).fix(Setting::HugePages.remedy(now))
}

/// `/proc/swaps`: a head, then one line each: name, type, size and used in KiB.
fn swap(text: &str) -> Verdict {
    let lines: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let used: Option<u64> = lines.iter().map(|words| words.get(3)?.parse::<u64>().ok()).sum();
    match used {
        None => Verdict::none("/proc/swaps: not as expected"),
        Some(_) if lines.is_empty() => Verdict::ok("no swap"),
        Some(used) => Verdict::warn_if(
            used > 0,
            format!("{} swapped out", size(used.saturating_mul(1024))),
            "no swap while measuring: a page that comes back from disk costs milliseconds",
        )
        .fix(Some(Remedy::SwapOff))
        .with("swapped_bytes", used as f64 * 1024.0),
    }
}

fn merging(text: &str) -> Verdict {
    let on = text == "1";
    let what = if on { "page merging (KSM) runs" } else { "no page merging" };
    Verdict::warn_if(on, what, "no KSM while measuring: it takes CPU time and unshares pages at a write")
        .fix(Setting::PageMerging.remedy(text))
}

fn pressure(text: &str) -> Verdict {
    let value = text.lines().find_map(|line| line.strip_prefix("some avg10=")?.split(' ').next()?.parse::<f64>().ok());
    match value {
        Some(percent) => Verdict::warn_if(
            percent > PRESSURE_PERCENT,
            format!("tasks waited for memory in {} % of the last 10 s", three_digits(percent)),
            "stop what uses the memory",
        )
        .with("memory_pressure_percent", percent),
        None => Verdict::none("/proc/pressure/memory: not as expected"),
    }
}

fn layout(text: &str) -> Verdict {
    let cure = "randomize_va_space 2: with a fixed layout one binary is faster by luck, every time";
    let what = if text == "2" { "addresses randomised".to_owned() } else { format!("randomize_va_space {text}") };
    Verdict::warn_if(text != "2", what, cure).fix(Setting::AddressLayout.remedy(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn each_setting_is_judged() {
        assert_eq!(huge_pages("always [madvise] never").state, CheckState::Ok);
        let always = huge_pages("[always] madvise never");
        assert_eq!(always.state, CheckState::Warn);
        assert_eq!(always.remedies, [Setting::HugePages.remedy("always").unwrap()]);
        assert_eq!(huge_pages("always").state, CheckState::NotAvailable);

        let head = "Filename\tType\tSize\tUsed\tPriority\n";
        assert_eq!(swap(head).what, "no swap");
        assert_eq!(swap(&format!("{head}/dev/sda2 partition 1000 0 -2\n")).state, CheckState::Ok);
        let used = swap(&format!("{head}/dev/sda2 partition 1000 512 -2\n/f file 9 512 -3\n"));
        assert_eq!((used.state, used.what.as_str()), (CheckState::Warn, "1 MiB swapped out"));
        assert_eq!(swap(&format!("{head}/dev/sda2\n")).state, CheckState::NotAvailable);

        assert_eq!(merging("0").state, CheckState::Ok);
        assert_eq!(merging("1").remedies, [Setting::PageMerging.remedy("1").unwrap()]);
        assert_eq!(pressure("some avg10=0.00 total=0").state, CheckState::Ok);
        assert_eq!(pressure("some avg10=3.10 avg60=1 total=0").state, CheckState::Warn);
        assert_eq!(pressure("").state, CheckState::NotAvailable);

        assert_eq!(layout("2").state, CheckState::Ok);
        assert_eq!((layout("0").state, layout("1").state), (CheckState::Warn, CheckState::Warn));
    }
}
