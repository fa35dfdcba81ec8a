package ends

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestBefore(t *testing.T) {}
func TestWaits(t *testing.T)  { t.Parallel() }
func TestEnds(t *testing.T) {
	switch os.Getenv("WAY") {
	case "kill":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "panic":
		panic("on purpose")
	case "goroutine":
		done := make(chan int)
		go func() { var none map[string]int; none["x"] = 1; close(done) }()
		<-done
	case "long":
		os.Stdout.WriteString(strings.Repeat("x", 3<<20))
	case "exit0":
		os.Exit(0)
	case "sysexit0":
		syscall.Exit(0)
	case "exit3":
		os.Exit(3)
	case "hang":
		for {
			syscall.Nanosleep(&syscall.Timespec{Sec: 1}, nil)
		}
	case "memory":
		var limit syscall.Rlimit
		limit.Cur, limit.Max = 1<<30, 1<<30
		syscall.Setrlimit(syscall.RLIMIT_AS, &limit)
		held := [][]byte{}
		for {
			held = append(held, make([]byte, 64<<20))
		}
	}
}
func TestBehind(t *testing.T) {}
