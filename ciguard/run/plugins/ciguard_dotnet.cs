using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Diagnostics.Tracing;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Text;
using Microsoft.VisualStudio.TestPlatform.ObjectModel;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.Client;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollection;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollector.InProcDataCollector;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.InProcDataCollector;

// Extensions of VSTest (xunit v2, NUnit, MSTest), which ciguard_dotnet_setup.py compiles on the job and names in
// the run settings.
namespace Ciguard {
    /** A file of JSON lines. One a process: .NET's append mode does not append across processes. */
    internal sealed class Lines {
        private readonly FileStream _file;
        private readonly Stopwatch _clock = Stopwatch.StartNew();
        private readonly double _begunAt = (DateTime.UtcNow - new DateTime(1970, 1, 1)).TotalSeconds;

        public Lines(string role) {
            string folder = Environment.GetEnvironmentVariable("CIGUARD_DOTNET_FOLDER");
            string path = Path.Combine(folder, role + "-" + Process.GetCurrentProcess().Id + ".jsonl");
            _file = new FileStream(path, FileMode.Create, FileAccess.Write, FileShare.ReadWrite | FileShare.Delete);
        }

        /** Write a line; `pairs` are names and values in turn. */
        public void Add(string type, params object[] pairs) {
            var text = new StringBuilder("{\"type\":\"").Append(type).Append("\",\"at_s\":");
            AppendValue(text, _begunAt + _clock.Elapsed.TotalSeconds);
            for (int i = 0; i < pairs.Length; i += 2) {
                text.Append(",\"").Append(pairs[i]).Append("\":");
                AppendValue(text, pairs[i + 1]);
            }
            byte[] bytes = Encoding.ASCII.GetBytes(text.Append("}\n").ToString());
            lock (_file) {
                try {
                    _file.Write(bytes, 0, bytes.Length);
                    _file.Flush();
                } catch (IOException) { /* a full disk breaks no test */ }
            }
        }

        private static void AppendValue(StringBuilder text, object value) {
            if (value == null) text.Append("null");
            else if (value is string) AppendQuoted(text, (string)value);
            else if (value is bool) text.Append((bool)value ? "true" : "false");
            else text.AppendFormat(CultureInfo.InvariantCulture, value is double ? "{0:0.######}" : "{0}", value);
        }

        /** In ASCII, so that a lone surrogate breaks no line. */
        private static void AppendQuoted(StringBuilder text, string value) {
            text.Append('"');
            foreach (char c in value) {
                if (c == '"' || c == '\\') text.Append('\\').Append(c);
                else if (c < ' ' || c > '~') text.Append("\\u").Append(((int)c).ToString("x4"));
                else text.Append(c);
            }
            text.Append('"');
        }
    }

    /** Memory of this process (Linux: proc(5)); null where it cannot be read. For one thread at a time. */
    internal static class Memory {
        private static readonly byte[] Buffer = new byte[4096];
        private static FileStream _status; // to open it for each test would cost three times as much
        private static readonly MethodInfo TotalAllocated =
            typeof(GC).GetMethod("GetTotalAllocatedBytes", new[] { typeof(bool) });

        /** Bytes allocated since the start of the process; null in .NET Framework, which has no such method. */
        public static object Allocated() => TotalAllocated?.Invoke(null, new object[] { false });

        public static void ResetPeak() {
            try {
                File.WriteAllText("/proc/self/clear_refs", "5");
            } catch (Exception) { /* no peak is read, either */ }
        }

        /** Bytes of each field, as VmHWM. */
        public static object[] Read(params string[] fields) {
            try {
                _status = _status ?? new FileStream("/proc/self/status", FileMode.Open, FileAccess.Read, FileShare.Read, 1);
                _status.Position = 0;
                string text = Encoding.ASCII.GetString(Buffer, 0, _status.Read(Buffer, 0, Buffer.Length));
                return fields.Select(field => {
                    int at = text.IndexOf(field, StringComparison.Ordinal) + field.Length + 1; // VmHWM:  1234 kB
                    return (object)(1024 * long.Parse(text.Substring(at, text.IndexOf('k', at) - at)));
                }).ToArray();
            } catch (Exception) {
                return new object[fields.Length];
            }
        }
    }

    /** Part of the test host: starts and ends of tests, and their memory. A test that begins alone gets a new peak. */
    public sealed class Collector : InProcDataCollection {
        private readonly HashSet<string> _open = new HashSet<string>(); // display names
        private Lines _lines;
        private bool _hasXunitEvents;

