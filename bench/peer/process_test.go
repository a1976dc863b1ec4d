package peer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/bench/peer"
)

// spin is the environment variable that makes this program use a processor until it is stopped, or
// for a minute.
const spin = "PLANEKIT_TEST_SPIN"

func TestMain(m *testing.M) {
	if os.Getenv(spin) != "" {
		fmt.Println("spinning")
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		}
		return
	}
	os.Exit(m.Run())
}

// TestProcess: the processor time and memory of another process are the system's figures.
func TestProcess(t *testing.T) {
	t.Setenv(spin, "yes")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := peer.Launch(filepath.Join(t.TempDir(), "log"), self)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AwaitLine(t.Context(), "spinning"); err != nil {
		t.Fatal(err)
	}
	var used time.Duration
	err = peer.Poll(t.Context(), func() (bool, error) {
		var err error
		used, err = p.CPU()
		return used > 200*time.Millisecond, err
	})
	if err != nil {
		t.Fatalf("after %v: %v", used, err)
	}
	resident, err := p.Resident()
	if err != nil || resident < 1 || resident > 1000 {
		t.Errorf("%v MiB resident: %v", resident, err)
	}
	// The system knows the usage after the signal has ended the process.
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	usage := p.ProcessState.SysUsage().(*syscall.Rusage)
	total := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	if total < used || total > used+10*time.Second {
		t.Errorf("%v at the end, %v before", total, used)
	}
	if _, err := p.CPU(); err == nil {
		t.Error("a process that is gone still has a clock")
	}
}

// TestEnds: the error for a line of a program that has ended contains its output, and the program
// can still be stopped.
func TestEnds(t *testing.T) {
	p, err := peer.Launch(filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "echo no luck; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.AwaitLine(t.Context(), "ready"); err == nil || !strings.Contains(err.Error(), "no luck") || !strings.Contains(err.Error(), "exit status 3") {
		t.Error(err)
	}
	begin := time.Now()
	if err := p.Stop(); err != nil || time.Since(begin) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
