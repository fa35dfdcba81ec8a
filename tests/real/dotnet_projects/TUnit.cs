using System;
using System.Threading.Tasks;
using System.Threading;
using TUnit.Core;

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

        [Test, Arguments(1, "a"), Arguments(2, "b, c"), Arguments(3, "quote \" and (paren)")]
        public void Rows(int number, string text) { Mark.Done("Rows"); }

        [Test, DisplayName("a name, with commas | pipes & ampersands")]
        public void Named() { Mark.Done("Named"); }

        [Test, Skip("not here")] public void Skipped() { Mark.Done("Skipped"); }
    }

    public class Slow
    {
        [Test, Timeout(1000)] public async Task TimesOut(CancellationToken token)
        {
            if (Mark.Is("timeout")) await Task.Delay(60000);
            Mark.Done("TimesOut");
        }
    }

    [NotInParallel] public class Accidents
    {
        [Test] public void A_Before() { Mark.Done("A_Before"); }

        [Test, DependsOn(nameof(A_Before))] public void B_Accident()
        {
            Mark.Accident();
            Mark.Done("B_Accident");
        }

        [Test, DependsOn(nameof(B_Accident))] public void C_After() { Mark.Done("C_After"); }
    }
}
