//! NCCL and RCCL topology XML.
//!
//! Bandwidths are those that NCCL assigns (`src/graph/topo.h`), which are what the runtime plans with: PCIe = lanes · s / 80
//! GB/s with s = 15 … 480 for 2.5 … 64 GT/s; per NVLink 18 (sm60), 20 (sm70, sm80), 12 (sm86), 20.6 (sm90), 40.1 (sm100)
//! GB/s; per xGMI link 24 (Vega), 36 (gfx90a), 48 (gfx94x); between processors 6 to 40 by model. The job may replace them.

use std::collections::BTreeMap;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::Rate;
use roxmltree::{Document, Node, ParsingOptions};

use super::sketch::{Adapter, Branch, End, Gpu, Sketch};
use super::{GPU_LIMIT, ImportOptions, SIZE_LIMIT};
use crate::fabric::LinkKind;

const DEPTH_LIMIT: usize = 64;
const ELEMENT_LIMIT: u32 = 1 << 16;

/// Reads a file; warnings go to `warnings`.
pub(super) fn read(
    file: &str,
    text: &str,
    options: &ImportOptions,
    warnings: &mut Vec<Diagnostic>,
) -> Result<Sketch, Vec<Diagnostic>> {
    if SIZE_LIMIT < text.len() {
        let message = format!("the file has {} bytes; a topology file has at most {SIZE_LIMIT}", text.len());
        return Err(vec![Diagnostic::error("T102", message).at(file, 0..0, "")]);
    }
    check_depth(file, text)?;
    let parsing = ParsingOptions { allow_dtd: false, nodes_limit: 4 * ELEMENT_LIMIT, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, parsing).map_err(|error| vec![syntax(file, text, &error)])?;
    let root = document.root_element();
    if root.tag_name().name() != "system" {
        return Err(vec![foreign(file, root.tag_name().name(), root.range().start + 1)]);
    }
    let mut reader =
        Reader { file, options, warnings, errors: Vec::new(), sketch: Sketch::default(), links: Vec::new() };
    reader.system(&root);
    let Reader { errors, sketch, .. } = reader;
    if errors.is_empty() { Ok(sketch) } else { Err(errors) }
}

/// Refuses nesting that no machine has, before anything recursive sees it.
fn check_depth(file: &str, text: &str) -> Result<(), Vec<Diagnostic>> {
    let (mut depth, bytes) = (0_usize, text.as_bytes());
    for (at, _) in text.match_indices('<') {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let tag = &text[at..];
                if !tag.find('>').is_some_and(|end| tag[..end].ends_with('/')) {
                    depth += 1;
                }
                if 2 * DEPTH_LIMIT < depth {
                    let message = format!("elements are nested deeper than {DEPTH_LIMIT} levels");
                    return Err(vec![Diagnostic::error("T102", message).at(file, at..at + 1, "")]);
                }
            }
        }
    }
    Ok(())
}

