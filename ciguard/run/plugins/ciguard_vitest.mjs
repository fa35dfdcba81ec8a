// Vitest 3+: runs the files that a leg asks for, in that order, and records them as they run.
// Loaded by NODE_OPTIONS=--import, so that it reaches a Vitest behind npx, pnpm or a script. In the
// process of its command line, and in no other, it takes over: it reads the same arguments and
// configuration, and starts Vitest with one more reporter, its own sequencer and one worker at a
// time, as a leg has processes of its own.

import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const { Leg, truncated } = require("./ciguard_node.cjs");

const OUTCOMES = { passed: "passed", failed: "failed" }; // all others are skipped
const NO_MEMORY = /FATAL ERROR: .*(?:heap out of memory|Allocation failed)/;

class Reporter {
  constructor(leg) {
    this.leg = leg;
    this.open = ""; // one file at a time
    this.recorded = new Set(); // ids of tests
    this.lastWords = "";
    // A worker that dies prints here, and Vitest goes on with another one.
    const { write } = process.stderr;
    process.stderr.write = (text, ...rest) => {
      const found = NO_MEMORY.exec(String(text));
      if (found) this.lastWords = found[0];
      return write.call(process.stderr, text, ...rest);
    };
  }

  unitOf(module) {
    return this.leg.unitOf(module.moduleId);
  }

  onTestModuleQueued(module) {
    this.died();
    this.open = this.unitOf(module);
    this.lastWords = "";
    this.leg.start(this.open);
  }

  onTestCaseResult(test) {
    if (this.recorded.has(test.id)) return;
    this.recorded.add(test.id);
    const { state, errors } = test.result();
    const { duration, retryCount } = test.diagnostic() || {};
    this.leg.result(this.unitOf(test.module), test.fullName, OUTCOMES[state] || "skipped", {
      wallMs: duration,
      message: (errors || []).map(describe).join("\n\n"),
      reruns: retryCount,
    });
  }

  // The hooks of a suite: its tests were skipped.
  onTestSuiteResult(suite) {
    const errors = suite.errors();
    if (errors.length > 0) {
      const message = errors.map(describe).join("\n\n");
      this.leg.result(this.unitOf(suite.module), suite.fullName, "errored", { message });
    }
  }

  onTestModuleEnd(module) {
    const unit = this.unitOf(module);
    const errors = module.errors();
    const tests = [...module.children.allTests()];
    // Vitest may tell of the file before it does of its last tests.
    tests.filter((test) => test.result().state !== "pending").forEach((test) => this.onTestCaseResult(test));
    if (errors.length > 0) {
      this.leg.result(unit, "", "errored", { message: errors.map(describe).join("\n\n") });
    } else if (tests.length === 0) { // an error without passWithNoTests
      this.leg.result(unit, "", "skipped", { message: "it has no tests" });
    }
    this.leg.closed(unit);
    if (unit === this.open) this.open = "";
  }

  onTestRunEnd(modules, errors) {
    this.died(errors);
    for (const error of errors) if (!/^\[vitest-pool\]/.test(error.message)) this.unhandled(error);
  }

  // A file that has begun and did not end: its worker is gone.
  died(errors = []) {
    if (!this.open) return;
    const words = this.lastWords || errors.map((error) => error.message).join("; ");
    const ending = this.lastWords ? "out_of_memory" : "crash";
    this.leg.died(this.open, ending, `its worker died${words ? `: ${words}` : ""}`);
    this.open = "";
  }

  // Thrown between tests: it is the file's that was running.
  unhandled(error) {
    const file = error.VITEST_TEST_PATH;
    if (file) this.leg.result(this.leg.unitOf(file), "", "errored", { message: describe(error) });
  }
}

function describe(error) {
  const text = error.stack || `${error.name || "Error"}: ${error.message || error}`;
  return truncated(text.includes(error.message || "") ? text : `${error.message}\n${text}`);
}

// Which files run, and in which order.
function chosen(leg, specifications) {
  if (leg.collects) {
    leg.listed([...new Set(specifications.map((one) => one.moduleId))].sort());
    return [];
  }
  const places = new Map(leg.units.map((unit, place) => [unit, place]));
  const place = (one) => places.get(leg.unitOf(one.moduleId));
  const found = specifications.filter((one) => place(one) !== undefined);
  const there = new Set(found.map((one) => leg.unitOf(one.moduleId)));
  for (const unit of leg.units.filter((unit) => !there.has(unit))) {
    leg.notCollected(unit, existsSync(unit) ? "left out by the configuration of Vitest" : "");
  }
  return found.sort((a, b) => place(a) - place(b));
}

async function run() {
  const { argv } = process;
  const own = createRequire(path.join(process.cwd(), "package.json"));
  const folder = path.dirname(own.resolve("vitest/package.json"));
  const { createVitest, parseCLI } = await import(pathToFileURL(path.join(folder, "dist/node.js")));
  const leg = new Leg(process.env);
  process.env.TEST ??= "true";
  process.env.VITEST ??= "true";
  process.env.NODE_ENV ??= "test";
  const { filter, options } = parseCLI(["vitest", ...argv.slice(2)]);
  const vitest = await createVitest("test", {
    ...options,
    run: true,
    watch: false,
    ...(options.coverage && { coverage: { ...options.coverage, thresholds: undefined } }),
  });
  vitest.config.sequence.sequencer = class {
    shard(files) {
      return files;
    }

    sort(files) {
      return files; // in the order of the units already
    }
  };
  for (const { config } of [vitest, ...vitest.projects]) {
    Object.assign(config, { maxWorkers: 1, minWorkers: 1, fileParallelism: false });
  }
  if (!leg.collects) vitest.reporters.push(new Reporter(leg));
  const runFiles = vitest.runFiles.bind(vitest);
  vitest.runFiles = (files, ...rest) => {
    const wanted = chosen(leg, files);
    return wanted.length > 0 ? runFiles(wanted, ...rest) : { testModules: [], unhandledErrors: [] };
  };
  try {
    await vitest.start(filter);
  } finally {
    await vitest.close();
  }
}

// Its command line, and none of the workers that inherit NODE_OPTIONS.
if (Leg.asked(process.env) && /[\\/]vitest(?:\.m?js)?$/.test(process.argv[1] || "")) {
  try {
    await run();
  } catch (error) {
    console.error(error);
    process.exitCode ||= 1;
  }
  process.exit();
}
