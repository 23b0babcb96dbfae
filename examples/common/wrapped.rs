//! Lines of text as wide as a terminal.

/// The most characters of a line.
const WIDTH: usize = 116;

/// A text behind what its first line begins with, wrapped between words; further lines stand below its first word.
pub(crate) fn wrapped(begin: &str, text: &str) -> String {
    let indent = begin.trim_start_matches('\n').chars().count();
    let (mut lines, mut width) = (begin.to_owned(), indent);
    for (place, word) in text.split(' ').enumerate() {
        let len = word.chars().count();
        if place > 0 && width + 1 + len > WIDTH {
            lines.extend(["\n", &" ".repeat(indent)]);
            width = indent;
        } else if place > 0 {
            lines.push(' ');
            width += 1;
        }
        lines += word;
        width += len;
    }
    lines
}
