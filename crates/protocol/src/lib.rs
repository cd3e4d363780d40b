//! Messages between the page and the engine.
