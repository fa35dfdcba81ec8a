#[cfg(test)]
mod tests {
    #[test]
    fn adds() {}

    #[test]
    fn grüße() -> Result<(), String> {
        Ok(())
    }
}
