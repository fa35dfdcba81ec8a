// What ends the worker, or never ends, where WAY says so.
const { test } = require("@playwright/test");

const ways = {
  kill: () => process.kill(process.pid, "SIGKILL"),
  exit0: () => process.exit(0),
  exit3: () => process.exit(3),
  hang: () => { for (;;) { /* no timer of Playwright can end this */ } },
  heap: () => { const kept = []; for (;;) kept.push(new Array(1e6).fill(Math.random())); },
  slow: () => new Promise((resolve) => { setTimeout(resolve, 5000); }),
  runner: () => process.kill(process.ppid, "SIGKILL"),
};
test("before", () => {});
test("ends", () => ways[process.env.WAY]?.());
test("behind", () => {});
