//! What each runtime makes of a file: whether it loads it, for which calls it uses it, and what goes wrong there.
//!
//! Every rule has a code and a fixed [`Effect`]. Rules of the text and of the elements are raised while the file is read
//! ([`parse`](super::parse)); the rules here compare what was read with the limits of a [`RuntimeProfile`]. What a
//! program computes, whether it ends and whether it races are questions for the verifier.
//!
//! Source: the public sources of microsoft/msccl, Azure/msccl-executor-nccl and ROCm/rccl at the versions that the
//! profiles name.

use std::ops::Range;

use rondo_ir::collective::{Buffer, CollectiveKind};
use rondo_ir::diagnostic::{CodeEntry, Diagnostic, Severity};
use rondo_ir::profile::{Protocol, RuntimeProfile, SizeEnd};

use super::parse::{Parsed, Worst};

/// What it means that a file breaks a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The file cannot be read.
    Unreadable,
    /// The runtime takes the file, and then hangs, computes something else or leaves its memory.
    Wrong,
    /// The runtime does not load the file, or fails in every call that uses it.
    NotLoaded,
    /// The runtime loads the file and never uses it for some or all calls that the file is meant for.
    NotSelected,
    /// Probably not meant.
    Warning,
    /// Worth knowing.
    Note,
}

/// A rule of the format.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Code, title and explanation.
    pub entry: CodeEntry,
    /// What breaking it means.
    pub effect: Effect,
    /// Compares a file that was read with a runtime; `None`: raised while reading.
    check: Option<Check>,
}

type Check = fn(&Parsed, &RuntimeProfile) -> Option<Hit>;

/// How a file breaks a rule at one runtime.
struct Hit {
    message: String,
    at: Range<usize>,
    /// What this runtime allows or does.
    there: String,
    help: String,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What it means.
    pub effect: Effect,
    /// Where, and what to do. An error for [`Effect::Wrong`], else a warning or note.
    pub diagnostic: Diagnostic,
    /// Names of the runtimes at which it is broken.
    pub runtimes: Vec<&'static str>,
}

/// What becomes of a file at a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is loaded and used.
    Used,
    /// It is loaded, and no call uses it.
    NeverUsed,
    /// It is not loaded, or every call that uses it fails.
    NotLoaded,
    /// It is used, and goes wrong.
    Wrong,
}

impl Fate {
    /// The words for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::NeverUsed => "never used",
            Self::NotLoaded => "not loaded",
            Self::Wrong => "goes wrong",
        }
    }
}

/// A file at a runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Which runtime.
    pub runtime: &'static RuntimeProfile,
    /// What becomes of the file there.
    pub fate: Fate,
    /// Calls that use it, in words; empty if none.
    pub calls: String,
    /// Codes of the rules that decide, in the order of [`RULES`].
    pub reasons: Vec<&'static str>,
}

