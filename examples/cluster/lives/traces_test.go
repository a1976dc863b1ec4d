//go:build linux

package lives_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/planekit/planekit/cni/portmap"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/kubelet/cri"
)

// traces returns an error that names what is left of something with a mark in the names of its
// mounts, processes, cgroups, directories and logs; nil if there is nothing.
func (n *node) traces(mark string) error {
	var left []error
	add := func(format string, args ...any) { left = append(left, fmt.Errorf(format, args...)) }
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, mark) {
			add("mount: %s", strings.TrimSpace(line))
		}
	}
	groups, _ := filepath.Glob("/proc/[0-9]*/cgroup") // the pattern is well formed
	for _, path := range groups {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), mark) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			add("process %s: %q", path, command)
		}
	}
	for _, root := range []string{"/sys/fs/cgroup", filepath.Join(n.dir, "kubelet"), filepath.Join(n.dir, "logs")} {
		filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			// What cannot be read has just been removed.
			if err == nil && d.IsDir() && strings.Contains(filepath.Base(path), mark) {
				add("directory %s", path)
				return fs.SkipDir
			}
			return nil
		})
	}
	return errors.Join(left...)
}

// leftovers returns an error that names what is left of any pod.
func (n *node) leftovers() error {
	var left []error
	add := func(format string, args ...any) { left = append(left, fmt.Errorf(format, args...)) }
	for id, pid := range n.shims() {
		add("shim of %s: process %d", id, pid)
	}
	for _, pid := range machine.Processes(n.cgroup) {
		add("process %d", pid)
	}
	known, err := cri.ListIDs(n.t.Context(), n.daemon.Socket())
	if err != nil {
		return err
	}
	for id := range known {
		add("the runtime has %s", id)
	}
	state := filepath.Dir(n.daemon.Socket())
	for _, pattern := range []string{
		n.dir + "/kubelet/pods/*", n.dir + "/logs/*", n.dir + "/network/networks/*/[0-9]*", n.dir + "/network/results/*/*",
		state + "/io.containerd.grpc.v1.cri/netns/*", state + "/io.containerd.grpc.v1.cri/sandboxes/*", state + "/io.containerd.grpc.v1.cri/containers/*",
		state + "/io.containerd.runtime.v2.task/k8s.io/*",
		n.dir + "/containerd/io.containerd.grpc.v1.cri/sandboxes/*", n.dir + "/containerd/io.containerd.grpc.v1.cri/containers/*",
		"/var/lib/cni/results/" + n.network.Name + "-*",
		"/sys/fs/cgroup" + n.cgroup + "/kubepods/*/pod*", "/sys/fs/cgroup/*" + n.cgroup + "/kubepods/*/pod*", "/sys/fs/cgroup/*" + n.cgroup + "/kubepods/pod*",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			add("file %s", file)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, n.dir) || strings.Contains(line, state) {
			add("mount: %s", strings.TrimSpace(line))
		}
	}
	left = append(left, n.bridgePorts(), n.mappedPorts())
	if err := errors.Join(left...); err != nil {
		return err
	}
	return n.snapshots() // without containers none is being created
}

// bridgePorts returns an error that names the interfaces that are left at the bridge.
func (n *node) bridgePorts() error {
	entries, err := os.ReadDir("/sys/class/net/" + n.network.Bridge + "/brif")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, fmt.Errorf("interface %s", e.Name()))
	}
	return err
}

// mappedPorts returns an error if ports of the host are mapped to the network.
func (n *node) mappedPorts() error {
	scopes, err := portmap.Scopes()
	if slices.Contains(scopes, n.network.Bridge) {
		err = errors.Join(err, fmt.Errorf("mapped ports of %s", n.network.Bridge))
	}
	return err
}

// snapshots returns an error that names the file systems that are left of containers. It ends leases:
// a containerd that is killed as it creates a container leaves one, which ends after a day.
func (n *node) snapshots() error {
	ids, err := n.ctr("leases", "list", "-q")
	if err != nil {
		return err
	}
	for id := range strings.FieldsSeq(ids) {
		if _, err := n.ctr("leases", "delete", "--sync", id); err != nil {
			return err
		}
	}
	out, err := n.ctr("snapshots", "list")
	if err != nil {
		return err
	}
	var left []error
	for line := range strings.Lines(out) {
		if strings.Contains(line, "Active") {
			left = append(left, fmt.Errorf("snapshot %s", strings.TrimSpace(line)))
		}
	}
	return errors.Join(left...)
}

// ctr runs containerd's client.
func (n *node) ctr(arguments ...string) (string, error) {
	out, err := exec.Command("ctr", append([]string{"-a", n.daemon.Socket(), "-n", "k8s.io"}, arguments...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %v: %w: %s", arguments, err, out)
	}
	return string(out), nil
}
