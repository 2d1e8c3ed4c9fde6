//! Lists of hosts, and files of them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msgpath_mesh::{hosts, hosts_file};

fuzz_target!(|text: &str| {
    let mut once = Some(text);
    if let Ok(names) = hosts::parse(text, &mut |_| once.take().map(str::to_owned).ok_or_else(String::new)) {
        assert!(names.len() <= hosts::MAX_HOSTS && names.iter().all(|name| hosts::check(name).is_ok()));
        let short = hosts::fold(names.iter().map(String::as_str));
        assert_eq!(hosts::parse(&short, &mut |_| Err(String::new())), Ok(names));
    }
    if let Ok(file) = hosts_file::parse(text) {
        assert!(file.hosts.iter().all(|host| hosts::check(&host.name).is_ok()));
    }
});
