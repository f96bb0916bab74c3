//! `[topology]` and `[failures]`: from the tables to a [`TopologySpec`].

use std::collections::HashMap;

use num_traits::One;
use rondo_ir::topology::NodeKind;
use rondo_ir::units::Delay;

use super::read::Reader;
use super::suggest;
use super::tables::{DeviceTable, FailuresTable, LinkTable, MediumTable, NodeTable, PortTable, TopologyTable};
use super::values::{LegalWord, Name, Pair, Positive, ScaleUpWord, TopologyWord};
use crate::span::{Span, Spanned};
use crate::topology::LINK_LIMIT;
use crate::topology::optical::{OpticalSpec, Rings, Technology};
use crate::topology::spec::{
    ClosSpec, DeviceSpec, Extra, FailedLink, FailureSpec, FileSpec, LegalSpec, LinkRates, LinkSpec, MediumSpec,
    NetworkSpec, NodeDefaults, NodeSpec, NvlinkSpec, PortSpec, PresetSpec, ScaleUp, ScaleUpKind, TopologyKind,
    TopologySpec,
};

/// Most nodes that a topology may have.
const MOST_NODES: u64 = 1 << 20;

type List<T> = Option<Spanned<Vec<Spanned<T>>>>;

/// The value without its place.
fn plain<T>(value: Option<Spanned<T>>) -> Option<T> {
    value.map(|given| given.value)
}

/// A number of nodes, machines and so on that was given, if it is not too large.
fn bounded(reader: &mut Reader<'_>, what: &str, count: Option<u64>, limit: u64, span: Span) -> Option<u64> {
    if let Some(count) = count
        && count <= limit
    {
        return Some(count);
    }
    let given = count.map_or_else(|| "more than can be counted".to_owned(), |count| count.to_string());
    reader
        .error("T050", span, format!("the topology would have {given} {what}; the limit is {limit}"), "too many")
        .help
        .push("describe a smaller one".to_owned());
    None
}

