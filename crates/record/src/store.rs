//! The folder in which runs are kept: their names, the list of them, and what a user means by `RUN`.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use msgpath_core::calendar;
use msgpath_core::path::nearest;
use msgpath_core::schema::{RunHeader, Status};
use msgpath_core::shuffle::SplitMix64;
use msgpath_core::{Exit, Problem};

use crate::summary::read_summary;
use crate::{HEADER_FILE, RecordError, reader, temporary, utc};

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

/// A kind of thing that is kept, in a folder for each.
pub struct Kind {
    /// What one is called: `run`, `mesh`.
    pub name: &'static str,
    /// The file that every folder of it has, and none of another kind.
    pub file: &'static str,
    /// What records one.
    pub recorded_by: &'static str,
    /// What the list says of the one in a folder.
    pub listing: fn(&Path) -> Result<Listing, RecordError>,
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.file == other.file
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What the list says of anything that is kept.
#[derive(Clone, Debug)]
pub struct Listing {
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    pub verb: String,
    /// The far end, the hosts, what was watched, or the files.
    pub target: String,
    /// Cases in its plan; `None`: it has none.
    pub cases: Option<u64>,
    /// Rounds on disk, of a mesh pairs, by the heads of their blocks alone; `None`: it has none.
    pub rounds: Option<u64>,
    /// How it ended; `None`: the program was killed, or is still at it.
    pub status: Option<Status>,
}

#[derive(Clone, Debug)]
pub struct Kept {
    pub kind: &'static Kind,
    /// Name of its folder: what the user types.
    pub name: String,
    pub folder: PathBuf,
    /// What the list says of it.
    pub listing: Listing,
}

/// Runs: what was planned, and measured in rounds.
pub static RUN: Kind = Kind {
    name: "run",
    file: HEADER_FILE,
    recorded_by: "msgpath echo",
    listing: |folder| {
        let header = reader::header(folder)?;
        let (rounds, end) = reader::glance(folder)?;
        Ok(Listing {
            started: header.started,
            verb: header.verb,
            target: header.target,
            cases: Some(header.plan.cases.len() as u64),
            rounds: Some(rounds),
            status: end.map(|end| end.status),
        })
    },
};

/// A folder in which things are kept, and which kinds of things.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
    kinds: Vec<&'static Kind>,
}

impl Store {
    /// Runs and `kinds` below `root`, which need not be there.
    pub fn new(root: PathBuf, kinds: impl IntoIterator<Item = &'static Kind>) -> Self {
        Self { root, kinds: std::iter::once(&RUN).chain(kinds).collect() }
    }

    /// Everything that is kept, the newest first. What cannot be read is passed over.
    pub fn kept(&self) -> Vec<Kept> {
        let mut found: Vec<Kept> = self.read().filter_map(Result::ok).collect();
        // `started` is RFC 3339 in UTC, so the text sorts as the time does; the file's time decides within its resolution.
        found.sort_by_cached_key(|kept| {
            let changed = fs::metadata(kept.folder.join(kept.kind.file)).and_then(|data| data.modified()).ok();
            std::cmp::Reverse((kept.listing.started.clone(), changed, kept.name.clone()))
        });
        found
    }

    /// What [`Store::kept`] passes over although it is a record: those that are damaged or that another version wrote.
    pub fn unreadable(&self) -> Vec<RecordError> {
        self.read().filter_map(Result::err).collect()
    }

    fn read(&self) -> impl Iterator<Item = Result<Kept, RecordError>> {
        folders(&self.root).filter_map(|folder| {
            let (kind, name) = (self.kind(&folder)?, folder.file_name()?.to_str()?.to_owned());
            Some((kind.listing)(&folder).map(|listing| Kept { kind, name, folder, listing }))
        })
    }

