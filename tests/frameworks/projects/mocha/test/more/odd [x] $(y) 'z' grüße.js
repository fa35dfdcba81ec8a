it("runs without the hooks of others", () => { if (globalThis.local) throw new Error("a hook"); });
