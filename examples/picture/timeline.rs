//! The timeline of a rank over a step: what it holds while each event runs, by role, with the peak marked.

use crate::style::{self, Area, Chart, Drawn, FAINT, INK, SERIES, Series};
use moe_model::events::Work;
use moe_model::timeline::Moment;
use moe_model::{Bytes, Phase, Plan};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

/// What runs, in the strip below the chart.
const WORKS: [(&str, RGBColor); 7] = [
    ("between steps", RGBColor(255, 255, 255)),
    ("forward", RGBColor(205, 205, 205)),
    ("backward", RGBColor(120, 120, 120)),
    ("gradient of weights", RGBColor(165, 165, 165)),
    ("update", RGBColor(40, 40, 40)),
    ("prompts", RGBColor(205, 205, 205)),
    ("single tokens", RGBColor(120, 120, 120)),
];

/// The moments of a rank, without those gradients of weights that follow at once on their backward: they hold no more.
pub(crate) fn moments(plan: &Plan, stage: u64) -> Vec<Moment> {
    let mut moments: Vec<Moment> = Vec::new();
    for moment in plan.timeline(stage) {
        let of = |moment: &Moment, work| moment.event.filter(|event| event.work == work);
        let before = moments.last().and_then(|before| of(before, Work::Backward));
        let is_part = of(&moment, Work::Weight).zip(before).is_some_and(|(weight, backward)| {
            (weight.chunk, weight.micro_batch) == (backward.chunk, backward.micro_batch)
        });
        if !is_part {
            moments.push(moment);
        }
    }
    moments
}

pub(crate) fn svg(plan: &Plan, stage: u64, below: &str) -> Result<String, String> {
    let moments = moments(plan, stage);
    let of = if plan.spec().layout.served().is_some() { "while it serves" } else { "over a step" };
    let title = format!("What a rank of stage {stage} holds {of}");
    style::svg(&title, below, |area| draw(area, &moments))
}

#[allow(clippy::cast_precision_loss)] // places
fn draw(area: &Area<'_>, moments: &[Moment]) -> Drawn {
    let width = moments.len() as f64;
    let most = moments.iter().map(Moment::total).max().unwrap_or_default();
    let mut chart = style::chart(area, 0.0..width, most, 84)?;
    let mut base = vec![0.0; moments.len()];
    for series in &SERIES {
        stack(&mut chart, series, moments, &mut base)?;
    }
    strip(area, &chart, moments)?;
    peak(area, &chart, moments)?;
    style::legend(area, |series| moments.iter().any(|moment| held(series, moment) > Bytes::ZERO), None)
}

fn held(series: &Series, moment: &Moment) -> Bytes {
    series.of(|role| moment.role(role))
}

/// A band on top of those below it, as wide as its moments.
#[allow(clippy::cast_precision_loss)] // places
fn stack(chart: &mut Chart<'_, '_>, series: &Series, moments: &[Moment], base: &mut [f64]) -> Drawn {
    if moments.iter().all(|moment| held(series, moment) == Bytes::ZERO) {
        return Ok(());
    }
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for (place, (moment, base)) in moments.iter().zip(base.iter_mut()).enumerate() {
        let (left, right) = (place as f64, place as f64 + 1.0);
        lower.extend([(left, *base), (right, *base)]);
        *base += held(series, moment).as_gib();
        upper.extend([(left, *base), (right, *base)]);
    }
    upper.extend(lower.into_iter().rev());
    chart.draw_series([Polygon::new(upper, series.color.filled())])?;
    Ok(())
}

/// The place in [`WORKS`].
fn work(moment: &Moment) -> usize {
    match (moment.event.map(|event| event.work), moment.phase) {
        (Some(Work::Forward), _) => 1,
        (Some(Work::Backward), _) => 2,
        (Some(Work::Weight), _) => 3,
        (None, Phase::Prefill) => 5,
        (None, Phase::Decode) => 6,
        (None, Phase::OptimizerStep) => 4,
        (None, _) => 0,
    }
}

/// What runs in each moment, and what its greys mean.
#[allow(clippy::cast_precision_loss)] // places
fn strip(area: &Area<'_>, chart: &Chart<'_, '_>, moments: &[Moment]) -> Drawn {
    let pixel = |place: usize| chart.backend_coord(&(place as f64, 0.0));
    for (place, moment) in moments.iter().enumerate() {
        let ((left, bottom), (right, _)) = (pixel(place), pixel(place + 1));
        let corners = [(left, bottom + 8), (right, bottom + 20)];
        area.draw(&Rectangle::new(corners, WORKS[work(moment)].1.filled()))?;
    }
    let ((left, bottom), (right, _)) = (pixel(0), pixel(moments.len()));
    area.draw(&Rectangle::new([(left, bottom + 8), (right, bottom + 20)], FAINT.stroke_width(1)))?;
    let mut x = left;
    for (index, (name, grey)) in WORKS.iter().enumerate() {
        if !moments.iter().any(|moment| work(moment) == index) {
            continue;
        }
        let corners = [(x, bottom + 32), (x + 14, bottom + 46)];
        area.draw(&Rectangle::new(corners, grey.filled()))?;
        area.draw(&Rectangle::new(corners, FAINT.stroke_width(1)))?;
        let style = style::anchored(13, INK, HPos::Left, VPos::Center);
        area.draw(&Text::new(*name, (x + 20, bottom + 39), style))?;
        x += 48 + 7 * i32::try_from(name.len())?;
    }
    let style = style::anchored(13, FAINT, HPos::Left, VPos::Top);
    area.draw(&Text::new(
        "events in their order, each as wide as the next: time is not to scale",
        (left, bottom + 58),
        style,
    ))?;
    Ok(())
}

/// The first of the largest moments.
#[allow(clippy::cast_precision_loss)] // places
fn peak(area: &Area<'_>, chart: &Chart<'_, '_>, moments: &[Moment]) -> Drawn {
    let most = moments.iter().map(Moment::total).max().unwrap_or_default();
    let Some(place) = moments.iter().position(|moment| moment.total() == most) else { return Ok(()) };
    let moment = &moments[place];
    let (x, y) = chart.backend_coord(&(place as f64 + 0.5, most.as_gib()));
    let of = moment.event.map_or_else(String::new, |event| format!(" of micro-batch {}", event.micro_batch));
    let text = format!("peak {most}, in {}{of}", moment.phase.name().replace('_', " "));
    area.draw(&PathElement::new([(x, y), (x, y - 12)], INK.stroke_width(1)))?;
    area.draw(&Circle::new((x, y), 4, INK.filled()))?;
    let across = if place * 2 < moments.len() { HPos::Left } else { HPos::Right };
    area.draw(&Text::new(text, (x, y - 16), style::anchored(14, INK, across, VPos::Bottom)))?;
    Ok(())
}
