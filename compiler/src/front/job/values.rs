//! The values that keys can have.

use std::str::FromStr;

use num_rational::Ratio;
use rondo_ir::collective::{DataType, ReduceOperator};
use rondo_ir::profile::{Protocol, RuntimeProfile};
use rondo_ir::topology::{NodeKind, PortDirection};
use rondo_ir::units::{Bytes, Delay, PerByte, Rate};
use toml::de::DeValue;

use super::describe::Shape;
use super::read::{Reader, Value, span_of};
use super::suggest;
use crate::pass::circuits::Rule;
use crate::span::Spanned;
use crate::topology::optical::{Design, Technology};
use crate::topology::spec::{FileFormat, NvlinkWiring, Preset};

type Toml<'i> = toml::Spanned<DeValue<'i>>;

/// A whole number of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positive(pub u32);

/// A whole number of at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub u64);

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(pub String);

/// A node by name, or by number: its place among the compute nodes (in a placement) or among the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRef {
    /// By number.
    Number(u32),
    /// By name.
    Name(String),
}

/// Which nodes take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RankChoice {
    /// The first so many.
    First(u32),
    /// These, in this order.
    Listed(Vec<Spanned<NodeRef>>),
}

/// Where a rank sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(pub Option<NodeRef>);

/// One size, or all sizes from the first to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One size.
    One(Bytes),
    /// All sizes from the first to the second, both included.
    Range(Bytes, Bytes),
}

/// Rate downwards divided by rate upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oversubscription(pub Ratio<u32>);

/// Two things of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair<T>(pub T, pub T);

/// The same for every rank, or one for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PerRank {
    /// The same.
    All(u32),
    /// One for each rank.
    Each(Vec<Spanned<u32>>),
}

/// What a custom collective asks of an output slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotCondition {
    /// Nothing.
    Free,
    /// The sum of this input slot over all ranks.
    Sum(u32),
    /// Exactly these: rank, input slot, how often. Sorted, no (rank, slot) twice.
    Exactly(Vec<(u32, u32, u64)>),
}

/// One table, or several.
#[derive(Clone, Debug)]
pub struct OneOrMany<T>(pub Vec<Spanned<T>>);

fn integer(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>, least: u64, most: u64) -> Option<u64> {
    let wanted = if most == u64::from(u32::MAX) || most == u64::MAX {
        format!("a whole number of at least {least}")
    } else {
        format!("a whole number from {least} to {most}")
    };
    let DeValue::Integer(number) = value.get_ref() else {
        reader.wrong_type(path, value, &wanted, &format!("{}", least.max(8).min(most)));
        return None;
    };
    let parsed = i128::from_str_radix(number.as_str(), number.radix()).ok();
    let fits = parsed.and_then(|n| u64::try_from(n).ok()).filter(|n| (least..=most).contains(n));
    if fits.is_none() {
        let given = suggest::shorten(&number.to_string());
        let diagnostic =
            reader.error("J008", span_of(value), format!("`{path}` is {given}"), format!("must be {wanted}"));
        diagnostic.help.push(match parsed {
            Some(n) if n < i128::from(least) => format!("write {least} or more"),
            _ => format!("write at most {most}"),
        });
    }
    fits
}

fn text<'v>(reader: &mut Reader<'_>, path: &str, value: &'v Toml<'_>, needed: &str, example: &str) -> Option<&'v str> {
    let text = value.get_ref().as_str();
    if text.is_none() {
        reader.wrong_type(path, value, needed, example);
    }
    text
}

impl Value for bool {
    fn shape() -> Shape {
        Shape::Boolean
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let DeValue::Boolean(truth) = value.get_ref() else {
            reader.wrong_type(path, value, "true or false", "true");
            return None;
        };
        Some(*truth)
    }
}

impl Value for u32 {
    fn shape() -> Shape {
        Shape::Integer { least: 0, most: u64::from(Self::MAX) }
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        integer(reader, path, value, 0, u64::from(Self::MAX)).and_then(|n| Self::try_from(n).ok())
    }
}

impl Value for Positive {
    fn shape() -> Shape {
        Shape::Integer { least: 1, most: u64::from(u32::MAX) }
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        integer(reader, path, value, 1, u64::from(u32::MAX)).and_then(|n| u32::try_from(n).ok()).map(Self)
    }
}

