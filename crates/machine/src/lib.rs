//! Simulated CPUs, clocks and locks: one interface, several back ends.
