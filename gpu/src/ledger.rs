//! The ledger: what a running step may allocate, and what it has. Every allocation names its entry of the inventory; what the
//! budget does not have, or not then, or not so large, is an error that says so.

use core::cell::RefCell;
use core::fmt;
use moe_model_core::inventory::{Block, Entry, Lifetime, Module};
use moe_model_core::{Bytes, Inventory, Phase, Plan};
use std::collections::HashMap;
use std::rc::Rc;

/// Which way a block runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// Forward.
    Forward,
    /// Backward.
    Backward,
}

/// Why an allocation is refused, or a phase does not end as the budget has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LedgerError {
    /// The inventory has no tensor of that name.
    Unknown {
        /// The name.
        name: &'static str,
        /// The phase.
        phase: Phase,
    },
    /// It has one, and not now.
    WrongPhase {
        /// The name.
        name: &'static str,
        /// When it lives.
        lives: &'static str,
        /// The phase, and the block that runs.
        phase: Phase,
        /// The block that runs, if one does.
        block: Option<Block>,
    },
    /// It is of another size.
    WrongSize {
        /// The name.
        name: &'static str,
        /// Bytes that the inventory says.
        expected: Bytes,
        /// Bytes asked for.
        actual: Bytes,
        /// The phase.
        phase: Phase,
    },
    /// It holds more rows of routed tokens than the budget makes room for.
    OverBudget {
        /// The name.
        name: &'static str,
        /// Bytes that the budget has for it.
        budget: Bytes,
        /// Bytes asked for.
        actual: Bytes,
        /// The phase.
        phase: Phase,
    },
    /// As many as the budget counts are there already.
    TooMany {
        /// The name.
        name: &'static str,
        /// How many the budget counts at once.
        budget: u64,
        /// The phase.
        phase: Phase,
    },
    /// It is still there at the end of its life.
    Leak {
        /// The name.
        name: &'static str,
        /// How many are left.
        left: u64,
        /// Bytes of all of them.
        bytes: Bytes,
        /// The phase.
        phase: Phase,
    },
    /// The peak of a phase is not the budget's.
    Peak {
        /// The phase.
        phase: Phase,
        /// What the budget says.
        expected: Bytes,
        /// What was held.
        actual: Bytes,
    },
    /// What is held when a step is over is not the budget's.
    Live {
        /// The phase.
        phase: Phase,
        /// What the budget says.
        expected: Bytes,
        /// What is held.
        actual: Bytes,
    },
}

/// `1.50 GiB (1610612736 B)`: amounts that differ by little look alike when rounded.
struct Exact(Bytes);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} B)", self.0, self.0.bytes())
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, phase } => write!(f, "`{name}`, allocated in {phase}, is not in the inventory"),
            Self::WrongPhase { name, lives, phase, block } => {
                write!(f, "`{name}`, which lives {lives}, is allocated in {phase}")?;
                match block {
                    Some(block) => write!(f, " of {block:?}"),
                    None => Ok(()),
                }
            }
            Self::WrongSize { name, expected, actual, phase } => {
                write!(f, "`{name}` takes {} in {phase}, not {}", Exact(*expected), Exact(*actual))
            }
            Self::OverBudget { name, budget, actual, phase } => {
                let more = Bytes::new(actual.bytes().saturating_sub(budget.bytes()));
                write!(f, "`{name}` takes {} in {phase}, {} more than ", Exact(*actual), Exact(more))?;
                write!(
                    f,
                    "the {} that the budget has for it: its experts get more tokens than declared",
                    Exact(*budget)
                )
            }
            Self::TooMany { name, budget, phase } => {
                write!(f, "one more `{name}` is allocated in {phase}, of which the budget counts {budget} at once")
            }
            Self::Leak { name, left, bytes, phase } => {
                write!(f, "{left} of `{name}`, {}, are still held when their time in {phase} is over", Exact(*bytes))
            }
            Self::Peak { phase, expected, actual } => {
                write!(f, "{phase} held {} at most; the budget says {}", Exact(*actual), Exact(*expected))
            }
            Self::Live { phase, expected, actual } => {
                write!(f, "{} are held in {phase}; the budget says {}", Exact(*actual), Exact(*expected))
            }
        }
    }
}

