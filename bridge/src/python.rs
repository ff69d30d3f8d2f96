//! What Jinja templates take from Python and minijinja lacks or does
//! otherwise: number texts, string methods and filters.
use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat;

/// `repr` of a float: the shortest digits that read back as the same number.
pub fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format of {:e}");
    let exponent: i32 = exponent.parse().expect("the format of {:e}");
    if (-4..16).contains(&exponent) || number == 0.0 {
        return format!("{number:?}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The number of a value, if it is a float.
pub fn as_float(value: &Value) -> Option<f64> {
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    f64::try_from(value.clone()).ok()
}

/// Python's methods: those of minijinja-contrib and a few more.
pub fn method(
    state: &mut State,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let argument = args.first().and_then(Value::as_str);
    match (value.as_str(), method, argument) {
        (Some(text), "removeprefix", Some(affix)) => {
            Ok(Value::from(text.strip_prefix(affix).unwrap_or(text)))
        }
        (Some(text), "removesuffix", Some(affix)) => {
            Ok(Value::from(text.strip_suffix(affix).unwrap_or(text)))
        }
        (Some(text), "rsplit", _) => Ok(rsplit(text, argument, args.get(1))),
        (Some(text), "index", Some(part)) => match text.find(part) {
            Some(at) => Ok(Value::from(text[..at].chars().count())),
            None => Err(Error::new(ErrorKind::InvalidOperation, "substring not found")),
        },
        _ => pycompat::unknown_method_callback(state, value, method, args),
    }
}

fn rsplit(text: &str, separator: Option<&str>, count: Option<&Value>) -> Value {
    let splits = count.and_then(Value::as_i64).filter(|&n| n >= 0);
    let parts_max = splits.map_or(usize::MAX, |n| n as usize + 1);
    let mut parts: Vec<&str> = match separator {
        Some(separator) => text.rsplitn(parts_max, separator).collect(),
        None => rsplit_space(text, parts_max),
    };
    parts.reverse();
    parts.into_iter().map(Value::from).collect()
}

fn rsplit_space(text: &str, parts_max: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let start = match rest.rfind(char::is_whitespace) {
            Some(at) if parts.len() + 1 < parts_max => {
                at + rest[at..].chars().next().map_or(0, char::len_utf8)
            }
            _ => rest.len() - rest.trim_start().len(),
        };
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end();
    }
    parts
}

/// The filter `int(default=0, base=10)`.
pub fn int(value: &Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let default = default.or(options.get("default")?).unwrap_or_else(|| Value::from(0));
    let base: u32 = options.get::<Option<u32>>("base")?.unwrap_or(10);
    options.assert_all_used()?;
    let parsed = match value.as_str() {
        Some(text) => {
            let text = text.trim().replace('_', "");
            match i64::from_str_radix(&text, base.clamp(2, 36)) {
                Ok(number) => Some(Value::from(number)),
                Err(_) => text.parse().ok().and_then(truncated),
            }
        }
        None if value.is_integer() => Some(value.clone()),
        None if value.kind() == ValueKind::Bool => Some(Value::from(value.is_true() as i64)),
        None => as_float(value).and_then(truncated),
    };
    Ok(parsed.unwrap_or(default))
}

fn truncated(number: f64) -> Option<Value> {
    let whole = number.trunc();
    (whole.abs() < 9.2e18).then(|| Value::from(whole as i64))
}

/// The filter `float(default=0.0)`.
pub fn float(value: &Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let default = default.or(options.get("default")?).unwrap_or_else(|| Value::from(0.0));
    options.assert_all_used()?;
    let parsed = match value.as_str() {
        Some(text) => text.trim().parse().ok(),
        None if value.kind() == ValueKind::Bool => Some(value.is_true() as i64 as f64),
        None => f64::try_from(value.clone()).ok(),
    };
    Ok(parsed.map_or(default, Value::from))
}

/// The filter `escape`, with the entities of markupsafe.
pub fn escape(value: &Value) -> Value {
    if value.is_safe() {
        return value.clone();
    }
    let mut out = String::new();
    for c in value.to_string().chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(c),
        }
    }
    Value::from_safe_string(out)
}

/// The filter `indent(width=4, first=False, blank=False)`.
pub fn indent(
    state: &State,
    text: &str,
    args: Rest<Value>,
    options: Kwargs,
) -> Result<String, Error> {
    let option = |at: usize, name| match args.get(at) {
        Some(given) => Ok(Some(given.clone())),
        None => options.get::<Option<Value>>(name),
    };
    let width = option(0, "width")?.unwrap_or_else(|| Value::from(4));
    let first = option(1, "first")?.is_some_and(|value| value.is_true());
    let blank = option(2, "blank")?.is_some_and(|value| value.is_true());
    options.assert_all_used()?;
    let wrong = || Error::new(ErrorKind::InvalidOperation, "indent: width is a number or a text");
    let size =
        width.as_str().map_or_else(|| width.as_usize().ok_or_else(wrong), |t| Ok(t.len()))?;
    let lines: Vec<&str> = text.split('\n').collect();
    state.consume_fuel((lines.len() as u64).saturating_mul(size as u64) / 64)?;
    let prefix = width.as_str().map_or_else(|| " ".repeat(size), String::from);
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        if if i == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&prefix);
        }
        out.push_str(line);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (number, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (1.25e100, "1.25e+100"),
        ] {
            assert_eq!(float_text(number), text);
        }
    }

    #[test]
    fn texts_split_from_the_right() {
        assert_eq!(rsplit("a-b-c", Some("-"), Some(&Value::from(1))).to_string(), "['a-b', 'c']");
        assert_eq!(rsplit(" a  b ", None, None).to_string(), "['a', 'b']");
        assert_eq!(rsplit(" a b c ", None, Some(&Value::from(1))).to_string(), "['a b', 'c']");
    }
}
