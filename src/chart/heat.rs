//! Heat maps.

use plotters::prelude::{ChartBuilder, RGBColor, Rectangle, Text, ViridisRGB};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont};

use super::axis::Axis;
use super::{AXES, Area, HeatMap, INK, NOTHING, Quantity, SIZE, bold, contrast, fault, font, frame, ticks, write};

/// The pixels of the map itself, about.
const INNER: (u32, u32) = (SIZE.0 - super::LEGEND - AXES.1 - 12, SIZE.1 - super::HEAD - AXES.0 - 12);

/// How values become colours.
struct Colours {
    low: f64,
    high: f64,
    logarithmic: bool,
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
impl HeatMap {
    pub(super) fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (body, legend) = frame(area, &self.title, &self.subtitle)?;
        let colours = self.colours();
        let (columns, rows) = (self.x.ticks.len().max(1), self.y.ticks.len().max(1));
        let (every_x, every_y) =
            (every(&self.x.ticks, columns, INNER.0, None), every(&self.y.ticks, rows, INNER.1, Some(26)));
        let keys = |count: usize, every: usize| (0..count).step_by(every).map(|at| at as f64 + 0.5).collect::<Vec<_>>();
        let mut chart = ChartBuilder::on(&body)
            .margin(6)
            .x_label_area_size(AXES.0)
            .y_label_area_size(AXES.1)
            .build_cartesian_2d(
                Axis { low: 0.0, high: columns as f64, ticks: keys(columns, every_x) },
                Axis { low: 0.0, high: rows as f64, ticks: keys(rows, every_y) },
            )
            .map_err(fault)?;
        let cells =
            self.cells.iter().enumerate().flat_map(|(y, row)| row.iter().enumerate().map(move |(x, v)| (x, y, v)));
        let ground = |value: Option<f64>| value.filter(|v| v.is_finite()).map_or(NOTHING, |v| colours.of(v));
        chart
            .draw_series(cells.clone().map(|(x, y, value)| {
                let corners = [(x as f64, y as f64), (x as f64 + 1.0, y as f64 + 1.0)];
                Rectangle::new(corners, ground(*value).filled())
            }))
            .map_err(fault)?;
        let tick = |labels: &[String], at: f64| labels.get(at as usize).cloned().unwrap_or_default();
        chart
            .configure_mesh()
            .disable_mesh()
            .axis_style(INK)
            .label_style(font(14))
            .axis_desc_style(font(16))
            .x_desc(self.x.label.clone())
            .y_desc(self.y.label.clone())
            .x_label_formatter(&|at| tick(&self.x.ticks, *at))
            .y_label_formatter(&|at| tick(&self.y.ticks, *at))
            .draw()
            .map_err(fault)?;
        // Values are written where there is room for them.
        if 44 <= INNER.0 / columns as u32 && 20 <= INNER.1 / rows as u32 {
            chart
                .draw_series(cells.map(|(x, y, value)| {
                    let text = value.map_or_else(|| self.missing.clone(), |v| self.quantity.text(v));
                    let style = ("sans-serif", 14).into_font().color(&contrast(ground(*value)));
                    Text::new(text, (x as f64 + 0.5, y as f64 + 0.5), style.pos(Pos::new(HPos::Center, VPos::Center)))
                }))
                .map_err(fault)?;
        }
        self.legend(&legend, &colours)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.cells.iter().flatten().flatten().copied().filter(|v| v.is_finite())
    }

    fn colours(&self) -> Colours {
        let (low, high) = (self.values().fold(f64::MAX, f64::min), self.values().fold(f64::MIN, f64::max));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        Colours { low, high, logarithmic: self.quantity != Quantity::Count && 0.0 < low && 8.0 < high / low }
    }

    fn legend(&self, area: &Area<'_>, colours: &Colours) -> Result<(), String> {
        const LEFT: i32 = 16;
        const TOP: i32 = 34;
        const WIDE: i32 = 26;
        write(area, &self.label, (LEFT, 6), &bold(14))?;
        let mut below = TOP;
        let swatch = |colour: RGBColor, top: i32, text: &str| {
            area.draw(&Rectangle::new([(LEFT, top), (LEFT + WIDE, top + 20)], colour.filled())).map_err(fault)?;
            write(area, text, (LEFT + WIDE + 10, top + 3), &font(14))
        };
        let counts = (colours.high - colours.low) as u32;
        if self.quantity == Quantity::Count && counts <= 12 {
            for step in 0..=counts {
                let value = colours.low + f64::from(step);
                swatch(colours.of(value), below, &self.quantity.text(value))?;
                below += 26;
            }
        } else {
            let tall = 300;
            for line in 0..tall {
                let share = 1.0 - f64::from(line) / f64::from(tall - 1);
                let top = TOP + line;
                area.draw(&Rectangle::new([(LEFT, top), (LEFT + WIDE, top + 1)], viridis(share).filled()))
                    .map_err(fault)?;
            }
            let marks = if colours.logarithmic {
                ticks::logarithmic(colours.low, colours.high)
            } else {
                ticks::linear(colours.low, colours.high)
            };
            for mark in marks {
                let top = TOP + ((1.0 - colours.share(mark)) * f64::from(tall - 1)) as i32;
                area.draw(&Rectangle::new([(LEFT + WIDE, top), (LEFT + WIDE + 5, top + 1)], INK.filled()))
                    .map_err(fault)?;
                write(area, &self.quantity.text(mark), (LEFT + WIDE + 10, top - 8), &font(14))?;
            }
            below += tall + 20;
        }
        if self.cells.iter().flatten().any(|v| v.is_none_or(|v| !v.is_finite())) {
            swatch(NOTHING, below, &self.missing)?;
        }
        Ok(())
    }
}

impl Colours {
    fn share(&self, value: f64) -> f64 {
        let (value, low, high) =
            if self.logarithmic { (value.ln(), self.low.ln(), self.high.ln()) } else { (value, self.low, self.high) };
        if low < high { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }

    fn of(&self, value: f64) -> RGBColor {
        viridis(self.share(value))
    }
}

fn viridis(share: f64) -> RGBColor {
    ViridisRGB::get_color(share)
}

/// Only every so-many-th tick is written, so that they do not touch.
fn every(labels: &[String], count: usize, pixels: u32, line: Option<u32>) -> usize {
    let widest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(1);
    let needed = line.map_or(8 * widest + 14, |line| line as usize);
    (needed * count).div_ceil(pixels as usize).max(1)
}
