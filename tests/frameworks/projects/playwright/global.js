module.exports = () => { throw new Error("global set-up fails"); };
