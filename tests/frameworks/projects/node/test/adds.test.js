describe("sums", () => {
  let base;
  beforeAll(() => { base = 40; });
  test("adds", () => { expect(base + 2).toBe(42); });
  test.each([[1, 2], [2, 3]])("%i + 1 = %i", (a, sum) => { expect(a + 1).toBe(sum); });
  test.skip("divides", () => {});
  test.todo("multiplies");
});
