//! Where the record of a run goes.

use std::path::PathBuf;

use msgpath_core::Problem;
use msgpath_record::temporary;

use crate::request::random_seed;
use crate::runs;

/// Name and folder of a run. A folder that nobody wants to keep is removed, whatever happens.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) temporary: bool,
}

impl Place {
    /// Among the runs that are kept.
    ///
    /// # Errors
    /// The name is taken.
    pub(crate) fn kept(name: Option<&str>) -> Result<Self, Problem> {
        let (name, folder) = runs::new_place(name)?;
        Ok(Self { name, folder, temporary: false })
    }

    /// Kept until it is dropped, or until the next run where this one is killed.
    pub(crate) fn temporary() -> Self {
        Self { name: "unsaved".into(), folder: temporary::folder(random_seed()), temporary: true }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.temporary {
            // Nothing to say when it was never made.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}
