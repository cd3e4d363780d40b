//! The plain engine: explores images, and runs in virtual time.

fn main() {
    engine::start();
}
