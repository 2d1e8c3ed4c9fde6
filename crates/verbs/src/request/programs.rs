//! `--server`: programs of others as servers, and what goes to them.

use msgpath_core::path::PathName;
use msgpath_core::plan::Stamps;
use msgpath_core::program::{MAX_REQUEST, Program, Source, Talk};
use msgpath_core::units::Pieces;
use msgpath_core::{Problem, Target};

use super::Verb;
use crate::input;
use crate::options::{Options, StagesArg};
use crate::problems::usage;

/// The programs of a run and what goes to them.
#[derive(Debug, Default)]
pub(super) struct Programs {
    pub(super) each: Vec<Program>,
    pub(super) talk: Talk,
    /// Bytes of the request, where the user gave one.
    request: Option<usize>,
    /// The transport that the target named.
    pub(super) transport: Option<String>,
}

impl Programs {
    /// Those that were named, by `--server` or as the target, which is none then.
    ///
    /// # Errors
    /// What has no meaning with a program of others, or without one.
    pub(super) fn of(verb: Verb, options: &Options, target: &mut Option<Target>) -> Result<Self, Problem> {
        let mut each = options.server.programs.clone();
        let mut transport = None;
        if let Some(Target::Program { source, transport: named }) = target {
            each.push(Program { name: "raw".into(), source: source.clone(), folder: String::new() });
            transport = named.take();
            *target = None;
        }
        if each.is_empty() {
            let settings = &options.settings;
            return match (settings.frame, &settings.request_file, settings.patience_ms) {
                (None, None, None) => Ok(Self::default()),
                _ => Err(usage("-o frame, request-file and patience are for a program of yours as the server")
                    .hint("msgpath echo --server './server {port}' -o frame=line")),
            };
        }
        refuse(verb, options, each.len(), target.as_ref())?;
        let folder = std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default();
        for program in each.iter_mut().filter(|program| matches!(program.source, Source::Command(_))) {
            program.folder.clone_from(&folder);
        }
        let mut talk = Talk {
            framing: options.settings.frame.unwrap_or_default(),
            any_reply: options.timed.reply.is_some(),
            patience_ms: options.settings.patience_ms.unwrap_or(0),
            ..Talk::default()
        };
        let mut request = None;
        if let Some(file) = &options.settings.request_file {
            let bytes = input::read(file, MAX_REQUEST as u64)
                .map_err(|why| usage(format!("{} cannot be read: {why}", file.display())))?;
            if bytes.is_empty() {
                return Err(usage(format!("{} is empty: a request has a byte at least", file.display())));
            }
            request = Some(bytes.len());
            talk = talk.with_request(&bytes);
        }
        Ok(Self { each, talk, request, transport })
    }

    /// The messages, where they are those of programs.
    ///
    /// # Errors
    /// Messages that the framing cannot have.
    pub(super) fn shapes(&self, options: &Options, usual: Vec<Pieces>) -> Result<Vec<Pieces>, Problem> {
        if self.each.is_empty() {
            return Ok(usual);
        }
        let typed = options.message.pieces.is_some() || options.message.len.is_some();
        let shapes = match self.request {
            Some(_) if typed => {
                return Err(usage("-o request-file is the message, and so is -l").hint("one of the two"));
            }
            Some(bytes) => vec![Pieces::whole(bytes as u32)],
            None if typed => usual,
            None => vec![Pieces::whole(64)],
        };
        let (framing, least) = (self.talk.framing, self.talk.framing.least());
        match shapes.iter().find(|shape| shape.total() < least) {
            Some(shape) => Err(usage(format!("a message of {} bytes has no room for its length", shape.total()))
                .hint(format!("-l {least} or more with -o frame={}", framing.name()))),
            None => Ok(shapes),
        }
    }

    /// The paths to all servers: each path to our own and to every program where they are compared, to the program alone
    /// otherwise. Who names the program of a path has chosen.
    pub(super) fn paths(&self, verb: Verb, own: Vec<PathName>) -> Vec<PathName> {
        if own.iter().any(|path| path.program.is_some()) {
            return own;
        }
        let programs = || self.each.iter().map(|program| Some(program.name.clone()));
        let ours = (self.each.is_empty() || verb.is_compare()).then_some(None);
        let to_all = |path: &PathName| {
            let path = path.clone();
            ours.clone().into_iter().chain(programs()).map(move |program| path.clone().to(program)).collect::<Vec<_>>()
        };
        own.iter().flat_map(to_all).collect()
    }
}

/// What has no meaning with a program of others.
fn refuse(verb: Verb, options: &Options, programs: usize, target: Option<&Target>) -> Result<(), Problem> {
    let no = |what: &str, hint: &str| Err(usage(what.to_owned()).hint(hint.to_owned()));
    let (timed, settings) = (&options.timed, &options.settings);
    let explains = matches!(verb, Verb::Traced(_)) || timed.stages != StagesArg::Off;
    let scheduled = timed.rate.is_some();
    let unnumbered = timed.reply.is_some() || settings.request_file.is_some();
    if target.is_some() {
        no(
            "--server is the server, and so is a target",
            "one of the two; a program on another machine is started there: msgpath echo raw://HOST:PORT",
        )
    } else if options.connection.launch.launch.is_some() {
        no(
            "--server starts the program on this machine, and --launch a server of msgpath on another",
            "start it there, and msgpath echo raw://HOST:PORT",
        )
    } else if verb == Verb::Stream || verb == (Verb::Compare { stream: true }) {
        no("a program of others acknowledges no stream", "msgpath echo --server ./server")
    } else if programs > 1 && !verb.is_compare() {
        no("echo has one server", "msgpath compare --server './old {port}' --server './new {port}'")
    } else if explains {
        no(
            "--stages needs the stamps of both ends, and a program of others takes none",
            "msgpath echo --server ./server   with the CPU time of both ends",
        )
    } else if settings.stamps == Stamps::Both {
        no("a program of others stamps nothing", "leave out -o stamps")
    } else if settings.service_time.is_some() {
        no("the service time is spent by the server of msgpath", "leave out -o service-time")
    } else if scheduled && unnumbered {
        no(
            "a schedule tells replies apart by the number in their messages",
            "leave out --rate, or --reply and -o request-file",
        )
    } else {
        Ok(())
    }
}
