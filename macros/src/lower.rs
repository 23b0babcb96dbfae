//! From entries to a Spec: each key is looked up in the core's table, each value read as that table says. Beside the
//! Spec stands where each value was written, and the Rust literal made of the user's own tokens.

use crate::ast::{self, Declaration, Entry, LayoutItem, SmokeItem, Value};
use crate::report::Report;
use crate::source::{self, Source};
use crate::written::{constant_note, literal_help, no_choice, no_expression, outline_of, percent_help};
use moe_model_core::misread::{
    decimal, did_you_mean, given_twice, has_no_key, key_help, key_meant, lacks, listed, nearest, negative,
    outgrows_64_bits, shortened, thousandths, unread_in_serving,
};
use moe_model_core::spec::{self, Architecture, Fault, Field, Kind, LayerList, Layout, Spec, StageList, Word};
use moe_model_core::{Key, KeySet};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use std::collections::BTreeMap;
use syn::{Attribute, Expr, Lit, LitStr, Visibility};

/// A declaration whose keys and values are understood, as far as they are right.
pub(crate) struct Model {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) architecture: Part,
    pub(crate) layouts: Vec<NamedLayout>,
    pub(crate) smokes: Vec<Smoke>,
    /// The file that the architecture was read from, by its absolute path.
    pub(crate) file: Option<String>,
}

/// Tests of a layout.
pub(crate) struct Smoke {
    /// The layout.
    pub(crate) layout: Ident,
    /// The model at the scale that is computed, with that layout alone.
    pub(crate) small: Model,
}

/// One layout of the model.
pub(crate) struct NamedLayout {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) name: Ident,
    /// The name in capitals, as the generated constant has it.
    pub(crate) constant: Ident,
    pub(crate) part: Part,
}

/// An architecture, or a layout over its architecture.
pub(crate) struct Part {
    pub(crate) spec: Spec,
    /// Keys whose values only the compiler will know.
    pub(crate) unknown: KeySet,
    pub(crate) places: Places,
    /// The Rust literal.
    pub(crate) literal: TokenStream,
    /// Whether a key or value could not be read: laws would mislead.
    pub(crate) broken: bool,
}

/// Where keys and values were written.
#[derive(Clone)]
pub(crate) struct Places {
    /// What stands for keys that were not written: the name of the model or layout.
    name: Ident,
    written: BTreeMap<Key, TokenStream>,
}

impl Places {
    fn of(name: &Ident) -> Self {
        Self { name: name.clone(), written: BTreeMap::new() }
    }

    /// The tokens to underline for a key: its value, else its group's key, else the name.
    pub(crate) fn at(&self, key: Key) -> TokenStream {
        let group = || {
            let (group, _) = key.path().rsplit_once('.')?;
            self.written.iter().find(|(key, _)| key.path() == group).map(|(_, tokens)| tokens)
        };
        self.written.get(&key).or_else(group).cloned().unwrap_or_else(|| self.name.to_token_stream())
    }

    /// Whether the key's value was written.
    pub(crate) fn has(&self, key: Key) -> bool {
        self.written.contains_key(&key)
    }

    /// The keys whose values were written.
    pub(crate) fn written(&self) -> KeySet {
        self.written.keys().fold(KeySet::EMPTY, |set, key| set.with(*key))
    }
}

