package sums

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestAdds(t *testing.T) {}
func TestSkipped(t *testing.T) { t.Skip("not here") }
func TestTable(t *testing.T) {
	for _, name := range []string{"quo\"te 'n/slash", "new\nline", "grüße 😀", "", "twice", "twice", "a+b (x) [y] .*"} {
		t.Run(name, func(t *testing.T) {
			if os.Getenv("FAIL") != "" && name == "new\nline" {
				t.Errorf("got %d, want 5", 4)
			}
		})
	}
}
func TestParallelA(t *testing.T) { t.Parallel(); time.Sleep(100 * time.Millisecond) }
func TestParallelB(t *testing.T) { t.Parallel(); time.Sleep(100 * time.Millisecond) }
func TestHolds(t *testing.T) {
	time.Sleep(200 * time.Millisecond)
	held := make([]byte, 150<<20)
	for i := range held {
		held[i] = 1
	}
	time.Sleep(200 * time.Millisecond)
	fmt.Fprint(os.Stderr, len(held), "\n")
}
func FuzzAdds(f *testing.F) {
	f.Add(1, 2)
	f.Fuzz(func(t *testing.T, a, b int) {})
}
func Example() {
	fmt.Println("42")
	// Output: 42
}
func BenchmarkAdds(b *testing.B) {}
