module.exports = { require: "./mocha.cjs", spec: "test/**/*.test.js" };
