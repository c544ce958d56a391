//! Reads the files that commands take, or standard input.

use std::io::Read;

use bursar_wire::problem::{Kind, Problem};

/// The most bytes of input that are read.
const INPUT_BYTES_MAX: u64 = 16 << 20;

/// Reads a file, or standard input for `-`.
pub(crate) fn read_input(path: &str) -> Result<String, Problem> {
    let failed = |error: std::io::Error| Problem::invalid("file".into(), format!("{path} cannot be read: {error}"));
    let mut text = String::new();
    let from: Box<dyn Read> =
        if path == "-" { Box::new(std::io::stdin()) } else { Box::new(std::fs::File::open(path).map_err(failed)?) };
    from.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        let detail = format!("{path} has more than {INPUT_BYTES_MAX} bytes; nothing was changed; split the input");
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    Ok(text)
}