/// Lowers the architecture, then each layout over it.
pub(crate) fn lower(declaration: Declaration, report: &mut Report) -> Model {
    let Declaration { attrs, vis, name, mut entries, layouts, smokes, broken } = declaration;
    let (before, all) = (report.len(), entries.clone());
    let source = source::take(&mut entries, report);
    let is_broken = broken || matches!(source, Source::Broken) || has_broken(&entries);
    let file = if let Source::Known(known) = &source { known.file.clone() } else { None };
    let mut lowering = Lowering { spec: Spec::DEFAULT, unknown: KeySet::EMPTY, places: Places::of(&name), report };
    let owner = Owner { group: None, words: "an architecture".to_owned(), place: name.to_token_stream() };
    let literal = match source {
        Source::Absent => lowering.group("Architecture", Architecture::FIELDS, &owner, &entries, broken),
        // Without it nothing is known to be missing.
        Source::Broken => lowering.fields(Architecture::FIELDS, &owner, &entries),
        Source::Known(known) => lowering.over(&known.architecture, &known.place, &owner, &entries),
    };
    let Lowering { spec, unknown, places, report } = lowering;
    let architecture = Part { spec, unknown, places, literal, broken: is_broken || report.len() > before };
    let (layouts, known) = lower_layouts(layouts, &architecture, report);
    let mut model = Model { attrs, vis, name, architecture, layouts, smokes: Vec::new(), file };
    // What is wrong with what they are built on is said where that stands.
    if report.is_empty() {
        let smokes = smokes.into_iter().filter_map(|item| lower_smoke(item, &model, &all, &known, report));
        let smokes: Vec<Smoke> = smokes.collect();
        model.smokes = smokes;
    }
    model
}

/// The model of tests: the same but for what is smaller.
fn lower_smoke(
    item: SmokeItem,
    model: &Model,
    architecture: &[Entry],
    layouts: &[(Ident, Vec<Entry>)],
    report: &mut Report,
) -> Option<Smoke> {
    let SmokeItem { layout: name, entries } = item;
    let Some((_, layout)) = layouts.iter().find(|(known, _)| *known == name) else {
        let names: Vec<String> = layouts.iter().map(|(name, _)| name.to_string()).collect();
        let help = match nearest(&name.to_string(), names.iter().map(String::as_str)) {
            Some(name) => did_you_mean(name).to_string(),
            None => format!("declared are {}", listed(names.iter().map(String::as_str))),
        };
        report.error(&name, format!("no layout `{name}` is declared\n= help: {help}"));
        return None;
    };
    let is_of =
        |fields: &'static [Field]| move |entry: &Entry| fields.iter().any(|field| entry.key == field.key.name());
    let (of_architecture, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_of(Architecture::FIELDS));
    let instead = |inherited: &[Entry], own: Vec<Entry>| -> Vec<Entry> {
        let kept = inherited.iter().filter(|entry| own.iter().all(|mine| mine.key != entry.key)).cloned();
        kept.chain(own.iter().cloned()).collect()
    };
    let entries = instead(architecture, of_architecture);
    let layout = LayoutItem {
        attrs: Vec::new(),
        name: name.clone(),
        entries: instead(layout, others),
        base: None,
        broken: false,
    };
    let declaration = Declaration {
        attrs: Vec::new(),
        vis: Visibility::Inherited,
        name: model.name.clone(),
        entries,
        layouts: vec![layout],
        smokes: Vec::new(),
        broken: false,
    };
    let small = lower(declaration, report);
    Some(Smoke { layout: name, small })
}

/// Whether a value could not be read, which was reported where it was.
fn has_broken(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| matches!(entry.value, Value::Broken))
}

/// The layouts, and the entries that each holds.
type Lowered = (Vec<NamedLayout>, Vec<(Ident, Vec<Entry>)>);