    /// What is in `folder`; `None`: nothing that is kept.
    pub fn kind(&self, folder: &Path) -> Option<&'static Kind> {
        self.kinds.iter().find(|kind| holds(folder, kind.file)).copied()
    }

    /// What the user means by `text`: a name or a folder, whatever is in it; or the newest of the kinds `counted` by `@last`, the one
    /// before it by `@-2`, and so on (`@-1` is `@last`).
    ///
    /// # Errors
    /// E08 with exit code 2, and the nearest name.
    pub fn find(&self, text: &str, counted: &[&'static Kind]) -> Result<(&'static Kind, PathBuf), Problem> {
        if let Some(back) = text.strip_prefix('@') {
            let kept: Vec<_> = self.kept().into_iter().filter(|kept| counted.contains(&kept.kind)).collect();
            let at = self.newest(text, back, counted, kept.len())?;
            return Ok((kept[at].kind, kept[at].folder.clone()));
        }
        let is_name = Path::new(text).file_name().is_some_and(|name| name == text);
        let of = |folder: PathBuf| Some((self.kind(&folder)?, folder));
        let named = is_name.then(|| self.root.join(text)).and_then(of);
        let folder = || Some(PathBuf::from(text)).filter(|_| !text.is_empty()).and_then(of);
        named.or_else(folder).ok_or_else(|| self.unknown(text, counted))
    }

    /// Which one `@last` or `@-2` is, of so many, the newest first.
    fn newest(&self, text: &str, back: &str, counted: &[&Kind], count: usize) -> Result<usize, Problem> {
        let number = || back.strip_prefix('-')?.parse::<usize>().ok().filter(|number| *number > 0);
        let Some(number) = (if back == "last" { Some(1) } else { number() }) else {
            return Err(is_not(text, counted).why("counting back goes @last, @-2, @-3 ...    list: msgpath runs"));
        };
        match number <= count {
            true => Ok(number - 1),
            false if count == 0 => Err(self.nothing_yet(text, counted)),
            false => Err(is_not(text, counted).why(format!("the oldest is @-{count}    list: msgpath runs"))),
        }
    }

    fn nothing_yet(&self, text: &str, counted: &[&Kind]) -> Problem {
        let kind = first(counted);
        let what = if *kind == RUN { "nothing".to_owned() } else { format!("no {}", kind.name) };
        let why = format!("{what} has been recorded in {} yet", self.root.display());
        is_not(text, counted).why(why).hint(kind.recorded_by)
    }

    fn unknown(&self, text: &str, counted: &[&Kind]) -> Problem {
        let all = self.kept();
        if all.is_empty() {
            return self.nothing_yet(text, counted);
        }
        let near = nearest(text, all.iter().map(|kept| kept.name.as_str()));
        let why = match near.and_then(|name| all.iter().find(|kept| kept.name == name)) {
            Some(Kept { name, listing, .. }) => {
                format!("did you mean {name} ({})?    list: msgpath runs", when(&listing.started, SystemTime::now()))
            }
            None => "list: msgpath runs".into(),
        };
        is_not(text, counted).why(why)
    }
}

/// Whether a folder has something under the name of a record's file. What is no file there is an error to its reader, who names it.
pub(crate) fn holds(folder: &Path, file: &str) -> bool {
    fs::symlink_metadata(folder.join(file)).is_ok()
}

/// What the user most likely means, where several kinds count.
fn first<'a>(counted: &[&'a Kind]) -> &'a Kind {
    counted.first().copied().unwrap_or(&RUN)
}

