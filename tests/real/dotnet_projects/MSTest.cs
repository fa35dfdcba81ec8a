using System;
using System.Threading.Tasks;
using Microsoft.VisualStudio.TestTools.UnitTesting;

namespace Shop.Tests
{
    [TestClass] public class Prices
    {
        [TestMethod] public void Adds() { Mark.Done("Adds"); }

        [TestMethod] public void Fails()
        {
            if (Mark.Is("fail")) throw new InvalidOperationException("expected 5");
            Mark.Done("Fails");
        }

        [TestMethod, DataRow(1, "a"), DataRow(2, "b, c"), DataRow(3, "quote \" and (paren)")]
        public void Rows(int number, string text) { Mark.Done("Rows"); }

        [TestMethod("a name, with commas | pipes & ampersands")]
        public void Named() { Mark.Done("Named"); }

        [TestMethod, Ignore("not here")] public void Skipped() { Mark.Done("Skipped"); }
    }

    [TestClass] public class Slow
    {
        [TestMethod, Timeout(1000)] public async Task TimesOut()
        {
            if (Mark.Is("timeout")) await Task.Delay(60000);
            Mark.Done("TimesOut");
        }
    }

    [TestClass] public class Accidents
    {
        [TestMethod] public void A_Before() { Mark.Done("A_Before"); }

        [TestMethod] public void B_Accident()
        {
            Mark.Accident();
            Mark.Done("B_Accident");
        }

        [TestMethod] public void C_After() { Mark.Done("C_After"); }
    }
}
