if (process.env.WAY === "import") throw new Error("fails at import");
test("needs its import", () => {});
