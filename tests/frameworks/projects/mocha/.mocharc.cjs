const options = JSON.parse(process.env.OPTIONS || "{}");
module.exports = {
  require: "./hooks.cjs",
  spec: ["test/**/*.js", "test/**/*.mjs"],
  ...(options.parallel ? {} : { file: ["./test/first.js"] }),
  ...options,
};
