using System;
using System.Threading.Tasks;
using NUnit.Framework;

namespace Shop.Tests
{
    public class Prices
    {
        [Test] public void Adds() { Mark.Done("Adds"); }

        [Test] public void Fails()
        {
            if (Mark.Is("fail")) throw new InvalidOperationException("expected 5");
            Mark.Done("Fails");
        }

        [TestCase(1, "a"), TestCase(2, "b, c"), TestCase(3, "quote \" and (paren)")]
        public void Rows(int number, string text) { Mark.Done("Rows"); }

        [Test]
        public void Named() { Mark.Done("Named"); }

        [Test, Ignore("not here")] public void Skipped() { Mark.Done("Skipped"); }
    }

    public class Slow
    {
        [Test, MaxTime(500)] public async Task TimesOut()
        {
            if (Mark.Is("timeout")) await Task.Delay(1500);
            Mark.Done("TimesOut");
        }
    }

    public class Accidents
    {
        [Test] public void A_Before() { Mark.Done("A_Before"); }

        [Test] public void B_Accident()
        {
            Mark.Accident();
            Mark.Done("B_Accident");
        }

        [Test] public void C_After() { Mark.Done("C_After"); }
    }
}
