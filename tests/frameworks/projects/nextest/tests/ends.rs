use std::{env, process, ptr, thread::sleep, time::Duration};

#[test]
fn before() {}

#[test]
fn ends() {
    match env::var("WAY").as_deref() {
        Ok("kill") => {
            process::Command::new("kill").args(["-9", &process::id().to_string()]).status().unwrap();
            sleep(Duration::from_secs(60));
        }
        Ok("abort") => process::abort(),
        Ok("segv") => unsafe { ptr::null_mut::<i32>().write_volatile(1) },
        Ok("exit0") => process::exit(0),
        Ok("exit3") => process::exit(3),
        Ok("exit101") => process::exit(101),
        Ok("panic") => panic!("on purpose"),
        Ok("memory") => {
            let _held = Vec::<u8>::with_capacity(1 << 46);
        }
        Ok("hang") => loop {
            sleep(Duration::from_secs(1));
        },
        Ok("leak") => {
            process::Command::new("sleep").arg("3").spawn().unwrap();
        }
        Ok("flaky") if env::var("NEXTEST_ATTEMPT").as_deref() == Ok("1") => panic!("flaky"),
        _ => {}
    }
}

#[test]
fn f_behind() {}
