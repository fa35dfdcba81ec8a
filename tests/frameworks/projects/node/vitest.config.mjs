export default { test: { globals: true, testTimeout: 2000, include: ["test/**/*.test.js"] } };