impl core::error::Error for LedgerError {}

/// When an entry may be allocated: its lifetime, as a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Life {
    Always,
    MicroBatch,
    Block(u8, Direction),
    Other,
}

impl Life {
    fn of(lifetime: Lifetime) -> Self {
        match lifetime {
            Lifetime::Always => Self::Always,
            Lifetime::MicroBatch => Self::MicroBatch,
            Lifetime::InForward(block) => Self::Block(block as u8, Direction::Forward),
            Lifetime::InBackward(block) => Self::Block(block as u8, Direction::Backward),
            _ => Self::Other,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Always => "from loading to the end",
            Self::MicroBatch => "from forward to backward",
            Self::Block(_, Direction::Forward) => "while its block runs forward",
            Self::Block(_, Direction::Backward) => "while its block runs backward",
            Self::Other => "at another time",
        }
    }
}

/// One kind of tensor: what the budget has, and what is there.
#[derive(Clone, Debug)]
struct Line {
    name: &'static str,
    life: Life,
    /// Bytes of one.
    each: u64,
    /// How many may be there at once.
    most: u64,
    /// Whether routing decides how large it is.
    is_routed: bool,
    /// The blocks whose forward makes it, if it is kept to backward: a bit for each.
    makers: u16,
    /// How many are there.
    there: u64,
    /// Bytes of them.
    bytes: u64,
}

/// An allocation, from when until when: of the export of a ledger that records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// Its entry.
    pub name: &'static str,
    /// Its bytes.
    pub bytes: Bytes,
    /// The phase it is allocated in.
    pub phase: Phase,
    /// Its place in the order of all allocations and frees.
    pub from: u64,
    /// The place of its end; none while it is there.
    pub until: Option<u64>,
}

#[derive(Debug)]
struct Inner {
    lines: Vec<Line>,
    index: HashMap<(&'static str, Life), usize>,
    phase: Phase,
    block: Option<(Block, Direction)>,
    /// Whether it keeps what backward reads, where others of its kind are computed again.
    keeps: bool,
    /// Bytes held, and what the budget counts for them: less is held where fewer tokens are routed here than declared.
    live: u64,
    charged: u64,
    peaks: [Peaks; Phase::ALL.len()],
    allocations: u64,
    clock: u64,
    record: Option<Vec<Allocation>>,
    watch: Option<Watch>,
}

/// What is told of phases.
struct Watch(Box<dyn FnMut(Phase, Phase)>);

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

#[derive(Clone, Copy, Default, Debug)]
struct Peaks {
    live: u64,
    charged: u64,
}

/// What one rank may allocate, and what it has. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger(Rc<RefCell<Inner>>);

/// The right to hold an allocation; dropped, it is given back.
#[derive(Debug)]
pub struct Ticket {
    ledger: Ledger,
    line: usize,
    bytes: u64,
    /// What the budget counts for it.
    charge: u64,
    /// Its place in the record, if there is one.
    place: usize,
}

impl Ledger {
    /// Of a rank of a stage of a plan.
    #[must_use]
    pub fn of(plan: &Plan, stage: u64) -> Self {
        let mut inner = Inner {
            lines: Vec::new(),
            index: HashMap::new(),
            phase: Phase::BetweenSteps,
            block: None,
            keeps: true,
            live: 0,
            charged: 0,
            peaks: [Peaks::default(); Phase::ALL.len()],
            allocations: 0,
            clock: 0,
            record: None,
            watch: None,
        };
        for entry in &plan.inventory(stage) {
            inner.add(entry);
        }
        if plan.chunks() > 1 {
            inner.follow_chunks(plan, stage);
        }
        Self(Rc::new(RefCell::new(inner)))
    }

    /// Keeps every allocation from now on, with when it begins and ends.
    pub fn record(&self) {
        self.0.borrow_mut().record = Some(Vec::new());
    }

    /// The allocations that were recorded.
    #[must_use]
    pub fn recorded(&self) -> Vec<Allocation> {
        self.0.borrow().record.clone().unwrap_or_default()
    }

