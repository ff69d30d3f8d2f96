//! Added tokens: spellings that are cut out of the text before the model
//! sees it. Control tokens are those with `special`.
use aho_corasick::{AhoCorasick, MatchKind};
use tokenizers::normalizer::Range;
use tokenizers::{
    AddedToken, NormalizedString, Normalizer, NormalizerWrapper, PreTokenizedString, Token,
};

use crate::ffi::{invalid, Outcome};

struct Finder {
    automaton: AhoCorasick,
    tokens: Vec<(u32, AddedToken)>,
}

impl Finder {
    fn new(entries: Vec<(String, u32, AddedToken)>) -> Outcome<Option<Finder>> {
        if entries.is_empty() {
            return Ok(None);
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(entries.iter().map(|(text, _, _)| text))
            .map_err(|e| invalid(format!("added tokens: {e}")))?;
        let tokens = entries.into_iter().map(|(_, id, token)| (id, token)).collect();
        Ok(Some(Finder { automaton, tokens }))
    }

    /// Cuts `text` into (range, added token id) without gaps. A spelling that
    /// a mark follows at once belongs to marked text and is no match.
    fn cut(&self, text: &str, how: Matching) -> Vec<((usize, usize), Option<u32>)> {
        let mut parts = Vec::new();
        let mut done = 0;
        for found in self.automaton.find_iter(text) {
            let (id, token) = &self.tokens[found.pattern().as_usize()];
            let (before, after) = (&text[..found.start()], &text[found.end()..]);
            if (token.special && !how.parse_special)
                || how.mark.is_some_and(|mark| after.starts_with(mark))
                || (token.single_word && !is_word(before, after))
            {
                continue;
            }
            let mut start = found.start();
            if token.lstrip {
                start = before.trim_end().len().max(done);
            }
            let mut end = found.end();
            if token.rstrip {
                end = text.len() - after.trim_start().len();
            }
            if done < start {
                parts.push(((done, start), None));
            }
            parts.push(((start, end), Some(*id)));
            done = end;
        }
        if done < text.len() {
            parts.push(((done, text.len()), None));
        }
        parts
    }
}

fn is_word(before: &str, after: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    !before.chars().next_back().is_some_and(word) && !after.chars().next().is_some_and(word)
}

/// How the added tokens of a text are looked for.
#[derive(Clone, Copy)]
pub struct Matching {
    /// Control tokens count; otherwise their spelling is plain text.
    pub parse_special: bool,
    /// A character that only disturbs spellings: removed after the search.
    pub mark: Option<char>,
}

pub struct AddedTokens {
    raw: Option<Finder>,
    normalized: Option<Finder>,
}

impl AddedTokens {
    pub fn new(
        tokens: impl IntoIterator<Item = (u32, AddedToken)>,
        normalizer: Option<&NormalizerWrapper>,
    ) -> Outcome<AddedTokens> {
        let (mut raw, mut normalized) = (Vec::new(), Vec::new());
        for (id, token) in tokens {
            if token.content.is_empty() {
                continue;
            }
            if token.normalized {
                let mut text = NormalizedString::from(token.content.as_str());
                normalize(normalizer, &mut text)?;
                if !text.get().is_empty() {
                    normalized.push((text.get().to_owned(), id, token));
                }
            } else {
                raw.push((token.content.clone(), id, token));
            }
        }
        Ok(AddedTokens { raw: Finder::new(raw)?, normalized: Finder::new(normalized)? })
    }

    /// Cuts the added tokens out of `text` and normalises what is between.
    pub fn extract(
        &self,
        text: &str,
        normalizer: Option<&NormalizerWrapper>,
        how: Matching,
    ) -> tokenizers::Result<PreTokenizedString> {
        let mut parts = PreTokenizedString::from(text);
        if let Some(finder) = &self.raw {
            parts.split(|_, part| Ok(split(part, finder, how)))?;
        }
        parts.split(|_, mut part| {
            if let Some(normalizer) = normalizer {
                normalizer.normalize(&mut part)?;
            }
            let mut pieces = match &self.normalized {
                Some(finder) => split(part, finder, how),
                None => vec![(part, None)],
            };
            if let Some(mark) = how.mark {
                for (piece, tokens) in &mut pieces {
                    if tokens.is_none() {
                        piece.filter(|c| c != mark);
                    }
                }
            }
            Ok(pieces)
        })?;
        Ok(parts)
    }
}

fn split(
    text: NormalizedString,
    finder: &Finder,
    how: Matching,
) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
    let parts = finder.cut(text.get(), how);
    if let [(_, None)] = parts[..] {
        return vec![(text, None)];
    }
    parts
        .into_iter()
        .map(|((start, end), id)| {
            let slice = text
                .slice(Range::Normalized(start..end))
                .expect("added tokens are found at character borders");
            let token = id.map(|id| vec![Token::new(id, String::new(), (0, end - start))]);
            (slice, token)
        })
        .collect()
}

fn normalize(normalizer: Option<&NormalizerWrapper>, text: &mut NormalizedString) -> Outcome<()> {
    match normalizer {
        Some(normalizer) => {
            normalizer.normalize(text).map_err(|e| invalid(format!("normalizer: {e}")))
        }
        None => Ok(()),
    }
}
