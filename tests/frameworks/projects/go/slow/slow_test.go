package slow

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("WAY") == "setup" {
		os.Stderr.WriteString("set-up fails\n")
		os.Exit(1)
	}
	os.Exit(m.Run())
}
func TestOne(t *testing.T) {}
func TestTwo(t *testing.T) {}
