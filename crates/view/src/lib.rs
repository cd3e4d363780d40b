//! What a screen shows, as plain data, and the reducers that compute it.