/// Compares a file with the runtimes. `file` is what messages call it.
///
/// Findings are in the order of [`RULES`]; services in that of `profiles`.
#[must_use]
pub fn examine(file: &str, parsed: &Parsed, profiles: &[&'static RuntimeProfile]) -> (Vec<Broken>, Vec<Service>) {
    let mut broken = Vec::new();
    let mut services: Vec<Service> = profiles
        .iter()
        .map(|&runtime| Service { runtime, fate: Fate::Used, calls: calls(parsed, runtime), reasons: Vec::new() })
        .collect();
    for service in &mut services {
        if service.calls.is_empty() {
            service.fate = Fate::NeverUsed;
        }
    }
    for rule in RULES {
        let Some(check) = rule.check else { continue };
        let mut found: Vec<(Hit, Vec<&'static str>)> = Vec::new();
        for service in &mut services {
            let Some(hit) = check(parsed, service.runtime) else { continue };
            let fate = match rule.effect {
                Effect::Wrong => Some(Fate::Wrong),
                Effect::NotLoaded | Effect::Unreadable => Some(Fate::NotLoaded),
                Effect::NotSelected | Effect::Warning | Effect::Note => None,
            };
            // What is not loaded cannot go wrong.
            service.fate = match (service.fate, fate) {
                (Fate::NotLoaded, _) | (_, Some(Fate::NotLoaded)) => Fate::NotLoaded,
                (_, Some(Fate::Wrong)) if service.fate != Fate::NeverUsed => Fate::Wrong,
                (fate, _) => fate,
            };
            if fate.is_some() || rule.effect == Effect::NotSelected {
                service.reasons.push(rule.entry.code);
            }
            let name = service.runtime.name;
            match found.iter_mut().find(|(other, _)| other.message == hit.message && other.there == hit.there) {
                Some((_, names)) => names.push(name),
                None => found.push((hit, vec![name])),
            }
        }
        let Some((first, _)) = found.first() else { continue };
        let severity = match rule.effect {
            Effect::Unreadable | Effect::Wrong => Severity::Error,
            Effect::NotLoaded | Effect::NotSelected | Effect::Warning => Severity::Warning,
            Effect::Note => Severity::Note,
        };
        let mut diagnostic = Diagnostic { severity, ..Diagnostic::warning(rule.entry.code, first.message.clone()) };
        if !first.at.is_empty() {
            diagnostic = diagnostic.at(file, first.at.clone(), "");
        }
        if !first.help.is_empty() {
            diagnostic = diagnostic.help(first.help.clone());
        }
        for (hit, names) in &found {
            diagnostic = diagnostic.note(format!("{}: {}", names.join(", "), hit.there));
        }
        let runtimes = found.into_iter().flat_map(|(_, names)| names).collect();
        broken.push(Broken { effect: rule.effect, diagnostic, runtimes });
    }
    for service in &mut services {
        if service.fate == Fate::NotLoaded {
            service.calls.clear();
        }
    }
    (broken, services)
}

/// Calls for which the runtime uses the file, in words; empty if there are none.
fn calls(parsed: &Parsed, profile: &RuntimeProfile) -> String {
    let ways = match ways(parsed, profile) {
        (true, true) => "all calls",
        (true, false) => "calls in place",
        (false, true) => "calls out of place",
        (false, false) => return String::new(),
    };
    let min = parsed.min_bytes.unwrap_or(0);
    if parsed.max_bytes == Some(0) && profile.size_end == SizeEnd::Exclusive {
        return String::new();
    }
    let Some(range) = largest_message(parsed, profile).map_or_else(
        || Some(if min == 0 { "any size".to_owned() } else { format!("{min} B and more") }),
        |max| (min <= max).then(|| format!("{min} … {max} B")),
    ) else {
        return String::new();
    };
    let Some(header) = parsed.headers.first() else { return String::new() };
    let ranks = u64::from(header.collective.ranks());
    let total = u64::from(parsed.facts.total_chunks);
    // The selectors compare elements · (n where the total is over all ranks) with the chunks.
    let per_rank = match header.collective.kind() {
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll { .. } => {
            total / num_integer::gcd(total, ranks)
        }
        _ => total,
    };
    let elements =
        if per_rank <= 1 { String::new() } else { format!(", element counts that are multiples of {per_rank}") };
    let root = header.collective.kind().root().map_or_else(String::new, |root| format!(", root {root} only"));
    format!("{ways}, {range}{elements}{root}")
}

/// Whether calls in place and out of place use the file.
fn ways(parsed: &Parsed, profile: &RuntimeProfile) -> (bool, bool) {
    let all_to_all = parsed.headers.iter().any(|h| matches!(h.collective.kind(), CollectiveKind::AllToAll { .. }));
    if profile.all_attributes_mandatory {
        (parsed.in_place, parsed.out_of_place)
    } else {
        // msccl looks at `inplace` only.
        (parsed.in_place && (profile.in_place_all_to_all || !all_to_all), !parsed.in_place)
    }
}

/// The largest message that the runtime uses the file for, itself included; `None` for no limit.
fn largest_message(parsed: &Parsed, profile: &RuntimeProfile) -> Option<u64> {
    /// What msccl takes a missing `maxBytes` for.
    const DEFAULT: u64 = 1 << 27;
    match profile.size_end {
        SizeEnd::Exclusive => {
            // 0 is "never": below every message.
            Some(parsed.max_bytes.unwrap_or(DEFAULT).saturating_sub(1))
        }
        SizeEnd::InclusiveZeroUnlimited => parsed.max_bytes.filter(|&max| 0 < max),
    }
}

fn above(worst: &Worst, limit: Option<u32>) -> Option<u32> {
    limit.filter(|&limit| u64::from(limit) < worst.number)
}

fn of_threadblock(worst: &Worst) -> String {
    format!("threadblock {} of rank {}", worst.threadblock, worst.rank)
}

fn hit(message: String, at: &Range<usize>, there: impl Into<String>, help: &str) -> Option<Hit> {
    Some(Hit { message, at: at.clone(), there: there.into(), help: help.to_owned() })
}

const fn rule(
    effect: Effect,
    check: Option<Check>,
    code: &'static str,
    title: &'static str,
    explanation: &'static str,
) -> Rule {
    Rule { entry: CodeEntry { code, title, explanation }, effect, check }
}

/// Streaming multiprocessors or compute units of common GPUs: threadblocks that are surely resident at once.
const GPUS: [(&str, u64); 5] = [("V100", 80), ("A100", 108), ("MI250X (one die)", 110), ("H100", 132), ("MI300X", 304)];

use Effect::{NotLoaded, NotSelected, Note, Unreadable, Warning, Wrong};

/// All rules, those of the text first.
pub const RULES: &[Rule] = &[
    // The text.
    rule(
        Unreadable,
        None,
        "B020",
        "an XML prolog",
        "The readers of the runtimes know no `<?xml … ?>`: they stop there, \
        or read an element that is never closed. Delete the line.",
    ),
    rule(
        Unreadable,
        None,
        "B021",
        "a tab between elements",
        "The readers skip blanks, line feeds and carriage returns \
        only, and stop at a tab. Indent with blanks.",
    ),
    rule(
        Unreadable,
        None,
        "B022",
        "a DOCTYPE, CDATA section or declaration",
        "The readers know elements and comments \
        only. This also keeps entities out: `&name;` stays as it is written.",
    ),
    rule(
        Unreadable,
        None,
        "B023",
        "a comment that the runtimes stop at",
        "The readers look for attributes in the first \
        word after `<!--`; a `=` in it, as in a banner of equals signs, ends in an error. Begin the comment with a word.",
    ),
    rule(
        Unreadable,
        None,
        "B024",
        "text between elements",
        "Only elements and comments may stand there; the runtimes \
        stop with \"expecting '<'\".",
    ),
    rule(
        Unreadable,
        None,
        "B025",
        "a line break or tab inside a tag",
        "A tag stands on one line, with one blank between \
        attributes; the readers stop at anything else.",
    ),
    rule(
        Unreadable,
        None,
        "B026",
        "a value in single quotes",
        "A value may begin with `'` but ends only at the next `\"`, \
        so it swallows what follows. Use double quotes.",
    ),
    rule(
        Unreadable,
        None,
        "B027",
        "a name or value that is too long",
        "Names and values are kept in buffers of 256 bytes, \
        and the length of values is not checked: a longer one overruns the buffer.",
    ),
    rule(
        Unreadable,
        None,
        "B028",
        "a tag that is not well formed",
        "Elements are written `<name key=\"value\" …>` … \
        `</name>` or `<name …/>`.",
    ),
    rule(
        Unreadable,
        None,
        "B029",
        "an element that is not closed, or the file ends too early",
        "The closing name must be \
        that of the element that is open. A file that was cut off ends like this.",
    ),
    rule(
        Unreadable,
        None,
        "B030",
        "a `<step>` with children",
        "The handler table for children of `<step>` is a null \
        pointer: the runtimes crash.",
    ),
    rule(
        Unreadable,
        None,
        "B031",
        "elements nested too deeply",
        "More than 64 levels of unknown elements are not followed: no plan needs them, and a file could exhaust \
        the stack of a reader with them.",
    ),
    rule(
        Unreadable,
        None,
        "B032",
        "the root is not one `<algo>`",
        "The first element must be `<algo>`: the pass that reads \
        the header looks at nothing else. Nothing may follow its end.",
    ),
    // Attributes and elements.
    rule(
        Unreadable,
        None,
        "B033",
        "a mandatory attribute is missing",
        "All three runtimes refuse the file. The place \
        attributes of an instruction are needed even where nothing looks at them.",
    ),
    rule(
        Unreadable,
        None,
        "B034",
        "a number that is none",
        "The runtimes read the digits at the start of a value, or 0 if \
        there are none, and say nothing; overflow is not noticed either. Decimal, 0x… and octal (leading 0) are read.",
    ),
    rule(
        Unreadable,
        None,
        "B035",
        "a number out of range",
        "The message gives the range. Offsets are −1 or a chunk; counts, \
        ranks and chunks are bounded by what the file declares.",
    ),
    rule(
        Unreadable,
        None,
        "B036",
        "an unknown protocol",
        "There are `Simple`, `LL` and `LL128`, spelt exactly so; they decide how much a transfer carries and how many \
        are in flight.",
    ),
    rule(
        Unreadable,
        None,
        "B037",
        "an unknown instruction",
        "There are s, r, cpy, re, rcs, rrs, rrc, rrcs and nop. msccl \
        also reads `ra`, for which its kernel has no case: the threadblock ends there without a word.",
    ),
    rule(Unreadable, None, "B038", "an unknown buffer", "Buffers are `i` (input), `o` (output) and `s` (scratch)."),
    rule(
        Unreadable,
        None,
        "B039",
        "a collective without a fixed meaning",
        "Supported are allreduce, allgather, \
        reduce_scatter or reducescatter, alltoall, broadcast and reduce. What `custom` and the other names promise is \
        known to their callers only, so nothing can be proved.",
    ),
    rule(
        Unreadable,
        None,
        "B040",
        "chunks that the ranks do not divide",
        "`nchunksperloop` is the whole message in chunks; \
        for allgather, reduce_scatter and alltoall each rank owns an equal part of it.",
    ),
    rule(
        Unreadable,
        None,
        "B041",
        "two `<gpu>` elements of one rank",
        "The runtimes take every element with the own rank's \
        id; the later one overwrites the earlier.",
    ),
    rule(
        Warning,
        None,
        "B042",
        "a rank without a `<gpu>` element",
        "It loads with no threadblocks, and its peers wait \
        for it for ever. The file is verified with a rank that does nothing.",
    ),
    rule(
        Unreadable,
        None,
        "B043",
        "threadblock numbers with gaps or doubles",
        "The ids of the threadblocks of a rank are \
        0, 1, 2, … each once, in any order; the runtimes refuse anything else.",
    ),
    rule(
        Unreadable,
        None,
        "B044",
        "a peer that cannot be one",
        "`send` and `recv` name another rank below `ngpus`, or −1.",
    ),
    rule(
        Unreadable,
        None,
        "B045",
        "an instruction without its peer",
        "An instruction that sends or receives stands in a \
        threadblock whose `send` or `recv` is −1; the runtimes refuse the file.",
    ),
    rule(
        Unreadable,
        None,
        "B046",
        "an offset outside its buffer",
        "The runtimes compare the offset (for some \
        instructions) with the chunks that the rank declares, and refuse the file.",
    ),
    rule(
        Warning,
        None,
        "B047",
        "an instruction reaches past the declared end",
        "offset + cnt is above the chunks that the \
        rank declares. No runtime looks. Whether it leaves the buffer is decided with the true size of the buffer.",
    ),
    rule(
        Unreadable,
        None,
        "B048",
        "a chain of dependencies that ends in none",
        "Further dependencies of an instruction \
        stand in `nop` instructions directly before it, and the last one on the instruction itself. Otherwise the \
        runtimes refuse the file; between two `re` that they join they put the wait after the group, where it is too late.",
    ),
    rule(
        Unreadable,
        None,
        "B049",
        "a dependency without an instruction",
        "`depid` names a threadblock of the same rank and \
        `deps` the position of its instruction; both are −1 where there is none.",
    ),
    rule(
        Unreadable,
        None,
        "B050",
        "an instruction that moves nothing",
        "`cnt` is 0 on an instruction other than `nop`: it \
        moves nothing, and msccl writes before an array.",
    ),
    rule(
        NotLoaded,
        Some(missing_attributes),
        "B051",
        "attributes that this runtime needs",
        "Azure/msccl-executor-nccl and \
        ROCm/rccl refuse a file without `outofplace`, `minBytes` and `maxBytes` (and abort the creation of the \
        communicator); microsoft/msccl refuses one without `name`. Files straight from msccl-tools lack the former.",
    ),
    rule(
        NotLoaded,
        Some(spelling),
        "B052",
        "the spelling of reduce-scatter",
        "msccl knows `reduce_scatter`, the Azure \
        executor and RCCL know `reducescatter`. One file cannot serve both: write two.",
    ),
    // Limits.
    rule(
        NotLoaded,
        Some(instructions),
        "B053",
        "too many instructions in a threadblock",
        "`s` must be below 256 in msccl \
        and 64 in the Azure executor (by default) and RCCL. Spread the work over more threadblocks and channels.",
    ),
    rule(
        NotLoaded,
        Some(threadblocks),
        "B054",
        "too many threadblocks in a rank",
        "216 in msccl, 1024 in the Azure \
        executor, 64 in RCCL.",
    ),
    rule(
        NotLoaded,
        Some(ends_per_channel),
        "B055",
        "too many threadblocks send or receive on one channel",
        "At most 32 a \
        channel and rank send, and 32 receive.",
    ),
    rule(
        NotLoaded,
        Some(channels),
        "B056",
        "a channel number that is too high",
        "Channels are 0 … 31, or 0 … 127 in RCCL. \
        The parsers compare with `>` instead of `>=`, so that the number 32 (128) passes and overruns an array.",
    ),
    rule(
        NotLoaded,
        Some(communicator_channels),
        "B057",
        "more channels than a communicator has",
        "`nchannels` is what \
        the communicator must have. RCCL skips a file that asks for too many; msccl warns and goes on without them.",
    ),
    rule(
        NotLoaded,
        Some(undeclared_channel),
        "B058",
        "a channel beyond `nchannels`",
        "`chan` is not compared with \
        `nchannels`. The communicator need not have that channel; then the connection's memory does not exist.",
    ),
    rule(
        NotLoaded,
        Some(count),
        "B059",
        "too many chunks in one instruction",
        "`cnt` is at most 71 in all runtimes: what is in flight is counted in a small field. Split the instruction \
        into several.",
    ),
    rule(
        NotLoaded,
        Some(nodes),
        "B060",
        "more XML elements than a rank can load",
        "A rank loads `algo`, every `gpu` and \
        its own `tb` and `step` elements into one array of 4096, one of which stays free.",
    ),
    rule(
        NotLoaded,
        Some(children),
        "B061",
        "an element with too many children",
        "Children are kept in an array of 1024, \
        without a check of its bounds.",
    ),
    rule(
        NotLoaded,
        Some(fused_receives),
        "B062",
        "fused receives do not run on this runtime",
        "RCCL parses rcs, rrs, rrc \
        and rrcs, but dropped the kernels that run them: each call that uses the file returns an internal error. Split \
        them into r, re and s.",
    ),
    rule(
        NotLoaded,
        Some(buffer_chunks),
        "B063",
        "declared chunks that this runtime refuses",
        "msccl wants `i_chunks` and \
        `o_chunks` to be 0 or exactly those of the collective (times the ranks for the smaller side of allgather and \
        reduce_scatter).",
    ),
    rule(
        Wrong,
        Some(long_reduction),
        "B064",
        "more than 16 reductions are joined",
        "Consecutive `re` with the same \
        destination and source buffer become one with many sources. The group is cut only when the running total of the \
        threadblock is 16; a longer one overruns an array of 17 in msccl and the Azure executor with protocol Simple. Put a \
        dependency or an instruction of another kind between them.",
    ),
    rule(
        Wrong,
        Some(waitable),
        "B065",
        "a wait for a threadblock above 127",
        "`depid` is stored in a signed byte: 128 and \
        more become negative, which means that there is nothing to wait for.",
    ),
    rule(
        Warning,
        Some(residency),
        "B066",
        "more threadblocks than a GPU surely holds",
        "All threadblocks of a rank wait for \
        each other, so all must be resident at once. If the GPU has fewer multiprocessors, or other kernels run, the call \
        hangs. Nothing checks it.",
    ),
    // Selection.
    rule(
        NotSelected,
        Some(no_size),
        "B067",
        "no message size selects the file",
        "`maxBytes` is exclusive in msccl (0 means \
        never, missing means 128 MiB) and inclusive in the Azure executor and RCCL (0 means no limit).",
    ),
    rule(
        NotSelected,
        Some(lost_calls),
        "B068",
        "calls that the file is meant for do not use it",
        "msccl uses a file with \
        inplace=\"1\" for calls in place only, and takes no alltoall in place. The Azure executor and RCCL use \
        it as `inplace` and `outofplace` say, so a file with both 0 is never used.",
    ),
    rule(
        NotLoaded,
        Some(routed_away),
        "B069",
        "msccl runs its own code for this name",
        "An alltoall whose name is `2D` is \
        routed to built-in code; the file's instructions are ignored. Choose another name.",
    ),
    // Warnings.
    rule(
        Warning,
        Some(scratch_at_start),
        "B070",
        "scratch memory for the largest message is allocated at start",
        "msccl \
        allocates maxBytes · s_chunks / nchunksperloop bytes when the communicator is made, and fails if it cannot.",
    ),
    rule(
        Warning,
        Some(late_reads),
        "B071",
        "an order that an LL send does not keep on RCCL",
        "A send with protocol LL has no \
        barrier at its end, so that it published does not promise that all threads have read its source. An instruction \
        that waits for it and overwrites the source may be too early (by reading the kernel; nobody ran it).",
    ),
    rule(
        Note,
        Some(long_name),
        "B072",
        "a name that is cut off",
        "msccl keeps 63 characters of the name; its log shows no more.",
    ),
    // What is read otherwise than it looks; raised while reading.
    rule(
        Note,
        None,
        "B073",
        "`s` is not the position",
        "The order of the file counts; `s` is only compared with its limit.",
    ),
    rule(
        Warning,
        None,
        "B074",
        "a `nop` without a dependency",
        "The kernel drops it and does not number it, so that positions \
        after it differ from those in the file. The file is read as the kernel numbers it.",
    ),
    rule(
        Warning,
        None,
        "B075",
        "`nop` instructions at the end of a threadblock",
        "They carry dependencies for an instruction \
        that does not come, and are dropped: nobody waits.",
    ),
    rule(
        Warning,
        None,
        "B076",
        "attributes after the 16th are dropped",
        "The readers keep 16 attributes of an element, and a \
        surplus blank takes the room of one. The rest is dropped without a word.",
    ),
    rule(
        Warning,
        None,
        "B077",
        "calls in place that cannot be decided",
        "What an alltoall in place must do with blocks that \
        it overwrites is not fixed. Only the use out of place is verified.",
    ),
    rule(
        Wrong,
        Some(idle_ends),
        "B078",
        "a threadblock names an end of a connection that another one owns",
        "On a rank and channel each peer to send to, and each to receive from, belongs to one threadblock. Also one that \
        never sends (receives) loads the counters of the connection it names and writes them back when it ends, over those \
        of the owner (by reading the kernels). Set `send` (`recv`) to -1 where it is not used, or take another channel.",
    ),
];

/// The rules as codes, for `rondo explain`.
#[must_use]
pub fn codes() -> Vec<CodeEntry> {
    RULES.iter().map(|rule| rule.entry).collect()
}

fn missing_attributes(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let lacks: Vec<String> = if profile.all_attributes_mandatory {
        parsed.facts.absent.iter().map(|name| format!("`{name}`")).collect()
    } else if parsed.facts.has_name {
        Vec::new()
    } else {
        vec!["`name`".to_owned()]
    };
    let sample = if profile.all_attributes_mandatory {
        "add what is missing of outofplace=\"1\" (or 0) minBytes=\"0\" maxBytes=\"0\" to <algo>"
    } else {
        "add name=\"…\" to <algo>"
    };
    (!lacks.is_empty())
        .then(|| hit(format!("`<algo>` lacks {}", lacks.join(", ")), &parsed.facts.algo, "refuses the file", sample))?
}

fn spelling(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let given = parsed.facts.collective.as_str();
    (matches!(given, "reduce_scatter" | "reducescatter") && given != profile.reduce_scatter_name).then(|| {
        let there = format!("knows `{}` only", profile.reduce_scatter_name);
        let help = format!("write coll=\"{}\"", profile.reduce_scatter_name);
        hit(format!("the collective is spelt `{given}`"), &parsed.facts.algo, there, &help)
    })?
}

fn instructions(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.instructions;
    let limit = above(worst, profile.instructions)?;
    let message = format!("{} has {} instructions", of_threadblock(worst), worst.number);
    hit(message, &worst.at, format!("at most {limit}"), "spread them over more threadblocks and channels")
}

fn threadblocks(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.threadblocks;
    let limit = above(worst, profile.threadblocks)?;
    let message = format!("rank {} has {} threadblocks", worst.rank, worst.number);
    hit(message, &worst.at, format!("at most {limit}"), "use fewer channels, or relay over fewer peers")
}

fn ends_per_channel(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.ends;
    let limit = above(worst, profile.threadblocks_per_channel)?;
    let message = format!(
        "{} threadblocks of rank {} send, or receive, on channel {}",
        worst.number, worst.rank, worst.threadblock
    );
    hit(message, &worst.at, format!("at most {limit} a channel"), "move some of them to another channel")
}

fn channels(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.channel;
    let limit = profile.channels?;
    // The number of the channel, from 0.
    (u64::from(limit) <= worst.number).then(|| {
        let message = format!("{} uses channel {}", of_threadblock(worst), worst.number);
        hit(message, &worst.at, format!("channels are 0 … {}", limit - 1), "number the channels 0, 1, 2, …")
    })?
}

fn communicator_channels(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let limit = profile.channels?;
    // msccl warns, and goes on.
    (profile.all_attributes_mandatory && limit < parsed.channels).then(|| {
        let message = format!("`nchannels` is {}", parsed.channels);
        let there = format!("a communicator has at most {limit}");
        hit(message, &parsed.facts.algo, there, "write the number of channels that the threadblocks use")
    })?
}

fn undeclared_channel(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.channel;
    (profile.loadable && !worst.at.is_empty() && u64::from(parsed.channels) <= worst.number).then(|| {
        let message =
            format!("{} uses channel {}, but `nchannels` is {}", of_threadblock(worst), worst.number, parsed.channels);
        let help = format!("write nchannels=\"{}\"", worst.number + 1);
        hit(message, &worst.at, "the communicator need not have that channel", &help)
    })?
}

fn count(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.count;
    let limit = above(worst, profile.count)?;
    let message = format!("an instruction of {} has `cnt` {}", of_threadblock(worst), worst.number);
    hit(message, &worst.at, format!("at most {limit}"), "split it into several instructions")
}

fn nodes(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.nodes;
    let limit = above(worst, profile.xml_nodes)?;
    let message = format!("rank {} loads {} XML elements", worst.rank, worst.number);
    hit(message, &worst.at, format!("at most {limit}"), "use fewer, larger chunks")
}

fn children(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.children;
    let limit = above(worst, profile.xml_children)?;
    let message = format!("an element has {} children", worst.number);
    hit(message, &worst.at, format!("at most {limit}; more overrun an array"), "use fewer, larger chunks")
}

fn fused_receives(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.fused_receives;
    (!profile.fused_receives && 0 < worst.number).then(|| {
        let message = format!("{} instructions are rcs, rrs, rrc or rrcs", worst.number);
        hit(message, &worst.at, "each call that uses the file fails", "write them as r, re and s")
    })?
}

fn buffer_chunks(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    if !profile.exact_buffer_chunks {
        return None;
    }
    let header = parsed.headers.first()?;
    let layout = header.collective.layout(header.chunks).ok()?;
    let (rank, (input, output), at) = (0_u32..)
        .zip(&parsed.facts.declared_chunks)
        .map(|(rank, (chunks, at))| (rank, *chunks, at))
        .find(|&(rank, (input, output), _)| {
            let differs = |given: u32, due: u32| given != 0 && due != 0 && given != due;
            differs(input, layout.slots(rank, Buffer::Input)) || differs(output, layout.slots(rank, Buffer::Output))
        })?;
    let (i, o) = (layout.slots(rank, Buffer::Input), layout.slots(rank, Buffer::Output));
    let message = format!("rank {rank} declares i_chunks {input} and o_chunks {output}");
    hit(message, at, format!("wants {i} and {o}, or 0"), "write these numbers")
}

fn long_reduction(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.joined;
    let limit = above(worst, profile.fused_reduces)?;
    (parsed.protocol == Protocol::Simple && profile.fused_reduces_overrun).then(|| {
        let message = format!("{} reductions of {} are joined", worst.number, of_threadblock(worst));
        let help = "put an instruction of another kind, or a dependency, between them";
        hit(message, &worst.at, format!("more than {limit} overrun an array"), help)
    })?
}

fn waitable(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.waited;
    let limit = above(worst, profile.waitable_threadblock)?;
    let message = format!("an instruction of rank {} waits for threadblock {}", worst.rank, worst.number);
    let there = format!("the number is kept in a signed byte: above {limit} nothing is waited for");
    hit(message, &worst.at, there, "give threadblocks that others wait for the low numbers")
}

fn residency(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.threadblocks;
    if !profile.loadable || profile.threadblocks.is_some_and(|limit| u64::from(limit) < worst.number) {
        return None;
    }
    let small: Vec<_> =
        GPUS.iter().filter(|(_, held)| *held < worst.number).map(|(gpu, held)| format!("{gpu} has {held}")).collect();
    (!small.is_empty()).then(|| {
        let message = format!("rank {} has {} threadblocks, which must all be resident", worst.rank, worst.number);
        let there = format!("hangs where the multiprocessors are fewer: {}", small.join(", "));
        hit(message, &worst.at, there, "use fewer channels")
    })?
}

fn no_size(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let largest = largest_message(parsed, profile)?;
    let never = parsed.max_bytes == Some(0) && profile.size_end == SizeEnd::Exclusive;
    (never || largest < parsed.min_bytes.unwrap_or(0)).then(|| {
        let max = parsed.max_bytes.map_or_else(|| "no maxBytes".to_owned(), |max| format!("maxBytes {max}"));
        let message = format!("minBytes {} and {max} leave no size", parsed.min_bytes.unwrap_or(0));
        let there = match (profile.size_end, parsed.max_bytes) {
            (SizeEnd::Exclusive, None) => "maxBytes is 134217728, exclusive, where it is missing",
            (SizeEnd::Exclusive, _) => "maxBytes is exclusive",
            (SizeEnd::InclusiveZeroUnlimited, _) => "maxBytes is inclusive, 0 means no limit",
        };
        hit(message, &parsed.facts.algo, there, "raise maxBytes")
    })?
}

fn lost_calls(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let (in_place, out_of_place) = ways(parsed, profile);
    let message = match (parsed.in_place && !in_place, parsed.out_of_place && !out_of_place) {
        (false, false) if !in_place && !out_of_place => "the file is for calls neither in nor out of place",
        (false, false) => return None,
        (true, false) => "the file is also meant for calls in place",
        (false, true) => "the file is also meant for calls out of place",
        (true, true) => "the file is meant for calls in and out of place",
    };
    let there = match (in_place, out_of_place) {
        (false, false) => "no call uses it",
        (true, _) => "calls out of place do not use it",
        (_, true) => "calls in place do not use it",
    };
    let help = "set `inplace` and `outofplace`, or write one file for each kind of call";
    hit(message.to_owned(), &parsed.facts.algo, there, help)
}

fn routed_away(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    (profile.reserved_names && parsed.name == "2D" && parsed.facts.collective == "alltoall").then(|| {
        let message = "the alltoall is named `2D`".to_owned();
        hit(message, &parsed.facts.algo, "runs built-in code instead of the file", "choose another name")
    })?
}

fn scratch_at_start(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    /// Worth a word.
    const LARGE: u128 = 1 << 30;
    let most = u128::from(parsed.program.ranks.iter().map(|rank| rank.scratch_slots).max()?);
    let bytes = u128::from(parsed.max_bytes?) * most / u128::from(parsed.facts.total_chunks.max(1));
    (profile.scratch_at_start && LARGE < bytes).then(|| {
        let message = format!("a rank needs {most} scratch chunks for messages of {} bytes", parsed.max_bytes?);
        let there = format!("allocates {bytes} bytes when the communicator is made");
        hit(message, &parsed.facts.algo, there, "lower maxBytes to the largest message that the file is for")
    })?
}

fn late_reads(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.late_reads;
    (!profile.ll_sends_finish_reading && parsed.protocol == Protocol::Ll && 0 < worst.number).then(|| {
        let message = format!("{} instructions overwrite what an LL send reads, after waiting for it", worst.number);
        let there = "that the send published does not promise that it has read (by reading the kernel)";
        hit(message, &worst.at, there, "wait for something that follows the send, or use protocol Simple")
    })?
}

fn idle_ends(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    let worst = &parsed.facts.idle_ends;
    (profile.loadable && 1 < worst.number).then(|| {
        let message =
            format!("{} names a peer that another threadblock owns, and does not use it", of_threadblock(worst));
        hit(message, &worst.at, "both write the counters of the connection", "write -1 for the peer that is not used")
    })?
}

fn long_name(parsed: &Parsed, profile: &RuntimeProfile) -> Option<Hit> {
    (profile.reserved_names && 63 < parsed.name.len()).then(|| {
        let message = format!("the name has {} characters", parsed.name.len());
        hit(message, &parsed.facts.algo, "keeps 63", "shorten it")
    })?
}
