//! What each id stands for: exact bytes and kind, in flat arrays.

/// Bits of a token's kind; the values are those of the header.
pub const ADDED: u8 = 1;
pub const CONTROL: u8 = 2;
pub const HOLE: u8 = 4;

#[derive(Default)]
pub struct TokenTable {
    pub bytes: Vec<u8>,
    /// Token `i` is `bytes[ends[i - 1]..ends[i]]`, the first one from 0.
    pub ends: Vec<u32>,
    pub kinds: Vec<u8>,
}

impl TokenTable {
    pub fn push(&mut self, bytes: &[u8], kind: u8) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(self.bytes.len() as u32);
        self.kinds.push(kind);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn bytes_of(&self, id: usize) -> &[u8] {
        let start = if id == 0 { 0 } else { self.ends[id - 1] as usize };
        &self.bytes[start..self.ends[id] as usize]
    }
}

/// How a vocabulary spells bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// Each byte is one character of the GPT-2 alphabet.
    ByteLevel,
    /// U+2581 for a space, `<0xAB>` for a byte.
    Sentencepiece,
    /// `##` continues a word; anything else begins one.
    Wordpiece,
    /// As it stands.
    Plain,
}

impl Spelling {
    pub fn resolve(self, token: &str, kind: u8) -> Vec<u8> {
        match self {
            Spelling::ByteLevel if kind & ADDED == 0 => {
                byte_level(token).unwrap_or_else(|| token.as_bytes().to_vec())
            }
            Spelling::Sentencepiece if kind & CONTROL == 0 => match fallback_byte(token) {
                Some(byte) => vec![byte],
                None => token.replace('\u{2581}', " ").into_bytes(),
            },
            Spelling::Wordpiece if kind & ADDED == 0 => match token.strip_prefix("##") {
                Some(rest) => rest.as_bytes().to_vec(),
                None => format!(" {token}").into_bytes(),
            },
            _ => token.as_bytes().to_vec(),
        }
    }
}

fn fallback_byte(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// The bytes behind a token in the GPT-2 alphabet; none if a character is not
/// of it.
fn byte_level(token: &str) -> Option<Vec<u8>> {
    token.chars().map(alphabet_byte).collect()
}

/// Printable Latin-1 stands for itself; the other 68 bytes are U+0100 and on.
fn alphabet_byte(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => Some(code as u8),
        0x100..=0x120 => Some((code - 0x100) as u8),
        0x121..=0x142 => Some((code - 0x121) as u8 + 0x7f),
        0x143 => Some(0xad),
        _ => None,
    }
}

fn alphabet_char(byte: u8) -> char {
    let code = match byte {
        0x00..=0x20 => 0x100 + byte as u32,
        0x7f..=0xa0 => 0x121 + (byte - 0x7f) as u32,
        0xad => 0x143,
        _ => byte as u32,
    };
    char::from_u32(code).expect("the alphabet is of characters")
}

/// The token in the GPT-2 alphabet, whether it was given so or as text.
pub fn to_byte_level(token: &str) -> String {
    if token.chars().all(|c| alphabet_byte(c).is_some()) {
        token.to_owned()
    } else {
        token.bytes().map(alphabet_char).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_goes_both_ways() {
        for byte in 0..=255u8 {
            assert_eq!(alphabet_byte(alphabet_char(byte)), Some(byte));
        }
        assert_eq!(alphabet_char(b' '), 'Ġ');
        assert_eq!(alphabet_char(b'\n'), 'Ċ');
    }

    #[test]
    fn byte_fallback_tokens_are_bytes() {
        assert_eq!(Spelling::Sentencepiece.resolve("<0xE2>", 0), [0xe2]);
        assert_eq!(Spelling::Sentencepiece.resolve("\u{2581}a", 0), b" a");
    }
}
