//! Topology files of real machines: NCCL and RCCL topology XML, and the text of `nvidia-smi topo -m`.
//!
//! One file is one machine. GPUs become compute nodes `gpu0` … that do not forward, in the order of their `rank`, else
//! of their `dev`, else of the document; PCIe switches (`pci-BUSID`) and processors (`cpuN`) become switches; all NVSwitches
//! become one node `nvswitch`. Network adapters are ports to a network that the file does not describe: they become nodes
//! only where a job joins several such machines ([`assemble`]). Several NVLinks between
//! two devices are one link of their summed rate. No file says latencies: see [`DIRECT_LATENCY`] and its neighbours.
//!
//! What a file lacks is said in warnings, with what to write in the job to add it.

mod codes;
mod nccl;
mod sketch;
mod smi;

pub use codes::CODES;
pub use sketch::{DIRECT_LATENCY, PCIE_LATENCY, SWITCHED_LATENCY};

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::units::{Delay, Rate};

use self::sketch::{End, Sketch};
use crate::fabric::{Fabric, LinkKind};
use crate::topology::ReadFile;
use crate::topology::hosts::assemble;
use crate::topology::spec::{FileFormat, FileSpec, NetworkSpec, NvlinkSpec, NvlinkWiring};

/// Bytes that a topology file may have at most.
pub const SIZE_LIMIT: usize = 8 << 20;
/// GPUs that a machine may have at most.
pub const GPU_LIMIT: usize = 1024;

/// A rate of 1 B/s, where a file says zero.
const SLOWEST: Rate = match Rate::new(1) {
    Some(rate) => rate,
    None => panic!("1 is not 0"),
};

/// What a job adds to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Rate of one NVLink or xGMI link, each direction, instead of the one that NCCL assigns by generation.
    pub nvlink_bandwidth: Option<Rate>,
    /// Rate of PCIe links of which the file does not say the speed.
    pub pcie_bandwidth: Option<Rate>,
    /// Latency of every link, instead of the defaults.
    pub latency: Option<Delay>,
    /// NVLinks between all GPUs, added to what the file says.
    pub nvlink: Option<NvlinkSpec>,
    /// How many such machines.
    pub hosts: u32,
    /// How they are joined.
    pub network: NetworkSpec,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            nvlink_bandwidth: None,
            pcie_bandwidth: None,
            latency: None,
            nvlink: None,
            hosts: 1,
            network: NetworkSpec::default(),
        }
    }
}

/// What an import gives.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The topology.
    pub fabric: Fabric,
    /// What the file lacks or contradicts.
    pub warnings: Vec<Diagnostic>,
    /// Where rates and latencies come from, for reports.
    pub sources: Vec<String>,
}

/// Imports NCCL or RCCL topology XML. `file_name` is what messages call the file.
///
/// # Errors
/// Diagnostics of codes T101 … T106 with the place in the file; T017 and T018 if several machines are asked for and the
/// adapters are not known.
pub fn import_nccl_xml(file_name: &str, text: &str, options: &ImportOptions) -> Result<Imported, Vec<Diagnostic>> {
    let mut warnings = Vec::new();
    let sketch = nccl::read(file_name, text, options, &mut warnings)?;
    finish(file_name, sketch, options, warnings, "rates as NCCL assigns them")
}

/// Imports the text of `nvidia-smi topo -m` alone. The rate of an NVLink must be given; PCIe and adapters are there only
/// if the rate of PCIe is given.
///
/// A matrix in which a GPU sees more NVLinks than a GPU has (18) is one of NVSwitches: each GPU gets one link to the node
/// `nvswitch`, as fast as the NVLinks of its largest cell. Otherwise cells are direct links.
///
/// # Errors
/// Diagnostics of codes T120 … T123 with the place in the text.
pub fn import_nvidia_smi(file_name: &str, text: &str, options: &ImportOptions) -> Result<Imported, Vec<Diagnostic>> {
    let mut warnings = Vec::new();
    let matrix = smi::read(file_name, text, &mut warnings)?;
    if !matrix.has_nvlinks() && options.pcie_bandwidth.is_none() && options.nvlink.is_none() {
        let message = "the matrix has no NVLinks, and how fast PCIe is it does not say";
        let error = Diagnostic::error("T123", message).at(file_name, 0..0, "");
        return Err(vec![error.help("write for example `pcie_bandwidth = \"24 GB/s\"` (PCIe 4.0 with 16 lanes)")]);
    }
    let mut sketch = matrix.sketch(options, &mut warnings);
    add_matrix(file_name, &matrix, &mut sketch, options, None)?;
    if options.pcie_bandwidth.is_none() {
        let message = "the matrix does not say how fast PCIe is, so only NVLinks are there";
        let warning = Diagnostic::warning("T112", message).at(file_name, 0..0, "");
        warnings.push(warning.help("write for example `pcie_bandwidth = \"24 GB/s\"` to have PCIe and adapters too"));
    }
    finish(file_name, sketch, options, warnings, "rates as the job gives them")
}

