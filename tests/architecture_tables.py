"""Who may import whom: tables of the rules of the architecture."""

from __future__ import annotations

# What the arithmetic of every verb may import.
SHARED = (
    *("__version__", "document", "errors", "model", "codec", "sources.references", "text"),
    "declared_memory",
    *("run.policy", "run.frameworks", "run.plugin_files"),
    *(
        "history.file",
        "history.metric_series",
        "history.runs",
        "history.query",
        "links",
        "logs",
        "machine_view",
        "moved_units_view",
        "variant_groups",
    ),
)
# The arithmetic of a leg, which the planner simulates.
PURE_OF_RUN = ("run.policy",)
# What a command may import besides.
ADAPTED = (
    *(
        "config",
        "config_mistakes",
        "config_sections",
        "config_values",
        "suites_and_pools",
        "console",
        "github",
        "history",
        "invocation",
        "sources",
    ),
    *("init.generated_files", "init.repository", "render", "template_loader", "git"),
    *("compare.ancestry", "guard.policy", "guard.log_patterns", "guard.run_context"),
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
        *("codec", "console", "errors", "github", "invocation", "model", "git.checkout", "text"),
        "logs",
    ),
    "sources.local": ("errors", "model", "codec", "logs.process_logs"),
    "sources.references": ("errors", "github.repository_ref"),
    "init.repository": ("errors", "git.commands"),
    "init.generated_files": (
        *(
            "actions_address",
            "config",
            "config_sections",
            "errors",
            "sources.local",
            "git.commands",
            "github.repository_ref",
            "template_loader",
        ),
        *("run.frameworks", "init.checksum", "init.project", "init.repository"),
        *("init.workflow_files", "init.other_tools", "init.language_suites"),
    ),
    "template_loader": ("text",),
    "mermaid": (),
    "document": ("text",),
    "links": ("model",),
    "logs": ("errors", "model"),
    "machine_view": ("document", "links", "model", "run.policy.guard_rail", "text"),
    "moved_units_view": ("document", "links", "model", "text"),
    "variant_groups": ("document", "links", "model", "text"),
    "render": ("document", "template_loader", "text"),
    "text": ("model",),
    "invocation": ("config",),
    "console": ("errors", "text"),
    "workflow": ("errors",),
    "workflow.job_templates": ("template_loader", "workflow"),
    "actions_address": ("config", "errors", "github.repository_ref"),
    "config": (
        *("config_mistakes", "config_sections", "config_values", "errors", "logs", "model"),
        "run.frameworks",
    ),
    "config_sections": ("config_values", "model", "run.frameworks"),
    "config_mistakes": (),
    "config_values": ("declared_memory", "model"),
    "declared_memory": (),
    "suites_and_pools": (
        *("config", "errors", "model", "codec", "run.frameworks", "workflow.matrix"),
        *("config_sections", "declared_memory"),
    ),
    "cli": ("__version__", "errors", "console", "invocation"),
    "git": ("errors",),
    "compare.ancestry": ("compare.baseline_selection", "errors"),
    "guard.policy": (
        *("codec", "config", "errors", "sources.local", "github", "invocation", "model"),
        "config_sections",
        *("history.file", "history.query", "guard.verdict", "guard.run_context"),
    ),
    "guard.run_context": ("config", "console", "github.events", "invocation", "sources"),
    "guard.evaluation": (
        *("codec", "console", "errors", "github", "invocation", "model", "guard", "sources"),
        *("history.stores", "history.file", "suites_and_pools", "text"),
    ),
    "retries": (),
    "github": ("__version__", "errors", "model", "codec", "retries"),
    "plan": (*SHARED, "mermaid"),
    "plan.block_registration": (
        *(*SHARED, "plan", "history.service_credentials", "history.daemon_thread"),
        "github.events",
    ),
    "plan.history_inputs": (*SHARED, "plan", "history", "sources.local"),
    "plan.scope": (
        *(*SHARED, "plan", "sources.local", "config", "invocation", "suites_and_pools"),
        "workflow.matrix",
    ),
    "guard": SHARED,
    "compare": SHARED,
    "compare.log_inputs": (
        *(*SHARED, "compare.log_comparison", "compare.log_progress", "sources.local"),
        *("sources.job_logs", "sources.record_finder", "sources.references"),
    ),
    "experiment": (*SHARED, "compare.statistics"),
    # Composes: reads a comparison, runs its suspects, and writes what that confirms.
    "experiment.commits": (
        *(*SHARED, "experiment", "compare.comparison", "compare.confirmation", "compare.json"),
        "compare.headline",
    ),
    "history": (*SHARED, "sources.local", "git.commands", "retries"),
    "init": (
        *(*SHARED, "template_loader", "plan.outputs", "workflow.job_templates", "workflow.rewrite"),
        "actions_address",
    ),
    "init.tool_environments": ("errors", "workflow"),
    "init.job_framework": ("config", "init", "run.frameworks", "workflow"),
    "init.move_in": (
        "actions_address",
        *("config", "console", "errors", "github.repository_ref", "init", "run.frameworks"),
        *("sources.local", "template_loader", "workflow"),
    ),
    # It refuses filters that the job which it adds could not read.
    "init.guard_results": (
        *("actions_address", "audit"),
        *("codec", "config", "console", "errors", "init", "model", "sources.local"),
        *("template_loader", "workflow"),
    ),
    "doctor": (*SHARED, "run.platforms", "plan.collection", "plan.outputs", "workflow"),
    "export": (*SHARED, "guard"),
    "audit": (*SHARED, "workflow", "guard.diagnosis", "guard.log_patterns"),
    # Composes: the plan of a matrix as it is.
    "audit.fixed_plan": (*SHARED, "audit", "plan.fixed_shards"),
    "audit.matrix_plan": (*SHARED, "audit", "config", "plan", "suites_and_pools", "history"),
    "audit.proposal": (*SHARED, "audit", "plan.cost", "workflow.guard_job"),
    # What `init` would write.
    "audit.next_change": (
        *("actions_address", "audit", "config", "errors", "sources.local", "workflow"),
    ),
    "audit.output_formats": ("document", "render"),
    "audit.matrix_command": (*SHARED, "audit", "workflow", "plan"),
    "audit.repository_reader": (
        *(*SHARED, "audit", "github", "sources.artifacts", "workflow.yaml_values"),
    ),
    "report": (*SHARED, "github", "mermaid", "render", "guard", "compare"),
    "report.judging": (*SHARED, "compare", "config", "github", "guard", "report", "sources"),
    "report.remote_run": (*SHARED, "config", "github", "guard", "report", "sources"),
    "report.publish": (*SHARED, "github", "guard", "render", "report", "sources.inputs"),
    # Composes all, for an organisation.
    "serve": (
        *(*SHARED, "config", "github", "guard", "compare", "history", "render", "report"),
        *("console", "invocation", "sources", "template_loader"),
        *("plan.block_choice", "plan.blocks.CLAIM_S"),
    ),
    "serve.state": ("errors", "retries", "serve.state"),
}
VERBS = (
    "plan",
    "guard",
    "compare",
    "experiment",
    "history",
    "init",
    "doctor",
    "report",
    "export",
    "audit",
)

