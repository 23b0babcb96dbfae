//! Kernels run here: blocks one after another, their warps in turn between barriers, lanes in lockstep where they agree.

pub mod alu;
pub mod blocks;
pub mod shared;
pub mod warp;

use crate::memory::Memory;
use crate::ptx::instruction::{Entry, Op, Preset, Special};
use crate::report::{Code, Fault};
use blocks::Blocks;
use shared::{Shared, Touch};
use std::collections::HashMap;
use warp::{Pause, Warp};

/// Lanes of a warp.
pub const LANES: usize = 32;
/// Generic addresses of shared memory begin here.
pub const SHARED_BASE: u64 = 0x10_0000_0000;
/// Generic addresses of a thread's own memory begin here.
pub const LOCAL_BASE: u64 = 0x20_0000_0000;
/// Addresses of constants begin here.
pub const CONSTANT_BASE: u64 = 0x30_0000_0000;
/// Bytes that each of these may have.
pub const WINDOW: u64 = 1 << 28;

/// Extents in x, y and z.
pub type Extent = [u32; 3];

/// A kernel's launch.
#[derive(Debug)]
pub struct Launch<'a> {
    /// What runs.
    pub entry: &'a Entry,
    /// The module's text, for messages.
    pub lines: &'a [String],
    /// The module's constants.
    pub constants: &'a [u8],
    /// Where the module's variables are.
    pub symbols: &'a HashMap<String, u64>,
    /// Blocks.
    pub grid: Extent,
    /// Threads of a block.
    pub block: Extent,
    /// Bytes of shared memory beyond what the kernel declares.
    pub dynamic_shared: u32,
    /// The parameter block.
    pub parameters: &'a [u8],
    /// Whether races between blocks in global memory are looked for.
    pub checks_blocks: bool,
    /// Stops after so many instructions of warps; 0 is never.
    pub most_instructions: u64,
}

/// What a launch did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Instructions times lanes.
    pub lane_instructions: u64,
    /// Instructions of warps.
    pub warp_instructions: u64,
    /// Bytes that lanes read from global memory.
    pub read: u64,
    /// Bytes that lanes wrote there.
    pub written: u64,
    /// Bytes that atomics changed there.
    pub atomic: u64,
}

/// What all warps of a block share.
pub(crate) struct Surroundings<'a> {
    pub(crate) launch: &'a Launch<'a>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) shared: Shared,
    /// Who touched global memory, if it is asked for.
    pub(crate) blocks: Option<Blocks>,
    pub(crate) local: Vec<u8>,
    pub(crate) traffic: Traffic,
    pub(crate) block: Extent,
    /// The allocation that was last found.
    pub(crate) hint: usize,
}

impl Surroundings<'_> {
    /// Notes an access to global memory.
    #[inline]
    pub(crate) fn touch(&mut self, address: u64, bytes: u32, touch: Touch) -> Result<(), Fault> {
        match &mut self.blocks {
            None => Ok(()),
            Some(blocks) => blocks.touch(address, bytes, touch).map_err(|text| Fault::new(Code::LaunchFailed, text)),
        }
    }

    /// A fault of a thread at an instruction.
    #[cold]
    pub(crate) fn fault(&self, code: Code, at: u32, thread: usize, text: &str) -> Fault {
        let launch = self.launch;
        let line = launch.entry.code.get(at as usize).map_or(0, |i| i.line);
        let source = launch.lines.get((line as usize).saturating_sub(1)).map_or("", String::as_str);
        let [x, y, z] = self.block;
        let thread = u32::try_from(thread).unwrap_or(u32::MAX);
        let [w, h, _] = launch.block;
        let (tx, ty, tz) = (thread % w, thread / w % h, thread / w / h);
        let name = &launch.entry.name;
        let text =
            format!("{name}, block ({x}, {y}, {z}), thread ({tx}, {ty}, {tz}), PTX line {line} `{source}`: {text}");
        Fault::new(code, text)
    }
}

/// Runs a kernel to its end.
///
/// # Errors
/// The first thing that it does wrong.
pub fn run(launch: &Launch<'_>, memory: &mut Memory) -> Result<Traffic, Fault> {
    check(launch)?;
    let entry = launch.entry;
    let threads = launch.block.iter().product::<u32>() as usize;
    let shared = Shared::new((entry.shared_bytes + launch.dynamic_shared) as usize);
    let mut around = Surroundings {
        launch,
        memory,
        shared,
        blocks: launch.checks_blocks.then(Blocks::default),
        local: vec![0; threads * entry.local_bytes as usize],
        traffic: Traffic::default(),
        block: [0; 3],
        hint: 0,
    };
    let mut warps: Vec<Warp> = (0..threads.div_ceil(LANES)).map(|index| Warp::new(index, threads, entry)).collect();
    for warp in &mut warps {
        preset(warp, launch)?;
    }
    for z in 0..launch.grid[2] {
        for y in 0..launch.grid[1] {
            for x in 0..launch.grid[0] {
                around.block = [x, y, z];
                block(&mut warps, &mut around)?;
            }
        }
    }
    Ok(around.traffic)
}

