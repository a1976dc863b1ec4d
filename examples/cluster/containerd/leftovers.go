package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// helperTimeout bounds the wait for what a daemon that was killed had started to
// make or remove a shim.
const helperTimeout = 5 * time.Second

// taskDirectory has the directories of shims, in the state and in the root.
const taskDirectory = "io.containerd.runtime.v2.task"

// leftovers holds the processes and mounts of sandboxes and containers while no daemon runs.
type leftovers struct {
	shims []shim
	// namespaces are files that network namespaces are mounted at.
	namespaces []string
	// mounts and bundles are below directories named by a container's id.
	mounts  []string
	bundles []string
	// sandboxes are the ids of those with a directory.
	sandboxes []string
}

// leftovers lists what an earlier daemon has left, used or not.
func (d *Daemon) leftovers(ctx context.Context) leftovers {
	deadline := time.Now().Add(helperTimeout)
	for d.helpers() && time.Now().Before(deadline) && sleep(ctx, pollEvery) {
	}
	l := leftovers{shims: d.shims(), sandboxes: d.sandboxes()}
	l.namespaces, _ = filepath.Glob(filepath.Join(d.config.state(), "io.containerd.grpc.v1.cri/netns/*"))
	for _, dir := range []string{d.config.state(), d.config.Root} {
		points, _ := mountsUnder(dir)
		l.mounts = append(l.mounts, points...)
		bundles, _ := filepath.Glob(filepath.Join(dir, taskDirectory, "k8s.io/*"))
		l.bundles = append(l.bundles, bundles...)
	}
	return l
}

// helpers reports whether a process runs that starts or deletes a shim: it goes on
// without the daemon that started it.
func (d *Daemon) helpers() bool {
	for _, arguments := range processes() {
		last := arguments[len(arguments)-1]
		if has(arguments, "-address", d.Socket()) && (last == "start" || last == "delete") {
			return true
		}
	}
	return false
}

// containerID is an element of a path.
var containerID = regexp.MustCompile(`/([0-9a-f]{64})(/|$)`)

// removeUnknown removes what of l belongs to no sandbox or container that the
// daemon knows now that it runs.
func (d *Daemon) removeUnknown(ctx context.Context, l leftovers) error {
	if d.config.Known == nil || len(l.shims)+len(l.namespaces)+len(l.mounts)+len(l.bundles)+len(l.sandboxes) == 0 {
		return nil
	}
	known, err := d.known(ctx)
	if err != nil {
		return fmt.Errorf("list what containerd knows: %w", err)
	}
	unknown := func(path string) bool {
		id := containerID.FindStringSubmatch(path)
		return id != nil && !known[id[1]]
	}
	unused, failed := d.removeShims(ctx, l.shims, known)
	tasks := func(path string) bool {
		id := containerID.FindStringSubmatch(path)
		return unknown(path) || id != nil && unused[id[1]] && strings.Contains(path, taskDirectory)
	}
	failed = errors.Join(failed, unmount(slices.DeleteFunc(l.mounts, func(path string) bool { return !tasks(path) })))
	for _, bundle := range l.bundles {
		if tasks(bundle) {
			failed = errors.Join(failed, os.RemoveAll(bundle))
		}
	}
	for _, id := range l.sandboxes {
		if !known[id] {
			failed = errors.Join(failed, removeResults(id))
		}
	}
	return errors.Join(failed, removeEmptyNamespaces(l.namespaces))
}

// removeShims kills the shims of sandboxes that the daemon does not know, and those that no process
// runs under. The daemon that started such a shim was killed before the sandbox had a process, so
// that the next one may know the sandbox, but not the shim. It returns the sandboxes of the latter.
func (d *Daemon) removeShims(ctx context.Context, shims []shim, known map[string]bool) (unused map[string]bool, failed error) {
	unused = map[string]bool{}
	for _, s := range shims {
		below := descendants(s.pid)
		switch {
		case !known[s.id]:
			d.config.Log.Info("removing a sandbox that containerd does not know", "sandbox", s.id)
		case len(below) == 0:
			d.config.Log.Info("removing a shim that nothing runs under", "sandbox", s.id)
			unused[s.id] = true
		default:
			continue
		}
		for _, pid := range append([]int{s.pid}, below...) {
			failed = errors.Join(failed, kill(ctx, pid))
		}
	}
	return unused, failed
}

// known asks the daemon what it knows until it answers: its socket is there before its
// plugins are.
func (d *Daemon) known(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		known, err := d.config.Known(ctx, d.Socket())
		if err == nil || !sleep(ctx, lookEvery) {
			return known, errors.Join(err, context.Cause(ctx))
		}
	}
}

// removeEmptyNamespaces removes the network namespaces that no process is in: a
// sandbox that runs has at least one in its own.
func removeEmptyNamespaces(files []string) error {
	if len(files) == 0 {
		return nil
	}
	inhabited := map[uint64]bool{}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net") // the pattern is well formed
	for _, link := range links {
		if inode, ok := inode(link); ok {
			inhabited[inode] = true
		}
	}
	var failed error
	for _, file := range files {
		inode, ok := inode(file)
		if !ok || inhabited[inode] {
			continue
		}
		if err := unmount([]string{file}); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if err := os.Remove(file); err != nil && !os.IsNotExist(err) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
