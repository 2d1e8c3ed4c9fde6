//! io_uring: whether it may be used here, and what it can do.

use std::io;

use msgpath_core::remedy::Setting;
use msgpath_sys::uring::Uring;

use super::verdict::Verdict;
use super::{Context, read};

/// Check 17. msgpath makes no polling thread in the kernel (SQPOLL), so no CPU is lost to one.
pub(super) fn uring(_: &Context) -> Verdict {
    let setting = read::line(&Setting::IoUring.path()); // kernels before 6.6 do not have it
    judge(setting.as_deref().ok(), Uring::new(4).and_then(|ring| ring.has_send_zc()))
}

/// The setting, and whether a ring could be made and knows the zero-copy send.
fn judge(setting: Option<&str>, ring: io::Result<bool>) -> Verdict {
    let set = setting.map_or(String::new(), |setting| format!(" (io_uring_disabled {setting})"));
    let error = match ring {
        Ok(zero_copy) => {
            let zero_copy = if zero_copy { "with zero-copy send" } else { "without zero-copy send (needs 6.0)" };
            return Verdict::ok(format!("io_uring works{set}, {zero_copy}, no SQPOLL thread is used"));
        }
        Err(error) => error,
    };
    let what = format!("io_uring does not work{set}: {error}; its paths are n/a");
    match setting {
        Some(now @ ("1" | "2")) => Verdict::warn(what, "io_uring_disabled 0, or a user in its io_uring_group")
            .fix(Setting::IoUring.remedy(now)),
        _ if error.raw_os_error() == Some(38) => Verdict::warn(what, "a kernel of 5.1 or later with io_uring built in"),
        _ => Verdict::warn(what, "a seccomp filter (a container's?) or a limit refuses it: see check 13 and 7"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msgpath_core::doctor::CheckState;

    #[test]
    fn whether_it_works_is_tried_and_the_setting_is_the_cure() {
        let refused = || Err(io::Error::from_raw_os_error(1));
        assert_eq!(judge(Some("0"), Ok(true)).state, CheckState::Ok);
        assert!(judge(None, Ok(false)).what.contains("without zero-copy"));
        assert_eq!(judge(Some("1"), Ok(true)).state, CheckState::Ok, "this user is in the group");
        let off = judge(Some("2"), refused());
        assert_eq!((off.state, off.remedies), (CheckState::Warn, vec![Setting::IoUring.remedy("2").unwrap()]));
        assert!(judge(Some("0"), refused()).cure.contains("seccomp"));
        assert!(judge(None, Err(io::Error::from_raw_os_error(38))).cure.contains("kernel"));
    }
}
