//! The driver: devices, modules, streams, events and pools behind handles.

pub mod border;
mod calls;

use crate::config::Config;
use crate::exec::{self, CONSTANT_BASE, Extent, Launch, Traffic};
use crate::memory::Memory;
use crate::ptx::instruction::{Entry, Module};
use crate::ptx::parser;
use crate::report::{self, Code, Fault};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Addresses of device `d` begin at `(d + 1) << SHIFT`.
const SHIFT: u32 = 44;
/// Shared memory of a block, unless the function was told that it may have more.
const SHARED_BY_DEFAULT: u32 = 48 << 10;

/// A device.
#[derive(Debug)]
pub struct Device {
    /// Its memory.
    pub memory: Memory,
    /// What a kernel did wrong; every later call answers it.
    pub sticky: Option<Code>,
    /// How often its primary context is held.
    pub retained: u32,
    /// What launches moved, since it was last asked.
    pub traffic: Traffic,
}

/// A module that was loaded.
#[derive(Debug)]
pub struct Loaded {
    device: usize,
    module: Module,
    constants: Vec<u8>,
    symbols: HashMap<String, u64>,
    sizes: HashMap<String, u64>,
}

/// A kernel of a loaded module.
#[derive(Debug)]
pub struct Function {
    /// Its module.
    pub loaded: Arc<Loaded>,
    /// What it is.
    pub entry: Arc<Entry>,
    /// Bytes of shared memory sized at launch that it may have.
    pub dynamic_shared: AtomicU32,
}

/// What a launch asks for.
#[derive(Debug)]
pub struct Order<'a> {
    /// Blocks.
    pub grid: Extent,
    /// Threads of a block.
    pub block: Extent,
    /// Bytes of shared memory beyond what the kernel declares.
    pub dynamic_shared: u32,
    /// The parameter block.
    pub parameters: &'a [u8],
}

#[derive(Debug, Default)]
struct Handles {
    next: usize,
    modules: HashMap<usize, Arc<Loaded>>,
    functions: HashMap<usize, Arc<Function>>,
    streams: HashMap<usize, usize>,
    events: HashMap<usize, Option<Instant>>,
    pools: HashMap<usize, (usize, usize)>,
    host: HashMap<usize, Vec<u128>>,
}

impl Handles {
    fn fresh(&mut self) -> usize {
        // Aligned as pointers are, and nothing that a pointer is.
        self.next += 16;
        self.next
    }
}

/// Counts calls of a sort, one of which is to fail.
#[derive(Debug, Default)]
pub struct Planned {
    count: AtomicU64,
    fails: AtomicU64,
}

impl Planned {
    fn new(fails: u64) -> Self {
        Self { count: AtomicU64::new(0), fails: AtomicU64::new(fails) }
    }

    /// Counts one; gives its number if it is the one that is to fail.
    fn next(&self) -> Option<u64> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        (number == self.fails.load(Ordering::Relaxed)).then_some(number)
    }

    /// The `n`-th from now on fails; 0 for none.
    pub fn fail(&self, n: u64) {
        let at = if n == 0 { 0 } else { self.count.load(Ordering::Relaxed) + n };
        self.fails.store(at, Ordering::Relaxed);
    }
}

/// The driver of a process.
#[derive(Debug)]
pub struct Driver {
    /// Its settings.
    pub config: Config,
    devices: Vec<Mutex<Device>>,
    handles: Mutex<Handles>,
    /// Allocations.
    pub allocations: Planned,
    /// Copies, fills, launches, products.
    pub work: Planned,
}

