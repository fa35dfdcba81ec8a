"""The assemblies of a `dotnet test` command, the compiled extensions of VSTest, and run settings.

Standard library only, Python 3.8+; lies beside `ciguard_dotnet.py`.
https://learn.microsoft.com/visualstudio/test/configure-unit-tests-by-using-a-dot-runsettings-file
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Iterator, Mapping, NamedTuple, Sequence
from xml.etree import ElementTree

LIBRARY = "CiguardDotnet"
LAST_CHARACTERS = 2000  # of a program's output in an error
OBJECT_MODEL = "TestHostNetFramework/Microsoft.VisualStudio.TestPlatform.ObjectModel.dll"
REFERENCES = (OBJECT_MODEL, "ref/netstandard.dll", "ref/mscorlib.dll")
# Options of `dotnet test` that a value follows -> the property of msbuild that it sets, or "".
OPTIONS = {
    **dict.fromkeys(("-c", "--configuration"), "Configuration"),
    **dict.fromkeys(("-f", "--framework"), "TargetFramework"),
    **dict.fromkeys(("-r", "--runtime"), "RuntimeIdentifier"),
    **dict.fromkeys(("-o", "--output"), "OutputPath"),
    **dict.fromkeys(("-s", "--settings", "-l", "--logger", "-d", "--diag", "-a", "--arch"), ""),
    **dict.fromkeys(("-e", "--environment", "-v", "--verbosity", "--filter", "--collect"), ""),
    **dict.fromkeys(("--results-directory", "--test-adapter-path", "--blame-hang-timeout"), ""),
    **dict.fromkeys(("--blame-crash-dump-type", "--blame-hang-dump-type"), ""),
}
PROPERTY = re.compile(r"(?:--?|/)p(?:roperty)?[:=]")
PROPERTIES = (
    "TargetPath,TargetFramework,TargetFrameworks,RunSettingsFilePath,IsTestProject,"
    "IsTestingPlatformApplication,CollectCoverage,MSBuildProjectDirectory,PlatformTarget,"
    "RuntimeIdentifier,SelfContained,PublishAot"
)
ANSWER = re.compile(r'^\{\s*"Properties".*\}', re.M | re.S)
PROJECT_IN_SOLUTION = re.compile(r'"([^"\n]+\.(?:cs|fs|vb)proj)"')
# Beginnings of packages in deps.json, in lower case. SDK 10 leaves out adapters, which have no
# library (TrimDepsJsonLibrariesWithoutAssets): the framework tells which one it is.
ADAPTERS = ("xunit", "nunit", "mstest")
MTP_ONLY = ("xunit.v3", "tunit")
MTP, VSTEST = "microsoft.testing.platform", "microsoft.testplatform.testhost"
RUNNERS = (MTP, VSTEST, *MTP_ONLY, "xunit.runner", "nunit3testadapter", "mstest.testadapter")
# Values after `--`, which override a settings file.
REFUSED = re.compile(
    r"(?i)RunConfiguration\.(?:TestCaseFilter|BatchSize|DisableParallelization"
    r"|CollectDataForEachTestSeparately)=|NUnit\.(?:Where|NumberOfTestWorkers)="
    r"|MSTest\.Parallelize\.|xUnit\.(?:MaxParallelThreads|Parallelize\w+)="
)
COVERLET = 'coverlet.msbuild needs a build: use coverlet.collector, --collect "XPlat Code Coverage"'
UNKNOWN_ADAPTER = (
    "no package of xunit, NUnit or MSTest in its deps.json (.NET Framework has none, and was not "
    "tried: choose another one with -f): run it as another framework "
    '(framework = "command"), see docs/how-to/other-frameworks.md'
)
SPECIAL = re.compile(r"([\\()&|=!~])")  # characters with a meaning in a filter
RESULTS = "RunConfiguration/ResultsDirectory"


class Assembly(NamedTuple):
    path: str
    framework: str  # as "net10.0"
    settings: str  # path of the project's own run settings, or ""
    host: str  # "vstest" or "mtp"
    adapter: str  # "xunit", "nunit", "mstest", or "" for another one
    project: str = ""  # its folder, or "" if it is not known
    untried: tuple[str, ...] = ()  # properties with which ciguard was not tried


def output(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return what a program prints; raise ValueError with the end of that if it fails."""
    quiet = {**environ, "DOTNET_NOLOGO": "1"}  # else the first call of a user prints a welcome
    done = subprocess.run(list(argv), env=quiet, capture_output=True, check=False)
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        text += done.stderr.decode("utf-8", "replace")
        what = f"{' '.join(argv[:3])} ended with exit code {done.returncode}"
        raise ValueError(f"{what}:\n{text.strip()[-LAST_CHARACTERS:]}")
    return text


