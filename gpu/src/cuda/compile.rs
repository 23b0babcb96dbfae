//! Kernels, from their sources beside the operations to PTX. One unit has them all, for one format of activations and one
//! of weights.

use super::error::{Library, NoDevice};
use crate::Float;
use core::fmt::Write as _;
use cudarc::nvrtc::{CompileError, CompileOptions, Ptx, compile_ptx_with_opts};
use std::sync::{Mutex, PoisonError};

/// The sources by name, the shared one first.
pub const SOURCES: [(&str, &str); 12] = [
    ("cuda/prelude.cu", include_str!("prelude.cu")),
    ("ops/activation/kernel.cu", include_str!("../ops/activation/kernel.cu")),
    ("ops/adamw/kernel.cu", include_str!("../ops/adamw/kernel.cu")),
    ("ops/attention/kernel.cu", include_str!("../ops/attention/kernel.cu")),
    ("ops/cross_entropy/kernel.cu", include_str!("../ops/cross_entropy/kernel.cu")),
    ("ops/elementwise/kernel.cu", include_str!("../ops/elementwise/kernel.cu")),
    ("ops/embedding/kernel.cu", include_str!("../ops/embedding/kernel.cu")),
    ("ops/gemm/kernel.cu", include_str!("../ops/gemm/kernel.cu")),
    ("ops/permute/kernel.cu", include_str!("../ops/permute/kernel.cu")),
    ("ops/rms_norm/kernel.cu", include_str!("../ops/rms_norm/kernel.cu")),
    ("ops/rope/kernel.cu", include_str!("../ops/rope/kernel.cu")),
    ("ops/router/kernel.cu", include_str!("../ops/router/kernel.cu")),
];

/// A format that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// f32.
    F32,
    /// bf16.
    Bf16,
}

impl Kind {
    /// That of a format of the step.
    pub(crate) fn of<E: Float>() -> Self {
        if E::slice_as_f32(&[]).is_some() { Self::F32 } else { Self::Bf16 }
    }

    /// Its name in kernels.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// Compiled units, by virtual architecture and formats: each takes a second, and many devices may be opened.
static COMPILED: Mutex<Vec<(String, Kind, Kind, Ptx)>> = Mutex::new(Vec::new());

/// The PTX of all kernels, for one virtual architecture (`compute_80`), a format of activations and one of weights.
///
/// # Errors
/// If there is no compiler, or it refuses.
pub fn ptx(architecture: &str, activations: Kind, weights: Kind) -> Result<Ptx, NoDevice> {
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_it =
        |(name, x, w, _): &&(String, Kind, Kind, Ptx)| (name.as_str(), *x, *w) == (architecture, activations, weights);
    if let Some((.., ptx)) = compiled.iter().find(is_it) {
        return Ok(ptx.clone());
    }
    let ptx = compile(architecture, activations, weights)?;
    compiled.push((architecture.to_owned(), activations, weights, ptx.clone()));
    Ok(ptx)
}

fn compile(architecture: &str, activations: Kind, weights: Kind) -> Result<Ptx, NoDevice> {
    // SAFETY: the call only tries to load a library by name, and cudarc loads the same one later. Asked first, since
    // cudarc panics where the library is missing.
    #[allow(unsafe_code)]
    let is_present = unsafe { cudarc::nvrtc::sys::is_culib_present() };
    if !is_present {
        return Err(NoDevice::NoLibrary(Library::Nvrtc));
    }
    let mut unit = String::new();
    for (name, text) in SOURCES {
        // Errors then name the file and its line.
        let _ = write!(unit, "#line 1 \"{name}\"\n{text}\n");
    }
    let options = [
        format!("--gpu-architecture={architecture}"),
        format!("-DX={}", activations.name()),
        format!("-DW={}", weights.name()),
    ];
    let options =
        CompileOptions { options: options.to_vec(), name: Some("kernels.cu".to_owned()), ..Default::default() };
    compile_ptx_with_opts(unit, options).map_err(|error| {
        NoDevice::Kernels(match error {
            CompileError::CompileError { log, .. } => log.to_string_lossy().into_owned(),
            other => format!("{other:?}"),
        })
    })
}
