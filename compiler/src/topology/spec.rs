//! What a topology is built from: the checked content of a job file's `[topology]` and `[failures]`.
//!
//! The frontend makes a [`TopologySpec`]; the generators and importers turn it into a [`crate::fabric::Fabric`]. What can
//! be checked without building (units, numbers in range, needed keys) is checked by whoever makes the spec, and the
//! `Spanned` fields are those that only the builder can check: names of nodes and files.

use num_rational::Ratio;
use rondo_ir::topology::{NodeKind, PortDirection};
use rondo_ir::units::{Delay, Rate};

use crate::span::{Span, Spanned};

/// A described topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologySpec {
    /// The job file, as the user named it: what the spans below point into.
    pub job_file: String,
    /// The `kind` or `file` that was given.
    pub span: Span,
    /// A name for reports; the builder has a good one for each kind.
    pub name: Option<String>,
    /// Which topology.
    pub kind: TopologyKind,
    /// Limits and abilities that hold for every node of a class which the kind makes.
    pub nodes: NodeDefaults,
    /// Nodes, links, media and devices spelt out: all there is for [`TopologyKind::Custom`], additions for the others.
    pub extra: Extra,
    /// What does not work.
    pub failures: FailureSpec,
}

impl TopologySpec {
    /// A spec of this kind with nothing else said.
    #[must_use]
    pub fn new(kind: TopologyKind) -> Self {
        Self {
            job_file: String::new(),
            span: Span::default(),
            name: None,
            kind,
            nodes: NodeDefaults::default(),
            extra: Extra::default(),
            failures: FailureSpec::default(),
        }
    }
}

/// Rate and latency of each directed link that a generator makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRates {
    /// Bytes per second, each direction.
    pub bandwidth: Rate,
    /// Latency of the link.
    pub latency: Delay,
}

/// Which topology, with its parameters. Numbers are in the documented range already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyKind {
    /// Compute nodes `n0 …` in a cycle.
    Ring {
        /// At least 1.
        nodes: u32,
        /// Whether links run both ways.
        bidirectional: bool,
        /// Every link.
        link: LinkRates,
    },
    /// A torus; a side of 2 has two parallel links each way, a side of 1 none.
    Torus {
        /// At least one side, each at least 1.
        sides: Vec<u32>,
        /// Every link.
        link: LinkRates,
    },
    /// As a torus without wrap-around.
    Grid {
        /// At least one side, each at least 1.
        sides: Vec<u32>,
        /// Every link.
        link: LinkRates,
    },
    /// A link between every ordered pair.
    Mesh {
        /// At least 1.
        nodes: u32,
        /// Every link.
        link: LinkRates,
    },
    /// One non-blocking switch.
    Switch {
        /// At least 1.
        nodes: u32,
        /// Every link.
        link: LinkRates,
    },
    /// 2^d nodes.
    Hypercube {
        /// At most 20.
        dimensions: u32,
        /// Every link.
        link: LinkRates,
    },
    /// A tree of switches.
    Clos(ClosSpec),
    /// Rings of circuits.
    Optical(super::optical::OpticalSpec),
    /// A known machine, or several.
    Preset(PresetSpec),
    /// A real machine from a file.
    File(FileSpec),
    /// Only what [`TopologySpec::extra`] says.
    Custom,
}

/// A folded Clos (fat tree) of 1 to 3 tiers of switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosSpec {
    /// 1, 2 or 3.
    pub tiers: u32,
    /// Ports of a switch; at least 2.
    pub radix: u32,
    /// Compute nodes; `None`: as many as the tree holds.
    pub nodes: Option<u32>,
    /// Rate towards the hosts divided by the rate upwards, at each switch below the top; 1 is non-blocking.
    pub oversubscription: Ratio<u32>,
    /// Whether GPU i of every host hangs below the lowest switches of rail i.
    pub rail_optimized: bool,
    /// Compute nodes of one host; they are consecutive.
    pub per_host: u32,
    /// Links from compute nodes to the lowest switches.
    pub link: LinkRates,
    /// Links between switches.
    pub uplink: LinkRates,
    /// A switch inside each host that joins its compute nodes, with the rate of each one's link to it; `None`: no such
    /// switch.
    pub host: Option<LinkRates>,
    /// Whether the equal switches above the edge count as one switch and the equal links between two tiers as one link
    /// of their total rate: ideal spreading, packet by packet.
    pub bundled: bool,
    /// A second fabric that joins the compute nodes of each rack or pod; `None`: no such fabric.
    pub scale_up: Option<ScaleUp>,
}