fn check(launch: &Launch<'_>) -> Result<(), Fault> {
    let name = &launch.entry.name;
    let threads = launch.block.iter().map(|e| u64::from(*e)).product::<u64>();
    let bad = |text: String| Err(Fault::new(Code::InvalidValue, format!("{name}: {text}")));
    if threads == 0 || threads > 1024 || launch.block[2] > 64 {
        return bad(format!("a block of {:?} threads", launch.block));
    }
    let [x, y, z] = launch.grid;
    if x == 0 || y == 0 || z == 0 || x > 0x7fff_ffff || y > 65535 || z > 65535 {
        return bad(format!("a grid of {:?} blocks", launch.grid));
    }
    if let Some(most) = launch.entry.max_threads
        && threads > most.into()
    {
        return bad(format!("{threads} threads a block, it declares at most {most}"));
    }
    let shared = u64::from(launch.entry.shared_bytes) + u64::from(launch.dynamic_shared);
    if shared > 227 << 10 {
        return bad(format!("{shared} bytes of shared memory a block"));
    }
    Ok(())
}

/// Sets the registers that hold numbers of the text, addresses of variables and what is the same in every block.
fn preset(warp: &mut Warp, launch: &Launch<'_>) -> Result<(), Fault> {
    for (register, preset) in &launch.entry.presets {
        let values = match preset {
            Preset::Number(n) => [*n; LANES],
            Preset::Symbol(name) => match launch.symbols.get(name) {
                Some(address) => [*address; LANES],
                None => return Err(Fault::new(Code::NotFound, format!("no variable {name}"))),
            },
            Preset::Special(special) => core::array::from_fn(|lane| {
                let thread = warp.index * LANES + lane;
                special_value(*special, launch, u32::try_from(thread).unwrap_or(0), [0; 3])
            }),
        };
        warp.registers[*register as usize] = values;
    }
    Ok(())
}

fn special_value(special: Special, launch: &Launch<'_>, thread: u32, block: Extent) -> u64 {
    let [w, h, d] = launch.block;
    let lane = thread % 32;
    u64::from(match special {
        Special::ThreadX => thread % w,
        Special::ThreadY => thread / w % h,
        Special::ThreadZ => thread / w / h,
        Special::ThreadsX => w,
        Special::ThreadsY => h,
        Special::ThreadsZ => d,
        Special::BlockX => block[0],
        Special::BlockY => block[1],
        Special::BlockZ => block[2],
        Special::BlocksX => launch.grid[0],
        Special::BlocksY => launch.grid[1],
        Special::BlocksZ => launch.grid[2],
        Special::Lane => lane,
        Special::Warp => thread / 32,
        Special::WarpSize => 32,
        Special::LaneMaskEq => 1 << lane,
        Special::LaneMaskLt => (1 << lane) - 1,
        Special::LaneMaskLe => (1 << lane) | ((1 << lane) - 1),
        Special::LaneMaskGt => !((1 << lane) | ((1 << lane) - 1)),
        Special::LaneMaskGe => !((1 << lane) - 1),
        Special::Zero => 0,
        Special::DynamicShared => launch.dynamic_shared,
    })
}

/// Runs a block to its end.
fn block(warps: &mut [Warp], around: &mut Surroundings<'_>) -> Result<(), Fault> {
    around.shared.begin_block();
    if let Some(blocks) = &mut around.blocks {
        blocks.begin_block();
    }
    around.local.fill(0xff);
    for warp in warps.iter_mut() {
        warp.restart();
        for (register, preset) in &around.launch.entry.presets {
            if let Preset::Special(special @ (Special::BlockX | Special::BlockY | Special::BlockZ)) = preset {
                let value = special_value(*special, around.launch, 0, around.block);
                warp.registers[*register as usize] = [value; LANES];
            }
        }
    }
    loop {
        let mut waits: Option<(usize, u32)> = None;
        for (index, warp) in warps.iter_mut().enumerate() {
            if warp.is_done() {
                continue;
            }
            if let Pause::Barrier(at) = warp.run(around)? {
                match waits {
                    Some((first, other)) if other != at => {
                        let other = around.launch.entry.code[other as usize].line;
                        let text = format!("barrier divergence: warp {first} waits at the barrier of line {other}");
                        return Err(around.fault(Code::LaunchFailed, at, index * LANES, &text));
                    }
                    Some(_) => {}
                    None => waits = Some((index, at)),
                }
            }
        }
        let Some((_, at)) = waits else { return Ok(()) };
        gather(warps, around, at);
        around.shared.barrier();
        for warp in warps.iter_mut() {
            warp.release();
        }
    }
}

/// What `bar.red` gives to every thread.
fn gather(warps: &mut [Warp], around: &Surroundings<'_>, at: u32) {
    use crate::ptx::instruction::Gather;
    let Op::Barrier { gather: Some((gather, d, p, a, negate)), .. } = around.launch.entry.code[at as usize].op else {
        return;
    };
    let (mut yes, mut all) = (0_u32, 0_u32);
    for warp in warps.iter() {
        let lanes = warp.waiting();
        let holds = if negate { !warp.predicates[a as usize] } else { warp.predicates[a as usize] };
        yes += (lanes & holds).count_ones();
        all += lanes.count_ones();
    }
    for warp in warps.iter_mut() {
        let lanes = warp.waiting();
        let holds = match gather {
            Gather::Count => {
                for lane in (0..LANES).filter(|l| lanes >> l & 1 == 1) {
                    warp.registers[d as usize][lane] = yes.into();
                }
                continue;
            }
            Gather::All => yes == all,
            Gather::Any => yes > 0,
        };
        let old = warp.predicates[p as usize];
        warp.predicates[p as usize] = if holds { old | lanes } else { old & !lanes };
    }
}
