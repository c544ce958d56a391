//! A disk that forgets.
