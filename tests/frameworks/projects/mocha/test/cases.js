const assert = require("assert");
const { WAY } = process.env;

it("is outside of describe", () => assert(globalThis.prepared));
describe("cases", () => {
  beforeEach(function () { if (WAY === "each" && this.currentTest.title === "twice") throw new Error("fails before each"); });
  let tries = 0;
  it("passes at the second try", function () { this.retries(1); assert(++tries > 1); });
  it("skips itself", function () { this.skip(); });
  it("twice", () => {});
  it("twice", () => {});
  it("", () => {});
  it("ends twice", (done) => { done(); if (WAY === "late") done(new Error("fails late")); });
  it("throws no error", () => { if (WAY === "null") throw undefined; });
  it("calls no callback", (done) => { if (WAY !== "slow") done(); }).timeout(50);
});
it("is outside, and behind", () => {});
