//! The report: one HTML file that needs no network and no script. Sentences first, then pictures, then every number.

mod compared;
mod embed;
mod encode;
pub mod figures;
mod front;
pub mod page;
pub mod png;
mod scene;
mod tables;

use crate::section;
use crate::svg::{self, escape};
pub use embed::DEFAULT_EMBED;
pub use embed::pack;
#[cfg(any(test, feature = "testing"))]
pub use embed::testing as embed_testing;
pub use encode::{base64, json_block};
use page::{G, Page};
pub use scene::{Earlier, Messages, Scene};

/// What a browser may do with the file: show it. It cannot call home, and a hostile name cannot fetch anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// Colours and classes of the pictures.
pub(crate) const FIGURES: &str = include_str!("style/figures.css");
/// The same colours for dark screens.
const DARK: &str = include_str!("style/dark.css");
/// The page around them.
const PAGE: &str = include_str!("style/page.css");

/// Read-outs and the message timeline; everything else is complete without it.
pub(crate) fn script() -> String {
    crate::packed::text(include_bytes!(concat!(env!("OUT_DIR"), "/script.js")))
}

/// The report of a run as one self-contained HTML file: a sentence, a picture, what limits them; everything else is folded
/// below.
pub fn report(scene: &Scene<'_>) -> String {
    let (run, summary) = (scene.run, scene.summary);
    let mut page = Page::new();
    let cases = scene.measured();
    let drawn = figures::drawn(scene);
    let large = figures::first(scene, &drawn);
    front::write(&mut page, scene, &cases, &drawn, &large);
    match &scene.earlier {
        Some(earlier) => {
            compared::tables(&mut page, earlier);
            page.end_section();
            let before = Scene { messages: earlier.messages.clone(), ..Scene::new(earlier.run, earlier.summary) };
            let before_drawn = figures::drawn(&before);
            let names = (earlier.summary.name.as_str(), summary.name.as_str());
            figures::folded(&mut page, &drawn, &large, Some((names.0, names.1, &before_drawn)));
        }
        None => figures::folded(&mut page, &drawn, &large, None),
    }
    front::findings(&mut page, summary);
    tables::layers(&mut page, summary);
    if let Some(comparison) = &summary.comparison {
        tables::comparison(&mut page, &scene.grid(), comparison);
    }
    section::all().for_each(|section| (section.tables)(&mut page, summary));
    tables::latency(&mut page, run, &cases);
    tables::throughput(&mut page, summary);
    tables::programs(&mut page, run, summary);
    tables::costs(&mut page, &cases);
    tables::events(&mut page, &cases);
    tables::unavailable(&mut page, summary);
    tables::environment(&mut page, run, summary, &cases);
    page.end_section();
    page.raw(&format!(
        "<footer>msgpath {} · schema {} · run {} · {} rounds · this file is self-contained and makes no network request</footer>\n",
        escape(&run.header.version),
        escape(&summary.schema),
        escape(&summary.name),
        summary.totals.rounds
    ));
    let script = script_of(&drawn);
    document(&format!("msgpath {} {}", summary.verb, summary.name), page, &script)
}

/// The script of a page with these figures.
fn script_of(drawn: &[figures::Done]) -> String {
    let sections = section::all()
        .filter(|section| section.figures.iter().any(|figure| drawn.iter().any(|(own, _)| own.name == figure.name)));
    sections.fold(script(), |script, section| script + section.script)
}

/// A whole HTML file: the contents, and the body inside the page's style, with `script` where there is one.
pub(crate) fn document(title: &str, page: Page, script: &str) -> String {
    let script = match script {
        "" => String::new(),
        script => format!("<script type=\"module\">\n{script}</script>\n"),
    };
    let (links, body) = page.finish();
    let contents = match links.as_str() {
        "" => String::new(),
        links => format!("<nav aria-label=\"contents\">\n{links}</nav>\n"),
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{contents}<main>\n{body}</main>\n{script}</body>\n</html>\n",
        escape(title),
        style(),
    )
}

/// The drawings of the first screen of a run's report, the first view of them, and how they are read; none where nothing could
/// be drawn.
pub fn large(scene: &Scene<'_>) -> Option<(&'static figures::Figure, Vec<svg::Svg>)> {
    let drawn = figures::drawn(scene);
    let name = figures::first(scene, &drawn).into_iter().next()?;
    drawn.into_iter().find(|(figure, _)| figure.name == name).and_then(|(figure, drawn)| match drawn {
        figures::Drawn::Picture(mut picture) => {
            let first = picture.views.first().map_or(picture.panels.len(), |(_, panels)| *panels);
            picture.panels.truncate(first);
            (!picture.panels.is_empty()).then_some((figure, picture.panels))
        }
        _ => None,
    })
}

/// One figure of the report as an SVG file; why there is none otherwise.
///
/// # Errors
/// The figure does not concern this run, its data is missing, or it is not a drawing.
pub fn figure_file(scene: &Scene<'_>, figure: &figures::Figure) -> Result<String, String> {
    match (figure.draw)(scene) {
        figures::Drawn::Nothing => Err("it does not concern this run".into()),
        figures::Drawn::Unavailable(why) => Err(why),
        figures::Drawn::Picture(picture) if picture.panels.is_empty() => Err("it is not a drawing".into()),
        figures::Drawn::Picture(picture) => Ok(svg::file(figure.heading, &picture.panels, FIGURES)),
    }
}

/// The style sheet: light, dark where the screen asks for it or the reader chose it, and light again on paper.
fn style() -> String {
    let dark = DARK.trim();
    format!(
        "{FIGURES}@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n@media screen{{:root[data-theme=dark]{{{dark}}}}}\n{PAGE}"
    )
}

#[cfg(test)]
mod tests;