impl Value for Number {
    fn shape() -> Shape {
        Shape::Integer { least: 0, most: u64::MAX }
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        integer(reader, path, value, 0, u64::MAX).map(Self)
    }
}

impl Value for Name {
    fn shape() -> Shape {
        Shape::Text { what: "text", pattern: "." }
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let name = text(reader, path, value, "a text", "\"gpu0\"")?;
        if name.trim().is_empty() {
            reader
                .error("J008", span_of(value), format!("`{path}` is empty"), "must not be empty")
                .help
                .push(format!("write a name, for example {} = \"gpu0\"", last(path)));
            return None;
        }
        Some(Self(name.to_owned()))
    }
}

/// Reads a quantity with its unit.
fn quantity<T: FromStr<Err = rondo_ir::units::UnitError>>(
    reader: &mut Reader<'_>,
    path: &str,
    value: &Toml<'_>,
    what: &str,
    example: &str,
    units: &str,
) -> Option<T> {
    let bare = match value.get_ref() {
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    };
    if let Some(number) = bare {
        let number = suggest::shorten(&number);
        reader
            .error(
                "J009",
                span_of(value),
                format!("`{path}` is {number} without a unit"),
                format!("must be {what} with its unit"),
            )
            .help
            .push(format!("write for example {path_key} = {example}; units: {units}", path_key = last(path)));
        return None;
    }
    let given = text(reader, path, value, &format!("{what} in quotes, with its unit"), example)?;
    match T::from_str(given) {
        Ok(quantity) => Some(quantity),
        Err(error) => {
            let message = if given.len() <= 80 { error.to_string() } else { format!("this is not {what}") };
            reader
                .error("J010", span_of(value), format!("`{path}`: {message}"), format!("must be {what}"))
                .help
                .push(format!("write for example {example}; units: {units}"));
            None
        }
    }
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

const SIZE_UNITS: &str = "B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB (powers of 1024)";

macro_rules! quantities {
    ($($type:ty: $what:literal, $example:literal, $units:expr, $pattern:expr;)*) => {
        $(
            impl Value for $type {
                fn shape() -> Shape {
                    Shape::Text { what: $what, pattern: $pattern }
                }

                fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
                    quantity(reader, path, value, concat!("a ", $what), $example, $units)
                }
            }
        )*
    };
}
quantities! {
    Bytes: "size", "\"32 KiB\"", SIZE_UNITS, r"^\s*[0-9][0-9_.eE+-]*\s*([kKMGTP]i?)?(B|bytes?)\s*$";
    Rate: "rate", "\"25 GB/s\"", "B/s, GB/s, GiB/s and so on (bytes), Gbps, Gbit/s, Gb/s (bits)",
        r"^\s*[0-9][0-9_.eE+-]*\s*[kKMGTP]?i?(B/s|Bps|b/s|bps|bit/s)\s*$";
    Delay: "time", "\"700 ns\"", "fs, ps, ns, us, ms, s", r"^\s*[0-9][0-9_.eE+-]*\s*(fs|ps|ns|us|µs|μs|ms|s)\s*$";
    PerByte: "time per byte", "\"1 ps/B\"", "fs/B, ps/B, ns/B, us/B, or a rate such as GB/s", r"^\s*[0-9]";
}

impl Value for Sizes {
    fn shape() -> Shape {
        Shape::Text { what: "size or range of sizes", pattern: r"^\s*[0-9].*B(ytes?)?\s*(\.\..*)?$" }
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let Some((low, high)) = value.get_ref().as_str().and_then(|text| text.split_once("..")) else {
            return Bytes::read(reader, path, value).map(Self::One);
        };
        let mut end = |side: &str| match Bytes::from_str(side) {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                reader
                    .error("J010", span_of(value), format!("`{path}`: {error}"), "must be a range of sizes")
                    .help
                    .push(format!("write for example \"1 KiB..4 GiB\"; units: {SIZE_UNITS}"));
                None
            }
        };
        let (low, high) = (end(low), end(high.trim_start_matches('=')));
        let (low, high) = (low?, high?);
        if high < low {
            reader
                .error(
                    "J011",
                    span_of(value),
                    format!("`{path}` ends at {high}, before it begins at {low}"),
                    "ends before it begins",
                )
                .help
                .push(format!("write \"{high}..{low}\""));
            return None;
        }
        Some(Self::Range(low, high))
    }
}

