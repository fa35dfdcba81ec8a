// The few types of VSTest that ciguard_dotnet.cs uses, with their public names and shapes.
using System;
using System.Collections.Generic;

#if EVENTS
namespace System.Diagnostics.Tracing // Mono's own deliver no events
{
    public enum EventLevel { LogAlways, Informational = 4 }
    public class EventSourceAttribute : Attribute { public string Name { get; set; } }

    public class EventAttribute : Attribute
    {
        public EventAttribute(int id) { }
        public EventLevel Level { get; set; }
    }

    public class EventWrittenEventArgs : EventArgs
    {
        public int EventId { get; set; }
        public EventSource EventSource { get; set; }
        public IList<object> Payload { get; set; }
    }

    public class EventSource
    {
        public static readonly List<EventSource> Sources = new List<EventSource>();
        public EventListener Listener;

        public EventSource()
        {
            Name = ((EventSourceAttribute)Attribute.GetCustomAttribute(GetType(), typeof(EventSourceAttribute))).Name;
            Sources.Add(this);
        }

        public string Name { get; set; }

        protected void WriteEvent(int id, string value)
        {
            if (Listener == null) return;
            Listener.Write(new EventWrittenEventArgs { EventId = id, EventSource = this, Payload = new object[] { value } });
        }
    }

    public abstract class EventListener
    {
        protected EventListener() { EventSource.Sources.ForEach(OnEventSourceCreated); }
        public void EnableEvents(EventSource source, EventLevel level) { source.Listener = this; }
        public void Write(EventWrittenEventArgs args) { OnEventWritten(args); }
        protected abstract void OnEventSourceCreated(EventSource source);
        protected abstract void OnEventWritten(EventWrittenEventArgs args);
    }
}
#endif

namespace Microsoft.VisualStudio.TestPlatform.ObjectModel
{
    public class Trait { public string Name { get; set; } public string Value { get; set; } }

    public class TestCase
    {
        public Guid Id { get; set; }
        public List<Trait> Traits = new List<Trait>();
        public string FullyQualifiedName { get; set; }
        public string DisplayName { get; set; }
        public string CodeFilePath { get; set; }
        public int LineNumber { get; set; }
    }

    public enum TestOutcome { None, Passed, Failed, Skipped, NotFound }

    public class TestResult
    {
        public TestCase TestCase { get; set; }
        public string DisplayName { get; set; }
        public TestOutcome Outcome { get; set; }
        public TimeSpan Duration { get; set; }
        public string ErrorMessage { get; set; }
        public string ErrorStackTrace { get; set; }
    }

    public class FriendlyNameAttribute : Attribute { public FriendlyNameAttribute(string name) { } }
    public class ExtensionUriAttribute : Attribute { public ExtensionUriAttribute(string uri) { } }
}

namespace Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollection
{
    public interface IDataCollectionSink { }
    public class DataCollectionContext { public TestCase TestCase { get; set; } }
}

namespace Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollector.InProcDataCollector
{
    using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollection;

    public class TestSessionStartArgs { }
    public class TestSessionEndArgs { }
    public class TestCaseStartArgs { public TestCase TestCase { get; set; } }

    public class TestCaseEndArgs
    {
        public DataCollectionContext DataCollectionContext { get; set; }
        public TestOutcome TestOutcome { get; set; }
    }
}

namespace Microsoft.VisualStudio.TestPlatform.ObjectModel.InProcDataCollector
{
    using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollection;
    using Microsoft.VisualStudio.TestPlatform.ObjectModel.DataCollector.InProcDataCollector;

    public interface InProcDataCollection
    {
        void Initialize(IDataCollectionSink sink);
        void TestSessionStart(TestSessionStartArgs args);
        void TestSessionEnd(TestSessionEndArgs args);
        void TestCaseStart(TestCaseStartArgs args);
        void TestCaseEnd(TestCaseEndArgs args);
    }
}

namespace Microsoft.VisualStudio.TestPlatform.ObjectModel.Client
{
    public class DiscoveredTestsEventArgs : EventArgs { public IEnumerable<TestCase> DiscoveredTestCases { get; set; } }

    public class DiscoveryCompleteEventArgs : EventArgs { public bool IsAborted { get; set; } }

    public class TestResultEventArgs : EventArgs { public TestResult Result { get; set; } }

    public class TestRunCompleteEventArgs : EventArgs
    {
        public bool IsAborted { get; set; }
        public bool IsCanceled { get; set; }
    }

    public abstract class TestLoggerEvents
    {
        public abstract event EventHandler<DiscoveredTestsEventArgs> DiscoveredTests;
        public abstract event EventHandler<DiscoveryCompleteEventArgs> DiscoveryComplete;
        public abstract event EventHandler<TestResultEventArgs> TestResult;
        public abstract event EventHandler<TestRunCompleteEventArgs> TestRunComplete;
    }

    public interface ITestLogger { void Initialize(TestLoggerEvents events, string testRunDirectory); }
}
