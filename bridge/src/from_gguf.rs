//! A tokenizer from the `tokenizer.ggml.*` metadata of a GGUF file.
use std::borrow::Cow;

use ahash::AHashMap;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::prepend::Prepend;
use tokenizers::normalizers::replace::Replace;
use tokenizers::normalizers::Sequence;
use tokenizers::{AddedToken, NormalizerWrapper};

use crate::ffi::{invalid, unsupported, Outcome};
use crate::pretok;
use crate::sentencepiece::derive_merges;
use crate::table::{to_byte_level, Spelling};
use crate::tokenizer::{Parts, Tokenizer};

const SPACE_MARK: &str = "\u{2581}";

/// `tokenizer.ggml.token_type`.
mod kind {
    pub const NORMAL: i32 = 1;
    pub const UNKNOWN: i32 = 2;
    pub const CONTROL: i32 = 3;
    pub const USER_DEFINED: i32 = 4;
}

/// The metadata; an absent array is empty, an absent id or flag is none.
pub struct Vocab<'a> {
    pub model: &'a str,
    pub pre: &'a str,
    pub architecture: &'a str,
    pub tokens: Vec<Cow<'a, str>>,
    pub scores: &'a [f32],
    pub types: &'a [i32],
    pub merges: Vec<Cow<'a, str>>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
}

pub fn build(vocab: &Vocab) -> Outcome<Tokenizer> {
    check(vocab)?;
    match vocab.model {
        "gpt2" => byte_level(vocab),
        "llama" => sentencepiece(vocab),
        other => Err(unsupported(format!(
            "tokenizer.ggml.model \"{other}\" is unknown; known are gpt2 (byte-level BPE) and \
             llama (SentencePiece)"
        ))),
    }
}

fn check(vocab: &Vocab) -> Outcome<()> {
    let count = vocab.tokens.len();
    if count == 0 {
        return Err(invalid("tokenizer.ggml.tokens is empty"));
    }
    for (name, size) in [("scores", vocab.scores.len()), ("token_type", vocab.types.len())] {
        if size != 0 && size != count {
            return Err(invalid(format!(
                "tokenizer.ggml.{name} has {size} entries where tokenizer.ggml.tokens has {count}"
            )));
        }
    }
    for (name, id) in [("bos", vocab.bos), ("eos", vocab.eos), ("unknown", vocab.unknown)] {
        if id.is_some_and(|id| id as usize >= count) {
            return Err(invalid(format!(
                "tokenizer.ggml.{name}_token_id is {}, beyond the {count} tokens",
                id.unwrap_or_default()
            )));
        }
    }
    Ok(())
}

impl Vocab<'_> {
    fn kind(&self, id: usize) -> i32 {
        self.types.get(id).copied().unwrap_or(kind::NORMAL)
    }

    fn is_added(&self, id: usize) -> bool {
        matches!(self.kind(id), kind::CONTROL | kind::UNKNOWN | kind::USER_DEFINED)
    }

    fn added(&self) -> Vec<(u32, AddedToken)> {
        (0..self.tokens.len())
            .filter(|&id| self.is_added(id))
            .map(|id| {
                let special = self.kind(id) != kind::USER_DEFINED;
                let token = AddedToken::from(&*self.tokens[id], special).normalized(false);
                (id as u32, token)
            })
            .collect()
    }

    fn merge_pairs(&self) -> Outcome<Vec<(String, String)>> {
        let pair = |(rank, merge): (usize, &Cow<str>)| match merge.split_once(' ') {
            Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
            None => {
                Err(invalid(format!("tokenizer.ggml.merges[{rank}] is not two tokens and a space")))
            }
        };
        self.merges.iter().enumerate().map(pair).collect()
    }

    fn surroundings(&self, adds_bos: bool) -> Outcome<(Vec<u32>, Vec<u32>)> {
        let wanted = |flag: bool, id: Option<u32>, name: &str| match (flag, id) {
            (false, _) => Ok(Vec::new()),
            (true, Some(id)) => Ok(vec![id]),
            (true, None) => Err(invalid(format!(
                "tokenizer.ggml.add_{name}_token is set, but there is no \
                 tokenizer.ggml.{name}_token_id"
            ))),
        };
        let adds_bos = self.add_bos.unwrap_or(adds_bos && self.bos.is_some());
        Ok((
            wanted(adds_bos, self.bos, "bos")?,
            wanted(self.add_eos.unwrap_or(false), self.eos, "eos")?,
        ))
    }
}

