"use strict";
// Jest 27+: runs the files that a leg asks for, in that order, and records them as they run.
// Loaded by NODE_OPTIONS=--require, so that it reaches a Jest behind npx, yarn or a script. It adds
// itself to the configuration that Jest has read: as one more reporter, as the sequencer, which
// Jest also asks which files to run, and in one process, as a leg has processes of its own.
// The configuration of the project stays what it is, its reporters included.

const { existsSync } = require("fs");
const { Leg, onLoad } = require("./ciguard_node.cjs");

const OUTCOMES = { passed: "passed", failed: "failed" }; // all others are skipped
let leg = null;

function changedConfig(config) {
  const reporters = config.reporters || [["default", {}]];
  return Object.freeze({
    ...config,
    testSequencer: __filename,
    reporters: leg.collects ? reporters : [...reporters, [__filename, {}]],
    maxWorkers: 1, // else timings of the last run decide whether a crash takes all files along
    passWithNoTests: true, // what is not found is said by name
    listTests: Boolean(leg.collects),
    coverageThreshold: undefined, // no shard reaches that of the whole suite
  });
}

function withJestConfig(found) {
  const readConfigs = async (...given) => {
    if (leg === null && Leg.asked(process.env)) leg = new Leg(process.env);
    const answer = await found.readConfigs(...given);
    return leg === null ? answer : { ...answer, globalConfig: changedConfig(answer.globalConfig) };
  };
  return Object.create(found, { readConfigs: { value: readConfigs, enumerable: true } });
}

function withWatcher(found) {
  const { prototype } = found.TestWatcher;
  const isInterrupted = prototype.isInterrupted;
  prototype.isInterrupted = function () {
    return isInterrupted.call(this) || (leg !== null && leg.mustStop());
  };
  return found;
}

if (Leg.asked(process.env)) onLoad({ "jest-config": withJestConfig, "jest-watcher": withWatcher });

module.exports = class {
  // --- The sequencer ---

  sort(tests) {
    if (leg.collects) {
      leg.listed([...new Set(tests.map((test) => test.path))].sort());
      return tests;
    }
    const places = new Map(leg.units.map((unit, place) => [unit, place]));
    const place = (test) => places.get(leg.unitOf(test.path));
    const found = tests.filter((test) => place(test) !== undefined);
    const there = new Set(found.map((test) => leg.unitOf(test.path)));
    for (const unit of leg.units.filter((unit) => !there.has(unit))) {
      leg.notCollected(unit, existsSync(unit) ? "left out by the configuration of Jest" : "");
    }
    return found.sort((a, b) => place(a) - place(b));
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
    leg.start(leg.unitOf(test.path));
  }

  onTestCaseResult(test, result) {
    this.reported.set(result.fullName, (this.reported.get(result.fullName) || 0) + 1);
    this.#record(test, result);
  }

  onTestFileResult(test, file) {
    const unit = leg.unitOf(test.path);
    for (const result of file.testResults) {
      // Said by the older runner only here.
      const left = this.reported.get(result.fullName) || 0;
      if (left > 0) this.reported.set(result.fullName, left - 1);
      else this.#record(test, result);
    }
    const failed = file.testResults.some((result) => result.status === "failed");
    const error = file.testExecError || (!failed && file.failureMessage);
    if (error) {
      const message = error.stack || error.message || file.failureMessage;
      leg.result(unit, "", "errored", { message });
    }
    leg.closed(unit);
  }

  #record(test, result) {
    leg.result(leg.unitOf(test.path), result.fullName, OUTCOMES[result.status] || "skipped", {
      wallMs: result.duration,
      message: (result.failureMessages || []).join("\n"),
      reruns: (result.invocations || 1) - 1,
    });
  }
};
