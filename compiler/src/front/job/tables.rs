//! What a job file may hold: every table and key, its type, default and documentation.
//!
//! The reader, the messages, the reference page and the JSON Schema are made from this page.

use rondo_ir::collective::{DataType, ReduceOperator};
use rondo_ir::profile::Protocol;
use rondo_ir::topology::{NodeKind, PortDirection};
use rondo_ir::units::{Bytes, Delay, PerByte, Rate};

use super::describe::{Default, Need, Tag, default, default_for, priced, priced_for, table};
use super::values::{
    CollectiveWord, ExportFormat, LegalWord, Name, NodeRef, Number, OneOrMany, Oversubscription, Pair, PerRank,
    Positive, RankChoice, Runtime, ScaleUpWord, Sizes, SlotCondition, Target, TopologyWord,
};
use crate::pass::circuits::Rule;
use crate::span::Spanned;
use crate::topology::optical::{Design, Technology};
use crate::topology::spec::{FileFormat, NvlinkWiring, Preset};

/// Sections that a later version will read, and what for.
pub(super) const RESERVED: &[(&str, &str)] =
    &[("job", "training jobs of several collectives; a later version reads it")];

/// Source of the default latency, start-up and reduction cost.
pub(super) const TABLE_1: &str = "\"On Topology's Role in ML Training Performance\", Table 1";

table! {
    /// A job: what is to be communicated, on what, at what cost.
    pub struct JobTable {
        /// A name for reports and files.
        name: Name { example: "\"nightly all_reduce\"" }
        /// What the job is for; not read by Rondo.
        description: Name { example: "\"gradients of the large model\"" }
        /// What can move data, and how fast.
        topology: TopologyTable { need: Need::Required, example: "{ kind = \"ring\", nodes = 8, bandwidth = \"25 GB/s\" }" }
        /// What must end up where.
        collective: CollectiveTable { need: Need::Required, example: "{ kind = \"all_reduce\", buffer_size = \"1 MiB\" }" }
        /// Which rank is on which node. Without it, the ranks are the compute nodes in the order of the topology.
        placement: PlacementTable { example: "{ nodes = [\"n3\", \"n1\"] }" }
        /// How to find the schedule, and how much proof to ask for.
        compile: CompileTable { default: SECTION, example: "{ algorithm = \"ring\" }" }
        /// What the cost model needs to know beyond the topology.
        cost: CostTable { default: SECTION, example: "{ startup = \"700 ns\" }" }
        /// How files for runtimes are written; `[[export]]` for several. `--emit` on the command line says which, and where.
        export: OneOrMany<ExportTable> { example: "{ runtime = \"msccl\" }" }
        /// What does not work.
        failures: FailuresTable { example: "{ nodes = [\"n3\"] }" }
    }
}

/// A section that is read as if it were there but empty, so that the defaults of its keys hold.
const SECTION: Option<Default> = default("{}", "");

/// Kinds whose links are all made by a generator.
const GENERATED: &[&str] = &[
    "ring",
    "torus",
    "grid",
    "mesh",
    "switch",
    "hypercube",
    "clos",
    "optical-ring",
    "optical-torus",
    "photonic-rails",
];
/// Kinds that bring no latency.
const WITHOUT_LATENCY: &[&str] = &[
    "ring",
    "torus",
    "grid",
    "mesh",
    "switch",
    "hypercube",
    "clos",
    "optical-ring",
    "optical-torus",
    "photonic-rails",
    "custom",
];
/// Kinds that are made of circuits.
const OPTICAL: &[&str] = &["optical-ring", "optical-torus", "photonic-rails"];

