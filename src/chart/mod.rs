//! Charts as SVG: heat maps and lines, for people to read.
//!
//! Heat maps are in viridis, lines in the colours of Okabe and Ito: both can be told apart by the colour-blind. A chart's
//! bytes depend on nothing but its values.

mod axis;
mod heat;
mod line;
mod ticks;

use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, IntoTextStyle, RGBColor, SVGBackend, Text, WHITE};
use plotters::style::{FontStyle, IntoFont, TextStyle};

pub use ticks::Quantity;

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Chart {
    /// Values by two parameters.
    Heat(HeatMap),
    /// Curves.
    Line(LineChart),
}

/// The values of a parameter along a side of a heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    /// What it is.
    pub label: String,
    /// Each value with its unit.
    pub ticks: Vec<String>,
}

/// Values by two parameters, a cell for each pair.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    /// The first line above it.
    pub title: String,
    /// What is held fixed.
    pub subtitle: String,
    /// The lower side.
    pub x: Steps,
    /// The left side, upwards.
    pub y: Steps,
    /// Rows from below, each from the left.
    pub cells: Vec<Vec<Option<f64>>>,
    /// What the values are.
    pub label: String,
    /// How they are written; counts have a colour each.
    pub quantity: Quantity,
    /// What a cell without a value is.
    pub missing: String,
}

/// A numeric axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// What it is.
    pub label: String,
    /// How its values are written.
    pub quantity: Quantity,
    /// Whether equal ratios are equally far apart; ignored where a value is not positive.
    pub logarithmic: bool,
}

/// Curves of one value over another.
#[derive(Clone, Debug, PartialEq)]
pub struct LineChart {
    /// The first line above it.
    pub title: String,
    /// What is held fixed.
    pub subtitle: String,
    /// The lower axis.
    pub x: Scale,
    /// The left axis.
    pub y: Scale,
    /// Each curve with its name; points in the order of x.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// Most curves of a chart: there are so many colours.
pub const MOST_CURVES: usize = 8;

/// Most values along a side of a heat map.
pub const MOST_STEPS: usize = 400;

impl Chart {
    /// The chart as an SVG file.
    ///
    /// # Errors
    /// What the drawing library says.
    pub fn svg(&self) -> Result<String, String> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            let drawn = match self {
                Self::Heat(map) => map.draw(&area),
                Self::Line(chart) => chart.draw(&area),
            };
            drawn.and_then(|()| area.present().map_err(fault))?;
        }
        Ok(text)
    }
}

/// Width and height of a chart.
const SIZE: (u32, u32) = (960, 600);
/// What the title takes above.
const HEAD: u32 = 74;
/// What the legend takes on the right.
const LEGEND: u32 = 236;
/// What the axes take below and on the left.
const AXES: (u32, u32) = (54, 96);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const INK: RGBColor = RGBColor(34, 34, 34);
const PALE: RGBColor = RGBColor(222, 222, 222);
/// Cells without a value.
const NOTHING: RGBColor = RGBColor(200, 200, 200);

fn fault(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A text style of a size.
fn font(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&INK)
}

fn bold(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().style(FontStyle::Bold).color(&INK)
}

/// Fills the ground and writes the title; gives the areas for the chart and the legend.
fn frame<'a>(area: &Area<'a>, title: &str, subtitle: &str) -> Result<(Area<'a>, Area<'a>), String> {
    area.fill(&WHITE).map_err(fault)?;
    write(area, title, (24, 16), &bold(22))?;
    write(area, subtitle, (24, 46), &font(15))?;
    let (_, body) = area.split_vertically(HEAD);
    Ok(body.split_horizontally(SIZE.0 - LEGEND))
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), style: &TextStyle<'_>) -> Result<(), String> {
    area.draw(&Text::new(text.to_owned(), at, style.clone().into_text_style(area))).map_err(fault)
}

/// A colour that can be read on another.
fn contrast(on: RGBColor) -> RGBColor {
    let RGBColor(red, green, blue) = on;
    let light = 299 * u32::from(red) + 587 * u32::from(green) + 114 * u32::from(blue);
    if light < 120_000 { WHITE } else { INK }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(label: &str, n: usize) -> Steps {
        Steps { label: label.to_owned(), ticks: (0..n).map(|at| format!("{at} us")).collect() }
    }

    #[test]
    fn texts_are_escaped_and_bytes_stay() {
        let chart = Chart::Heat(HeatMap {
            title: "a < b & \"c\"".to_owned(),
            subtitle: String::new(),
            x: steps("x", 3),
            y: steps("y", 2),
            cells: vec![vec![Some(1.0), None, Some(3.0)], vec![Some(2.0), Some(f64::NAN), Some(5.0)]],
            label: "value".to_owned(),
            quantity: Quantity::Ratio,
            missing: "Ring".to_owned(),
        });
        let text = chart.svg().unwrap();
        assert!(text.contains("a &lt; b &amp;"), "{text}");
        assert!(text.starts_with("<svg ") && text.trim_end().ends_with("</svg>"));
        assert_eq!(text, chart.svg().unwrap());
    }

    #[test]
    fn odd_values_are_drawn_too() {
        for values in [vec![], vec![(1.0, 1.0)], vec![(0.0, -1.0), (1.0, 0.0)], vec![(1e3, f64::INFINITY), (1e9, 1.0)]]
        {
            for logarithmic in [false, true] {
                let scale = |quantity| Scale { label: "l".to_owned(), quantity, logarithmic };
                let chart = LineChart {
                    title: "t".to_owned(),
                    subtitle: "s".to_owned(),
                    x: scale(Quantity::Bytes),
                    y: scale(Quantity::Seconds),
                    series: vec![("one".to_owned(), values.clone())],
                };
                assert!(Chart::Line(chart).svg().unwrap().contains("one"));
            }
        }
    }
}
