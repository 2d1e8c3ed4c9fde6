//! The folder in which runs are kept: their names, the list of them, and what a user means by `RUN`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use msgpath_core::calendar;
use msgpath_core::path::nearest;
use msgpath_core::schema::{RunHeader, Status};
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{Exit, Problem};

use crate::block::{self, Kind};
use crate::summary::read_summary;
use crate::tracers::{self, TRACERS_FILE, is_tracers};
use crate::watch::{REQUESTS_FILE, WATCH_FILE, is_watched, watch_header};
use crate::{HEADER_FILE, MESH_FILE, PAIRS_FILE, RecordError, mesh_header, reader, temporary, utc};

/// So many of the newest runs are looked at for such that are alike.
const LOOKED_AT: usize = 200;

/// Where runs are kept when nothing else is said: `msgpath` in `$XDG_DATA_HOME`, else in `~/.local/share`. As the XDG Base
/// Directory Specification has it, a relative path does not count. Where there is neither: a folder of this user's own in
/// the one for temporary files, see [`made_root`].
pub fn default_root() -> PathBuf {
    let temporary = std::env::temp_dir();
    home_root().or_else(|| temporary::kept_runs(&temporary)).unwrap_or(temporary.join("msgpath-runs"))
}

/// The same for a run that begins, and whether it is a folder for lack of a home: it is then made where it is not there yet,
/// for this user alone and under a name that nobody can guess.
///
/// # Errors
/// It cannot be made.
pub fn made_root() -> std::io::Result<(PathBuf, bool)> {
    match home_root() {
        Some(root) => Ok((root, false)),
        None => Ok((temporary::keep_runs(&std::env::temp_dir())?, true)),
    }
}

fn home_root() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    root_of(variable("XDG_DATA_HOME"), variable("HOME"))
}

fn root_of(data: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let home = home.filter(absolute).map(|home| home.join(".local/share"));
    data.filter(absolute).or(home).map(|root| root.join("msgpath"))
}

/// A run as the list shows it.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Name of its folder: what the user types.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// What was planned, and where.
    pub header: RunHeader,
    /// How it ended; `None`: the program was killed, or is still at it.
    pub status: Option<Status>,
    /// Rounds on disk, by the heads of their blocks alone.
    pub rounds: u64,
}

/// What is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum What {
    Run,
    Mesh,
    Watched,
    Tracers,
}

/// Anything that is kept, as the list shows it.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What it is.
    pub what: What,
    /// Name of its folder: what the user types.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The verb that wrote it.
    pub verb: String,
    /// The far end, the hosts, what was watched, or the files.
    pub target: String,
    /// Cases in its plan; `None`: it has none.
    pub cases: Option<u64>,
    /// Rounds on disk, of a mesh pairs; `None`: it has none.
    pub rounds: Option<u64>,
    /// How it ended; `None`: the program was killed, or is still at it.
    pub status: Option<Status>,
}

/// Everything that is kept in `root`, newest first. What cannot be read is passed over.
pub fn kept(root: &Path) -> Vec<Kept> {
    let mut found: Vec<Kept> = list(root)
        .into_iter()
        .map(|run| Kept {
            what: What::Run,
            name: run.name,
            folder: run.folder,
            started: run.header.started,
            verb: run.header.verb,
            target: run.header.target,
            cases: Some(run.header.plan.cases.len() as u64),
            rounds: Some(run.rounds),
            status: run.status,
        })
        .collect();
    for read in [mesh, watched, traced] {
        found.extend(folders(root).filter_map(|folder| read(folder).ok()));
    }
    found.sort_by_cached_key(|kept| std::cmp::Reverse((kept.started.clone(), changed_of(kept), kept.name.clone())));
    found
}

