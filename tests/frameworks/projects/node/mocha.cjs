// What the files need of Jest and Vitest.
const { equal } = require("assert");
const { format } = require("util");

globalThis.beforeAll = (run) => before(run);
globalThis.test = Object.assign((title, run) => it(title, run), {
  each: (rows) => (title, run) => rows.forEach((row) => it(format(title, ...row), () => run(...row))),
  skip: (title, run) => it.skip(title, run),
  todo: (title) => it(title),
});
globalThis.expect = (found) => ({
  toBe: (wanted) => equal(found, wanted),
  toHaveLength: (wanted) => equal(found.length, wanted),
});
