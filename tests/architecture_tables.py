"""Who may import whom: tables of the rules of the architecture."""

from __future__ import annotations

# What the arithmetic of every verb may import.
SHARED = (
    *("__version__", "document", "errors", "model", "codec", "sources.references", "text"),
    "config.declared_memory",
    *("run.policy", "run.frameworks", "run.plugin_files"),
    *(
        "history.age",
        "history.file",
        "history.metric_series",
        "history.runs",
        "history.query",
        "render.changes",
        "render.links",
        "logs",
        "render.machine_view",
        "render.variant_groups",
        "render.notes",
    ),
)
# The arithmetic of a leg, which the planner simulates.
PURE_OF_RUN = ("run.policy",)
# What a command may import besides.
ADAPTED = (
    *("config", "console", "github", "history", "config.invocation", "sources"),
    *("init.generated_files", "init.repository", "render", "git"),
    *("guard.policy", "guard.log_patterns", "guard.record_selection"),
    "workflow",
)

# By first folder or file below ciguard/, whose own folder is always allowed to itself; or by the
# name of one module of it, of which that rule is then the whole one.
ALLOWED: dict[str, tuple[str, ...]] = {
    "__init__": (),
    "__main__": ("cli",),
    "errors": (),
    "model": ("errors",),
    "codec": ("errors", "model"),
    "run": ("__version__", "errors", "model", "text", "codec.record.lines", "codec.plan_file"),
    "run.policy": ("errors", "model", "text", "run.policy"),
    "sources": (
        *(
            "codec",
            "console",
            "errors",
            "github",
            "config.invocation",
            "model",
            "git.checkout",
            "text",
        ),
        "logs",
    ),
    "sources.local": ("errors", "model", "codec", "logs.process_logs"),
    "sources.references": ("errors", "github.repository_ref"),
    "init.repository": ("errors", "git"),
    "init.generated_files": (
        "text",
        *(
            "workflow.actions_address",
            "workflow.job_templates",
            "config",
            "errors",
            "sources.local",
        ),
        *("run.frameworks", "init.project", "init.repository"),
        *("init.workflow_files", "init.other_tools", "init.toolchains"),
    ),
    "render.templates": ("text",),
    "document": ("text",),
    "render.changes": ("text",),
    "render.links": ("model",),
    "logs": ("errors", "model"),
    "render.machine_view": ("document", "render.links", "model", "run.policy.guard_rail", "text"),
    "render.variant_groups": ("document", "render.links", "model", "text"),
    "render": ("document", "text"),
    "render.pages": ("model", "render", "text"),
    "render.charts": ("render.change_point",),
    "text": ("model",),
    "config.invocation": ("config",),
    "console": ("errors", "text"),
    "workflow": ("errors",),
    "workflow.job_templates": ("render.templates",),
    "workflow.actions_address": (
        *("errors", "git.commands", "github.repository_ref", "workflow.yaml_values"),
    ),
    "config": ("codec", "errors", "logs", "model", "run.frameworks", "text", "workflow.matrix"),
    "config.declared_memory": (),
    "cli": ("__version__", "errors", "console", "config.invocation", "run.frameworks"),
    "git": ("errors",),
    "guard.policy": (
        *("codec", "config", "console", "errors", "sources", "github", "model"),
        *("history.file", "history.query", "guard.verdict"),
    ),
    "guard.evaluation": (
        *("codec", "console", "errors", "github", "config.invocation", "model", "guard", "sources"),
        *("history.stores", "history.file", "history.query", "history.runs", "config", "text"),
    ),
    "github": ("__version__", "errors", "model", "codec"),
    "plan": SHARED,
    "plan.history_inputs": (*SHARED, "plan", "history.stores.LoadedHistory"),
    "plan.new_tests": (*SHARED, "plan", "git.checkout.ChangedFile"),
    "plan.external_timings": (*SHARED, "history", "sources.local"),
    "plan.block_registration": (
        *(*SHARED, "plan", "history.service_credentials", "history.daemon_thread"),
        "github.events",
    ),
    "guard": SHARED,
    "compare": SHARED,
    "compare.log_inputs": (
        *(*SHARED, "compare.log_comparison", "sources.local"),
        *("sources.record_finder", "sources.references"),
    ),
    "experiment": (*SHARED, "compare.statistics"),
    # Composes: reads a comparison, runs its suspects, and writes what that confirms.
    "experiment.commits": (
        *(*SHARED, "experiment", "compare.comparison", "compare.confirmation", "compare.json"),
        "compare.wording",
    ),
    "culprit": (
        *(*SHARED, "culprit", "compare.comparison", "compare.json.read_document"),
        *("compare.statistics", "render.change_point"),
    ),
    # Composes: the tests of an experiment, at the commits that a search names.
    "culprit.work": (*SHARED, "culprit", "config", "console", "experiment", "git", "sources.local"),
    "culprit.command": (
        *(*SHARED, "culprit", "compare.json", "experiment", "history"),
        "report.publish",
    ),
    "history": (*SHARED, "sources.local", "git", "github.retry"),
    "init": (
        *(
            *SHARED,
            "render.templates",
            "plan.outputs",
            "workflow.check_names",
            "workflow.job_templates",
            "workflow.rewrite",
        ),
        *("workflow.actions_address", "workflow.test_commands"),
    ),
    "init.candidates": ("config", "console", "errors", "init", "workflow"),
    "init.coverage_gates": ("errors", "workflow"),
    "init.filter_axis": ("audit", "errors", "init", "text", "workflow"),
    "init.started_suites": ("audit", "errors", "init", "run.frameworks", "workflow"),
    "init.remarks": ("config", "init", "model", "run.frameworks", "text", "workflow"),
    "init.move_in": (
        *("audit", "config", "errors", "github.repository_ref", "init", "model"),
        *("run.frameworks", "sources.local", "render.templates", "workflow"),
    ),
    "doctor": (
        *(*SHARED, "run.platforms", "plan.collection", "plan.outputs", "workflow"),
        *("init.candidates", "init.move_in.moved_files"),
    ),
    # Composes: the answer of guard and compare in few words.
    "explain": (*SHARED, "compare", "guard", "render.plaintext", "report"),
    "export": (*SHARED, "guard"),
    "coverage": (*SHARED, "guard.wording", "plan.collection.SECRETS"),
    "audit": (*SHARED, "workflow", "guard.diagnosis", "guard.log_patterns"),
    # Composes: audits a matrix, and plans it as it is.
    "audit.matrix_command": (*SHARED, "audit", "workflow", "plan"),
    "audit.repository_reader": (*(*SHARED, "audit", "console", "github"), "sources.inputs"),
    "report": (*SHARED, "github", "render", "guard", "compare"),
    "report.judging": (*SHARED, "compare", "config", "github", "guard", "report", "sources"),
    "report.remote_run": (*SHARED, "config", "github", "guard", "report", "sources"),
    "report.publish": (*SHARED, "github", "guard", "render", "report"),
    "site": (*SHARED, "history", "render", "compare.whose.interval_text"),
    "site.command": (*SHARED, "history", "render", "site", "guard.view.owner_text"),
    # Composes all, for an organisation.
    "serve": (
        *(*SHARED, "config", "github", "guard", "compare", "history", "render", "report"),
        *("console", "sources", "render.templates", "explain.explanation", "culprit.answer"),
        "plan.pool_shards.CLAIM_S",
    ),
    "serve.state": ("errors", "github.retry", "model", "render.pages", "serve.state"),
}
VERBS = (
    "plan",
    "guard",
    "compare",
    "culprit",
    "experiment",
    "history",
    "init",
    "doctor",
    "report",
    "explain",
    "export",
    "audit",
    "coverage",
    "site",
)

