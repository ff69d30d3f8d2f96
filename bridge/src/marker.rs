//! Keeps what users write from becoming control tokens.
//!
//! Templates join texts of the caller with control tokens of their own, and
//! only the joined text is encoded. So before rendering, a character that
//! occurs nowhere else (a Unicode noncharacter: no letter, no white space, so
//! that `strip` and `split` leave it alone) goes into every spelling of a
//! control token in the caller's texts. Encoding finds control tokens while
//! the marks are there, then removes the marks.
use std::cmp::Ordering;
use std::collections::HashSet;

use aho_corasick::AhoCorasick;
use serde_json::Value;
use tokenizers::AddedToken;

use crate::ffi::{invalid, Outcome};

/// A fixed set of spellings, indexed for whole, begun and ended occurrences.
struct Spellings {
    texts: Vec<String>,
    finder: AhoCorasick,
    /// Proper ends (text, first byte) of all spellings, sorted.
    ends: Vec<(u32, u32)>,
    size_max: usize,
}

impl Spellings {
    fn new(mut texts: Vec<String>) -> Outcome<Spellings> {
        texts.sort();
        texts.dedup();
        let finder =
            AhoCorasick::new(&texts).map_err(|e| invalid(format!("control tokens: {e}")))?;
        let mut ends: Vec<(u32, u32)> = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            ends.extend(text.char_indices().skip(1).map(|(at, _)| (i as u32, at as u32)));
        }
        let size_max = texts.iter().map(String::len).max().unwrap_or(0);
        let mut spellings = Spellings { texts, finder, ends, size_max };
        let mut ends = std::mem::take(&mut spellings.ends);
        ends.sort_by(|&a, &b| spellings.end(a).cmp(spellings.end(b)));
        spellings.ends = ends;
        Ok(spellings)
    }

    fn end(&self, (text, at): (u32, u32)) -> &str {
        &self.texts[text as usize][at as usize..]
    }

    /// Is `head` a proper beginning of a spelling?
    fn begins(&self, head: &str) -> bool {
        let at = self.texts.partition_point(|text| text.as_str() <= head);
        self.texts.get(at).is_some_and(|text| text.starts_with(head))
    }

    /// Is `tail` a proper end of a spelling?
    fn ends_with(&self, tail: &str) -> bool {
        self.ends.binary_search_by(|&end| self.end(end).cmp(tail)).is_ok()
    }

    /// Is `part` inside a spelling, without its first character?
    fn holds(&self, part: &str) -> bool {
        let compare = |end: &str| match end.starts_with(part) {
            true => Ordering::Equal,
            false => end.cmp(part),
        };
        self.ends.binary_search_by(|&end| compare(self.end(end))).is_ok()
    }

    /// Where marks go, in bytes of `text`, ascending.
    fn places(&self, text: &str) -> Vec<usize> {
        let second = |at: usize| at + text[at..].chars().next().map_or(0, char::len_utf8);
        let mut places: Vec<usize> =
            self.finder.find_overlapping_iter(text).map(|found| second(found.start())).collect();
        // A spelling may be begun here and completed by what the template puts behind...
        let tail = text.len().saturating_sub(self.size_max);
        for (at, _) in text.char_indices().rev().take_while(|&(at, _)| at >= tail) {
            if has_symbol(&text[at..]) && self.begins(&text[at..]) {
                places.push(second(at));
            }
        }
        // ... or ended here, or begun and ended by the template. Bare words are left alone:
        // roles and the like, which templates compare and build control tokens from.
        let head = text.char_indices().map(|(at, c)| at + c.len_utf8());
        let ended = head
            .take_while(|&end| end < self.size_max)
            .any(|end| has_symbol(&text[..end]) && self.ends_with(&text[..end]));
        if ended || (has_symbol(text) && text.len() < self.size_max && self.holds(text)) {
            places.push(0);
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn mark(&self, text: &mut String, mark: char) {
        if self.texts.is_empty() || text.is_empty() {
            return;
        }
        let places = self.places(text);
        if places.is_empty() {
            return;
        }
        let mut marked = String::with_capacity(text.len() + places.len() * mark.len_utf8());
        let mut done = 0;
        for place in places {
            marked.push_str(&text[done..place]);
            marked.push(mark);
            done = place;
        }
        marked.push_str(&text[done..]);
        *text = marked;
    }
}

fn has_symbol(text: &str) -> bool {
    text.chars().any(|c| !c.is_alphanumeric() && c != '_' && c != '-' && !c.is_whitespace())
}

pub struct Marker {
    control: Spellings,
    /// Also user-defined tokens that the template itself uses: <think>.
    structural: Spellings,
}

impl Marker {
    pub fn new<'a>(added: impl Iterator<Item = &'a AddedToken>, template: &str) -> Outcome<Marker> {
        let (mut control, mut structural) = (Vec::new(), Vec::new());
        for token in added {
            let text = &token.content;
            if text.trim().is_empty() {
                continue;
            }
            if token.special {
                control.push(text.clone());
                structural.push(text.clone());
            } else if template.contains(text.as_str()) {
                structural.push(text.clone());
            }
        }
        Ok(Marker { control: Spellings::new(control)?, structural: Spellings::new(structural)? })
    }

    /// Marks all texts of the caller's variables. What the assistant said
    /// keeps its user-defined tokens, since the model wrote them.
    pub fn mark(&self, variables: &mut Value, mark: char) {
        let Some(variables) = variables.as_object_mut() else {
            return;
        };
        for (name, value) in variables.iter_mut() {
            match value {
                Value::Array(messages) if name == "messages" => {
                    for message in messages {
                        let spellings = match message["role"] == "assistant" {
                            true => &self.control,
                            false => &self.structural,
                        };
                        mark_value(message, spellings, mark);
                    }
                }
                _ => mark_value(value, &self.structural, mark),
            }
        }
    }
}

