//! Ranks and phases: what each rank holds at the peak of each phase, as a map of colours. Ranks of a stage hold the same, and
//! so may neighbouring stages.

use crate::number::grouped;
use crate::style::{self, Area, Drawn, FAINT, INK};
use moe_model::{Budget, Bytes, Phase, Plan};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// Pixels of the map.
const LEFT: i32 = 130;
const RIGHT: i32 = 1080;
const TOP: i32 = 110;
const BOTTOM: i32 = 540;
/// As many columns have room for their numbers.
const NUMBERED: usize = 20;
/// As many have room for a gap between them.
const APART: usize = 200;
/// As many have room for the ranks below them.
const NAMED: usize = 16;

/// Neighbouring ranks that hold the same in every phase.
struct Column {
    first: u64,
    last: u64,
    bytes: Vec<Bytes>,
}

pub(crate) fn svg(plan: &Plan, below: &str) -> Result<String, String> {
    let columns = columns(plan);
    let title = format!("What each of {} ranks holds at the peak of each phase", grouped(plan.world()));
    style::svg(&title, below, |area| draw(area, plan.phases(), &columns))
}

/// As many as there are stages, or fewer where these are more than there is room for.
fn columns(plan: &Plan) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for stage in 0..plan.stages() {
        let (budget, ranks) = (plan.budget(stage), plan.ranks_of_stage(stage));
        let bytes: Vec<Bytes> = plan.phases().iter().map(|phase| Budget::phase(&budget, *phase)).collect();
        match columns.last_mut() {
            Some(column) if column.bytes == bytes => column.last = ranks.end - 1,
            _ => columns.push(Column { first: ranks.start, last: ranks.end - 1, bytes }),
        }
    }
    columns
}

fn draw(area: &Area<'_>, phases: &[Phase], columns: &[Column]) -> Drawn {
    let all = || columns.iter().flat_map(|column| column.bytes.iter().copied());
    let (least, most) = (all().min().unwrap_or_default(), all().max().unwrap_or_default());
    let (wide, high) = (i32::try_from(columns.len())?, i32::try_from(phases.len())?);
    let x = |column: i32| LEFT + (RIGHT - LEFT) * column / wide;
    let y = |row: i32| TOP + (BOTTOM - TOP) * row / high;
    // Thin columns stand side by side.
    let gap = if columns.len() <= APART { 2 } else { 0 };
    for (column, place) in columns.iter().zip(0..) {
        for (bytes, row) in column.bytes.iter().zip(0..) {
            let share = share(*bytes, least, most);
            area.draw(&Rectangle::new(
                [(x(place), y(row)), (x(place + 1) - gap, y(row + 1) - 2)],
                color(share).filled(),
            ))?;
            if columns.len() <= NUMBERED {
                let ink = if share > 0.5 { WHITE } else { INK };
                let style = style::anchored(13, ink, HPos::Center, VPos::Center);
                let middle = (i32::midpoint(x(place), x(place + 1)), i32::midpoint(y(row), y(row + 1)));
                area.draw(&Text::new(format!("{:.1}", bytes.as_gib()), middle, style))?;
            }
        }
        if columns.len() <= NAMED || place % i32::try_from(columns.len().div_ceil(NAMED))? == 0 {
            let style = style::anchored(12, INK, HPos::Center, VPos::Top);
            let middle = i32::midpoint(x(place), x(place + 1));
            area.draw(&Text::new(column.first.to_string(), (middle, BOTTOM + 8), style.clone()))?;
            area.draw(&Text::new(format!("to {}", column.last), (middle, BOTTOM + 24), style))?;
        }
    }
    for (phase, row) in phases.iter().zip(0..) {
        let style = style::anchored(14, INK, HPos::Right, VPos::Center);
        let middle = i32::midpoint(y(row), y(row + 1));
        area.draw(&Text::new(phase.name().replace('_', " "), (LEFT - 12, middle), style))?;
    }
    let style = style::anchored(14, INK, HPos::Center, VPos::Top);
    area.draw(&Text::new("ranks", (i32::midpoint(LEFT, RIGHT), BOTTOM + 52), style))?;
    scale(area, least, most)
}

/// What the colours mean.
fn scale(area: &Area<'_>, least: Bytes, most: Bytes) -> Drawn {
    const STEPS: i32 = 64;
    let (left, right) = (RIGHT + 24, RIGHT + 40);
    for step in 0..STEPS {
        let y = |step: i32| BOTTOM - (BOTTOM - TOP) * step / STEPS;
        let color = color(f64::from(step) / f64::from(STEPS - 1));
        area.draw(&Rectangle::new([(left, y(step + 1)), (right, y(step))], color.filled()))?;
    }
    for (bytes, y, down) in [(most, TOP, VPos::Top), (least, BOTTOM, VPos::Bottom)] {
        let style = style::anchored(13, INK, HPos::Left, down);
        area.draw(&Text::new(format!("{:.1}", bytes.as_gib()), (right + 8, y), style))?;
    }
    let style = style::anchored(13, FAINT, HPos::Left, VPos::Center);
    area.draw(&Text::new("GiB", (right + 8, i32::midpoint(TOP, BOTTOM)), style))?;
    Ok(())
}

/// Where an amount lies between the least and the most; the most where all are alike.
#[allow(clippy::cast_precision_loss)] // a colour
fn share(bytes: Bytes, least: Bytes, most: Bytes) -> f64 {
    let all = most.bytes() - least.bytes();
    if all == 0 { 1.0 } else { (bytes.bytes() - least.bytes()) as f64 / all as f64 }
}

/// From pale to dark blue: one hue, told apart by lightness alone.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between two bytes
fn color(share: f64) -> RGBColor {
    let between = |pale: f64, dark: f64| (pale + (dark - pale) * share).round() as u8;
    RGBColor(between(222.0, 8.0), between(235.0, 48.0), between(247.0, 107.0))
}
