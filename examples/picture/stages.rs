//! Memory by role of a rank of each stage, at its peak: stacked bars.

use crate::style::{self, Area, Chart, Drawn, FAINT, INK, SERIES, Series};
use moe_model::{Budget, Bytes, Device, Plan};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// More bars than this are too thin to tell apart.
const BARS_MAX: u64 = 256;
/// As many have room for their numbers.
const NUMBERED: usize = 32;
/// Pixels of a bar, where there are few.
const WIDEST: f64 = 96.0;

pub(crate) fn svg(plan: &Plan, below: &str) -> Result<String, String> {
    let budgets: Vec<Budget> = (0..plan.stages().min(BARS_MAX)).map(|stage| plan.budget(stage)).collect();
    let title = if plan.stages() > BARS_MAX {
        format!("What a rank of each of the first {BARS_MAX} stages holds at its peak")
    } else {
        "What a rank of each stage holds at its peak".to_owned()
    };
    style::svg(&title, below, |area| draw(area, plan, &budgets))
}

#[allow(clippy::cast_precision_loss)] // places
fn draw(area: &Area<'_>, plan: &Plan, budgets: &[Budget]) -> Drawn {
    let most = budgets.iter().map(|budget| budget.peak().total).max().unwrap_or_default();
    let device = plan.spec().layout.device;
    let (capacity, is_near) = (device.usable(), is_near(device, most));
    let mut chart =
        style::chart(area, 0.0..budgets.len() as f64, if is_near { capacity.larger(most) } else { most }, 56)?;
    let (width, _) = chart.plotting_area().dim_in_pixel();
    let half = f64::min(0.38, WIDEST / 2.0 / f64::from(width) * budgets.len() as f64);
    for (place, budget) in budgets.iter().enumerate() {
        bar(&mut chart, place as f64 + 0.5, half, budget)?;
        label(area, &chart, place, budget, budgets.len())?;
    }
    if is_near {
        let ends = [(0.0, capacity.as_gib()), (budgets.len() as f64, capacity.as_gib())];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, INK.stroke_width(1)))?;
    }
    let (left, bottom) = chart.backend_coord(&(0.0, 0.0));
    let (right, _) = chart.backend_coord(&(budgets.len() as f64, 0.0));
    let style = style::anchored(14, INK, HPos::Center, VPos::Top);
    area.draw(&Text::new("stage", (i32::midpoint(left, right), bottom + 32), style))?;
    let is_there = |series: &Series| {
        budgets.iter().any(|budget| series.of(|role| budget.role_in(role, budget.peak().phase)) > Bytes::ZERO)
    };
    style::legend(area, is_there, is_near.then(|| format!("{}, {capacity}", device.word())))
}

/// Whether the device's memory is of the order of what is held, so that a line for it leaves bars readable.
fn is_near(device: Device, most: Bytes) -> bool {
    device != Device::None && device.usable().bytes() / 2 <= most.bytes()
}

fn bar(chart: &mut Chart<'_, '_>, middle: f64, half: f64, budget: &Budget) -> Drawn {
    let mut base = 0.0;
    for series in &SERIES {
        let height = series.of(|role| budget.role_in(role, budget.peak().phase)).as_gib();
        if height > 0.0 {
            let corners = [(middle - half, base), (middle + half, base + height)];
            chart.draw_series([Rectangle::new(corners, series.color.filled())])?;
        }
        base += height;
    }
    Ok(())
}

/// The stage below its bar, and what it holds above it.
#[allow(clippy::cast_precision_loss)] // places
fn label(area: &Area<'_>, chart: &Chart<'_, '_>, place: usize, budget: &Budget, bars: usize) -> Drawn {
    if !place.is_multiple_of(bars.div_ceil(NUMBERED)) {
        return Ok(());
    }
    let total = budget.peak().total.as_gib();
    let (x, bottom) = chart.backend_coord(&(place as f64 + 0.5, 0.0));
    let (_, top) = chart.backend_coord(&(0.0, total));
    let below = style::anchored(13, INK, HPos::Center, VPos::Top);
    area.draw(&Text::new(budget.stage().to_string(), (x, bottom + 8), below))?;
    if bars <= NUMBERED / 2 {
        let above = style::anchored(12, FAINT, HPos::Center, VPos::Bottom);
        area.draw(&Text::new(format!("{total:.1}"), (x, top - 5), above))?;
    }
    Ok(())
}