table! {
    /// What can move data, and how fast.
    ///
    /// Every kind may have `[[topology.node]]`, `[[topology.link]]`, `[[topology.medium]]` and `[[topology.device]]` in
    /// addition to what it makes; `kind = "custom"` has nothing else.
    @tag Tag { key: "kind", implied_by: &[("preset", "preset"), ("file", "file")], default: None };
    pub struct TopologyTable {
        /// Which topology. May be left out where `preset` or `file` is given.
        kind: TopologyWord {
            need: Need::Required,
            example: "\"ring\"",
        }
        /// A name for reports; each kind has a good one.
        name: Name { example: "\"rack 7\"" }
        /// Compute nodes, named `n0`, `n1` and so on. For `clos` as many as the tree holds, if left out.
        nodes: Positive {
            need: Need::RequiredFor(&["ring", "mesh", "switch", "optical-ring"]),
            only: &["ring", "mesh", "switch", "clos", "optical-ring"],
            example: "8",
        }
        /// Whether the links of a ring run both ways.
        bidirectional: bool { only: &["ring"], default: default("true", "the usual ring"), example: "false" }
        /// Side lengths, one for each dimension; the first dimension counts fastest in node numbers.
        sides: Vec<Spanned<Positive>> {
            need: Need::RequiredFor(&["torus", "grid", "optical-torus"]),
            only: &["torus", "grid", "optical-torus"],
            example: "[4, 4]",
        }
        /// Dimensions of a hypercube, at most 20.
        dimensions: u32 { need: Need::RequiredFor(&["hypercube"]), only: &["hypercube"], example: "4" }
        /// Tiers of switches, 1 to 3.
        tiers: Positive { need: Need::RequiredFor(&["clos"]), only: &["clos"], example: "2" }
        /// Ports of a switch.
        radix: Positive { need: Need::RequiredFor(&["clos"]), only: &["clos"], example: "8" }
        /// Rate towards the hosts to rate upwards at every switch below the top: a number or `"3:2"`.
        oversubscription: Oversubscription { only: &["clos"], default: default("1", "non-blocking"), example: "\"2:1\"" }
        /// For `clos`: whether GPU i of every host hangs below the lowest switches of rail i. For several machines: whether
        /// their NICs of one number have a switch of their own.
        rail_optimized: bool {
            only: &["clos", "preset", "file"],
            default: default("false", "one network for all"),
            example: "true",
        }
        /// Compute nodes of one host (of one server of photonic rails); they are consecutive.
        gpus_per_host: Positive {
            only: &["clos", "photonic-rails"],
            default: default("1", "every node is a host"),
            example: "8",
        }
        /// Rate of the link from each compute node to a switch inside its host, each direction. Without it, a host has no
        /// such switch; photonic rails need it.
        host_bandwidth: Rate {
            need: Need::RequiredFor(&["photonic-rails"]),
            only: &["clos", "photonic-rails"],
            example: "\"300 GB/s\"",
        }
        /// Latency of the links inside a host; that of the other links, if left out.
        host_latency: Delay { only: &["clos", "photonic-rails"], example: "\"500 ns\"" }
        /// Rate of each link, each direction; for `clos`, of the links between nodes and switches. For `preset`, of a link
        /// inside the machine, instead of the machine's own.
        bandwidth: Rate {
            need: Need::RequiredFor(GENERATED),
            only: &[
                "ring", "torus", "grid", "mesh", "switch", "hypercube", "clos", "preset", "optical-ring", "optical-torus",
                "photonic-rails",
            ],
            example: "\"25 GB/s\"",
        }
        /// Latency of each link that does not say its own. Presets and files bring theirs, if this is left out.
        latency: Delay { default: priced_for(WITHOUT_LATENCY, "\"1 us\"", TABLE_1), example: "\"700 ns\"" }
        /// Rate of each link between switches, if not `bandwidth`.
        uplink_bandwidth: Rate { only: &["clos"], example: "\"100 GB/s\"" }
        /// Latency of each link between switches, if not `latency`.
        uplink_latency: Delay { only: &["clos"], example: "\"300 ns\"" }
        /// Whether the equal switches above the racks count as one, and equal links between two tiers as one link of their
        /// total rate: ideal spreading packet by packet, for large trees.
        bundled: bool { only: &["clos"], default: default("false", "every switch and link"), example: "true" }
        /// A second fabric that joins the nodes of each rack or pod, which traffic within it takes instead.
        scale_up: ScaleUpTable { only: &["clos"], example: "{ kind = \"mesh\", bandwidth = \"500 GB/s\" }" }
        /// Which machine.
        preset: Preset { need: Need::RequiredFor(&["preset"]), only: &["preset"], example: "\"dgx-a100\"" }
        /// A topology file. A relative path starts at the folder of the job file.
        file: Name { need: Need::RequiredFor(&["file"]), only: &["file"], example: "\"ndv4-topo.xml\"" }
        /// Format of `file`.
        format: FileFormat { only: &["file"], default: default("\"auto\"", "recognised from the content"), example: "\"nccl-xml\"" }
        /// A second file: the text of `nvidia-smi topo -m`, of which the NVLinks are added to `file`.
        matrix: Name { only: &["file"], example: "\"topo-m.txt\"" }
        /// Rate of one NVLink or xGMI link, each direction, where the file only counts them. Without it, the rate of the
        /// GPU's generation, if the file names it.
        nvlink_bandwidth: Rate { only: &["file"], example: "\"25 GB/s\"" }
        /// Rate of PCIe links for which the file gives none.
        pcie_bandwidth: Rate { only: &["file"], example: "\"24 GB/s\"" }
        /// NVLinks between all GPUs of the machine, for files that leave them out.
        nvlink: NvlinkTable { only: &["file"], example: "{ bandwidth = \"300 GB/s\" }" }
        /// How many such machines, joined by their NICs.
        /// Servers of photonic rails.
        hosts: Positive {
            need: Need::RequiredFor(&["photonic-rails"]),
            only: &["preset", "file", "photonic-rails"],
            default: default_for(&["preset", "file"], "1", "one machine"),
            example: "2",
        }
        /// Which of a ring's two matchings are cables and which are circuits, and of how many switches.
        design: Design {
            only: OPTICAL,
            default: default("\"fixed\"", "\"Shortcut\", Eqs. 8 and 9"),
            example: "\"all-ports\"",
        }
        /// Time that an optical switch needs to change its circuits; what `[cost]` says of synchronisation and stragglers is
        /// added. Without it, that of the `technology`.
        reconfiguration_delay: Delay { only: OPTICAL, example: "\"4 us\"" }
        /// How the switches are made: says how long a change takes and how many ports a switch has.
        technology: Technology { only: OPTICAL, example: "\"silicon-photonics\"" }
        /// Whether each port of a switch only sends or only receives, so that circuits need not be paired.
        split_ports: bool { only: OPTICAL, default: default("false", "transceivers are duplex"), example: "true" }
        /// Rings of one dimension, or rails, that share their switches.
        rings_per_switch: Positive { only: OPTICAL, default: default("1", "each ring has its own"), example: "4" }
        /// NICs of each machine, if not its own number.
        nics: Positive { only: &["preset", "file"], example: "4" }
        /// Rate of each NIC, each direction, if not its own.
        nic_bandwidth: Rate { only: &["preset", "file"], example: "\"200 Gbps\"" }
        /// Latency of the link from each NIC to the network, if not the machine's own.
        nic_latency: Delay { only: &["preset", "file"], example: "\"1 us\"" }
        /// Limit on what each compute node sends over all its links together.
        injection: Rate { example: "\"100 GB/s\"" }
        /// Limit on what each compute node receives over all its links together.
        ejection: Rate { example: "\"100 GB/s\"" }
        /// Whether compute nodes pass on traffic that is not theirs. By default they do in `ring`, `torus`, `grid` and
        /// `hypercube`, and do not elsewhere.
        forwards: bool { example: "true" }
        /// Whether switches (or, where there are none, compute nodes) copy one flow to several links.
        multicasts: bool { example: "true" }
        /// Whether switches (or, where there are none, compute nodes) add flows.
        reduces: bool { example: "true" }
        /// Limit on what passes through each switch.
        throughput: Rate { example: "\"3 TB/s\"" }
        /// Nodes.
        node: Vec<Spanned<NodeTable>> { need: Need::RequiredFor(&["custom"]), example: "[{ name = \"gpu\", count = 4 }]" }
        /// Links.
        link: Vec<Spanned<LinkTable>> { example: "[{ from = \"n0\", to = \"n2\", capacity = \"25 GB/s\" }]" }
        /// Media that several links share: half-duplex cables, the upstream port of a PCIe switch.
        medium: Vec<Spanned<MediumTable>> {
            example: "[{ name = \"bus\", capacity = \"16 GB/s\", links = [[\"n0\", \"n1\"]] }]",
        }
        /// Devices that set circuits between their ports: optical circuit switches.
        device: Vec<Spanned<DeviceTable>> {
            example: "[{ name = \"ocs\", delay = \"10 us\", ports = [{ node = \"n0\", capacity = \"50 GB/s\" }] }]",
        }
    }
}

