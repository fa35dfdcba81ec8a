"use strict";
// Mocha 8+: runs the files that a leg asks for, in that order, and records them as they run.
// Loaded by NODE_OPTIONS=--require, so that it reaches a Mocha behind npx, nyc or a script. It
// changes the first Mocha of the process that has files, and none that a test makes. In Mocha's one
// run of all files, tests outside of `describe` come first, and hooks there are for every file.
// Here each file runs by itself, as with --parallel: what it defines at its top is for it alone.

const { existsSync, readFileSync } = require("fs");
const { Leg, onLoad } = require("./ciguard_node.cjs");

// What a file adds to the root suite as it is loaded.
const TESTS = ["tests", "suites", "_onlyTests", "_onlySuites"];
const HOOKS = ["_beforeAll", "_beforeEach", "_afterEach", "_afterAll"];
const INTERFACE_EVENTS = ["pre-require", "require", "post-require"];
const CONFIGURATIONS = ["js", "cjs", "yaml", "yml", "jsonc", "json"].map((type) => `.mocharc.${type}`);
let ours = null;

const nameOf = (test) => test.fullTitle() || "(no title)";
const once = (test) => test.retriedTest() || test; // a retry is a copy

function textOf({ message, stack }) {
  return String(stack).includes(message) ? stack : `${message}\n${stack}`;
}

// With the place that sets it: Mocha's options do not keep it.
function placed(name, text) {
  const { argv, env } = process;
  const files = [...CONFIGURATIONS, "package.json"].filter((file) => existsSync(file));
  const texts = [["--", argv.join(" ")], ["MOCHA_OPTIONS: ", env.MOCHA_OPTIONS || ""]];
  for (const file of files) texts.push([`${file}: `, readFileSync(file, "utf8")]);
  const [place] = texts.find((one) => name.test(one[1])) || ["--"];
  return `${place}${text}`;
}

function settings({ dryRun, "dry-run": isDry, grep, invert }) {
  const found = [];
  if (dryRun || isDry) found.push(["not_executed", placed(/dry-?run/i, "dry-run")]);
  if (grep) found.push(["filter", placed(/grep|\s-[gf]\b/, `grep=${grep}${invert ? ", invert" : ""}`)]);
  return found;
}

// What a file has defined, with the names that a suite of Mocha has for it.
class SpecFile {
  constructor(unit, file) {
    Object.assign(this, { unit, file, error: null, hasBegun: false, written: new Set() });
    for (const name of [...TESTS, ...HOOKS]) this[name] = [];
  }

  allTests() {
    const inside = (suite) => suite.tests.concat(...suite.suites.map(inside));
    return inside(this);
  }

  hasHooksOnly() {
    return this.allTests().length === 0 && HOOKS.some((name) => this[name].length > 0);
  }
}

class Run {
  constructor(mocha) {
    this.leg = new Leg(process.env);
    this.mocha = mocha;
    this.root = mocha.suite;
    this.isLoaded = false;
    this.now = null;
    mocha.options.failZero = false; // what has no test is said by name
  }

  // Those of --file have hooks for all others: each process loads them first.
  select() {
    const { leg, mocha } = this;
    leg.execution(settings(mocha.options));
    const found = leg.select(mocha.files, "Mocha", (file) => file);
    const asked = [...new Set(found.map((file) => leg.unitOf(file)))];
    if (leg.collects) process.exit(0); // --require has been loaded, and no test file
    const paths = new Map(mocha.files.map((file) => [leg.unitOf(file), file]));
    this.first = (mocha.options.file || []).map((file) => leg.unitOf(file));
    const loaded = [...new Set([...this.first, ...asked])];
    this.files = new Map(loaded.map((unit) => [unit, new SpecFile(unit, paths.get(unit))]));
    this.asked = asked.map((unit) => this.files.get(unit));
  }

