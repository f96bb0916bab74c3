//! The text of `nvidia-smi topo -m`.

use std::collections::BTreeMap;
use std::ops::Range;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::Rate;

use super::sketch::{Adapter, Branch, End, Gpu, Sketch};
use super::{GPU_LIMIT, ImportOptions, SIZE_LIMIT};
use crate::fabric::LinkKind;

/// How two devices are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    Same,
    Pix,
    Pxb,
    Phb,
    Node,
    Sys,
    NvLinks(u64),
}

/// The matrix: rows are GPUs, columns GPUs and then network adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Matrix {
    pub columns: usize,
    /// By GPU, then column.
    pub cells: Vec<Vec<Cell>>,
    /// NUMA node of each GPU, where it is given.
    pub numa: Vec<Option<u32>>,
}

/// Most NVLinks that a GPU has had so far; a matrix that adds up to more goes through NVSwitches.
const LINKS_A_GPU: u64 = 18;

impl Matrix {
    pub fn gpus(&self) -> usize {
        self.cells.len()
    }

    /// NVLinks between two GPUs, by the larger count.
    fn nvlinks(&self, a: usize, b: usize) -> u64 {
        let count = |cell: Cell| if let Cell::NvLinks(count) = cell { count } else { 0 };
        count(self.cells[a][b]).max(count(self.cells[b][a]))
    }

    /// Whether any GPU sees more NVLinks than a GPU can have, so that they must go through NVSwitches.
    pub fn switched(&self) -> bool {
        let sum = |a: usize| (0..self.gpus()).filter(|&b| b != a).map(|b| self.nvlinks(a, b)).sum::<u64>();
        (0..self.gpus()).any(|gpu| LINKS_A_GPU < sum(gpu))
    }

    pub fn has_nvlinks(&self) -> bool {
        (0..self.gpus()).any(|a| (0..self.gpus()).any(|b| a != b && 0 < self.nvlinks(a, b)))
    }

    /// Adds the NVLinks to a sketch whose GPU `order[i]` is row i.
    pub fn add_to(&self, sketch: &mut Sketch, order: &[usize], rate: Rate) {
        let (switched, bytes) = (self.switched(), rate.bytes_per_second());
        for a in 0..self.gpus() {
            let counts = (0..self.gpus()).filter(|&b| b != a).map(|b| (b, self.nvlinks(a, b)));
            if switched {
                let most = counts.map(|(_, count)| count).max().unwrap_or(0);
                sketch.add(order[a], End::Switch, bytes.saturating_mul(most), LinkKind::NvLink);
                continue;
            }
            for (b, count) in counts.filter(|&(_, count)| 0 < count) {
                sketch.add(order[a], End::Gpu(order[b]), bytes.saturating_mul(count), LinkKind::NvLink);
            }
        }
    }