/// Imports topology XML and adds the NVLinks of a matrix; both are (file name, text).
///
/// Row i of the matrix is the GPU with the i-th smallest `dev`, or where the file has no device numbers the i-th in order
/// of bus ids, which is the order of `nvidia-smi`. NVLinks that the XML lists itself are replaced.
///
/// # Errors
/// As of both; T122 if the numbers of GPUs differ.
pub fn combine(xml: (&str, &str), matrix: (&str, &str), options: &ImportOptions) -> Result<Imported, Vec<Diagnostic>> {
    let mut warnings = Vec::new();
    let mut sketch = nccl::read(xml.0, xml.1, options, &mut warnings)?;
    let table = smi::read(matrix.0, matrix.1, &mut warnings)?;
    if table.gpus() != sketch.gpus.len() {
        let message = format!("the matrix has {} GPUs, but `{}` has {}", table.gpus(), xml.0, sketch.gpus.len());
        return Err(vec![Diagnostic::error("T122", message).at(matrix.0, 0..0, "")]);
    }
    if sketch.has_fast_links() {
        let message = format!("`{}` lists NVLinks too; those of the matrix replace them", xml.0);
        warnings.push(Diagnostic::warning("T116", message).at(matrix.0, 0..0, ""));
        sketch.fast.retain(|(_, end), _| matches!(end, End::Branch(_)));
    }
    let order = sketch.smi_order();
    let known = sketch.gpus.iter().filter_map(|gpu| gpu.link_rate).min();
    add_matrix(matrix.0, &table, &mut sketch, options, known.map(|rate| (rate, order)))?;
    finish(xml.0, sketch, options, warnings, "rates as NCCL assigns them, NVLinks from the matrix")
}

/// Adds a matrix' NVLinks at the job's rate or one that is known otherwise, for GPUs in that order.
fn add_matrix(
    file_name: &str,
    matrix: &smi::Matrix,
    sketch: &mut Sketch,
    options: &ImportOptions,
    known: Option<(Rate, Vec<usize>)>,
) -> Result<(), Vec<Diagnostic>> {
    if !matrix.has_nvlinks() {
        return Ok(());
    }
    let order = sketch.smi_order();
    let (rate, order) = match (options.nvlink_bandwidth, known) {
        (Some(rate), known) => (rate, known.map_or(order, |(_, order)| order)),
        (None, Some(known)) => known,
        (None, None) => {
            let message = "the matrix counts NVLinks, but does not say how fast one is";
            let error = Diagnostic::error("T121", message).at(file_name, 0..0, "");
            return Err(vec![
                error
                    .note("25 GB/s each way for NVLink 2 to 4 (V100, A100, H100), 50 GB/s for NVLink 5 (B200)")
                    .help("write for example `nvlink_bandwidth = \"25 GB/s\"`"),
            ]);
        }
    };
    matrix.add_to(sketch, &order, rate);
    Ok(())
}

