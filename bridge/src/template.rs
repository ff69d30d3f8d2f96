//! Chat templates: Jinja as transformers runs it, within a budget.
use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{context, escape_formatter, Environment, Error, ErrorKind, Output, State, Value};
use serde_json::Map;

use crate::ffi::{invalid, Failure, Outcome, Status};
use crate::marker::{free_mark, Marker};
use crate::messages::{normalise, plain_contents};
use crate::pyjson::tojson;
use crate::python;

/// Steps of one rendering; a step also pays for 64 bytes of data. Rendering a
/// conversation of a few megabytes takes well below a tenth of it.
const FUEL: u64 = 2_000_000;
const OUTPUT_BYTES_MAX: usize = 64 << 20;
const SOURCE_BYTES_MAX: usize = 4 << 20;
const NAME: &str = "chat template";

pub struct Template {
    environment: Environment<'static>,
    source: String,
    marker: Option<Marker>,
    /// It looks at what a content is, so it may be a list of parts.
    knows_parts: bool,
}

/// JSON texts, as they came.
pub struct Input<'a> {
    /// An array of messages.
    pub messages: &'a [u8],
    /// An object of the caller's other variables.
    pub variables: &'a [u8],
    /// An object of texts of the model's files; they win.
    pub constants: &'a [u8],
    pub add_generation_prompt: bool,
    /// What strftime_now shows, in seconds since 1970.
    pub now: i64,
}

pub struct Rendered {
    pub text: String,
    /// The character that disturbs spellings of control tokens in the text.
    pub mark: Option<char>,
}

/// What `raise_exception` was called with.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl Template {
    pub fn new(source: &str, marker: Option<Marker>) -> Outcome<Template> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(invalid(format!(
                "the chat template has {} bytes; at most {SOURCE_BYTES_MAX} are read",
                source.len()
            )));
        }
        let mut environment = Environment::new();
        environment.set_syntax(
            SyntaxConfig::builder()
                .trim_blocks(true)
                .lstrip_blocks(true)
                .build()
                .map_err(|e| failure(&e))?,
        );
        environment.set_fuel(Some(FUEL));
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(formatter);
        environment.remove_global("debug");
        environment.add_filter("tojson", tojson);
        environment.add_filter("int", python::int);
        environment.add_filter("float", python::float);
        environment.add_filter("indent", python::indent);
        environment.add_filter("escape", python::escape);
        environment.add_filter("e", python::escape);
        environment.add_function("raise_exception", |message: &Value| -> Result<Value, Error> {
            let message = message.to_string();
            Err(Error::new(ErrorKind::InvalidOperation, message.clone())
                .with_source(Raised(message)))
        });
        environment
            .add_template_owned(NAME, without_generation_tags(&newlines(source)).into_owned())
            .map_err(|e| failure(&e))?;
        let knows_parts =
            ["is string", "is not string", "is iterable", "is sequence", "is mapping"]
                .iter()
                .any(|test| source.contains(test));
        Ok(Template { environment, source: source.to_owned(), marker, knows_parts })
    }

    pub fn render(&self, input: &Input) -> Outcome<Rendered> {
        let mut messages = parse(input.messages, "messages")?;
        normalise(&mut messages, !self.knows_parts)?;
        let outcome = self.render_messages(input, messages.clone());
        match &outcome {
            // The template may add a text to a content that is absent or a list.
            Err(error) if !error.raised && plain_contents(&mut messages) => {
                self.render_messages(input, messages)
            }
            _ => outcome,
        }
        .map_err(|error| error.failure)
    }

    fn render_messages(
        &self,
        input: &Input,
        messages: serde_json::Value,
    ) -> Result<Rendered, Refusal> {
        let mut variables = self.variables(input, messages)?;
        let mut mark = None;
        if let Some(marker) = &self.marker {
            let free = free_mark(&self.source, &variables)?;
            marker.mark(&mut variables, free);
            mark = Some(free);
        }
        let variables = variables.as_object_mut().expect("made as an object");
        for (name, value) in parse_object(input.constants, "constants")? {
            variables.insert(name, value);
        }
        let now = input.now;
        let strftime_now = move |format: &str| strftime(format, now);
        let context = context! {
            strftime_now => Value::from_function(strftime_now),
            ..to_value(serde_json::Value::Object(std::mem::take(variables)))
        };
        let template = self.environment.get_template(NAME).map_err(|e| refusal(&e))?;
        let mut output = Limited(Vec::new());
        template.render_captured_to(context, &mut output).map_err(|e| refusal(&e))?;
        let text = String::from_utf8(output.0)
            .map_err(|_| invalid("the chat template cut a character in two"))?;
        Ok(Rendered { text, mark })
    }

    fn variables(&self, input: &Input, messages: serde_json::Value) -> Outcome<serde_json::Value> {
        let mut variables = parse_object(input.variables, "variables")?;
        for name in ["tools", "documents"] {
            variables.entry(name).or_insert(serde_json::Value::Null);
        }
        variables.entry("add_generation_prompt").or_insert(input.add_generation_prompt.into());
        variables.insert("messages".into(), messages);
        Ok(variables.into())
    }
}

