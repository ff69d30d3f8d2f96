//! The tokenizer: text to ids through normaliser, pre-tokenizer and model,
//! and what each id stands for.
use std::collections::HashMap;

use tokenizers::{
    AddedToken, Model, ModelWrapper, NormalizerWrapper, OffsetType, PreTokenizer,
    PreTokenizerWrapper,
};

use crate::added::{AddedTokens, Matching};
use crate::ffi::{invalid, Failure, Outcome, Status};
use crate::table::{Spelling, TokenTable, ADDED, CONTROL, HOLE};

/// The parts a tokenizer is made of, wherever they were read from.
pub struct Parts {
    pub normalizer: Option<NormalizerWrapper>,
    pub pre_tokenizer: Option<PreTokenizerWrapper>,
    pub model: ModelWrapper,
    pub added: Vec<(u32, AddedToken)>,
    pub spelling: Spelling,
    pub strips_leading_space: bool,
    /// Ids that encoding with `add_special` puts around the text.
    pub prefix: Vec<u32>,
    pub suffix: Vec<u32>,
}

pub struct Tokenizer {
    normalizer: Option<NormalizerWrapper>,
    pre_tokenizer: Option<PreTokenizerWrapper>,
    model: ModelWrapper,
    added: AddedTokens,
    added_list: Vec<(u32, AddedToken)>,
    added_ids: HashMap<String, u32>,
    prefix: Vec<u32>,
    suffix: Vec<u32>,
    pub table: TokenTable,
    pub strips_leading_space: bool,
}

#[derive(Clone, Copy)]
pub struct EncodeOptions {
    pub matching: Matching,
    pub add_special: bool,
}

impl Tokenizer {
    pub fn new(parts: Parts) -> Outcome<Tokenizer> {
        let added = AddedTokens::new(parts.added.iter().cloned(), parts.normalizer.as_ref())?;
        let table = build_table(&parts)?;
        let added_ids = parts.added.iter().map(|(id, t)| (t.content.clone(), *id)).collect();
        Ok(Tokenizer {
            normalizer: parts.normalizer,
            pre_tokenizer: parts.pre_tokenizer,
            model: parts.model,
            added,
            added_list: parts.added,
            added_ids,
            prefix: parts.prefix,
            suffix: parts.suffix,
            table,
            strips_leading_space: parts.strips_leading_space,
        })
    }

    pub fn encode(&self, text: &str, options: EncodeOptions) -> Outcome<Vec<i32>> {
        let body = self
            .encode_body(text, options.matching)
            .map_err(|e| Failure { status: Status::Internal, message: format!("encode: {e}") })?;
        let (prefix, suffix): (&[u32], &[u32]) =
            if options.add_special { (&self.prefix, &self.suffix) } else { (&[], &[]) };
        Ok(prefix.iter().chain(&body).chain(suffix).map(|&id| id as i32).collect())
    }

    fn encode_body(&self, text: &str, matching: Matching) -> tokenizers::Result<Vec<u32>> {
        let mut parts = self.added.extract(text, self.normalizer.as_ref(), matching)?;
        if let Some(pre_tokenizer) = &self.pre_tokenizer {
            pre_tokenizer.pre_tokenize(&mut parts)?;
        }
        parts.tokenize(|part| self.model.tokenize(part.get()))?;
        Ok(parts.into_encoding(None, 0, OffsetType::None)?.get_ids().to_vec())
    }

    pub fn token_to_id(&self, token: &str) -> Option<u32> {
        self.added_ids.get(token).copied().or_else(|| self.model.token_to_id(token))
    }

    /// The token as the vocabulary spells it.
    pub fn id_to_token(&self, id: u32) -> Option<String> {
        self.added_list
            .iter()
            .find(|(added, _)| *added == id)
            .map(|(_, token)| token.content.clone())
            .or_else(|| self.model.id_to_token(id))
    }

    pub fn added_tokens(&self) -> impl Iterator<Item = &AddedToken> {
        self.added_list.iter().map(|(_, token)| token)
    }
}

/// Ids above this are no vocabulary but a broken file.
const MAX_VOCAB: u32 = 1 << 24;

fn build_table(parts: &Parts) -> Outcome<TokenTable> {
    let vocab = parts.model.get_vocab();
    let last = vocab.values().chain(parts.added.iter().map(|(id, _)| id)).max();
    let Some(&last) = last else {
        return Err(invalid("the tokenizer's vocabulary is empty"));
    };
    if last >= MAX_VOCAB {
        return Err(invalid(format!("token id {last} is beyond any vocabulary ({MAX_VOCAB})")));
    }
    let mut entries: Vec<Option<(&str, u8)>> = vec![None; last as usize + 1];
    for (token, &id) in &vocab {
        entries[id as usize] = Some((token, 0));
    }
    for (id, token) in &parts.added {
        let kind = ADDED | if token.special { CONTROL } else { 0 };
        entries[*id as usize] = Some((&token.content, kind));
    }
    let mut table = TokenTable::default();
    for entry in entries {
        match entry {
            Some((token, kind)) => table.push(&parts.spelling.resolve(token, kind), kind),
            None => table.push(b"", HOLE),
        }
    }
    Ok(table)
}
