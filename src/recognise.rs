//! Which format a file is of, from its content.

use rondo_backends::{json, mscclpp};

/// A format that `rondo verify` and `rondo cost` read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plan of Rondo (JSON).
    Plan,
    /// MSCCL XML.
    MscclXml,
    /// An execution plan of MSCCL++ (JSON).
    Mscclpp,
    /// NCCL topology XML.
    NcclTopology,
    /// Text of `nvidia-smi topo -m`.
    NvidiaSmi,
    /// A job file (TOML).
    Job,
}

/// Recognises a file from its first bytes; `None` if it is of no known format.
#[must_use]
pub fn recognise(bytes: &[u8]) -> Option<Kind> {
    if json::looks_like_plan(bytes) {
        return Some(Kind::Plan);
    }
    if mscclpp::looks_like_plan(bytes) {
        return Some(Kind::Mscclpp);
    }
    let head = &bytes[..bytes.len().min(64 << 10)];
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A cut in the middle of a letter is no fault of the file.
        Err(error) if error.valid_up_to() + 4 > head.len() && !head.is_empty() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    // Prologs and comments before the first element.
    loop {
        if let Some(after) = rest.strip_prefix("<!--") {
            rest = after.find("-->").map_or("", |at| after[at + 3..].trim_start());
        } else if let Some(after) = rest.strip_prefix("<?") {
            rest = after.find("?>").map_or("", |at| after[at + 2..].trim_start());
        } else if let Some(after) = rest.strip_prefix("<!DOCTYPE") {
            rest = after.find('>').map_or("", |at| after[at + 1..].trim_start());
        } else {
            break;
        }
    }
    if let Some(element) = rest.strip_prefix('<') {
        let name = element.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').next()?;
        return match name {
            "algo" => Some(Kind::MscclXml),
            "system" | "topology" => Some(Kind::NcclTopology),
            _ => None,
        };
    }
    // The head of a matrix names the GPUs side by side.
    let is_matrix = |line: &str| line.split_whitespace().filter(|word| word.contains("GPU")).count() >= 2;
    if text.lines().take(40).any(|line| line.contains("GPU0") && !line.contains('=') && is_matrix(line)) {
        return Some(Kind::NvidiaSmi);
    }
    let is_toml = rest.lines().any(|line| {
        let line = line.trim();
        (line.starts_with('[') && line.ends_with(']'))
            || line.split_once('=').is_some_and(|(key, _)| !key.trim().is_empty())
    });
    is_toml.then_some(Kind::Job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        assert_eq!(recognise(b"<algo name=\"x\">"), Some(Kind::MscclXml));
        assert_eq!(recognise(b"<!-- licence -->\n<system version=\"1\">"), Some(Kind::NcclTopology));
        let hwloc = b"<?xml version=\"1.0\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\"/>";
        assert_eq!(recognise(hwloc), Some(Kind::NcclTopology));
        assert_eq!(recognise(b"{\"name\": \"x\", \"collective\": \"test\", \"gpus\": []}"), Some(Kind::Mscclpp));
        assert_eq!(recognise(b"[topology]\nkind = \"ring\"\n"), Some(Kind::Job));
        assert_eq!(recognise(b"\tGPU0\tGPU1\nGPU0\t X \tNV1\n"), Some(Kind::NvidiaSmi));
        let with_legend = b"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV1\t0-7\n\nLegend:\n\n  X    = Self\n";
        assert_eq!(recognise(with_legend), Some(Kind::NvidiaSmi));
        assert_eq!(recognise(b"\x00\x01\x02\xff"), None);
        assert_eq!(recognise(b""), None);
        assert_eq!(recognise(b"<html></html>"), None);
    }
}
