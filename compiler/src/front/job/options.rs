//! A checked job, and how it is made from the tables.

use rondo_ir::collective::{DataType, ReduceOperator};
use rondo_ir::cost::CostModel;
use rondo_ir::diagnostic::Label;
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::units::Bytes;

use super::plain;
use super::read::{DefaultUsed, Reader};
use super::tables::{CollectiveTable, CompileTable, CostTable, ExportTable, JobTable, PlacementTable};
use super::values::{
    CollectiveWord, ExportFormat, Name, NodeRef, Number, PerRank, RankChoice, Sizes, SlotCondition, Target,
};
use super::{suggest, topology};
use crate::build;
use crate::pass::circuits::{CircuitOptions, Rule};
use crate::span::{Span, Spanned};
use crate::topology::spec::TopologySpec;

/// A job as its file describes it. Names of nodes are not resolved yet: [`super::build_problem`] does that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The file, as the user named it: what all spans point into.
    pub file: String,
    /// The name that the job gives itself.
    pub name: Option<String>,
    /// What the job says about itself.
    pub description: Option<String>,
    /// What can move data, and what of it has failed.
    pub topology: TopologySpec,
    /// What must end up where.
    pub collective: CollectiveJob,
    /// Rank → node, where the file says it.
    pub placement: Option<Spanned<Vec<Spanned<NodeRef>>>>,
    /// How to find the schedule.
    pub compile: CompileOptions,
    /// Parameters of the cost model.
    pub cost: CostModel,
    /// Plan files to write, in the order of the file.
    pub export: Vec<ExportOptions>,
    pub(super) defaults: Vec<DefaultUsed>,
}

/// What must end up where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectiveJob {
    /// The section.
    pub span: Span,
    /// Which collective.
    pub kind: CollectiveChoice,
    /// How large.
    pub size: SizeGiven,
    /// Element type.
    pub dtype: DataType,
    /// How values are added.
    pub operator: ReduceOperator,
    /// Who takes part; `None`: all.
    pub ranks: Option<Spanned<RankChoice>>,
    /// Whether input and output are one buffer.
    pub in_place: bool,
    /// Whether the input may be overwritten out of place.
    pub input_writable: bool,
}

/// A collective as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CollectiveChoice {
    /// Everybody gets the sum of all inputs.
    AllReduce,
    /// Everybody gets all inputs, in order.
    AllGather,
    /// Rank r gets block r of the sum.
    ReduceScatter,
    /// Rank r gets block r of every input.
    AllToAll,
    /// Everybody gets the root's input.
    Broadcast {
        /// The root.
        root: Spanned<NodeRef>,
    },
    /// The root gets the sum of all inputs.
    Reduce {
        /// The root.
        root: Spanned<NodeRef>,
    },
    /// The root gets all inputs, in order.
    Gather {
        /// The root.
        root: Spanned<NodeRef>,
    },
    /// Rank r gets block r of the root's input.
    Scatter {
        /// The root.
        root: Spanned<NodeRef>,
    },
    /// Each rank sends its input to at most one other.
    SendReceive {
        /// To whom each rank sends.
        targets: Spanned<Vec<Spanned<Target>>>,
    },
    /// Both conditions spelt out.
    Custom {
        /// Input slots of each rank.
        input_slots: Spanned<PerRank>,
        /// What each rank's output slots must hold.
        output: Spanned<Vec<Spanned<Vec<Spanned<SlotCondition>>>>>,
    },
}

/// How the size was given. Sizes are multiples of the element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeGiven {
    /// The larger of a rank's buffers.
    Buffer(Spanned<Sizes>),
    /// The part for one peer.
    Block(Spanned<Sizes>),
    /// What each rank sends to each other.
    Matrix(Spanned<Vec<Spanned<Vec<Spanned<Bytes>>>>>),
}

/// Buffer sizes for which schedules are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRequest {
    /// One.
    One(Bytes),
    /// All sizes from `low` to `high`, both included: a set of plans.
    Range {
        /// The smallest.
        low: Bytes,
        /// The largest.
        high: Bytes,
    },
}

/// How to find the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOptions {
    /// Which algorithm.
    pub algorithm: Algorithm,
    /// Pipelining factor; `None`: chosen.
    pub chunks: Option<u32>,
    /// How the circuits of optical switches are changed.
    pub circuits: CircuitOptions,
    /// Whether a schedule without a complete SMT proof counts as undecided.
    pub require_smt: bool,
    /// Ranks up to which every chunk is proved by SMT.
    pub smt_ranks: u64,
    /// Z3's `rlimit` of one query.
    pub smt_budget: u64,
}

