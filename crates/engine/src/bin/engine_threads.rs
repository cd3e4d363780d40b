//! The threaded engine: runs live, one worker for each simulated CPU, all in one memory.

fn main() {
    engine::start();
}
