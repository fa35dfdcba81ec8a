describe("broken", () => {
  it("is not run", () => {});
  if (process.env.WAY === "broken") throw new Error("fails inside of describe");
  if (process.env.WAY === "broken exit") process.exit(0);
  if (process.env.WAY === "broken kill") process.kill(process.pid, "SIGKILL");
});
