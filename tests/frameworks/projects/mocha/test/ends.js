const ways = {
  kill: () => process.kill(process.pid, "SIGKILL"),
  exit: () => process.exit(0),
  never: () => new Promise(() => {}),
  tick: () => { process.nextTick(() => { throw new Error("fails after its end"); }); },
  heap: () => { const kept = []; for (;;) kept.push(new Array(1e6).fill(Math.random())); },
};
it("before", () => {});
it("ends", () => ways[process.env.WAY] && ways[process.env.WAY]()).timeout(0);
it("behind", () => {});
