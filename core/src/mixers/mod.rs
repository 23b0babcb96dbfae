//! What mixes the tokens of a sequence in a layer: attention of several kinds, and what takes its place.
//!
//! Each kind is one file: its keys, its weights, what it saves for backward, and what it caches of what it serves. A new one is that file, its line in the
//! table below, and its keys in `key.rs`.

pub(crate) mod cache;
mod compressed;
mod gated_delta_net;
mod gqa;
mod kda;
mod lightning;
mod mamba1;
mod mamba2;
mod mla;

pub use gqa::{Bias, QkNorm};

use crate::counts::Part;
use crate::inventory::{Block, Entry, Sink};
use crate::key::{Key, Numbers};
use crate::plan::Plan;
use crate::sizes::{Dim, Sizes};
use crate::spec::schema::{Kind, Word, kinds};
use cache::Caching;
use compressed::Reach;

/// The one table of kinds. Writes the two choices, and asks whichever kind stands in a slot.
macro_rules! mixers {
    (
        attention { $($(#[$attention_doc:meta])* $attention_file:ident::$attention:ident = $attention_word:literal,)* }
        mixer { $($(#[$mixer_doc:meta])* $mixer_file:ident::$mixer:ident = $mixer_word:literal,)* }
    ) => {
        $(pub use $attention_file::$attention;)*
        $(pub use $mixer_file::$mixer;)*

        kinds! {
            /// The attention of a model.
            Attention { $($(#[$attention_doc])* $attention = $attention_word,)* }
        }

        kinds! {
            /// What takes the place of a model's attention in the layers `m` of `layers.list`.
            Mixer or None = "none" { $($(#[$mixer_doc])* $mixer = $mixer_word,)* }
        }

        impl Attention {
            /// The sizes of its heads and latents.
            pub(crate) const fn sizes(&self, sizes: &mut Sizes, plan: &Plan) {
                match self {
                    $(Self::$attention(kind) => kind.sizes(sizes, plan),)*
                }
            }
        }

        impl Caching<'_> {
            /// Lists what is kept of the sequences that are served.
            pub(crate) const fn list(self, list: &mut Sink<'_>) {
                let architecture = &self.at.plan.spec().architecture;
                match (self.at.slot, &architecture.attention, &architecture.mixer) {
                    (Slot::Mixer, _, Mixer::None) => {}
                    $((Slot::Mixer, _, Mixer::$mixer(kind)) => kind.cache(list, self),)*
                    $((_, Attention::$attention(kind), _) => kind.cache(list, self),)*
                }
            }
        }

        impl At<'_> {
            /// Lists the weights, and the norms inside.
            pub(crate) const fn weights(self, list: &mut Sink<'_>, w: &Entry, norm: &Entry) {
                let architecture = &self.plan.spec().architecture;
                match (self.slot, &architecture.attention, &architecture.mixer) {
                    (Slot::Mixer, _, Mixer::None) => {}
                    $((Slot::Mixer, _, Mixer::$mixer(kind)) => kind.weights(list, self, w, norm),)*
                    $((_, Attention::$attention(kind), _) => kind.weights(list, self, w, norm),)*
                }
            }

            /// Lists what forward saves, but for the scores of a softmax.
            pub(crate) const fn saved(self, list: &mut Sink<'_>, kept: &Entry) {
                let architecture = &self.plan.spec().architecture;
                match (self.slot, &architecture.attention, &architecture.mixer) {
                    (Slot::Mixer, _, Mixer::None) => {}
                    $((Slot::Mixer, _, Mixer::$mixer(kind)) => kind.saved(list, self, kept),)*
                    $((_, Attention::$attention(kind), _) => kind.saved(list, self, kept),)*
                }
            }
        }
    };
}

mixers! {
    attention {
        /// Multi-head latent attention.
        mla::Mla = "mla",
        /// Grouped-query attention.
        gqa::Gqa = "gqa",
        /// The compressed attention of DeepSeek-V4.
        compressed::Compressed = "compressed",
    }
    mixer {
        /// Grouped-query attention with heads of its own.
        gqa::LocalGqa = "gqa",
        /// Gated DeltaNet.
        gated_delta_net::GatedDeltaNet = "gated_delta_net",
        /// Kimi Delta Attention.
        kda::Kda = "kda",
        /// Lightning attention.
        lightning::Lightning = "lightning",
        /// Mamba.
        mamba1::Mamba1 = "mamba1",
        /// Mamba-2.
        mamba2::Mamba2 = "mamba2",
    }
}

/// Which of a model's mixers: by the letters of `layers.list`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Slot {
    /// The attention; of a compressed one, that within its window alone.
    Attention,
    /// The mixer in its place.
    Mixer,
    /// Lightly compressed attention.
    Compressed,
    /// Heavily compressed attention.
    Heavy,
}

impl Slot {
    pub(crate) const ALL: [Self; 4] = [Self::Attention, Self::Mixer, Self::Compressed, Self::Heavy];

    pub(crate) const fn part(self) -> Part {
        match self {
            Self::Attention => Part::Attention,
            Self::Mixer => Part::Mixer,
            Self::Compressed => Part::Compressed,
            Self::Heavy => Part::Heavy,
        }
    }

    pub(crate) const fn block(self) -> Block {
        match self {
            Self::Attention => Block::Attention,
            Self::Mixer => Block::Mixer,
            Self::Compressed => Block::Compressed,
            Self::Heavy => Block::Heavy,
        }
    }

    const fn reach(self) -> Reach {
        match self {
            Self::Attention | Self::Mixer => Reach::Window,
            Self::Compressed => Reach::Light,
            Self::Heavy => Reach::Heavy,
        }
    }
}

/// Queries, keys and values on a rank, as kernels of attention read them.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) queries: Dim,
    pub(crate) keys: Dim,
    /// Width of a query or key.
    pub(crate) width: Dim,
    /// Width of a value.
    pub(crate) value: Dim,
    /// What of a query or key turns with its position.
    pub(crate) rotary: Dim,
    /// Whether queries and keys come out of latents.
    pub(crate) is_latent: bool,
    /// What queries and keys are normalised over.
    pub(crate) norms: QkNorm,
}

impl Heads {
    /// Rows that norms of queries and of keys have for each token: heads, or the one of all of them.
    pub(crate) const fn norm_rows(&self) -> Option<[Dim; 2]> {
        match self.norms {
            QkNorm::None => None,
            QkNorm::Head => Some([self.queries, self.keys]),
            QkNorm::Full => Some([Dim::ONE, Dim::ONE]),
        }
    }
}

/// What a list is made for.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sizes: &'a Sizes,
    pub(crate) slot: Slot,
}

impl At<'_> {
    /// Heads with scores that a softmax turns into weights; `None` in what has none.
    pub(crate) const fn scored(self) -> Option<Dim> {
        match (self.slot, &self.plan.spec().architecture) {
            (Slot::Mixer, architecture) => match &architecture.mixer {
                Mixer::LocalGqa(gqa) => Some(gqa.scored(self)),
                Mixer::None
                | Mixer::GatedDeltaNet(_)
                | Mixer::Kda(_)
                | Mixer::Lightning(_)
                | Mixer::Mamba1(_)
                | Mixer::Mamba2(_) => None,
            },
            _ => Some(self.sizes.heads),
        }
    }

    /// What attention of an ordinary kind reads; `None` in what is none.
    pub(crate) const fn heads(self) -> Option<Heads> {
        let architecture = &self.plan.spec().architecture;
        match (self.slot, &architecture.attention, &architecture.mixer) {
            (Slot::Mixer, _, Mixer::LocalGqa(gqa)) => Some(gqa.heads(self)),
            (Slot::Mixer, ..) | (_, Attention::Compressed(_), _) => None,
            (_, Attention::Gqa(gqa), _) => Some(gqa.heads(self)),
            (_, Attention::Mla(_), _) => Some(Mla::heads_of(self.sizes)),
        }
    }

    /// Lists what options of such attention save, in the style of accountings that know none of them.
    pub(crate) const fn options_saved(self, list: &mut Sink<'_>, kept: &Entry) {
        match (self.slot, &self.plan.spec().architecture.attention) {
            (Slot::Mixer, _) | (_, Attention::Compressed(_)) => {}
            (_, Attention::Gqa(gqa)) => gqa.gate_saved(list, self.sizes, kept),
            (_, Attention::Mla(mla)) => mla.indexer_saved(list, self.sizes, kept),
        }
    }

    /// Lists buffers that are saved with the weights.
    pub(crate) const fn buffers(self, list: &mut Sink<'_>, w: &Entry) {
        if !matches!(self.slot, Slot::Mixer) {
            return;
        }
        match &self.plan.spec().architecture.mixer {
            Mixer::Lightning(lightning) => lightning.buffers(list, w),
            Mixer::None
            | Mixer::LocalGqa(_)
            | Mixer::GatedDeltaNet(_)
            | Mixer::Kda(_)
            | Mixer::Mamba1(_)
            | Mixer::Mamba2(_) => {}
        }
    }
}
