package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// builds lists the programs, built as the Makefile does.
var builds = []struct{ name, tags, folder string }{
	{"apiserver, etcd outside", "grpcnotrace,noembed,noprofile", "./examples/apiserver"},
	{"apiserver, with etcd", "grpcnotrace", "./examples/apiserver"},
	{"cluster", "grpcnotrace", "./examples/cluster"},
	{"planectl", "grpcnotrace", "./examples/planectl"},
	{"embed", "grpcnotrace", "./examples/embed"},
}

// starts lists the programs to start, with their arguments beside the data directory.
var starts = map[string][]string{
	"apiserver, with etcd": {"--listen=127.0.0.1:0"},
	"cluster":              {"--listen=127.0.0.1:0", "--runtime=fake", "--nodes=1"},
}

// patience limits the time from the start of a program until it is ready, and until it ends.
const patience = time.Minute

// programs are the built programs of one tree and the results of their starts.
type programs struct {
	folder string
	sizes  map[string]int64
	ready  map[string][]time.Duration // from the start until the program is ready
	cpu    map[string][]time.Duration // processor time of all threads until the program has ended
}

// buildPrograms builds the programs of the tree in root.
func buildPrograms(root string) (*programs, error) {
	folder, err := os.MkdirTemp("", "measure-")
	if err != nil {
		return nil, err
	}
	p := &programs{folder: folder, sizes: map[string]int64{}, ready: map[string][]time.Duration{}, cpu: map[string][]time.Duration{}}
	for _, b := range builds {
		build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags="+b.tags, "-ldflags=-s -w", "-o", p.path(b.name), b.folder)
		build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			p.remove()
			return nil, fmt.Errorf("%s: %w\n%s", build, err, text)
		}
		info, err := os.Stat(p.path(b.name))
		if err != nil {
			p.remove()
			return nil, err
		}
		p.sizes[b.name] = info.Size()
	}
	return p, nil
}

func (p *programs) path(name string) string {
	return filepath.Join(p.folder, strings.ReplaceAll(name, ", ", "-"))
}

func (p *programs) remove() { _ = os.RemoveAll(p.folder) }

// start starts each program once with an empty data directory.
func (p *programs) start() error {
	for _, b := range builds {
		arguments, ok := starts[b.name]
		if !ok {
			continue
		}
		ready, cpu, err := untilReady(p.path(b.name), arguments)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		p.ready[b.name], p.cpu[b.name] = append(p.ready[b.name], ready), append(p.cpu[b.name], cpu)
	}
	return nil
}

// untilReady returns the time from the start of a program to the line in which it reports that it is
// ready, and the processor time of the program. It interrupts the program once it is ready.
func untilReady(program string, arguments []string) (ready, cpu time.Duration, err error) {
	data, err := os.MkdirTemp("", "measure-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(data)
	command := exec.Command(program, append([]string{"--data-dir=" + data}, arguments...)...)
	command.Dir = data
	out, err := command.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	if err := command.Start(); err != nil {
		return 0, 0, err
	}
	kill := time.AfterFunc(patience, func() { _ = command.Process.Kill() })
	defer kill.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if ready == 0 && strings.Contains(lines.Text(), "ready in") {
			ready = time.Since(begin)
			if err := command.Process.Signal(os.Interrupt); err != nil {
				return 0, 0, err
			}
		}
	}
	err = command.Wait()
	if ready == 0 {
		return 0, 0, errors.Join(errors.New("the program did not get ready"), err)
	}
	return ready, command.ProcessState.UserTime() + command.ProcessState.SystemTime(), err
}

// rows returns the sizes and times in the order of the table.
func (p *programs) rows() []row {
	var all []row
	for _, b := range builds {
		all = append(all, row{"MB of " + b.name, fmt.Sprintf("%.1f", float64(p.sizes[b.name])/1e6)})
	}
	for _, b := range builds {
		if n := len(p.ready[b.name]); n > 0 {
			all = append(all,
				row{fmt.Sprintf("ms until ready: %s (fastest, median of %d)", b.name, n), spread(p.ready[b.name])},
				row{fmt.Sprintf("ms of processor time: %s (least, median of %d)", b.name, n), spread(p.cpu[b.name])},
			)
		}
	}
	return all
}

// spread returns the smallest and the median of times in milliseconds.
func spread(times []time.Duration) string {
	slices.Sort(times)
	return fmt.Sprintf("%d, %d", times[0].Milliseconds(), times[len(times)/2].Milliseconds())
}
