//! TCP and socket settings of this network namespace.

use msgpath_core::remedy::Setting;
use msgpath_core::units::size;

use super::verdict::Verdict;
use super::{Context, read};

const IPV4: &str = "/proc/sys/net/ipv4";
/// Less room than this for control data and a zero-copy sender is soon refused (`ENOBUFS`), bytes: the kernel's default
/// since 6.6.
const OPTMEM: u64 = 128 << 10;

/// Check 16.
pub(super) fn settings(_: &Context) -> Verdict {
    let line = |name: &str| read::line(&format!("{IPV4}/{name}"));
    let named = |name: &str, value: Result<String, String>| {
        Verdict::read(value, |value| Verdict::ok(format!("{name} {value}")))
    };
    let buffers = |name: &str| line(name).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    Verdict::all([
        Verdict::read(read::number(&Setting::SlowStart.path()), slow_start),
        Verdict::read(read::number(&Setting::Optmem.path()), optmem),
        Verdict::read(read::number(&Setting::BusyPoll.path()), |us| busy_poll("busy_poll", Setting::BusyPoll, us)),
        Verdict::read(read::number(&Setting::BusyRead.path()), |us| busy_poll("busy_read", Setting::BusyRead, us)),
        named("congestion control", line("tcp_congestion_control")),
        named("tcp_rmem", buffers("tcp_rmem")),
        named("tcp_wmem", buffers("tcp_wmem")),
        named("autocorking", line("tcp_autocorking")),
        Verdict::read(read::number(&format!("{IPV4}/tcp_notsent_lowat")), notsent),
    ])
}

fn slow_start(on: u64) -> Verdict {
    Verdict::warn_if(
        on != 0,
        format!("slow start after idle {}", if on != 0 { "on" } else { "off" }),
        "turn it off if your program does so too: after 200 ms without a message a large one starts with a small window",
    )
    .fix(Setting::SlowStart.remedy(&on.to_string()))
}

fn optmem(bytes: u64) -> Verdict {
    Verdict::warn_if(
        bytes < OPTMEM,
        format!("optmem_max {}", size(bytes)),
        "more: it limits the zero-copy sends that can be in flight",
    )
    .fix(Setting::Optmem.remedy(&bytes.to_string()))
    .with("optmem_max_bytes", bytes as f64)
}

fn busy_poll(name: &str, setting: Setting, us: u64) -> Verdict {
    Verdict::warn_if(
        us > 0,
        format!("{name} {us} µs"),
        "0: every wait of every socket spins in the kernel first, whatever its path is called",
    )
    .fix(setting.remedy(&us.to_string()))
}

fn notsent(bytes: u64) -> Verdict {
    // The default, the largest number of 32 bits, means no limit.
    let limit = if bytes >= u64::from(u32::MAX) { "no limit".into() } else { size(bytes) };
    Verdict::ok(format!("notsent_lowat {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn settings_that_show_in_the_numbers_warn_with_their_way_back() {
        assert_eq!(slow_start(0).state, CheckState::Ok);
        assert_eq!(slow_start(1).remedies, [Setting::SlowStart.remedy("1").unwrap()]);
        assert_eq!((optmem(131_072).state, optmem(20_480).state), (CheckState::Ok, CheckState::Warn));
        assert_eq!(optmem(20_480).remedies, [Setting::Optmem.remedy("20480").unwrap()]);
        assert_eq!(
            [0, 50].map(|us| busy_poll("busy_read", Setting::BusyRead, us).state),
            [CheckState::Ok, CheckState::Warn]
        );
        assert_eq!(notsent(u64::from(u32::MAX)).what, "notsent_lowat no limit");
        assert_eq!(notsent(16_384).what, "notsent_lowat 16 KiB");
    }
}