        public void Initialize(IDataCollectionSink sink) {
            _lines = new Lines("host");
            _lines.Add("host", "pid", Process.GetCurrentProcess().Id);
            new XunitListener(this); // which the runtime holds
            AppDomain.CurrentDomain.ProcessExit += (sender, args) => _lines.Add("exit", "code", Environment.ExitCode);
            AppDomain.CurrentDomain.UnhandledException += (sender, args) =>
                _lines.Add("unhandled", "message", args.ExceptionObject.ToString());
        }

        public void TestSessionStart(TestSessionStartArgs args) => _lines.Add("session_start");
        public void TestSessionEnd(TestSessionEndArgs args) => _lines.Add("session_end");

        public void TestCaseStart(TestCaseStartArgs args) {
            TestCase test = args.TestCase;
            lock (_open) {
                // xunit's bus is a queue: it may come after the end, and tells only which method has the display name.
                if (_hasXunitEvents) _lines.Add("start", "unit", test.FullyQualifiedName, "case", test.DisplayName);
                else Begin("start", test.DisplayName, "unit", test.FullyQualifiedName);
            }
        }

        public void TestCaseEnd(TestCaseEndArgs args) {
            TestCase test = args.DataCollectionContext.TestCase;
            lock (_open) End("end", test.DisplayName, "unit", test.FullyQualifiedName);
        }

        private void Begin(string type, string name, params object[] more) {
            if (_open.Count == 0) Memory.ResetPeak();
            _open.Add(name);
            Add(type, name, more, "rss_bytes", Memory.Read("VmRSS")[0], "allocated_bytes", Memory.Allocated());
        }

        private void End(string type, string name, params object[] more) {
            bool wasOpen = _open.Remove(name);
            object allocated = Memory.Allocated(); // first, as reading the others adds to it
            object[] read = Memory.Read("VmRSS", "VmHWM");
            object[] memory = { "allocated_bytes", allocated, "rss_bytes", read[0], "peak_bytes", read[1] };
            Add(type, name, more, wasOpen ? memory : new object[0]);
        }

        private void Add(string type, string name, object[] more, params object[] memory) =>
            _lines.Add(type, new object[] { "case", name }.Concat(more).Concat(memory).ToArray());

        /** Events of xunit on the thread of the test: 1 before it, 2 after it; [Fact(Timeout)] may have no 2. */
        private sealed class XunitListener : EventListener {
            private readonly Collector _collector;

            public XunitListener(Collector collector) { _collector = collector; }

            /** Called by the base class for each source, those that exist included. */
            protected override void OnEventSourceCreated(EventSource source) {
                if (source.Name == "xUnit.TestEventSource") EnableEvents(source, EventLevel.LogAlways);
            }

            protected override void OnEventWritten(EventWrittenEventArgs args) {
                if (_collector == null || args.EventId < 1 || args.EventId > 2) return; // null: the base is not ready
                string name = (string)args.Payload[0];
                lock (_collector._open) {
                    _collector._hasXunitEvents = true;
                    if (args.EventId == 1) _collector.Begin("running", name);
                    else _collector.End("ran", name);
                }
            }
        }
    }

    /** Part of vstest.console: the listed tests, and all results. */
    [FriendlyName("ciguard")]
    [ExtensionUri("logger://ciguard/v1")]
    public sealed class Logger : ITestLogger {
        private Lines _lines;

        public void Initialize(TestLoggerEvents events, string testRunDirectory) {
            _lines = new Lines("console");
            events.DiscoveredTests += (sender, args) => args.DiscoveredTestCases.ToList().ForEach(AddTest);
            events.DiscoveryComplete += (sender, args) => _lines.Add("discovered", "aborted", args.IsAborted);
            events.TestResult += (sender, args) => AddResult(args.Result);
            events.TestRunComplete += (sender, args) =>
                _lines.Add("complete", "aborted", args.IsAborted, "canceled", args.IsCanceled);
        }

        private void AddTest(TestCase test) => _lines.Add("test", "id", test.Id.ToString(), "unit", test.FullyQualifiedName,
            "case", test.DisplayName, "file", test.CodeFilePath, "line", test.LineNumber,
            "explicit", test.Traits.Any(each => each.Name == "Explicit" && each.Value == "")); // of NUnit

        private void AddResult(TestResult result) {
            string name = result.DisplayName ?? result.TestCase.DisplayName;
            _lines.Add("result", "unit", result.TestCase.FullyQualifiedName, "case", name,
                "outcome", result.Outcome.ToString(), "wall_s", result.Duration.TotalSeconds,
                "message", result.ErrorMessage, "trace", result.ErrorStackTrace);
        }
    }
}
