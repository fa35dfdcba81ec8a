"use strict";
// Playwright Test 1.40+: runs the files that a leg asks for, and records them as they run.
// Loaded by NODE_OPTIONS=--require, so that it reaches a Playwright behind npx, yarn or a script,
// and added to the project's reporters by PW_TEST_REPORTER, as the VS Code extension does.
// A reporter gets the configuration that the runner itself goes by: it selects by that.

const { existsSync } = require("fs");
const path = require("path");
const { Leg, onLoad } = require("./ciguard_node.cjs");

const RUNNER = /[\\/](playwright|cli\.js)$/;
const FILTER = /^(?:-g|--(?:(?:grep|test-list)(?:-invert)?|last-failed|only-changed)(?:=|$))|:\d+$/;
const TAKES_VALUE = /^(?:-g|--(?:grep|test-list)(?:-invert)?)$/;
const OUT_OF_HEAP = /^.*JavaScript heap out of memory.*$/m;
let leg = null;
let isReading = false;
const asked = new Map(); // file -> the units in it that the leg asks for
const unreadable = new Map(); // file -> its error

const withSlashes = (file) => file.split(path.sep).join("/");
const prefixOf = (project) => (project.name ? `[${project.name}] ` : "");
const textOf = (error) => String(error.stack || error.message || error.value);
const lastResult = (test) => test.results[test.results.length - 1];
const nameOf = (test) => test.titlePath().slice(3).join(" › ") || "(no title)";
const hasOnly = (suite) => [...suite.suites, ...suite.tests].some((one) => one._only || (one.suites && hasOnly(one)));
const isSerial = (suite) => suite && (suite._parallelMode === "serial" || isSerial(suite.parent));

function changed(exports, name, value) {
  return new Proxy(exports, { get: (from, key) => (key === name ? value : from[key]) });
}

// Playwright runs nothing where one file cannot be read. Such a file is left without tests, and
// reported by its name.
function withTestLoader(found) {
  const loadTestFile = async (file, place, errors) => {
    if (leg === null || !asked.has(file)) return found.loadTestFile(file, place, errors);
    if (!isReading) leg.event("collection_start");
    isReading = true;
    const own = [];
    const suite = await found.loadTestFile(file, place, own);
    if (own.length > 0) {
      unreadable.set(file, own[0]);
      suite._entries = [];
    }
    return suite;
  };
  return changed(found, "loadTestFile", loadTestFile);
}

// Names of the projects that run before or after these, whatever was asked for.
function neededBy(projects, all) {
  const names = new Set();
  const visit = (project) => {
    for (const name of [...project.dependencies, project.teardown]) {
      if (!name || names.has(name)) continue;
      names.add(name);
      all.filter((one) => one.name === name).forEach(visit);
    }
  };
  projects.forEach(visit);
  return names;
}

// A pattern, of which Playwright asks nothing but this.
function allBut(files) {
  const left = new Set(files.map(withSlashes));
  return Object.assign(/(?:)/, { test: (file) => !left.has(withSlashes(file)) });
}

// The settings that leave tests out, in the command line and in the projects.
function settings(projects) {
  const words = process.argv.slice(3);
  const found = words.includes("--list") ? [["not_executed", "--list"]] : [];
  words.forEach((word, place) => {
    const text = TAKES_VALUE.test(word) ? `${word} ${words[place + 1]}` : word;
    if (FILTER.test(word)) found.push(["filter", text]);
  });
  for (const project of projects) {
    for (const name of ["grep", "grepInvert"]) {
      const patterns = [].concat(project[name] || []).map(String).filter((one) => one !== "/.*/");
      if (patterns.length > 0) found.push(["filter", `${prefixOf(project)}${name}: ${patterns.join(", ")}`]);
    }
  }
  return found;
}

// Whether Playwright has not run it, or runs it again.
function isPending(test) {
  const last = lastResult(test);
  return !last || (last.status !== test.expectedStatus && test.results.length <= test.retries);
}

class Unit {
  constructor(name, file) {
    this.name = name;
    this.file = file;
    this.tests = [];
    this.written = new Set();
    this.state = "";
  }

  start() {
    if (this.state === "") leg.start(this.name);
    else leg.append({ type: "start", unit: this.name, at_s: leg.nowS() });
    this.state = "open";
  }

  pause() {
    leg.event("unit_paused", { unit: this.name });
    this.state = "paused";
  }

  write(test) {
    const last = lastResult(test);
    if (this.written.has(test) || !last || last.status === "interrupted") return;
    this.written.add(test);
    const messages = last.errors.map(textOf);
    // A worker's last words say why it died.
    const heap = OUT_OF_HEAP.exec(last.stderr.map(String).join(""));
    if (heap && messages.some((text) => text.includes("worker process exited"))) messages.unshift(heap[0]);
    let outcome = last.status === test.expectedStatus ? "passed" : "failed";
    if (outcome === "failed" && last.status === "passed") messages.push("Expected to fail, but passed.");
    if (last.status === "skipped") outcome = "skipped";
    leg.result(this.name, nameOf(test), outcome, {
      wallMs: test.results.reduce((sum, result) => sum + result.duration, 0),
      message: outcome === "failed" ? messages.join("\n\n") : "",
      reruns: test.results.length - 1,
    });
  }

  close() {
    this.tests.forEach((test) => this.write(test));
    leg.closed(this.name);
    this.state = "closed";
  }
}

class Reporter {
  constructor() {
    this.folder = `process-${process.env.CIGUARD_PROCESS}`;
    leg = new Leg(process.env);
    delete process.env.PW_TEST_REPORTER;
    this.errors = [];
    this.units = new Map(); // by name
    this.unitOf = new Map(); // by test
  }