impl Value for Oversubscription {
    fn shape() -> Shape {
        Shape::OneOf(vec![
            Shape::Integer { least: 1, most: u64::from(u32::MAX) },
            Shape::Text { what: "ratio", pattern: r"^\s*[0-9]+\s*:\s*[0-9]+\s*$" },
        ])
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        if let Some(ratio) = value.get_ref().as_str() {
            let parts = ratio
                .split_once(':')
                .and_then(|(down, up)| Some((down.trim().parse::<u32>().ok()?, up.trim().parse::<u32>().ok()?)));
            return match parts {
                Some((down, up)) if 1 <= up && up <= down => Some(Self(Ratio::new(down, up))),
                _ => {
                    let given = suggest::shorten(ratio);
                    reader
                        .error(
                            "J008",
                            span_of(value),
                            format!("`{path}` is \"{given}\""),
                            "must be a ratio of at least 1:1",
                        )
                        .help
                        .push("write rate downwards to rate upwards, for example \"2:1\"".to_owned());
                    None
                }
            };
        }
        Positive::read(reader, path, value).map(|Positive(down)| Self(Ratio::from_integer(down)))
    }
}

impl<T: Value> Value for Vec<Spanned<T>> {
    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let DeValue::Array(array) = value.get_ref() else {
            let needed = if matches!(T::shape(), Shape::Table(_)) {
                format!("a list of tables; write each as `[[{path}]]`")
            } else {
                "a list".to_owned()
            };
            reader.wrong_type(path, value, &needed, "a list in brackets: [first, second]");
            return None;
        };
        let mut items = Self::with_capacity(array.len());
        let mut whole = true;
        for (index, item) in array.iter().enumerate() {
            match T::read(reader, &format!("{path}[{index}]"), item) {
                Some(read) => items.push(Spanned::new(read, span_of(item))),
                None => whole = false,
            }
        }
        whole.then_some(items)
    }
}

impl<T: Value> Value for OneOrMany<T> {
    fn shape() -> Shape {
        Shape::OneOf(vec![T::shape(), Shape::List(Box::new(T::shape()))])
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        if matches!(value.get_ref(), DeValue::Array(_)) {
            return Vec::read(reader, path, value).map(Self);
        }
        T::read(reader, path, value).map(|one| Self(vec![Spanned::new(one, span_of(value))]))
    }
}

impl<T: Value> Value for Pair<T> {
    fn shape() -> Shape {
        Shape::Pair(Box::new(T::shape()))
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let array = match value.get_ref() {
            DeValue::Array(array) => array.as_ref(),
            _ => &[],
        };
        let [first, second] = array else {
            reader.wrong_type(path, value, "a list of exactly two", "[first, second]");
            return None;
        };
        let (first, second) = (T::read(reader, path, first), T::read(reader, path, second));
        Some(Self(first?, second?))
    }
}

impl Value for NodeRef {
    fn shape() -> Shape {
        Shape::OneOf(vec![
            Shape::Text { what: "node name", pattern: "." },
            Shape::Integer { least: 0, most: u64::from(u32::MAX) },
        ])
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        match value.get_ref() {
            DeValue::String(_) => Name::read(reader, path, value).map(|Name(name)| Self::Name(name)),
            DeValue::Integer(_) => u32::read(reader, path, value).map(Self::Number),
            _ => {
                reader.wrong_type(path, value, "the name of a node or a number", "\"gpu0\" or 0");
                None
            }
        }
    }
}

