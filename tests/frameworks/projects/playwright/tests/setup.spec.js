const { test } = require("@playwright/test");

test.beforeAll(() => { if (process.env.WAY === "setup") throw new Error("fails in set-up"); });
test("one", () => {});
test("two", () => {});