    /// Allocations asserted so far.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.0.borrow().allocations
    }

    /// Bytes held.
    #[must_use]
    pub fn live(&self) -> Bytes {
        Bytes::new(self.0.borrow().live)
    }

    /// A step begins, whatever became of the one before it: no block runs, and what is held at most is counted anew in each
    /// phase.
    pub(crate) fn start(&self) {
        let mut inner = self.0.borrow_mut();
        inner.block = None;
        for phase in Phase::TRAINING {
            inner.peaks[*phase as usize] = Peaks::default();
        }
    }

    /// The most that was held in a phase of the last step.
    #[must_use]
    pub fn peak(&self, phase: Phase) -> Bytes {
        Bytes::new(self.0.borrow().peaks[phase as usize].live)
    }

    /// The phase that runs.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.0.borrow().phase
    }

    /// Tells of each phase that ends and of the one that begins: for what a device itself counts meanwhile.
    pub fn watch(&self, watch: impl FnMut(Phase, Phase) + 'static) {
        self.0.borrow_mut().watch = Some(Watch(Box::new(watch)));
    }

    /// Another phase begins.
    pub fn enter(&self, phase: Phase) {
        let mut inner = self.0.borrow_mut();
        let before = core::mem::replace(&mut inner.phase, phase);
        inner.note_peak();
        // It may ask the ledger.
        let watch = inner.watch.take();
        drop(inner);
        if let Some(mut watch) = watch {
            (watch.0)(before, phase);
            self.0.borrow_mut().watch.get_or_insert(watch);
        }
    }

    /// A block begins to run.
    pub fn begin(&self, block: Block, direction: Direction) {
        let mut inner = self.0.borrow_mut();
        (inner.block, inner.keeps) = (Some((block, direction)), true);
    }

    /// A block begins to run forward of which its input alone is kept: backward computes it again.
    pub fn begin_again(&self, block: Block) {
        let mut inner = self.0.borrow_mut();
        (inner.block, inner.keeps) = (Some((block, Direction::Forward)), false);
    }

    /// It has run; something may be carried on to the next one.
    ///
    /// # Errors
    /// If something else is still held that lives only while it runs.
    pub fn end(&self, carried: Option<&Ticket>) -> Result<(), LedgerError> {
        let mut inner = self.0.borrow_mut();
        let Some((block, direction)) = inner.block.take() else { return Ok(()) };
        let life = Life::Block(block as u8, direction);
        let carried = carried.map(|ticket| ticket.line);
        for (index, line) in inner.lines.iter().enumerate().filter(|(_, line)| line.life == life) {
            let may = u64::from(carried == Some(index));
            if line.there > may {
                return Err(inner.leak(line));
            }
        }
        Ok(())
    }

    /// A step is over: nothing of a micro-batch is held, and the peak of each of its phases is the budget's.
    ///
    /// # Errors
    /// The first that is not so.
    pub fn settle(&self, plan: &Plan, stage: u64) -> Result<(), LedgerError> {
        let inner = self.0.borrow();
        inner.none_left(|line| line.life != Life::Always)?;
        let budget = plan.budget(stage);
        let standing = budget.phase(Phase::BetweenSteps);
        if inner.live != standing.bytes() {
            return Err(LedgerError::Live { phase: inner.phase, expected: standing, actual: Bytes::new(inner.live) });
        }
        for phase in Phase::TRAINING {
            let (expected, peaks) = (budget.phase(*phase), inner.peaks[*phase as usize]);
            // Where fewer tokens came than declared less is held, and as much is counted.
            if peaks.charged != expected.bytes() {
                return Err(LedgerError::Peak { phase: *phase, expected, actual: Bytes::new(peaks.charged) });
            }
        }
        Ok(())
    }

    /// Asks for one tensor of an entry, of so many bytes.
    ///
    /// # Errors
    /// If the budget does not have it, now, or so large.
    pub fn take(&self, name: &'static str, bytes: u64) -> Result<Ticket, LedgerError> {
        let (line, charge, place) = self.0.borrow_mut().take(name, bytes)?;
        Ok(Ticket { ledger: self.clone(), line, bytes, charge, place })
    }
}

