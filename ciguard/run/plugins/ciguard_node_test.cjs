"use strict";
// node's own test runner (`node --test`) 20+: runs the files that a leg asks for, and records them.
// Loaded by NODE_OPTIONS=--require, so that it reaches a runner behind tsx, c8 or a script. Flags and
// reporters of the project stay. In the runner's process it selects the files, and records a file
// whose process was killed. In the process of each file it records the tests, from the events that
// the file sends to the runner, at the moment of each event: a reporter gets nothing of a process
// that exits inside a test.

const { AsyncResource } = require("async_hooks");
const { ChildProcess } = require("child_process");
const { existsSync, readFileSync } = require("fs");
const path = require("path");
const { Readable } = require("stream");
const { isMainThread } = require("worker_threads");
const { Leg } = require("./ciguard_node.cjs");

const MAJOR = Number(process.versions.node.split(".")[0]);
const OLDEST = 20;
// Exit codes of node: after an error in the handler for errors there is no event `exit`. The other
// one is of a file whose top level still waits. 20 gives it after that event; before, it listens.
const BROKEN_HANDLER = 7;
const UNSETTLED_AWAIT = 13;
const WAITING = "handleProcessExit";
const STOPS = ["SIGINT", "SIGTERM"];
const STOP_MS = 100;
const STDERR_CHARACTERS = 4096;
const FILTER = /^--test-(?:only|(?:name|skip)-pattern|rerun-failures)(?:[= ]|$)/;
// Of what a test left behind: the event names the test.
const LATE = /^(?:Error|Warning): .* generated asynchronous activity /s;
const NO_MEMORY = /^.*FATAL ERROR: .*(?:heap out of memory|Allocation failed).*$/m;
const REFUSED = [
  [/^--(?:experimental-)?test-isolation[= ]none$/, "ciguard needs a process for each file: leave it out"],
  [/^--test-shard[= ]/, "ciguard divides the files: leave it out"],
  [/^--watch/, "a watching runner does not end: leave it out"],
];

// Call `take` with each event of the first stream of tests in this process that is read. A
// test may run others; from 22 on, a test that is not selected has one that nothing reads.
function follow(take) {
  const { push } = Readable.prototype;
  Readable.prototype.push = function (chunk, ...rest) {
    const isOurs = this.constructor.name === "TestsStream" && this.eventNames().length > 0;
    if (!isOurs) return push.call(this, chunk, ...rest);
    Readable.prototype.push = push;
    this.push = function (event, ...more) {
      if (event && event.type) take(event);
      return push.call(this, event, ...more);
    };
    return this.push(chunk, ...rest);
  };
}