fn byte_level(vocab: &Vocab) -> Outcome<Tokenizer> {
    let pre = pretok::by_name(if vocab.pre.is_empty() { "default" } else { vocab.pre })?;
    let ids = vocab.tokens.iter().enumerate().map(|(id, token)| {
        let token = if vocab.is_added(id) { token.to_string() } else { to_byte_level(token) };
        (token, id as u32)
    });
    let ids: AHashMap<_, _> = ids.collect();
    let model = BPE::builder()
        .vocab_and_merges(ids, vocab.merge_pairs()?)
        .ignore_merges(pre.ignore_merges)
        .build()
        .map_err(|e| invalid(format!("tokenizer.ggml.merges: {e}")))?;
    let (prefix, suffix) = vocab.surroundings(pre.adds_bos)?;
    Tokenizer::new(Parts {
        normalizer: pre.normalizer,
        pre_tokenizer: Some(pre.pre_tokenizer),
        model: model.into(),
        added: vocab.added(),
        spelling: Spelling::ByteLevel,
        strips_leading_space: false,
        prefix,
        suffix,
    })
}

fn sentencepiece(vocab: &Vocab) -> Outcome<Tokenizer> {
    let merges = if vocab.merges.is_empty() {
        let score = |id: usize| vocab.scores.get(id).copied().unwrap_or(0.0);
        let pieces: Vec<_> = (0..vocab.tokens.len())
            .filter(|&id| vocab.kind(id) == kind::NORMAL)
            .map(|id| (&*vocab.tokens[id], id as u32, score(id)))
            .collect();
        derive_merges(&pieces)
    } else {
        vocab.merge_pairs()?
    };
    let ids: AHashMap<_, _> =
        vocab.tokens.iter().enumerate().map(|(id, token)| (token.to_string(), id as u32)).collect();
    let mut builder =
        BPE::builder().vocab_and_merges(ids, merges).byte_fallback(true).fuse_unk(true);
    if let Some(unknown) = vocab.unknown {
        builder = builder.unk_token(vocab.tokens[unknown as usize].to_string());
    }
    let model = builder.build().map_err(|e| invalid(format!("tokenizer.ggml.merges: {e}")))?;
    // Old Gemma files lack the flag, and none of them puts a space in front.
    let is_gemma = vocab.architecture.starts_with("gemma");
    let prefix_space = vocab.add_space_prefix.unwrap_or(!is_gemma);
    let (prefix, suffix) = vocab.surroundings(true)?;
    Tokenizer::new(Parts {
        normalizer: Some(space_marks(prefix_space)?),
        pre_tokenizer: None,
        model: model.into(),
        added: vocab.added(),
        spelling: Spelling::Sentencepiece,
        strips_leading_space: prefix_space,
        prefix,
        suffix,
    })
}

/// Spaces become U+2581, and one may stand before the text.
fn space_marks(prefix_space: bool) -> Outcome<NormalizerWrapper> {
    let replace = Replace::new(" ", SPACE_MARK).map_err(|e| invalid(e.to_string()))?;
    let mut steps: Vec<NormalizerWrapper> = Vec::new();
    if prefix_space {
        steps.push(Prepend::new(SPACE_MARK.to_owned()).into());
    }
    steps.push(replace.into());
    Ok(Sequence::new(steps).into())
}
