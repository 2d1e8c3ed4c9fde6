//! The small echo servers in other languages that come with the program (`languages/`, `--server example:LANGUAGE`): kept as
//! their sources, and built before a run where their toolchain is, in the user's cache.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use msgpath_core::Unavailable;
use msgpath_core::foreign::shown_bytes;
use msgpath_core::program::{Program, Source};
use msgpath_sys::temporary::{self, Temporary};

/// A server: its source, how it is built, how it is started.
struct Server {
    /// As typed: `example:go`.
    name: &'static str,
    file: &'static str,
    source: &'static str,
    /// What builds it, in the folder of its file; empty: nothing must.
    build: &'static [&'static str],
    /// What starts it; `{folder}` is that folder.
    start: &'static [&'static str],
    /// What to install where the toolchain is not there.
    needs: &'static str,
}

macro_rules! source {
    ($file:literal) => {
        include_str!(concat!("../languages/", $file))
    };
}

/// All of them.
const SERVERS: [Server; 6] = [
    Server {
        name: "c",
        file: "echo.c",
        source: source!("echo.c"),
        build: &["cc", "-O2", "-pthread", "-o", "echo", "echo.c"],
        start: &["{folder}/echo", "{port}"],
        needs: "sudo apt install gcc",
    },
    Server {
        name: "rust",
        file: "echo.rs",
        source: source!("echo.rs"),
        build: &["rustc", "--edition", "2021", "-O", "-o", "echo", "echo.rs"],
        start: &["{folder}/echo", "{port}"],
        needs: "Rust: https://rustup.rs",
    },
    Server {
        name: "go",
        file: "echo.go",
        source: source!("echo.go"),
        build: &["go", "build", "-o", "echo", "echo.go"],
        start: &["{folder}/echo", "{port}"],
        needs: "Go: sudo apt install golang",
    },
    Server {
        name: "java",
        file: "Echo.java",
        source: source!("Echo.java"),
        build: &["javac", "Echo.java"],
        start: &["java", "-cp", "{folder}", "Echo", "{port}"],
        needs: "a JDK: sudo apt install default-jdk-headless",
    },
    Server {
        name: "python",
        file: "echo.py",
        source: source!("echo.py"),
        // As it is, so that a missing interpreter is noticed here.
        build: &["python3", "-m", "py_compile", "echo.py"],
        start: &["python3", "{folder}/echo.py", "{port}"],
        needs: "sudo apt install python3",
    },
    Server {
        name: "node",
        file: "echo.mjs",
        source: source!("echo.mjs"),
        build: &["node", "--check", "echo.mjs"],
        start: &["node", "{folder}/echo.mjs", "{port}"],
        needs: "sudo apt install nodejs",
    },
];

/// Makes commands of the examples among these programs. What cannot be built here is left out of the run with its reason.
pub fn build(programs: &mut [Program]) {
    for program in programs {
        if let Source::Example(name) = &program.source {
            program.source = match ready(name) {
                Ok(words) => Source::Command(words),
                Err(Unavailable { why, hint }) => Source::Missing { example: name.clone(), why, hint },
            };
        }
    }
}

fn ready(name: &str) -> Result<Vec<String>, Unavailable> {
    let server = SERVERS.iter().find(|server| server.name == name).ok_or_else(|| {
        let names: Vec<&str> = SERVERS.iter().map(|server| server.name).collect();
        Unavailable::new(format!("there is no example server in {name}"), format!("one of {}", names.join(", ")))
    })?;
    let root = cache().ok_or_else(|| {
        Unavailable::new("there is no folder to build it in", "XDG_CACHE_HOME, or HOME with a folder of yours")
    })?;
    server.ready(&root)
}

/// The user's cache; never a folder that others may write to.
fn cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(root.join("msgpath").join("servers"))
}

impl Server {
    /// Builds it in a folder of its own below `root`, unless that was done before; the command line that starts it.
    ///
    /// # Errors
    /// Its toolchain is not there or does not build it, or the folder cannot be made.
    fn ready(&self, root: &Path) -> Result<Vec<String>, Unavailable> {
        let folder = root.join(self.folder());
        if !folder.is_dir() {
            self.build(root, &folder)?;
        }
        let folder = folder.display().to_string();
        Ok(self.start.iter().map(|word| word.replace("{folder}", &folder)).collect())
    }

    /// The name of its folder: another source is another folder.
    fn folder(&self) -> String {
        let build = self.build.join(" ");
        let sum = self.source.bytes().chain(build.bytes());
        let sum =
            sum.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("{}-{sum:016x}", self.name)
    }

    fn build(&self, root: &Path, folder: &Path) -> Result<(), Unavailable> {
        let cannot = |error: io::Error| {
            Unavailable::new(format!("{} could not be written: {error}", root.display()), "XDG_CACHE_HOME")
        };
        // Built aside and then named, so that what has the name is whole, whoever builds at the same time.
        fs::create_dir_all(root).map_err(cannot)?;
        temporary::sweep(root);
        let aside = Temporary::new_in(root).map_err(cannot)?;
        fs::write(aside.path().join(self.file), self.source).map_err(cannot)?;
        self.compile(aside.path())?;
        match fs::rename(aside.path(), folder).is_ok() || folder.is_dir() {
            true => Ok(()), // here, or where another was first
            false => Err(cannot(io::Error::other("it could not be given its name"))),
        }
    }

    fn compile(&self, folder: &Path) -> Result<(), Unavailable> {
        let [program, arguments @ ..] = self.build else { return Ok(()) };
        let text = Command::new(program).args(arguments).current_dir(folder).stdin(Stdio::null()).output();
        let text = text.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Unavailable::new(format!("{program} is not installed"), self.needs),
            _ => Unavailable::new(format!("{program} could not be started: {error}"), self.needs),
        })?;
        if text.status.success() {
            return Ok(());
        }
        let last = text.stderr.rsplit(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let why = shown_bytes(last.unwrap_or_default(), 300);
        Err(Unavailable::new(format!("{program} did not build its server: {why}"), self.needs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_built_once_and_what_cannot_be_built_says_why() {
        let root = std::env::temp_dir().join(format!("msgpath-servers-{}", std::process::id()));
        let plain = Server {
            name: "plain",
            file: "a.txt",
            source: "hello",
            build: &["cp", "a.txt", "b.txt"],
            start: &["cat", "{folder}/b.txt", "{port}"],
            needs: "nothing",
        };
        let words = plain.ready(&root).unwrap();
        assert_eq!(fs::read_to_string(&words[1]).unwrap(), "hello");
        assert_eq!(words, plain.ready(&root).unwrap());
        // Named whole: of a folder in PATH that may not be searched the answer is another one.
        let missing = Server { name: "missing", build: &["/no-such-compiler"], ..plain };
        let why = missing.ready(&root).unwrap_err();
        assert_eq!((&*why.why, &*why.hint), ("/no-such-compiler is not installed", "nothing"));
        let broken = Server { build: &["cp", "absent.txt", "b.txt"], ..missing };
        assert!(broken.ready(&root).unwrap_err().why.starts_with("cp did not build its server: "));
        // Nothing that is half built is left.
        assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn every_server_takes_its_port() {
        for server in &SERVERS {
            assert!(server.start.contains(&"{port}") && !server.source.is_empty(), "{}", server.name);
            assert!(server.start.iter().any(|word| word.contains("{folder}")), "{}", server.name);
        }
        assert!(ready("cobol").is_err_and(|missing| missing.why == "there is no example server in cobol"));
    }
}
