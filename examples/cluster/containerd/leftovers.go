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

// criNamespace is containerd's namespace for what is made over CRI. What other clients of the daemon
// made is theirs.
const criNamespace = "k8s.io"

// taskDirectory has a directory for each namespace with those of its shims, in the state and in the
// root.
const taskDirectory = "io.containerd.runtime.v2.task/"

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
	l.shims = slices.DeleteFunc(l.shims, func(s shim) bool { return s.namespace != criNamespace })
	l.namespaces, _ = filepath.Glob(filepath.Join(d.config.state(), "io.containerd.grpc.v1.cri/netns/*"))
	for _, dir := range []string{d.config.state(), d.config.Root} {
		points, _ := mountsUnder(dir)
		l.mounts = append(l.mounts, slices.DeleteFunc(points, foreign)...)
		bundles, _ := filepath.Glob(filepath.Join(dir, taskDirectory, criNamespace, "*"))
		l.bundles = append(l.bundles, bundles...)
	}
	return l
}

// foreign reports whether a path is that of a shim in a namespace of another client.
func foreign(path string) bool {
	_, rest, ok := strings.Cut(path, taskDirectory)
	return ok && !strings.HasPrefix(rest, criNamespace+"/")
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
	for _, id := range l.neverRan() {
		unused[id] = true
	}
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

// removeHalfRemoved removes the bundles that a daemon was removing when it was killed. It renames a bundle to
// a name with a dot before it removes it, and no later daemon looks at such names. No daemon may run.
func (d *Daemon) removeHalfRemoved() error {
	var failed error
	for _, dir := range []string{d.config.state(), d.config.Root} {
		bundles, _ := filepath.Glob(filepath.Join(dir, taskDirectory, criNamespace, ".*"))
		for _, bundle := range bundles {
			failed = errors.Join(failed, unmountUnder(bundle), os.RemoveAll(bundle))
		}
	}
	return failed
}

// neverRan returns the ids of containers of which a daemon was killed before a process ran. The next
// one knows the container, but never removes the bundle, and cannot start the container because of it.
// Sandboxes are not among them: they have shims.
func (l leftovers) neverRan() []string {
	var ids []string
	for _, bundle := range l.bundles {
		id := filepath.Base(bundle)
		if slices.ContainsFunc(l.shims, func(s shim) bool { return s.id == id }) {
			continue
		}
		_, config := os.Stat(filepath.Join(bundle, "config.json"))
		_, process := os.Stat(filepath.Join(bundle, "init.pid")) // runc writes it
		if config == nil && errors.Is(process, os.ErrNotExist) {
			ids = append(ids, id)
		}
	}
	return ids
}

// removeShims kills the shims of sandboxes that the daemon does not know, and those that no process
// runs under. The daemon that started such a shim was killed before the sandbox had a process, so
// that the next one may know the sandbox, but not the shim. It returns the sandboxes of the latter.
//
// All of shims are from before the daemon started, which starts others for what it makes: it runs
// nothing new under these.
func (d *Daemon) removeShims(ctx context.Context, shims []shim, known map[string]bool) (unused map[string]bool, failed error) {
	unused = map[string]bool{}
	for _, s := range shims {
		switch {
		case !known[s.id]:
			d.config.Log.Info("removing a sandbox that containerd does not know", "sandbox", s.id)
		case idle(ctx, s.pid):
			d.config.Log.Info("removing a shim that nothing runs under", "sandbox", s.id)
			unused[s.id] = true
		default:
			continue
		}
		below := descendants(s.pid)
		if !slices.Contains(d.shims(), s) {
			continue // it has ended, and another process may have its number
		}
		for _, pid := range append([]int{s.pid}, below...) {
			failed = errors.Join(failed, kill(ctx, pid))
		}
	}
	return unused, failed
}

// idle reports whether nothing runs under a shim. One look may miss a process whose parent ends at
// that time, which makes it a child of the shim.
func idle(ctx context.Context, pid int) bool {
	for range 3 {
		if len(descendants(pid)) > 0 || !sleep(ctx, pollEvery) {
			return false
		}
	}
	return true
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
