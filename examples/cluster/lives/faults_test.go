//go:build linux

package lives_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/planekit/planekit/examples/cluster/machine"
)

// faults records what was done to a node.
type faults struct {
	mu sync.Mutex
	// mu guards the fields below.
	kinds map[string]int
	// pods are the UIDs of pods whose processes were killed, except by the life itself.
	pods map[string]bool
}

// add counts a fault that is about to begin.
func (f *faults) add(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kinds == nil {
		f.kinds = map[string]int{}
	}
	f.kinds[kind]++
}

// concern records that a process of a pod is about to be killed.
func (f *faults) concern(uid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods == nil {
		f.pods = map[string]bool{}
	}
	f.pods[uid] = true
}

func (f *faults) concerned(uid string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[uid]
}

func (f *faults) counts() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.kinds)
}

func (f *faults) total() (sum int) {
	for _, n := range f.counts() {
		sum += n
	}
	return sum
}

// inflict does one fault after the other, up to most or one of each kind, until ctx is done. It ends with everything
// running, and leaves pods alone then, which might not come up otherwise.
func (n *node) inflict(ctx context.Context, r *rand.Rand, most int) {
	kinds := map[string]func(*rand.Rand){
		"kubelet killed":                    func(r *rand.Rand) { n.endKubelet(syscall.SIGKILL); pause(r, 1000); n.startKubelet() },
		"kubelet stopped":                   func(r *rand.Rand) { n.endKubelet(syscall.SIGTERM); pause(r, 1000); n.startKubelet() },
		"containerd killed":                 func(r *rand.Rand) { n.killDaemon(); pause(r, 1000); n.restartDaemon() },
		"containerd killed as it starts":    n.killStartingDaemon,
		"containerd held":                   func(r *rand.Rand) { n.holdDaemon(r); n.signalDaemon(syscall.SIGCONT) },
		"containerd held and killed":        func(r *rand.Rand) { n.holdDaemon(r); n.killDaemon(); n.restartDaemon() },
		"both killed":                       n.killBoth,
		"shim killed":                       func(r *rand.Rand) { n.killShim(r) },
		"sandbox killed":                    func(r *rand.Rand) { n.killSandbox(r) },
		"shim killed without containerd":    func(r *rand.Rand) { n.killDaemon(); n.killShim(r); pause(r, 500); n.restartDaemon() },
		"sandbox killed without containerd": func(r *rand.Rand) { n.killDaemon(); n.killSandbox(r); pause(r, 500); n.restartDaemon() },
		"power cut":                         n.cutPower,
	}
	names := slices.Sorted(maps.Keys(kinds))
	var next []string
	for range max(most, len(names)) {
		if len(next) == 0 {
			next = slices.Clone(names)
			r.Shuffle(len(next), func(i, k int) { next[i], next[k] = next[k], next[i] })
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(100+r.IntN(900)) * time.Millisecond):
		}
		n.logf("fault: %s", next[0])
		n.faults.add(next[0])
		kinds[next[0]](r)
		next = next[1:]
	}
}

// pause is how long a fault lasts: a random time, so that faults meet pods in every state. It waits for no event.
func pause(r *rand.Rand, milliseconds int) {
	time.Sleep(time.Duration(r.IntN(milliseconds)) * time.Millisecond)
}

// killDaemon kills containerd and waits until it has ended.
func (n *node) killDaemon() { n.killAll("containerd", n.daemonPIDs) }

// killAll kills the processes that find returns until there are none: a process may start others while it is killed.
func (n *node) killAll(what string, find func() []int) {
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		pids := find()
		if len(pids) == 0 {
			return
		}
		if time.Now().After(deadline) {
			n.t.Errorf("kill %s: the processes %v are there %v after the first SIGKILL", what, pids, patience)
			return
		}
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// holdDaemon stops containerd, which then takes calls and does not answer them, and waits for some time.
func (n *node) holdDaemon(r *rand.Rand) {
	n.signalDaemon(syscall.SIGSTOP)
	pause(r, 3000)
}

func (n *node) signalDaemon(signal syscall.Signal) {
	for _, pid := range n.daemonPIDs() {
		syscall.Kill(pid, signal)
	}
}

// killStartingDaemon kills containerd, and again while it starts.
func (n *node) killStartingDaemon(r *rand.Rand) {
	n.killDaemon()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- n.daemon.Start(ctx) }()
	pause(r, 600)
	n.killDaemon()
	n.logf("containerd was killed as it started: %v", <-started)
	n.restartDaemon()
}

// killBoth kills the kubelet and containerd, and starts them in either order.
func (n *node) killBoth(r *rand.Rand) {
	n.endKubelet(syscall.SIGKILL)
	n.killDaemon()
	pause(r, 1000)
	if one(r, 2) {
		n.startKubelet()
		pause(r, 1000)
	}
	n.restartDaemon()
	n.startKubelet()
}

// victim returns a random sandbox of a pod that no fault has concerned yet.
func (n *node) victim(r *rand.Rand) (id string, shim int, ok bool) {
	shims := n.shims()
	ids := slices.Sorted(maps.Keys(shims))
	r.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	for _, id := range ids {
		if uid, ok := n.podOf(id); ok && !n.faults.concerned(uid) {
			n.faults.concern(uid)
			return id, shims[id], true
		}
	}
	return "", 0, false
}

func (n *node) killShim(r *rand.Rand) {
	if id, shim, ok := n.victim(r); ok {
		n.logf("killing the shim of %s, process %d", id, shim)
		syscall.Kill(shim, syscall.SIGKILL)
	}
}

func (n *node) killSandbox(r *rand.Rand) {
	id, _, ok := n.victim(r)
	if !ok {
		return
	}
	if p, err := n.processOf(id); err == nil {
		n.logf("killing the process of %s, %d", id, p.pid)
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// cutPower kills everything. Mounts and files stay.
func (n *node) cutPower(r *rand.Rand) {
	n.endKubelet(syscall.SIGKILL)
	n.killDaemon()
	bundles, _ := filepath.Glob(n.bundle("*")) // the pattern is well formed
	for _, bundle := range bundles {
		if uid, ok := n.podOf(filepath.Base(bundle)); ok {
			n.faults.concern(uid)
		}
	}
	n.killAll("the pods and shims", func() []int {
		return slices.AppendSeq(machine.Processes(n.cgroup), maps.Values(n.shims()))
	})
	pause(r, 500)
	n.restartDaemon()
	n.startKubelet()
}