thread_local! {
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The one of this process.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(|| Driver::new(Config::read(|name| std::env::var(name).ok())))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bad(text: impl Into<String>) -> Fault {
    Fault::new(Code::InvalidValue, text)
}

impl Driver {
    /// A driver with settings.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let device = |d: usize| {
            let memory = Memory::new((d as u64 + 1) << SHIFT, config.rules);
            Mutex::new(Device { memory, sticky: None, retained: 0, traffic: Traffic::default() })
        };
        Self {
            config,
            devices: (0..config.devices).map(device).collect(),
            handles: Mutex::new(Handles { next: 1 << 12, ..Handles::default() }),
            allocations: Planned::new(config.fail_allocation),
            work: Planned::new(config.fail_work),
        }
    }

    /// A device by its number, whatever happened on it.
    ///
    /// # Errors
    /// If there is none.
    pub fn device(&self, ordinal: usize) -> Result<MutexGuard<'_, Device>, Fault> {
        let device = self.devices.get(ordinal).ok_or_else(|| {
            Fault::new(Code::InvalidDevice, format!("no device {ordinal}, there are {}", self.devices.len()))
        })?;
        Ok(lock(device))
    }

    /// A device that works.
    ///
    /// # Errors
    /// What a kernel did wrong on it before.
    pub fn working(&self, ordinal: usize) -> Result<MutexGuard<'_, Device>, Fault> {
        let device = self.device(ordinal)?;
        match device.sticky {
            // It was printed when it happened.
            Some(code) => Err(Fault::new(code, "")),
            None => Ok(device),
        }
    }

    /// The device of this thread's context.
    ///
    /// # Errors
    /// If there is none.
    #[allow(clippy::unused_self)] // the thread's context is one of this driver
    pub fn current(&self) -> Result<usize, Fault> {
        CURRENT.get().ok_or_else(|| Fault::new(Code::InvalidContext, "no context is current in this thread"))
    }

    /// The device of an address.
    ///
    /// # Errors
    /// If there is none.
    pub fn owner(&self, address: u64) -> Result<usize, Fault> {
        let device = usize::try_from(address >> SHIFT).unwrap_or(usize::MAX);
        if device == 0 || device > self.devices.len() {
            return Err(bad(format!("{address:#x} is no address of a device")));
        }
        Ok(device - 1)
    }

    /// Allocates on the current device, from a pool or not; `None` of a pool is the current one.
    ///
    /// # Errors
    /// Limits, and the allocation that is to fail.
    pub fn allocate(&self, bytes: u64, from: Source) -> Result<u64, Fault> {
        let ordinal = match from {
            Source::Pool(device, _) => device,
            _ => self.current()?,
        };
        let mut device = self.working(ordinal)?;
        if let Some(number) = self.allocations.next() {
            let text = format!("allocation {number}, of {bytes} bytes, is the one that is to fail");
            return Err(Fault::new(Code::OutOfMemory, text));
        }
        let pool = match from {
            Source::Plain => None,
            Source::CurrentPool => Some(device.memory.current_pool),
            Source::Pool(_, pool) => Some(pool),
        };
        device.memory.allocate(bytes, pool)
    }

    /// Whether a copy, fill, launch or product is not the one that is to fail.
    ///
    /// # Errors
    /// If it is. Nothing was done then, and the device goes on.
    pub fn may_work(&self, what: &str) -> Result<(), Fault> {
        self.work.next().map_or(Ok(()), |number| {
            let text = format!("{what}, number {number} of what is asked for, is the one that is to fail");
            Err(Fault::new(Code::LaunchOutOfResources, text))
        })
    }

    /// Copies between devices or within one.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        self.may_work("a copy")?;
        let taken = self.working(self.owner(from)?)?.memory.extract(from, bytes).map_err(|f| as_argument(&f))?;
        self.working(self.owner(to)?)?.memory.insert(to, &taken).map_err(|f| as_argument(&f))
    }

    /// Loads a module on the current device.
    ///
    /// # Errors
    /// What is not understood, with its line.
    pub fn load(&self, text: &str) -> Result<usize, Fault> {
        let ordinal = self.current()?;
        let module = parser::parse(text).map_err(|e| Fault::new(Code::InvalidPtx, e.to_string()))?;
        let mut device = self.working(ordinal)?;
        let (mut constants, mut symbols, mut sizes) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut names: Vec<_> = module.variables.keys().collect();
        names.sort();
        for name in names {
            let variable = &module.variables[name];
            let address = if variable.is_constant {
                constants.resize(constants.len().next_multiple_of(16), 0);
                let address = CONSTANT_BASE + constants.len() as u64;
                constants.extend_from_slice(&variable.content);
                address
            } else {
                device.memory.allocate_hidden(&variable.content)
            };
            symbols.insert(name.clone(), address);
            sizes.insert(name.clone(), variable.content.len() as u64);
        }
        drop(device);
        let mut handles = lock(&self.handles);
        let handle = handles.fresh();
        handles.modules.insert(handle, Arc::new(Loaded { device: ordinal, module, constants, symbols, sizes }));
        Ok(handle)
    }

    /// Forgets a module.
    ///
    /// # Errors
    /// If there is none.
    pub fn unload(&self, module: usize) -> Result<(), Fault> {
        let mut handles = lock(&self.handles);
        let loaded = handles.modules.remove(&module).ok_or_else(|| no("module", module))?;
        handles.functions.retain(|_, f| !Arc::ptr_eq(&f.loaded, &loaded));
        drop(handles);
        let mut device = self.device(loaded.device)?;
        for address in loaded.symbols.values() {
            device.memory.free_hidden(*address);
        }
        Ok(())
    }

    /// A kernel of a module.
    ///
    /// # Errors
    /// If there is none of the name.
    pub fn function(&self, module: usize, name: &str) -> Result<usize, Fault> {
        let mut handles = lock(&self.handles);
        let loaded = handles.modules.get(&module).cloned().ok_or_else(|| no("module", module))?;
        let Some(entry) = loaded.module.entries.get(name).cloned() else {
            let mut names: Vec<&str> = loaded.module.entries.keys().map(String::as_str).collect();
            names.sort_unstable();
            return Err(Fault::new(Code::NotFound, format!("no kernel {name}; the module has {}", names.join(", "))));
        };
        let handle = handles.fresh();
        let dynamic_shared = AtomicU32::new(SHARED_BY_DEFAULT.saturating_sub(entry.shared_bytes));
        handles.functions.insert(handle, Arc::new(Function { loaded, entry, dynamic_shared }));
        Ok(handle)
    }

    /// The address and size of a module's variable.
    ///
    /// # Errors
    /// If there is none of the name.
    pub fn global(&self, module: usize, name: &str) -> Result<(u64, u64), Fault> {
        let handles = lock(&self.handles);
        let loaded = handles.modules.get(&module).ok_or_else(|| no("module", module))?;
        match (loaded.symbols.get(name), loaded.sizes.get(name)) {
            (Some(address), Some(size)) => Ok((*address, *size)),
            _ => Err(Fault::new(Code::NotFound, format!("no variable {name}"))),
        }
    }

    /// A kernel by its handle.
    ///
    /// # Errors
    /// If there is none.
    pub fn kernel(&self, function: usize) -> Result<Arc<Function>, Fault> {
        lock(&self.handles).functions.get(&function).cloned().ok_or_else(|| no("function", function))
    }

    /// Runs a kernel. What it does wrong is the answer of the calls after this one, as on a device.
    ///
    /// # Errors
    /// What cannot be launched.
    pub fn launch(&self, function: &Function, order: &Order<'_>) -> Result<(), Fault> {
        let ordinal = self.current()?;
        let entry = &*function.entry;
        let loaded = &*function.loaded;
        if loaded.device != ordinal {
            let text = format!("{} was loaded on device {}, this is {ordinal}", entry.name, loaded.device);
            return Err(Fault::new(Code::InvalidHandle, text));
        }
        let most = function.dynamic_shared.load(Ordering::Relaxed);
        if order.dynamic_shared > most {
            let asked = order.dynamic_shared;
            return Err(bad(format!("{}: {asked} bytes of dynamic shared memory, it may have {most}", entry.name)));
        }
        let mut device = self.working(ordinal)?;
        check_pointers(entry, order.parameters, &device.memory)?;
        self.may_work(&entry.name)?;
        if self.config.rules.is_dry {
            return Ok(());
        }
        let launch = Launch {
            entry,
            lines: &loaded.module.lines,
            constants: &loaded.constants,
            symbols: &loaded.symbols,
            grid: order.grid,
            block: order.block,
            dynamic_shared: order.dynamic_shared,
            parameters: order.parameters,
            checks_blocks: self.config.checks_blocks,
            most_instructions: self.config.most_instructions,
        };
        let begun = Instant::now();
        match exec::run(&launch, &mut device.memory) {
            Ok(traffic) => {
                let total = &mut device.traffic;
                total.lane_instructions += traffic.lane_instructions;
                total.warp_instructions += traffic.warp_instructions;
                total.read += traffic.read;
                total.written += traffic.written;
                total.atomic += traffic.atomic;
                if self.config.reports_traffic {
                    let Traffic { read, written, atomic, lane_instructions, .. } = traffic;
                    eprintln!(
                        "stand-in: {} <<<{:?}, {:?}>>> reads {read} B, writes {written} B, atomics {atomic} B, \
                         {lane_instructions} lane instructions in {:?}",
                        entry.name,
                        order.grid,
                        order.block,
                        begun.elapsed()
                    );
                }
                Ok(())
            }
            // Not even begun.
            Err(fault) if matches!(fault.code, Code::InvalidValue | Code::NotFound) => Err(fault),
            Err(fault) => {
                report::publish(&fault);
                device.sticky = Some(fault.code);
                Ok(())
            }
        }
    }

    /// Takes a hold of a primary context.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn retain(&self, ordinal: usize) -> Result<usize, Fault> {
        self.device(ordinal)?.retained += 1;
        Ok(context_of(ordinal))
    }

    /// Lets a primary context go; the last one ends it and says what was not freed.
    ///
    /// # Errors
    /// If nobody holds it.
    pub fn release(&self, ordinal: usize) -> Result<(), Fault> {
        let mut device = self.device(ordinal)?;
        if device.retained == 0 {
            return Err(Fault::new(Code::InvalidContext, format!("device {ordinal}'s context is not held")));
        }
        device.retained -= 1;
        if device.retained == 0 {
            end(&mut device, ordinal);
        }
        Ok(())
    }

    /// Ends a primary context.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn reset(&self, ordinal: usize) -> Result<(), Fault> {
        end(&mut *self.device(ordinal)?, ordinal);
        Ok(())
    }
}

