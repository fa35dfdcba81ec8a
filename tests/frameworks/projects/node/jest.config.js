module.exports = { testTimeout: 2000 };
