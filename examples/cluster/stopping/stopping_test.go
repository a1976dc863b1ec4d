package stopping_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"syscall"
	"testing"

	"github.com/planekit/planekit/examples/cluster/datadir"
	"github.com/planekit/planekit/examples/cluster/stopping"
)

// holder is the variable with the data directory of a process that stands in for a cluster.
const holder = "TEST_STOPPING_DATA_DIR"

func TestMain(m *testing.M) {
	if path := os.Getenv(holder); path != "" {
		hold(path)
		return
	}
	os.Exit(m.Run())
}

// hold has the directory open until its input ends, after the first signal, which it says.
func hold(path string) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, stopping.LeaveSignal)
	dir, err := datadir.Open(path)
	fmt.Println("on", err)
	fmt.Println(<-signals)
	_, _ = os.Stdin.Read(make([]byte, 1)) // until it is closed
	dir.Close()
}

func Example() {
	dir, err := os.MkdirTemp("", "data-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	err = stopping.Stop(context.Background(), dir, true)
	fmt.Println(errors.Is(err, stopping.ErrNotRunning))
	// Output: true
}

// cluster is a process that has a data directory open.
type cluster struct {
	cmd   *exec.Cmd
	input interface{ Close() error }
	lines *bufio.Scanner
}

func start(t *testing.T, dir string) *cluster {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holder+"="+dir)
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	c := &cluster{cmd, input, bufio.NewScanner(output)}
	if got := c.line(); got != "on <nil>" {
		t.Fatalf("the process said %q, want on <nil>", got)
	}
	return c
}

func (c *cluster) line() string {
	c.lines.Scan()
	return c.lines.Text()
}

// TestStop: the command signals the process that has the directory open, and returns when it has let it go.
func TestStop(t *testing.T) {
	for flag, want := range map[string]struct{ signal, said string }{
		"--keep-pods=false": {"terminated", `^stopped in \S+, with its pods\n$`},
		"--keep-pods":       {"user defined signal 2", `^stopped in \S+, its pods run on\n$`},
	} {
		dir := t.TempDir()
		c := start(t, dir)
		var out bytes.Buffer
		command := stopping.Command("elsewhere")
		command.SetOut(&out)
		command.SetArgs([]string{"--data-dir", dir, flag})
		done := make(chan error, 1)
		go func() { done <- command.ExecuteContext(t.Context()) }()
		if got := c.line(); got != want.signal {
			t.Errorf("stop %s sends %s, want %s", flag, got, want.signal)
		}
		select {
		case err := <-done:
			t.Errorf("stop %s returned %v while the directory was in use", flag, err)
		default:
		}
		c.input.Close()
		if err := <-done; err != nil || !regexp.MustCompile(want.said).Match(out.Bytes()) {
			t.Errorf("stop %s: %v, said %q, want %s", flag, err, &out, want.said)
		}
	}
}

// TestStopEnds: Stop returns with its context, also if the process goes on.
func TestStopEnds(t *testing.T) {
	dir := t.TempDir()
	start(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := stopping.Stop(ctx, dir, false); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop with a context that is done: %v", err)
	}
	if pid, err := datadir.Holder(dir); err != nil || pid == 0 {
		t.Errorf("Holder: %d, %v, want the process", pid, err)
	}
	if err := stopping.Stop(t.Context(), t.TempDir(), false); !errors.Is(err, stopping.ErrNotRunning) {
		t.Errorf("Stop where no cluster was: %v", err)
	}
}