/// Checks the table. Gives `None` if anything needed is wrong; all of that is reported.
pub(super) fn check(
    reader: &mut Reader<'_>,
    table: Spanned<TopologyTable>,
    failures: Option<FailuresTable>,
) -> Option<TopologySpec> {
    let section = table.span;
    let TopologyTable {
        kind,
        name,
        nodes,
        bidirectional,
        sides,
        dimensions,
        tiers,
        radix,
        oversubscription,
        rail_optimized,
        gpus_per_host,
        host_bandwidth,
        host_latency,
        bandwidth,
        latency,
        uplink_bandwidth,
        uplink_latency,
        bundled,
        scale_up,
        preset,
        file,
        format,
        matrix,
        nvlink_bandwidth,
        pcie_bandwidth,
        nvlink,
        hosts,
        design,
        reconfiguration_delay,
        technology,
        split_ports,
        rings_per_switch,
        nics,
        nic_bandwidth,
        nic_latency,
        injection,
        ejection,
        forwards,
        multicasts,
        reduces,
        throughput,
        node,
        link,
        medium,
        device,
    } = table.value;
    let span = kind.map(|k| k.span).or(preset.map(|p| p.span)).or(file.as_ref().map(|f| f.span)).unwrap_or(section);
    let word = match (&kind, &preset, &file) {
        (Some(kind), ..) => Some(kind.value),
        (None, Some(_), _) => Some(TopologyWord::Preset),
        (None, None, Some(_)) => Some(TopologyWord::File),
        (None, None, None) => None,
    };
    let link_rates = || Some(LinkRates { bandwidth: plain(bandwidth)?, latency: plain(latency)? });
    let extra = self::extra(reader, node, link, medium, device, plain(latency), plain(forwards), word);
    let network = NetworkSpec {
        nic_bandwidth: plain(nic_bandwidth),
        nic_latency: plain(nic_latency),
        nics: nics.map(|n| n.value.0),
        rail_optimized: plain(rail_optimized).unwrap_or(false),
    };
    let count = |reader: &mut Reader<'_>| {
        let given = nodes?;
        let count = bounded(reader, "nodes", Some(u64::from(given.value.0)), MOST_NODES, given.span);
        count.and_then(|count| u32::try_from(count).ok())
    };
    let hosts = |reader: &mut Reader<'_>| {
        let given = hosts?;
        bounded(reader, "machines", Some(u64::from(given.value.0)), 1 << 16, given.span).map(|_| given.value.0)
    };
    let kind = match word? {
        TopologyWord::Ring => {
            let (nodes, link) = (count(reader), link_rates());
            TopologyKind::Ring { nodes: nodes?, bidirectional: plain(bidirectional)?, link: link? }
        }
        TopologyWord::Torus => {
            TopologyKind::Torus { sides: self::sides(reader, "topology.sides", sides)?, link: link_rates()? }
        }
        TopologyWord::Grid => {
            TopologyKind::Grid { sides: self::sides(reader, "topology.sides", sides)?, link: link_rates()? }
        }
        TopologyWord::Mesh => {
            let nodes = count(reader)?;
            let links = u64::from(nodes) * u64::from(nodes.saturating_sub(1));
            bounded(reader, "links", Some(links), LINK_LIMIT, span)?;
            TopologyKind::Mesh { nodes, link: link_rates()? }
        }
        TopologyWord::Switch => TopologyKind::Switch { nodes: count(reader)?, link: link_rates()? },
        TopologyWord::Hypercube => {
            let dimensions = dimensions?;
            if 20 < dimensions.value {
                reader
                    .error(
                        "T050",
                        dimensions.span,
                        format!("a hypercube of {} dimensions", dimensions.value),
                        "at most 20",
                    )
                    .help
                    .push("write a number from 0 to 20".to_owned());
                return None;
            }
            TopologyKind::Hypercube { dimensions: dimensions.value, link: link_rates()? }
        }
        TopologyWord::Clos => {
            let Spanned { value: Positive(tiers), span: tiers_span } = tiers?;
            let Spanned { value: Positive(radix), span: radix_span } = radix?;
            let mut fits = true;
            if 3 < tiers {
                reader
                    .error("T051", tiers_span, format!("a Clos network of {tiers} tiers"), "must be 1, 2 or 3")
                    .help
                    .push("write 1, 2 or 3".to_owned());
                fits = false;
            }
            if radix < 2 || (1 < tiers && radix % 2 == 1) {
                let needed = if tiers == 1 { "must be at least 2" } else { "must be even" };
                reader
                    .error("T052", radix_span, format!("switches of {radix} ports cannot form {tiers} tiers"), needed)
                    .help
                    .push("half of the ports of a switch below the top lead up: write an even number".to_owned());
                fits = false;
            }
            let nodes = match nodes {
                Some(_) => Some(count(reader)?),
                None => {
                    // What the tree holds without oversubscription: radix, radix²/2, radix³/4.
                    let holds =
                        (1..tiers.min(3)).try_fold(u64::from(radix), |sum, _| sum.checked_mul(u64::from(radix / 2)));
                    bounded(reader, "nodes", holds, MOST_NODES, radix_span)?;
                    None
                }
            };
            if !fits {
                return None;
            }
            let per_host = gpus_per_host?;
            if let (Some(nodes), Positive(per_host)) = (nodes, per_host.value)
                && nodes % per_host != 0
            {
                reader
                    .error(
                        "T053",
                        gpus_per_host?.span,
                        format!("{nodes} nodes are no whole number of hosts of {per_host}"),
                        "does not divide `nodes`",
                    )
                    .help
                    .push(nearest_multiples(u64::from(nodes), u64::from(per_host), |n| format!("nodes = {n}")));
                return None;
            }
            let link = link_rates()?;
            let scale_up = match plain(scale_up) {
                None => None,
                Some(given) => {
                    let kind = match plain(given.kind)? {
                        ScaleUpWord::Mesh => ScaleUpKind::Mesh,
                        ScaleUpWord::Torus => {
                            ScaleUpKind::Torus { sides: self::sides(reader, "topology.scale_up.sides", given.sides)? }
                        }
                    };
                    let latency = plain(given.latency).unwrap_or(link.latency);
                    Some(ScaleUp { kind, link: LinkRates { bandwidth: plain(given.bandwidth)?, latency } })
                }
            };
            TopologyKind::Clos(ClosSpec {
                tiers,
                radix,
                nodes,
                oversubscription: oversubscription.map_or_else(One::one, |ratio| ratio.value.0),
                rail_optimized: network.rail_optimized,
                per_host: per_host.value.0,
                link,
                uplink: LinkRates {
                    bandwidth: plain(uplink_bandwidth).unwrap_or(link.bandwidth),
                    latency: plain(uplink_latency).unwrap_or(link.latency),
                },
                host: plain(host_bandwidth)
                    .map(|bandwidth| LinkRates { bandwidth, latency: plain(host_latency).unwrap_or(link.latency) }),
                bundled: plain(bundled).unwrap_or(false),
                scale_up,
            })
        }
        TopologyWord::OpticalRing | TopologyWord::OpticalTorus | TopologyWord::PhotonicRails => {
            let rings = match word? {
                TopologyWord::OpticalRing => count(reader).map(|nodes| Rings::Ring { nodes }),
                TopologyWord::OpticalTorus => {
                    self::sides(reader, "topology.sides", sides).map(|sides| Rings::Torus { sides })
                }
                _ => {
                    let (servers, per_server) = (hosts(reader)?, gpus_per_host?.value.0);
                    let total = u64::from(servers) * u64::from(per_server);
                    bounded(reader, "nodes", Some(total), MOST_NODES, span)?;
                    let latency = plain(host_latency).or(plain(latency))?;
                    let inside = LinkRates { bandwidth: plain(host_bandwidth)?, latency };
                    Some(Rings::Rails { servers, per_server, inside })
                }
            };
            let technology = plain(technology);
            let Some(delay) = plain(reconfiguration_delay).or(technology.map(Technology::delay)) else {
                reader
                    .error("T060", span, "it is not said how long a change of circuits takes", "needs a delay")
                    .help
                    .push("write reconfiguration_delay = \"10 us\", or technology = \"silicon-photonics\"".to_owned());
                return None;
            };
            TopologyKind::Optical(OpticalSpec {
                rings: rings?,
                design: plain(design)?,
                split_ports: plain(split_ports)?,
                rings_per_switch: rings_per_switch?.value.0,
                link: link_rates()?,
                delay,
                most_ports: technology.map(Technology::ports),
            })
        }
        TopologyWord::Preset => TopologyKind::Preset(PresetSpec {
            preset: plain(preset)?,
            hosts: hosts(reader)?,
            bandwidth: plain(bandwidth),
            latency: plain(latency),
            network,
        }),
        TopologyWord::File => {
            let nvlink = match plain(nvlink) {
                None => None,
                Some(nvlink) => Some(NvlinkSpec { wiring: plain(nvlink.wiring)?, bandwidth: plain(nvlink.bandwidth)? }),
            };
            TopologyKind::File(FileSpec {
                path: file?.map(|Name(path)| path),
                format: plain(format)?,
                matrix: matrix.map(|path| path.map(|Name(path)| path)),
                nvlink_bandwidth: plain(nvlink_bandwidth),
                pcie_bandwidth: plain(pcie_bandwidth),
                latency: plain(latency),
                nvlink,
                hosts: hosts(reader)?,
                network,
            })
        }
        TopologyWord::Custom => TopologyKind::Custom,
    };
    Some(TopologySpec {
        job_file: reader.file().to_owned(),
        span,
        name: plain(name).map(|Name(name)| name),
        kind,
        nodes: NodeDefaults {
            injection: plain(injection),
            ejection: plain(ejection),
            forwards: plain(forwards),
            multicasts: plain(multicasts),
            reduces: plain(reduces),
            throughput: plain(throughput),
        },
        extra: extra?,
        failures: failures.map_or_else(|| Some(FailureSpec::default()), self::failures)?,
    })
}

