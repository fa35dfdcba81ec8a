// Hooks outside of describe are for this file alone.
before(() => { if (process.env.WAY === "local") throw new Error("fails before its file"); });
beforeEach(() => { globalThis.local = true; });
after(() => { globalThis.local = false; });
it("has its hooks", () => { if (!globalThis.local) throw new Error("no hook"); });
