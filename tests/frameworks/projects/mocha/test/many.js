for (let one = 0; one < 134; one += 1) it(`is number ${one}`, () => { if (process.env.WAY === "many") throw new Error("fails"); });