impl Value for RankChoice {
    fn shape() -> Shape {
        Shape::OneOf(vec![
            Shape::Integer { least: 1, most: u64::from(u32::MAX) },
            Shape::List(Box::new(NodeRef::shape())),
        ])
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        match value.get_ref() {
            DeValue::Array(array) if array.is_empty() => {
                reader
                    .error("C001", span_of(value), format!("`{path}` names no node"), "must have at least 1")
                    .help
                    .push("list the nodes that take part, or delete the key: then all compute nodes do".to_owned());
                None
            }
            DeValue::Array(_) => Vec::read(reader, path, value).map(Self::Listed),
            DeValue::Integer(number) if number.as_str() == "0" => {
                reader
                    .error("C001", span_of(value), format!("`{path}` is 0"), "must be at least 1")
                    .help
                    .push("write how many nodes take part, or delete the key: then all compute nodes do".to_owned());
                None
            }
            DeValue::Integer(_) => Positive::read(reader, path, value).map(|Positive(n)| Self::First(n)),
            _ => {
                reader.wrong_type(path, value, "a number of nodes or a list of them", "4 or [\"gpu0\", \"gpu1\"]");
                None
            }
        }
    }
}

impl Value for Target {
    fn shape() -> Shape {
        Shape::OneOf(vec![
            Shape::Integer { least: 0, most: u64::from(u32::MAX) },
            Shape::Text { what: "node name, or \"none\"", pattern: "." },
        ])
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let target = NodeRef::read(reader, path, value)?;
        Some(Self(Some(target).filter(|target| *target != NodeRef::Name("none".to_owned()))))
    }
}

impl Value for PerRank {
    fn shape() -> Shape {
        Shape::OneOf(vec![u32::shape(), Shape::List(Box::new(u32::shape()))])
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        if matches!(value.get_ref(), DeValue::Array(_)) {
            return Vec::read(reader, path, value).map(Self::Each);
        }
        u32::read(reader, path, value).map(Self::All)
    }
}

impl Value for SlotCondition {
    fn shape() -> Shape {
        Shape::Text { what: "condition: \"free\", \"sum[0]\", \"r1[0]\" or \"r0[0] + 2*r1[3]\"", pattern: "." }
    }

    fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
        let needed = "a condition in quotes";
        let given = text(reader, path, value, needed, "\"r0[0] + r1[0]\"")?;
        let parsed = parse_condition(given);
        if parsed.is_none() {
            let given = suggest::shorten(given);
            reader
                .error("C008", span_of(value), format!("`{path}` is \"{given}\", which is no condition"), "not understood")
                .help
                .push(
                    "write \"free\", \"sum[0]\" (input slot 0 of all ranks), \"r1[0]\" (input slot 0 of rank 1), or terms \
                     joined by +, each with a count if it is not 1: \"r0[0] + 2*r1[3]\""
                        .to_owned(),
                );
        }
        parsed
    }
}

fn parse_condition(text: &str) -> Option<SlotCondition> {
    let index = |text: &str| -> Option<u32> { text.trim().strip_prefix('[')?.strip_suffix(']')?.trim().parse().ok() };
    let text = text.trim();
    if text == "free" {
        return Some(SlotCondition::Free);
    }
    if let Some(slot) = text.strip_prefix("sum") {
        return index(slot).map(SlotCondition::Sum);
    }
    let mut terms = std::collections::BTreeMap::<(u32, u32), u64>::new();
    for term in text.split('+') {
        let (count, place) = match term.split_once('*') {
            Some((count, place)) => (count.trim().parse::<u64>().ok().filter(|&count| 0 < count)?, place),
            None => (1, term),
        };
        let (rank, slot) = place.trim().strip_prefix('r')?.split_at_checked(place.trim().find('[')?.checked_sub(1)?)?;
        let held = terms.entry((rank.trim().parse().ok()?, index(slot)?)).or_default();
        *held = held.checked_add(count)?;
    }
    Some(SlotCondition::Exactly(terms.into_iter().map(|((rank, slot), count)| (rank, slot, count)).collect()))
}

/// Makes an enumeration of words a value.
macro_rules! words {
    ($($type:ty: $what:literal { $($word:literal => $value:expr, $doc:literal;)* })*) => {
        $(
            impl Value for $type {
                fn shape() -> Shape {
                    Shape::Words(vec![$(($word, $doc)),*])
                }

                fn read(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>) -> Option<Self> {
                    const WORDS: &[(&str, $type)] = &[$(($word, $value)),*];
                    let names: Vec<&str> = WORDS.iter().map(|(word, _)| *word).collect();
                    word(reader, path, value, $what, &names).map(|at| WORDS[at].1)
                }
            }
        )*
    };
}