/// Which algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The cheapest of all that fit.
    Auto,
    /// This one, which exists.
    Named(Spanned<String>),
}

/// A plan file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// Where the file asks for it.
    pub span: Span,
    /// Its format.
    pub format: ExportFormat,
    /// The runtime that will load it; [`RuntimeProfile::UNLIMITED`] for `json`.
    pub runtime: &'static RuntimeProfile,
    /// Protocol.
    pub protocol: Protocol,
    /// Channels; `None`: as few as the runtime's limits allow.
    pub channels: Option<u32>,
    /// Copies side by side, at least 1.
    pub instances: u32,
    /// Whether it serves calls in place.
    pub in_place: bool,
    /// Whether it serves calls out of place. At least one of the two is true.
    pub out_of_place: bool,
    /// Sizes of calls that it serves (buffer sizes); `None`: those of the job.
    pub sizes: Option<Sizes>,
    /// Name of the algorithm in the file.
    pub name: Option<String>,
}

impl Job {
    /// The buffer sizes for which schedules are wanted, for a collective of `ranks` ranks. With a size matrix, the larger
    /// of what the busiest rank sends and receives.
    ///
    /// Saturates at 16 EiB; [`super::build_problem`] reports sizes beyond it.
    #[must_use]
    pub fn sizes(&self, ranks: u32) -> SizeRequest {
        let request = |sizes: Sizes, factor: u64| {
            let scaled = |bytes: Bytes| Bytes(bytes.0.saturating_mul(factor));
            match sizes {
                Sizes::One(bytes) => SizeRequest::One(scaled(bytes)),
                Sizes::Range(low, high) => SizeRequest::Range { low: scaled(low), high: scaled(high) },
            }
        };
        match &self.collective.size {
            SizeGiven::Buffer(sizes) => request(sizes.value, 1),
            SizeGiven::Block(sizes) => request(sizes.value, u64::from(ranks)),
            SizeGiven::Matrix(matrix) => {
                let mut received = Vec::new();
                let mut most = 0;
                for row in &matrix.value {
                    received.resize(received.len().max(row.value.len()), 0_u64);
                    let mut sent = 0_u64;
                    for (sum, size) in received.iter_mut().zip(&row.value) {
                        *sum = sum.saturating_add(size.value.0);
                        sent = sent.saturating_add(size.value.0);
                    }
                    most = most.max(sent);
                }
                SizeRequest::One(Bytes(received.into_iter().fold(most, u64::max)))
            }
        }
    }

    /// The defaults that stand for keys which the file leaves out, in the order of the reference.
    #[must_use]
    pub fn defaults_used(&self) -> &[DefaultUsed] {
        &self.defaults
    }

    /// Those of [`Self::defaults_used`] that are parameters of the cost model: every report prints them.
    pub fn cost_defaults(&self) -> impl Iterator<Item = &DefaultUsed> {
        self.defaults.iter().filter(|used| used.prices)
    }
}

/// Makes the job from its tables; the topology alone where the rest gives none.
pub(super) fn check(reader: &mut Reader<'_>, table: JobTable) -> Result<Job, Option<Box<TopologySpec>>> {
    let JobTable { name, description, topology, collective, placement, compile, cost, export, failures } = table;
    let topology = topology.and_then(|table| topology::check(reader, table, plain(failures)));
    let collective = collective.and_then(|table| self::collective(reader, table));
    let placement = match placement {
        Some(table) => self::placement(reader, table.value).map(Some),
        None => Some(None),
    };
    let compile = compile.and_then(|table| self::compile(reader, table.value));
    let cost = cost.and_then(|table| self::cost(table.value));
    let in_place = collective.as_ref().is_some_and(|collective| collective.in_place);
    let export: Option<Vec<_>> =
        export.into_iter().flat_map(|list| list.value.0).map(|table| self::export(reader, table, in_place)).collect();
    for (index, options) in export.iter().flatten().enumerate() {
        let same =
            |other: &&ExportOptions| (other.format, other.runtime.name) == (options.format, options.runtime.name);
        if let Some(first) = export.iter().flatten().take(index).find(same) {
            let file = reader.file().to_owned();
            let message = format!("two [[export]] for {}", options.runtime.name);
            let finding = reader.error("J017", options.span, message, "the second");
            finding.labels.push(Label {
                file,
                start: first.span.start,
                end: first.span.end,
                text: "the first".to_owned(),
            });
            finding.help.push("make one of the two; --emit writes one file a runtime, with its options".to_owned());
        }
    }
    match (topology, collective, placement, compile, cost, export) {
        (Some(topology), Some(collective), Some(placement), Some(compile), Some(cost), Some(export)) => Ok(Job {
            file: reader.file().to_owned(),
            name: plain(name).map(|Name(name)| name),
            description: plain(description).map(|Name(text)| text),
            topology,
            collective,
            placement,
            compile,
            cost,
            export,
            defaults: Vec::new(),
        }),
        (topology, ..) => Err(topology.map(Box::new)),
    }
}