    /// The machine as far as the matrix alone shows it: PCIe switches and processors by the kind of the cells.
    pub fn sketch(&self, options: &ImportOptions, warnings: &mut Vec<Diagnostic>) -> Sketch {
        let gpus = self.gpus();
        let mut sketch = Sketch { gpus: vec![Gpu::default(); gpus], ..Sketch::default() };
        let Some(pcie) = options.pcie_bandwidth else { return sketch };
        let joined = |limit: Cell| {
            let mut groups = Groups::new(self.columns);
            for a in 0..gpus {
                for b in 0..self.columns {
                    let numa = Cell::Node <= limit
                        && self.numa[a].is_some()
                        && self.numa.get(b).is_some_and(|numa| *numa == self.numa[a]);
                    if self.cells[a][b] <= limit || numa {
                        groups.join(a, b);
                    }
                }
            }
            groups
        };
        let (mut cpus, mut boards, mut bridges) = (joined(Cell::Node), joined(Cell::Pxb), joined(Cell::Pix));
        let mut branch_of: BTreeMap<(u8, usize), usize> = BTreeMap::new();
        let mut branch = |sketch: &mut Sketch, level: u8, root: usize, parent: Option<usize>| -> usize {
            *branch_of.entry((level, root)).or_insert_with(|| {
                let socket = (level == 0).then(|| Rate::new(16_000_000_000)).flatten();
                let kind = ["cpu", "board", "pcie"][level as usize];
                let number = sketch.tree.iter().filter(|branch| branch.name.starts_with(kind)).count();
                let parent = parent.map(|parent| (parent, pcie));
                sketch.tree.push(Branch { name: format!("{kind}{number}"), parent, socket });
                sketch.tree.len() - 1
            })
        };
        for device in 0..self.columns {
            let mut at = branch(&mut sketch, 0, cpus.root(device), None);
            let (board, bridge) = (boards.size(device), bridges.size(device));
            if bridge < board {
                at = branch(&mut sketch, 1, boards.root(device), Some(at));
            }
            if 1 < bridge {
                at = branch(&mut sketch, 2, bridges.root(device), Some(at));
            }
            if device < gpus {
                sketch.gpus[device].attached = Some((at, pcie));
            } else {
                sketch.adapters.push(Adapter { attached: (at, Some(pcie)), rate: None });
            }
        }
        if 1 < sketch.tree.iter().filter(|branch| branch.socket.is_some()).count() {
            warnings.push(Diagnostic::warning("T115", "the rate between processors is not given; 16 GB/s is assumed"));
        }
        sketch
    }
}

/// Disjoint sets of devices.
struct Groups(Vec<usize>);

impl Groups {
    fn new(count: usize) -> Self {
        Self((0..count).collect())
    }

    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }

    fn size(&mut self, at: usize) -> usize {
        let root = self.root(at);
        (0..self.0.len()).filter(|&other| self.root(other) == root).count()
    }
}

/// Whether a text looks like a matrix.
pub(super) fn recognise(text: &str) -> bool {
    plain(text).lines().any(|line| line.split_whitespace().next() == Some("GPU0"))
}

/// The text with ANSI colour codes replaced by as many blanks, so that places stay.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.peek() == Some(&'[') {
            out.push(' ');
            for c in chars.by_ref() {
                out.extend(std::iter::repeat_n(' ', c.len_utf8()));
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// A word and its place in the text.
type Word<'a> = (&'a str, Range<usize>);

fn words(line: &str, start: usize) -> Vec<Word<'_>> {
    let at = |word: &str| start + (word.as_ptr() as usize - line.as_ptr() as usize);
    line.split_whitespace().map(|word| (word, at(word)..at(word) + word.len())).collect()
}

fn gpu_number(word: &str) -> Option<usize> {
    word.strip_prefix("GPU").and_then(|number| number.parse().ok())
}

