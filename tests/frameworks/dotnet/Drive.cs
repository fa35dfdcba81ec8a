// Calls the collector or the logger as VSTest and xunit do, in a culture with decimal commas: `drive.exe SCENE`.
using System;
using System.Diagnostics.Tracing;
using System.Globalization;
using System.Threading;
using Microsoft.VisualStudio.TestPlatform.ObjectModel;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.Client;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollection;
using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollector.InProcDataCollector;

[EventSource(Name = "xUnit.TestEventSource")]
public sealed class XunitEvents : EventSource
{
    [Event(1, Level = EventLevel.Informational)]
    public void TestStart(string testName) { WriteEvent(1, testName); }

    [Event(2, Level = EventLevel.Informational)]
    public void TestStop(string testName) { WriteEvent(2, testName); }
}

public sealed class Events : TestLoggerEvents
{
    public override event EventHandler<DiscoveredTestsEventArgs> DiscoveredTests;
    public override event EventHandler<DiscoveryCompleteEventArgs> DiscoveryComplete;
    public override event EventHandler<TestResultEventArgs> TestResult;
    public override event EventHandler<TestRunCompleteEventArgs> TestRunComplete;

    public void Raise(params EventArgs[] all)
    {
        foreach (EventArgs args in all)
        {
            if (args is DiscoveredTestsEventArgs) DiscoveredTests(this, (DiscoveredTestsEventArgs)args);
            else if (args is DiscoveryCompleteEventArgs) DiscoveryComplete(this, (DiscoveryCompleteEventArgs)args);
            else if (args is TestResultEventArgs) TestResult(this, (TestResultEventArgs)args);
            else TestRunComplete(this, (TestRunCompleteEventArgs)args);
        }
    }
}

public static class Drive
{
    private static readonly Ciguard.Collector Collector = new Ciguard.Collector();
    private static readonly XunitEvents Xunit = new XunitEvents();
    public static byte[] Held;

    public static int Main(string[] words)
    {
        CultureInfo.DefaultThreadCurrentCulture = Thread.CurrentThread.CurrentCulture = new CultureInfo("de-DE");
        if (words[0] == "logger")
        {
            LoggerScene();
            return 0;
        }
        Collector.Initialize(null);
        Collector.TestSessionStart(new TestSessionStartArgs());
        if (words[0] == "mstest") MSTestScene();
        else if (words[0] == "xunit") XunitScene();
        else if (words[0] == "exit") Environment.Exit(3);
        else if (words[0] == "thread") ThreadScene();
        else if (words[0] == "many") ManyScene(int.Parse(words[1], CultureInfo.InvariantCulture));
        Collector.TestSessionEnd(new TestSessionEndArgs());
        return 0;
    }

    private static TestCase Test(string unit, string name)
    {
        return new TestCase { FullyQualifiedName = unit, DisplayName = name };
    }

    private static void Start(TestCase test)
    {
        Collector.TestCaseStart(new TestCaseStartArgs { TestCase = test });
    }

    private static void End(TestCase test)
    {
        var context = new DataCollectionContext { TestCase = test };
        Collector.TestCaseEnd(new TestCaseEndArgs { DataCollectionContext = context, TestOutcome = TestOutcome.Passed });
    }

    private static byte[] Take(int mib)
    {
        var taken = new byte[mib << 20];
        for (int i = 0; i < taken.Length; i += 4096) taken[i] = 1;
        return taken;
    }

    private static void MSTestScene()
    {
        TestCase one = Test("Shop.A", "A (1,\"ü \\ \ud83d\ude00\n\")"), other = Test("Shop.B", "B");
        Start(one);
        Held = Take(64);
        End(one);
        Start(one);
        Start(other);
        End(one);
        End(other);
    }

    /// <summary>The bus is late for Quick and in time for Slow; TimesOut never stops.</summary>
    private static void XunitScene()
    {
        TestCase quick = Test("Shop.Quick", "Quick"), slow = Test("Shop.Slow", "Slow"), late = Test("Shop.Late", "Late");
        Xunit.TestStart("Quick");
        Xunit.TestStop("Quick");
        Start(quick);
        Xunit.TestStart("Slow");
        Start(slow);
        End(quick);
        Xunit.TestStop("Slow");
        End(slow);
        Xunit.TestStart("Late");
        Start(late);
        End(late);
    }

    private static void ThreadScene()
    {
        Start(Test("Shop.B", "B"));
        var thread = new Thread(() => { throw new InvalidOperationException("on a thread"); });
        thread.Start();
        thread.Join();
        Thread.Sleep(Timeout.Infinite);
    }

    private static void ManyScene(int count)
    {
        for (int i = 0; i < count; i++)
        {
            TestCase test = Test("Shop.Tests.Prices.Adds", "Shop.Tests.Prices.Adds");
            Xunit.TestStart(test.DisplayName);
            Xunit.TestStop(test.DisplayName);
            Start(test);
            End(test);
        }
    }

    private static void LoggerScene()
    {
        var events = new Events();
        new Ciguard.Logger().Initialize(events, "");
        TestCase test = Test("Shop.Rows", "Rows (1)");
        test.CodeFilePath = "/a b/Tests.cs";
        test.LineNumber = 17;
        test.Traits.Add(new Trait { Name = "Explicit", Value = "" });
        var row = new TestResult { TestCase = test, DisplayName = "Rows (2)", Outcome = TestOutcome.Failed };
        row.Duration = TimeSpan.FromMilliseconds(1250);
        row.ErrorMessage = "expected 5";
        row.ErrorStackTrace = "   at Shop.Rows()\r\n";
        var passed = new TestResult { TestCase = test, Outcome = TestOutcome.Passed };
        events.Raise(
            new DiscoveredTestsEventArgs { DiscoveredTestCases = new[] { test } },
            new DiscoveryCompleteEventArgs(),
            new TestResultEventArgs { Result = passed },
            new TestResultEventArgs { Result = row },
            new TestRunCompleteEventArgs { IsAborted = true });
    }
}