def compiled(dotnet: str, folder: str, environ: Mapping[str, str]) -> str:
    """Compile the extensions of VSTest into a folder, once; return the path of the library.

    The object model for .NET Framework, which each SDK has, makes one library serve all frameworks.
    """
    library = os.path.join(folder, LIBRARY + ".dll")
    if os.path.exists(library):
        return library
    listed = re.findall(r"(?m)^(\S+) \[(.+)\]\r?$", output([dotnet, "--list-sdks"], environ))
    if not listed:
        raise ValueError("no .NET SDK is installed: add one to the job, as by actions/setup-dotnet")
    sdk = os.path.join(listed[-1][1], listed[-1][0])
    # In a folder of its own, as another process may compile, too: the file's name is in the code.
    private = os.path.join(folder, f"compiled-{os.getpid()}")
    os.makedirs(private, exist_ok=True)
    made = os.path.join(private, LIBRARY + ".dll")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ciguard_dotnet.cs")
    argv = [dotnet, f"{sdk}/Roslyn/bincore/csc.dll", "-nologo", "-nostdlib", "-target:library"]
    argv += ["-optimize+", f"-out:{made}", *(f"-r:{sdk}/{name}" for name in REFERENCES), source]
    output(argv, environ)
    os.replace(made, library)
    return library


def refuse_values(words: Sequence[str]) -> None:
    """Refuse values after `--` that override the run settings: raise ValueError that names one."""
    for word in words[words.index("--") + 1 :] if "--" in words else ():
        if REFUSED.match(word):
            instead = "use --filter, `parallel` of the suite, or a settings file (--settings)"
            raise ValueError(f"{word} after -- overrides what ciguard sets: {instead}")