// The words of the runner's options, each with its value. node takes "_" in a name for "-".
function optionWords() {
  const quoted = (process.env.NODE_OPTIONS || "").match(/(?:"(?:\\.|[^"\\])*"?|[^\s"])+/gs) || [];
  const words = [...process.execArgv, ...quoted.map((word) => word.replace(/\\(.)|"/gs, "$1"))]
    .map((word) => word.replace(/^--[^=\s]+/, (name) => name.replace(/_/g, "-")));
  return words.map((word, place) => {
    const value = words[place + 1] || "";
    const isApart = /^--(?:experimental-)?test-/.test(word) && !word.includes("=") && value && value[0] !== "-";
    return isApart && word !== "--test-only" ? `${word} ${value}` : word;
  });
}

// A path as an argument: from 21 on, the runner takes patterns. A backslash escapes nothing there.
function pattern(file) {
  return MAJOR < 21 ? file : file.replace(/[[\]*?(]/g, "[$&]").replace(/[{\\]/g, "?");
}

class Runner {
  constructor() {
    this.leg = new Leg({ ...process.env }); // the variables are for the files' processes, too
    this.stderr = ""; // of the file that runs
    this.isRunning = false;
    this.isStopped = false;
    const words = optionWords();
    for (const [option, advice] of REFUSED) {
      const word = words.find((one) => option.test(one));
      if (word) this.refuse(word, advice);
    }
    if (MAJOR < OLDEST) this.refuse(`Node.js ${process.version}`, `ciguard needs Node.js ${OLDEST} or newer`);
    const settings = words.filter((one) => FILTER.test(one));
    this.leg.execution(settings.map((one) => [one === "--test-only" ? "focus" : "filter", one]));
    if (this.leg.collects) this.list();
    else this.run();
  }

  refuse(what, advice) {
    if (this.leg.collects) this.leg.listed([], [[what, advice]]);
    process.stderr.write(`${what}: ${advice}\n`);
    process.exit(1);
  }

  // All files are announced at once, and the first one is started after them.
  list() {
    const files = new Map();
    follow(({ type, data }) => {
      const file = this.leg.pathOf(path.resolve(data.name || ""));
      if (type === "test:enqueue") files.set(file, file);
    });
    let hasBegun = false;
    process.on("exit", (code) => {
      if (code !== 0 && !hasBegun) return;
      process.exitCode = 0; // with --test-force-exit, the runner is first
      this.leg.listed(files);
    });
    ChildProcess.prototype.spawn = () => {
      hasBegun = true;
      setImmediate(() => process.exit(0));
      throw new Error("ciguard lists the files");
    };
  }

  run() {
    const { leg } = this;
    const begin = () => this.begin();
    const wanted = leg.units.filter((unit) => existsSync(unit));
    leg.units.filter((unit) => !wanted.includes(unit)).forEach((unit) => leg.notCollected(unit));
    if (wanted.length === 0) process.exit(0); // without arguments it would run all
    process.argv.splice(1, Infinity, ...wanted.map(pattern));
    const { spawn } = ChildProcess.prototype;
    ChildProcess.prototype.spawn = function (...given) {
      if (leg.mustStop()) throw new Error("ciguard runs this file in another process");
      begin();
      return spawn.apply(this, given);
    };
    // One file at a time, whatever --test-concurrency says, as a leg has processes of its own. The
    // body of the first file's test begins before the runner looks at the second file.
    const { runInAsyncScope } = AsyncResource.prototype;
    AsyncResource.prototype.runInAsyncScope = function (...given) {
      if (this.constructor.name === "FileTest" && this.parent) this.parent.concurrency = 1;
      return runInAsyncScope.apply(this, given);
    };
    for (const signal of STOPS) {
      process.on(signal, () => {
        this.isStopped = true; // its files die of it
        if (process.listenerCount(signal) > 1) return;
        process.removeAllListeners(signal);
        process.kill(process.pid, signal);
      });
    }
    follow(({ type, data }) => {
      const isFile = data.file && path.resolve(data.name || "") === path.resolve(data.file);
      if (type === "test:stderr") this.stderr = (this.stderr + data.message).slice(-STDERR_CHARACTERS);
      else if (isFile && type === "test:complete") this.end(path.resolve(data.file), data.details.error);
    });
  }

  begin() {
    this.isRunning = true;
    this.stderr = "";
    this.recorded = readFileSync(this.leg.file).length;
    this.kills = this.leg.oomKills();
  }

  // Of a file whose process could not record its own end.
  end(file, error) {
    const hasRun = this.isRunning;
    this.isRunning = false;
    if (!hasRun || !error || this.isStopped) return;
    const unit = this.leg.unitOf(file);
    const { exitCode, failureType, signal } = error;
    if (exitCode === BROKEN_HANDLER) {
      const lines = readFileSync(this.leg.file).subarray(this.recorded).toString();
      if (/"(?:closed|died)"/.test(lines)) return; // by process.exit(7)
      this.leg.result(unit, "", "errored", { message: this.stderr.trim() || `exit code ${exitCode}` });
      this.leg.event("closed", { unit });
    } else if (typeof exitCode !== "number") {
      const heap = NO_MEMORY.exec(this.stderr);
      let ending = failureType === "testTimeoutFailure" ? "timeout" : "crash";
      if (heap || this.leg.oomKills() > this.kills) ending = "out_of_memory";
      const how = signal ? `its process was killed by ${signal}` : textOf(error);
      const name = this.leg.openCase(unit);
      const write = () => {
        if (!this.isStopped) this.leg.died(unit, ending, heap ? `${heap[0]}\n${how}` : how, name);
      };
      // A signal to the whole group may end the file before the runner has got it.
      if (STOPS.includes(signal)) setTimeout(write, STOP_MS);
      else write();
    }
  }
}

// The tests of the file that this process runs.
class TestFile {
  constructor() {
    this.leg = new Leg(process.env);
    if (this.leg.collects) process.exit(0); // started by another program than `node --test`
    this.unit = this.leg.unitOf(path.resolve(process.argv[1]));
    this.open = []; // in the order of their starts
    this.begun = new Set(); // places
    this.count = 0; // of results
    this.leg.start(this.unit, { rss_before_bytes: 0 }); // in a process of its own
    process.on("beforeExit", () => { this.hasDrained = true; }); // not after process.exit()
    process.on("uncaughtExceptionMonitor", (error) => {
      this.error = textOf(error);
      this.isBroken ||= this.open.length === 0; // in a test, an error is the test's matter
    });
    process.on("exit", (code) => this.exit(code));
    follow((event) => this.take(event));
  }

  take({ type, data }) {
    this.hasTests = true;
    if (type === "test:dequeue") this.begin(data);
    else if (type === "test:complete") this.end(data);
    else if (type === "test:plan" && data.nesting === 0) this.hasEnded = true;
    else if (type === "test:diagnostic" && LATE.test(data.message)) {
      this.error = data.message;
      this.isBroken = true;
    }
  }

  // Events do not name the parent. Of several that run at the same time, it is the last one above.
  parentOf({ nesting, line }) {
    const parents = this.open.filter((one) => one.nesting === nesting - 1);
    const above = parents.filter((one) => one.line <= line);
    return above.pop() || parents.pop();
  }

  nameOf(data) {
    const parent = this.parentOf(data);
    return parent ? `${parent.name} > ${data.name}` : data.name || "(no title)";
  }

  begin(data) {
    const place = placeOf(data);
    const name = this.leg.caseStart(this.unit, this.nameOf(data));
    this.begun.add(place);
    this.open.push({ place, name, nesting: data.nesting, line: data.line, insideMs: 0 });
  }

  end(data) {
    const place = placeOf(data);
    const test = this.open.find((one) => one.place === place);
    if (!test && this.begun.has(place)) return; // a second time, of a test that its parent cancelled
    const { duration_ms: wholeMs, error, passed, type } = data.details;
    this.open = this.open.filter((one) => one !== test);
    const parent = this.parentOf(data);
    if (parent) parent.insideMs += wholeMs;
    const name = test ? test.name : this.nameOf(data);
    const isSuite = type === "suite";
    const isOwn = !isSuite || (!passed && error.failureType !== "subtestsFailed");
    if (!isOwn && data.skip === undefined) {
      this.leg.event("case_end", { unit: this.unit, detail: name });
      return;
    }
    let outcome = passed ? "passed" : "failed";
    let message = passed ? "" : textOf(error);
    if (data.skip !== undefined || data.todo !== undefined) {
      outcome = "skipped";
      const reasons = [data.todo === undefined ? "" : "todo", data.skip, data.todo, message];
      message = reasons.filter((one) => one && one !== true).join(": ");
    } else if (!passed) {
      this.hasFailed = true;
      if (isSuite) outcome = "errored";
    }
    this.count += 1;
    const wallMs = wholeMs - (test ? test.insideMs : 0);
    this.leg.result(this.unit, name, outcome, { wallMs, message });
  }

  exit(code) {
    const { leg, unit } = this;
    const isWhole = this.hasEnded || (this.hasDrained && !this.hasTests);
    const isWaiting = code === UNSETTLED_AWAIT || process.listeners("exit").some(({ name }) => name === WAITING);
    if (!isWhole && (this.open.length > 0 || !this.error)) {
      const name = leg.openCase(unit);
      leg.died(unit, "crash", `its process ended with exit code ${code} before its last test had ended`, name);
      return;
    }
    const isExplained = isWhole && (code === 0 || (code === 1 && this.hasFailed));
    if (isWaiting || this.isBroken || !isExplained) {
      const how = isWaiting ? "a top-level await has not settled" : `exit code ${code}`;
      leg.result(unit, "", "errored", { message: this.error || how });
    } else if (this.count === 0) {
      leg.result(unit, "", "skipped", { message: this.hasTests ? "no test of it is selected" : "it has no tests" });
    }
    leg.event("closed", { unit });
  }
}

const placeOf = ({ nesting, file, line, column, name }) => [nesting, file, line, column, name].join("|");

// The first line is shown: an assertion's values, which are below it, come into it.
function textOf(error) {
  const cause = error && error.cause !== undefined ? error.cause : error;
  const text = String((cause && cause.stack) || cause);
  const [first, ...rest] = text.split("\n");
  if (!cause || cause.code !== "ERR_ASSERTION" || !first.endsWith(":")) return text;
  const below = rest.slice(0, rest.findIndex((line) => /^ +at /.test(line)))
    .filter((line) => line.trim() && !line.startsWith("+ actual"));
  const changed = below.filter((line) => /^[-+] /.test(line));
  const values = (changed.length > 0 ? changed : below).slice(0, 2).map((line) => line.trim().replace(/\s+/g, " "));
  return [`${first} ${values.join(", ")}`, ...rest].join("\n");
}

if (isMainThread && Leg.asked(process.env)) { // tsx has a worker that loads preloads, too
  if (process.env.NODE_TEST_CONTEXT) new TestFile();
  else if (process.execArgv.includes("--test")) new Runner();
}
