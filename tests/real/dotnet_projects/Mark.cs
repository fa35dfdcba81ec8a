// MARKS is a file to which each body that ran to its end appends its name; ACCIDENT is what B_Accident does.
using System;
using System.IO;
using System.Threading;
using System.Threading.Tasks;

namespace Shop.Tests
{
    public static class Mark
    {
        private static readonly object Gate = new object();

        public static bool Is(string accident) => Environment.GetEnvironmentVariable("ACCIDENT") == accident;

        public static void Done(string name)
        {
            lock (Gate) File.AppendAllText(Environment.GetEnvironmentVariable("MARKS") ?? "/dev/null", name + "\n");
        }

        public static void Accident()
        {
            if (Is("exit0")) Environment.Exit(0);
            if (Is("exit3")) Environment.Exit(3);
            if (Is("failfast")) Environment.FailFast("boom");
            if (Is("stackoverflow")) Recurse(1);
            if (Is("kill")) System.Diagnostics.Process.GetCurrentProcess().Kill();
            if (Is("hang")) Thread.Sleep(Timeout.Infinite);
            if (Is("asyncvoid")) Fire();
            if (Is("thread")) new Thread(() => throw new InvalidOperationException("on a thread")).Start();
            if (Is("asyncvoid") || Is("thread")) Thread.Sleep(2000);
        }

        private static int Recurse(int n) => n + Recurse(n + 1) + Recurse(n + 2);

        private static async void Fire()
        {
            await Task.Delay(10).ConfigureAwait(false);
            throw new InvalidOperationException("async void");
        }
    }
}
