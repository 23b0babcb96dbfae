//! Layers that a config tells apart one by one.

use super::fields::Fields;
use super::parts::layer_count;
use crate::spec::{LayerKind, LayerList, Layers, Mixer};
use alloc::format;
use alloc::vec::Vec;

/// How many layers, where each has a place in a list; none where there are more than places.
pub(super) fn listed_count(fields: &mut Fields<'_>) -> u64 {
    let (count, most) = (layer_count(fields), LayerList::MAX as u64);
    if count > most {
        let how = format!("is more than {most}: no longer list of layers that differ is supported yet");
        fields.contradicts("num_hidden_layers", &[], how);
    }
    if count > most { 0 } else { count }
}

/// Words for two kinds of block.
pub(super) type Words = [(&'static str, LayerKind); 2];

/// Attention and linear attention.
pub(super) const LINEAR: Words = [("full_attention", LayerKind::Attention), ("linear_attention", LayerKind::Mixer)];

/// A block of each layer, in a field that has a word for each; nothing where the field is absent.
pub(super) fn by_words(
    fields: &mut Fields<'_>,
    name: &'static str,
    words: Words,
    count: u64,
) -> Option<Vec<LayerKind>> {
    if !fields.has(name) {
        return None;
    }
    let list = fields.each(name, &words.map(|(word, _)| word));
    fields.one_each(name, list, count);
    // A word that is none of these is a fault, and the first stands in.
    let kind = |written| words.into_iter().find(|(word, _)| written == word).unwrap_or(words[0]).1;
    Some((0..count).zip(list).map(|(_, written)| kind(written)).collect())
}

/// A block of each layer: by a word each, or as a number says, which comes back as well. Where both are there, they must
/// agree.
pub(super) fn by_words_or(
    fields: &mut Fields<'_>,
    (name, words): (&'static str, Words),
    number: &'static str,
    count: u64,
    of: impl Fn(u64, u64) -> LayerKind,
) -> (Vec<LayerKind>, Option<u64>) {
    let listed = by_words(fields, name, words, count);
    if listed.is_none() {
        fields.need(number);
    }
    let given = fields.optional(number);
    let counted: Option<Vec<LayerKind>> = given.map(|given| (0..count).map(|layer| of(given, layer)).collect());
    if let (Some(listed), Some(counted)) = (&listed, &counted)
        && listed != counted
    {
        fields.contradicts(number, &[name, "num_hidden_layers"], format!("is not what `{name}` says"));
    }
    (listed.or(counted).unwrap_or_default(), given)
}

/// Layers of a mixer and a network each.
pub(super) fn listed(mixers: &[LayerKind], networks: impl IntoIterator<Item = LayerKind>) -> Layers {
    let of = mixers.iter().zip(networks).take(LayerList::MAX);
    let list = of.fold(LayerList::NONE, |list, (mixer, network)| list.with(&[*mixer, network]));
    Layers { dense: list.count(LayerKind::Dense), moe: list.count(LayerKind::Moe), list, ..Layers::DEFAULT }
}

/// A mixer, where some layer has it.
pub(super) fn used(mixer: Mixer, layers: &Layers) -> Mixer {
    if layers.list.count(LayerKind::Mixer) > 0 { mixer } else { Mixer::None }
}
