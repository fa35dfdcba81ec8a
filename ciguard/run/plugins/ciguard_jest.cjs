"use strict";
// Jest 26+: runs the files that a leg asks for, in that order, and records them as they run.
// Loaded by NODE_OPTIONS=--require, so that it reaches a Jest behind npx, yarn or a script. It adds
// itself to the configuration that Jest has read: as one more reporter, as the sequencer, which
// Jest also asks which files to run, and in one process, as a leg has processes of its own.
// The configuration of the project stays what it is, its reporters included.

const { Leg, onLoad } = require("./ciguard_node.cjs");

const OUTCOMES = { passed: "passed", failed: "failed" }; // all others are skipped
const RETRY_TIMES = Symbol.for("RETRY_TIMES"); // as `jest.retryTimes` keeps it in a file's globals
let leg = null;
let configs = []; // of the projects
let retries = 0; // of each test of the file
let unselected = 0; // tests of the file

// A project without a name has its position.
const projectOf = (config) => (config.displayName || { name: configs.indexOf(config) + 1 }).name;
const unitOf = (test) => leg.unitOf(test.path, projectOf(test.context.config));
const nameOf = (test) => (test.parent ? [...nameOf(test.parent), test.name] : []);

function changedConfig(config) {
  const reporters = config.reporters || [["default", {}]];
  return Object.freeze({
    ...config,
    testSequencer: __filename,
    reporters: leg.collects ? reporters : [...reporters, [__filename, {}]],
    maxWorkers: 1, // else timings of the last run decide whether a crash takes all files along
    workerIdleMemoryLimit: undefined, // which asks for a worker
    passWithNoTests: true, // what is not found is said by name
    bail: 0, // it ends the process while the next file runs
    listTests: Boolean(leg.collects),
    coverageThreshold: undefined, // no shard reaches that of the whole suite
    collectCoverage: config.collectCoverage && !leg.onlyRepeats, // Jest would replace that of all
  });
}

function begin({ testNamePattern, collectTests, randomize, seed, collectCoverage, coverageThreshold }) {
  const settings = [];
  if (testNamePattern) settings.push(["filter", `--testNamePattern=${testNamePattern}`]);
  if (collectTests) settings.push(["not_executed", "--collectTests"]);
  leg.execution(settings);
  if (leg.collects) return;
  if (collectCoverage && coverageThreshold) {
    leg.event("execution", { reason: "no_effect", detail: "coverageThreshold" });
  }
  if (collectCoverage && leg.isFurther) {
    const what = leg.onlyRepeats ? "tests that run again collect no coverage"
      : "the coverage of this process replaces that of earlier ones";
    process.stderr.write(`ciguard: ${what}\n`);
  }
  if (randomize) leg.event("seed", { detail: `--seed=${seed}` });
}

function withJestConfig(found) {
  const readConfigs = async (...given) => {
    const answer = await found.readConfigs(...given);
    if (leg === null && Leg.asked(process.env)) {
      leg = new Leg(process.env);
      begin(answer.globalConfig);
      configs = answer.configs;
    }
    return leg === null ? answer : { ...answer, globalConfig: changedConfig(answer.globalConfig) };
  };
  return Object.create(found, { readConfigs: { value: readConfigs, enumerable: true } });
}

function withWatcher(found) {
  if (!found.TestWatcher) return found; // Jest 27
  const { prototype } = found.TestWatcher;
  const isInterrupted = prototype.isInterrupted;
  prototype.isInterrupted = function () {
    return isInterrupted.call(this) || (leg !== null && leg.mustStop());
  };
  return found;
}

// A runner's own events come before the body of a test, those of reporters may come after.
const withRunner = (listen) => (found) => {
  const run = found.default || found;
  const runner = (globalConfig, config, environment, runtime, file, ...rest) => {
    if (leg !== null) listen(leg.unitOf(file, projectOf(config)), environment, runtime);
    return run(globalConfig, config, environment, runtime, file, ...rest);
  };
  return { __esModule: true, default: runner };
};

