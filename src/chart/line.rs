//! Line charts.

use plotters::prelude::{ChartBuilder, Circle, LineSeries, PathElement, RGBColor};
use plotters::style::Color;

use super::axis::Axis;
use super::{AXES, Area, INK, LineChart, PALE, Scale, bold, fault, font, frame, ticks, write};

/// The colours of Okabe and Ito, those that are hard to see on white last.
const COLOURS: [RGBColor; super::MOST_CURVES] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
    RGBColor(240, 228, 66),
];

/// An axis that is drawn in logarithms, or as it is.
struct Drawn {
    logarithmic: bool,
    axis: Axis,
}

impl Drawn {
    /// `room` is left at both ends, as a share of the whole.
    fn new(scale: &Scale, values: impl Iterator<Item = f64> + Clone, room: f64) -> Self {
        let finite = values.filter(|v| v.is_finite());
        let (low, high) = (finite.clone().fold(f64::MAX, f64::min), finite.fold(f64::MIN, f64::max));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        let logarithmic = scale.logarithmic && 0.0 < low;
        let (mut low, mut high) = if logarithmic { (low.log10(), high.log10()) } else { (low, high) };
        if high - low < 1e-12 {
            let wide = if logarithmic { 0.3 } else { low.abs().max(1.0) / 2.0 };
            (low, high) = (low - wide, high + wide);
        }
        let room = (high - low) * room;
        (low, high) = (low - room, high + room);
        let ticks = if logarithmic {
            ticks::logarithmic(10_f64.powf(low), 10_f64.powf(high)).into_iter().map(f64::log10).collect()
        } else {
            ticks::linear(low, high)
        };
        Self { logarithmic, axis: Axis { low, high, ticks } }
    }

    fn at(&self, value: f64) -> f64 {
        if self.logarithmic { value.log10() } else { value }
    }

    fn value(&self, at: f64) -> f64 {
        if self.logarithmic { 10_f64.powf(at) } else { at }
    }
}

impl LineChart {
    pub(super) fn draw(&self, area: &Area<'_>) -> Result<(), String> {
        let (body, legend) = frame(area, &self.title, &self.subtitle)?;
        let points = self.series.iter().flat_map(|(_, points)| points);
        let x = Drawn::new(&self.x, points.clone().map(|p| p.0), 0.0);
        let y = Drawn::new(&self.y, points.map(|p| p.1), 0.05);
        let mut chart = ChartBuilder::on(&body)
            .margin(6)
            .x_label_area_size(AXES.0)
            .y_label_area_size(AXES.1)
            .build_cartesian_2d(x.axis.clone(), y.axis.clone())
            .map_err(fault)?;
        chart
            .configure_mesh()
            .bold_line_style(PALE)
            .axis_style(INK)
            .label_style(font(14))
            .axis_desc_style(font(16))
            .x_desc(axis(&self.x, &x))
            .y_desc(axis(&self.y, &y))
            .x_label_formatter(&|at| self.x.quantity.text(x.value(*at)))
            .y_label_formatter(&|at| self.y.quantity.text(y.value(*at)))
            .draw()
            .map_err(fault)?;
        for ((_, points), colour) in self.series.iter().zip(COLOURS) {
            let points: Vec<(f64, f64)> =
                points.iter().filter(|p| p.0.is_finite() && p.1.is_finite()).map(|p| (x.at(p.0), y.at(p.1))).collect();
            let dots = if points.len() <= 40 { 3 } else { 0 };
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2))).map_err(fault)?;
            if 0 < dots {
                chart
                    .draw_series(points.into_iter().map(|point| Circle::new(point, dots, colour.filled())))
                    .map_err(fault)?;
            }
        }
        let mut top = 14;
        write(&legend, "curves", (12, top - 8), &bold(14))?;
        for ((name, _), colour) in self.series.iter().zip(COLOURS) {
            top += 26;
            legend.draw(&PathElement::new(vec![(12, top), (38, top)], colour.stroke_width(3))).map_err(fault)?;
            legend.draw(&Circle::new((25, top), 4, colour.filled())).map_err(fault)?;
            write(&legend, name, (46, top - 8), &font(14))?;
        }
        Ok(())
    }
}

/// What an axis shows.
fn axis(scale: &Scale, drawn: &Drawn) -> String {
    if drawn.logarithmic { format!("{} (logarithmic)", scale.label) } else { scale.label.clone() }
}
