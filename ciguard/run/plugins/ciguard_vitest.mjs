// Vitest 3+: runs the files that a leg asks for, in that order, and records them as they run.
// Loaded by NODE_OPTIONS=--import, so that it reaches a Vitest behind npx, pnpm or a script. In the
// process of its command line, and in no other, it takes over: it reads the same arguments and
// configuration, and starts Vitest with one more reporter, its own sequencer and one worker at a
// time, as a leg has processes of its own.

import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const { Leg, truncated } = require("./ciguard_node.cjs");

const OUTCOMES = { passed: "passed", failed: "failed" }; // all others are skipped
const FOCUSED = /Unexpected \.only modifier/;
const NO_MEMORY = /FATAL ERROR: .*(?:heap out of memory|Allocation failed)/;

class Reporter {
  constructor(leg) {
    this.leg = leg;
    this.open = ""; // one file at a time
    this.units = new Map(); // by file, the last one
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
    return this.leg.unitOf(module.moduleId, module.project.name);
  }

  onTestModuleQueued(module) {
    this.died();
    this.open = this.unitOf(module);
    this.units.set(module.moduleId, this.open);
    this.lastWords = "";
    this.leg.start(this.open);
  }

  // Without `allowOnly`, `.only` is an error of its test or suite.
  onTestModuleCollected(module) {
    const errors = [...module.children.allSuites()].flatMap((suite) => suite.errors());
    errors.push(...[...module.children.allTests()].flatMap((test) => test.result().errors || []));
    if (errors.some(({ message }) => FOCUSED.test(message))) this.leg.focus(this.unitOf(module));
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
    if (errors.length > 0 && !this.recorded.has(suite.id)) {
      this.recorded.add(suite.id);
      const message = errors.map(describe).join("\n\n");
      this.leg.result(this.unitOf(suite.module), suite.fullName, "errored", { message });
    }
  }

  onTestModuleEnd(module) {
    const unit = this.unitOf(module);
    const errors = module.errors();
    const tests = [...module.children.allTests()];
    [...module.children.allSuites()].forEach((suite) => this.onTestSuiteResult(suite)); // not entered
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
    const name = this.leg.openCase(this.open);
    this.leg.died(this.open, ending, `its worker died${words ? `: ${words}` : ""}`, name);
    this.open = "";
  }

  // Thrown between tests: it is the file's that was running.
  unhandled(error) {
    const file = error.VITEST_TEST_PATH;
    const unit = this.units.get(file);
    if (unit) this.leg.result(unit, "", "errored", { message: describe(error) });
  }
}

function describe(error) {
  const text = error.stack || `${error.name || "Error"}: ${error.message || error}`;
  return truncated(text.includes(error.message || "") ? text : `${error.message}\n${text}`);
}

async function importVitest(file) {
  const own = createRequire(path.join(process.cwd(), "package.json"));
  const folder = path.dirname(own.resolve("vitest/package.json"));
  return import(pathToFileURL(path.join(folder, "dist", file)));
}

function settings(configs, words) {
  const found = words.filter((word) => /:\d+$/.test(word)).map((line) => ["filter", line]);
  for (const { testNamePattern, tagsFilter } of configs) {
    if (testNamePattern) found.push(["filter", `--testNamePattern=${testNamePattern.source || testNamePattern}`]);
    if (tagsFilter && tagsFilter.length > 0) found.push(["filter", `--tagsFilter=${tagsFilter.join(", ")}`]);
  }
  return found;
}

async function run() {
  const { argv } = process;
  const { createVitest, parseCLI } = await importVitest("node.js");
  const { CIGUARD_RECORD_FILE, CIGUARD_ORIGIN_AT } = process.env;
  const leg = new Leg(process.env);
  process.env.TEST ??= "true";
  process.env.VITEST ??= "true";
  process.env.NODE_ENV ??= "test";
  const { filter, options } = parseCLI(["vitest", ...argv.slice(2)]);
  const vitest = await createVitest("test", {
    ...options,
    run: true,
    watch: false,
    // Vitest would replace the coverage of all tests.
    ...(leg.onlyRepeats ? { coverage: { enabled: false } } : options.coverage && { coverage: { ...options.coverage, thresholds: undefined } }),
  });
  const unchanged = (files) => files; // in the order of the units already
  vitest.config.sequence.sequencer = class { shard = unchanged; sort = unchanged; };
  const projects = new Map([vitest, ...vitest.projects].map((one) => [one.config, one.vite]));
  const configs = [...projects.keys()]; // that of one project may be the whole one's
  leg.execution(settings(configs, filter));
  for (const [config, vite] of projects) {
    Object.assign(config, { maxWorkers: 1, minWorkers: 1, fileParallelism: false, allowOnly: false });
    if (config.browser.enabled) continue;
    config.setupFiles = [fileURLToPath(import.meta.url), ...config.setupFiles];
    vite.config.server.fs.allow.push(fileURLToPath(new URL(".", import.meta.url))); // asked to Vite 6
  }
  const shuffled = configs.find(({ sequence }) => sequence.shuffle);
  if (shuffled && !leg.collects) leg.event("seed", { detail: `--sequence.seed=${shuffled.sequence.seed}` });
  if (!leg.collects) vitest.reporters.push(new Reporter(leg));
  const runFiles = vitest.runFiles.bind(vitest);
  vitest.runFiles = (files, ...rest) => {
    const wanted = leg.select(files, "Vitest", (one) => one.moduleId, (one) => one.project.name);
    const environ = { CIGUARD_RECORD_FILE, CIGUARD_ORIGIN_AT };
    vitest.provide("ciguard", { environ, folder: leg.folder, shared: [...leg.shared] });
    return wanted.length > 0 ? runFiles(wanted, ...rest) : { testModules: [], unhandledErrors: [] };
  };
  try {
    await vitest.start(filter);
  } finally {
    await vitest.close();
  }
}

// In the worker, as a set-up file: what Vitest tells its reporters may come after a test has ended
// the process.
async function announceCases({ config, providedContext }) {
  const { environ, folder, shared } = providedContext.ciguard;
  const { beforeEach } = await importVitest("index.js");
  const leg = (process[Symbol.for("ciguard")] ||= new Leg(environ)); // a worker may run many files
  Object.assign(leg, { folder, shared: new Set(shared) });
  const begun = new Map(); // a further try is the same case
  beforeEach(({ task }) => {
    const unit = leg.unitOf(task.file.filepath, config.name);
    const names = [];
    for (let one = task; one && one !== task.file; one = one.suite) names.unshift(one.name);
    const detail = begun.get(task);
    if (detail) leg.event("case_start", { unit, detail });
    else begun.set(task, leg.caseStart(unit, names.join(" > ")));
    return () => leg.event("case_end", { unit, detail: begun.get(task) });
  });
}

const worker = globalThis.__vitest_worker__;
if (worker?.providedContext?.ciguard) await announceCases(worker).catch(console.error); // no test fails by it

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