function listenToJasmine(unit, _environment, runtime) {
  const load = runtime.requireInternalModule;
  runtime.requireInternalModule = function (...given) {
    const found = load.apply(this, given);
    const define = found && found._interface; // what a file's globals call
    return define ? { ...found, _interface: (jasmine, env) => define(jasmine, watched(env, unit)) } : found;
  };
}

function watched(env, unit) {
  for (const name of ["fit", "fdescribe"]) {
    const define = env[name];
    env[name] = (...given) => {
      leg.focus(unit);
      return define.apply(env, given);
    };
  }
  const names = new Map();
  env.addReporter({
    specStarted: ({ id, fullName }) => names.set(id, leg.caseStart(unit, fullName)),
    specDone: ({ id }) => leg.event("case_end", { unit, detail: names.get(id) }),
  });
  return env;
}

function listenToCircus(unit, environment) {
  const own = environment.handleTestEvent;
  const begun = new WeakSet(); // a retry is the same test
  environment.handleTestEvent = function (event, state) {
    const { name, test } = event;
    if (name === "run_start") {
      if (state.hasFocusedTests) leg.focus(unit);
      retries = Number(environment.global[RETRY_TIMES]) || 0;
      if (repeatsGroups(state.rootDescribeBlock, state.describeRetryOptions)) retries = Infinity;
    } else if (name === "test_skip" && test.mode !== "skip") {
      unselected += 1;
    } else if ((name === "test_started" || name === "test_fn_start") && !begun.has(test)) {
      begun.add(test);
      leg.caseStart(unit, nameOf(test).join(" "));
    }
    return own && own.call(this, event, state);
  };
}

// With `entireDescribe`, tests that passed run again, too.
function repeatsGroups(block, options) {
  const inside = block.children.filter((child) => child.type === "describeBlock");
  return Boolean(options) && (options.has(block) || inside.some((one) => repeatsGroups(one, options)));
}

if (Leg.asked(process.env)) {
  onLoad({
    "jest-config": withJestConfig,
    "jest-watcher": withWatcher,
    "jest-circus/runner.js": withRunner(listenToCircus), // to 29
    "jest-circus/build/runner.js": withRunner(listenToCircus),
    "jest-jasmine2/build/index.js": withRunner(listenToJasmine), // the default to 26
  });
}

module.exports = class {
  // --- The sequencer ---

  sort(tests) {
    return leg.select(tests, "Jest", (test) => test.path, (test) => projectOf(test.context.config));
  }

  allFailedTests(tests) {
    return tests;
  }

  shard(tests) {
    return tests;
  }

  cacheResults() {}

  // --- The reporter ---

  onTestFileStart(test) {
    this.reported = new Map();
    [retries, unselected] = [0, 0];
    this.unit = unitOf(test); // a case comes with the last project's test of its file
    leg.start(this.unit);
  }

  // A further try may follow: the file's end has the result of the last one.
  onTestCaseResult(_test, result) {
    const isFinal = result.status !== "failed" || !(result.invocations <= retries);
    if (!isFinal || retries === Infinity) {
      leg.opened(this.unit).lastS = leg.nowS(); // its time is no set-up
      return;
    }
    const key = `${result.status} ${result.fullName}`;
    this.reported.set(key, (this.reported.get(key) || 0) + 1);
    this.record(result);
  }

  onTestFileResult(_test, file) {
    for (const result of file.testResults) {
      // Said by the older runner only here.
      const key = `${result.status} ${result.fullName}`;
      const left = this.reported.get(key) || 0;
      if (left > 0) this.reported.set(key, left - 1);
      else this.record(result);
    }
    const failed = file.testResults.some((result) => result.status === "failed");
    const error = file.testExecError || (!failed && file.failureMessage);
    if (error) {
      const message = error.stack || error.message || file.failureMessage;
      leg.result(this.unit, "", "errored", { message });
    }
    const defined = file.testResults.length;
    leg.closed(this.unit, { defined, selected: defined - unselected });
  }

  record(result) {
    leg.result(this.unit, result.fullName, OUTCOMES[result.status] || "skipped", {
      wallMs: result.duration,
      message: (result.failureMessages || []).join("\n"),
      reruns: (result.invocations || 1) - 1,
    });
  }
};