/// `write n = 8 or n = 12`: the multiples of `step` on both sides of what was given.
pub(super) fn nearest_multiples(given: u64, step: u64, write: impl Fn(u64) -> String) -> String {
    let below = given / step * step;
    match (below, below.checked_add(step)) {
        (0, Some(above)) => format!("write {}", write(above)),
        (below, Some(above)) => format!("write {} or {}", write(below), write(above)),
        (below, None) => format!("write {}", write(below)),
    }
}

fn sides(reader: &mut Reader<'_>, path: &str, sides: List<Positive>) -> Option<Vec<u32>> {
    let sides = sides?;
    if sides.value.is_empty() {
        reader
            .error("T054", sides.span, format!("`{path}` is empty"), "needs at least one side")
            .help
            .push("write for example sides = [4, 4]".to_owned());
        return None;
    }
    let nodes = sides.value.iter().try_fold(1_u64, |product, side| product.checked_mul(u64::from(side.value.0)));
    bounded(reader, "nodes", nodes, MOST_NODES, sides.span)?;
    Some(sides.value.into_iter().map(|side| side.value.0).collect())
}

#[allow(clippy::too_many_arguments)]
fn extra(
    reader: &mut Reader<'_>,
    nodes: List<NodeTable>,
    links: List<LinkTable>,
    media: List<MediumTable>,
    devices: List<DeviceTable>,
    latency: Option<Delay>,
    forwards: Option<bool>,
    word: Option<TopologyWord>,
) -> Option<Extra> {
    let mut whole = true;
    let nodes_span = nodes.as_ref().map(|nodes| nodes.span);
    let total = nodes.iter().flat_map(|nodes| &nodes.value);
    let total = total.map(|node| node.value.count.map_or(1, |count| u64::from(count.value.0))).sum();
    bounded(reader, "nodes", Some(total), MOST_NODES, nodes_span.unwrap_or_default())?;
    let mut extra = Extra::default();
    for node in nodes.into_iter().flat_map(|nodes| nodes.value) {
        match self::node(node.value, forwards) {
            Some(specs) => extra.nodes.extend(specs),
            None => whole = false,
        }
    }
    let mut names: HashMap<&str, Span> = HashMap::new();
    let mut twice = Vec::new();
    for node in &extra.nodes {
        if let Some(first) = names.insert(&node.name.value, node.name.span) {
            twice.push((node.name.clone(), first));
        }
    }
    for (name, first) in twice {
        let file = reader.file().to_owned();
        let diagnostic = reader.error("T055", name.span, format!("two nodes are named `{}`", name.value), "the second");
        *diagnostic = diagnostic.clone().at(file, first.range(), "the first").help("give each node a name of its own");
        whole = false;
    }
    // Elsewhere the kind makes nodes of its own, and only its builder knows their names.
    let spelt_out = word == Some(TopologyWord::Custom) && whole;
    let known = |reader: &mut Reader<'_>, name: &Spanned<String>| {
        let found = !spelt_out || names.contains_key(name.value.as_str());
        if !found {
            unknown_node(reader, "T056", name, extra.nodes.iter().map(|node| node.name.value.as_str()));
        }
        found
    };
    let mut total = 0_u64;
    for Spanned { value: link, span } in links.into_iter().flat_map(|links| links.value) {
        let Some(spec) = self::link(reader, link, latency) else {
            whole = false;
            continue;
        };
        total += u64::from(spec.count);
        let ends = [known(reader, &spec.from), known(reader, &spec.to)];
        if spec.from.value == spec.to.value {
            reader
                .error("T057", span, format!("a link joins `{}` to itself", spec.from.value), "both ends are one node")
                .help
                .push("write another node in `to`, or delete the link".to_owned());
            whole = false;
        }
        whole &= ends == [true; 2];
        extra.links.push(spec);
        if LINK_LIMIT < total {
            bounded(reader, "links", Some(total), LINK_LIMIT, span)?;
        }
    }
    for Spanned { value: MediumTable { name, capacity, links }, .. } in media.into_iter().flat_map(|media| media.value)
    {
        let (Some(name), Some(capacity), Some(links)) = (name, capacity, links) else {
            whole = false;
            continue;
        };
        let mut pairs = Vec::new();
        for Spanned { value: Pair(Name(from), Name(to)), span } in links.value {
            for end in [&from, &to] {
                whole &= known(reader, &Spanned::new(end.clone(), span));
            }
            let wired = extra.links.iter().any(|link| {
                let ends = (&link.from.value, &link.to.value);
                ends == (&from, &to) || (link.both && ends == (&to, &from))
            });
            if spelt_out && whole && !wired {
                reader
                    .error(
                        "T058",
                        span,
                        format!("medium `{}` holds a link {from} -> {to}", name.value.0),
                        "there is no such link",
                    )
                    .help
                    .push(format!(
                        "add a [[topology.link]] with from = \"{from}\" and to = \"{to}\", or delete the pair"
                    ));
                whole = false;
            }
            pairs.push(Spanned::new((from, to), span));
        }
        extra.media.push(MediumSpec { name: name.map(|Name(name)| name), capacity: capacity.value, links: pairs });
    }
    for Spanned { value: device, .. } in devices.into_iter().flat_map(|devices| devices.value) {
        let ports = device.ports.iter().flat_map(|ports| &ports.value).filter_map(|port| port.value.node.as_ref());
        for port in ports {
            whole &= known(reader, &Spanned::new(port.value.0.clone(), port.span));
        }
        match self::device(reader, device) {
            Some(spec) => extra.devices.push(spec),
            None => whole = false,
        }
    }
    whole.then_some(extra)
}

