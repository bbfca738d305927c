//! `security=masked` in the URL: sums that the appliance cannot read.

use core::ffi::c_int;
use std::path::PathBuf;

use pascaline::pascaline_dtype::*;
use pascaline::pascaline_op::*;
use pascaline::pascaline_status::*;
use pascaline::*;

use crate::allreduce;
use crate::appliance::{Appliance, RANKS};

/// A file that goes with it.
struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn what_is_hidden_adds_up() {
    let file = File(std::env::temp_dir().join(format!("pascaline-capi-{}", std::process::id())));
    let _ = std::fs::remove_file(&file.0);
    pascaline_worker::Secret::create(&file.0).unwrap();
    let more = format!("&security=masked&key={}", file.0.display());
    Appliance::start().ranks(&more, |rank, handle| {
        let mut sum = [f32::from(rank) + 0.5; 3000];
        allreduce(handle, None, &mut sum, PASCALINE_F32, PASCALINE_SUM);
        let all: f32 = (0..RANKS).map(|rank| f32::from(rank) + 0.5).sum();
        assert_eq!(sum, [all; 3000]);
        let mut report = pascaline_report::default();
        // SAFETY: a handle, and a place.
        assert_eq!(unsafe { pascaline_last_report(handle.0, &mut report) }, PASCALINE_OK);
        // Words that prove the sum, and the announcements.
        assert!(report.packets > 12, "{}", report.packets);
        let mut sum = [i32::from(rank) - 7; 5];
        allreduce(handle, None, &mut sum, PASCALINE_I32, PASCALINE_SUM);
        assert_eq!(sum, [(0..i32::from(RANKS)).map(|rank| rank - 7).sum::<i32>(); 5]);
        let mut wide = [1.0_f64];
        let (at, dtype) = (wide.as_mut_ptr().cast(), PASCALINE_F64 as c_int);
        // SAFETY: as many elements as is said.
        let status = unsafe { pascaline_allreduce(handle.0, at, at, 1, dtype, PASCALINE_SUM as c_int) };
        assert_eq!(status, PASCALINE_ERR_UNSUPPORTED);
        assert!(handle.error().contains("sum of f64 cannot be masked"), "{}", handle.error());
        // SAFETY: a handle.
        assert_eq!(unsafe { pascaline_set_wire(handle.0, PASCALINE_BF16 as c_int) }, PASCALINE_OK);
        let at = sum.as_mut_ptr().cast();
        // SAFETY: as many elements as is said.
        let status = unsafe {
            pascaline_allreduce(handle.0, at, at, 5, PASCALINE_F32 as c_int, PASCALINE_SUM as c_int)
        };
        assert_eq!(status, PASCALINE_ERR_UNSUPPORTED);
        assert!(handle.error().contains("wire does not go with security=masked"), "{}", handle.error());
    });
}
