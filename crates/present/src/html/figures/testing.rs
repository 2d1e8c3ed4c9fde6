//! What the tests of the figures share.

use super::{Drawn, Figure, Scene};
use crate::svg::Svg;

/// A figure as text: its note, its drawings, its numbers; or why there is none.
pub fn drawn(figure: &Figure, scene: &Scene<'_>) -> String {
    match (figure.draw)(scene) {
        Drawn::Nothing => "nothing".into(),
        Drawn::Unavailable(why) => format!("n/a: {why}"),
        Drawn::Picture(picture) => {
            let panels: String = picture.panels.iter().map(Svg::markup).collect();
            assert!(!panels.contains("NaN") && !panels.contains("inf"), "{panels}");
            assert!(picture.data.rows.iter().all(|row| row.len() == picture.data.heads.len()));
            format!("{}\n{panels}{}{}", picture.note, picture.after, picture.data.csv())
        }
    }
}
