//! What both kinds of topology files say, before it becomes a machine.

use std::collections::BTreeMap;

use rondo_ir::topology::Node;
use rondo_ir::units::{Delay, Rate};

use crate::fabric::LinkKind;
use crate::topology::hosts::{Host, NIC_LATENCY, Nic};
use crate::topology::spec::LinkRates;

/// Latency between GPUs, where the job gives none: an assumption, as no file says it.
pub const DIRECT_LATENCY: Delay = Delay::from_nanoseconds(700);
/// Latency of a GPU's link to its NVSwitch, likewise.
pub const SWITCHED_LATENCY: Delay = Delay::from_nanoseconds(350);
/// Latency of a PCIe link or between processors, likewise.
pub const PCIE_LATENCY: Delay = Delay::from_nanoseconds(500);

/// What an adapter without PCIe in between hangs on its processor with: NCCL's 5000 GB/s, which never binds.
const LOCAL: Option<Rate> = Rate::new(5_000_000_000_000);

/// A GPU of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gpu {
    pub bus_id: Option<String>,
    pub dev: Option<u64>,
    pub rank: Option<u64>,
    /// Rate of one of its NVLinks or xGMI links, where its generation is known.
    pub link_rate: Option<Rate>,
    /// What it hangs on in the tree, and the PCIe rate.
    pub attached: Option<(usize, Rate)>,
}

/// A PCIe switch or a processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    pub name: String,
    /// Lower index, and the PCIe rate up to it.
    pub parent: Option<(usize, Rate)>,
    /// Rate to each other processor, for a processor.
    pub socket: Option<Rate>,
}

/// Where a link between accelerators ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Gpu(usize),
    Switch,
    Branch(usize),
}

/// A network adapter of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Adapter {
    /// Branch, and the PCIe rate if there is PCIe in between.
    pub attached: (usize, Option<Rate>),
    pub rate: Option<Rate>,
}

/// A machine as a file describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sketch {
    pub gpus: Vec<Gpu>,
    /// Parents before children.
    pub tree: Vec<Branch>,
    pub adapters: Vec<Adapter>,
    /// Bytes per second of directed links from a GPU (to a GPU: one way; else both ways).
    pub fast: BTreeMap<(usize, End), (u64, LinkKind)>,
}

impl Sketch {
    /// Adds a rate to a link of a GPU.
    pub fn add(&mut self, gpu: usize, end: End, bytes_per_second: u64, kind: LinkKind) {
        let entry = self.fast.entry((gpu, end)).or_insert((0, kind));
        entry.0 = entry.0.saturating_add(bytes_per_second);
    }

    /// Whether GPUs are joined by anything but PCIe.
    pub fn has_fast_links(&self) -> bool {
        self.fast.keys().any(|(_, end)| !matches!(end, End::Branch(_)))
    }

    /// GPU indices in the order of `nvidia-smi`: by device number if all have one, else by bus id.
    pub fn smi_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.gpus.len()).collect();
        if self.gpus.iter().all(|gpu| gpu.dev.is_some()) {
            order.sort_by_key(|&gpu| self.gpus[gpu].dev);
        } else {
            order.sort_by(|&a, &b| self.gpus[a].bus_id.cmp(&self.gpus[b].bus_id));
        }
        order
    }

    /// The machine. Branches below which there is neither GPU nor adapter are left out. `latency` replaces all defaults.
    pub fn host(&self, latency: Option<Delay>) -> Host {
        let Self { gpus, tree, adapters, fast } = self;
        let mut host = Host::default();
        for gpu in 0..gpus.len() {
            host.node(Node::compute(format!("gpu{gpu}")));
        }
        let mut needed = vec![false; tree.len()];
        for gpu in gpus {
            if let Some((branch, _)) = gpu.attached {
                needed[branch] = true;
            }
        }
        for adapter in adapters {
            needed[adapter.attached.0] = true;
        }
        for (_, end) in fast.keys() {
            if let End::Branch(branch) = end {
                needed[*branch] = true;
            }
        }
        for branch in (0..tree.len()).rev() {
            if let (true, Some((parent, _))) = (needed[branch], tree[branch].parent) {
                needed[parent] = true;
            }
        }
        let pcie = |bandwidth: Rate| LinkRates { bandwidth, latency: latency.unwrap_or(PCIE_LATENCY) };
        let mut place = vec![None; tree.len()];
        let mut sockets: Vec<(usize, Rate)> = Vec::new();
        for (index, branch) in tree.iter().enumerate().filter(|(index, _)| needed[*index]) {
            let node = host.node(Node::switch(branch.name.clone()));
            place[index] = Some(node);
            if let Some((parent, rate)) = branch.parent
                && let Some(parent) = place[parent]
            {
                host.cable(node, parent, pcie(rate), LinkKind::Pcie);
            }
            if let Some(rate) = branch.socket {
                for &(other, other_rate) in &sockets {
                    host.cable(other, node, pcie(rate.min(other_rate)), LinkKind::Socket);
                }
                sockets.push((node, rate));
            }
        }
        for (gpu, facts) in gpus.iter().enumerate() {
            if let Some((branch, rate)) = facts.attached
                && let Some(branch) = place[branch]
            {
                host.cable(gpu, branch, pcie(rate), LinkKind::Pcie);
            }
        }
        let mut nvswitch = None;
        for (&(gpu, end), &(rate, kind)) in fast {
            let Some(bandwidth) = Rate::new(rate) else { continue };
            let rates = |default: Delay| LinkRates { bandwidth, latency: latency.unwrap_or(default) };
            match end {
                End::Gpu(other) => host.links.push(crate::topology::hosts::HostLink {
                    src: gpu,
                    dst: other,
                    rates: rates(DIRECT_LATENCY),
                    kind,
                }),
                End::Switch => {
                    let hub = match nvswitch {
                        Some(hub) => hub,
                        None => host.node(Node::switch("nvswitch")),
                    };
                    nvswitch = Some(hub);
                    host.cable(gpu, hub, rates(SWITCHED_LATENCY), kind);
                }
                End::Branch(branch) => {
                    if let Some(branch) = place[branch] {
                        host.cable(gpu, branch, rates(PCIE_LATENCY), kind);
                    }
                }
            }
        }
        for adapter in adapters {
            let (branch, rate) = adapter.attached;
            if let (Some(branch), Some(rate)) = (place[branch], rate.or(LOCAL)) {
                host.nics.push(Nic { attached: vec![(branch, pcie(rate))], rate: adapter.rate, latency: NIC_LATENCY });
            }
        }
        host
    }
}