/// Reports a name that no node has.
pub(super) fn unknown_node<'n>(
    reader: &mut Reader<'_>,
    code: &'static str,
    name: &Spanned<String>,
    known: impl Iterator<Item = &'n str> + Clone,
) {
    if reader.is_full() {
        reader.error(code, name.span, "", "");
        return;
    }
    let nearest = suggest::nearest(&name.value, known.clone().take(4096));
    let text = nearest.map_or_else(|| "unknown node".to_owned(), |nearest| format!("did you mean \"{nearest}\"?"));
    let shown = suggest::shorten(&name.value);
    let diagnostic = reader.error(code, name.span, format!("no node is named `{shown}`"), text);
    diagnostic.help.push(suggest::some("nodes", known));
}

fn node(node: NodeTable, forwards: Option<bool>) -> Option<Vec<NodeSpec>> {
    let NodeTable { name, count, kind, forwards: own, multicasts, reduces, injection, ejection, throughput } = node;
    let (name, kind) = (name?, plain(kind)?);
    let spec = |name: String, span| NodeSpec {
        name: Spanned::new(name, span),
        kind,
        forwards: plain(own).unwrap_or(kind == NodeKind::Switch || forwards == Some(true)),
        multicasts: plain(multicasts).unwrap_or(false),
        reduces: plain(reduces).unwrap_or(false),
        injection: plain(injection),
        ejection: plain(ejection),
        throughput: plain(throughput),
    };
    let Name(text) = name.value;
    Some(match count {
        None => vec![spec(text, name.span)],
        Some(count) => (0..count.value.0).map(|index| spec(format!("{text}{index}"), name.span)).collect(),
    })
}

