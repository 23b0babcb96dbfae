//! What the blocks behind one save of a micro-batch: while it runs, of what the reference step keeps that is not yet there, or
//! no more.

use crate::accounting;
use crate::bytes::Bytes;
use crate::counts::{Count, Counts};
use crate::explain::Line;
use crate::inventory::{Block, Entry, Inventory, Lifetime, Sink};
use crate::plan::Plan;
use crate::stages::Chunk;
use alloc::vec;
use alloc::vec::Vec;

/// A block of a chunk, and what it saves.
struct Saved {
    block: Block,
    entries: Vec<Entry>,
}

impl Plan {
    /// What the blocks behind the last one of a kind save of a micro-batch; `None` if a chunk has no such block.
    pub(crate) fn behind(&self, chunk: &Chunk, block: Block) -> Option<Vec<Entry>> {
        let blocks = self.blocks(chunk);
        let last = blocks.iter().rposition(|saved| saved.block == block)?;
        Some(blocks.into_iter().skip(last + 1).flat_map(|saved| saved.entries).collect())
    }

    /// The blocks of a chunk in the order of a forward.
    fn blocks(&self, chunk: &Chunk) -> Vec<Saved> {
        let layers = &self.spec().architecture.layers;
        let mut blocks = Vec::new();
        if chunk.embedding {
            blocks.push(self.saved(Block::Embedding));
        }
        for layer in chunk.range() {
            self.layer(&mut blocks, layers.has_experts(layer));
        }
        if chunk.head {
            blocks.push(self.saved(Block::Head));
        }
        for _ in 0..chunk.mtp {
            blocks.push(self.saved(Block::Mtp));
            self.layer(&mut blocks, layers.moe > 0);
            blocks.push(self.saved(Block::MtpHead));
        }
        blocks
    }

    fn layer(&self, blocks: &mut Vec<Saved>, has_experts: bool) {
        blocks.push(self.saved(Block::Attention));
        blocks.push(self.saved(if has_experts { Block::Moe } else { Block::Dense }));
    }

    fn saved(&self, block: Block) -> Saved {
        let mut counts = Counts::NONE;
        match block {
            Block::Embedding => counts.first = Count::ONE,
            Block::Dense => counts.dense = Count::ONE,
            Block::Moe => counts.moe = Count::ONE,
            Block::Head => counts.last = Count::ONE,
            Block::Mtp | Block::MtpHead => counts.mtp = Count::ONE,
            _ => counts.mixers[0] = Count::ONE,
        }
        let mut entries = vec![Entry::NONE; Inventory::CAPACITY];
        accounting::list(&mut Sink::new(&mut entries), self, &self.sizes(), counts);
        entries.retain(|entry| entry.lifetime == Lifetime::MicroBatch && !entry.name.is_empty());
        if matches!(block, Block::Mtp | Block::MtpHead) {
            // A module's entrance and its exit are listed together; the exit saves what the head does.
            let exit = self.saved(Block::Head).entries;
            let is_exit = |entry: &Entry| exit.iter().any(|other| other.name == entry.name);
            entries.retain(|entry| is_exit(entry) == (block == Block::MtpHead));
        }
        Saved { block, entries }
    }
}

/// Takes from lines what is away.
pub(crate) fn take_away(lines: &mut [Line], away: &[Entry]) {
    for entry in away {
        let is_it = |line: &&mut Line| line.entry.lifetime == Lifetime::MicroBatch && is_same(&line.entry, entry);
        if let Some(line) = lines.iter_mut().find(is_it) {
            line.bytes = Bytes::new(line.bytes.bytes().saturating_sub(entry.bytes().bytes()));
        }
    }
}

fn is_same(one: &Entry, other: &Entry) -> bool {
    (one.name, one.part, one.module) == (other.name, other.part, other.module)
}