fn mesh(folder: PathBuf) -> Result<Kept, RecordError> {
    let header = mesh_header(&folder)?;
    let (pairs, end) = reader::heads(&folder.join(PAIRS_FILE), Kind::Pair, Kind::End)?;
    Ok(Kept {
        what: What::Mesh,
        name: name_of(&folder),
        started: header.started,
        verb: "mesh".into(),
        target: format!("{} hosts by {}", header.hosts.len(), header.launch.by),
        cases: Some(header.plan.cases.len() as u64),
        rounds: Some(pairs),
        status: end.and_then(|payload| block::decode_end(&payload).ok()).map(|end| end.status),
        folder,
    })
}

fn watched(folder: PathBuf) -> Result<Kept, RecordError> {
    let header = watch_header(&folder)?;
    let (_, end) = reader::heads(&folder.join(REQUESTS_FILE), Kind::Requests, Kind::WatchEnd)?;
    Ok(Kept {
        what: What::Watched,
        name: name_of(&folder),
        started: header.started,
        verb: "watch".into(),
        target: header.target,
        cases: None,
        rounds: None,
        status: end.map(|_| Status::Ok),
        folder,
    })
}

fn traced(folder: PathBuf) -> Result<Kept, RecordError> {
    let header = tracers::header(&folder)?;
    Ok(Kept {
        what: What::Tracers,
        name: name_of(&folder),
        started: header.started,
        verb: "import".into(),
        target: header.files.join(", "),
        cases: None,
        rounds: None,
        status: Some(Status::Ok),
        folder,
    })
}

fn changed_of(kept: &Kept) -> Option<SystemTime> {
    let file = match kept.what {
        What::Run => HEADER_FILE,
        What::Mesh => MESH_FILE,
        What::Watched => WATCH_FILE,
        What::Tracers => TRACERS_FILE,
    };
    fs::metadata(kept.folder.join(file)).and_then(|data| data.modified()).ok()
}

/// Whether a folder has something under the name of a record's file. What is no file there is an error to its reader, who names it.
pub(crate) fn holds(folder: &Path, file: &str) -> bool {
    fs::symlink_metadata(folder.join(file)).is_ok()
}

/// What is in `folder`; `None`: nothing that is kept.
fn what_is(folder: &Path) -> Option<What> {
    let files =
        [(HEADER_FILE, What::Run), (MESH_FILE, What::Mesh), (WATCH_FILE, What::Watched), (TRACERS_FILE, What::Tracers)];
    files.into_iter().find(|(file, _)| holds(folder, file)).map(|(_, what)| what)
}

/// What the user means by `text`: a name in `root` or a folder, whatever is in it, or the newest of these kinds by `@last`, `@-2`.
///
/// # Errors
/// E08 with exit code 2, and the nearest name.
pub fn find(root: &Path, text: &str, kinds: &[What]) -> Result<(What, PathBuf), Problem> {
    if let Some(back) = text.strip_prefix('@') {
        let kept: Vec<_> = kept(root).into_iter().filter(|kept| kinds.contains(&kept.what)).collect();
        let at = newest(root, text, back, kept.len())?;
        return Ok((kept[at].what, kept[at].folder.clone()));
    }
    let is_name = Path::new(text).file_name().is_some_and(|name| name == text);
    let of = |folder: PathBuf| Some((what_is(&folder)?, folder));
    let named = is_name.then(|| root.join(text)).and_then(of);
    let folder = || Some(PathBuf::from(text)).filter(|_| !text.is_empty()).and_then(of);
    named.or_else(folder).ok_or_else(|| unknown(root, text))
}

/// The runs in `root`, newest first. What is not a run, or not one that this version reads, is passed over; a root that
/// cannot be read holds none.
pub fn list(root: &Path) -> Vec<Listing> {
    let runs = folders(root).filter_map(|folder| Some((changed(&folder), listing(folder)?.ok()?)));
    let mut found: Vec<_> = runs.collect();
    // `started` is RFC 3339 in UTC, so the text sorts as the time does; the file's time decides within its resolution.
    found.sort_by(|(a_changed, a), (b_changed, b)| {
        (&b.header.started, b_changed, &b.name).cmp(&(&a.header.started, a_changed, &a.name))
    });
    found.into_iter().map(|(_, listing)| listing).collect()
}

