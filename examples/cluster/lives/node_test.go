//go:build linux

package lives_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/cni/chain"
	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/kubelet/cri"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

const (
	// patience is how long a test waits for what must come.
	patience = 3 * time.Minute
	// lookEvery is how often it looks.
	lookEvery = 100 * time.Millisecond
)

// node is a control plane with one node: a containerd, and a kubelet in a process of its own.
type node struct {
	t     *testing.T
	plane *planetest.Plane
	// dir has everything but what is in /run.
	dir    string
	cgroup string
	daemon *containerd.Daemon
	// environment is the kubelet's.
	environment []string
	network     chain.Network
	faults      faults

	mu sync.Mutex
	// mu guards the fields below.
	kubelet *exec.Cmd     // nil if none runs
	started *os.File      // closed by it once it handles signals
	exited  chan struct{} // closed when it has ended
	stopped bool
}

// newNode starts a node whose images come from a registry at address.
func newNode(t *testing.T, address string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "lives")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the node's files are in %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	id := newID()
	n := &node{t: t, dir: dir, cgroup: machine.Cgroup(id)}
	pods := n.reserve(id)
	n.plane = planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.Log, c.PodCIDR = logr.Discard(), pods
	}))
	n.startDaemon(id, address, pods)
	pair, err := n.plane.Credentials.Authority.Client("node", user.NodePrefix+nodeName, user.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "kubeconfig")
	if err := n.plane.Credentials.KubeconfigOf(n.plane.URL(), pair).Write(config); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(settings{Kubeconfig: config, Dir: dir, Socket: n.daemon.Socket(), Cgroup: n.cgroup, Network: n.network})
	if err != nil {
		t.Fatal(err)
	}
	n.environment = append(os.Environ(), kubeletVariable+"="+string(text))
	n.startKubelet()
	return n
}

func newID() string {
	var id [4]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// reserve returns a range of addresses that nothing else on the machine uses.
func (n *node) reserve(id string) netip.Prefix {
	n.t.Helper()
	registry, err := machine.Open(machine.Dir)
	if err != nil {
		n.t.Fatal(err)
	}
	pods, err := registry.Reserve(n.t.Context(), machine.Reservation{ID: id, DataDir: n.dir})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if err := registry.Withdraw(id); err != nil {
			n.t.Error(err)
		}
	})
	return pods
}