/// Reports a size that is no whole number of elements.
fn whole_elements(reader: &mut Reader<'_>, what: &str, size: Bytes, dtype: DataType, span: Span) -> bool {
    let element = dtype.bytes();
    let fits = size.0.is_multiple_of(element);
    if !fits {
        reader
            .error(
                "C003",
                span,
                format!("`{what}` of {size} is no multiple of {element} B, the size of a {dtype}"),
                "not a whole number of elements",
            )
            .help
            .push(topology::nearest_multiples(size.0, element, |bytes| format!("\"{}\"", Bytes(bytes))));
    }
    fits
}

fn collective(reader: &mut Reader<'_>, table: Spanned<CollectiveTable>) -> Option<CollectiveJob> {
    let section = table.span;
    let CollectiveTable {
        kind,
        buffer_size,
        block_size,
        dtype,
        operator,
        root,
        ranks,
        in_place,
        input_writable,
        matrix,
        targets,
        input_slots,
        output,
    } = table.value;
    let file = reader.file().to_owned();
    let given = [
        ("buffer_size", buffer_size.map(|size| size.span)),
        ("block_size", block_size.map(|size| size.span)),
        ("matrix", matrix.as_ref().map(|matrix| matrix.span)),
    ];
    let given: Vec<(&str, Span)> = given.into_iter().filter_map(|(key, span)| Some((key, span?))).collect();
    if let [(first, at), (second, again), ..] = given[..] {
        let diagnostic =
            reader.error("J013", again, format!("both `{first}` and `{second}` give the size"), "the second size");
        *diagnostic = diagnostic.clone().at(file, at.range(), "the first");
        diagnostic.help.push(format!(
            "delete one: buffer_size is the larger of a rank's buffers, block_size the part for one peer{}",
            if matrix.is_some() { ", matrix gives every block" } else { "" }
        ));
    }
    let dtype = plain(dtype);
    let mut whole = true;
    let mut check = |reader: &mut Reader<'_>, what: &str, sizes: &Spanned<Sizes>| {
        let Some(dtype) = dtype else { return };
        let ends = match sizes.value {
            Sizes::One(size) => vec![size],
            Sizes::Range(low, high) => vec![low, high],
        };
        whole &= ends.into_iter().all(|size| whole_elements(reader, what, size, dtype, sizes.span));
    };
    if let Some(size) = &buffer_size {
        check(reader, "buffer_size", size);
    }
    if let Some(size) = &block_size {
        check(reader, "block_size", size);
    }
    for (row, sizes) in matrix.iter().flat_map(|matrix| matrix.value.iter().enumerate()) {
        for (column, size) in sizes.value.iter().enumerate() {
            let one = size.map(Sizes::One);
            check(reader, &format!("matrix[{row}][{column}]"), &one);
        }
    }
    let kind = kind?;
    let size = match (buffer_size, block_size, matrix) {
        (_, _, Some(matrix)) => SizeGiven::Matrix(matrix),
        (Some(size), _, _) => SizeGiven::Buffer(size),
        (_, Some(size), _) => SizeGiven::Block(size),
        (None, None, None) => {
            reader.missing_size(section);
            return None;
        }
    };
    let kind = match kind.value {
        CollectiveWord::AllReduce => CollectiveChoice::AllReduce,
        CollectiveWord::AllGather => CollectiveChoice::AllGather,
        CollectiveWord::ReduceScatter => CollectiveChoice::ReduceScatter,
        CollectiveWord::AllToAll => CollectiveChoice::AllToAll,
        CollectiveWord::Broadcast => CollectiveChoice::Broadcast { root: root? },
        CollectiveWord::Reduce => CollectiveChoice::Reduce { root: root? },
        CollectiveWord::Gather => CollectiveChoice::Gather { root: root? },
        CollectiveWord::Scatter => CollectiveChoice::Scatter { root: root? },
        CollectiveWord::SendReceive => CollectiveChoice::SendReceive { targets: targets? },
        CollectiveWord::Custom => CollectiveChoice::Custom { input_slots: input_slots?, output: output? },
    };
    whole.then_some(CollectiveJob {
        span: section,
        kind,
        size,
        dtype: dtype?,
        operator: plain(operator).unwrap_or_default(),
        ranks,
        in_place: plain(in_place).unwrap_or(false),
        input_writable: plain(input_writable)?,
    })
}