fn syntax(file: &str, text: &str, error: &roxmltree::Error) -> Diagnostic {
    if matches!(error, roxmltree::Error::NodesLimitReached) {
        let message = format!("the file has more than {ELEMENT_LIMIT} elements");
        return Diagnostic::error("T102", message).at(file, 0..0, "");
    }
    let position = error.pos();
    let line: usize = text.split_inclusive('\n').take(position.row.saturating_sub(1) as usize).map(str::len).sum();
    let rest = text.get(line..).unwrap_or_default();
    let column = rest.char_indices().nth(position.col.saturating_sub(1) as usize).map_or(rest.len(), |(at, _)| at);
    let start = (line + column).min(text.len());
    let end = (start + text[start..].chars().next().map_or(0, char::len_utf8)).min(text.len());
    if matches!(error, roxmltree::Error::DtdDetected)
        && let Some(at) = text.find("<!DOCTYPE topology")
    {
        return foreign(file, "topology", at + "<!DOCTYPE ".len());
    }
    let diagnostic = match error {
        roxmltree::Error::DtdDetected => Diagnostic::error("T103", "a document type declaration is refused")
            .help("delete the `<!DOCTYPE …>`: topology files have none"),
        _ => Diagnostic::error("T103", format!("the file is no well-formed XML: {}", lower(&error.to_string()))),
    };
    diagnostic.at(file, start..end, "")
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

/// What a file with another root element is; its name begins at the byte `start`.
fn foreign(file: &str, name: &str, start: usize) -> Diagnostic {
    let span = start.saturating_sub(1)..start + name.len();
    let make = |what: &str| Diagnostic::error("T101", what.to_owned()).at(file, span.clone(), "");
    match name {
        "topology" => make("this is hwloc's XML (root `topology`), not an NCCL topology file (root `system`)")
            .note("hwloc lists PCIe devices, but no NVLinks and no rates that a runtime uses")
            .help("let NCCL or RCCL write its own: set NCCL_TOPO_DUMP_FILE=topo.xml and start any collective"),
        "graphs" => make("this is an NCCL graph file (root `graphs`): it has orders of GPUs, but no links")
            .help("set NCCL_TOPO_DUMP_FILE=topo.xml to get the topology instead"),
        "algo" => {
            make("this is an MSCCL program (root `algo`), not a topology").help("check it with `rondo verify FILE`")
        }
        other => make(&format!("the root element is `{other}`; an NCCL topology file has `system`")),
    }
}

/// An NVLink or xGMI entry, kept until all GPUs are known.
struct Entry<'a> {
    /// In document order.
    gpu: usize,
    target: &'a str,
    class: &'a str,
    count: u64,
    amd: bool,
    span: std::ops::Range<usize>,
}

struct Reader<'a, 'w> {
    file: &'a str,
    options: &'a ImportOptions,
    warnings: &'w mut Vec<Diagnostic>,
    errors: Vec<Diagnostic>,
    sketch: Sketch,
    links: Vec<(usize, usize, u64, LinkKind)>,
}

