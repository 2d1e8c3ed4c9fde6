//! The page of a preset: its tables, its questions with their answers, the claims it settles.

mod cells;
mod csv;
mod extras;
mod files;
mod html;
mod pictures;
mod text;
mod vehicles;
mod writes;

pub use csv::csv;
pub use extras::{Extra, FILES, PICTURES, Pictured, extras, pictures};
pub use html::html;
pub use text::text;
