module.exports = class { onEnd() { console.log("OWN REPORTER"); } };
