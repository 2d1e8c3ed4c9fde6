//! The places of two ends on this machine: their link, looked at while something else may have changed it.

use std::path::Path;
use std::thread::Builder;

use msgpath_agent::team::no_thread;
use msgpath_core::plan::{Between, EndPlace};
use msgpath_core::schema::{FAR, NEAR};
use msgpath_core::{Exit, Problem};

/// Carries something out in another network namespace, on a thread that ends with it.
///
/// # Errors
/// E40.
pub fn within<T: Send + 'static>(namespace: &Path, what: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    let file = namespace.display().to_string();
    let cannot = || Problem::new("E40", Exit::CannotStart, format!("nothing can be done in the namespace {file}"));
    let entered = file.clone();
    let thread = Builder::new().spawn(move || msgpath_agent::namespace::enter(&entered).map(|()| what()));
    let done = thread.map_err(|error| cannot().why(no_thread(&error).why))?.join();
    done.unwrap_or_else(|_| Err(cannot().why("a thread ended")))
}

/// The problem of a run between two places, where it is that their link is gone; else as it was.
pub(crate) fn explain(between: Option<&Between>, problem: Problem) -> Problem {
    let Some(between) = between else { return problem };
    let (near, far) = (between.of(NEAR), between.of(FAR));
    // An interruption, or what could not start, has its own reason.
    if problem.exit != Exit::Unfinished {
        return problem;
    }
    let direction = |from: &EndPlace, to: &EndPlace| -> Result<(), String> {
        let to: std::net::IpAddr = to.address.parse().map_err(|_| String::new())?;
        within(Path::new(&from.namespace), move || msgpath_agent::route::to((to, 0)).map(drop))
            .map_err(|problem| problem.what)
            .and_then(|found| found)
    };
    match (direction(near, far), direction(far, near)) {
        (Ok(()), Ok(())) => problem,
        (Err(why), _) | (_, Err(why)) => {
            Problem::new("E46", Exit::Unfinished, format!("the link between {} and {} is gone", near.name, far.name))
                .why(format!("{why}; the run ended with {}: {}", problem.code, problem.what))
        }
    }
}
