// What ends the process, or never ends, where WAY says so.
const ways = {
  kill: () => process.kill(process.pid, "SIGKILL"),
  exit0: () => process.exit(0),
  exit3: () => process.exit(3),
  hang: () => { for (;;) { /* no timer of Jest can end this */ } },
  heap: () => { const kept = []; for (;;) kept.push(new Array(1e6).fill(Math.random())); },
  close: () => [1, 2].forEach((descriptor) => require("fs").closeSync(descriptor)),
  slow: () => new Promise((resolve) => { setTimeout(resolve, 5000); }),
};
test("before", () => {});
test("ends", () => ways[process.env.WAY]?.());
test("behind", () => {});