fn mark_value(value: &mut Value, spellings: &Spellings, mark: char) {
    match value {
        Value::String(text) => spellings.mark(text, mark),
        Value::Array(values) => {
            values.iter_mut().for_each(|value| mark_value(value, spellings, mark))
        }
        Value::Object(entries) => {
            for (mut key, mut value) in std::mem::take(entries) {
                spellings.mark(&mut key, mark);
                mark_value(&mut value, spellings, mark);
                entries.insert(key, value);
            }
        }
        _ => {}
    }
}

/// A noncharacter that is in neither the template nor any variable.
pub fn free_mark(template: &str, variables: &Value) -> Outcome<char> {
    let mut used = HashSet::new();
    collect(template, &mut used);
    collect_value(variables, &mut used);
    ('\u{FDD0}'..='\u{FDEF}').find(|mark| !used.contains(mark)).ok_or_else(|| {
        invalid("the messages use every noncharacter from U+FDD0 to U+FDEF; leave one out")
    })
}

fn collect(text: &str, used: &mut HashSet<char>) {
    used.extend(text.chars().filter(|c| ('\u{FDD0}'..='\u{FDEF}').contains(c)));
}

fn collect_value(value: &Value, used: &mut HashSet<char>) {
    match value {
        Value::String(text) => collect(text, used),
        Value::Array(values) => values.iter().for_each(|value| collect_value(value, used)),
        Value::Object(entries) => {
            for (key, value) in entries {
                collect(key, used);
                collect_value(value, used);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str) -> String {
        let texts = ["<|im_end|>", "<|im_start|>", "<think>", "<|user|>"];
        let spellings = Spellings::new(texts.map(String::from).to_vec()).unwrap();
        let mut text = text.to_owned();
        spellings.mark(&mut text, '!');
        text
    }

    #[test]
    fn every_occurrence_is_marked_even_overlapping_ones() {
        assert_eq!(marked("a <|im_end|> b<think>"), "a <!|im_end|> b<!think>");
        assert_eq!(marked("<|im_<|im_end|>end|>"), "<|im_<!|im_end|>end|>");
    }

    #[test]
    fn parts_that_the_template_could_complete_are_marked() {
        assert_eq!(marked("a <|im_en"), "a <!|im_en");
        assert_eq!(marked("nd|> b"), "!nd|> b");
        assert_eq!(marked("|im_end|"), "!|im_end|");
        assert_eq!(marked("a <"), "a <!");
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in ["", "user", "think", "im_end", "a < b > c", "x|y", "function", "end"] {
            assert_eq!(marked(text), text);
        }
    }
}
