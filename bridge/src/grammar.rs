//! Grammars: which tokens may come next.
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use toktrie::{TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv};

use crate::added::Matching;
use crate::ffi::{invalid, Failure, Outcome, Status};
use crate::table::CONTROL;
use crate::tokenizer::{EncodeOptions, Tokenizer};

struct Environment {
    tokenizer: Arc<Tokenizer>,
    trie: TokTrie,
}

impl Environment {
    fn new(tokenizer: Arc<Tokenizer>, eos: &[TokenId]) -> Outcome<Environment> {
        let table = &tokenizer.table;
        let Some(&first) = eos.first() else {
            return Err(invalid("grammars need at least one EOS id"));
        };
        if let Some(id) = eos.iter().find(|&&id| id as usize >= table.len()) {
            return Err(invalid(format!("EOS id {id} is beyond the {} tokens", table.len())));
        }
        let mut words: Vec<Vec<u8>> = Vec::with_capacity(table.len());
        for id in 0..table.len() {
            let mut word = Vec::new();
            if table.kinds[id] & CONTROL != 0 {
                word.push(TokTrie::SPECIAL_TOKEN_MARKER);
            }
            word.extend_from_slice(table.bytes_of(id));
            words.push(word);
        }
        let info = TokRxInfo::new(words.len() as u32, first);
        let trie = TokTrie::from(&info, &words).with_eos_tokens(eos);
        Ok(Environment { tokenizer, trie })
    }
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            let options = EncodeOptions {
                matching: Matching { parse_special: false, mark: None },
                add_special: false,
            };
            let ids = self.tokenizer.encode(text, options).unwrap_or_default();
            ids.into_iter().map(|id| id as TokenId).collect()
        })
    }
}

pub struct Grammars {
    factory: ParserFactory,
}

impl Grammars {
    pub fn new(tokenizer: Arc<Tokenizer>, eos: &[TokenId]) -> Outcome<Grammars> {
        let environment: TokEnv = Arc::new(Environment::new(tokenizer, eos)?);
        let mut factory = ParserFactory::new_simple(&environment).map_err(internal)?;
        factory.quiet();
        Ok(Grammars { factory })
    }

    pub fn compile(&self, tag: &str, text: &str) -> Outcome<Matcher> {
        let wrong = |e: anyhow::Error| invalid(format!("{tag}: {e}"));
        let grammar = TopLevelGrammar::from_tagged_str(tag, text).map_err(wrong)?;
        Ok(Matcher::new(Ok(self.factory.create_parser(grammar).map_err(wrong)?)))
    }
}

/// Fills `bits` with the tokens that may come next.
pub fn mask(matcher: &mut Matcher, bits: &mut [u32]) -> Outcome<()> {
    let allowed = matcher.compute_mask_or_eos().map_err(internal)?;
    // It has room for one token more than the vocabulary, so perhaps a word more.
    let allowed = allowed.as_slice();
    let words = allowed.len().min(bits.len());
    if allowed[words..].iter().any(|&word| word != 0) {
        return Err(invalid(format!(
            "the mask has {} words, fewer than the vocabulary needs",
            bits.len()
        )));
    }
    bits.fill(0);
    bits[..words].copy_from_slice(&allowed[..words]);
    Ok(())
}

pub fn accept(matcher: &mut Matcher, id: i32) -> Outcome<()> {
    let wrong = || invalid(format!("token {id} is not allowed by the grammar here"));
    let id = TokenId::try_from(id).map_err(|_| wrong())?;
    match matcher.try_consume_tokens(&[id]).map_err(internal)? {
        1 => Ok(()),
        _ => Err(wrong()),
    }
}

pub fn internal(error: anyhow::Error) -> Failure {
    Failure { status: Status::Internal, message: format!("grammar: {error}") }
}