  // A file that cannot be loaded ends the run of Mocha; here it has its error, and no test.
  async load(loadFile) {
    const { root } = this;
    this.isLoaded = true;
    this.select();
    this.leg.event("collection_start");
    for (const file of this.files.values()) {
      const isShared = this.first.includes(file.unit);
      const names = isShared ? TESTS : [...TESTS, ...HOOKS];
      const sizes = names.map((name) => root[name].length);
      const taken = () => names.map((name, place) => root[name].splice(sizes[place]));
      try {
        await loadFile(file.file);
        taken().forEach((found, place) => { file[names[place]] = found; });
      } catch (error) {
        if (isShared) throw error;
        taken();
        file.error = error || new Error(`it threw ${error}`);
        this.renewInterface();
      }
      const { filterOnly, hasOnly } = Object.getPrototypeOf(root);
      file.defined = file.allTests().length;
      if (!hasOnly.call(file)) continue;
      this.leg.focus(file.unit);
      filterOnly.call(file);
    }
    root.hasOnly = () => false; // it is of its file
    this.mocha.files = this.asked.map((file) => file.file);
    this.showAll();
    this.leg.event("collection_end");
  }

  // An error inside of a `describe` leaves it open for what the next file defines.
  renewInterface() {
    INTERFACE_EVENTS.forEach((name) => this.root.removeAllListeners(name));
    this.mocha.ui(this.mocha.options.ui);
  }

  // To reporters that look at the whole.
  showAll() {
    for (const name of ["tests", "suites"]) {
      this.root[name] = [].concat(...this.asked.map((file) => file[name]));
    }
  }

  attach(runner) {
    this.runner = runner;
    const { root } = this;
    const { runSuite, runTests } = runner;
    runner.runSuite = (suite, fn) => {
      const isEmpty = suite === root && runner.grepTotal(root) === 0;
      return isEmpty ? this.runFiles().then(() => fn()) : runSuite.call(runner, suite, fn);
    };
    // With the root itself as the suite that failed, Mocha goes on to its last hooks.
    runner.runTests = (suite, fn) => (suite === root
      ? this.runFiles(runTests).then(() => fn(root)) : runTests.call(runner, suite, fn));
    runner.on("test", (test) => {
      if (this.now && test.currentRetry() === 0) this.leg.caseStart(this.now.unit, nameOf(test));
    });
    runner.on("pass", (test) => this.write(test, "passed"));
    runner.on("pending", (test) => this.write(test, "skipped"));
    runner.on("fail", (test, error) => this.fail(test, error));
    runner.on("end", () => this.end());
  }

  async runFiles(runTests) {
    for (const file of this.asked) {
      if (this.leg.mustStop() || this.isCutShort()) break;
      this.begin(file);
      if (file.error) this.failToLoad(file);
      else if (runTests) await this.runFile(file, runTests);
      this.close();
    }
    this.showAll();
  }

  isCutShort() {
    return this.runner._abort || (this.runner.failures > 0 && this.root._bail);
  }

  // The root suite as if there were no other file.
  async runFile(file, runTests) {
    const { root, runner } = this;
    const shared = HOOKS.map((name) => root[name]);
    const call = (step, ...given) => new Promise((resolve) => {
      runner.suite = root;
      step.call(runner, ...given, resolve);
    });
    const [, eachBefore, eachAfter] = shared;
    Object.assign(root, { tests: file.tests, suites: file.suites });
    Object.assign(root, { _beforeAll: file._beforeAll, _afterAll: file._afterAll });
    root._beforeEach = [...eachBefore, ...file._beforeEach];
    root._afterEach = [...eachAfter, ...file._afterEach];
    const hasTests = runner.grepTotal(root) > 0;
    let error = hasTests ? await call(runner.hook, "beforeAll") : null;
    if (!error) error = await call(runTests, root);
    for (const suite of file.suites) {
      if (!error && !runner._abort) error = await call(runner.runSuite, suite);
    }
    if (hasTests) await call(runner.hook, "afterAll");
    HOOKS.forEach((name, place) => { root[name] = shared[place]; });
  }

  // --- The record ---

  begin(file) {
    this.now = file;
    file.hasBegun = true;
    this.leg.start(file.unit);
  }

  // For the project's reporters and the exit code it is a test that failed.
  failToLoad(file) {
    const test = new this.mocha.constructor.Test(`${file.unit} cannot be loaded`, () => {});
    Object.assign(test, { parent: this.root, file: file.file });
    file.tests.push(test);
    file.written.add(test);
    this.runner.fail(test, file.error);
    this.runner.emit("test end", test);
  }

