//! The C functions on chat templates. Safety: as the header says.
#![allow(clippy::missing_safety_doc)]
use crate::ffi::{border, Buffer, Str};
use crate::marker::Marker;
use crate::template::{Input, Template};
use crate::tokenizer::Tokenizer;

#[no_mangle]
pub unsafe extern "C" fn tb_template_compile(
    source: Str,
    tokenizer: *const Tokenizer,
    out: *mut *mut Template,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        let source = source.utf8("the chat template")?;
        let marker = match tokenizer.as_ref() {
            Some(tokenizer) => Some(Marker::new(tokenizer.added_tokens(), source)?),
            None => None,
        };
        out.write(Box::into_raw(Box::new(Template::new(source, marker)?)));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tb_template_free(template: *mut Template) {
    if !template.is_null() {
        drop(Box::from_raw(template));
    }
}

#[repr(C)]
pub struct TemplateInput {
    messages: Str,
    variables: Str,
    constants: Str,
    add_generation_prompt: bool,
    now: i64,
}

#[no_mangle]
pub unsafe extern "C" fn tb_template_render(
    template: *const Template,
    input: *const TemplateInput,
    out: *mut Buffer,
    mark: *mut u32,
    error: *mut Buffer,
) -> i32 {
    border(error, || {
        let input = &*input;
        let rendered = (*template).render(&Input {
            messages: input.messages.bytes(),
            variables: input.variables.bytes(),
            constants: input.constants.bytes(),
            add_generation_prompt: input.add_generation_prompt,
            now: input.now,
        })?;
        out.write(rendered.text.into_bytes().into());
        mark.write(rendered.mark.map_or(0, |mark| mark as u32));
        Ok(())
    })
}
