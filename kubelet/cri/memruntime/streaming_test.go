package memruntime_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/kubelet/cri/memruntime"
)

// TestCommands: what the commands print, and how they end.
func TestCommands(t *testing.T) {
	config := &runtimeapi.ContainerConfig{Envs: []*runtimeapi.KeyValue{{Key: "A", Value: []byte("b c")}}}
	for command, want := range map[string]string{
		"true":                "0",
		"/bin/false":          "1",
		"echo":                "\n0",
		"echo a b":            "a b\n0",
		"echo -n a":           "a0",
		"cat":                 "input0",
		"cat - /etc/hosts":    "inputcat: can't open '/etc/hosts': No such file or directory\n1",
		"env":                 "A=b c\n0",
		"tty":                 "not a tty\n1",
		"sleep 0":             "0",
		"sleep 0.001 0.001s":  "0",
		"sleep":               "BusyBox: sleep needs a number of seconds\n1",
		"sleep -1":            "sleep: invalid number '-1'\n1",
		"sleep NaN":           "sleep: invalid number 'NaN'\n1",
		"sleep 1e300":         "137", // ends with its context
		"sleep infinity":      "137",
		"sleep infinity 1000": "137",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		var out strings.Builder
		s := memruntime.Streams{Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &out}
		fmt.Fprint(&out, memruntime.Command(config, strings.Fields(command))(ctx, s))
		cancel()
		if out.String() != want {
			t.Errorf("%s: %q, want %q", command, &out, want)
		}
	}
	for _, command := range [][]string{nil, {""}, {"sh"}, {"bin/"}, {"True"}} {
		if memruntime.Command(config, command) != nil {
			t.Errorf("there is a command %q", command)
		}
	}
}

// TestExecSync: outputs are kept apart, and a command that does not exist is an error.
func TestExecSync(t *testing.T) {
	sleeps := make(chan struct{}, 1)
	h := start(t, memruntime.Config{Exec: func(c *runtimeapi.ContainerConfig, command []string) memruntime.Program {
		if command[0] == "sleep" {
			sleeps <- struct{}{}
		}
		return memruntime.Command(c, command)
	}})
	h.setRange("10.0.0.0/24")
	_, id := h.running("web")
	exec := func(timeout int64, command ...string) (*runtimeapi.ExecSyncResponse, error) {
		return h.ExecSync(t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: timeout})
	}
	if out, err := exec(5, "cat", "x"); err != nil || out.ExitCode != 1 || len(out.Stdout) > 0 || len(out.Stderr) == 0 {
		t.Errorf("ExecSync(cat x) = %v, %v, want exit code 1 and output on stderr only", out, err)
	}
	if _, err := exec(5, "ls"); status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), `exec: "ls": executable file not found in $PATH`) {
		t.Errorf("ExecSync(ls) = %v, want code Unknown and %q in the error", err, `exec: "ls": executable file not found in $PATH`)
	}
	ended := make(chan *runtimeapi.ExecSyncResponse, 1)
	go func() {
		out, err := exec(0, "sleep", "1000")
		if err != nil {
			t.Error(err)
		}
		ended <- out
	}()
	<-sleeps
	if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id}); err != nil {
		t.Fatal(err)
	}
	if out := <-ended; out.GetExitCode() != 137 {
		t.Errorf("the exit code is %d", out.GetExitCode())
	}
}

// TestProgram: a program's output is in the log, in lines, and its exit code is the container's.
func TestProgram(t *testing.T) {
	long := strings.Repeat("x", 20000)
	for name, test := range map[string]struct {
		program memruntime.Program
		code    int32
		log     []string // without times
	}{
		"lines": {func(_ context.Context, s memruntime.Streams) int32 {
			for _, piece := range []string{"one\nt", "wo\n\nno end"} {
				io.WriteString(s.Stdout, piece)
			}
			io.WriteString(s.Stderr, "alas\n")
			return 7
		}, 7, []string{"stdout F one", "stdout F two", "stdout F ", "stderr F alas", "stdout F no end"}},
		"a long line": {func(_ context.Context, s memruntime.Streams) int32 {
			io.WriteString(s.Stdout, long)
			return 0
		}, 0, []string{"stdout P " + long[:16<<10], "stdout F " + long[16<<10:]}},
		"no input": {func(_ context.Context, s memruntime.Streams) int32 {
			n, err := io.Copy(s.Stdout, s.Stdin)
			return int32(n) + map[bool]int32{false: 1}[err == nil]
		}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
				return memruntime.Behavior{Program: test.program}
			}})
			h.setRange("10.0.0.0/24")
			id, path := h.logged(t)
			for deadline := time.Now().Add(time.Minute); h.status(id).State != runtimeapi.ContainerState_CONTAINER_EXITED; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the program does not end")
				}
			}
			if code := h.status(id).ExitCode; code != test.code {
				t.Errorf("the exit code is %d", code)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(text)) {
				_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				got = append(got, rest)
			}
			if strings.Join(got, "\n") != strings.Join(test.log, "\n") {
				t.Errorf("the log is %q, want %q", got, test.log)
			}
		})
	}
}

// logged starts a container with a log, and returns its ID and the path of the log.
func (h *harness) logged(t *testing.T) (id, path string) {
	t.Helper()
	if _, err := h.PullImage(t.Context(), &runtimeapi.PullImageRequest{Image: &runtimeapi.ImageSpec{Image: "nginx"}}); err != nil {
		t.Fatal(err)
	}
	sandbox := sandboxConfig("web", 0)
	sandbox.LogDirectory = t.TempDir()
	s, err := h.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	config := containerConfig("c", 0)
	config.LogPath = "c.log"
	c, err := h.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: s.PodSandboxId, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}); err != nil {
		t.Fatal(err)
	}
	return c.ContainerId, filepath.Join(sandbox.LogDirectory, "c.log")
}

// TestStoppedProgram: a program whose container is killed gets an end of its context and its input, and
// an error of its output. Run waits for it.
func TestStoppedProgram(t *testing.T) {
	var ended bool
	h := start(t, memruntime.Config{Behave: func(*runtimeapi.ContainerConfig) memruntime.Behavior {
		return memruntime.Behavior{IgnoresTerm: true, Program: func(ctx context.Context, s memruntime.Streams) int32 {
			<-ctx.Done()
			n, err := s.Stdin.Read(make([]byte, 1))
			_, failed := io.WriteString(s.Stdout, "late\n")
			ended = n == 0 && err == io.EOF && failed != nil
			return 3
		}}
	}})
	h.setRange("10.0.0.0/24")
	_, id := h.running("web")
	if _, err := h.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 0}); err != nil {
		t.Fatal(err)
	}
	if s := h.status(id); s.ExitCode != 137 {
		t.Errorf("after StopContainer the status is %v, want exit code 137", s)
	}
	h.stop()
	if !ended {
		t.Error("the program did not see the end")
	}
}
