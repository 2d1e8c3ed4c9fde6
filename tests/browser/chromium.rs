//! A browser without a window, driven over the DevTools protocol through two pipes: no port, no profile that stays, no
//! process that stays.

use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest that the browser may take for anything.
const LIMIT: Duration = Duration::from_secs(60);
/// What Debian and others call it.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// The installed browser; `None`: there is none, and a line says so.
pub(crate) fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("skipped: no chromium");
    }
    found
}

/// A running browser with one page; killed with all that it started, and its profile removed, when dropped.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    calls: u64,
    session: String,
    events: Vec<Value>,
    /// Its home and profile.
    folder: Option<tempfile::TempDir>,
}

impl Browser {
    /// Starts it with an empty page of 1200 x 900 pixels.
    ///
    /// # Panics
    /// It does not start.
    pub(crate) fn start(program: &Path) -> Browser {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new("sh");
        // The browser speaks on the descriptors 3 and 4.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"]).arg(program);
        command.args([
            "--headless",
            "--remote-debugging-pipe",
            "--no-sandbox", // root has none; the pages are our own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-breakpad",
            "--disable-crash-reporter",
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--window-size=1200,900",
        ]);
        command.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            command.env(name, folder.path());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().expect("a shell");
        let (input, mut output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let (mut bytes, mut part) = (Vec::new(), vec![0; 1 << 16]);
            while let Ok(length @ 1..) = output.read(&mut part) {
                bytes.extend_from_slice(&part[..length]);
                while let Some(end) = bytes.iter().position(|byte| *byte == 0) {
                    let message = serde_json::from_slice(&bytes[..end]).expect("the browser speaks JSON");
                    bytes.drain(..=end);
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            }
        });
        let (session, events) = (String::new(), Vec::new());
        let mut browser = Browser { child, input, messages, calls: 0, session, events, folder: Some(folder) };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().expect("a session").into();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// The next message, as far as there is one before `deadline`.
    fn receive(&mut self, deadline: Instant) -> Option<Value> {
        self.messages.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
    }

    /// Calls a method and returns its result.
    ///
    /// # Panics
    /// The browser says no, or nothing for too long.
    #[track_caller]
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": parameters});
        if !self.session.is_empty() {
            call["sessionId"] = self.session.as_str().into();
        }
        let written = self.input.write_all(format!("{call}\0").as_bytes());
        assert!(written.is_ok(), "{method}: the browser is gone");
        let deadline = Instant::now() + LIMIT;
        while let Some(mut message) = self.receive(deadline) {
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
        panic!("{method}: no answer within {LIMIT:?}");
    }

    /// Opens a file and waits until it is loaded. What was noted before is forgotten.
    #[track_caller]
    pub(crate) fn open(&mut self, file: &Path) {
        self.events.clear();
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        let deadline = Instant::now() + LIMIT;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive(deadline).unwrap_or_else(|| panic!("{} is not loaded", file.display()));
            self.events.push(event);
        }
    }

    /// The value of an expression, which may be a promise.
    #[track_caller]
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].take()
    }

    /// Waits until an expression holds.
    #[track_caller]
    pub(crate) fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.value(expression) != true {
            assert!(Instant::now() < deadline, "never true: {expression}; the browser said {:?}", self.complaints());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Moves the pointer to the middle of the first element of a selector, or to a share of its width and height, once
    /// it is in sight; the place in the window.
    #[track_caller]
    pub(crate) fn point(&mut self, selector: &str, (x, y): (f64, f64)) -> (f64, f64) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const r = e.getBoundingClientRect(); return [r.left + r.width * {x}, r.top + r.height * {y}] }})()"
        ));
        let at = (place[0].as_f64().expect("a number"), place[1].as_f64().expect("a number"));
        self.mouse("mouseMoved", at, json!({}));
        at
    }

    /// An event of the mouse at a place in the window.
    #[track_caller]
    pub(crate) fn mouse(&mut self, kind: &str, (x, y): (f64, f64), more: Value) {
        let mut event = json!({"type": kind, "x": x, "y": y, "button": "none"});
        for (name, value) in more.as_object().expect("an object") {
            event[name] = value.clone();
        }
        self.call("Input.dispatchMouseEvent", event);
    }

    /// Clicks at a share of the width and height of an element.
    #[track_caller]
    pub(crate) fn click(&mut self, selector: &str, share: (f64, f64)) {
        let at = self.point(selector, share);
        for kind in ["mousePressed", "mouseReleased"] {
            self.mouse(kind, at, json!({"button": "left", "clickCount": 1}));
        }
    }

    /// Presses a key, as `KeyboardEvent.key` names it.
    #[track_caller]
    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key, "text": text}));
        }
    }

    /// What the page complained of: errors, warnings and anything else on the console.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complains = |event: &&Value| {
            matches!(
                event["method"].as_str(),
                Some(
                    "Runtime.exceptionThrown"
                        | "Runtime.consoleAPICalled"
                        | "Log.entryAdded"
                        | "Inspector.targetCrashed"
                )
            )
        };
        self.events.iter().filter(complains).map(|event| event["params"].to_string()).collect()
    }

    /// Addresses that the page asked for since it was opened, pictures inside the page aside.
    pub(crate) fn requests(&self) -> Vec<String> {
        (self.events.iter())
            .filter(|event| event["method"] == "Network.requestWillBeSent")
            .filter_map(|event| event["params"]["request"]["url"].as_str())
            .filter(|url| !url.starts_with("data:"))
            .map(Into::into)
            .collect()
    }

    /// Colours for a light or a dark screen of this width, pixels.
    pub(crate) fn screen(&mut self, dark: bool, width: u32) {
        let value = if dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": value}]}),
        );
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Writes the page, or one element of it, to a file as PNG.
    pub(crate) fn screenshot(&mut self, selector: &str, file: &Path) {
        let clip = self.value(&format!(
            "(() => {{ const r = document.querySelector({selector:?}).getBoundingClientRect(); \
             return {{x: r.left + scrollX, y: r.top + scrollY, width: r.width, height: r.height, scale: 1}} }})()"
        ));
        let shot = self.call("Page.captureScreenshot", json!({"clip": clip, "captureBeyondViewport": true}));
        std::fs::write(file, unbase64(shot["data"].as_str().expect("base64"))).expect("a picture is written");
    }

    /// Its profile folder, to see that it is gone.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.as_ref().expect("still running").path().into()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Whatever of its group is left; the group is its own.
        let group = format!("-{}", self.child.id());
        let _ = Command::new("sh").args(["-c", "kill -s KILL -- \"$0\" 2>/dev/null", &group]).status();
        let _ = self.child.wait();
        // Those that die still write for a moment.
        let folder = self.folder.take().expect("dropped once").keep();
        while std::fs::remove_dir_all(&folder).is_err() && folder.exists() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = four.iter().enumerate().fold(0_u32, |bits, (at, c)| bits | u32::from(value(*c)) << (18 - 6 * at));
        out.extend(&bits.to_be_bytes()[1..four.len()]);
    }
    out
}