# What travels in the pyz besides run/: see DESIGN, "Nothing to install in a leg".
LEG = ("errors", "text", "codec.__init__", "codec.record.lines", "codec.plan_file")

# The modules of a verb's folder that read and write: everything else in it is arithmetic.
ADAPTERS = frozenset(
    {"history.stores", "history.branch_store", "plan.collection"}
    | {"history.daemon_thread", "history.service_credentials", "history.service_store"}
    | {"plan.block_registration", "plan.external_timings"}
    | {"experiment.process", "guard.policy", "guard.evaluation"}
    | {"compare.log_inputs"}
    | {"init.candidates", "init.generated_files", "init.move_in", "init.repository"}
    | {"audit.repository_reader"}
)

PURE = frozenset(
    {"codec", "document", "render.links", "logs", "model", "errors", "sources.references", "text"}
    | {"config.declared_memory"}
)
# A command that is not `command.py`: these verbs have two halves.
COMMANDS = frozenset(
    {"experiment.command", "experiment.commits", "audit.command", "audit.matrix_command"}
    | {"culprit.command", "culprit.work"}
    | {"audit.workflow_command"}
)

IMPURE = frozenset(
    {"os", "pathlib", "time", "random", "logging", "subprocess", "socket", "httpx"}
    | {"shutil", "tempfile", "threading"}
)
