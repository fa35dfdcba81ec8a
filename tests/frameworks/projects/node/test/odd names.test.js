describe("odd [x] (y)", () => {
  test('says "it\'s" so', () => {});
  test("a line\nfeed", () => {});
  test("grüße 😀 日本", () => {});
  test("twice", () => {});
  test("twice", () => { if (process.env.FAIL) throw new Error("the second of one name"); });
  test("", () => {});
});
