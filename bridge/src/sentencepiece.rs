//! SentencePiece vocabularies as BPE: merges derived from pieces and scores.
use std::collections::HashMap;

/// All merges of two pieces into a third, best first: by score of the whole,
/// then longer left part, then longer right part; the rest by ids.
/// The order is that of the conversion in `transformers`.
pub fn derive_merges(pieces: &[(&str, u32, f32)]) -> Vec<(String, String)> {
    let ids: HashMap<&str, u32> = pieces.iter().map(|&(text, id, _)| (text, id)).collect();
    let mut found = Vec::new();
    for &(text, _, score) in pieces {
        let start = found.len();
        for (cut, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(cut);
            if let (Some(&l), Some(&r)) = (ids.get(left), ids.get(right)) {
                found.push(Merge { left, right, l, r, score });
            }
        }
        found[start..].sort_by_key(|m| (m.l, m.r));
    }
    found.sort_by(|a, b| {
        let size = |m: &Merge| (m.left.chars().count(), m.right.chars().count());
        b.score.total_cmp(&a.score).then_with(|| size(b).cmp(&size(a)))
    });
    found.into_iter().map(|m| (m.left.to_owned(), m.right.to_owned())).collect()
}

struct Merge<'a> {
    left: &'a str,
    right: &'a str,
    l: u32,
    r: u32,
    score: f32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_scored_piece_merges_first() {
        let pieces =
            [("a", 0, -3.0), ("b", 1, -4.0), ("c", 2, -5.0), ("ab", 3, -2.0), ("abc", 4, -1.0)];
        let merges = derive_merges(&pieces);
        assert_eq!(merges, [("ab".into(), "c".into()), ("a".into(), "b".into())]);
    }
}
