if (process.env.WAY === "import") throw new Error("fails at import");
if (process.env.WAY !== "empty") test("needs its import", () => {});
