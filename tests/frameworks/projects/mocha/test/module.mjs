import assert from "node:assert";

const later = await Promise.resolve(1);
if (process.env.WAY === "module") throw new Error("fails in a module");
describe("module", () => { it("is imported", () => assert(later)); });
