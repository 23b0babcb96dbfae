//! The optimizer's update of a part of the parameters.

use super::AdamW;
use crate::Memory;
use crate::device::{Format, Host, Meta, Mut, Ref};

operation! {
    /// AdamW.
    Optimize {
        /// Step `t` of so many parameters: their master weights and moments, in place.
        fn adamw[S: Format](
            master: Mut<'_, Self, f32>, first: Mut<'_, Self, S>, second: Mut<'_, Self, S>, gradient: Ref<'_, Self, f32>,
            adamw: AdamW, t: i32, scale: f32);
        /// Weights as master weights have them.
        fn write_back[W: Format](w: Mut<'_, Self, W>, master: Ref<'_, Self, f32>);
        /// Master weights as weights are at the start.
        fn widen[W: Format](master: Mut<'_, Self, f32>, w: Ref<'_, Self, W>);
    }
}

impl Optimize for Host {
    fn adamw<S: Format>(
        &self,
        master: Mut<'_, Self, f32>,
        first: Mut<'_, Self, S>,
        second: Mut<'_, Self, S>,
        gradient: Ref<'_, Self, f32>,
        adamw: AdamW,
        t: i32,
        scale: f32,
    ) {
        super::host::step(master.slice(), first.slice(), second.slice(), gradient.slice(), &adamw, t, scale);
    }

    fn write_back<W: Format>(&self, w: Mut<'_, Self, W>, master: Ref<'_, Self, f32>) {
        super::host::write_back(w.slice(), master.slice());
    }

    fn widen<W: Format>(&self, master: Mut<'_, Self, f32>, w: Ref<'_, Self, W>) {
        crate::ops::elementwise::host::convert(master.slice(), w.slice());
    }
}
