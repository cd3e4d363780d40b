//! The engine that runs in web workers.
