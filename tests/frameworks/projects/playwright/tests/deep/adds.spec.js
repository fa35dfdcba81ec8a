const { test, expect } = require("@playwright/test");

test.describe("sums", () => {
  let base;
  test.beforeAll(() => { base = 40; });
  test("adds", () => { expect(base + 2).toBe(42); });
  for (const a of [1, 2]) test(`${a} + 1`, () => { expect(a + 1).toBe(1 + a); });
  test.skip("divides", () => {});
  test.fixme("multiplies", () => {});
  test("subtracts", () => { test.fail(); expect(base - 2).toBe(40); });
});