fn is_not(text: &str, counted: &[&Kind]) -> Problem {
    Problem::new("E08", Exit::Usage, format!("{text:?} is not a {}", first(counted).name))
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

    fn store(root: &Path) -> Store {
        Store::new(root.into(), [])
    }

    fn run(root: &Path, text: &str) -> Result<PathBuf, Problem> {
        store(root).find(text, &[&RUN]).map(|(_, folder)| folder)
    }

    #[test]
    fn the_newest_comes_first_and_foreign_folders_do_not_come() {
        let root = root(&RUNS);
        fs::create_dir(root.path().join("photos")).unwrap();
        fs::create_dir(root.path().join("json")).unwrap();
        fs::write(root.path().join("json").join(HEADER_FILE), "{}").unwrap();
        fs::write(root.path().join("note"), "").unwrap();
        let whole = root.path().join("whole");
        test_run::write(&whole, 0);
        let store = store(root.path());
        let names = |list: &[Kept]| list.iter().map(|run| run.name.clone()).collect::<Vec<_>>();
        let runs = store.kept();
        assert_eq!(names(&runs), ["whole", "brisk-otter", "shy-hare", "calm-fox"]);
        assert_eq!((runs[0].listing.rounds, runs[0].listing.status), (Some(6), Some(Status::Ok)));
        assert_eq!((runs[1].listing.rounds, runs[1].listing.status), (Some(1), None));
        let rounds = whole.join(ROUNDS_FILE);
        let length = fs::metadata(&rounds).unwrap().len();
        File::options().write(true).open(&rounds).unwrap().set_len(length - 1).unwrap();
        let newest = || store.kept().remove(0).listing;
        assert_eq!((newest().rounds, newest().status), (Some(6), None));
        File::options().write(true).open(&rounds).unwrap().set_len(length / 2).unwrap();
        assert_eq!(newest().rounds, Some(reader::read(&whole).unwrap().rounds.len() as u64));
        assert!(super::tests::store(&root.path().join("nowhere")).kept().is_empty());
        let unreadable = store.unreadable();
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
            assert_eq!(run(root.path(), text), Ok(at(name)), "{text}");
        }
        assert_eq!(run(root.path(), "calm-fox"), Ok(at("calm-fox")));
        let folder = at("calm-fox");
        assert_eq!(run(Path::new("/nowhere"), folder.to_str().unwrap()), Ok(folder));
    }

    /// Notes: a file with the time at which it was written.
    static NOTE: Kind = Kind {
        name: "note",
        file: "note.txt",
        recorded_by: "a pencil",
        listing: |folder| {
            let file = folder.join("note.txt");
            let text = fs::read_to_string(&file).map_err(|source| RecordError::Read { file: file.clone(), source })?;
            match text.is_empty() {
                true => Err(RecordError::BadHeader { file, why: "empty".into() }),
                false => Ok(Listing {
                    started: text,
                    verb: "write".into(),
                    target: "paper".into(),
                    cases: None,
                    rounds: None,
                    status: Some(Status::Ok),
                }),
            }
        },
    };

    #[test]
    fn other_kinds_are_kept_beside_runs() {
        let root = root(&RUNS);
        let root = root.path();
        for (name, started) in [("bold-cat", "2020-01-04T00:00:00Z"), ("keen-crow", "2020-01-02T12:00:00Z")] {
            fs::create_dir(root.join(name)).unwrap();
            fs::write(root.join(name).join(NOTE.file), started).unwrap();
        }
        let store = Store::new(root.into(), [&NOTE]);
        let names = |store: &Store| store.kept().into_iter().map(|kept| kept.name).collect::<Vec<_>>();
        assert_eq!(names(&store), ["bold-cat", "brisk-otter", "keen-crow", "shy-hare", "calm-fox"]);
        assert_eq!(names(&self::store(root)), ["brisk-otter", "shy-hare", "calm-fox"]);
        let of = |text: &str, counted: &[&'static Kind]| {
            let (kind, folder) = store.find(text, counted)?;
            Ok((kind.name, folder.file_name().unwrap().to_str().unwrap().to_owned()))
        };
        let is = |kind, name: &str| Ok::<_, Problem>((kind, name.to_owned()));
        assert_eq!(of("@last", &[&RUN, &NOTE]), is("note", "bold-cat"));
        assert_eq!(of("@-2", &[&NOTE]), is("note", "keen-crow"));
        assert_eq!(of("@last", &[&RUN]), is("run", "brisk-otter"));
        assert_eq!(of("calm-fox", &[&NOTE]), is("run", "calm-fox"), "by its name it is found whatever it is");
        assert!(of("@-3", &[&NOTE]).unwrap_err().what.contains("is not a note"));
        assert!(of("keen-crew", &[&RUN]).unwrap_err().why.contains("keen-crow"));
        let nothing = Store::new(root.join("nowhere"), [&NOTE]).find("@last", &[&NOTE]).unwrap_err();
        assert!(nothing.why.starts_with("no note") && nothing.hint == "a pencil", "{nothing}");
        fs::write(root.join("keen-crow").join(NOTE.file), "").unwrap();
        assert_eq!((store.kept().len(), store.unreadable().len()), (4, 1));
    }

    #[track_caller]
    fn refused(root: &Path, text: &str, expected: &str) {
        let problem = run(root, text).unwrap_err();
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