table! {
    /// NVLinks between all GPUs of a machine.
    pub struct NvlinkTable {
        /// How they are wired.
        wiring: NvlinkWiring { default: default("\"switch\"", "machines with NVSwitch"), example: "\"mesh\"" }
        /// Rate of each GPU's link to the switch, or of each link between two GPUs; each direction.
        bandwidth: Rate { need: Need::Required, example: "\"300 GB/s\"" }
    }
}

table! {
    /// A fabric inside each rack or pod of a Clos.
    @tag Tag { key: "kind", implied_by: &[], default: None };
    pub struct ScaleUpTable {
        /// What it is.
        kind: ScaleUpWord { need: Need::Required, example: "\"mesh\"" }
        /// Side lengths; their product is the number of nodes of a pod. The first dimension counts fastest.
        sides: Vec<Spanned<Positive>> { need: Need::RequiredFor(&["torus"]), only: &["torus"], example: "[4, 4]" }
        /// Rate of each link, each direction.
        bandwidth: Rate { need: Need::Required, example: "\"500 GB/s\"" }
        /// Latency of each link, if not that of the other links.
        latency: Delay { example: "\"300 ns\"" }
    }
}

table! {
    /// A node, or several of one sort.
    pub struct NodeTable {
        /// Its name. With `count`, what stands before the number.
        name: Name { need: Need::Required, example: "\"gpu0\"" }
        /// Makes so many nodes, with the numbers 0, 1 and so on behind their name.
        count: Positive { example: "8" }
        /// What it is.
        kind: NodeKind { default: default("\"compute\"", "most nodes are"), example: "\"switch\"" }
        /// Whether it passes on traffic that is not its own. By default switches do, and compute nodes as `[topology]` says.
        forwards: bool { example: "true" }
        /// Whether it copies one flow to several links.
        multicasts: bool { example: "true" }
        /// Whether it adds flows.
        reduces: bool { example: "true" }
        /// Limit on what it sends over all its links together.
        injection: Rate { example: "\"100 GB/s\"" }
        /// Limit on what it receives over all its links together.
        ejection: Rate { example: "\"100 GB/s\"" }
        /// Limit on what passes through it.
        throughput: Rate { example: "\"3 TB/s\"" }
    }
}

