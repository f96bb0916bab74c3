//! What a job adds to a generated topology: limits, nodes and links of its own, circuits, failures.

use std::collections::BTreeSet;
use std::sync::Arc;

use rondo_ir::diagnostic::Diagnostic;
use rondo_ir::index::{LinkId, NodeId, PortId};
use rondo_ir::topology::{
    Circuit, Configuration, Device, LegalConfigurations, Medium, Node, NodeKind, Port, TopologyBuilder,
};
use rustc_hash::FxHashMap;

use super::circuits::{CircuitRouter, Orientation};
use super::error::{BuildError, LINK_LIMIT, nearest};
use super::route::{Rerouting, ShortestPaths};
use super::spec::{DeviceSpec, Extra, FailureSpec, LegalSpec, NodeDefaults, TopologyKind, TopologySpec};
use crate::fabric::{Fabric, LinkKind, Shape};
use crate::span::{Span, Spanned};

/// Applies all that the spec says beyond its kind.
///
/// With nodes or links of the job's own the shape becomes [`Shape::General`] and routes are shortest paths; otherwise the
/// shape stays, and routes that met a failure or may not pass a node any more are replaced by shortest paths.
pub(super) fn modify(spec: &TopologySpec, base: Fabric) -> Result<Fabric, Vec<Diagnostic>> {
    let TopologySpec { job_file, span, name, kind, nodes, extra, failures } = spec;
    let unchanged = name.is_none()
        && *nodes == NodeDefaults::default()
        && *extra == Extra::default()
        && *failures == FailureSpec::default();
    let custom = matches!(kind, TopologyKind::Custom);
    if unchanged && !custom {
        return Ok(base);
    }
    let mut builder = base.topology.to_builder();
    if let Some(name) = name {
        builder.name.clone_from(name);
    }
    set_defaults(&mut builder, nodes, matches!(kind, TopologyKind::Preset(_) | TopologyKind::File(_)));
    let mut work = Work {
        file: job_file,
        by_name: builder.nodes.iter().enumerate().map(|(n, node)| (node.name.clone(), NodeId::new(n))).collect(),
        builder,
        kinds: base.kinds,
        circuits: base.circuits,
        errors: Vec::new(),
    };
    work.add_nodes(extra);
    work.add_links(extra);
    work.add_media(extra);
    for device in &extra.devices {
        work.add_device(device);
    }
    work.fail(failures);
    let Work { builder, kinds, circuits, mut errors, .. } = work;
    if custom && !builder.nodes.iter().any(|node| node.kind == NodeKind::Compute) && errors.is_empty() {
        let error = BuildError::TooFew { what: "the number of compute nodes".into(), given: 0, limit: 1 };
        errors.push(error.diagnostic().at(job_file, span.range(), ""));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let topology = Arc::new(builder.finish().map_err(|errors| {
        let place = |error| BuildError::Topology(error).diagnostic().at(job_file, span.range(), "");
        errors.into_iter().map(place).collect::<Vec<_>>()
    })?);
    let reshaped = custom || !extra.nodes.is_empty() || !extra.links.is_empty();
    let rerouted = *failures != FailureSpec::default() || nodes.forwards.is_some();
    let shape = if reshaped { Shape::General } else { base.shape };
    let switched = !topology.devices().is_empty();
    let orientation = switched.then(|| match base.orientation {
        Some(orientation) if !reshaped => orientation,
        _ => Arc::new(Orientation::natural(&topology)),
    });
    Ok(Fabric {
        router: if let Some(orientation) = &orientation {
            Arc::new(CircuitRouter::new(topology.clone(), &circuits, Arc::clone(orientation)))
        } else if reshaped {
            Arc::new(ShortestPaths::new(topology.clone()))
        } else if rerouted {
            Arc::new(Rerouting::new(base.router, topology.clone()))
        } else {
            base.router
        },
        topology,
        shape,
        circuits,
        orientation,
        kinds,
    })
}

/// Sets limits and abilities. In machines only the switches between accelerators and machines can copy or add.
fn set_defaults(builder: &mut TopologyBuilder, defaults: &NodeDefaults, machines: bool) {
    let &NodeDefaults { injection, ejection, forwards, multicasts, reduces, throughput } = defaults;
    let no_switch = builder.nodes.iter().all(|node| node.kind == NodeKind::Compute);
    for node in &mut builder.nodes {
        let own_name = node.name.rsplit('/').next().unwrap_or_default();
        let able = match node.kind {
            NodeKind::Compute => no_switch,
            NodeKind::Switch => {
                !machines || ["nvswitch", "network", "rail"].iter().any(|prefix| own_name.starts_with(prefix))
            }
        };
        if able {
            node.multicasts = multicasts.unwrap_or(node.multicasts);
            node.reduces = reduces.unwrap_or(node.reduces);
        }
        match node.kind {
            NodeKind::Compute => {
                node.injection = injection.or(node.injection);
                node.ejection = ejection.or(node.ejection);
                node.forwards = forwards.unwrap_or(node.forwards);
            }
            NodeKind::Switch if able => node.throughput = throughput.or(node.throughput),
            NodeKind::Switch => {}
        }
    }
}

struct Work<'a> {
    file: &'a str,
    builder: TopologyBuilder,
    by_name: FxHashMap<String, NodeId>,
    kinds: Vec<LinkKind>,
    circuits: Vec<Configuration>,
    errors: Vec<Diagnostic>,
}