// startDaemon starts containerd with a network of its own.
func (n *node) startDaemon(id, address string, pods netip.Prefix) {
	n.t.Helper()
	bin := filepath.Join(n.dir, "plugins")
	if err := plugins.Install(bin, build(n.t, "github.com/planekit/planekit/cni/planekit-cni", "planekit-cni")); err != nil {
		n.t.Fatal(err)
	}
	n.network = chain.Network{
		Name: "planekit-" + id, Bridge: machine.Bridge(id, 1), ClusterCIDRs: []netip.Prefix{pods}, DataDir: filepath.Join(n.dir, "network"),
	}
	var err error
	n.daemon, err = containerd.New(containerd.Config{
		Root: filepath.Join(n.dir, "containerd"), CNIConf: filepath.Join(n.dir, "net.d"), CNIBin: bin,
		SandboxImage: actorImage, Mirrors: map[string]string{registryHost: "http://" + address}, Known: cri.ListIDs,
		Log: funcr.New(func(_, line string) { n.logf("containerd: %s", line) }, funcr.Options{}),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.stop)
	if err := n.daemon.Start(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) logf(format string, args ...any) {
	n.t.Logf(time.Now().Format("15:04:05.000 ")+format, args...)
}

// startKubelet starts the kubelet in a process that ends with this one.
func (n *node) startKubelet() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kubelet != nil || n.stopped {
		return
	}
	out, err := os.OpenFile(filepath.Join(n.dir, "kubelet.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		n.t.Error(err)
		return
	}
	defer out.Close()
	command := exec.Command(os.Args[0])
	command.Env, command.Stdout, command.Stderr = n.environment, out, out
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := command.StdinPipe()
	if err != nil {
		n.t.Error(err)
		return
	}
	started, itsEnd, err := os.Pipe()
	if err != nil {
		n.t.Error(err)
		return
	}
	defer itsEnd.Close()
	command.ExtraFiles = []*os.File{itsEnd} // as startedFile
	if err := command.Start(); err != nil {
		n.t.Error(err, started.Close())
		return
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		command.Wait()
		input.Close()
	}()
	n.kubelet, n.started, n.exited = command, started, exited
}

// endKubelet sends a signal to the kubelet and waits until it has ended. It must still run.
func (n *node) endKubelet(signal syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.kubelet == nil {
		return
	}
	defer n.started.Close()
	if signal == syscall.SIGTERM { // which ends a process at once that does not handle it yet
		io.Copy(io.Discard, n.started)
	}
	select {
	case <-n.exited:
		n.t.Errorf("the kubelet has ended by itself: %v", n.kubelet.ProcessState)
	default:
		syscall.Kill(n.kubelet.Process.Pid, signal)
		<-n.exited
		if status, ok := n.kubelet.ProcessState.Sys().(syscall.WaitStatus); signal == syscall.SIGTERM && (!ok || status.ExitStatus() != 0) {
			n.t.Errorf("the kubelet did not end well: %v", n.kubelet.ProcessState)
		}
	}
	n.kubelet = nil
}

// commands returns the arguments of all processes.
func commands() map[int][]string {
	all := map[int][]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, file := range files {
		data, err := os.ReadFile(file)
		pid, bad := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && bad == nil && len(data) > 0 {
			all[pid] = strings.Split(string(bytes.TrimSuffix(data, []byte{0})), "\x00")
		}
	}
	return all
}

// daemonPIDs returns the processes of containerd itself.
func (n *node) daemonPIDs() []int {
	var pids []int
	for pid, arguments := range commands() {
		if filepath.Base(arguments[0]) == "containerd" && strings.HasPrefix(arguments[len(arguments)-1], n.dir+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// shims returns the processes between containerd and its sandboxes, by sandbox.
func (n *node) shims() map[string]int {
	pids := map[string]int{}
	for pid, arguments := range commands() {
		if !strings.HasPrefix(filepath.Base(arguments[0]), "containerd-shim") {
			continue
		}
		mine, id := false, ""
		for i := 1; i+1 < len(arguments); i++ {
			mine = mine || arguments[i] == "-address" && arguments[i+1] == n.daemon.Socket()
			if arguments[i] == "-id" {
				id = arguments[i+1]
			}
		}
		if mine {
			pids[id] = pid
		}
	}
	return pids
}

// restartDaemon starts containerd again.
func (n *node) restartDaemon() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.daemon.Start(ctx); err != nil {
		n.t.Errorf("start containerd again: %v", err)
	}
}

// stop ends everything.
func (n *node) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	n.endKubelet(syscall.SIGTERM)
	n.mu.Lock()
	before := n.stopped
	n.stopped = true
	n.mu.Unlock()
	if before {
		return
	}
	if err := errors.Join(n.daemon.Stop(ctx), n.network.Remove(ctx), machine.RemoveCgroups(ctx, n.cgroup)); err != nil {
		n.t.Error(err)
	}
	if n.t.Failed() {
		n.unmount()
		for _, file := range []string{"kubelet.log", "containerd/containerd.log"} {
			text, _ := os.ReadFile(filepath.Join(n.dir, file))
			n.t.Logf("%s ends with:\n%s", file, text[max(0, len(text)-6000):])
		}
	}
}

// unmount unmounts the volumes that are left of pods, the last mounted first.
func (n *node) unmount() {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		n.t.Error(err)
	}
	for _, line := range slices.Backward(strings.Split(string(mounts), "\n")) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], n.dir+"/") {
			syscall.Unmount(fields[1], syscall.MNT_DETACH)
		}
	}
}