fn end(device: &mut Device, ordinal: usize) {
    let (count, bytes) = (device.memory.live(), device.memory.used());
    if count > 0 {
        eprintln!("stand-in: device {ordinal}'s context ends with {count} allocations of {bytes} bytes not freed");
    }
    device.memory.end();
    device.sticky = None;
}

/// Where an allocation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `cuMemAlloc`.
    Plain,
    /// The device's current pool.
    CurrentPool,
    /// A device's pool.
    Pool(usize, usize),
}

fn no(what: &str, handle: usize) -> Fault {
    Fault::new(Code::InvalidHandle, format!("{handle:#x} is no {what}"))
}

/// The handle of a device's primary context.
fn context_of(ordinal: usize) -> usize {
    (ordinal + 1) << 8
}

/// A copy that misses is a wrong argument; the device goes on.
fn as_argument(fault: &Fault) -> Fault {
    bad(fault.text.clone())
}

/// Parameters that the kernel takes for addresses must be some, or null.
fn check_pointers(entry: &Entry, parameters: &[u8], memory: &Memory) -> Result<(), Fault> {
    for (number, parameter) in entry.parameters.iter().enumerate().filter(|(_, p)| p.is_pointer) {
        let mut value = [0; 8];
        value.copy_from_slice(&parameters[parameter.offset as usize..][..8]);
        let value = u64::from_le_bytes(value);
        if value != 0 && !memory.is_live(value) {
            let (name, count) = (&entry.name, entry.parameters.len());
            return Err(bad(format!(
                "{name}: argument {number} of {count} (from 0) is used as an address and holds {value:#x}, where \
                 nothing is allocated: wrong order, number or type of arguments, or freed memory"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{CURRENT, Driver, Order, Source};
    use crate::config::Config;
    use crate::report::Code;

    const TEXT: &str = ".version 9.0\n.target sm_90\n.address_size 64\n.global .align 4 .u32 count = 5;\n\
        .visible .entry set(\n.param .u64 set_0,\n.param .u32 set_1\n)\n{\n.reg .b64 %rd<2>; .reg .b32 %r<2>;\n\
        ld.param.u64 %rd0, [set_0];\nld.param.u32 %r0, [set_1];\ncvta.to.global.u64 %rd1, %rd0;\n\
        st.global.u32 [%rd1], %r0;\nret;\n}\n";

    fn driver(variables: &[(&str, &str)]) -> Driver {
        CURRENT.set(Some(0));
        Driver::new(Config::read(|name| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())))
    }

    fn parameters(address: u64, value: u32) -> Vec<u8> {
        [&address.to_le_bytes()[..], &value.to_le_bytes()[..]].concat()
    }

    #[test]
    fn a_kernel_runs_and_a_fault_stays_until_the_context_ends() {
        let d = driver(&[]);
        d.retain(0).unwrap();
        let module = d.load(TEXT).unwrap();
        let kernel = d.kernel(d.function(module, "set").unwrap()).unwrap();
        let at = d.allocate(6, Source::CurrentPool).unwrap();
        let launch = |address| {
            let order = Order { grid: [1; 3], block: [1; 3], dynamic_shared: 0, parameters: &parameters(address, 9) };
            d.launch(&kernel, &order)
        };
        launch(at).unwrap();
        assert_eq!(d.device(0).unwrap().traffic.written, 4);
        launch(at + 4).unwrap();
        assert_eq!(launch(at).unwrap_err().code, Code::IllegalAddress);
        assert_eq!(d.allocate(1, Source::Plain).unwrap_err().code, Code::IllegalAddress);
        d.release(0).unwrap();
        assert_eq!(d.device(0).unwrap().memory.used(), 0);
        assert!(d.allocate(1, Source::Plain).is_ok());
    }

    #[test]
    fn arguments_names_and_devices_are_checked() {
        let d = driver(&[("STAND_IN_DEVICES", "2")]);
        let module = d.load(TEXT).unwrap();
        assert_eq!(d.function(module, "sett").unwrap_err().text, "no kernel sett; the module has set");
        let (address, size) = d.global(module, "count").unwrap();
        assert_eq!((d.owner(address).unwrap(), size), (0, 4));
        let kernel = d.kernel(d.function(module, "set").unwrap()).unwrap();
        let order = Order { grid: [1; 3], block: [1; 3], dynamic_shared: 0, parameters: &parameters(77, 9) };
        let fault = d.launch(&kernel, &order).unwrap_err();
        assert!(fault.code == Code::InvalidValue && fault.text.contains("argument 0 of 2"), "{}", fault.text);
        let order = Order { block: [2048, 1, 1], parameters: &parameters(address, 9), ..order };
        assert_eq!(d.launch(&kernel, &order).unwrap_err().code, Code::InvalidValue);
        CURRENT.set(Some(1));
        assert_eq!(d.launch(&kernel, &order).unwrap_err().code, Code::InvalidHandle);
        d.unload(module).unwrap();
        assert_eq!(d.global(module, "count").unwrap_err().code, Code::InvalidHandle);
    }

    #[test]
    fn a_launch_or_a_copy_that_is_to_fail_does_and_the_device_goes_on() {
        let d = driver(&[("STAND_IN_FAIL_WORK", "2")]);
        let module = d.load(TEXT).unwrap();
        let kernel = d.kernel(d.function(module, "set").unwrap()).unwrap();
        let at = d.allocate(8, Source::CurrentPool).unwrap();
        let order = Order { grid: [1; 3], block: [1; 3], dynamic_shared: 0, parameters: &parameters(at, 9) };
        d.launch(&kernel, &order).unwrap();
        assert_eq!(d.copy(at + 4, at, 4).unwrap_err().code, Code::LaunchOutOfResources);
        d.copy(at + 4, at, 4).unwrap();
        assert_eq!(d.device(0).unwrap().memory.load(at + 4, 4, &mut 0).unwrap(), 9);
        d.work.fail(1);
        assert_eq!(d.launch(&kernel, &order).unwrap_err().code, Code::LaunchOutOfResources);
        d.launch(&kernel, &order).unwrap();
    }

    #[test]
    fn an_allocation_that_is_to_fail_does_and_copies_go_between_devices() {
        let d = driver(&[("STAND_IN_DEVICES", "2"), ("STAND_IN_FAIL_ALLOCATION", "2")]);
        let a = d.allocate(8, Source::Plain).unwrap();
        assert_eq!(d.allocate(8, Source::Plain).unwrap_err().code, Code::OutOfMemory);
        let b = d.allocate(8, Source::Pool(1, 0)).unwrap();
        d.device(0).unwrap().memory.write(a, &[3; 8]).unwrap();
        d.copy(b, a, 8).unwrap();
        assert_eq!(d.device(1).unwrap().memory.load(b, 4, &mut 0).unwrap(), 0x0303_0303);
        assert_eq!(d.copy(b, a, 9).unwrap_err().code, Code::InvalidValue);
    }
}
