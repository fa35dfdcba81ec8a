// Reads one JSON request a line, {"workflow": text} or {"expression": text, "contexts": {...}, "status": word}, and
// answers each with what GitHub's own parser says. Usage: node github_parser.mjs FOLDER_WITH_NODE_MODULES
import { register } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

// The package imports its schema as bare JSON, which node takes only from a loader.
const loader = `
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
export async function load(url, context, next) {
  if (!url.endsWith(".json")) return next(url, context);
  const source = "export default " + await readFile(fileURLToPath(url), "utf8");
  return { format: "module", shortCircuit: true, source };
}`;
register("data:text/javascript," + encodeURIComponent(loader));

const packages = join(process.argv[2], "node_modules", "@actions");
const load = (name) => import(pathToFileURL(join(packages, name, "dist", "index.js")).href);
const { parseWorkflow, convertWorkflowTemplate, NoOperationTraceWriter } = await load("workflow-parser");
const { Evaluator, Lexer, Parser, data } = await load("expressions");
const { reviver } = await import(pathToFileURL(join(packages, "expressions", "dist", "data", "reviver.js")).href);

async function parse(content) {
  const { context, value } = parseWorkflow({ name: "workflow.yml", content }, new NoOperationTraceWriter());
  const template = value && (await convertWorkflowTemplate(context, value));
  // As GitHub reads it: a condition without a status function has `success() &&` before it.
  const jobs = Object.fromEntries((template?.jobs ?? []).map((job) => [
    job.id.value,
    { if: bare(job.if), steps: (job.steps ?? []).map((step) => bare(step.if)) },
  ]));
  return { errors: context.errors.getErrors().map((error) => error.message), jobs };
}

function bare(condition) {
  return String(condition).replace(/^\$\{\{\s*|\s*\}\}$/g, "");
}

function evaluate(expression, contexts, status) {
  // Of a job they look at its needs and the run, of a step at the steps before it and the job.
  const values_of = { always: true };
  for (const word of ["success", "failure", "cancelled"]) values_of[word] = word === status;
  const functions = Object.entries(values_of).map(([name, value]) => (
    { name, minArgs: 0, maxArgs: 0, call: () => new data.BooleanData(value) }
  ));
  const tokens = new Lexer(expression).lex().tokens;
  const tree = new Parser(tokens, Object.keys(contexts), functions).parse();
  const values = JSON.parse(JSON.stringify(contexts), reviver);
  const named = new Map(functions.map((one) => [one.name, one]));
  return new Evaluator(tree, values, named).evaluate().coerceString();
}

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const request = JSON.parse(line);
  const answer = request.workflow === undefined
    ? { value: evaluate(request.expression, request.contexts, request.status ?? "success") }
    : await parse(request.workflow);
  console.log(JSON.stringify(answer));
}