fn finish(
    file_name: &str,
    mut sketch: Sketch,
    options: &ImportOptions,
    mut warnings: Vec<Diagnostic>,
    rates: &str,
) -> Result<Imported, Vec<Diagnostic>> {
    let gpus = sketch.gpus.len();
    if let Some(NvlinkSpec { wiring, bandwidth }) = options.nvlink {
        let bytes = bandwidth.bytes_per_second();
        for a in 0..gpus {
            match wiring {
                NvlinkWiring::Switch => sketch.add(a, End::Switch, bytes, LinkKind::NvLink),
                NvlinkWiring::Mesh => {
                    (0..gpus).filter(|&b| b != a).for_each(|b| sketch.add(a, End::Gpu(b), bytes, LinkKind::NvLink))
                }
            }
        }
    }
    if !sketch.has_fast_links() && 1 < gpus {
        let warning =
            Diagnostic::warning("T110", "the file has no NVLinks: NCCL adds them when it runs, so only PCIe is here");
        let warning = warning.at(file_name, 0..0, "").help(
            "add them: `nvlink = { bandwidth = \"300 GB/s\" }` for GPUs on one NVSwitch, or `matrix = FILE` with the \
             text of `nvidia-smi topo -m`",
        );
        warnings.push(warning);
    }
    let mut sources = vec![format!("{file_name}: {rates}")];
    if options.latency.is_none() {
        sources.push(format!(
            "no file says latencies; assumed: {DIRECT_LATENCY} between GPUs, {SWITCHED_LATENCY} to an NVSwitch, \
             {PCIE_LATENCY} over PCIe"
        ));
    }
    let stem = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
    let name = if options.hosts == 1 { stem.to_owned() } else { format!("{} x {stem}", options.hosts) };
    let fabric = assemble(name, &sketch.host(options.latency), options.hosts, &options.network)
        .map_err(|error| vec![error.diagnostic().at(file_name, 0..0, "")])?;
    Ok(Imported { fabric, warnings, sources })
}

/// Imports text whose format is not known.
///
/// # Errors
/// T101 if it is neither; else as the importers.
pub fn import_text(
    file_name: &str,
    text: &str,
    format: FileFormat,
    options: &ImportOptions,
) -> Result<Imported, Vec<Diagnostic>> {
    match format.recognised(file_name, text)? {
        FileFormat::NvidiaSmi => import_nvidia_smi(file_name, text, options),
        FileFormat::Auto | FileFormat::NcclXml => import_nccl_xml(file_name, text, options),
    }
}

impl FileFormat {
    /// The format that a text has, if this one is `Auto`.
    fn recognised(self, file_name: &str, text: &str) -> Result<Self, Vec<Diagnostic>> {
        if self != Self::Auto {
            return Ok(self);
        }
        if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
            return Ok(Self::NcclXml);
        }
        if smi::recognise(text) {
            return Ok(Self::NvidiaSmi);
        }
        let what = if text.trim().is_empty() { "the file is empty" } else { "the file is of no known kind" };
        let error = Diagnostic::error("T101", what).at(file_name, 0..0, "");
        Err(vec![error.note("known: NCCL or RCCL topology XML, and the text of `nvidia-smi topo -m`")])
    }
}

/// Imports what a job names.
///
/// # Errors
/// T100 at the place in the job file if a file cannot be read; else as the importers.
pub fn import_file(job_file: &str, spec: &FileSpec, read: ReadFile<'_>) -> Result<Imported, Vec<Diagnostic>> {
    let FileSpec { path, format, matrix, nvlink_bandwidth, pcie_bandwidth, latency, nvlink, hosts, network } = spec;
    let options = ImportOptions {
        nvlink_bandwidth: *nvlink_bandwidth,
        pcie_bandwidth: *pcie_bandwidth,
        latency: *latency,
        nvlink: *nvlink,
        hosts: *hosts,
        network: *network,
    };
    let open = |path: &crate::span::Spanned<String>| {
        read(&path.value).map_err(|error| {
            let why = if error.kind() == std::io::ErrorKind::InvalidData {
                "it is no text".to_owned()
            } else {
                error.to_string()
            };
            let message = format!("cannot read `{}`: {why}", path.value);
            vec![Diagnostic::error("T100", message).at(job_file, path.span.range(), "")]
        })
    };
    let text = open(path)?;
    match matrix {
        None => import_text(&path.value, &text, *format, &options),
        Some(matrix) => {
            let table = open(matrix)?;
            if format.recognised(&path.value, &text)? == FileFormat::NvidiaSmi {
                let message = "`file` is a matrix already; `matrix` adds one to topology XML";
                return Err(vec![Diagnostic::error("T122", message).at(job_file, matrix.span.range(), "")]);
            }
            combine((&path.value, &text), (&matrix.value, &table), &options)
        }
    }
}

#[cfg(test)]
mod tests;
