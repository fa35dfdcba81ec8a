const { test } = require("@playwright/test");

test("prepares", () => {
  if (process.env.WAY === "prepare") throw new Error("nothing is prepared");
  console.log("PREPARED");
});