/// Which of the words it is.
fn word(reader: &mut Reader<'_>, path: &str, value: &Toml<'_>, what: &str, names: &[&str]) -> Option<usize> {
    let example = format!("\"{}\"", names.first().copied().unwrap_or_default());
    let given = text(reader, path, value, &format!("one of {}", suggest::list(names)), &example)?;
    let found = names.iter().position(|name| *name == given);
    if found.is_none() {
        let nearest = suggest::nearest(given, names.iter().copied());
        let text = nearest.map_or_else(|| "not known".to_owned(), |name| format!("did you mean \"{name}\"?"));
        let diagnostic =
            reader.error("J012", span_of(value), format!("unknown {what} \"{}\"", suggest::shorten(given)), text);
        diagnostic.help.push(format!("allowed: {}", names.join(", ")));
        let is_preset = Preset::ALL.iter().any(|preset| preset.name() == given);
        if is_preset && path == "topology.kind" {
            diagnostic.help.push(format!("a machine is named by its own key: preset = \"{given}\""));
        }
    }
    found
}

/// The kinds of topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopologyWord {
    /// See the reference.
    Ring,
    /// See the reference.
    Torus,
    /// See the reference.
    Grid,
    /// See the reference.
    Mesh,
    /// See the reference.
    Switch,
    /// See the reference.
    Hypercube,
    /// See the reference.
    Clos,
    /// See the reference.
    OpticalRing,
    /// See the reference.
    OpticalTorus,
    /// See the reference.
    PhotonicRails,
    /// See the reference.
    Preset,
    /// See the reference.
    File,
    /// See the reference.
    Custom,
}

/// The fabrics inside a rack or pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleUpWord {
    /// See the reference.
    Mesh,
    /// See the reference.
    Torus,
}

/// The collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectiveWord {
    /// See the reference.
    AllReduce,
    /// See the reference.
    AllGather,
    /// See the reference.
    ReduceScatter,
    /// See the reference.
    AllToAll,
    /// See the reference.
    Broadcast,
    /// See the reference.
    Reduce,
    /// See the reference.
    Gather,
    /// See the reference.
    Scatter,
    /// See the reference.
    SendReceive,
    /// See the reference.
    Custom,
}

/// What a device can be set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegalWord {
    /// See the reference.
    Any,
    /// See the reference.
    Only,
    /// See the reference.
    Cycle,
}

/// Plan formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExportFormat {
    /// Rondo's own plan.
    Json,
    /// MSCCL XML.
    MscclXml,
}

/// A runtime profile by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runtime(pub &'static RuntimeProfile);

