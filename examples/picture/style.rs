//! What pictures share: their size, letters and colours, and the frame around a chart.

use moe_model::{Bytes, Role};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::ops::Range;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
pub(crate) type Drawn<T = ()> = Result<T, Box<dyn Error>>;

/// Pixels.
const SIZE: (u32, u32) = (1200, 640);
const TOP: i32 = 96;
const RIGHT: i32 = 210;
const FONT: &str = "Helvetica, Arial, sans-serif";

pub(crate) const INK: RGBColor = RGBColor(34, 34, 34);
pub(crate) const FAINT: RGBColor = RGBColor(110, 110, 110);
const GRID: RGBColor = RGBColor(224, 224, 224);

/// Roles that are drawn as one.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) color: RGBColor,
    pub(crate) roles: &'static [Role],
}

/// From the bottom up. Colours are those of Okabe and Ito, which people with any colour vision tell apart
/// (<https://jfly.uni-koeln.de/color/>); the fourth is lighter, and what serves has none of the third.
pub(crate) const SERIES: [Series; 9] = [
    Series { name: "weights", color: RGBColor(0, 114, 178), roles: &[Role::Weight] },
    Series { name: "gradients", color: RGBColor(86, 180, 233), roles: &[Role::Gradient] },
    Series { name: "master weights", color: RGBColor(0, 158, 115), roles: &[Role::MasterWeight] },
    Series { name: "moments", color: RGBColor(245, 236, 130), roles: &[Role::FirstMoment, Role::SecondMoment] },
    Series { name: "key/value caches", color: RGBColor(0, 158, 115), roles: &[Role::KvCache] },
    Series { name: "workspaces", color: RGBColor(153, 153, 153), roles: &[Role::Workspace] },
    Series { name: "activations", color: RGBColor(213, 94, 0), roles: &[Role::Activation] },
    Series { name: "transients", color: RGBColor(230, 159, 0), roles: &[Role::Transient] },
    Series { name: "communication", color: RGBColor(204, 121, 167), roles: &[Role::Communication] },
];

impl Series {
    pub(crate) fn of(&self, role: impl Fn(Role) -> Bytes) -> Bytes {
        self.roles.iter().map(|of| role(*of)).sum()
    }
}

/// A picture as SVG: its title, a line below it, and what is drawn.
pub(crate) fn svg(title: &str, below: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut svg = String::new();
    drawn(&mut svg, title, below, draw).map_err(|error| format!("{title}: {error}"))?;
    Ok(svg)
}

fn drawn(svg: &mut String, title: &str, below: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Drawn {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    area.draw(&Text::new(title.to_owned(), (24, 20), heading()))?;
    // As much of a long name of a file as there is room for.
    let below: String = below.chars().take(150).collect();
    area.draw(&Text::new(below, (24, 52), letters(14, FAINT)))?;
    draw(&area)?;
    area.present()?;
    Ok(())
}

fn heading() -> TextStyle<'static> {
    (FONT, 22.0 * 1.24, FontStyle::Bold).into_font().color(&INK)
}

/// Letters so many pixels high.
pub(crate) fn letters(pixels: u32, color: RGBColor) -> TextStyle<'static> {
    // The backend divides by this.
    (FONT, f64::from(pixels) * 1.24).into_font().color(&color)
}

/// The same around a point.
pub(crate) fn anchored(pixels: u32, color: RGBColor, across: HPos, down: VPos) -> TextStyle<'static> {
    letters(pixels, color).pos(Pos::new(across, down))
}

/// A chart of GiB over something, with room below for what its places are.
pub(crate) fn chart<'a, 'b>(area: &'a Area<'b>, x: Range<f64>, most: Bytes, below: u32) -> Drawn<Chart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(TOP)
        .margin_right(RIGHT)
        .margin_left(12)
        .margin_bottom(16)
        .set_label_area_size(LabelAreaPosition::Left, 64)
        .set_label_area_size(LabelAreaPosition::Bottom, below)
        .build_cartesian_2d(x, 0.0..(most.as_gib() * 1.1).max(f64::MIN_POSITIVE))?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .disable_x_axis()
        .y_desc("GiB")
        .y_labels(8)
        .y_label_formatter(&|gib| if most.as_gib() < 10.0 { format!("{gib:.1}") } else { format!("{gib:.0}") })
        .axis_desc_style(letters(14, INK))
        .label_style(letters(13, INK))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    Ok(chart)
}

/// What the colours mean, from the top down as they are stacked; and below them, what the dashed line is.
pub(crate) fn legend(area: &Area<'_>, is_there: impl Fn(&Series) -> bool, line: Option<String>) -> Drawn {
    let left = i32::try_from(SIZE.0)? - RIGHT + 24;
    let top = |place| TOP + 8 + 26 * place;
    let label = |name: String, top| Text::new(name, (left + 26, top + 8), anchored(14, INK, HPos::Left, VPos::Center));
    let mut place = 0;
    for series in SERIES.iter().rev().filter(|series| is_there(series)) {
        let corners = [(left, top(place)), (left + 16, top(place) + 16)];
        area.draw(&Rectangle::new(corners, series.color.filled()))?;
        area.draw(&label(series.name.to_owned(), top(place)))?;
        place += 1;
    }
    if let Some(name) = line {
        let middle = top(place) + 8;
        for dash in [left, left + 10] {
            area.draw(&PathElement::new([(dash, middle), (dash + 6, middle)], INK.stroke_width(1)))?;
        }
        area.draw(&label(name, top(place)))?;
    }
    Ok(())
}
