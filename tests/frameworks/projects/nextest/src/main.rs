fn main() {}

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {}
}
