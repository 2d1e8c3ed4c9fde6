//! The time of a case in its stages, for the figure that divides it by how slow messages were.

use msgpath_analyse::Summary;
use msgpath_present::html::figures::{Divided, Part, colour, hatched};

use crate::analyse::attribution;
use crate::analyse::bands::Stage;
use crate::analyse::stage::{Kind, StageDirection};

/// What the kernel tells.
fn part(stage: &Stage) -> Part {
    let colour = colour(stage.kind);
    let (name, column) = match stage.direction {
        Some(direction) => {
            (format!("{}: {}", direction.name(), stage.name), format!("{} {}", direction.name(), stage.name))
        }
        None => (stage.name.clone(), stage.name.clone()),
    };
    let column: String = column.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let hatched = hatched(stage.kind);
    Part { name, stage: stage.name.clone(), column: format!("{column}_ns"), colour, crosses: false, hatched }
}

/// The stages of a case, where it has a traced replica whose split is shown.
pub(super) fn divided(summary: &Summary, case: u32) -> Option<Divided> {
    let found = attribution(summary).iter().find(|stages| stages.case == case && stages.why.is_none())?;
    let mut parts: Vec<Part> = found.stages.iter().map(part).collect();
    // By its clock the far end has what is between the way there and the way back.
    let way = |direction| {
        let crosses = |stage: &Stage| stage.kind == Kind::Device && stage.direction == Some(direction);
        found.stages.iter().position(crosses)
    };
    let borders = [way(StageDirection::Request), way(StageDirection::Reply).and_then(|at| at.checked_sub(1))];
    for at in borders.into_iter().flatten().filter(|_| found.within_ns.is_some()) {
        parts[at].crosses = true;
    }
    Some(Divided {
        parts,
        bands: found.bands.iter().filter(|band| band.name != "all").cloned().collect(),
        messages: found.complete,
        noun: "traced message",
        borders: "when the request came to the far end's host and when the reply left it is",
        within_ns: found.within_ns,
    })
}

#[cfg(test)]
mod tests {
    use msgpath_present::html::Scene;
    use msgpath_present::html::figures::figure;
    use msgpath_present::html::figures::testing::drawn;
    use msgpath_present::section;

    use msgpath_record::Run;

    use super::*;
    use crate::present::{SECTION, fixture};

    fn picture(run: &Run, summary: &Summary) -> String {
        section::add(&SECTION);
        drawn(figure("stages").unwrap(), &Scene::new(run, summary))
    }

    #[test]
    fn with_kernel_events() {
        let (run, summary) = fixture::explained();
        insta::assert_snapshot!("stages_traced", picture(&run, &summary));
    }

    #[test]
    fn between_two_hosts_the_kernels_stages_have_their_bound() {
        let (run, mut summary) = fixture::explained();
        let without = picture(&run, &summary);
        fixture::change(&mut summary, |stages| stages.within_ns = Some(640.0));
        let with = picture(&run, &summary);
        let marks = |text: &str| text.matches("class=\"axis\"").count();
        let bars = attribution(&summary)[0].bands.iter().filter(|band| band.name != "all").count();
        // A line and its two ends, at both borders.
        assert_eq!(marks(&with) - marks(&without), bars * 2 * 3, "{with}");
        assert!(with.contains("when the reply left it is known within ±640 ns"), "{with}");
    }
}