fn link(reader: &mut Reader<'_>, link: LinkTable, latency: Option<Delay>) -> Option<LinkSpec> {
    let LinkTable { from, to, capacity, latency: own, both, count } = link;
    let (from, to, capacity, both, count) = (from?, to?, plain(capacity)?, plain(both)?, plain(count)?);
    let latency = plain(own).or(latency).unwrap_or_else(|| {
        reader.use_default("topology.link.latency", "\"1 us\"", super::tables::TABLE_1);
        Delay::from_nanoseconds(1000)
    });
    Some(LinkSpec {
        from: from.map(|Name(name)| name),
        to: to.map(|Name(name)| name),
        rates: LinkRates { bandwidth: capacity, latency },
        both,
        count: count.0,
    })
}

fn circuits(
    reader: &mut Reader<'_>,
    device: &str,
    ports: usize,
    pairs: Spanned<Vec<Spanned<Pair<u32>>>>,
) -> Option<Spanned<Vec<(u32, u32)>>> {
    let mut whole = true;
    let mut circuits = Vec::new();
    for Spanned { value: Pair(from, to), span } in pairs.value {
        for port in [from, to] {
            if ports <= port as usize {
                reader
                    .error("T059", span, format!("device `{device}` has no port {port}"), format!("it has {ports}"))
                    .help
                    .push(format!("write a number from 0 to {}", ports.saturating_sub(1)));
                whole = false;
            }
        }
        circuits.push((from, to));
    }
    whole.then_some(Spanned::new(circuits, pairs.span))
}

fn device(reader: &mut Reader<'_>, device: DeviceTable) -> Option<DeviceSpec> {
    let DeviceTable { name, delay, ports, legal, circuits, configurations, initial } = device;
    let (name, delay, ports, legal) = (name?.map(|Name(name)| name), plain(delay)?, ports?.value, plain(legal)?);
    let count = ports.len();
    let ports: Option<Vec<PortSpec>> = ports
        .into_iter()
        .map(|Spanned { value: PortTable { node, direction, capacity, latency }, .. }| {
            Some(PortSpec {
                node: node?.map(|Name(name)| name),
                direction: plain(direction)?,
                rates: LinkRates { bandwidth: plain(capacity)?, latency: plain(latency)? },
            })
        })
        .collect();
    let mut read = |pairs| self::circuits(reader, &name.value, count, pairs);
    let initial = read(initial?);
    let legal = match legal {
        LegalWord::Any => Some(LegalSpec::AnyMatching),
        LegalWord::Only => read(circuits?).map(LegalSpec::Only),
        LegalWord::Cycle => {
            let read: Vec<_> = configurations?.value.into_iter().map(|c| read(Spanned::new(c.value, c.span))).collect();
            read.into_iter().collect::<Option<Vec<_>>>().map(LegalSpec::Cycle)
        }
    };
    Some(DeviceSpec { name, ports: ports?, reconfiguration_delay: delay, legal: legal?, initial: initial? })
}

fn failures(table: FailuresTable) -> Option<FailureSpec> {
    let nodes = table.nodes.into_iter().flat_map(|nodes| nodes.value).map(|node| node.map(|Name(name)| name)).collect();
    let links = table.link.into_iter().flat_map(|links| links.value).map(|Spanned { value, span }| {
        Some(FailedLink {
            span,
            from: value.from?.map(|Name(name)| name),
            to: value.to?.map(|Name(name)| name),
            both: plain(value.both)?,
            index: value.index,
            degraded_to: plain(value.capacity),
        })
    });
    Some(FailureSpec { nodes, links: links.collect::<Option<Vec<_>>>()? })
}