def settings(
    user: str | None,
    *,
    library: str,
    results_folder: str,
    names: Sequence[str] = (),
    where: str = "",
    parallel: bool | None = None,
    listing: bool = False,
    adapter: str = "",
) -> str:
    """Return the run settings of a process: the user's, at a path, and those of ciguard.

    Args:
        results_folder: if relative, below the user's results folder.
        names: FullyQualifiedName of each test to run. where: of NUnit, instead of names.
        parallel: None: as the project has it, and one test at a time for NUnit.
    """
    root = _user_settings(user)
    results = os.path.join(root.findtext(RESULTS) or "TestResults", results_folder)
    values = {RESULTS: os.path.abspath(results), "RunConfiguration/BatchSize": "1"}
    if listing:
        values["RunConfiguration/CollectSourceInformation"] = "true"
    else:
        values["RunConfiguration/TreatNoTestsAsError"] = "true"
        run = _element(root, "RunConfiguration")
        run[:] = [element for element in run if element.tag != "TestCaseFilter"]
    if names:
        wanted = "|".join("FullyQualifiedName=" + SPECIAL.sub(r"\\\1", name) for name in names)
        values["RunConfiguration/TestCaseFilter"] = wanted
    if where:
        values["NUnit/Where"] = where
    if parallel is False:
        values["RunConfiguration/DisableParallelization"] = "true"
        values["xUnit/ParallelizeTestCollections"] = "false"
    if adapter == "nunit" and not parallel:  # else starts come late, from a queue
        values["RunConfiguration/CollectDataForEachTestSeparately"] = "true"
    if root.find("xUnit/DiagnosticMessages") is None:  # a line a case in discovery
        values["xUnit/DiagnosticMessages"] = "false"
    for path, text in values.items():
        _element(root, path).text = text
    version = f"{LIBRARY}, Version=0.0.0.0, Culture=neutral, PublicKeyToken=null"
    collectors = _element(root, "InProcDataCollectionRunSettings/InProcDataCollectors")
    collector = ElementTree.SubElement(collectors, "InProcDataCollector", friendlyName="ciguard")
    collector.set("uri", "InProcDataCollector://ciguard/1.0")
    collector.set("assemblyQualifiedName", f"Ciguard.Collector, {version}")
    collector.set("codebase", library)
    loggers = _element(root, "LoggerRunSettings/Loggers")
    logger = ElementTree.SubElement(loggers, "Logger", friendlyName="ciguard", enabled="True")
    logger.set("uri", "logger://ciguard/v1")
    logger.set("assemblyQualifiedName", f"Ciguard.Logger, {version}")
    logger.set("codeBase", library)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _user_settings(user: str | None) -> ElementTree.Element:
    """Return the user's settings, or empty ones."""
    if not user:
        return ElementTree.Element("RunSettings")
    try:
        root = ElementTree.parse(user).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise ValueError(f"{user}: not readable as run settings: {error}") from error
    results = root.find(RESULTS)
    if results is not None and results.text:  # relative to the file
        path = results.text.strip().replace("\\", os.sep)
        results.text = os.path.join(os.path.dirname(os.path.abspath(user)), path)
    return root


def _element(root: ElementTree.Element, path: str) -> ElementTree.Element:
    """Return the element at a path, added where it is missing."""
    for name in path.split("/"):
        found = root.find(name)
        root = ElementTree.SubElement(root, name) if found is None else found
    return root


def assemblies(words: Sequence[str], environ: Mapping[str, str]) -> list[Assembly]:
    """Return the test assemblies of a command `dotnet test ...`.

    Raises:
        ValueError: one is not built, or there is none; says what to do.
    """
    targets, given = _parse_arguments(words[2:])

    def ask(project: str, *more: str) -> list[Assembly]:
        """Return the assemblies of a project: one for each of its target frameworks."""
        argv = [words[0], "msbuild", project, *given, *more, f"-getProperty:{PROPERTIES}"]
        properties = ANSWER.search(output(argv, environ))  # after warnings
        if not properties:
            raise ValueError(f"{' '.join(argv)} tells no properties")
        answer = json.loads(properties[0])["Properties"]
        if answer["CollectCoverage"].lower() == "true":
            raise ValueError(f"{project}: {COVERLET}")
        names = answer["TargetFrameworks"].replace(" ", "").split(";")
        if not answer["TargetFramework"]:
            several = (ask(project, f"-p:TargetFramework={name}") for name in names if name)
            return list(itertools.chain.from_iterable(several))
        is_test = answer["IsTestProject"]
        if is_test == "false" or not (is_test or _packages(answer["TargetPath"], RUNNERS)):
            return []
        return [_assembly(answer["TargetPath"], answer)]

    found: list[Assembly] = []
    for target in targets or ["."]:
        if target.lower().endswith(".dll"):
            found.append(_assembly(os.path.abspath(target), {}))
        else:
            with ThreadPoolExecutor() as pool:  # msbuild takes 0.6 s of one processor
                found += itertools.chain.from_iterable(pool.map(ask, _projects(target)))
    missing = [assembly.path for assembly in found if not os.path.exists(assembly.path)]
    if missing or not found:
        what = f"{missing[0]} does not exist" if missing else f"no tests in {' '.join(words)}"
        build = " ".join(["dotnet build", *targets[:1], *given])
        raise ValueError(f"{what}: build it before the tests: {build}")
    unknown = [one.path for one in found if one.host == "vstest" and not one.adapter]
    if unknown:
        raise ValueError(f"{unknown[0]}: {UNKNOWN_ADAPTER}")
    return found


