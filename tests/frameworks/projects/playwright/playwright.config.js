const named = process.env.PROJECTS
  ? [
    { name: "setup", testMatch: /prepares\.js/, teardown: "cleanup" },
    { name: "cleanup", testMatch: /cleans\.js/ },
    { name: "a b", dependencies: ["setup"] },
    { name: "deep", testDir: "tests/deep", dependencies: ["setup"] },
  ]
  : undefined;
module.exports = {
  testDir: "tests",
  timeout: process.env.WAY === "slow" ? 2000 : 10_000,
  shard: { current: 1, total: 7 },
  fullyParallel: Boolean(process.env.PARALLEL),
  retries: Number(process.env.RETRIES || 0),
  globalSetup: process.env.WAY === "global" ? "./global.js" : undefined,
  reporter: process.env.OWN ? [["list"], ["./own.js"]] : "list",
  projects: named,
};