fn parse(json: &[u8], what: &str) -> Outcome<serde_json::Value> {
    serde_json::from_slice(json).map_err(|e| invalid(format!("{what} of the chat template: {e}")))
}

fn parse_object(json: &[u8], what: &str) -> Outcome<Map<String, serde_json::Value>> {
    match parse(json, what)? {
        serde_json::Value::Object(entries) => Ok(entries),
        _ => Err(invalid(format!("{what} of the chat template: expected a JSON object"))),
    }
}

fn to_value(json: serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text),
        serde_json::Value::Array(items) => items.into_iter().map(to_value).collect(),
        serde_json::Value::Object(entries) => {
            Value::from_pairs(entries.into_iter().map(|(key, value)| (key, to_value(value))))
        }
    }
}

/// A failure, and whether the template itself wanted it.
struct Refusal {
    failure: Failure,
    raised: bool,
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal { failure, raised: false }
    }
}

/// What a failed compilation or rendering means to the caller.
fn refusal(error: &Error) -> Refusal {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = source {
        if let Some(Raised(message)) = cause.downcast_ref() {
            return Refusal { failure: invalid(message), raised: true };
        }
        if cause.downcast_ref::<Error>().is_some_and(|e| e.kind() == ErrorKind::OutOfFuel) {
            return budget(format!("does more than {FUEL} steps"));
        }
        if cause.downcast_ref::<io::Error>().is_some() {
            return budget(format!("writes more than {OUTPUT_BYTES_MAX} bytes"));
        }
        source = cause.source();
    }
    invalid(format!("chat template: {error}")).into()
}

fn failure(error: &Error) -> Failure {
    refusal(error).failure
}

fn budget(what: String) -> Refusal {
    let message = format!("the chat template {what}; it was stopped");
    Refusal { failure: Failure { status: Status::Budget, message }, raised: true }
}

struct Limited(Vec<u8>);

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > OUTPUT_BYTES_MAX {
            return Err(io::Error::other("too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Printing a list costs what walking it does: it may be short to write and
/// long to print (`[x] * 99999999`).
fn formatter(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    if let Some(number) = python::as_float(value) {
        return Ok(out.write_str(&python::float_text(number))?);
    }
    if !matches!(value.kind(), ValueKind::String | ValueKind::Number) {
        charge_walk(state, value)?;
    }
    escape_formatter(out, state, value)
}

fn charge_walk(state: &State, value: &Value) -> Result<(), Error> {
    state.consume_fuel(1)?;
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.checked().try_for_each(|item| charge_walk(state, &item?))
        }
        ValueKind::Map => value
            .try_iter()?
            .checked()
            .try_for_each(|key| charge_walk(state, &value.get_item(&key?)?)),
        _ => Ok(()),
    }
}

/// Jinja reads every kind of line end as "\n".
fn newlines(source: &str) -> Cow<'_, str> {
    match source.contains('\r') {
        true => Cow::Owned(source.replace("\r\n", "\n").replace('\r', "\n")),
        false => Cow::Borrowed(source),
    }
}