fn placement(reader: &mut Reader<'_>, table: PlacementTable) -> Option<Spanned<Vec<Spanned<NodeRef>>>> {
    let nodes = table.nodes?;
    if nodes.value.is_empty() {
        reader
            .error("C001", nodes.span, "`placement.nodes` names no node", "must have at least 1")
            .help
            .push("list the node of each rank, or delete [placement]".to_owned());
        return None;
    }
    Some(nodes)
}

fn compile(reader: &mut Reader<'_>, table: CompileTable) -> Option<CompileOptions> {
    let CompileTable { algorithm, chunks, circuits, threshold, restore_circuits, require_smt, smt_ranks, smt_budget } =
        table;
    let algorithm = algorithm?.map(|Name(name)| name);
    let known = build::algorithms().iter().map(|info| info.name);
    let is_auto = algorithm.value == "auto";
    if !is_auto && known.clone().all(|name| name != algorithm.value) {
        let names: Vec<&str> = std::iter::once("auto").chain(known).collect();
        let nearest = suggest::nearest(&algorithm.value, names.iter().copied());
        let text = nearest.map_or_else(|| "not known".to_owned(), |name| format!("did you mean \"{name}\"?"));
        let message = format!("unknown algorithm \"{}\"", suggest::shorten(&algorithm.value));
        reader.error("J012", algorithm.span, message, text).help.push(format!("allowed: {}", names.join(", ")));
        return None;
    }
    Some(CompileOptions {
        algorithm: if is_auto { Algorithm::Auto } else { Algorithm::Named(algorithm) },
        chunks: chunks.map(|chunks| chunks.value.0),
        circuits: CircuitOptions {
            rule: plain(threshold).map_or(plain(circuits)?, Rule::Threshold),
            restore: plain(restore_circuits)?,
        },
        require_smt: plain(require_smt)?,
        smt_ranks: plain(smt_ranks).map(|Number(n)| n)?,
        smt_budget: plain(smt_budget).map(|Number(n)| n)?,
    })
}

fn cost(table: CostTable) -> Option<CostModel> {
    let CostTable { startup, reduce_cost, copy_cost, synchronisation, stragglers, overlap_reconfiguration } = table;
    Some(CostModel {
        startup: plain(startup)?,
        reduce_cost: plain(reduce_cost)?,
        copy_cost: plain(copy_cost)?,
        synchronisation: plain(synchronisation)?.plus(plain(stragglers)?),
        overlap_reconfiguration: plain(overlap_reconfiguration)?,
    })
}

fn export(reader: &mut Reader<'_>, table: Spanned<ExportTable>, job_in_place: bool) -> Option<ExportOptions> {
    let span = table.span;
    let ExportTable { format, runtime, protocol, channels, instances, in_place, out_of_place, sizes, name } =
        table.value;
    let format = plain(format)?;
    let neither = |flag: Option<Spanned<bool>>| flag.is_some_and(|flag| !flag.value);
    if neither(in_place) && neither(out_of_place) {
        reader
            .error(
                "J016",
                out_of_place?.span,
                "the file would serve no call: neither in place nor out of place",
                "both are false",
            )
            .help
            .push("write in_place = true, or out_of_place = true, or both".to_owned());
        return None;
    }
    let (in_place, out_of_place) = match (plain(in_place), plain(out_of_place)) {
        (Some(inside), Some(outside)) => (inside, outside),
        (Some(inside), None) => (inside, !inside),
        (None, Some(outside)) => (!outside, outside),
        (None, None) => (job_in_place, !job_in_place),
    };
    Some(ExportOptions {
        span,
        format,
        runtime: plain(runtime).map_or(&RuntimeProfile::UNLIMITED, |runtime| runtime.0),
        protocol: plain(protocol).unwrap_or_default(),
        channels: channels.map(|channels| channels.value.0),
        instances: instances.map_or(1, |instances| instances.value.0),
        in_place,
        out_of_place,
        sizes: plain(sizes),
        name: plain(name).map(|Name(name)| name),
    })
}
