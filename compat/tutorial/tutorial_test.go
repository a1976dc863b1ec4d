package tutorial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a command may take to print what the document shows, and a program to end.
	patience = time.Minute
	// buildTime limits a command, which may compile everything.
	buildTime = 15 * time.Minute
	// lookEvery is the time between two looks at what a program has printed.
	lookEvery = 50 * time.Millisecond
)

// TestTutorial does what the document says, against real programs.
func TestTutorial(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := parse(string(text))
	if err != nil {
		t.Fatalf("docs/tutorial.md: %v", err)
	}
	r := newReader(t, root)
	for _, s := range steps {
		begin := time.Now()
		if err := r.do(t.Context(), s); err != nil {
			t.Fatalf("docs/tutorial.md:%d: %v", s.line, err)
		}
		t.Logf("line %d took %v: %s%s", s.line, time.Since(begin).Round(time.Millisecond), s.file, s.command)
	}
	for name, at := range r.terminals {
		if at.running != nil {
			t.Errorf("docs/tutorial.md ends, and %q still runs in the %s terminal", at.running.Args, name)
		}
	}
	if left, err := os.ReadDir(r.dir); err != nil || len(left) > 0 {
		t.Errorf("ReadDir of the reader's folder = %v, %v, want nothing left", left, err)
	}
}

// reader is a person who follows the document.
type reader struct {
	t         *testing.T
	root      string // of the checkout
	dir       string // empty at first
	env       []string
	terminals map[string]*terminal
}

// terminal is a shell of the reader's.
type terminal struct {
	entered string // commands that change the shell itself
	folder  string
	running *exec.Cmd // nil unless a program runs
	printed *output
	logged  *output // standard error, where programs log what depends on the machine
	ended   chan error
}

func newReader(t *testing.T, root string) *reader {
	r := &reader{t: t, root: root, dir: t.TempDir(), terminals: map[string]*terminal{}}
	tools := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", tools+"/", "./cmd/kubectl")
	build.Dir = filepath.Join(root, "compat")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v = %v, want no error\n%s", build.Args, err, out)
	}
	cached, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatalf("go env GOMODCACHE GOPROXY = %v, want no error", err)
	}
	modules, proxies, _ := strings.Cut(strings.TrimSpace(string(cached)), "\n")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "KUBECONFIG=") {
			r.env = append(r.env, variable)
		}
	}
	r.env = append(r.env, "PATH="+tools+":"+os.Getenv("PATH"), "KUBECACHEDIR="+t.TempDir(), "GOWORK=off",
		// Modules of the checkout are here already, and verified. Nothing is downloaded then.
		"GOPROXY=file://"+modules+"/cache/download,"+proxies, "GOSUMDB=off")
	t.Cleanup(func() {
		for _, at := range r.terminals {
			if at.running != nil {
				_ = syscall.Kill(-at.running.Process.Pid, syscall.SIGKILL)
				<-at.ended
			}
		}
	})
	return r
}

func (r *reader) terminal(name string) *terminal {
	if r.terminals[name] == nil {
		r.terminals[name] = &terminal{folder: r.dir}
	}
	return r.terminals[name]
}

func (r *reader) do(ctx context.Context, s step) error {
	at := r.terminal(s.terminal)
	switch {
	case s.file != "":
		return r.write(s)
	case s.interrupt:
		return at.interrupt()
	case s.stays:
		return r.start(at, s)
	case strings.HasPrefix(s.command, "cd "):
		at.folder = filepath.Join(at.folder, strings.TrimPrefix(s.command, "cd "))
		return nil
	case strings.HasPrefix(s.command, "export "):
		at.entered += s.command + "\n"
		return nil
	}
	if err := r.run(ctx, at, s); err != nil || !strings.HasPrefix(s.command, "go mod init") {
		return err
	}
	// The module is not published: the reader's go.mod leads to the checkout instead. The version is that
	// with which this module requires it, so that both have the same packages in the build cache.
	return r.run(ctx, at, step{command: "go mod edit -replace=github.com/planekit/planekit@v0.0.0=" + r.root})
}

// write writes a file of the document to the folder of the first terminal.
func (r *reader) write(s step) error {
	if strings.HasSuffix(s.file, ".go") {
		if formatted, err := format.Source([]byte(s.text)); err != nil || string(formatted) != s.text {
			return fmt.Errorf("%s is not formatted by gofmt: %w", s.file, err)
		}
	}
	return os.WriteFile(filepath.Join(r.terminal("first").folder, s.file), []byte(s.text), 0o600)
}

func (r *reader) shell(ctx context.Context, at *terminal, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", at.entered+command)
	cmd.Dir, cmd.Env = at.folder, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // which Ctrl-C interrupts
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = patience
	return cmd
}

// run runs a command to its end. Where it only shows objects, it is repeated until they are as in the
// document, because a reader is slower than the controllers.
func (r *reader) run(ctx context.Context, at *terminal, s step) error {
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	for begin := time.Now(); ; time.Sleep(lookEvery) {
		printed, err := r.shell(ctx, at, s.command).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w; it printed:\n%s", s.command, err, printed)
		} else if s.output != nil {
			if err = compare(s.output, string(printed), true); err != nil {
				err = fmt.Errorf("%s: %w", s.command, err)
			}
		}
		if err == nil || !strings.HasPrefix(s.command, "bin/planectl get ") || time.Since(begin) > patience {
			return err
		}
	}
}

// start starts a program and waits until it has printed what the document shows.
func (r *reader) start(at *terminal, s step) error {
	command := s.command
	if strings.HasPrefix(command, "bin/cluster ") {
		command += " --listen 127.0.0.1:0" // another cluster may have the default port
	}
	cmd := r.shell(context.WithoutCancel(r.t.Context()), at, "exec "+command)
	at.printed, at.logged, at.ended = &output{}, &output{}, make(chan error, 1)
	cmd.Stdout, cmd.Stderr = at.printed, at.logged
	if err := cmd.Start(); err != nil {
		return err
	}
	at.running = cmd
	go func() { at.ended <- cmd.Wait() }()
	for begin := time.Now(); ; time.Sleep(lookEvery) {
		printed := at.printed.String()
		err := compare(s.output, printed, false)
		if err == nil {
			return nil
		}
		select {
		case ended := <-at.ended:
			at.running = nil
			return fmt.Errorf("%s ended (%v), want that it runs: %w\nit logged:\n%s", s.command, ended, err, at.logged)
		default:
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("%s: %w\nit logged:\n%s", s.command, err, at.logged)
		}
	}
}

// interrupt presses Ctrl-C. The program must then end with success.
func (at *terminal) interrupt() error {
	if at.running == nil {
		return errors.New("no program runs in this terminal, which Ctrl-C could interrupt")
	}
	if err := syscall.Kill(-at.running.Process.Pid, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case err := <-at.ended:
		at.running = nil
		if err != nil {
			return fmt.Errorf("the program ended with %w, want success; it logged:\n%s", err, at.logged)
		}
		return nil
	case <-time.After(patience):
		return fmt.Errorf("the program still runs %v after Ctrl-C; it logged:\n%s", patience, at.logged)
	}
}

// output holds what a program prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(data)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