/// A fabric inside each rack or pod of a Clos, beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleUp {
    /// What it is.
    pub kind: ScaleUpKind,
    /// Its links.
    pub link: LinkRates,
}

/// What joins the compute nodes of a rack or pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScaleUpKind {
    /// In each rack, a link between every ordered pair.
    Mesh,
    /// In each pod (two tiers: each rack), a torus of these sides, which forwards; the first dimension counts fastest.
    Torus {
        /// As many nodes as the pod has.
        sides: Vec<u32>,
    },
}

/// A machine that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Preset {
    Dgx1v,
    DgxA100,
    DgxH100,
    Gb200Nvl72,
    Mi250x,
    Mi300x,
}

impl Preset {
    /// All presets, in the order of the documentation.
    pub const ALL: [Self; 6] =
        [Self::Dgx1v, Self::DgxA100, Self::DgxH100, Self::Gb200Nvl72, Self::Mi250x, Self::Mi300x];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dgx1v => "dgx1v",
            Self::DgxA100 => "dgx-a100",
            Self::DgxH100 => "dgx-h100",
            Self::Gb200Nvl72 => "gb200-nvl72",
            Self::Mi250x => "mi250x",
            Self::Mi300x => "mi300x",
        }
    }
}

/// How several machines are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NetworkSpec {
    /// Rate of one NIC, each direction; `None`: the machine's own.
    pub nic_bandwidth: Option<Rate>,
    /// Latency of a NIC's link to the network; `None`: the machine's own.
    pub nic_latency: Option<Delay>,
    /// NICs of one machine; `None`: the machine's own number.
    pub nics: Option<u32>,
    /// Whether NIC i of each machine hangs on a switch of its own (rail i); otherwise one non-blocking switch joins all.
    pub rail_optimized: bool,
}

/// Machines of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetSpec {
    /// Which machine.
    pub preset: Preset,
    /// How many, at least 1.
    pub hosts: u32,
    /// Rate of one link inside the machine (as the preset's page defines it); `None`: the preset's own.
    pub bandwidth: Option<Rate>,
    /// Latency of a link inside the machine; `None`: the preset's own.
    pub latency: Option<Delay>,
    /// How they are joined.
    pub network: NetworkSpec,
}

/// How NVLinks that a file does not list are wired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NvlinkWiring {
    /// Every GPU has one link to one NVSwitch node.
    Switch,
    /// Every pair of GPUs has a link.
    Mesh,
}

/// NVLinks between all GPUs of a machine, added to what its file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvlinkSpec {
    /// How.
    pub wiring: NvlinkWiring,
    /// Rate of each such link, each direction: GPU to switch, or GPU to GPU.
    pub bandwidth: Rate,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum FileFormat {
    /// Recognised from the content.
    #[default]
    Auto,
    /// NCCL or RCCL topology XML (`NCCL_TOPO_DUMP_FILE`).
    NcclXml,
    /// Text of `nvidia-smi topo -m`.
    NvidiaSmi,
}

impl FileFormat {
    /// All formats, in the order of the documentation.
    pub const ALL: [Self; 3] = [Self::Auto, Self::NcclXml, Self::NvidiaSmi];

    /// The name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::NcclXml => "nccl-xml",
            Self::NvidiaSmi => "nvidia-smi",
        }
    }
}

/// A machine read from files. Paths are as typed: relative ones are meant relative to the job file's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSpec {
    /// The main file.
    pub path: Spanned<String>,
    /// Its format.
    pub format: FileFormat,
    /// A second file with the `nvidia-smi topo -m` matrix, whose NVLinks are added.
    pub matrix: Option<Spanned<String>>,
    /// Rate of one NVLink or xGMI link, each direction, where links are only counted (`NV12`); `None`: by the GPU
    /// generation in the file, if it says so.
    pub nvlink_bandwidth: Option<Rate>,
    /// Rate of a PCIe link of which the file does not say the speed.
    pub pcie_bandwidth: Option<Rate>,
    /// Latency of every link; `None`: the importer's default.
    pub latency: Option<Delay>,
    /// NVLinks between all GPUs.
    pub nvlink: Option<NvlinkSpec>,
    /// How many such machines, at least 1.
    pub hosts: u32,
    /// How they are joined; the file's NICs are the default.
    pub network: NetworkSpec,
}