  write(test, outcome, message = "") {
    this.now.written.add(once(test));
    this.leg.result(this.now.unit, nameOf(test), outcome, {
      wallMs: test.duration,
      message,
      reruns: test.currentRetry(),
    });
  }

  // A hook's failure is the file's, and one that comes after the end of a test, too.
  fail(test, error) {
    const text = textOf(error);
    const isTest = test.type === "test" && this.now && !this.now.error;
    if (isTest && !this.now.written.has(once(test))) return this.write(test, "failed", text);
    const place = this.now && this.now.error ? "" : `, in ${test.fullTitle()}`;
    this.lastError = text.replace(/$/m, () => place);
    if (!this.now) return undefined; // before the first file
    this.now.lastError = this.lastError;
    return this.leg.result(this.now.unit, "", "errored", { message: this.lastError });
  }

  close() {
    const file = this.now;
    const isSelected = (test) => this.runner.grepTotal({ eachTest: (visit) => visit(test) }) > 0;
    const isLeft = (test) => !file.written.has(once(test)) && isSelected(test);
    const why = file.lastError ? `: ${file.lastError.split("\n")[0]}` : "";
    for (const test of file.allTests().filter(isLeft)) {
      this.write(test, "skipped", `not run${why}`);
    }
    if (file.hasHooksOnly()) {
      const message = "it has hooks and no test: name it in Mocha's --file for all files";
      this.leg.result(file.unit, "", "errored", { message });
    } else if (file.written.size === 0 && !file.lastError) {
      this.leg.result(file.unit, "", "skipped", { message: "no test of it is selected" });
    }
    const selected = file.allTests().filter(isSelected).length;
    this.leg.closed(file.unit, file.error ? undefined : { defined: file.defined, selected });
  }

  // What has not begun: a hook before all files failed, or Mocha stopped.
  end() {
    const left = this.asked.filter((file) => !file.hasBegun);
    if (!this.now) {
      for (const { unit } of left) {
        this.leg.start(unit);
        this.leg.result(unit, "", "errored", { message: this.lastError });
        this.leg.closed(unit);
      }
    } else if (left.length > 0 && this.isCutShort()) {
      const gaveUp = `Mocha gave up: ${String(this.lastError).split("\n")[0]}`;
      const detail = this.runner._abort ? gaveUp : "bail is set; --no-bail runs all";
      this.leg.event("session_stopped", { detail });
    }
  }
}

function refuse(text) {
  process.stderr.write(`${text}\n`);
  process.exit(1);
}

function takes(mocha) {
  if (ours === null && mocha.files.length > 0 && Leg.asked(process.env)) {
    for (const name of ["watch", "delay"]) {
      if (mocha.options[name]) refuse(`ciguard runs no Mocha with the option ${name}`);
    }
    ours = new Run(mocha);
  }
  return ours !== null && ours.mocha === mocha;
}

function withMocha(found) {
  const { prototype } = found;
  if (!prototype || !prototype.loadFiles) return found; // another module of that name
  const { loadFilesAsync, parallelMode, run } = prototype;
  if (!parallelMode) refuse(`Mocha 8 or newer is needed, not ${prototype.version || "this one"}`);
  prototype.parallelMode = function (...given) {
    // A leg has processes of its own.
    return ours === null && Leg.asked(process.env) ? this : parallelMode.apply(this, given);
  };
  prototype.loadFilesAsync = function (...given) {
    if (!takes(this)) return loadFilesAsync.apply(this, given);
    return ours.load((file) => {
      this.files = [file];
      return loadFilesAsync.apply(this, given);
    });
  };
  prototype.run = function (fn) {
    if (!takes(this)) return run.call(this, fn);
    if (!ours.isLoaded) return this.loadFilesAsync().then(() => this.run(fn)); // parallel
    // The number of failures may be that of a signal.
    const runner = run.call(this, (failures) => fn && fn(Math.min(failures, 1)));
    ours.attach(runner);
    return runner;
  };
  return found;
}

if (Leg.asked(process.env)) onLoad({ "../mocha": withMocha, "../mocha.cjs": withMocha });