words! {
    TopologyWord: "kind of topology" {
        "ring" => TopologyWord::Ring, "`nodes` compute nodes in a cycle, each linked to the next and, unless `bidirectional = false`, back";
        "torus" => TopologyWord::Torus, "a torus with the given `sides`, one to many; a side of 2 has two parallel links each way";
        "grid" => TopologyWord::Grid, "as `torus`, without the links that wrap around";
        "mesh" => TopologyWord::Mesh, "a link between every ordered pair of `nodes`";
        "switch" => TopologyWord::Switch, "`nodes` compute nodes on one non-blocking switch";
        "hypercube" => TopologyWord::Hypercube, "2^`dimensions` compute nodes; two are linked if their numbers differ in one bit";
        "clos" => TopologyWord::Clos, "a folded Clos network (fat tree) of 1 to 3 tiers of switches";
        "optical-ring" => TopologyWord::OpticalRing, "`nodes` compute nodes in a ring of cables and circuits (\"Shortcut\", section V)";
        "optical-torus" => TopologyWord::OpticalTorus, "such a ring along each dimension of a torus with the given `sides`";
        "photonic-rails" => TopologyWord::PhotonicRails, "`hosts` servers of `gpus_per_host` accelerators; accelerator i of every server is on optical ring i";
        "preset" => TopologyWord::Preset, "a known machine, or several joined by their NICs; implied by `preset`";
        "file" => TopologyWord::File, "a real machine from a topology file; implied by `file`";
        "custom" => TopologyWord::Custom, "nodes, links, media and devices spelt out";
    }
    ScaleUpWord: "fabric of a rack or pod" {
        "mesh" => ScaleUpWord::Mesh, "in each rack, a link between every ordered pair";
        "torus" => ScaleUpWord::Torus, "in each pod (in fewer than three tiers, each rack), a torus with the given `sides`";
    }
    CollectiveWord: "collective" {
        "all_reduce" => CollectiveWord::AllReduce, "everybody gets the sum of all inputs";
        "all_gather" => CollectiveWord::AllGather, "everybody gets all inputs, in order";
        "reduce_scatter" => CollectiveWord::ReduceScatter, "rank r gets block r of the sum";
        "all_to_all" => CollectiveWord::AllToAll, "rank r gets block r of every input";
        "broadcast" => CollectiveWord::Broadcast, "everybody gets the root's input";
        "reduce" => CollectiveWord::Reduce, "the root gets the sum of all inputs";
        "gather" => CollectiveWord::Gather, "the root gets all inputs, in order";
        "scatter" => CollectiveWord::Scatter, "rank r gets block r of the root's input";
        "send_receive" => CollectiveWord::SendReceive, "each rank sends its input to at most one other";
        "custom" => CollectiveWord::Custom, "what must hold before and after, spelt out";
    }
    DataType: "element type" {
        "int8" => DataType::Int8, "1 byte";
        "uint8" => DataType::Uint8, "1 byte";
        "int32" => DataType::Int32, "4 bytes";
        "uint32" => DataType::Uint32, "4 bytes";
        "int64" => DataType::Int64, "8 bytes";
        "uint64" => DataType::Uint64, "8 bytes";
        "float16" => DataType::Float16, "2 bytes";
        "float32" => DataType::Float32, "4 bytes";
        "float64" => DataType::Float64, "8 bytes";
        "bfloat16" => DataType::Bfloat16, "2 bytes";
        "float8" => DataType::Float8, "1 byte";
    }
    ReduceOperator: "operator" {
        "sum" => ReduceOperator::Sum, "a + b";
        "avg" => ReduceOperator::Avg, "the sum, divided by the number of ranks at the end";
        "max" => ReduceOperator::Max, "the larger; what arrives twice does no harm";
        "min" => ReduceOperator::Min, "the smaller; what arrives twice does no harm";
        "prod" => ReduceOperator::Prod, "a · b";
    }
    NodeKind: "kind of node" {
        "compute" => NodeKind::Compute, "may host a rank";
        "switch" => NodeKind::Switch, "moves data only";
    }
    PortDirection: "direction of a port" {
        "tx" => PortDirection::Tx, "the node sends into the device";
        "rx" => PortDirection::Rx, "the node receives from the device";
        "duplex" => PortDirection::Duplex, "both: a circuit joins two such ports in both directions at once";
    }
    LegalWord: "rule of a device" {
        "any" => LegalWord::Any, "any matching between its ports";
        "only" => LegalWord::Only, "any matching that uses only the given `circuits` (a wavelength map)";
        "cycle" => LegalWord::Cycle, "exactly one of the `configurations`, and from each only to the next (a rotor)";
    }
    Preset: "preset" {
        "dgx1v" => Preset::Dgx1v, "NVIDIA DGX-1 with 8 V100 in a hybrid cube mesh";
        "dgx-a100" => Preset::DgxA100, "NVIDIA DGX A100, 8 GPUs on NVSwitch";
        "dgx-h100" => Preset::DgxH100, "NVIDIA DGX H100, 8 GPUs on NVSwitch";
        "gb200-nvl72" => Preset::Gb200Nvl72, "NVIDIA GB200 NVL72, 72 GPUs on NVSwitch";
        "mi250x" => Preset::Mi250x, "a host with AMD MI250X, each of two dies";
        "mi300x" => Preset::Mi300x, "a host with 8 AMD MI300X, all linked to all";
    }
    FileFormat: "file format" {
        "auto" => FileFormat::Auto, "recognised from the content";
        "nccl-xml" => FileFormat::NcclXml, "NCCL or RCCL topology XML, as `NCCL_TOPO_DUMP_FILE` writes it";
        "nvidia-smi" => FileFormat::NvidiaSmi, "the text that `nvidia-smi topo -m` prints";
    }
    Design: "design" {
        "fixed" => Design::Fixed, "{j, j+1} for even j are cables, the others circuits of one switch: a port an endpoint";
        "all-ports" => Design::AllPorts, "both through one switch: two ports an endpoint";
        "parity-split" => Design::ParitySplit, "as `fixed`, with a switch for even and one for odd endpoints; cannot hold the ring";
        "parity-ring" => Design::ParityRing, "the same with initial circuits {4j, 4j+2} and {4j+3, 4j+5}: a ring 1, 0, 2, 3, 5, 4, 6, 7, …";
        "single-port" => Design::SinglePort, "one port an endpoint and no cable: circuits must be set for every step";
    }
    Technology: "switching technology" {
        "wavelength-routed" => Technology::WavelengthRouted, "100 ns, 8 ports";
        "photonic-mems" => Technology::PhotonicMems, "400 ns, 240 ports";
        "silicon-photonics" => Technology::SiliconPhotonics, "7 us, 32 ports";
        "rotor" => Technology::Rotor, "7 us, 128 ports";
        "3d-mems" => Technology::Mems3d, "15 ms, 320 ports";
    }
    Rule: "rule for circuits" {
        "optimal" => Rule::Optimal, "the cheapest sequence of configurations";
        "best" => Rule::Best, "the cheapest threshold: static steps, then circuits of their own";
        "per-step" => Rule::PerStep, "any subset of the steps on circuits of their own";
        "paper" => Rule::Paper, "the smallest threshold that is no dearer than Ring (\"Shortcut\", Eq. 6, as printed)";
        "off" => Rule::Off, "circuits stay as they are";
    }
    NvlinkWiring: "wiring" {
        "switch" => NvlinkWiring::Switch, "every GPU has one link to one NVSwitch node";
        "mesh" => NvlinkWiring::Mesh, "every pair of GPUs has a link";
    }
    ExportFormat: "plan format" {
        "json" => ExportFormat::Json, "Rondo's own plan";
        "msccl-xml" => ExportFormat::MscclXml, "MSCCL XML, for the runtime named with `runtime`";
    }
    Runtime: "runtime" {
        "msccl" => Runtime(&RuntimeProfile::MSCCL), "microsoft/msccl";
        "azure" => Runtime(&RuntimeProfile::AZURE), "Azure/msccl-executor-nccl";
        "rccl" => Runtime(&RuntimeProfile::RCCL), "ROCm/rccl";
        "unlimited" => Runtime(&RuntimeProfile::UNLIMITED), "no limits; no runtime loads such a file";
    }
    Protocol: "protocol" {
        "Simple" => Protocol::Simple, "large pieces; FIFO depth 2";
        "LL" => Protocol::Ll, "flags beside every 4 bytes, for small messages; FIFO depth 8";
        "LL128" => Protocol::Ll128, "flags beside every 120 bytes; FIFO depth 8";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_term_by_term() {
        assert_eq!(parse_condition("free"), Some(SlotCondition::Free));
        assert_eq!(parse_condition("sum[3]"), Some(SlotCondition::Sum(3)));
        assert_eq!(
            parse_condition(" r1[0] + 2*r0[3] + r1[0] "),
            Some(SlotCondition::Exactly(vec![(0, 3, 2), (1, 0, 2)]))
        );
        for wrong in ["", "r1", "r[0]", "1[0]", "r0[0] +", "0*r0[0]", "sum", "r0[0", "é[0]", "[0]", "r0[x]"] {
            assert_eq!(parse_condition(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn words_are_those_of_the_vocabulary() {
        fn named<T: Value>() -> Vec<&'static str> {
            match T::shape() {
                Shape::Words(words) => words.into_iter().map(|(word, _)| word).collect(),
                _ => Vec::new(),
            }
        }
        assert_eq!(named::<DataType>(), DataType::ALL.map(DataType::name));
        assert_eq!(named::<ReduceOperator>(), ReduceOperator::ALL.map(ReduceOperator::name));
        assert_eq!(named::<CollectiveWord>(), rondo_ir::collective::CollectiveKind::NAMES);
        assert_eq!(named::<Preset>(), Preset::ALL.map(Preset::name));
        assert_eq!(named::<FileFormat>(), FileFormat::ALL.map(FileFormat::name));
        assert_eq!(named::<Runtime>(), RuntimeProfile::ALL.map(|profile| profile.name));
        assert_eq!(named::<Protocol>(), Protocol::ALL.map(Protocol::name));
    }
}
