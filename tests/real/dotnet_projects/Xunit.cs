using System;
using System.Threading.Tasks;
using Xunit;

namespace Shop.Tests
{
    public class Prices
    {
        [Fact] public void Adds() { Mark.Done("Adds"); }

        [Fact] public void Fails()
        {
            if (Mark.Is("fail")) throw new InvalidOperationException("expected 5");
            Mark.Done("Fails");
        }

        [Theory, InlineData(1, "a"), InlineData(2, "b, c"), InlineData(3, "quote \" and (paren)")]
        public void Rows(int number, string text) { Mark.Done("Rows"); }

        [Fact(DisplayName = "a name, with commas | pipes & ampersands")]
        public void Named() { Mark.Done("Named"); }

        [Fact(Skip = "not here")] public void Skipped() { Mark.Done("Skipped"); }
    }

    public class Slow
    {
        [Fact(Timeout = 1000)] public async Task TimesOut()
        {
            if (Mark.Is("timeout")) await Task.Delay(60000);
            Mark.Done("TimesOut");
        }
    }

    public class Accidents
    {
        [Fact] public void A_Before() { Mark.Done("A_Before"); }

        [Fact] public void B_Accident()
        {
            Mark.Accident();
            Mark.Done("B_Accident");
        }

        [Fact] public void C_After() { Mark.Done("C_After"); }
    }
}