table! {
    /// A link between two nodes.
    pub struct LinkTable {
        /// Where it starts.
        from: Name { need: Need::Required, example: "\"gpu0\"" }
        /// Where it ends.
        to: Name { need: Need::Required, example: "\"gpu1\"" }
        /// Its rate, each direction.
        capacity: Rate { need: Need::Required, example: "\"25 GB/s\"" }
        /// Its latency; that of `[topology]`, if left out.
        latency: Delay { example: "\"700 ns\"" }
        /// Whether there is also the link back.
        both: bool { default: default("true", "a cable"), example: "false" }
        /// How many such links there are side by side.
        count: Positive { default: default("1", "one link"), example: "4" }
    }
}

table! {
    /// A medium that several links share.
    pub struct MediumTable {
        /// Its name, for reports.
        name: Name { need: Need::Required, example: "\"bus\"" }
        /// Its rate, over all its links together.
        capacity: Rate { need: Need::Required, example: "\"16 GB/s\"" }
        /// Its links: pairs of where they start and end. A cable has two.
        links: Vec<Spanned<Pair<Name>>> { need: Need::Required, example: "[[\"gpu0\", \"sw\"], [\"gpu1\", \"sw\"]]" }
    }
}

table! {
    /// A device that sets circuits between its ports. Circuits are pairs of ports, from and to; between duplex ports
    /// both directions are listed.
    @tag Tag { key: "legal", implied_by: &[], default: Some("any") };
    pub struct DeviceTable {
        /// Its name.
        name: Name { need: Need::Required, example: "\"ocs\"" }
        /// Time that one change of its circuits takes.
        delay: Delay { need: Need::Required, example: "\"10 us\"" }
        /// Its ports, numbered from 0.
        ports: Vec<Spanned<PortTable>> { need: Need::Required, example: "[{ node = \"n0\", capacity = \"50 GB/s\" }]" }
        /// What it can be set to.
        legal: LegalWord { default: default("\"any\"", "an optical circuit switch"), example: "\"only\"" }
        /// The circuits that it can make.
        circuits: Vec<Spanned<Pair<u32>>> { need: Need::RequiredFor(&["only"]), only: &["only"], example: "[[0, 1], [1, 0]]" }
        /// Its configurations, in the order of the cycle.
        configurations: Vec<Spanned<Vec<Spanned<Pair<u32>>>>> {
            need: Need::RequiredFor(&["cycle"]),
            only: &["cycle"],
            example: "[[[0, 1], [1, 0]], []]",
        }
        /// The circuits before the first step.
        initial: Vec<Spanned<Pair<u32>>> { default: default("[]", "no circuit is set"), example: "[[0, 1], [1, 0]]" }
    }
}

