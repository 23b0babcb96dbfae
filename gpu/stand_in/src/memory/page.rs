//! Pages of an allocation, which exist once something is written, with one bit a byte that says whether it was.

/// Bytes of a page.
pub(super) const PAGE: usize = 1 << 16;
/// What unwritten bytes read as: a NaN in every float format.
pub(super) const POISON: u8 = 0xff;

/// Bytes with a bit each that says whether they were written.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) data: Box<[u8]>,
    pub(super) mask: Box<[u64]>,
}

/// A page of an allocation.
#[derive(Debug, Clone)]
pub(super) enum Page {
    /// Nobody wrote to it.
    Fresh,
    /// Every byte was set to one value.
    Filled(u8),
    Written(Written),
}

impl Page {
    /// Its bytes, `size` of them, to be written.
    pub(super) fn written(&mut self, size: usize) -> &mut Written {
        if let Self::Written(w) = self {
            return w;
        }
        let (value, bits) = if let Self::Filled(value) = *self { (value, !0) } else { (POISON, 0) };
        *self = Self::Written(Written {
            data: vec![value; size].into_boxed_slice(),
            mask: vec![bits; size.div_ceil(64)].into_boxed_slice(),
        });
        match self {
            Self::Written(w) => w,
            Self::Fresh | Self::Filled(_) => unreachable!("set above"),
        }
    }
}

impl Written {
    pub(super) fn mark(&mut self, from: usize, to: usize) {
        let mut at = from;
        while at < to {
            if at.is_multiple_of(64) && to - at >= 64 {
                self.mask[at / 64] = !0;
                at += 64;
            } else {
                self.mask[at / 64] |= 1 << (at % 64);
                at += 1;
            }
        }
    }
}

/// An allocation that was not freed.
#[derive(Debug)]
pub(super) struct Allocation {
    pub(super) base: u64,
    pub(super) bytes: u64,
    /// What it counts for.
    pub(super) charged: u64,
    pub(super) pool: Option<usize>,
    /// Of a module: counts for nothing and cannot be freed by address.
    pub(super) is_hidden: bool,
    pub(super) pages: Vec<Page>,
}

impl Allocation {
    /// Bytes of a page; of the last one as many as there are.
    pub(super) fn page_size(&self, page: usize) -> usize {
        let before = (page * PAGE) as u64;
        usize::try_from(self.bytes.saturating_sub(before)).unwrap_or(PAGE).min(PAGE)
    }
}