def options(words: Sequence[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Yield name, value, and words of each option or argument before `--`."""
    left = iter(words[: words.index("--")] if "--" in words else words)
    for word in left:
        name, equals, value = [*re.split("([=:])", word, maxsplit=1), "", ""][:3]
        own = [word, next(left, "")] if name in OPTIONS and not equals else [word]
        yield name, value if equals else own[-1], own


def _parse_arguments(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return projects, folders and assemblies; and the options as properties for msbuild."""
    targets: list[str] = []
    properties: list[str] = []
    for name, value, own in options(words):
        if PROPERTY.match(own[0]):
            properties += own
        elif OPTIONS.get(name) == "OutputPath":  # msbuild would begin at the project
            properties.append(f"-p:OutputPath={os.path.join(os.path.abspath(value), '')}")
        elif name in OPTIONS:
            properties += [f"-p:{OPTIONS[name]}={value}"] if OPTIONS[name] else []
        elif not name.startswith("-"):  # `--project X` is as X
            targets += own
    return targets, properties


def _projects(target: str) -> list[str]:
    """Return the projects of a solution, of the one file in a folder, or the project itself."""
    if os.path.isdir(target):
        names = [name for name in os.listdir(target) if re.search(r"\.(slnx?|..proj)$", name)]
        if len(names) != 1:
            there = ", ".join(sorted(names)) or "none"
            raise ValueError(f"{target}: name one project or solution to test: it has {there}")
        target = os.path.join(target, names[0])
    if target.endswith(".slnf"):
        raise ValueError(f"{target}: solution filters are not read: name its solution or projects")
    if not target.endswith((".sln", ".slnx")):
        return [target]
    with open(target, encoding="utf-8-sig") as file:
        names = PROJECT_IN_SOLUTION.findall(file.read())
    return [os.path.join(os.path.dirname(target), name.replace("\\", os.sep)) for name in names]


def _packages(path: str, beginnings: tuple[str, ...]) -> list[str]:
    """Return the packages of an assembly with such names; none if it is not built."""
    try:
        with open(os.path.splitext(path)[0] + ".deps.json", encoding="utf-8-sig") as file:
            names = [name.partition("/")[0].lower() for name in json.load(file)["libraries"]]
    except FileNotFoundError:
        return []
    return [name for name in names if name.startswith(beginnings)]


def _untried(path: str, answer: Mapping[str, str]) -> tuple[str, ...]:
    """Return the properties of an assembly with which ciguard was not tried."""
    has = {
        "x86": "x86" in (answer.get("PlatformTarget"), answer.get("RuntimeIdentifier", "")[-3:]),
        "self-contained": answer.get("SelfContained") == "true",
        "AOT": answer.get("PublishAot") == "true",
    }
    return tuple(f"{name} ({os.path.basename(path)})" for name in has if has[name])


def _assembly(path: str, answer: Mapping[str, str]) -> Assembly:
    """Describe an assembly by its packages, and the answer of msbuild if there is one."""
    is_application = answer.get("IsTestingPlatformApplication")
    is_mtp = is_application == "true"
    if not is_application:  # MSTest and NUnit have both hosts
        is_mtp = bool(_packages(path, (MTP,))) and not _packages(path, (VSTEST,))
    return Assembly(
        path,
        # A built assembly that is handed on lies in a folder of that name.
        answer.get("TargetFramework") or os.path.basename(os.path.dirname(path)),
        answer.get("RunSettingsFilePath", "").replace("\\", os.sep),
        "mtp" if is_mtp or _packages(path, MTP_ONLY) else "vstest",
        next((name for name in ADAPTERS if _packages(path, (name,))), ""),
        answer.get("MSBuildProjectDirectory", ""),
        _untried(path, answer),
    )
