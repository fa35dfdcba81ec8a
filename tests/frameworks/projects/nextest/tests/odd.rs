//! A harness of its own, with names that no function can have, and output unlike libtest's.

use std::{env, process};

const NAMES: [&str; 6] =
    ["quote \"te' n/slash\\", "grüße 😀", "a+b (x), [y] .*", "two: test", "/x/", "~glob*"];

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if words.iter().any(|word| word == "--list") {
        if !words.iter().any(|word| word == "--ignored") {
            for name in &NAMES {
                println!("{}: test", name);
            }
        }
    } else if !words.iter().any(|word| NAMES.contains(&word.as_str())) {
        eprintln!("no such test: {:?}", words);
        process::exit(2);
    } else if env::var("ODD").map_or(false, |odd| words.contains(&odd)) {
        eprintln!("it fails");
        process::exit(7);
    }
}