impl Inner {
    /// Parts of one tensor that the layout treats apart are one line, and so are tensors of one name and life.
    fn add(&mut self, entry: &Entry) {
        if entry.count == 0 {
            return;
        }
        let life = Life::of(entry.lifetime);
        let each = entry.bytes().bytes() / entry.count;
        // Flat buffers of the two groups are told apart by their part.
        let name = if life == Life::Always && entry.part.ends_with("group") { flat_name(entry) } else { entry.name };
        let is_routed = entry.shape.iter().any(|dim| dim.symbol == moe_model_core::sizes::Symbol::Rows);
        let most = if life == Life::MicroBatch { entry.held } else { entry.count };
        let makers = makers(entry.module);
        if let Some(line) = self.index.get(&(name, life)) {
            let line = &mut self.lines[*line];
            line.makers |= makers;
            if entry.part.is_empty() {
                // Of another part of the model, as of a module for multi-token prediction.
                line.most += most;
            } else {
                line.each += each;
            }
            return;
        }
        self.index.insert((name, life), self.lines.len());
        self.lines.push(Line { name, life, each, most, is_routed, makers, there: 0, bytes: 0 });
    }

    /// Of what chunks save, as many are there at once as their events say: not of each kind in the same moment.
    fn follow_chunks(&mut self, plan: &Plan, stage: u64) {
        let chunks: Vec<Inventory> = (0..plan.chunks()).map(|chunk| Inventory::of_chunk(plan, stage, chunk)).collect();
        for line in self.lines.iter_mut().filter(|line| line.life == Life::MicroBatch) {
            let is_it = |entry: &&Entry| entry.name == line.name && entry.lifetime == Lifetime::MicroBatch;
            let of_chunk = chunks.iter().map(|chunk| chunk.iter().filter(is_it).map(|entry| entry.count).sum());
            line.most = plan.most_at_once(stage, &of_chunk.collect::<Vec<u64>>());
        }
    }

    fn take(&mut self, name: &'static str, bytes: u64) -> Result<(usize, u64, usize), LedgerError> {
        let index = self.find(name)?;
        let line = &self.lines[index];
        if let (Life::MicroBatch, Some((block, _))) = (line.life, self.block)
            && line.makers & bit(block) == 0
        {
            return Err(self.not_now(line));
        }
        self.charge(index, name, bytes)
    }

    /// Counts a tensor of a line.
    fn charge(&mut self, index: usize, name: &'static str, bytes: u64) -> Result<(usize, u64, usize), LedgerError> {
        let (phase, line) = (self.phase, &mut self.lines[index]);
        if bytes != line.each && !(line.is_routed && bytes < line.each) {
            let (expected, actual) = (Bytes::new(line.each), Bytes::new(bytes));
            return Err(if line.is_routed {
                LedgerError::OverBudget { name, budget: expected, actual, phase }
            } else {
                LedgerError::WrongSize { name, expected, actual, phase }
            });
        }
        if line.there == line.most {
            return Err(LedgerError::TooMany { name, budget: line.most, phase });
        }
        let charge = line.each;
        self.hold(index, bytes, charge);
        self.allocations += 1;
        self.note_peak();
        Ok((index, charge, self.begin(name, bytes)))
    }

    fn begin(&mut self, name: &'static str, bytes: u64) -> usize {
        self.clock += 1;
        let Some(record) = &mut self.record else { return usize::MAX };
        let bytes = Bytes::new(bytes);
        record.push(Allocation { name, bytes, phase: self.phase, from: self.clock, until: None });
        record.len() - 1
    }

    fn hold(&mut self, line: usize, bytes: u64, charge: u64) {
        let line = &mut self.lines[line];
        line.there += 1;
        line.bytes += bytes;
        self.live += bytes;
        self.charged += charge;
    }

    fn give_back(&mut self, line: usize, bytes: u64, charge: u64, place: usize) {
        let line = &mut self.lines[line];
        line.there -= 1;
        line.bytes -= bytes;
        self.live -= bytes;
        self.charged -= charge;
        self.clock += 1;
        if let Some(allocation) = self.record.as_mut().and_then(|record| record.get_mut(place)) {
            allocation.until = Some(self.clock);
        }
    }