  version() {
    return "v2";
  }

  printsToStdio() {
    return false;
  }

  onConfigure(config) {
    this.config = config;
    config.shard = null; // the plan divides
    if (leg.collects) return;
    config.workers = 1; // a leg has processes of its own
    const filesOf = new Map(config.projects.map((project) => [project, this.#select(project)]));
    const chosen = config.projects.filter((project) => filesOf.get(project).length > 0);
    const needed = neededBy(chosen, config.projects);
    for (const [project, files] of filesOf) {
      // Playwright empties it at its start, with what an earlier process has left of its failures.
      // The workers read it from the configuration's file: tests write where they did.
      project.outputDir = path.join(project.outputDir, this.folder);
      if (files.length > 0 || !needed.has(project.name)) {
        project.testIgnore = [].concat(project.testIgnore, allBut(files));
      }
    }
  }

  #select(project) {
    const prefix = prefixOf(project);
    return leg.units.filter((unit) => unit.startsWith(prefix)).map((unit) => {
      const file = path.resolve(leg.folder, unit.slice(prefix.length));
      asked.set(file, [...(asked.get(file) || []), unit]);
      return file;
    });
  }

  onBegin(root) {
    this.root = root;
    leg.execution(settings(this.config.projects));
    const needed = neededBy(root.suites.map((suite) => suite.project()), this.config.projects);
    for (const suite of root.suites.filter((one) => !needed.has(one.project().name))) {
      for (const one of suite.suites) {
        // Its title is its path; its location may be that of what it was compiled from.
        const file = leg.pathOf(path.resolve(this.config.rootDir, one.title));
        const name = prefixOf(suite.project()) + file;
        const unit = this.units.get(name) || new Unit(name, file);
        this.units.set(name, unit);
        unit.tests.push(...one.allTests());
        one.allTests().forEach((test) => this.unitOf.set(test, unit));
        if (hasOnly(one)) leg.focus(name);
      }
    }
    if (leg.collects) return;
    if (isReading) leg.event("collection_end");
    // What ended it before it looked for files leaves it open which there are.
    const hasLooked = this.errors.every((text) => text.includes("No tests found"));
    for (const [file, units] of asked) {
      for (const unit of units.filter((name) => !this.units.has(name))) {
        if (unreadable.has(file)) {
          leg.start(unit);
          leg.result(unit, "", "errored", { message: textOf(unreadable.get(file)) });
          leg.closed(unit);
        } else if (hasLooked) {
          leg.notCollected(unit, existsSync(file) ? "left out by filters, or by test.only" : "");
        }
      }
    }
  }

  onTestBegin(test) {
    const unit = this.unitOf.get(test);
    if (!unit || (this.stopped && unit.state === "")) return;
    if (unit !== this.current) {
      if (this.current) this.current.pause(); // until a retry at the end
      this.current = unit;
      unit.start();
    }
    if (test.results.length === 1) leg.caseStart(unit.name, nameOf(test));
  }

  onTestEnd(test, result) {
    const unit = this.unitOf.get(test);
    if (!unit || unit !== this.current || result.status === "interrupted") return;
    if (!isPending(test) && !(test.retries > 0 && isSerial(test.parent))) unit.write(test);
    if (unit.tests.some(isPending)) return;
    unit.close();
    this.current = undefined;
    if (leg.mustStop()) this.#stop();
  }

  // Playwright starts no worker for a file of skipped tests, and ends as ever, with its teardowns.
  #stop() {
    this.stopped = true;
    for (const unit of this.units.values()) {
      if (unit.state === "") unit.tests.forEach((test) => { test.expectedStatus = "skipped"; });
    }
  }

  onError(error) {
    this.errors.push(textOf(error));
  }

  onEnd(result) {
    const units = [...this.units.values()];
    if (leg.collects) {
      leg.listed(units.map((unit) => [unit.name, unit.file]), this.errors.map((text) => ["", text]));
      return;
    }
    const ended = ["passed", "failed"].includes(result.status);
    for (const unit of units.filter((one) => ["open", "paused"].includes(one.state))) {
      if (ended) unit.close();
      else if (unit.state === "open") unit.pause();
    }
    const left = units.filter((unit) => unit.state === "" || unit.state === "paused");
    const [error] = this.errors;
    const failed = this.#failedDependency();
    if (units.length === 0 && unreadable.size === 0 && error) {
      process.stderr.write(`Playwright ran no test: ${error.split("\n")[0]}\n`); // its last words
    } else if (failed) {
      for (const unit of left) leg.notCollected(unit.name, `not run, for it depends on ${failed}`);
    } else if (left.length > 0 && !this.stopped) {
      leg.event("session_stopped", { detail: error || result.status });
    }
  }

  #failedDependency() {
    const failed = this.root.allTests().find((test) => !this.unitOf.has(test) && !test.ok());
    if (!failed) return "";
    const [first] = lastResult(failed).errors.map(textOf);
    return `${failed.titlePath().filter(Boolean).join(" › ")}: ${first}`;
  }
}

const { argv, env } = process;
if (Leg.asked(env) && RUNNER.test(argv[1]) && argv[2] === "test") {
  env.PW_TEST_REPORTER = __filename;
  if (env.CIGUARD_COLLECT_FILE) argv.splice(3, 0, "--list");
  onLoad({
    "../common/testLoader": withTestLoader, // to 1.5x
    "../common": (found) => (found.testLoader
      ? changed(found, "testLoader", withTestLoader(found.testLoader)) : found),
  });
}

module.exports = Reporter;
