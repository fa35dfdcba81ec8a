const { test } = require("@playwright/test");

test.describe.serial("one after the other", () => {
  test("first", () => {});
  test("second", () => {
    const isFlaky = process.env.WAY === "flaky" && test.info().retry === 0;
    if (isFlaky || process.env.WAY === "serial") throw new Error("fails");
  });
  test("third", () => {});
});