impl<'a> Reader<'a, '_> {
    fn warn(&mut self, code: &'static str, span: std::ops::Range<usize>, message: impl Into<String>) {
        self.warnings.push(Diagnostic::warning(code, message).at(self.file, span, ""));
    }

    /// A whole number, decimal or 0x…; `None` if it is not there or bad (which is an error).
    fn number(&mut self, node: &Node<'a, '_>, name: &str) -> Option<u64> {
        let attribute = node.attribute_node(name)?;
        let text = attribute.value().trim();
        let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        // −1 is how NCCL writes "none".
        if value.is_err() && text != "-1" && !text.is_empty() {
            let message = format!("`{name}` is `{}`, which is no whole number", clip(text));
            self.errors.push(Diagnostic::error("T105", message).at(self.file, attribute.range_value(), ""));
        }
        value.ok()
    }

    fn system(&mut self, root: &Node<'a, '_>) {
        match root.attribute("version") {
            Some("1" | "2") => {}
            other => {
                let message = match other {
                    Some(version) => format!("the file has version `{}`; NCCL reads 1 and RCCL 2", clip(version)),
                    None => "the file names no version; NCCL wants 1 and RCCL 2".to_owned(),
                };
                self.warn("T114", tag(root), message);
            }
        }
        let mut entries = Vec::new();
        for node in root.children().filter(Node::is_element) {
            if node.tag_name().name() == "cpu" {
                self.cpu(&node, &mut entries);
            } else {
                self.unknown(&node);
            }
        }
        if self.sketch.gpus.is_empty() {
            let error = Diagnostic::error("T104", "the file has no GPU").at(self.file, tag(root), "");
            self.errors.push(error.note("a GPU is a `pci` element with a `gpu` inside or of class 0x03… or 0x12…"));
            return;
        }
        if GPU_LIMIT < self.sketch.gpus.len() {
            let message = format!("the file has {} GPUs; the limit is {GPU_LIMIT}", self.sketch.gpus.len());
            self.errors.push(Diagnostic::error("T102", message).at(self.file, tag(root), ""));
            return;
        }
        self.resolve(&entries);
        self.order();
    }

    fn unknown(&mut self, node: &Node<'a, '_>) {
        let message = format!("element `{}` is not known here and is passed over", clip(node.tag_name().name()));
        self.warn("T117", tag(node), message);
    }

    fn cpu(&mut self, node: &Node<'a, '_>, entries: &mut Vec<Entry<'a>>) {
        let count = self.sketch.tree.iter().filter(|branch| branch.socket.is_some()).count();
        let mut name = format!("cpu{}", self.number(node, "numaid").unwrap_or(count as u64));
        if self.sketch.tree.iter().any(|branch| branch.name == name) {
            name = format!("cpu-{count}");
        }
        let socket = self.socket_rate(node);
        let cpu = self.sketch.tree.len();
        self.sketch.tree.push(Branch { name, parent: None, socket: Some(socket) });
        // Depth is bounded, but a stack of our own needs no argument.
        let mut todo: Vec<(Node<'a, '_>, usize)> = Vec::new();
        let push = |todo: &mut Vec<_>, node: &Node<'a, '_>, parent| {
            let start = todo.len();
            todo.extend(node.children().filter(Node::is_element).map(|child| (child, parent)));
            todo[start..].reverse();
        };
        let mut stack: Vec<(Node<'a, '_>, usize)> = Vec::new();
        push(&mut stack, node, cpu);
        todo.append(&mut stack);
        while let Some((node, parent)) = todo.pop() {
            match node.tag_name().name() {
                "pci" => {
                    if let Some(branch) = self.pci(&node, parent, cpu, entries) {
                        push(&mut todo, &node, branch);
                    }
                }
                "nic" => {
                    let rate = self.nic_rate(&node);
                    self.sketch.adapters.push(Adapter { attached: (parent, None), rate: Some(rate) });
                }
                "pcilink" => {
                    self.warn("T117", tag(&node), "links between PCIe switches (`pcilink`) are passed over");
                }
                _ => self.unknown(&node),
            }
        }
    }

    /// Reads a `pci` element; for a bridge, gives its branch so that its children are read below it.
    fn pci(&mut self, node: &Node<'a, '_>, parent: usize, cpu: usize, entries: &mut Vec<Entry<'a>>) -> Option<usize> {
        let class = node.attribute("class").unwrap_or_default();
        let child = |name: &str| node.children().find(|child| child.tag_name().name() == name);
        let leaf = child("pci").is_none();
        if let Some(gpu) = child("gpu") {
            self.gpu(node, Some(gpu), parent, cpu, entries);
            return None;
        }
        if leaf && (class.starts_with("0x03") || class.starts_with("0x12")) {
            self.gpu(node, None, parent, cpu, entries);
            return None;
        }
        if child("nic").is_some() || (leaf && class.starts_with("0x02")) {
            let pcie = self.pcie_rate(node);
            let rate = child("nic").map(|nic| self.nic_rate(&nic));
            self.sketch.adapters.push(Adapter { attached: (parent, Some(pcie)), rate });
            return None;
        }
        if leaf {
            return None;
        }
        let rate = self.pcie_rate(node);
        let name = match node.attribute("busid") {
            Some(bus_id) => format!("pci-{}", clip(bus_id)),
            None => format!("pci-{}", self.sketch.tree.len()),
        };
        let name = if self.sketch.tree.iter().any(|branch| branch.name == name) {
            format!("{name}#{}", self.sketch.tree.len())
        } else {
            name
        };
        self.sketch.tree.push(Branch { name, parent: Some((parent, rate)), socket: None });
        Some(self.sketch.tree.len() - 1)
    }

    fn gpu(
        &mut self,
        pci: &Node<'a, '_>,
        gpu: Option<Node<'a, '_>>,
        parent: usize,
        cpu: usize,
        entries: &mut Vec<Entry<'a>>,
    ) {
        let index = self.sketch.gpus.len();
        let bus_id = pci.attribute("busid").filter(|id| !id.is_empty());
        if let Some(id) = bus_id
            && self.sketch.gpus.iter().any(|gpu| gpu.bus_id.as_deref() == Some(id))
        {
            let message = format!("two GPUs have the bus id `{}`", clip(id));
            self.errors.push(Diagnostic::error("T106", message).at(self.file, tag(pci), ""));
        }
        let mut facts = Gpu { bus_id: bus_id.map(str::to_owned), ..Gpu::default() };
        facts.attached = Some((parent, self.pcie_rate(pci)));
        if let Some(gpu) = gpu {
            facts.dev = self.number(&gpu, "dev");
            facts.rank = self.number(&gpu, "rank");
            let amd = gpu.attribute("gcn");
            facts.link_rate = match amd {
                Some(gcn) => Some(xgmi_rate(gcn)),
                None => self.number(&gpu, "sm").and_then(nvlink_rate),
            };
            for node in gpu.children().filter(Node::is_element) {
                let name = node.tag_name().name();
                match name {
                    "nvlink" | "xgmi" => entries.push(Entry {
                        gpu: index,
                        target: node.attribute("target").unwrap_or_default(),
                        class: node.attribute("tclass").unwrap_or_default(),
                        count: self.number(&node, "count").unwrap_or(1),
                        amd: amd.is_some() || name == "xgmi",
                        span: tag(&node),
                    }),
                    "c2c" => {
                        let count = self.number(&node, "count").unwrap_or(1);
                        let rate = self.number(&node, "bw").unwrap_or(0).saturating_mul(1_000_000);
                        self.sketch.add(index, End::Branch(cpu), count.saturating_mul(rate), LinkKind::C2c);
                    }
                    _ => self.unknown(&node),
                }
            }
        }
        self.sketch.gpus.push(facts);
    }

    /// Turns NVLink entries into links. Each is listed from both ends, so an entry is one direction.
    fn resolve(&mut self, entries: &[Entry<'a>]) {
        let ids: BTreeMap<String, usize> = {
            let numbered = self.sketch.gpus.iter().enumerate();
            numbered.filter_map(|(gpu, facts)| Some((facts.bus_id.clone()?, gpu))).collect()
        };
        let mut loops: Vec<&Entry<'a>> = Vec::new();
        let mut assumed = None;
        for entry in entries {
            let target = ids.get(entry.target).copied();
            let end = match (entry.class, target) {
                (_, Some(target)) if target == entry.gpu => {
                    loops.push(entry);
                    continue;
                }
                (_, Some(target)) => End::Gpu(target),
                (class, None) if class.starts_with("0x068001") => match self.cpu_of(entry.gpu) {
                    Some(cpu) => End::Branch(cpu),
                    None => continue,
                },
                (class, None) if class.starts_with("0x0680") => End::Switch,
                (_, None) => {
                    let message = format!(
                        "a link leads to `{}`, which is no GPU of this file; it is dropped",
                        clip(entry.target)
                    );
                    self.warn("T111", entry.span.clone(), message);
                    continue;
                }
            };
            let kind = if entry.amd { LinkKind::Xgmi } else { LinkKind::NvLink };
            let known = self.options.nvlink_bandwidth.or(self.sketch.gpus[entry.gpu].link_rate);
            let rate = known.map_or_else(
                || {
                    assumed.get_or_insert(entry.span.clone());
                    if entry.amd { 24_000_000_000 } else { 20_000_000_000 }
                },
                Rate::bytes_per_second,
            );
            let bytes = rate.saturating_mul(entry.count);
            match end {
                End::Gpu(target) => self.links.push((entry.gpu, target, bytes, kind)),
                End::Switch | End::Branch(_) => self.sketch.add(entry.gpu, end, bytes, kind),
            }
        }
        if let Some(span) = assumed {
            let message = "the file does not say of which generation its GPUs are; a link is taken as NCCL's default";
            self.warn("T115", span, message);
            if let Some(last) = self.warnings.last_mut() {
                last.help.push("write for example `nvlink_bandwidth = \"25 GB/s\"` (one link, one direction)".into());
            }
        }
        if let Some(first) = loops.first() {
            let message = format!(
                "{} of {} NVLink entries lead from a GPU to itself and are dropped",
                loops.len(),
                entries.len()
            );
            self.warn("T111", first.span.clone(), message);
        }
        let mut both: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for &(a, b, bytes, _) in &self.links {
            let sum = both.entry((a, b)).or_default();
            *sum = sum.saturating_add(bytes);
        }
        let kinds: BTreeMap<(usize, usize), LinkKind> =
            self.links.iter().flat_map(|&(a, b, _, kind)| [((a, b), kind), ((b, a), kind)]).collect();
        for (&(a, b), &kind) in &kinds {
            let [there, back] = [(a, b), (b, a)].map(|pair| both.get(&pair).copied().unwrap_or(0));
            if there < back {
                let names = [a, b].map(|gpu| self.sketch.gpus[gpu].bus_id.clone().unwrap_or_default());
                let message = format!(
                    "GPUs `{}` and `{}` disagree about the links between them; the larger number is taken",
                    names[0], names[1]
                );
                self.warn("T116", 0..0, message);
            }
            self.sketch.add(a, End::Gpu(b), there.max(back), kind);
        }
    }

    fn cpu_of(&self, gpu: usize) -> Option<usize> {
        let (mut at, _) = self.sketch.gpus[gpu].attached?;
        while let Some((parent, _)) = self.sketch.tree[at].parent {
            at = parent;
        }
        Some(at)
    }

    /// Orders GPUs by rank, else by device number, else as in the document.
    fn order(&mut self) {
        let gpus = &self.sketch.gpus;
        let keys = |key: fn(&Gpu) -> Option<u64>| -> Option<Vec<u64>> {
            let keys: Vec<u64> = gpus.iter().map(key).collect::<Option<_>>()?;
            let mut sorted = keys.clone();
            sorted.sort_unstable();
            sorted.dedup();
            (sorted.len() == keys.len()).then_some(keys)
        };
        let Some(keys) = keys(|gpu| gpu.rank).or_else(|| keys(|gpu| gpu.dev)) else { return };
        let mut order: Vec<usize> = (0..gpus.len()).collect();
        order.sort_by_key(|&gpu| keys[gpu]);
        let mut new = vec![0; order.len()];
        for (place, &gpu) in order.iter().enumerate() {
            new[gpu] = place;
        }
        self.sketch.gpus = order.iter().map(|&gpu| gpus[gpu].clone()).collect();
        let fast = std::mem::take(&mut self.sketch.fast);
        let renamed = fast.into_iter().map(|((gpu, end), link)| {
            let end = if let End::Gpu(other) = end { End::Gpu(new[other]) } else { end };
            ((new[gpu], end), link)
        });
        self.sketch.fast = renamed.collect();
    }

    /// Lanes · s / 80 GB/s.
    fn pcie_rate(&mut self, node: &Node<'a, '_>) -> Rate {
        const GENERATIONS: [(&str, u64); 6] =
            [("2.5", 15), ("5", 30), ("8", 60), ("16", 120), ("32", 240), ("64", 480)];
        let text = node.attribute("link_speed").unwrap_or_default().trim();
        let width = self.number(node, "link_width").unwrap_or(0);
        let number = text.split_once("GT/s").map(|(number, _)| number.trim());
        let number = number.map(|number| number.strip_suffix(".0").unwrap_or(number));
        let code = GENERATIONS.iter().find(|(name, _)| number == Some(name)).map(|(_, code)| *code);
        let default = 12_500_000_u64;
        if (code.is_none() || width == 0)
            && let Some(rate) = self.options.pcie_bandwidth
        {
            return rate;
        }
        let short = number.is_some_and(|number| text.starts_with(&format!("{number} GT/s"))) || text == "2.5 GT/s";
        if code.is_none() || width == 0 {
            let message = format!(
                "the speed of PCIe device `{}` is not given; it is taken as {} GB/s, as NCCL does",
                clip(node.attribute("busid").unwrap_or("?")),
                code.unwrap_or(60) * if width == 0 { 16 } else { width.min(64) } / 80
            );
            self.warn("T112", tag(node), message);
            if let Some(last) = self.warnings.last_mut() {
                last.help.push("write for example `pcie_bandwidth = \"24 GB/s\"` (PCIe 4.0 with 16 lanes)".into());
            }
        } else if !short && !text.contains("PCIe") && code != Some(60) {
            let message = format!("NCCL does not know the speed `{}` and counts it as 8 GT/s", clip(text));
            self.warn("T113", tag(node), message);
        }
        let lanes = if width == 0 { 16 } else { width.min(64) };
        Rate::new(lanes * code.unwrap_or(60) * default).unwrap_or(super::SLOWEST)
    }

    /// Sum over the ports of an adapter; Mb/s each, 10 000 where none is given.
    fn nic_rate(&mut self, nic: &Node<'a, '_>) -> Rate {
        let mut sum = 0_u64;
        for net in nic.children().filter(Node::is_element) {
            if net.tag_name().name() == "net" {
                let speed = self.number(&net, "speed").filter(|&speed| speed != 0).unwrap_or(10_000);
                sum = sum.saturating_add(speed.saturating_mul(125_000));
            } else {
                self.unknown(&net);
            }
        }
        Rate::new(sum).unwrap_or(super::SLOWEST)
    }

    /// What NCCL assumes between processors of this model.
    fn socket_rate(&mut self, cpu: &Node<'a, '_>) -> Rate {
        let family = self.number(cpu, "familyid");
        let model = self.number(cpu, "modelid").unwrap_or(0);
        let rate = match (cpu.attribute("arch"), cpu.attribute("vendor")) {
            (Some("x86_64"), Some("GenuineIntel")) if family == Some(6) => match model {
                0xcf.. => 40,
                0x8f.. => 22,
                0x55.. => 10,
                _ => 6,
            },
            (Some("x86_64"), Some("AuthenticAMD")) => 16,
            (Some("ppc64"), _) => 32,
            _ => 6,
        };
        Rate::new(rate * 1_000_000_000).unwrap_or(super::SLOWEST)
    }
}

/// The first line of an element: its start tag.
fn tag(node: &Node<'_, '_>) -> std::ops::Range<usize> {
    let range = node.range();
    let text = &node.document().input_text()[range.clone()];
    range.start..range.start + text.find('>').map_or(text.len(), |end| end + 1)
}

/// Not more of a user's text than fits a line.
fn clip(text: &str) -> String {
    let clean: String = text.chars().take(40).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.len() < text.len() { format!("{clean}…") } else { clean }
}

fn nvlink_rate(sm: u64) -> Option<Rate> {
    Rate::new(match sm {
        100.. => 40_100_000_000,
        90.. => 20_600_000_000,
        86 => 12_000_000_000,
        70.. => 20_000_000_000,
        60.. => 18_000_000_000,
        _ => return None,
    })
}

fn xgmi_rate(gcn: &str) -> Rate {
    let rate = if gcn.starts_with("gfx94") {
        48
    } else if gcn.starts_with("gfx90a") {
        36
    } else {
        24
    };
    Rate::new(rate * 1_000_000_000).unwrap_or(super::SLOWEST)
}
