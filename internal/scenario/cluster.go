package scenario

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	readyTimeout = 90 * time.Second // a first start may build images under the race detector
	stopTimeout  = 60 * time.Second
)

// cluster is the cluster program of a script, over all its starts.
type cluster struct {
	program, dataDir, kubeconfig, log string
	env                               []string // of the script

	cmd   *exec.Cmd
	ended chan error
	last  []string // the flags of the last start
}

var ready = regexp.MustCompile(`^ready in \S+: (https://\S+)$`)

func (c *cluster) start(flags []string) error {
	if c.cmd != nil {
		return errors.New("the cluster is running")
	}
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	arguments := append([]string{"--data-dir", c.dataDir, "--kubeconfig", c.kubeconfig, "--listen", "127.0.0.1:0"}, flags...)
	cmd := exec.Command(c.program, arguments...)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd, c.last, c.ended = cmd, flags, make(chan error, 1)

	first := make(chan string, 1)
	go func() { // ends with the program, whose output it drains
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			select {
			case first <- lines.Text():
			default:
			}
		}
		c.ended <- cmd.Wait()
	}()
	select {
	case line := <-first:
		if !ready.MatchString(line) {
			return errors.Join(fmt.Errorf("the first line is %q, not: ready in <duration>: <url>", line), c.kill())
		}
		return nil
	case err := <-c.ended:
		c.cmd = nil
		return fmt.Errorf("the cluster ended before it was ready: %v; it said:\n%s", err, c.said())
	case <-time.After(readyTimeout):
		return errors.Join(fmt.Errorf("the cluster is not ready after %v; it said:\n%s", readyTimeout, c.said()), c.kill())
	}
}

// stop interrupts the program, which must then end with success.
func (c *cluster) stop() error {
	if c.cmd == nil {
		return errors.New("the cluster is not running")
	}
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	return c.end()
}

// quiet returns an error if the program has logged an error.
func (c *cluster) quiet() error {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "level=ERROR") {
			return fmt.Errorf("the cluster logged: %s", strings.TrimSpace(line))
		}
	}
	return nil
}

// end waits until the program has ended with success.
func (c *cluster) end() error {
	if c.cmd == nil {
		return errors.New("the cluster is not running")
	}
	select {
	case err := <-c.ended:
		c.cmd = nil
		if err != nil {
			return fmt.Errorf("the cluster ended with %v; it said:\n%s", err, c.said())
		}
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("the cluster does not stop; it said:\n%s", c.said()), c.kill())
	}
}

// stopNow interrupts the program, and again once it reports the parts that it waits for. It must
// then end with success.
func (c *cluster) stopNow() error {
	if c.cmd == nil {
		return errors.New("the cluster is not running")
	}
	before, err := os.ReadFile(c.log)
	if err != nil {
		return err
	}
	if err := c.cmd.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	limit := time.Now().Add(stopTimeout)
	for said := before; !bytes.Contains(said[len(before):], []byte("waitingFor")); {
		if time.Now().After(limit) {
			return errors.Join(fmt.Errorf("the cluster does not say what it waits for; it said:\n%s", c.said()), c.kill())
		}
		time.Sleep(retryEvery)
		if said, err = os.ReadFile(c.log); err != nil {
			return err
		}
	}
	return c.stop()
}

func (c *cluster) kill() error {
	if c.cmd == nil {
		return errors.New("the cluster is not running")
	}
	err := c.cmd.Process.Kill()
	<-c.ended
	c.cmd = nil
	return err
}

// clean stops the cluster and removes its resources after any script. After a kill, only a cluster
// on the same directory knows what to remove.
func (c *cluster) clean() error {
	if c.cmd == nil && c.last != nil && len(c.leftovers()) > 0 {
		if err := c.start(c.last); err != nil {
			return err
		}
	}
	if c.cmd != nil {
		return c.stop()
	}
	return nil
}

// said returns the end of what the program wrote to its standard error.
func (c *cluster) said() string {
	data, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	const enough = 32000
	if len(data) > enough {
		data = data[len(data)-enough:]
	}
	return string(data)
}

// leftovers lists processes, mounts and cgroups of the cluster. Each has a name made from its data
// directory or from the identity in it. The network namespaces of pods are mounts below the state
// directory of their containerd.
func (c *cluster) leftovers() []string {
	id, _ := os.ReadFile(filepath.Join(c.dataDir, "id"))
	marks := []string{c.dataDir}
	if len(id) > 0 {
		marks = append(marks, strings.TrimSpace(string(id)))
	}
	var found []string
	roots, _ := filepath.Glob("/run/planekit/*/root") // the state directories of containerds
	for _, file := range roots {
		if root, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(root), c.dataDir+"/") {
			marks = append(marks, filepath.Dir(file))
			found = append(found, "state "+filepath.Dir(file))
		}
	}
	marked := func(s string) bool {
		for _, mark := range marks {
			if strings.Contains(s, mark) {
				return true
			}
		}
		return false
	}
	if interfaces, err := net.Interfaces(); err == nil {
		for _, i := range interfaces {
			if marked(i.Name) {
				found = append(found, "interface "+i.Name)
			}
		}
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range commands {
		if data, err := os.ReadFile(file); err == nil && marked(string(data)) {
			found = append(found, "process "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	if data, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if marked(line) {
				found = append(found, "mount "+strings.TrimSpace(line))
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "find", "/sys/fs/cgroup", "-type", "d").Output(); err == nil {
		for line := range strings.Lines(string(out)) {
			if marked(line) {
				found = append(found, "cgroup "+strings.TrimSpace(line))
			}
		}
	}
	return found
}