/// Reads the matrix.
pub(super) fn read(file: &str, text: &str, warnings: &mut Vec<Diagnostic>) -> Result<Matrix, Vec<Diagnostic>> {
    if SIZE_LIMIT < text.len() {
        let message = format!("the file has {} bytes; a matrix has at most {SIZE_LIMIT}", text.len());
        return Err(vec![Diagnostic::error("T102", message).at(file, 0..0, "")]);
    }
    let fail = |place: Range<usize>, message: String| Diagnostic::error("T120", message).at(file, place, "");
    let text = plain(text);
    let mut start = 0;
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        lines.push(words(line, start));
        start += line.len();
    }
    let is_header = |line: &Vec<Word<'_>>| {
        line.first().is_some_and(|word| word.0 == "GPU0") && line.get(1).is_none_or(|word| parse_cell(word.0).is_none())
    };
    let Some(header) = lines.iter().position(is_header) else {
        let error = fail(0..0, "there is no line with the column names GPU0, GPU1, …".into());
        return Err(vec![error.help("copy the whole output of `nvidia-smi topo -m`, with its first line")]);
    };
    let columns: Vec<&Word<'_>> = lines[header].iter().take_while(|word| word.0 != "CPU" && word.0 != "NUMA").collect();
    let gpus = columns.iter().take_while(|word| gpu_number(word.0).is_some()).count();
    for (place, word) in columns[..gpus].iter().enumerate() {
        if gpu_number(word.0) != Some(place) {
            let message = format!("column {} is `{}`, expected GPU{place}", place + 1, word.0);
            return Err(vec![fail(word.1.clone(), message)]);
        }
    }
    if GPU_LIMIT < gpus || 4 * GPU_LIMIT < columns.len() {
        let message =
            format!("the matrix has {gpus} GPUs and {} columns; the limit is {GPU_LIMIT} GPUs", columns.len());
        return Err(vec![Diagnostic::error("T102", message).at(file, columns[0].1.clone(), "")]);
    }
    let mut errors = Vec::new();
    let mut rows: Vec<Option<(Vec<Cell>, Option<u32>)>> = vec![None; gpus];
    for line in &lines[header + 1..] {
        let Some((name, place)) = line.first() else { continue };
        let Some(gpu) = gpu_number(name) else { continue };
        if gpus <= gpu {
            errors.push(fail(place.clone(), format!("row `{name}` has no column")));
            continue;
        }
        if rows[gpu].is_some() {
            continue;
        }
        let cells = &line[1..];
        if cells.len() < columns.len() {
            let message = format!("row `{name}` has {} cells, but there are {} columns", cells.len(), columns.len());
            errors.push(fail(place.clone(), message));
            continue;
        }
        let mut row = Vec::with_capacity(columns.len());
        for (column, (text, place)) in cells[..columns.len()].iter().enumerate() {
            match parse_cell(text) {
                Some(cell) if (cell == Cell::Same) == (column == gpu) => row.push(cell),
                Some(_) => errors
                    .push(fail(place.clone(), format!("`{text}` cannot stand in row `{name}`, column {}", column + 1))),
                None => errors.push(
                    fail(place.clone(), format!("`{text}` is no cell of a matrix"))
                        .note("allowed: X, NV and a number, PIX, PXB, PHB, NODE, SYS"),
                ),
            }
        }
        // After the cells: CPU affinity ("0-23,96-119" or "N/A"), NUMA node, GPU's own NUMA node.
        let numa = cells.get(columns.len() + 1).and_then(|word| word.0.parse().ok());
        rows[gpu] = Some((row, numa));
    }
    for (gpu, row) in rows.iter().enumerate() {
        if row.is_none() && errors.is_empty() {
            let error = fail(columns[gpu].1.clone(), format!("the matrix has no row for GPU{gpu}"));
            errors.push(error.help("copy the whole output of `nvidia-smi topo -m`"));
        }
    }
    if !errors.is_empty() {
        errors.truncate(20);
        return Err(errors);
    }
    let (cells, numa): (Vec<_>, Vec<_>) = rows.into_iter().flatten().unzip();
    let matrix = Matrix { columns: columns.len(), cells, numa };
    let cells = &matrix.cells;
    let differ = (0..gpus).flat_map(|a| (0..a).map(move |b| (b, a))).find(|&(a, b)| cells[a][b] != cells[b][a]);
    if let Some((a, b)) = differ {
        let message = format!("the matrix is not symmetric: GPU{a} and GPU{b} disagree; the larger count is taken");
        warnings.push(Diagnostic::warning("T116", message).at(file, columns[b].1.clone(), ""));
    }
    Ok(matrix)
}

fn parse_cell(text: &str) -> Option<Cell> {
    Some(match text {
        "X" => Cell::Same,
        "PIX" => Cell::Pix,
        "PXB" => Cell::Pxb,
        "PHB" => Cell::Phb,
        "NODE" => Cell::Node,
        "SYS" | "SOC" => Cell::Sys,
        _ => Cell::NvLinks(u64::from(text.strip_prefix("NV")?.parse::<u16>().ok()?)),
    })
}
