//! SentencePiece vocabularies as BPE: merges derived from pieces and scores.
use ahash::AHashMap;

/// All merges of two pieces into a third, best first: by score of the whole,
/// then by the ids of the parts.
pub fn derive_merges(pieces: &[(&str, u32, f32)]) -> Vec<(String, String)> {
    let ids: AHashMap<&str, u32> = pieces.iter().map(|&(text, id, _)| (text, id)).collect();
    let mut found = Vec::new();
    for &(text, _, score) in pieces {
        for (cut, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(cut);
            if let (Some(&l), Some(&r)) = (ids.get(left), ids.get(right)) {
                found.push((score, l, r, left, right));
            }
        }
    }
    found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    found.into_iter().map(|(.., left, right)| (left.to_owned(), right.to_owned())).collect()
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
