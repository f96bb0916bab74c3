//! Tree to model: keys, types, names, and the ids that must equal their position.

use std::ops::Range;

use rondo_ir::collective::Buffer;
use rondo_ir::diagnostic::Diagnostic;

use super::Faults;
use super::model::{ChannelType, Gpu, Op, OpName, Operand, Plan, Remote, Switch, Target, Tb};
use super::tree::{Tree, Value};

/// An object whose keys are taken one by one.
struct Object<'t> {
    span: Range<usize>,
    members: Vec<(&'t str, Range<usize>, Option<&'t Tree>)>,
}

pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) faults: &'a mut Faults,
}

impl<'t> Reader<'_> {
    fn fault(&mut self, code: &'static str, span: Range<usize>, message: String) {
        self.faults.add(Diagnostic::error(code, message), span);
    }

    fn object(&mut self, tree: &'t Tree, what: &str) -> Option<Object<'t>> {
        let Value::Object(members) = &tree.value else {
            self.fault("B202", tree.span.clone(), format!("{what} must be an object, not {}", tree.kind()));
            return None;
        };
        let mut object = Object { span: tree.span.clone(), members: Vec::with_capacity(members.len()) };
        for (key, span, value) in members {
            if members.len() < 64 && object.members.iter().any(|(known, ..)| known == key) {
                self.fault("B202", span.clone(), format!("{what} has the key `{key}` twice"));
            }
            object.members.push((key, span.clone(), Some(value)));
        }
        Some(object)
    }

    /// Takes the value of a key; the last one, as the runtime's reader does.
    fn take(&mut self, object: &mut Object<'t>, key: &str) -> Option<&'t Tree> {
        object.members.iter_mut().rev().find(|(known, _, value)| *known == key && value.is_some())?.2.take()
    }

    fn need(&mut self, object: &mut Object<'t>, key: &str, what: &str) -> Option<&'t Tree> {
        let found = self.take(object, key);
        if found.is_none() {
            self.fault("B202", first_line(self.text, &object.span), format!("{what} lacks `{key}`"));
        }
        found
    }

    /// Warns of keys that nobody reads.
    fn rest(&mut self, object: &Object<'t>, what: &str) {
        for (key, span, value) in &object.members {
            if value.is_some() {
                let finding = Diagnostic::warning("B230", format!("the runtime ignores the key `{key}` of {what}"));
                self.faults.add(finding, span.clone());
            }
        }
    }

    fn list(&mut self, tree: &'t Tree, what: &str) -> &'t [Tree] {
        if let Value::List(items) = &tree.value {
            return items;
        }
        self.fault("B202", tree.span.clone(), format!("{what} must be a list, not {}", tree.kind()));
        &[]
    }

    fn list_of(&mut self, object: &mut Object<'t>, key: &str, what: &str) -> &'t [Tree] {
        match self.take(object, key) {
            Some(tree) => self.list(tree, &format!("`{key}` of {what}")),
            None => &[],
        }
    }

    fn number(&mut self, tree: &Tree, what: &str) -> Option<u64> {
        let shown = self.text.get(tree.span.clone()).unwrap_or_default();
        if tree.value == Value::Number
            && let Ok(number) = shown.parse::<u64>()
        {
            return Some(number);
        }
        let shown = if shown.len() <= 40 { format!("`{shown}`") } else { tree.kind().to_owned() };
        self.fault("B202", tree.span.clone(), format!("{what} must be a whole number from 0 to 2^64 - 1, not {shown}"));
        None
    }

    fn need_number(&mut self, object: &mut Object<'t>, key: &str, what: &str) -> Option<u64> {
        let tree = self.need(object, key, what)?;
        self.number(tree, &format!("`{key}` of {what}"))
    }

    fn number_or(&mut self, object: &mut Object<'t>, key: &str, what: &str, default: u64) -> u64 {
        self.take(object, key)
            .map_or(Some(default), |tree| self.number(tree, &format!("`{key}` of {what}")))
            .unwrap_or(default)
    }

    fn numbers(&mut self, object: &mut Object<'t>, key: &str, what: &str) -> Vec<u64> {
        let items = self.list_of(object, key, what);
        items.iter().filter_map(|item| self.number(item, &format!("an entry of `{key}` of {what}"))).collect()
    }

    fn text(&mut self, tree: &'t Tree, what: &str) -> Option<&'t str> {
        if let Value::Text(text) = &tree.value {
            return Some(text);
        }
        self.fault("B202", tree.span.clone(), format!("{what} must be a text, not {}", tree.kind()));
        None
    }

    fn truth(&mut self, tree: &Tree, what: &str) -> Option<bool> {
        if let Value::Bool(value) = tree.value {
            return Some(value);
        }
        self.fault("B202", tree.span.clone(), format!("{what} must be true or false, not {}", tree.kind()));
        None
    }

    fn truth_or(&mut self, object: &mut Object<'t>, key: &str, what: &str) -> bool {
        self.take(object, key).and_then(|tree| self.truth(tree, &format!("`{key}` of {what}"))).unwrap_or(false)
    }

    fn named<T>(&mut self, tree: &'t Tree, what: &str, known: impl Fn(&str) -> Option<T>, all: &str) -> Option<T> {
        let text = self.text(tree, what)?;
        let found = known(text);
        if found.is_none() {
            self.fault("B202", tree.span.clone(), format!("{what} is `{}`; known: {all}", short(text)));
        }
        found
    }

    fn buffer(&mut self, tree: &'t Tree, what: &str) -> Option<Buffer> {
        let known = |name: &str| match name {
            "i" => Some(Buffer::Input),
            "o" => Some(Buffer::Output),
            "s" => Some(Buffer::Scratch),
            _ => None,
        };
        self.named(tree, what, known, "i, o, s")
    }

    fn channel_type(&mut self, tree: &'t Tree, what: &str) -> Option<ChannelType> {
        let known = |name: &str| ChannelType::ALL.into_iter().find(|kind| kind.name() == name);
        self.named(tree, what, known, "memory, port, switch")
    }

    /// Reads a whole plan.
    pub(super) fn plan(&mut self, tree: &'t Tree) -> Option<Plan> {
        let what = "the plan";
        let mut top = self.object(tree, what)?;
        let mut name_of = |reader: &mut Self, key: &str| {
            let tree = reader.need(&mut top, key, what)?;
            Some((reader.text(tree, &format!("`{key}` of {what}"))?.to_owned(), tree.span.clone()))
        };
        let (name, collective, protocol) =
            (name_of(self, "name"), name_of(self, "collective"), name_of(self, "protocol"));
        let in_place = self.need(&mut top, "inplace", what).and_then(|tree| self.truth(tree, "`inplace` of the plan"));
        let mut plan = Plan {
            name: name.map_or_else(String::new, |(name, _)| name),
            packets: protocol.is_some_and(|(protocol, _)| protocol == "LL"),
            in_place: in_place.unwrap_or(false),
            reuse_resources: self.truth_or(&mut top, "reuse_resources", what),
            threads: self.number_or(&mut top, "num_threads_per_block", what, 1024),
            double_scratch: self.truth_or(&mut top, "use_double_scratch_buffer", what),
            alignment: self.number_or(&mut top, "buffer_alignment", what, 16),
            min_bytes: self.number_or(&mut top, "min_message_size", what, 0),
            max_bytes: self.number_or(&mut top, "max_message_size", what, u64::MAX),
            collective_span: collective.as_ref().map_or(0..0, |(_, span)| span.clone()),
            collective: collective.map_or_else(String::new, |(name, _)| name),
            gpus: Vec::new(),
        };
        let gpus = self.need(&mut top, "gpus", what)?;
        for (rank, tree) in (0..).zip(self.list(gpus, "`gpus` of the plan")) {
            let gpu = self.gpu(rank, tree);
            plan.gpus.extend(gpu);
        }
        self.rest(&top, what);
        Some(plan)
    }

    fn id(&mut self, object: &mut Object<'t>, position: u64, what: &str, kind: &str) {
        let Some(tree) = self.need(object, "id", what) else { return };
        if let Some(id) = self.number(tree, &format!("`id` of {what}"))
            && id != position
        {
            let message = format!("{kind} {position} in the list has the id {id}");
            self.fault("B204", tree.span.clone(), message);
        }
    }

    fn gpu(&mut self, rank: u64, tree: &'t Tree) -> Option<Gpu> {
        let what = format!("gpu {rank}");
        let mut object = self.object(tree, &what)?;
        self.id(&mut object, rank, &what, "the gpu at place");
        let mut gpu = Gpu {
            span: first_line(self.text, &tree.span),
            input: self.need_number(&mut object, "input_chunks", &what).unwrap_or(1),
            output: self.need_number(&mut object, "output_chunks", &what).unwrap_or(1),
            scratch: self.need_number(&mut object, "scratch_chunks", &what).unwrap_or(0),
            tbs: Vec::new(),
            peers: [Vec::new(), Vec::new()],
            switches: Vec::new(),
            remotes: Vec::new(),
            semaphores: Vec::new(),
        };
        for channel in self.list_of(&mut object, "channels", &what) {
            self.channel(&mut gpu, channel, &format!("a channel of {what}"));
        }
        for remote in self.list_of(&mut object, "remote_buffers", &what) {
            let read = self.remote(remote, &format!("a remote buffer of {what}"));
            gpu.remotes.extend(read);
        }
        for semaphore in self.list_of(&mut object, "semaphores", &what) {
            let what = format!("a semaphore of {what}");
            let Some(mut object) = self.object(semaphore, &what) else { continue };
            let initial = self.need_number(&mut object, "init_value", &what).unwrap_or(0);
            gpu.semaphores.push(initial);
            self.rest(&object, &what);
        }
        let tbs = self.need(&mut object, "threadblocks", &what)?;
        for (position, tb) in (0..).zip(self.list(tbs, &format!("`threadblocks` of {what}"))) {
            let tb = self.threadblock(position, tb, &format!("threadblock {position} of {what}"));
            gpu.tbs.extend(tb);
        }
        self.rest(&object, &what);
        Some(gpu)
    }

    fn channel(&mut self, gpu: &mut Gpu, tree: &'t Tree, what: &str) -> Option<()> {
        let mut object = self.object(tree, what)?;
        let kind = self.need(&mut object, "channel_type", what)?;
        match self.channel_type(kind, &format!("`channel_type` of {what}"))? {
            ChannelType::Memory => gpu.peers[0].extend(self.numbers(&mut object, "connected_to", what)),
            ChannelType::Port => gpu.peers[1].extend(self.numbers(&mut object, "connected_to", what)),
            ChannelType::Switch => {
                let buffer = self.need(&mut object, "buffer_type", what)?;
                let buffer = self.buffer(buffer, &format!("`buffer_type` of {what}"))?;
                for group in self.list_of(&mut object, "rank_groups", what) {
                    let what = format!("a rank group of {what}");
                    let Some(mut members) = self.object(group, &what) else { continue };
                    let size = self.need_number(&mut members, "size", &what);
                    let ranks = self.numbers(&mut members, "ranks", &what);
                    let span = first_line(self.text, &group.span);
                    if size.is_some_and(|size| size != ranks.len() as u64) {
                        let message = format!("{what} says size {} but lists {} ranks", size.unwrap_or(0), ranks.len());
                        self.fault("B214", span.clone(), message);
                    }
                    gpu.switches.push(Switch { buffer, ranks, span });
                    self.rest(&members, &what);
                }
            }
        }
        self.rest(&object, what);
        Some(())
    }

    fn remote(&mut self, tree: &'t Tree, what: &str) -> Option<Remote> {
        let mut object = self.object(tree, what)?;
        let rank = self.need_number(&mut object, "rank", what)?;
        let buffer = self.need(&mut object, "type", what)?;
        let buffer = self.buffer(buffer, &format!("`type` of {what}"))?;
        let mut access = [false; 2];
        for kind in self.list_of(&mut object, "access_channel_types", what) {
            match self.channel_type(kind, &format!("an access channel type of {what}")) {
                Some(ChannelType::Memory) => access[0] = true,
                Some(ChannelType::Port) => access[1] = true,
                Some(ChannelType::Switch) => {
                    self.fault("B209", kind.span.clone(), format!("{what} cannot be reached through a switch channel"));
                }
                None => {}
            }
        }
        self.rest(&object, what);
        Some(Remote { rank, buffer, access })
    }

    fn threadblock(&mut self, position: u64, tree: &'t Tree, what: &str) -> Option<Tb> {
        let mut object = self.object(tree, what)?;
        self.id(&mut object, position, what, "the threadblock at place");
        let mut tb = Tb {
            ops: Vec::new(),
            channels: [Vec::new(), Vec::new(), Vec::new()],
            references: [Vec::new(), Vec::new()],
            span: first_line(self.text, &tree.span),
        };
        for list in self.list_of(&mut object, "channels", what) {
            let what = format!("`channels` of {what}");
            let Some(mut members) = self.object(list, &what) else { continue };
            let Some(kind) = self.need(&mut members, "channel_type", &what) else { continue };
            if let Some(kind) = self.channel_type(kind, &format!("`channel_type` in {what}")) {
                tb.channels[kind as usize].extend(self.numbers(&mut members, "channel_ids", &what));
            }
            self.rest(&members, &what);
        }
        for list in self.list_of(&mut object, "remote_buffer_refs", what) {
            let what = format!("`remote_buffer_refs` of {what}");
            let Some(mut members) = self.object(list, &what) else { continue };
            let Some(tree) = self.need(&mut members, "access_channel_type", &what) else { continue };
            match self.channel_type(tree, &format!("`access_channel_type` in {what}")) {
                Some(ChannelType::Switch) => {
                    let message = format!("{what}: a switch channel has no remote buffers");
                    self.fault("B209", tree.span.clone(), message);
                }
                Some(kind) => {
                    tb.references[kind as usize].extend(self.numbers(&mut members, "remote_buffer_ids", &what));
                }
                None => {}
            }
            self.rest(&members, &what);
        }
        let ops = self.need(&mut object, "ops", what)?;
        tb.ops = self.ops(ops, what, false);
        self.rest(&object, what);
        Some(tb)
    }

    fn ops(&mut self, tree: &'t Tree, what: &str, inside: bool) -> Vec<Op> {
        let list = self.list(tree, &format!("`ops` of {what}"));
        let mut ops = Vec::with_capacity(list.len());
        for (number, tree) in list.iter().enumerate() {
            let op = self.op(tree, &format!("operation {number} of {what}"), inside);
            ops.extend(op);
        }
        ops
    }

    fn op(&mut self, tree: &'t Tree, what: &str, inside: bool) -> Option<Op> {
        let mut object = self.object(tree, what)?;
        let name_tree = self.need(&mut object, "name", what)?;
        let name = self.text(name_tree, &format!("`name` of {what}"))?;
        let Some(name) = OpName::named(name) else {
            let mut finding =
                Diagnostic::error("B203", format!("{what} is `{}`, which the runtime does not know", short(name)));
            finding.help.push(match name {
                "glre" => "the DSL knows `glre`, the executor does not; it has `glres`".to_owned(),
                "rrc" | "rrcs" | "rs" | "rspkt" | "tpkt" | "rpkt" => {
                    format!("`{name}` went away with version 1 of the format")
                }
                _ => {
                    let names: Vec<_> = OpName::ALL.iter().map(|&(name, _)| name).collect();
                    format!("known: {}", names.join(", "))
                }
            });
            self.faults.add(finding, name_tree.span.clone());
            return None;
        };
        let mut op = Op {
            name,
            span: first_line(self.text, &tree.span),
            channel_type: None,
            channel_ids: self.numbers(&mut object, "channel_ids", what),
            sources: Vec::new(),
            targets: Vec::new(),
            group: None,
            barrier: None,
            semaphores: self.numbers(&mut object, "semaphore_ids", what),
            iteration: None,
            inner: Vec::new(),
            reduce_op: None,
        };
        if let Some(kind) = self.take(&mut object, "channel_type") {
            op.channel_type = self.channel_type(kind, &format!("`channel_type` of {what}"));
        }
        for tree in self.list_of(&mut object, "src_buff", what) {
            let operand = self.operand(tree, &format!("a source of {what}"));
            op.sources.extend(operand);
        }
        for tree in self.list_of(&mut object, "dst_buff", what) {
            let operand = self.operand(tree, &format!("a destination of {what}"));
            op.targets.extend(operand);
        }
        if let Some(tree) = self.take(&mut object, "tbg_info") {
            let what = format!("`tbg_info` of {what}");
            let mut members = self.object(tree, &what)?;
            let (id, size) =
                (self.need_number(&mut members, "tb_id", &what), self.need_number(&mut members, "tbg_size", &what));
            op.group = id.zip(size);
            self.rest(&members, &what);
        }
        if name == OpName::Barrier {
            let (id, count) = (
                self.need_number(&mut object, "barrier_id", what),
                self.need_number(&mut object, "num_threadblocks", what),
            );
            op.barrier = id.zip(count);
        }
        if let Some(tree) = self.take(&mut object, "reduce_op") {
            op.reduce_op = self.text(tree, &format!("`reduce_op` of {what}")).map(str::to_owned);
        }
        if name == OpName::Pipeline {
            if inside {
                self.fault("B215", op.span.clone(), format!("{what} is a pipeline inside a pipeline"));
                return None;
            }
            let context = self.need(&mut object, "iter_context", what)?;
            let context_name = format!("`iter_context` of {what}");
            let mut members = self.object(context, &context_name)?;
            let unit = self.need_number(&mut members, "unit_size", &context_name);
            let chunks = self.need_number(&mut members, "num_chunks", &context_name);
            op.iteration = unit.zip(chunks);
            self.rest(&members, &context_name);
            let inner = self.need(&mut object, "ops", what)?;
            op.inner = self.ops(inner, what, true);
        }
        self.rest(&object, what);
        Some(op)
    }

    fn operand(&mut self, tree: &'t Tree, what: &str) -> Option<Operand> {
        let mut object = self.object(tree, what)?;
        let (buffer, remote, switch) = (
            self.take(&mut object, "type"),
            self.take(&mut object, "buffer_id"),
            self.take(&mut object, "switch_channel_id"),
        );
        let target = match (buffer, remote, switch) {
            (Some(tree), None, None) => Target::Local(self.buffer(tree, &format!("`type` of {what}"))?),
            (None, Some(tree), None) => Target::Remote(self.number(tree, &format!("`buffer_id` of {what}"))?),
            (None, None, Some(tree)) => Target::Switch(self.number(tree, &format!("`switch_channel_id` of {what}"))?),
            // A remote place whose buffer type is spelt as well.
            (Some(_), Some(tree), None) => Target::Remote(self.number(tree, &format!("`buffer_id` of {what}"))?),
            _ => {
                let message = format!("{what} must have one of `type`, `buffer_id` and `switch_channel_id`");
                self.fault("B208", first_line(self.text, &tree.span), message);
                return None;
            }
        };
        let index = self.need_number(&mut object, "index", what)?;
        let size = self.need_number(&mut object, "size", what)?;
        self.rest(&object, what);
        Some(Operand { target, index, size, span: first_line(self.text, &tree.span) })
    }
}

/// The span up to the end of its first line.
fn first_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let length = text.get(span.clone()).and_then(|piece| piece.find('\n')).unwrap_or(span.len());
    span.start..span.start + length
}

/// A text of the file as far as it fits a message.
fn short(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}
