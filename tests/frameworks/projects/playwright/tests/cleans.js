const { test } = require("@playwright/test");

test("cleans", () => { console.log("CLEANED"); });
