//! `tojson` as Python's `json.dumps` writes it, which is what the models saw.
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use crate::python::{as_float, float_text};

const INDENT_MAX: usize = 64;

struct Writer {
    out: String,
    ascii: bool,
    indent: Option<usize>,
    item: String,
    pair: String,
    sort_keys: bool,
}

/// The filter `tojson(ensure_ascii=False, indent=None, separators=None,
/// sort_keys=False)`. Nothing is escaped for HTML.
pub fn tojson(
    state: &State,
    value: &Value,
    ascii: Option<bool>,
    options: Kwargs,
) -> Result<Value, Error> {
    let indent: Option<Option<usize>> = options.get("indent")?;
    let indent = indent.flatten();
    if indent > Some(INDENT_MAX) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            format!("tojson: indent is at most {INDENT_MAX}"),
        ));
    }
    let separators: Option<Vec<String>> = options.get("separators")?;
    let [item, pair] = match separators {
        Some(given) => given.try_into().map_err(|_| {
            Error::new(ErrorKind::InvalidOperation, "tojson: separators are two strings")
        })?,
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(String::from),
    };
    let ascii = ascii.or(options.get("ensure_ascii")?).unwrap_or(false);
    let sort_keys = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut writer = Writer { out: String::new(), ascii, indent, item, pair, sort_keys };
    writer.value(state, value, 0)?;
    Ok(Value::from(writer.out))
}

impl Writer {
    fn value(&mut self, state: &State, value: &Value, depth: usize) -> Result<(), Error> {
        state.consume_fuel(1)?;
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value),
            ValueKind::String => {
                let text = value.as_str().unwrap_or_default();
                state.consume_fuel(text.len() as u64 / 64)?;
                self.string(text);
            }
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked();
                self.list(state, items, depth)?;
            }
            ValueKind::Map => self.map(state, value, depth)?,
            other => {
                return Err(Error::new(
                    ErrorKind::BadSerialization,
                    format!("tojson: {other} cannot be written as JSON"),
                ))
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        state: &State,
        items: impl Iterator<Item = Result<Value, Error>>,
        depth: usize,
    ) -> Result<(), Error> {
        self.out.push('[');
        let mut count = 0;
        for item in items {
            self.separate(count, depth + 1);
            self.value(state, &item?, depth + 1)?;
            count += 1;
        }
        self.close(']', count, depth);
        Ok(())
    }

    fn map(&mut self, state: &State, value: &Value, depth: usize) -> Result<(), Error> {
        let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.sort_keys {
            keys.sort();
        }
        self.out.push('{');
        for (count, key) in keys.iter().enumerate() {
            self.separate(count, depth + 1);
            match key.as_str() {
                Some(text) => self.string(text),
                None => {
                    self.out.push('"');
                    self.value(state, key, depth + 1)?;
                    self.out.push('"');
                }
            }
            self.out.push_str(&self.pair);
            self.value(state, &value.get_item(key)?, depth + 1)?;
        }
        self.close('}', keys.len(), depth);
        Ok(())
    }

    fn number(&mut self, value: &Value) {
        match as_float(value) {
            Some(number) if number.is_nan() => self.out.push_str("NaN"),
            Some(f64::INFINITY) => self.out.push_str("Infinity"),
            Some(f64::NEG_INFINITY) => self.out.push_str("-Infinity"),
            Some(number) => self.out.push_str(&float_text(number)),
            None => self.out.push_str(&value.to_string()),
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                '\0'..='\u{1f}' => self.escape(c as u16),
                // The marks of `marker` have to reach the text as they are.
                '\u{FDD0}'..='\u{FDEF}' => self.out.push(c),
                _ if self.ascii && !c.is_ascii() => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        self.escape(*unit);
                    }
                }
                _ => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, unit: u16) {
        self.out.push_str(&format!("\\u{unit:04x}"));
    }

    fn separate(&mut self, count: usize, depth: usize) {
        if count > 0 {
            self.out.push_str(&self.item);
        }
        self.newline(depth);
    }

    fn close(&mut self, bracket: char, count: usize, depth: usize) {
        if count > 0 {
            self.newline(depth);
        }
        self.out.push(bracket);
    }

    fn newline(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }
}