fn lower_layouts(items: Vec<LayoutItem>, architecture: &Part, report: &mut Report) -> Lowered {
    let mut layouts: Vec<NamedLayout> = Vec::new();
    // The entries that each layout so far holds, its base's included.
    let mut known: Vec<(Ident, Vec<Entry>)> = Vec::new();
    for item in items {
        let constant = constant(&item.name);
        if let Some(other) = layouts.iter().find(|other| other.constant == constant) {
            let twice = if other.name == item.name {
                format!("layout `{}` is declared twice", item.name)
            } else {
                format!("layouts `{}` and `{}` would both be the constant `{constant}`", other.name, item.name)
            };
            let (first, second) = (&other.name, &item.name);
            report.error(quote!(#first #second), twice);
            continue;
        }
        if item.name == "_" {
            report.error(&item.name, "a layout has a name of its own: its plan is a constant");
            continue;
        }
        if ["ARCHITECTURE", "LAYOUTS", "NAME"].iter().any(|taken| constant == taken) {
            report.error(&item.name, format!("a layout cannot be called `{}`: the constant exists already", item.name));
            continue;
        }
        let inherited = match &item.base {
            Some(base) => inherited(base, &known, &item.entries, report),
            None => Some(Vec::new()),
        };
        let base = layouts.iter().find(|layout| Some(&layout.name) == item.base.as_ref());
        let base_is_broken = item.broken || base.is_some_and(|base| base.part.broken);
        let part = lower_layout(&item, inherited.as_deref(), base_is_broken, architecture, report);
        known.push((item.name.clone(), item.entries.into_iter().chain(inherited.unwrap_or_default()).collect()));
        layouts.push(NamedLayout { attrs: item.attrs, name: item.name, constant, part });
    }
    (layouts, known)
}

/// What a layout takes over from the one it is built on: the keys that it does not give itself.
fn inherited(base: &Ident, known: &[(Ident, Vec<Entry>)], own: &[Entry], report: &mut Report) -> Option<Vec<Entry>> {
    let Some((_, entries)) = known.iter().find(|(name, _)| name == base) else {
        let names: Vec<String> = known.iter().map(|(name, _)| name.to_string()).collect();
        let help = match nearest(&base.to_string(), names.iter().map(String::as_str)) {
            Some(name) => format!("\n= help: {}", did_you_mean(name)),
            None if names.is_empty() => "\n= help: a layout is built on one that is declared above it".to_owned(),
            None => format!("\n= help: declared above: {}", listed(names.iter().map(String::as_str))),
        };
        report.error(base, format!("no layout `{base}` is declared above{help}"));
        return None;
    };
    Some(entries.iter().filter(|entry| own.iter().all(|mine| mine.key != entry.key)).cloned().collect())
}

fn lower_layout(
    item: &LayoutItem,
    inherited: Option<&[Entry]>,
    base_is_broken: bool,
    architecture: &Part,
    report: &mut Report,
) -> Part {
    let before = report.len();
    let name = format!("layout `{}`", item.name);
    let mut places = architecture.places.clone();
    places.name = item.name.clone();
    let mut lowering = Lowering { spec: architecture.spec, unknown: architecture.unknown, places, report };
    let owner = Owner { group: None, words: name, place: item.name.to_token_stream() };
    let Some(inherited) = inherited else {
        // Without its base nothing is known to be missing.
        let _ = lowering.fields(Layout::FIELDS, &owner, &item.entries);
        let Lowering { spec, unknown, places, .. } = lowering;
        return Part { spec, unknown, places, literal: TokenStream::new(), broken: true };
    };
    // What is wrong with inherited entries was said where they stand.
    let mut said = Report::new();
    let mut taken = Lowering { report: &mut said, places: lowering.places.clone(), ..lowering };
    let mut literal = taken.fields(Layout::FIELDS, &owner, inherited);
    let Lowering { spec, unknown, places, .. } = taken;
    let mut lowering = Lowering { spec, unknown, places, report };
    literal.extend(lowering.fields(Layout::FIELDS, &owner, &item.entries));
    // What it is built on may train.
    let accounting = item.entries.iter().find(|entry| entry.key == Key::Accounting.name());
    if let Some(entry) = accounting
        && lowering.spec.layout.served().is_some()
    {
        let [message, help] = unread_in_serving();
        lowering.report.error(&entry.key, format!("{message}\n= help: {help}"));
    }
    let given: Vec<&Ident> = item.entries.iter().chain(inherited).map(|entry| &entry.key).collect();
    // What a base lacks was said of the base.
    if !base_is_broken {
        lowering.missing(Layout::FIELDS, &owner, &given);
    }
    let Lowering { spec, mut unknown, places, report } = lowering;
    let world = KeySet::of(&[Key::MeshWorld, Key::MeshTp, Key::MeshCp, Key::MeshPp]);
    if !places.has(Key::MeshDp) && places.has(Key::MeshWorld) && unknown.intersects(world) {
        // It follows from these.
        unknown = unknown.with(Key::MeshDp);
    }
    let is_read = said.is_empty() && report.len() == before && !has_broken(&item.entries);
    let broken = architecture.broken || base_is_broken || !is_read;
    let literal = struct_literal("Layout", &literal);
    Part { spec, unknown, places, literal, broken }
}

/// Whose keys are read: how to name it, and what to underline where keys are missing.
struct Owner {
    /// The group, if it is one.
    group: Option<Key>,
    words: String,
    place: TokenStream,
}

struct Lowering<'r> {
    spec: Spec,
    unknown: KeySet,
    places: Places,
    report: &'r mut Report,
}

impl Lowering<'_> {
    /// All keys of a group, as a Rust struct literal. Beside one that could not be read (`broken`) nothing is known to be
    /// missing.
    fn group(
        &mut self,
        ty: &str,
        fields: &'static [Field],
        owner: &Owner,
        entries: &[Entry],
        broken: bool,
    ) -> TokenStream {
        let literal = self.fields(fields, owner, entries);
        if !broken {
            let given: Vec<&Ident> = entries.iter().map(|entry| &entry.key).collect();
            self.missing(fields, owner, &given);
        }
        struct_literal(ty, &literal)
    }

    /// The keys of an architecture that another stands for, as a Rust struct literal: those that are written, and all
    /// others as the other has them, each standing at one place.
    fn over(&mut self, other: &Architecture, place: &TokenStream, owner: &Owner, entries: &[Entry]) -> TokenStream {
        let numbers = source::numbers(other);
        self.spec.architecture = *other;
        let mut literal = TokenStream::new();
        let is_written = |field: &Field| entries.iter().any(|entry| entry.key == field.key.name());
        for field in Architecture::FIELDS.iter().filter(|field| !is_written(field)) {
            let (name, mut keys) = (Ident::new(field.key.name(), Span::call_site()), Vec::new());
            let value = source::restated(field, other, &numbers, &mut keys);
            literal.extend(quote!(#name: #value,));
            self.places.written.extend(keys.into_iter().map(|key| (key, place.clone())));
        }
        literal.extend(self.fields(Architecture::FIELDS, owner, entries));
        struct_literal("Architecture", &literal)
    }

    /// The keys that are given, as fields of a struct literal.
    fn fields(&mut self, fields: &'static [Field], owner: &Owner, entries: &[Entry]) -> TokenStream {
        let mut literal = TokenStream::new();
        for (i, entry) in entries.iter().enumerate() {
            let key = &entry.key;
            let Some(field) = fields.iter().find(|field| *key == field.key.name()) else {
                self.unknown_key(key, fields, owner);
                continue;
            };
            if let Some(first) = entries[..i].iter().find(|other| other.key == *key) {
                // Underlined from the first to the second: one fault, and both its places.
                let first = &first.key;
                self.report.error(quote!(#first #key), given_twice(field.key).as_str());
                continue;
            }
            if let Some(value) = self.value(field, key, &entry.value) {
                literal.extend(quote!(#key: #value,));
            }
        }
        literal
    }

    fn unknown_key(&mut self, key: &Ident, fields: &'static [Field], owner: &Owner) {
        let written = key.to_string();
        let is_among = |fields: &[Field]| fields.iter().any(|field| written == field.key.name());
        let help = if written == "layout" {
            "a layout has a name: `layout Name: layout { … }`".to_owned()
        } else if is_among(Layout::FIELDS) {
            format!("`{written}` is a key of a layout: `layout Name: layout {{ {written}: …, }}`")
        } else if is_among(Architecture::FIELDS) || written == source::KEY {
            format!("`{written}` is a key of the architecture, outside any layout")
        } else {
            let is_top = fields.iter().any(|field| field.key == Key::Hidden);
            let names = fields.iter().map(|field| field.key.name()).chain(is_top.then_some(source::KEY));
            key_help(owner.group, &written, names).to_string()
        };
        self.report.error(key, format!("{}\n= help: {help}", has_no_key(&owner.words, &written)));
    }

    fn missing(&mut self, fields: &'static [Field], owner: &Owner, given: &[&Ident]) {
        let names = fields.iter().map(|field| field.key.name());
        // Misspelt keys are not missing too.
        let is_meant = |key: &Ident, name| {
            names.clone().all(|other| *key != other) && key_meant(&key.to_string(), names.clone()) == Some(name)
        };
        let is_given = |name| given.iter().any(|key| *key == name || is_meant(key, name));
        let mut spec = self.spec;
        // What was meant to serve lacks nothing of training.
        if given.iter().any(|key| *key == Key::Serving.name()) && !self.places.has(Key::Serving) {
            spec.choose(Key::Serving, 0);
        }
        let missing = fields.iter().filter(|field| field.is_required(&spec) && !is_given(field.key.name()));
        if let Some(text) = lacks(&owner.words, missing.map(|field| field.key.name())) {
            self.report.error(&owner.place, text.as_str());
        }
    }

    /// One value, as a Rust expression; `None` if it cannot be read, which is reported.
    fn value(&mut self, field: &'static Field, key: &Ident, value: &Value) -> Option<TokenStream> {
        match (&field.value, value) {
            (_, Value::Broken) => None,
            (_, Value::Missing) => {
                self.report.error(key, format!("`{}` has no value: write `{key}: …`", field.key.path()));
                None
            }
            (spec::Value::Choice { words, kinds }, Value::Kind { word, body }) => {
                self.kind(field.key, key, word, body, words, kinds)
            }
            (spec::Value::Choice { words, kinds }, Value::Tokens(tokens))
                // `"even"` is a word in quotes.
                if field.key == Key::Stages
                    && is_string(tokens)
                    && nearest(&outline_of(tokens), words.iter().map(|word| word.word)).is_none() =>
            {
                self.stage_list(kinds, tokens)
            }
            (spec::Value::Choice { words, kinds }, Value::Tokens(tokens)) => self.word(field.key, tokens, words, kinds),
            (scalar, Value::Kind { word, body }) => self.scalar(field.key, scalar, &quote!(#word #body)),
            (scalar, Value::Tokens(tokens)) => self.scalar(field.key, scalar, tokens),
        }
    }

    fn kind(
        &mut self,
        key: Key,
        key_token: &Ident,
        word: &Ident,
        body: &Group,
        words: &'static [Word],
        kinds: &'static [Kind],
    ) -> Option<TokenStream> {
        let Some(index) = kinds.iter().position(|kind| *word == kind.word) else {
            if words.iter().any(|known| *word == known.word) {
                let message = format!("`{}: {word}` takes no keys\n= help: write `{word}` alone", key.path());
                self.report.error(word, message);
                return None;
            }
            self.report.error(word, no_choice(key, &word.to_token_stream(), words, kinds));
            return None;
        };
        let kind = &kinds[index];
        self.spec.choose(key, index as u64);
        self.places.written.insert(key, key_token.to_token_stream());
        let (entries, broken) = ast::entries(body, self.report);
        let owner = Owner { group: Some(key), words: format!("`{}`", key.path()), place: key_token.to_token_stream() };
        let literal = self.group(kind.ty, kind.fields, &owner, &entries, broken);
        if kind.variant.is_empty() {
            return Some(literal);
        }
        let variant = path(kind.variant);
        Some(quote!(#variant(#literal)))
    }

    fn word(
        &mut self,
        key: Key,
        tokens: &TokenStream,
        words: &'static [Word],
        kinds: &'static [Kind],
    ) -> Option<TokenStream> {
        let written = tokens.to_string();
        let Some(index) = words.iter().position(|word| word.word == written) else {
            self.report.error(tokens, no_choice(key, tokens, words, kinds));
            return None;
        };
        self.spec.set(key, index as u64);
        self.places.written.insert(key, tokens.clone());
        Some(path(words[index].path))
    }

    /// A number, decimal or percentage: known if it is a literal, else left to the compiler.
    fn scalar(&mut self, key: Key, value: &spec::Value, tokens: &TokenStream) -> Option<TokenStream> {
        let read = match value {
            spec::Value::Percent => self.percent(key, tokens),
            spec::Value::Decimal => self.decimal(key, tokens),
            spec::Value::StageList => self.list(key, tokens),
            spec::Value::LayerList => self.layers(key, tokens),
            spec::Value::Number { .. } | spec::Value::Choice { .. } => self.number(key, tokens, tokens),
        };
        if read.is_some() {
            self.places.written.insert(key, tokens.clone());
        }
        read
    }

    fn number(&mut self, key: Key, tokens: &TokenStream, at: &TokenStream) -> Option<TokenStream> {
        if let Ok(Lit::Int(literal)) = syn::parse2(tokens.clone()) {
            if literal.base10_digits().starts_with('-') {
                self.report.error(at, negative(key, literal.base10_digits()).as_str());
                return None;
            }
            let Ok(number) = literal.base10_parse::<u64>() else {
                self.report.error(at, outgrows_64_bits(key, literal.base10_digits()).as_str());
                return None;
            };
            self.spec.set(key, number);
            return Some(tokens.clone());
        }
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        self.opaque(key, tokens, at, "a whole number", is_number)
    }

    /// `1.25`, in thousandths.
    fn decimal(&mut self, key: Key, tokens: &TokenStream) -> Option<TokenStream> {
        let digits = match syn::parse2(tokens.clone()) {
            Ok(Lit::Int(literal)) => literal.base10_digits().to_owned(),
            Ok(Lit::Float(literal)) => literal.base10_digits().to_owned(),
            _ => {
                let is_number = |text: &str| thousandths(text).is_some();
                return self.opaque(key, tokens, tokens, "a decimal number such as 1.25", is_number);
            }
        };
        let thousandths = match decimal(key, &digits) {
            Ok(thousandths) => thousandths,
            Err(message) => {
                self.report.error(tokens, message.as_str());
                return None;
            }
        };
        self.spec.set(key, thousandths);
        Some(quote!(::moe_model::spec::Factor::thousandths(#thousandths)))
    }

    /// `stages: "Et|(tt|)*30mL"`, short for the group with its list alone.
    fn stage_list(&mut self, kinds: &'static [Kind], tokens: &TokenStream) -> Option<TokenStream> {
        let kind = kinds.first()?;
        self.spec.choose(Key::Stages, 0);
        self.places.written.insert(Key::Stages, tokens.clone());
        let list = self.scalar(Key::StagesList, &spec::Value::StageList, tokens)?;
        Some(struct_literal(kind.ty, &quote!(list: #list,)))
    }

    /// A layout string in quotes.
    fn list(&mut self, key: Key, tokens: &TokenStream) -> Option<TokenStream> {
        let literal = self.string(key, tokens, "layout string", "Et|(tt|)*30mL")?;
        let list = self.without_fault(tokens, StageList::read(&literal.value()))?;
        self.spec.layout.stages.list = list;
        Some(quote!(::moe_model::spec::StageList::parse(#literal)))
    }

    /// A layer list in quotes.
    fn layers(&mut self, key: Key, tokens: &TokenStream) -> Option<TokenStream> {
        let literal = self.string(key, tokens, "layer list", "(MMMA)*12")?;
        let list = self.without_fault(tokens, LayerList::read(&literal.value()))?;
        self.spec.architecture.layers.list = list;
        Some(quote!(::moe_model::spec::LayerList::parse(#literal)))
    }

    fn string(&mut self, key: Key, tokens: &TokenStream, what: &str, example: &str) -> Option<LitStr> {
        if let Ok(Lit::Str(literal)) = syn::parse2(tokens.clone()) {
            return Some(literal);
        }
        let note = constant_note(tokens);
        self.report.error(tokens, format!("`{}` is a {what} in quotes, such as \"{example}\"{note}", key.path()));
        None
    }

    fn without_fault<T>(&mut self, tokens: &TokenStream, read: Result<T, Fault>) -> Option<T> {
        read.map_err(|fault| self.report.error(tokens, fault.to_string())).ok()
    }

    /// `percent(10)`.
    fn percent(&mut self, key: Key, tokens: &TokenStream) -> Option<TokenStream> {
        let (mut inner, parts) = (tokens.clone(), tokens.clone().into_iter().collect::<Vec<_>>());
        if let [TokenTree::Ident(word), TokenTree::Group(group)] = &parts[..]
            && word == "percent"
            && group.delimiter() == Delimiter::Parenthesis
        {
            inner = group.stream();
            // `percent()` and `percent(10%)` are told of percentages, not of expressions.
            if syn::parse2::<Expr>(inner.clone()).is_ok() {
                let number = self.number(key, &inner, tokens)?;
                return Some(quote!(::moe_model::spec::percent(#number)));
            }
        }
        let message = format!("`{}` is a percentage\n= help: {}", key.path(), percent_help(&inner));
        self.report.error(tokens, message);
        None
    }

    /// What is no literal: an expression for the compiler, if it is one that can be a number.
    fn opaque(
        &mut self,
        key: Key,
        tokens: &TokenStream,
        at: &TokenStream,
        kind: &str,
        is_number: impl Fn(&str) -> bool,
    ) -> Option<TokenStream> {
        let is = format!("`{}` is {kind}", key.path());
        if let Ok(literal) = syn::parse2::<Lit>(tokens.clone()) {
            let help = literal_help(&literal, is_number);
            self.report.error(at, format!("{is}, not `{}`{help}", shortened(&tokens.to_string())));
            return None;
        }
        let help = match syn::parse2::<Expr>(tokens.clone()) {
            Ok(Expr::Struct(_)) => String::new(),
            Ok(_) => {
                self.unknown = self.unknown.with(key);
                return Some(tokens.clone());
            }
            Err(error) => no_expression(tokens, &error),
        };
        self.report.error(at, format!("{is}{help}"));
        None
    }
}

pub(crate) fn is_string(tokens: &TokenStream) -> bool {
    matches!(syn::parse2(tokens.clone()), Ok(Lit::Str(_)))
}

/// A path of the core's table.
pub(crate) fn path(path: &str) -> TokenStream {
    let parts = path.split("::").map(|part| Ident::new(part, Span::call_site()));
    quote!(::moe_model::spec #(::#parts)*)
}

pub(crate) fn struct_literal(ty: &str, fields: &TokenStream) -> TokenStream {
    let ty = path(ty);
    quote!(#ty { #fields ..#ty::DEFAULT })
}

/// The constant of a layout, by its name.
pub(crate) fn constant(layout: &Ident) -> Ident {
    Ident::new(&capitals(&layout.to_string()), layout.span())
}

/// `OneNode` and `one_node` as `ONE_NODE`.
pub(crate) fn capitals(name: &str) -> String {
    let mut capitals = String::new();
    let mut after_small = false;
    for letter in name.trim_start_matches("r#").chars() {
        if letter.is_uppercase() && after_small {
            capitals.push('_');
        }
        after_small = letter.is_lowercase() || letter.is_numeric();
        capitals.extend(letter.to_uppercase());
    }
    capitals
}