    /// The line of an entry as it lives now.
    fn find(&self, name: &'static str) -> Result<usize, LedgerError> {
        let now = self.block.map(|(block, direction)| Life::Block(block as u8, direction));
        // What backward reads, forward has kept.
        let kept = (self.phase == Phase::Forward).then_some(Life::MicroBatch);
        let [first, second] = if self.keeps { [kept, now] } else { [now, kept] };
        for life in first.into_iter().chain(second).chain([Life::Always]) {
            if let Some(index) = self.index.get(&(name, life)) {
                return Ok(*index);
            }
        }
        Err(match self.lines.iter().find(|line| line.name == name) {
            Some(line) => self.not_now(line),
            None => LedgerError::Unknown { name, phase: self.phase },
        })
    }

    fn not_now(&self, line: &Line) -> LedgerError {
        let block = self.block.map(|(block, _)| block);
        let lives = match (line.life, block) {
            (Life::MicroBatch, Some(_)) if self.phase == Phase::Forward => {
                "from the forward of its own block to backward"
            }
            (life, _) => life.words(),
        };
        LedgerError::WrongPhase { name: line.name, lives, phase: self.phase, block }
    }

    fn none_left(&self, is_meant: impl Fn(&Line) -> bool) -> Result<(), LedgerError> {
        match self.lines.iter().find(|line| line.there > 0 && is_meant(line)) {
            Some(line) => Err(self.leak(line)),
            None => Ok(()),
        }
    }

    fn leak(&self, line: &Line) -> LedgerError {
        LedgerError::Leak { name: line.name, left: line.there, bytes: Bytes::new(line.bytes), phase: self.phase }
    }

    fn note_peak(&mut self) {
        let peak = &mut self.peaks[self.phase as usize];
        peak.live = peak.live.max(self.live);
        peak.charged = peak.charged.max(self.charged);
    }
}

/// The blocks that keep what is of a module.
const fn makers(module: Module) -> u16 {
    match module {
        Module::Embedding => bit(Block::Embedding),
        Module::Attention => bit(Block::Attention),
        Module::DenseFfn => bit(Block::Dense),
        Module::Router | Module::RoutedExperts | Module::SharedExperts => bit(Block::Moe),
        Module::Head => bit(Block::Head),
        Module::Mtp => bit(Block::Mtp) | bit(Block::MtpHead),
        _ => 0,
    }
}

const fn bit(block: Block) -> u16 {
    1 << block as u16
}

/// The name of a flat buffer of a group.
fn flat_name(entry: &Entry) -> &'static str {
    match (entry.name, entry.expert_group) {
        ("gradient", false) => "dense gradient",
        ("gradient", true) => "expert gradient",
        ("master_weight", false) => "dense master_weight",
        ("master_weight", true) => "expert master_weight",
        ("first_moment", false) => "dense first_moment",
        ("first_moment", true) => "expert first_moment",
        ("second_moment", false) => "dense second_moment",
        ("second_moment", true) => "expert second_moment",
        (name, _) => name,
    }
}

impl Ticket {
    /// The allocation becomes one of another entry, as a block's output becomes the next one's input.
    ///
    /// # Errors
    /// If the budget does not have it, now, or so large.
    pub fn becomes(&mut self, name: &'static str) -> Result<(), LedgerError> {
        let mut inner = self.ledger.0.borrow_mut();
        inner.give_back(self.line, self.bytes, self.charge, self.place);
        // For a moment nothing is held of it, so that its turn to be another's is no peak.
        // What the next block keeps is made in this one, so that its maker is not asked for.
        match inner.find(name).and_then(|line| inner.charge(line, name, self.bytes)) {
            Ok((line, charge, place)) => {
                (self.line, self.charge, self.place) = (line, charge, place);
                inner.allocations -= 1;
                Ok(())
            }
            Err(error) => {
                // What stays as it was is given back when it is dropped.
                inner.hold(self.line, self.bytes, self.charge);
                Err(error)
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.ledger.0.borrow_mut().give_back(self.line, self.bytes, self.charge, self.place);
    }
}
