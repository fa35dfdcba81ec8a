use std::{env::var, fs, io::Write, process, thread::sleep, time::Duration};

extern "C" {
    fn close(number: i32) -> i32;
}

pub fn act(place: &str) {
    let path = format!("{}/{}", var("MARKS").unwrap(), place);
    let mut file = fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
    file.write_all(b"ran\n").unwrap();
    if var("AT").as_deref() != Ok(place) {
        return;
    }
    match var("ACT").unwrap().as_str() {
        "exit" => process::exit(0),
        "kill" => {
            process::Command::new("kill").args(["-9", &process::id().to_string()]).status().unwrap();
        }
        "flood" => std::io::stdout().write_all(&vec![b'x'; 3 << 20]).unwrap(),
        "close" => unsafe {
            close(1);
            close(2);
        },
        "wait" => sleep(Duration::from_secs(60)),
        "flaky" => assert!(fs::read_to_string(&path).unwrap().lines().count() > 1),
        _ => {}
    }
}
