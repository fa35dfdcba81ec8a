test("of the same name in another folder", () => {});
