// Gradient descent with a loss and a gradient that fgrad has compiled: see export_fit.py.
use std::os::raw::{c_int, c_void};

extern "C" {
    fn fit(
        w: *const f64,
        x: *const f64,
        y: *const f64,
        value: *mut f64,
        gradient: *mut f64,
        workspace: *mut c_void,
    ) -> c_int;
}

fn main() {
    let (n, d) = (64, 3);
    let size: usize = std::env::args().nth(1).expect("FIT_WORKSPACE").parse().unwrap();
    let mut workspace = vec![0u8; size];
    let (mut w, mut gradient) = (vec![0.0; d], vec![0.0; d]);
    let (mut x, mut y) = (vec![0.0f64; n * d], vec![0.0f64; n]);
    let mut value = 0.0;
    for i in 0..n {
        for j in 0..d {
            x[i * d + j] = ((1 + 3 * i + j) as f64).sin();
        }
        y[i] = (0.5 * x[i * d] - 0.25 * x[i * d + 1] + x[i * d + 2]).tanh();
    }
    for _ in 0..2000 {
        let failed = unsafe {
            fit(
                w.as_ptr(),
                x.as_ptr(),
                y.as_ptr(),
                &mut value,
                gradient.as_mut_ptr(),
                workspace.as_mut_ptr() as *mut c_void,
            )
        };
        assert_eq!(failed, 0);
        for j in 0..d {
            w[j] -= 0.5 * gradient[j];
        }
    }
    println!("loss {:.3e}", value);
    assert!(value < 1e-3);
}