/// Limits and abilities for all nodes that a kind makes. `None` leaves the kind's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NodeDefaults {
    /// Limit on what starts at each compute node.
    pub injection: Option<Rate>,
    /// Limit on what ends at each compute node.
    pub ejection: Option<Rate>,
    /// Whether compute nodes forward.
    pub forwards: Option<bool>,
    /// Whether switches copy one flow to several links; for a topology without switches, whether compute nodes do.
    pub multicasts: Option<bool>,
    /// Whether switches add flows; for a topology without switches, whether compute nodes do.
    pub reduces: Option<bool>,
    /// Limit on what passes through each switch.
    pub throughput: Option<Rate>,
}

/// Parts spelt out in the job file. Names may refer to nodes that the kind makes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Extra {
    /// Nodes in order; numbered names are expanded already.
    pub nodes: Vec<NodeSpec>,
    /// Links in order.
    pub links: Vec<LinkSpec>,
    /// Shared media.
    pub media: Vec<MediumSpec>,
    /// Circuit devices.
    pub devices: Vec<DeviceSpec>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: Spanned<String>,
    /// Compute or switch.
    pub kind: NodeKind,
    /// Whether routes may pass through it.
    pub forwards: bool,
    /// Whether it copies one flow to several links.
    pub multicasts: bool,
    /// Whether it adds flows.
    pub reduces: bool,
    /// Limit on what starts here.
    pub injection: Option<Rate>,
    /// Limit on what ends here.
    pub ejection: Option<Rate>,
    /// Limit on what passes through.
    pub throughput: Option<Rate>,
}

/// A link, cable or bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Where it starts.
    pub from: Spanned<String>,
    /// Where it ends.
    pub to: Spanned<String>,
    /// Rate and latency of each link.
    pub rates: LinkRates,
    /// Whether there is also the link back.
    pub both: bool,
    /// Parallel links, at least 1.
    pub count: u32,
}

/// A medium shared by links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediumSpec {
    /// Its name.
    pub name: Spanned<String>,
    /// Rate over all its links.
    pub capacity: Rate,
    /// All links from one node to another (first, second), each pair one way.
    pub links: Vec<Spanned<(String, String)>>,
}

/// A circuit device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Its name.
    pub name: Spanned<String>,
    /// Ports, numbered from 0 in order.
    pub ports: Vec<PortSpec>,
    /// Time that one change takes.
    pub reconfiguration_delay: Delay,
    /// What it can be set to.
    pub legal: LegalSpec,
    /// Circuits before the first step: (from port, to port), each direction listed.
    pub initial: Spanned<Vec<(u32, u32)>>,
}

/// A port of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The node at the other end.
    pub node: Spanned<String>,
    /// Directions that it serves.
    pub direction: PortDirection,
    /// Rate, and latency that a circuit through the port adds.
    pub rates: LinkRates,
}

/// What a device can be set to; circuits are (from port, to port).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LegalSpec {
    /// Any matching.
    AnyMatching,
    /// Any matching of these circuits.
    Only(Spanned<Vec<(u32, u32)>>),
    /// These configurations in a cycle.
    Cycle(Vec<Spanned<Vec<(u32, u32)>>>),
}

/// Failures: the builder marks links as down or slower, and routes around them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FailureSpec {
    /// Nodes of which every link is down.
    pub nodes: Vec<Spanned<String>>,
    /// Links that are down or slower.
    pub links: Vec<FailedLink>,
}

/// A link that is down or slower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLink {
    /// The entry.
    pub span: Span,
    /// Where it starts.
    pub from: Spanned<String>,
    /// Where it ends.
    pub to: Spanned<String>,
    /// Whether the links back fail too.
    pub both: bool,
    /// Which of several parallel links, from 0; `None`: all of them.
    pub index: Option<Spanned<u32>>,
    /// `None`: down. Otherwise the rate that is left.
    pub degraded_to: Option<Rate>,
}
