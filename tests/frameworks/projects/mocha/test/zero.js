describe("nothing", () => {});
