//! Layers that a config tells apart one by one.

use super::fields::Fields;
use super::parts::layer_count;
use crate::spec::{LayerKind, LayerList, Layers, Mixer};
use alloc::format;
use alloc::string::ToString as _;
use alloc::vec::Vec;
use serde_json::Value;

/// How many layers there are where each is listed; none where there is no room for them, which is a fault.
pub(super) fn listed_count(fields: &mut Fields<'_>) -> u64 {
    let count = layer_count(fields);
    listable(fields, "num_hidden_layers", count);
    if count > LayerList::MAX as u64 { 0 } else { count }
}

/// As many layers as some field says must have room in a list of them.
pub(super) fn listable(fields: &mut Fields<'_>, field: &'static str, count: u64) {
    if count > LayerList::MAX as u64 {
        let how = format!("is more than {} layers: no longer list of them is supported yet", LayerList::MAX);
        fields.contradicts(field, &[], how);
    }
}

/// Layers one by one, by the blocks of each. Those for which there is no room are a fault of [`listable`].
pub(super) fn listed<const N: usize>(blocks: impl Iterator<Item = [LayerKind; N]>) -> Layers {
    let list = blocks.take(LayerList::MAX).fold(LayerList::NONE, |list, blocks| list.with(&blocks));
    let (dense, moe) = (list.count(LayerKind::Dense), list.count(LayerKind::Moe));
    Layers { dense, moe, list, ..Layers::DEFAULT }
}

/// Layers of a mixer and a network each.
pub(super) fn pairs(
    mixers: &[LayerKind],
    networks: impl IntoIterator<Item = LayerKind>,
) -> impl Iterator<Item = [LayerKind; 2]> {
    mixers.iter().zip(networks).map(|(mixer, network)| [*mixer, network])
}

/// A block of each layer, as a list that must be there says it.
pub(super) fn blocks(
    fields: &mut Fields<'_>,
    name: &'static str,
    layers: u64,
    words: &[(&str, LayerKind)],
) -> Vec<LayerKind> {
    fields.needed(name);
    let blocks = fields.items(name, |item| block(words, item));
    fields.one_a_layer(name, blocks.len(), layers);
    blocks
}

/// The same of a list that may be absent.
pub(super) fn blocks_if(
    fields: &mut Fields<'_>,
    name: &'static str,
    layers: u64,
    words: &[(&str, LayerKind)],
) -> Option<Vec<LayerKind>> {
    if fields.has(name) { Some(blocks(fields, name, layers, words)) } else { None }
}

/// What an item of a list means, by the words for it as JSON.
pub(super) fn block(words: &[(&str, LayerKind)], item: &Value) -> Option<LayerKind> {
    let written = item.to_string();
    words.iter().find(|(word, _)| *word == written).map(|(_, kind)| *kind)
}

/// What some layers have in the place of attention; where none has, what is said of it means nothing.
pub(super) fn mixer(layers: &Layers, mixer: Mixer) -> Mixer {
    if layers.list.count(LayerKind::Mixer) > 0 { mixer } else { Mixer::None }
}

/// Words for two kinds of block, as JSON.
pub(super) type Words = [(&'static str, LayerKind); 2];

/// Attention and linear attention.
pub(super) const LINEAR: Words =
    [(r#""full_attention""#, LayerKind::Attention), (r#""linear_attention""#, LayerKind::Mixer)];

/// A block of each layer: by a word each, or as a number says, which comes back as well. Where both are there, they must
/// agree.
pub(super) fn blocks_or(
    fields: &mut Fields<'_>,
    (name, words): (&'static str, Words),
    number: &'static str,
    count: u64,
    of: impl Fn(u64, u64) -> LayerKind,
) -> (Vec<LayerKind>, Option<u64>) {
    let listed = blocks_if(fields, name, count, &words);
    if listed.is_none() {
        fields.needed(number);
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
