#[cfg(test)]
mod tests {
    use std::{env, thread::sleep, time::Duration};

    #[test]
    fn adds() {}

    #[test]
    #[ignore]
    fn ignored() {}

    #[test]
    #[should_panic(expected = "on purpose")]
    fn panics() {
        panic!("on purpose");
    }

    #[test]
    fn r#fn() {
        print!("printed, without a line feed");
        eprint!("and this, too");
    }

    #[test]
    fn wrong() {
        assert_eq!(4, if env::var("FAIL").is_ok() { 5 } else { 4 }, "quote \" < & ü");
    }

    #[test]
    fn holds() {
        sleep(Duration::from_millis(200));
        let held = vec![1u8; 150 << 20];
        sleep(Duration::from_millis(200));
        assert_eq!(held[7], 1);
    }
}
