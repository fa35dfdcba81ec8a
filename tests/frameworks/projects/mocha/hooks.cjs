if (process.env.WAY === "require") throw new Error("fails in --require");
exports.mochaHooks = {
  beforeAll() { if (process.env.WAY === "root") throw new Error("fails before all files"); },
  afterAll() { if (process.env.WAY === "after") throw new Error("fails after all files"); },
};
