it("adds", () => {});
