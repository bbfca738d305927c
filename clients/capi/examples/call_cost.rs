//! What a call through the C interface costs beside the same one in Rust: `call_cost ADDRESS:PORT JOB`.
//!
//! Two jobs of one rank, JOB and the next, at an appliance that admits them. They sum 4 KiB in turns, so that
//! whatever disturbs one disturbs the other. Prints medians in microseconds as a JSON object.
#![allow(unsafe_code, reason = "calls what C calls")]

use core::ffi::{c_int, c_void};
use core::ptr;
use std::error::Error;
use std::ffi::CString;
use std::time::Instant;

use pascaline::pascaline_status::PASCALINE_OK;
use pascaline::{pascaline_allreduce, pascaline_dtype, pascaline_finalize, pascaline_init, pascaline_op};
use pascaline_worker::{Config, Worker};

const ELEMENTS: usize = 1024;
const WARM_UP: usize = 200;
const TURNS: usize = 4000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [appliance, job] = &arguments[..] else { return Err("usage: call_cost ADDRESS:PORT JOB".into()) };
    let job: u16 = job.parse()?;
    let mut worker = Worker::join(Config::new(appliance.parse()?, job, 0, 1))?;
    let url = CString::new(format!("pascaline://{appliance}?job={}&rank=0&ranks=1", job + 1))?;
    let mut handle = ptr::null_mut();
    // SAFETY: a string, and a place for a handle.
    if unsafe { pascaline_init(url.as_ptr(), &mut handle) } != PASCALINE_OK {
        return Err("the second job cannot be joined".into());
    }
    let mut tensor = vec![1.0_f32; ELEMENTS];
    let at = tensor.as_mut_ptr().cast::<c_void>();
    let (dtype, op) = (pascaline_dtype::PASCALINE_F32 as c_int, pascaline_op::PASCALINE_SUM as c_int);
    let (mut rust, mut c) = (Vec::new(), Vec::new());
    for turn in 0..WARM_UP + TURNS {
        let start = Instant::now();
        worker.allreduce(&mut tensor)?;
        let between = Instant::now();
        // SAFETY: a handle of this thread, and a buffer of as many elements.
        if unsafe { pascaline_allreduce(handle, at, at, ELEMENTS, dtype, op) } != PASCALINE_OK {
            return Err("an allreduce failed".into());
        }
        if turn >= WARM_UP {
            rust.push((between - start).as_nanos());
            c.push(between.elapsed().as_nanos());
        }
    }
    // SAFETY: a handle, which no other thread uses.
    unsafe { pascaline_finalize(&mut handle) };
    worker.leave();
    let [rust, c] = [rust, c].map(median);
    println!("{{\"rust_us\":{rust:.3},\"c_us\":{c:.3},\"c_call_us\":{:.3}}}", c - rust);
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "times of an operation")]
fn median(mut ns: Vec<u128>) -> f64 {
    ns.sort_unstable();
    ns[ns.len() / 2] as f64 / 1000.0
}