table! {
    /// A port of a device.
    pub struct PortTable {
        /// The node at the other end.
        node: Name { need: Need::Required, example: "\"gpu0\"" }
        /// Directions that it serves.
        direction: PortDirection { default: default("\"duplex\"", "most ports are"), example: "\"tx\"" }
        /// Its rate, each direction.
        capacity: Rate { need: Need::Required, example: "\"50 GB/s\"" }
        /// Latency that a circuit through it adds; the circuit's latency is the sum over its two ports.
        latency: Delay { default: priced("\"0 s\"", "none given: light takes 5 ns for a metre"), example: "\"100 ns\"" }
    }
}

table! {
    /// What must end up where.
    @tag Tag { key: "kind", implied_by: &[], default: None };
    pub struct CollectiveTable {
        /// Which collective.
        kind: CollectiveWord { need: Need::Required, example: "\"all_reduce\"" }
        /// The larger of a rank's input and output buffers: one size, or a range for which a set of plans is compiled, with
        /// the exact sizes at which one plan gives way to the next. A multiple of the element.
        buffer_size: Sizes {
            only: &[
                "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather", "scatter",
                "send_receive", "custom",
            ],
            example: "\"1 KiB..4 GiB\"",
        }
        /// The part of the buffer that belongs to one peer (`buffer_size` divided by the number of ranks). Instead of
        /// `buffer_size`, never beside it.
        block_size: Sizes {
            only: &["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter"],
            example: "\"64 KiB\"",
        }
        /// Type of an element.
        dtype: DataType { default: default("\"float32\"", "as nccl-tests"), example: "\"bfloat16\"" }
        /// How values are added.
        operator: ReduceOperator {
            only: &["all_reduce", "reduce_scatter", "reduce", "custom"],
            default: default("\"sum\"", "as nccl-tests"),
            example: "\"max\"",
        }
        /// The root: its number among the ranks, or the name of its node.
        root: NodeRef {
            only: &["broadcast", "reduce", "gather", "scatter"],
            default: default("0", "the first rank, as nccl-tests"),
            example: "\"gpu3\"",
        }
        /// Who takes part, and in which order: a list of nodes, each by name or by its number among the compute nodes (with
        /// `[placement]`: by its number there), or how many of the first. Without it, all.
        ranks: RankChoice { example: "[\"gpu0\", \"gpu2\", 5]" }
        /// Whether input and output are one buffer.
        in_place: bool {
            only: &["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter"],
            default: default("false", "the input stays as it is"),
            example: "true",
        }
        /// Whether the input may be overwritten although the output is another buffer. Libraries promise not to.
        input_writable: bool { default: default("false", "libraries promise not to write it"), example: "true" }
        /// Sizes of the blocks: the entry in row p, column q is what rank p sends to rank q. Instead of a size.
        matrix: Vec<Spanned<Vec<Spanned<Bytes>>>> {
            only: &["all_to_all"],
            example: "[[\"0 B\", \"4 KiB\"], [\"1 KiB\", \"0 B\"]]",
        }
        /// For each rank, to whom it sends: a rank's number, a node's name, or `"none"`. Nobody receives twice.
        targets: Vec<Spanned<Target>> {
            need: Need::RequiredFor(&["send_receive"]),
            only: &["send_receive"],
            example: "[1, 2, \"none\"]",
        }
        /// Slots of the input buffer: one number for all ranks or one for each. All are defined at the start.
        input_slots: PerRank { need: Need::RequiredFor(&["custom"]), only: &["custom"], example: "[1, 1, 0]" }
        /// For each rank, for each slot of its output, what it must hold at the end: `"r1[0]"` is the content of input slot
        /// 0 of rank 1, `"r0[0] + 2*r1[3]"` a sum, `"sum[0]"` the sum of input slot 0 over all ranks, `"free"` anything.
        output: Vec<Spanned<Vec<Spanned<SlotCondition>>>> {
            need: Need::RequiredFor(&["custom"]),
            only: &["custom"],
            example: "[[\"r1[0]\"], [\"r0[0] + r1[0]\"], [\"free\"]]",
        }
    }
}