/// `{% generation %}` marks what a model is trained on; here it does nothing.
fn without_generation_tags(source: &str) -> Cow<'_, str> {
    if !source.contains("generation") {
        return Cow::Borrowed(source);
    }
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(size) = rest[start..].find("%}") else {
            break;
        };
        let (before, tag) = (&rest[..start], &rest[start + 2..start + size]);
        out.push_str(before);
        let name = tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        let replaced = match name {
            "generation" => tag.replace(name, "if true"),
            "endgeneration" => tag.replace(name, "endif"),
            _ => tag.to_owned(),
        };
        out.push_str("{%");
        out.push_str(&replaced);
        rest = &rest[start + size..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Local time as the C library formats it, like Python's `strftime`.
fn strftime(format: &str, now: i64) -> Result<String, Error> {
    let wrong = || Error::new(ErrorKind::InvalidOperation, "strftime_now: format is too long");
    // A character in front, since an empty result and a full buffer look the same.
    let format = std::ffi::CString::new(format!("x{format}")).map_err(|_| wrong())?;
    let mut buffer = [0u8; 512];
    // SAFETY: localtime_r and strftime write into what they are given, of the size they are told.
    let size = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        let now = now as libc::time_t;
        if libc::localtime_r(&now, &mut parts).is_null() {
            return Err(wrong());
        }
        libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &parts)
    };
    if size == 0 {
        return Err(wrong());
    }
    Ok(String::from_utf8_lossy(&buffer[1..size]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(variables: &str) -> Input<'_> {
        Input {
            messages: b"[]",
            variables: variables.as_bytes(),
            constants: b"{}",
            add_generation_prompt: false,
            now: 0,
        }
    }

    fn render(source: &str, variables: &str) -> String {
        let template = Template::new(source, None).unwrap();
        template.render(&input(variables)).unwrap().text
    }

    #[test]
    fn json_is_written_as_python_does() {
        let value = r#"{"v": {"b": [1, 2.0, true, null], "a": "<é\n>'&"}, "e": []}"#;
        let plain = r#"{"b": [1, 2.0, true, null], "a": "<é\n>'&"}"#;
        assert_eq!(render("{{ v | tojson }}", value), plain);
        assert_eq!(
            render("{{ v | tojson(indent=2) }}", value),
            "{\n  \"b\": [\n    1,\n    2.0,\n    true,\n    null\n  ],\n  \"a\": \"<é\\n>'&\"\n}"
        );
        assert_eq!(render("{{ e | tojson(indent=2) }}", value), "[]");
        assert_eq!(
            render(
                "{{ v | tojson(ensure_ascii=True, sort_keys=True, separators=(',', ':')) }}",
                value
            ),
            r#"{"a":"<\u00e9\n>'&","b":[1,2.0,true,null]}"#
        );
    }

    #[test]
    fn generation_tags_are_tolerated() {
        let source =
            "a{%- generation -%} b {%- endgeneration %} c{% generation %}d{% endgeneration %}";
        assert_eq!(render(source, "{}"), "ab cd");
    }

    #[test]
    fn a_template_that_does_too_much_is_stopped() {
        for source in [
            "{% for a in range(2000) %}{% for b in range(2000) %}{% for c in range(2000) %}\
             {% endfor %}{% endfor %}{% endfor %}",
            "{{ 'x' * 2000000000 }}",
            "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s ~ ns.s %}\
             {% endfor %}",
            "{{ 'abc' | replace('', 'y' * 900000) | replace('', 'y' * 900000) }}",
            "{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}",
            "{{ ['x'] * 99999999 }}",
            "{{ (['x'] * 99999999) | join }}",
            "{{ (['x'] * 99999999) | tojson }}",
            "{{ (['x'] * 99999999) | list | length }}",
            "{{ range(99999999) | list | length }}",
            "{{ [1] | batch(999999999, 'x') | list }}",
            "{{ 'x' | indent(999999999, true) }}",
            "{{ [1] | tojson(indent=999999999) }}",
            "{{ '%999999999d' | format(1) }}",
            "{{ '{:999999999}'.format(1) }}",
        ] {
            let outcome = Template::new(source, None).and_then(|t| t.render(&input("{}")));
            assert!(outcome.is_err(), "{source}");
        }
    }
}
