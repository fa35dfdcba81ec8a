const fs = require("fs");
exports.act = (place) => {
  const file = `${process.env.MARKS}/${place}`;
  if (place !== "hook") fs.appendFileSync(file, "ran\n");
  if (process.env.AT !== place) return;
  const ways = {
    exit: () => process.exit(0),
    kill: () => process.kill(process.pid, "SIGKILL"),
    flood: () => { process.stdout.write("x".repeat(3 << 20)); },
    close: () => { fs.closeSync(1); fs.closeSync(2); },
    wait: () => new Promise((done) => setTimeout(done, 60000)),
    flaky: () => { if (fs.readFileSync(file, "utf8").split("\n").length === 2) throw Error("flaky"); },
  };
  return ways[process.env.ACT]();
};
