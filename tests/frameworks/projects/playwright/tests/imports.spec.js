const { test } = require("@playwright/test");

test("stands before the error", () => {});
if (process.env.WAY === "import") throw new Error("fails at import");
if (process.env.WAY === "import exit") process.exit(0);
test("needs its import", () => {});