/// What [`kept`] passes over in `root` although it is a record: those that are damaged or that another version wrote.
pub fn unreadable(root: &Path) -> Vec<RecordError> {
    let read = |folder: PathBuf| match what_is(&folder)? {
        What::Run => listing(folder)?.err(),
        What::Mesh => mesh(folder).err(),
        What::Watched => watched(folder).err(),
        What::Tracers => traced(folder).err(),
    };
    folders(root).filter_map(read).collect()
}

/// Stored summaries of the newest runs in `root` that are `alike`, newest first: at most `most` of the 200 that
/// changed last. They are what was printed then, and can be computed again from the record.
pub fn summaries(root: &Path, most: usize, alike: impl Fn(&RunHeader) -> bool) -> Vec<Vec<u8>> {
    let mut recent: Vec<_> = folders(root).filter_map(|folder| Some((changed(&folder)?, folder))).collect();
    recent.sort_unstable_by(|a, b| b.cmp(a));
    let stored = |(_, folder): (SystemTime, PathBuf)| {
        let header = reader::header(&folder).ok()?;
        if alike(&header) { read_summary(&folder).ok()? } else { None }
    };
    recent.into_iter().take(LOOKED_AT).filter_map(stored).take(most).collect()
}

fn folders(root: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// When the header of the run in `folder` was written last; `None`: there is none.
pub fn changed(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join(HEADER_FILE)).and_then(|data| data.modified()).ok()
}

/// The run in `folder`; `None`: none is there.
fn listing(folder: PathBuf) -> Option<Result<Listing, RecordError>> {
    let name = folder.file_name()?.to_str()?.to_string();
    let read = reader::header(&folder).and_then(|header| Ok((header, reader::glance(&folder)?)));
    Some(match read {
        Ok((header, (rounds, end))) => Ok(Listing { name, folder, header, status: end.map(|end| end.status), rounds }),
        Err(RecordError::NotARun { .. }) => return None,
        Err(error) => Err(error),
    })
}

/// The folder that the user means by `text`: the name of a run in `root`, a folder, `@last` for the newest run, `@-2`
/// for the one before it, and so on (`@-1` is `@last`).
///
/// # Errors
/// E08 with exit code 2, and the nearest name.
pub fn resolve(root: &Path, text: &str) -> Result<PathBuf, Problem> {
    if let Some(back) = text.strip_prefix('@') {
        let runs = list(root);
        return newest(root, text, back, runs.len()).map(|at| runs[at].folder.clone());
    }
    let is_run = |folder: &PathBuf| holds(folder, HEADER_FILE) || is_watched(folder) || is_tracers(folder);
    let is_name = Path::new(text).file_name().is_some_and(|name| name == text);
    let named = is_name.then(|| root.join(text)).filter(is_run);
    let folder = || Some(PathBuf::from(text)).filter(|folder| !text.is_empty() && is_run(folder));
    named.or_else(folder).ok_or_else(|| unknown(root, text))
}

/// The folder of the mesh that the user means by `text`: the name of one in `root`, a folder, `@last`, `@-2`.
///
/// # Errors
/// E08 with exit code 2.
pub fn resolve_mesh(root: &Path, text: &str) -> Result<PathBuf, Problem> {
    let unknown = || {
        let problem = Problem::new("E08", Exit::Usage, format!("{text:?} is not a mesh"));
        let names: Vec<String> = meshes(root).into_iter().map(|(_, folder)| name_of(&folder)).collect();
        match nearest(text, names.iter().map(String::as_str)) {
            Some(name) => problem.hint(name.to_string()),
            None => problem.why("meshes are recorded by   msgpath mesh HOSTS"),
        }
    };
    if let Some(back) = text.strip_prefix('@') {
        let number =
            if back == "last" { Some(1) } else { back.strip_prefix('-').and_then(|number| number.parse().ok()) };
        let at = number.filter(|number| *number > 0).ok_or_else(unknown)?;
        return meshes(root).into_iter().nth(at - 1).map(|(_, folder)| folder).ok_or_else(unknown);
    }
    named_mesh(root, text).ok_or_else(unknown)
}