table! {
    /// Which rank is on which node.
    pub struct PlacementTable {
        /// The node of rank 0, of rank 1, and so on: names, or numbers among the compute nodes.
        nodes: Vec<Spanned<NodeRef>> { need: Need::Required, example: "[\"n3\", \"n1\", 0, 2]" }
    }
}

table! {
    /// How to find the schedule, and how much proof to ask for.
    pub struct CompileTable {
        /// An algorithm by name, or `"auto"`: build every one that fits, and take the cheapest.
        algorithm: Name { default: default("\"auto\"", "the cheapest that fits"), example: "\"ring\"" }
        /// How many pieces of each block are sent one behind the other (pipelining). Without it, the best number is chosen.
        chunks: Positive { example: "4" }
        /// How the circuits of optical switches are changed between steps.
        circuits: Rule { default: default("\"optimal\"", "nothing of the class is cheaper"), example: "\"best\"" }
        /// Instead of a rule: the first step of the reduce_scatter that runs on circuits of its own.
        threshold: u32 { example: "2" }
        /// Whether the circuits of the start are set again at the end, which costs a change, so that the next call finds them.
        restore_circuits: bool { default: default("false", "as \"Shortcut\" counts"), example: "true" }
        /// Whether a schedule without a complete proof by the SMT solver counts as undecided.
        require_smt: bool { default: default("false", "the exact check decides"), example: "true" }
        /// Ranks up to which the SMT solver proves every chunk; above it, it proves chosen chunks, and the report says which
        /// share.
        smt_ranks: Number { default: default("256", "about a second"), example: "1024" }
        /// Resources that one query of the proof may use (Z3's `rlimit`), so that the same job gives the same verdict
        /// everywhere; 0 means no limit.
        smt_budget: Number { default: default("2000000000", "far above what a correct plan needs"), example: "100000000" }
    }
}

