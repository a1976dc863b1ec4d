package stock

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// process is a program that runs until it is stopped or the test ends.
type process struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

// launch starts a program. Its output is shown if the test fails.
func launch(t testing.TB, dir, program string, arguments ...string) *process {
	t.Helper()
	file, err := os.CreateTemp(dir, filepath.Base(program)+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := &process{cmd: exec.Command(program, arguments...), log: file.Name(), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // a signal ends it
	}()
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the last of %s:\n%s", filepath.Base(program), p.tail())
		}
	})
	return p
}

// stop interrupts the program and waits until it has ended.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
	}
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("%s: %w", p.cmd.Path, err)
	}
	<-p.done
	return nil
}

// kill ends the program like a power failure.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// tail returns the end of the program's output.
func (p *process) tail() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 4000
	return string(data[max(0, len(data)-most):])
}