fn named_mesh(root: &Path, text: &str) -> Option<PathBuf> {
    let is_mesh = |folder: &PathBuf| holds(folder, MESH_FILE);
    let is_name = Path::new(text).file_name().is_some_and(|name| name == text);
    let named = is_name.then(|| root.join(text)).filter(is_mesh);
    named.or_else(|| Some(PathBuf::from(text)).filter(|folder| !text.is_empty() && is_mesh(folder)))
}

fn changed_mesh(folder: &Path) -> Option<SystemTime> {
    fs::metadata(folder.join(MESH_FILE)).and_then(|data| data.modified()).ok()
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The meshes in `root` with the time at which they began, newest first. What cannot be read is passed over.
pub fn meshes(root: &Path) -> Vec<(String, PathBuf)> {
    let read = |folder: PathBuf| Some((mesh_header(&folder).ok()?.started, folder));
    let mut found: Vec<_> = folders(root).filter_map(read).collect();
    found.sort_by_cached_key(|(started, folder)| std::cmp::Reverse((started.clone(), changed_mesh(folder))));
    found
}

/// Which one `@last` or `@-2` is, of so many, the newest first.
fn newest(root: &Path, text: &str, back: &str, count: usize) -> Result<usize, Problem> {
    let number = || back.strip_prefix('-')?.parse::<usize>().ok().filter(|number| *number > 0);
    let Some(number) = (if back == "last" { Some(1) } else { number() }) else {
        return Err(not_a_run(text).why("counting back goes @last, @-2, @-3 ...    list: msgpath runs"));
    };
    match number <= count {
        true => Ok(number - 1),
        false if count == 0 => Err(nothing_yet(root, text)),
        false => Err(not_a_run(text).why(format!("the oldest is @-{count}    list: msgpath runs"))),
    }
}

fn not_a_run(text: &str) -> Problem {
    Problem::new("E08", Exit::Usage, format!("{text:?} is not a run"))
}

fn nothing_yet(root: &Path, text: &str) -> Problem {
    not_a_run(text).why(format!("nothing has been recorded in {} yet", root.display())).hint("msgpath echo")
}

fn unknown(root: &Path, text: &str) -> Problem {
    let all = kept(root);
    if all.is_empty() {
        return nothing_yet(root, text);
    }
    let near = nearest(text, all.iter().map(|kept| kept.name.as_str()));
    let why = match near.and_then(|name| all.iter().find(|kept| kept.name == name)) {
        Some(kept) => {
            format!("did you mean {} ({})?    list: msgpath runs", kept.name, when(&kept.started, SystemTime::now()))
        }
        None => "list: msgpath runs".into(),
    };
    not_a_run(text).why(why)
}

/// `today 10:04 UTC`, or the date and the time.
fn when(started: &str, now: SystemTime) -> String {
    let day =
        |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / calendar::DAY as u64);
    // A text that parses is ASCII of at least this length.
    match (utc::parse(started), started.get(..10), started.get(11..16)) {
        (Some(time), Some(_), Some(clock)) if day(time) == day(now) => format!("today {clock} UTC"),
        (Some(_), Some(date), Some(clock)) => format!("{date} {clock} UTC"),
        _ => "at an unknown time".into(),
    }
}

/// A name that no run in `root` has, such as `brisk-otter`; the same `seed` gives the same name in the same root.
pub fn new_name(root: &Path, seed: u64) -> String {
    let mut random = SplitMix64::new(seed);
    let mut free = |number: u32| {
        let words = format!("{}-{}", ADJECTIVES[random.below(64)], ANIMALS[random.below(64)]);
        // After many names that are taken, a number makes the supply endless.
        let name = if number < 64 { words } else { format!("{words}-{number}") };
        (!root.join(&name).exists()).then_some(name)
    };
    (0..).find_map(&mut free).expect("the numbers do not end before the runs do")
}

