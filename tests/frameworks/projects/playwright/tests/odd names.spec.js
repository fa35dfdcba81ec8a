const { test } = require("@playwright/test");

test.describe("odd [x] (y)", () => {
  test('says "it\'s" so', () => {});
  test("a line\nfeed", () => {});
  test("grüße 😀 日本 › x", () => {});
  test("", () => {});
  test("fails", () => { if (process.env.FAIL) throw new Error("as asked"); });
});
