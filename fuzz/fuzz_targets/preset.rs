//! Presets that users write: any text is a preset or a mistake with a place in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_courses::preset::Preset;

fuzz_target!(|text: &str| match Preset::parse(text) {
    Ok(preset) => assert!(preset.runs.iter().all(|run| run.command(&[], &|_| false)[0] == run.verb)),
    Err(mistake) => {
        let lines = text.split('\n').count();
        assert!((1..=lines).contains(&mistake.at.line), "{mistake}");
        let line = text.split('\n').nth(mistake.at.line - 1).unwrap_or_default();
        assert!((1..=line.chars().count() + 1).contains(&mistake.at.column), "{mistake}");
    }
});