table! {
    /// What the cost model needs to know beyond the topology. The time of a step is `startup`, plus the longest latency of
    /// its flows' paths, plus the bytes of the busiest resource divided by its rate, plus the costs per byte below.
    pub struct CostTable {
        /// Fixed cost of a step in which something moves between ranks.
        startup: Delay { default: priced("\"0 s\"", TABLE_1), example: "\"1.7 us\"" }
        /// Time to reduce a byte, or the rate of it; counts for the rank that reduces most.
        reduce_cost: PerByte { default: priced("\"1 ps/B\"", TABLE_1), example: "\"800 GB/s\"" }
        /// Time to copy a byte within a rank.
        copy_cost: PerByte { default: priced("\"0 s/B\"", "local copies are taken as free"), example: "\"1 TB/s\"" }
        /// What a reconfiguration costs beyond the delay of its devices: to synchronise all ranks.
        synchronisation: Delay {
            default: priced("\"0 s\"", "\"Shortcut\", which counts it as part of the delay"),
            example: "\"500 ns\"",
        }
        /// The same, as an allowance for ranks that come late; the two are added.
        stragglers: Delay { default: priced("\"0 s\"", "none assumed"), example: "\"1 us\"" }
        /// Whether a device may change ports that the step before leaves idle while that step runs. Then only what is left of
        /// the change after the step is counted.
        overlap_reconfiguration: bool { default: default("false", "changes stop everything"), example: "true" }
    }
}

table! {
    /// A plan file.
    @tag Tag { key: "format", implied_by: &[], default: Some("msccl-xml") };
    pub struct ExportTable {
        /// Format of the file.
        format: ExportFormat { default: default("\"msccl-xml\"", "what runtimes load"), example: "\"json\"" }
        /// Which runtime will load it. Its limits hold.
        runtime: Runtime { only: &["msccl-xml"], default: default("\"msccl\"", "the runtime that gave the format its name"), example: "\"rccl\"" }
        /// Protocol that moves the data.
        protocol: Protocol { only: &["msccl-xml"], default: default("\"Simple\"", "best for large messages"), example: "\"LL\"" }
        /// Channels over which steps may be spread; without it, as few as the limits of the runtime allow.
        channels: Positive { only: &["msccl-xml"], example: "2" }
        /// How many times the plan is laid out side by side, each on a share of the data.
        instances: Positive { only: &["msccl-xml"], default: default("1", "one"), example: "4" }
        /// Whether the runtime may use it for calls in place. Without it, as `[collective]` says.
        in_place: bool { only: &["msccl-xml"], example: "true" }
        /// Whether the runtime may use it for calls out of place. Without it, as `[collective]` says.
        out_of_place: bool { only: &["msccl-xml"], example: "true" }
        /// Sizes of calls for which the runtime may use it. Without it, the job's range, or everything up to the job's size.
        sizes: Sizes { only: &["msccl-xml"], example: "\"64 KiB..1 GiB\"" }
        /// Name of the algorithm in the file. Without it, made from the job.
        name: Name { example: "\"ring8\"" }
    }
}

table! {
    /// What does not work: links are down, and routes go around them.
    pub struct FailuresTable {
        /// Nodes that are down, with all their links.
        nodes: Vec<Spanned<Name>> { example: "[\"n3\"]" }
        /// Links that are down or slow.
        link: Vec<Spanned<FailedLinkTable>> { example: "[{ from = \"n0\", to = \"n1\" }]" }
    }
}

table! {
    /// A link that is down or slow.
    pub struct FailedLinkTable {
        /// Where it starts.
        from: Name { need: Need::Required, example: "\"n0\"" }
        /// Where it ends.
        to: Name { need: Need::Required, example: "\"n1\"" }
        /// Whether the link back is concerned too.
        both: bool { default: default("true", "a cable"), example: "false" }
        /// Which of several parallel links, from 0; without it, all of them.
        index: u32 { example: "1" }
        /// The rate that is left, each direction; without it, none: the link is down.
        capacity: Rate { example: "\"12.5 GB/s\"" }
    }
}
