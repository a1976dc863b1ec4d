package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/cni"
	"go.uber.org/goleak"
)

// The test binary is also the fake plugin: a link to it whose name begins with
// "fake" does what its configuration says.
func TestMain(m *testing.M) {
	if strings.HasPrefix(filepath.Base(os.Args[0]), "fake") {
		os.Exit(fake(filepath.Base(os.Args[0])))
	}
	goleak.VerifyTestMain(m)
}

// fake logs the call and then follows the script for its command.
func fake(name string) int {
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 3
	}
	var conf struct {
		Version    string            `json:"cniVersion"`
		Log        string            `json:"log"`
		Do         map[string]string `json:"do"`
		PrevResult json.RawMessage   `json:"prevResult"`
	}
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return 4
	}
	cmd := os.Getenv("CNI_COMMAND")
	prev := "none"
	if r, err := cni.ParseResult(conf.PrevResult, ""); err == nil {
		prev = fmt.Sprint(len(r.Interfaces))
	}
	log, err := os.OpenFile(conf.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return 5
	}
	fmt.Fprintf(log, "%s %s %s\n", name, cmd, prev)
	if code, done := follow(conf.Do[cmd], conf.Log, log, stdin); done {
		return code
	}
	if cmd == cni.CmdAdd {
		r := new(cni.Result)
		if conf.PrevResult != nil {
			if r, err = cni.ParseResult(conf.PrevResult, ""); err != nil {
				return 8
			}
		}
		r.Interfaces = append(r.Interfaces, cni.Interface{Name: name})
		out, err := r.Encode(conf.Version)
		if err != nil {
			return 9
		}
		os.Stdout.Write(out)
	}
	return 0
}

// follow does one line of a script. done means that the plugin ends then.
func follow(line, logName string, log io.Writer, stdin []byte) (code int, done bool) {
	what, arg, _ := strings.Cut(line, " ")
	switch what {
	case "hang", "orphan": // with a child that holds the pipes
		child := exec.Command("sleep", "1000")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return 6, true
		}
		fmt.Fprintf(log, "pids %d %d\n", os.Getpid(), child.Process.Pid)
		if what == "hang" {
			_ = child.Wait()
		}
	case "garbage":
		fmt.Print("hello")
		return 0, true
	case "stderr":
		fmt.Fprint(os.Stderr, arg)
		return 1, true
	case "both":
		fmt.Fprintln(os.Stderr, "a long story")
		fmt.Print(arg)
		return 1, true
	case "error":
		fmt.Print(arg)
		return 1, true
	case "flood":
		for range 3 << 10 {
			fmt.Print(strings.Repeat("x", 1<<10))
		}
	case "dump":
		err := os.WriteFile(logName+".stdin", stdin, 0o644)
		err = errors.Join(err, os.WriteFile(logName+".env", []byte(strings.Join(os.Environ(), "\n")), 0o644))
		return 7, err != nil
	}
	return 0, false
}

// bench is a directory with fake plugins, and an invoker for them.
type bench struct {
	t       *testing.T
	dir     string
	invoker *cni.Invoker
}

func newBench(t *testing.T, c cni.Config) *bench {
	t.Helper()
	// With -race a process waits for a second before it ends, by default.
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	b := &bench{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fake-a", "fake-b", "fake-c"} {
		if err := os.Symlink(self, filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c.Path = []string{filepath.Join(b.dir, "missing"), b.dir}
	c.Dir = filepath.Join(b.dir, "state")
	if b.invoker, err = cni.New(c); err != nil {
		t.Fatal(err)
	}
	return b
}

// list returns a network of fake-a, fake-b ... with one script each.
func (b *bench) list(version string, scripts ...map[string]string) *cni.List {
	b.t.Helper()
	var plugins []any
	for n, do := range scripts {
		plugins = append(plugins, map[string]any{
			"type": "fake-" + string(rune('a'+n)), "log": filepath.Join(b.dir, "log"), "do": do,
			"capabilities": map[string]bool{"mac": n == 0},
		})
	}
	data, err := json.Marshal(map[string]any{"cniVersion": version, "name": "net", "plugins": plugins})
	if err != nil {
		b.t.Fatal(err)
	}
	l, err := cni.ParseList(data)
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

// calls returns and forgets what was logged, without process IDs.
func (b *bench) calls() []string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(b.dir, "log"))
	var calls []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "pids") {
			calls = append(calls, line)
		}
	}
	return calls
}

// pids returns the process IDs that were logged.
func (b *bench) pids() []int {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil && !os.IsNotExist(err) {
		b.t.Error(err)
	}
	var pids []int
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "pids "); ok {
			for _, f := range strings.Fields(rest) {
				var pid int
				if _, err := fmt.Sscan(f, &pid); err != nil {
					b.t.Error(err)
				}
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// gone waits until a process that was killed is no more, or waits for its
// parent.
func gone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); runtime.Gosched() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Errorf("process %d lives", pid)
}

var web = cni.RuntimeConfig{ContainerID: "web", NetNS: "/run/netns/web", IfName: "eth0"}
