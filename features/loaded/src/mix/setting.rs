//! Who goes on in a round: everything, the run's own case alone, everything but one.

/// The label of a case whose rounds nothing else goes on beside.
pub const ALONE: &str = "alone";
/// That of a case beside which everything goes on.
pub const BESIDE: &str = "beside";
/// What the labels of the others begin with, before the number of what is switched off.
const WITHOUT: &str = "without ";

/// What goes on beside a case of the run in one of its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    Alone,
    All,
    /// Everything but this one.
    Without(usize),
}

impl Setting {
    /// Those of a case with `count` others beside it. Where there is one other, what is left without it is the case alone. The rounds
    /// in which the case itself is switched off are none of its own.
    pub fn of(count: usize) -> Vec<Self> {
        let each = (0..if count > 1 { count } else { 0 }).map(Setting::Without);
        [Setting::Alone, Setting::All].into_iter().chain(each).collect()
    }

    /// The label of its case.
    pub fn label(self) -> String {
        match self {
            Setting::Alone => ALONE.into(),
            Setting::All => BESIDE.into(),
            Setting::Without(other) => format!("{WITHOUT}{}", other + 1),
        }
    }

    /// That of a case with this label; `None`: of none.
    pub fn labelled(label: Option<&str>) -> Option<Self> {
        match label? {
            ALONE => Some(Setting::Alone),
            BESIDE => Some(Setting::All),
            label => {
                let number = label.strip_prefix(WITHOUT)?.parse::<usize>().ok()?;
                Some(Setting::Without(number.checked_sub(1)?))
            }
        }
    }

    /// Whether the other of this number goes on.
    pub fn has(self, other: usize) -> bool {
        match self {
            Setting::Alone => false,
            Setting::All => true,
            Setting::Without(off) => off != other,
        }
    }

    /// The setting in which this one of `count` others is switched off, and nothing else.
    pub fn off(other: usize, count: usize) -> Self {
        if count > 1 { Setting::Without(other) } else { Setting::Alone }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_is_switched_off_once_and_no_setting_comes_twice(count in 1_usize..=8) {
            let settings = Setting::of(count);
            let on = |setting: &Setting| (0..count).filter(|other| setting.has(*other)).collect::<Vec<_>>();
            let sets: BTreeSet<Vec<usize>> = settings.iter().map(on).collect();
            prop_assert_eq!(sets.len(), settings.len());
            prop_assert!(sets.contains(&Vec::new()) && sets.contains(&(0..count).collect::<Vec<_>>()));
            for other in 0..count {
                let off = Setting::off(other, count);
                prop_assert!(settings.contains(&off));
                let left: Vec<usize> = (0..count).filter(|one| *one != other).collect();
                prop_assert_eq!(on(&off), left);
            }
            for setting in settings {
                prop_assert_eq!(Setting::labelled(Some(&setting.label())), Some(setting));
            }
        }

        #[test]
        fn other_labels_are_of_no_setting(label in "[a-z 0-9]{0,20}") {
            prop_assume!(label != ALONE && label != BESIDE && !label.starts_with(WITHOUT));
            prop_assert_eq!(Setting::labelled(Some(&label)), None);
        }
    }

    #[test]
    fn a_number_that_is_none_is_of_no_setting() {
        for label in ["without 0", "without", "without x", "without 99999999999999999999"] {
            assert_eq!(Setting::labelled(Some(label)), None, "{label}");
        }
        assert_eq!(Setting::labelled(None), None);
    }
}
