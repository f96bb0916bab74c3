//! The nearest known name, and lists of names in a sentence.

/// Words that people use for a key of another name.
const SYNONYMS: &[(&str, &str)] = &[
    ("capacity", "bandwidth"),
    ("bandwidth", "capacity"),
    ("rate", "bandwidth"),
    ("speed", "bandwidth"),
    ("alpha", "latency"),
    ("hop_delay", "latency"),
    ("hop_latency", "latency"),
    ("gamma", "reduce_cost"),
    ("size", "buffer_size"),
    ("message_size", "buffer_size"),
    ("type", "dtype"),
    ("datatype", "dtype"),
    ("op", "operator"),
    ("reduction", "operator"),
    ("gpus", "nodes"),
    ("hosts", "nodes"),
    ("nodes", "node"),
    ("links", "link"),
    ("devices", "device"),
    ("media", "medium"),
    ("dims", "sides"),
    ("shape", "sides"),
    ("tier", "tiers"),
    ("levels", "tiers"),
    ("source", "from"),
    ("src", "from"),
    ("target", "to"),
    ("dst", "to"),
    ("destination", "to"),
    ("fp64", "float64"),
    ("double", "float64"),
    ("fp32", "float32"),
    ("float", "float32"),
    ("fp16", "float16"),
    ("half", "float16"),
    ("bf16", "bfloat16"),
    ("fp8", "float8"),
    ("xml", "msccl-xml"),
    ("fat_tree", "clos"),
    ("full_mesh", "mesh"),
    ("fully_connected", "mesh"),
];

/// The known name that was probably meant, if one is near.
pub(super) fn nearest<'n>(given: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Comparing is quadratic, and nobody mistypes a key of a thousand letters.
    if 64 < given.len() {
        return None;
    }
    let known: Vec<&str> = known.into_iter().collect();
    let folded = given.to_lowercase().replace(['-', ' '], "_");
    if let Some(same) = known.iter().find(|name| name.to_lowercase().replace('-', "_") == folded) {
        return Some(same);
    }
    let mut meant = SYNONYMS.iter().filter(|(word, _)| *word == folded);
    if let Some(name) = meant.find_map(|(_, key)| known.iter().copied().find(|name| name == key)) {
        return Some(name);
    }
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase().replace('-', "_")), *name))
        .filter(|(distance, name)| *distance <= (name.len().max(given.len()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance);
    near.map(|(_, name)| name)
}

/// `a`, `a or b`, `a, b or c`.
pub(super) fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// `nodes: a, b, c, … (128 in all)`.
pub(super) fn some<'n>(what: &str, names: impl Iterator<Item = &'n str> + Clone) -> String {
    let total = names.clone().count();
    let shown: Vec<&str> = names.take(12).collect();
    match total {
        0 => format!("there are no {what}"),
        _ if total == shown.len() => format!("{what}: {}", shown.join(", ")),
        _ => format!("{what}: {}, … ({total} in all)", shown.join(", ")),
    }
}

/// The beginning of a text that may be long or hold control characters.
pub(super) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if short.len() < text.len() && text.chars().count() > 60 {
        short.push('…');
    }
    short
}
