//! Where the record of a run goes.

use std::path::PathBuf;

use msgpath_core::{Exit, Problem};
use msgpath_sys::limits::remedy;
use msgpath_sys::signal;
use msgpath_sys::temporary::Temporary;

use crate::problems::cannot_write;
use crate::runs;

/// Name and folder of a run.
pub struct Place {
    pub name: String,
    pub folder: PathBuf,
    /// The folder goes with the value: nobody wants to keep the run.
    temporary: Option<Temporary>,
}

impl Place {
    /// Among the runs that are kept.
    ///
    /// # Errors
    /// The name is taken.
    pub fn kept(name: Option<&str>) -> Result<Self, Problem> {
        let (name, folder) = runs::new_place(name)?;
        Ok(Self { name, folder, temporary: None })
    }

    /// Kept until it is dropped, or until the next start of msgpath where this one is killed.
    ///
    /// # Errors
    /// E12: the folder cannot be made.
    pub fn temporary() -> Result<Self, Problem> {
        // Before there is a folder: a signal that ends the process at once would leave it.
        signal::stop_flag();
        let made = Temporary::new().map_err(|error| Problem {
            // Nothing was measured yet.
            exit: Exit::CannotStart,
            ..cannot_write(&std::env::temp_dir(), &error).hint(remedy(&error))
        })?;
        Ok(Self { name: "unsaved".into(), folder: made.path().to_path_buf(), temporary: Some(made) })
    }

    /// Whether the run stays when this program has ended.
    pub fn is_kept(&self) -> bool {
        self.temporary.is_none()
    }
}
