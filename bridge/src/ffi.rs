//! What every function behind the C header shares: borrowed strings, owned
//! buffers, status codes, and the border that no panic crosses.
use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Why a call failed; the values are those of `tb_status` in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    Ok = 0,
    Invalid = 1,
    Unsupported = 2,
    Budget = 3,
    Internal = 4,
}

#[derive(Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

pub type Outcome<T> = Result<T, Failure>;

pub fn invalid(message: impl Into<String>) -> Failure {
    Failure { status: Status::Invalid, message: message.into() }
}

pub fn unsupported(message: impl Into<String>) -> Failure {
    Failure { status: Status::Unsupported, message: message.into() }
}

/// Bytes the caller owns; they need to live for the length of the call only.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Str {
    data: *const u8,
    size: usize,
}

impl Str {
    /// # Safety
    /// `data` points at `size` readable bytes, or `size` is 0.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        slice(self.data, self.size)
    }

    /// # Safety
    /// As for `bytes`. `what` names the argument in the error.
    pub unsafe fn utf8<'a>(self, what: &str) -> Outcome<&'a str> {
        std::str::from_utf8(self.bytes()).map_err(|e| {
            invalid(format!("{what} is not valid UTF-8: byte {} is wrong", e.valid_up_to()))
        })
    }
}

/// # Safety
/// `data` points at `size` readable values, or `size` is 0.
pub unsafe fn slice<'a, T>(data: *const T, size: usize) -> &'a [T] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// An array that the bridge allocated and that its free function releases.
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
    capacity: usize,
}

pub type Buffer = Owned<u8>;
pub type Ids = Owned<i32>;

impl<T> From<Vec<T>> for Owned<T> {
    fn from(values: Vec<T>) -> Self {
        let mut values = std::mem::ManuallyDrop::new(values);
        Owned { data: values.as_mut_ptr(), size: values.len(), capacity: values.capacity() }
    }
}

impl<T> Owned<T> {
    /// Releases the array and leaves an empty one.
    ///
    /// # Safety
    /// The value was made by the bridge, or is all zero.
    pub unsafe fn release(&mut self) {
        if !self.data.is_null() {
            drop(Vec::from_raw_parts(self.data, self.size, self.capacity));
        }
        *self = Owned { data: std::ptr::null_mut(), size: 0, capacity: 0 };
    }
}

/// Runs `body`; a failure or a panic becomes a status and a message.
///
/// # Safety
/// `error` is null or points at an empty buffer.
pub unsafe fn border(error: *mut Buffer, body: impl FnOnce() -> Outcome<()>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        Err(Failure { status: Status::Internal, message: panic_message(panic.as_ref()) })
    });
    match outcome {
        Ok(()) => Status::Ok as i32,
        Err(failure) => {
            if !error.is_null() {
                error.write(failure.message.into_bytes().into());
            }
            failure.status as i32
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("unknown");
    format!("internal error in the bridge: {text}")
}

#[no_mangle]
pub unsafe extern "C" fn tb_buffer_free(buffer: *mut Buffer) {
    if !buffer.is_null() {
        (*buffer).release();
    }
}

#[no_mangle]
pub unsafe extern "C" fn tb_ids_free(ids: *mut Ids) {
    if !ids.is_null() {
        (*ids).release();
    }
}