impl Work<'_> {
    fn error(&mut self, code: &'static str, span: Span, message: impl Into<String>) -> &mut Diagnostic {
        self.errors.push(Diagnostic::error(code, message).at(self.file, span.range(), ""));
        let last = self.errors.len() - 1;
        &mut self.errors[last]
    }

    /// The node of that name, or an error at its place that says what refers to it.
    fn find(&mut self, what: &str, name: &Spanned<String>) -> Option<NodeId> {
        if let Some(&node) = self.by_name.get(&name.value) {
            return Some(node);
        }
        let near = nearest(&name.value, self.builder.nodes.iter().map(|node| node.name.as_str()));
        let message = format!("{what} names node `{}`, which does not exist", name.value);
        let error = self.error("T010", name.span, message);
        error.help.extend(near.map(|near| format!("did you mean `{near}`?")));
        None
    }

    fn duplicate(&mut self, what: &str, name: &Spanned<String>) {
        self.error("T011", name.span, format!("two {what} are named `{}`", name.value));
    }

    fn add_nodes(&mut self, extra: &Extra) {
        for node in &extra.nodes {
            if self.by_name.contains_key(&node.name.value) {
                self.duplicate("nodes", &node.name);
                continue;
            }
            let id = self.builder.node(Node {
                name: node.name.value.clone(),
                kind: node.kind,
                forwards: node.forwards,
                multicasts: node.multicasts,
                reduces: node.reduces,
                injection: node.injection,
                ejection: node.ejection,
                throughput: node.throughput,
            });
            self.by_name.insert(node.name.value.clone(), id);
        }
    }

    fn add_links(&mut self, extra: &Extra) {
        for link in &extra.links {
            let what = format!("link {} -> {}", link.from.value, link.to.value);
            let (from, to) = (self.find(&what, &link.from), self.find(&what, &link.to));
            let (Some(from), Some(to)) = (from, to) else { continue };
            if from == to {
                self.error("T012", link.to.span, format!("a link joins node `{}` to itself", link.to.value));
                continue;
            }
            let more = u64::from(link.count) * if link.both { 2 } else { 1 };
            let given = self.builder.links.len() as u64 + more;
            if LINK_LIMIT < given {
                let message = format!("the topology would have {given} links; the limit is {LINK_LIMIT}");
                self.error("T003", link.from.span, message);
                return;
            }
            for _ in 0..link.count {
                self.builder.link(from, to, link.rates.bandwidth, link.rates.latency);
                if link.both {
                    self.builder.link(to, from, link.rates.bandwidth, link.rates.latency);
                }
            }
        }
        if !self.kinds.is_empty() {
            self.kinds.resize(self.builder.links.len(), LinkKind::Link);
        }
    }

    /// Links from one node to the other, in order; an error if there is none.
    fn links_between(&mut self, from: NodeId, to: NodeId, span: Span) -> Vec<LinkId> {
        let joins = |link: &rondo_ir::topology::Link| link.src == from && link.dst == to;
        let numbered = self.builder.links.iter().enumerate().filter(|(_, link)| joins(link));
        let links: Vec<LinkId> = numbered.map(|(index, _)| LinkId::new(index)).collect();
        if links.is_empty() {
            let [from, to] = [from, to].map(|node| self.builder.nodes[node.index()].name.clone());
            self.error("T015", span, format!("there is no link {from} -> {to}"));
        }
        links
    }

    fn add_media(&mut self, extra: &Extra) {
        let mut names = BTreeSet::new();
        for medium in &extra.media {
            if !names.insert(&medium.name.value) {
                self.duplicate("media", &medium.name);
                continue;
            }
            let mut links = BTreeSet::new();
            for pair in &medium.links {
                let what = format!("medium `{}`", medium.name.value);
                let ends = [&pair.value.0, &pair.value.1].map(|name| Spanned::new(name.clone(), pair.span));
                let (from, to) = (self.find(&what, &ends[0]), self.find(&what, &ends[1]));
                if let (Some(from), Some(to)) = (from, to) {
                    links.extend(self.links_between(from, to, pair.span));
                }
            }
            self.builder.medium(Medium {
                name: medium.name.value.clone(),
                capacity: medium.capacity,
                links: links.into_iter().collect(),
            });
        }
    }

    fn add_device(&mut self, spec: &DeviceSpec) {
        if self.builder.devices.iter().any(|device| device.name == spec.name.value) {
            self.duplicate("devices", &spec.name);
            return;
        }
        let mut ports = Vec::new();
        for port in &spec.ports {
            let what = format!("a port of device `{}`", spec.name.value);
            let Some(node) = self.find(&what, &port.node) else { return };
            let (capacity, latency) = (port.rates.bandwidth, port.rates.latency);
            ports.push(Port { node, direction: port.direction, capacity, latency });
        }
        let pairs = |list: &[(u32, u32)]| -> Vec<Circuit> {
            let circuit = |&(from, to): &(u32, u32)| Circuit { from: PortId::from(from), to: PortId::from(to) };
            list.iter().map(circuit).collect()
        };
        // A list of circuits or configurations can be checked as if any matching were allowed.
        let mut device = Device {
            name: spec.name.value.clone(),
            ports,
            reconfiguration_delay: spec.reconfiguration_delay,
            legal: LegalConfigurations::AnyMatching,
        };
        let configuration = |list: &[(u32, u32)]| Configuration::new(pairs(list));
        let before = self.errors.len();
        match &spec.legal {
            LegalSpec::AnyMatching => {}
            LegalSpec::Only(list) => {
                let circuits = configuration(&list.value);
                for &circuit in circuits.circuits() {
                    let back = Circuit { from: circuit.to, to: circuit.from };
                    let both = if circuits.contains(back) { vec![circuit, back] } else { vec![circuit] };
                    if let Err(error) = device.check(&Configuration::new(both)) {
                        self.error("T013", list.span, error.to_string());
                    }
                }
                device.legal = LegalConfigurations::Only { circuits: circuits.circuits().to_vec() };
            }
            LegalSpec::Cycle(list) => {
                for entry in list {
                    if let Err(error) = device.check(&configuration(&entry.value)) {
                        self.error("T013", entry.span, error.to_string());
                    }
                }
                let configurations = list.iter().map(|entry| configuration(&entry.value)).collect();
                device.legal = LegalConfigurations::Cycle { configurations };
            }
        }
        let initial = configuration(&spec.initial.value);
        if self.errors.len() == before
            && let Err(error) = device.check(&initial)
        {
            self.error("T013", spec.initial.span, error.to_string())
                .notes
                .push("the circuits before the first step".into());
        }
        self.builder.device(device);
        self.circuits.push(initial);
    }

    fn fail(&mut self, failures: &FailureSpec) {
        for name in &failures.nodes {
            let Some(node) = self.find("a failure", name) else { continue };
            for link in self.builder.links.iter_mut().filter(|link| link.src == node || link.dst == node) {
                link.up = false;
            }
        }
        for failed in &failures.links {
            let (from, to) = (self.find("a failed link", &failed.from), self.find("a failed link", &failed.to));
            let (Some(from), Some(to)) = (from, to) else { continue };
            let mut ways = vec![(from, to)];
            if failed.both {
                ways.push((to, from));
            }
            for (from, to) in ways {
                let mut links = self.links_between(from, to, failed.span);
                if let Some(index) = failed.index.filter(|_| !links.is_empty()) {
                    let Some(&one) = links.get(index.value as usize) else {
                        let message = format!("link number {} does not exist; there are {}", index.value, links.len());
                        self.error("T015", index.span, message).help.push("links are counted from 0".into());
                        continue;
                    };
                    links = vec![one];
                }
                for link in links {
                    let link = &mut self.builder.links[link.index()];
                    let Some(rate) = failed.degraded_to else {
                        link.up = false;
                        continue;
                    };
                    if link.capacity < rate {
                        let message =
                            format!("a rate of {rate} is left, but the link has {} when whole", link.capacity);
                        self.error("T016", failed.span, message);
                        break;
                    }
                    link.capacity = rate;
                }
            }
        }
    }
}