# What travels in the pyz besides run/: see DESIGN, "Nothing to install in a leg".
LEG = ("errors", "text", "codec.__init__", "codec.record.lines", "codec.plan_file")

# The modules of a verb's folder that read and write: everything else in it is arithmetic.
ADAPTERS = frozenset(
    {"history.stores", "history.branch_store", "plan.collection"}
    | {"history.daemon_thread", "history.service_credentials", "history.service_store"}
    | {"plan.block_registration", "plan.history_inputs", "plan.scope"}
    | {
        "experiment.machine_load",
        "experiment.process",
        "guard.policy",
        "guard.evaluation",
        "compare.ancestry",
    }
    | {"compare.log_inputs"}
    | {"init.generated_files", "init.guard_results", "init.move_in", "init.repository"}
    | {"audit.next_change", "audit.repository_reader"}
)

PURE = frozenset(
    {"codec", "document", "links", "logs", "model", "errors", "sources.references", "text"}
    | {"config_mistakes", "declared_memory"}
)
# A command that is not `command.py`: these verbs have two halves.
COMMANDS = frozenset(
    {"experiment.command", "experiment.commits", "audit.command", "audit.matrix_command"}
    | {"audit.repository_command"}
)

IMPURE = frozenset(
    {"os", "pathlib", "time", "random", "logging", "subprocess", "socket", "httpx"}
    | {"shutil", "tempfile", "threading"}
)