const ADJECTIVES: [&str; 64] = [
    "agile", "amber", "ample", "bold", "brave", "breezy", "bright", "brisk", "calm", "candid", "clever", "cosy",
    "crisp", "curious", "dapper", "daring", "eager", "early", "fair", "fleet", "fond", "frank", "fresh", "gentle",
    "glad", "golden", "grand", "happy", "hardy", "honest", "humble", "jolly", "keen", "kind", "lively", "loyal",
    "lucky", "mellow", "merry", "mild", "neat", "nimble", "noble", "patient", "plucky", "polite", "proud", "quick",
    "quiet", "rapid", "ready", "shy", "silver", "sleek", "smart", "snug", "spry", "steady", "sunny", "swift", "tidy",
    "trusty", "warm", "witty",
];

const ANIMALS: [&str; 64] = [
    "badger", "bat", "beaver", "bison", "bream", "carp", "cat", "crane", "cricket", "crow", "deer", "dingo", "dove",
    "duck", "eagle", "egret", "elk", "falcon", "ferret", "finch", "fox", "frog", "gecko", "goose", "gull", "hare",
    "hawk", "heron", "horse", "ibex", "ibis", "jackal", "jay", "kestrel", "kiwi", "koala", "lark", "lemur", "lion",
    "lizard", "llama", "lynx", "marten", "mole", "moose", "moth", "newt", "osprey", "otter", "owl", "panda", "perch",
    "puffin", "raven", "robin", "seal", "shrew", "stork", "swan", "tapir", "toad", "trout", "vole", "wren",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    use crate::{ROUNDS_FILE, RunWriter, test_run};

    /// A root with runs of these names and starts, one round each and no end.
    fn root(runs: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, started) in runs {
            let header = RunHeader { name: (*name).into(), started: (*started).into(), ..test_run::header(0) };
            let mut writer = RunWriter::create(&root.path().join(name), &header).unwrap();
            writer.round(&test_run::round(0, 0), &[]).unwrap();
        }
        root
    }

    const RUNS: [(&str, &str); 3] = [
        ("calm-fox", "2020-01-01T00:00:00Z"),
        ("brisk-otter", "2020-01-03T10:04:05Z"),
        ("shy-hare", "2020-01-02T00:00:00Z"),
    ];

    #[test]
    fn the_newest_comes_first_and_foreign_folders_do_not_come() {
        let root = root(&RUNS);
        fs::create_dir(root.path().join("photos")).unwrap();
        fs::create_dir(root.path().join("json")).unwrap();
        fs::write(root.path().join("json").join(HEADER_FILE), "{}").unwrap();
        fs::write(root.path().join("note"), "").unwrap();
        let whole = root.path().join("whole");
        test_run::write(&whole, 0);
        let names = |list: &[Listing]| list.iter().map(|run| run.name.clone()).collect::<Vec<_>>();
        let runs = list(root.path());
        assert_eq!(names(&runs), ["whole", "brisk-otter", "shy-hare", "calm-fox"]);
        assert_eq!((runs[0].rounds, runs[0].status), (6, Some(Status::Ok)));
        assert_eq!((runs[1].rounds, runs[1].status), (1, None));
        let rounds = whole.join(ROUNDS_FILE);
        let length = fs::metadata(&rounds).unwrap().len();
        File::options().write(true).open(&rounds).unwrap().set_len(length - 1).unwrap();
        assert_eq!((list(root.path())[0].rounds, list(root.path())[0].status), (6, None));
        File::options().write(true).open(&rounds).unwrap().set_len(length / 2).unwrap();
        assert_eq!(list(root.path())[0].rounds, reader::read(&whole).unwrap().rounds.len() as u64);
        assert!(list(&root.path().join("nowhere")).is_empty());
        let unreadable = unreadable(root.path());
        assert!(matches!(unreadable.as_slice(), [RecordError::BadHeader { .. }]), "{unreadable:?}");
    }

    #[test]
    fn summaries_of_runs_that_are_alike_come_newest_first() {
        let root = root(&RUNS);
        for (at, (name, _)) in RUNS.iter().enumerate() {
            let folder = root.path().join(name);
            crate::write_summary(&folder, name.as_bytes()).unwrap();
            let changed = UNIX_EPOCH + std::time::Duration::from_secs(at as u64);
            fs::File::open(folder.join(HEADER_FILE)).unwrap().set_modified(changed).unwrap();
        }
        let names = |most: usize| {
            let found = summaries(root.path(), most, |header| header.name != "brisk-otter");
            found.into_iter().map(|json| String::from_utf8(json).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(names(5), ["shy-hare", "calm-fox"]);
        assert_eq!(names(1), ["shy-hare"]);
        assert!(summaries(Path::new("/nowhere"), 5, |_| true).is_empty());
    }

    #[test]
    fn a_run_is_found_by_name_folder_and_age() {
        let root = root(&RUNS);
        let at = |name: &str| root.path().join(name);
        for (text, name) in [("@last", "brisk-otter"), ("@-1", "brisk-otter"), ("@-2", "shy-hare"), ("@-3", "calm-fox")]
        {
            assert_eq!(resolve(root.path(), text), Ok(at(name)), "{text}");
        }
        assert_eq!(resolve(root.path(), "calm-fox"), Ok(at("calm-fox")));
        let folder = at("calm-fox");
        assert_eq!(resolve(Path::new("/nowhere"), folder.to_str().unwrap()), Ok(folder));
    }

    #[test]
    fn what_was_watched_is_kept_beside_runs() {
        use crate::watch::{WATCH_FILE, WatchWriter};
        use msgpath_core::watch::{SCHEMA, WatchEnd, WatchHeader};
        let root = root(&RUNS);
        let root = root.path();
        for (name, ends) in [("bold-cat", true), ("keen-crow", false)] {
            let started = if ends { "2020-01-04T00:00:00Z" } else { "2020-01-02T12:00:00Z" };
            let header = WatchHeader {
                schema: SCHEMA.into(),
                name: name.into(),
                started: started.into(),
                target: "port 6379".into(),
                ..WatchHeader::default()
            };
            let writer = WatchWriter::create(&root.join(name), &header, 1).unwrap();
            if ends {
                writer.finish(WatchEnd::default()).unwrap();
            }
        }
        let all = kept(root);
        let seen: Vec<_> = all.iter().map(|kept| (kept.name.as_str(), kept.verb.as_str(), kept.status)).collect();
        assert_eq!(seen[0], ("bold-cat", "watch", Some(Status::Ok)));
        assert_eq!((seen[1].0, seen[2], seen.len()), ("brisk-otter", ("keen-crow", "watch", None), 5));
        assert_eq!((all[0].target.as_str(), all[0].rounds, all[1].rounds), ("port 6379", None, Some(1)));
        let of = |text: &str, kinds: &[What]| find(root, text, kinds).map(|(what, folder)| (what, name_of(&folder)));
        assert_eq!(of("@last", &[What::Run, What::Watched]), Ok((What::Watched, "bold-cat".into())));
        assert_eq!(of("@-2", &[What::Watched]), Ok((What::Watched, "keen-crow".into())));
        assert_eq!(of("@last", &[What::Run]), Ok((What::Run, "brisk-otter".into())));
        assert_eq!(of("calm-fox", &[What::Watched]), Ok((What::Run, "calm-fox".into())));
        assert!(of("@-3", &[What::Watched]).is_err() && of("@last", &[What::Mesh]).is_err());
        assert!(of("keen-crew", &[]).unwrap_err().why.contains("keen-crow"));
        fs::write(root.join("keen-crow").join(WATCH_FILE), "{}").unwrap();
        assert_eq!(kept(root).len(), 4);
    }

    #[test]
    fn texts_of_tracers_are_kept_beside_runs() {
        use crate::tracers::{SCHEMA, TracersHeader, write};
        let root = root(&RUNS);
        let header = TracersHeader {
            schema: SCHEMA.into(),
            name: "bold-cat".into(),
            started: "2020-01-04T00:00:00Z".into(),
            files: vec!["trace.txt".into()],
            ..TracersHeader::default()
        };
        write(&root.path().join("bold-cat"), &header, &[b"read(3) = 0\n".to_vec()]).unwrap();
        let newest = &kept(root.path())[0];
        assert_eq!(
            (newest.what, newest.name.as_str(), newest.target.as_str()),
            (What::Tracers, "bold-cat", "trace.txt")
        );
        let found = find(root.path(), "@last", &[What::Run, What::Tracers]).unwrap();
        assert_eq!((found.0, name_of(&found.1)), (What::Tracers, "bold-cat".into()));
    }

    #[track_caller]
    fn refused(root: &Path, text: &str, expected: &str) {
        let problem = resolve(root, text).unwrap_err();
        assert_eq!(problem.exit, Exit::Usage);
        assert_eq!(problem.to_string(), expected);
    }

    #[test]
    fn what_is_not_a_run_is_said_with_the_nearest_name() {
        let root = root(&RUNS);
        let root = root.path();
        refused(
            root,
            "brisk-oter",
            "error[E08]: \"brisk-oter\" is not a run\n  did you mean brisk-otter (2020-01-03 10:04 UTC)?    list: msgpath runs",
        );
        for text in ["zzzzzzzzzzzzzzzzzzzzzz", "/", "..", "", "."] {
            refused(root, text, &format!("error[E08]: {text:?} is not a run\n  list: msgpath runs"));
        }
        refused(root, "@-4", "error[E08]: \"@-4\" is not a run\n  the oldest is @-3    list: msgpath runs");
        for text in ["@", "@0", "@-0", "@first", "@--1"] {
            let why = "counting back goes @last, @-2, @-3 ...    list: msgpath runs";
            refused(root, text, &format!("error[E08]: {text:?} is not a run\n  {why}"));
        }
        let empty = root.join("calm-fox");
        let nothing = format!("nothing has been recorded in {} yet\n  try: msgpath echo", empty.display());
        refused(&empty, "@last", &format!("error[E08]: \"@last\" is not a run\n  {nothing}"));
    }

    #[test]
    fn the_day_is_said_in_words_when_it_is_today() {
        let now = utc::parse("2026-11-21T23:00:00Z").unwrap();
        assert_eq!(when("2026-11-21T10:04:05Z", now), "today 10:04 UTC");
        assert_eq!(when("2026-11-20T23:59:59Z", now), "2026-11-20 23:59 UTC");
        assert_eq!(when("yesterday", now), "at an unknown time");
    }

    #[test]
    fn names_are_new_and_words_differ() {
        let root = tempfile::tempdir().unwrap();
        let first = new_name(root.path(), 5);
        assert_eq!(first, new_name(root.path(), 5));
        fs::create_dir(root.path().join(&first)).unwrap();
        assert_ne!(first, new_name(root.path(), 5));
        for words in [ADJECTIVES, ANIMALS] {
            assert!(words.is_sorted_by(|a, b| a < b) && words.concat().bytes().all(|byte| byte.is_ascii_lowercase()));
        }
    }

    #[test]
    fn names_do_not_run_out() {
        let root = tempfile::tempdir().unwrap();
        for (adjective, animal) in ADJECTIVES.iter().flat_map(|a| ANIMALS.iter().map(move |b| (a, b))) {
            fs::write(root.path().join(format!("{adjective}-{animal}")), "").unwrap();
        }
        assert_eq!(new_name(root.path(), 1).split('-').count(), 3);
    }

    #[test]
    fn the_root_follows_the_environment() {
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(root_of(path("/data"), path("/home/u")), path("/data/msgpath"));
        assert_eq!(root_of(path("data"), path("/home/u")), path("/home/u/.local/share/msgpath"));
        assert_eq!(root_of(None, path("home")), None);
    }
}
