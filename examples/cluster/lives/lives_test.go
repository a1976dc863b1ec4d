//go:build linux

package lives_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/containerd"
	"github.com/planekit/planekit/examples/cluster/machine"
)

var (
	count  = flag.Int("lives", 6, "how many pods live")
	seed   = flag.Uint64("seed", 1, "the seed of pods and faults")
	atOnce = flag.Int("at-once", 10, "how many pods live at the same time")
	within = flag.Duration("within", 0, "begin no round after this time; 0 means no limit")
)

// After roundSize lives, or as many as live at once, the node is left alone until it is empty.
const roundSize = 20

// TestLives lets pods live on a node, parts of which are killed all the time: the kubelet,
// containerd, a shim, the process of a sandbox, or all of them. What a fault does not concern keeps
// its processes and its counts, and of a pod that was deleted nothing is left. Everything random
// follows from the seed, except for the time that things take.
func TestLives(t *testing.T) {
	if err := containerd.Available(); err != nil {
		t.Skip(err)
	}
	t.Logf("-lives %d -seed %d", *count, *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	n := newNode(t, startRegistry(t))
	hostPath := n.createObjects()
	start := time.Now()
	passed := 0
	for passed < *count && (*within == 0 || time.Since(start) < *within) {
		size := min(max(roundSize, *atOnce), *count-passed)
		var plans []*plan
		for i := range size {
			plans = append(plans, newPlan(r, fmt.Sprintf("life-%d", passed+i), hostPath))
		}
		n.round(plans, rand.New(rand.NewPCG(*seed, uint64(passed)+1)))
		if err := n.empty(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Fatalf("a life of the round after %d failed", passed)
		}
		passed += size
		n.logf("%d lives passed; faults so far: %v", passed, n.faults.counts())
	}
	n.stop()
	if err := n.removed(); err != nil {
		t.Error(err)
	}
	t.Logf("%d lives passed with seed %d in %v; faults: %v", passed, *seed, time.Since(start).Round(time.Second), n.faults.counts())
}

// round lets pods live amid faults.
func (n *node) round(plans []*plan, r *rand.Rand) {
	ctx, cancel := context.WithCancel(n.t.Context())
	var faults sync.WaitGroup
	faults.Go(func() { n.inflict(ctx, r, len(plans)) })
	var lives sync.WaitGroup
	places := make(chan struct{}, *atOnce)
	for _, p := range plans {
		places <- struct{}{}
		lives.Go(func() {
			defer func() { <-places }()
			if err := n.live(p); err != nil {
				n.t.Errorf("%v\n%v", p, err)
			}
		})
	}
	lives.Wait()
	cancel()
	faults.Wait()
}

// empty waits until nothing is left of any pod. A containerd that was killed as it made a sandbox may
// leave a shim that the next one neither uses nor knows; it is removed when containerd starts again.
func (n *node) empty() error {
	ctx, cancel := context.WithTimeout(n.t.Context(), 30*time.Second)
	defer cancel()
	err := eventually(ctx, n.leftovers)
	if err == nil {
		return nil
	}
	n.logf("left until containerd starts again: %v", err)
	n.killDaemon()
	n.restartDaemon()
	if err := eventually(n.t.Context(), n.leftovers); err != nil {
		return fmt.Errorf("something is left of pods: %w", err)
	}
	return nil
}

// removed returns an error that names what is left of a node that has been stopped.
func (n *node) removed() error {
	var left []error
	if _, err := net.InterfaceByName(n.network.Bridge); err == nil {
		left = append(left, fmt.Errorf("the bridge %s", n.network.Bridge))
	}
	left = append(left, n.mappedPorts())
	for _, pid := range machine.Processes(n.cgroup) {
		left = append(left, fmt.Errorf("process %d", pid))
	}
	return errors.Join(left...)
}

// createObjects creates what the volumes of pods refer to, and returns the directory of hostPath
// volumes.
func (n *node) createObjects() (hostPath string) {
	n.t.Helper()
	hostPath = filepath.Join(n.t.TempDir(), "host")
	api := n.plane.Client()
	_, conf := typed.ConfigMaps(api).Create(n.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: configName}, Data: map[string]string{"a.conf": "a"},
	})
	_, secret := typed.Secrets(api).Create(n.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secretName}, StringData: map[string]string{"password": "p"},
	})
	err := errors.Join(conf, secret, os.Mkdir(hostPath, 0o755), os.WriteFile(filepath.Join(hostPath, "mark"), []byte("m"), 0o600))
	if err != nil {
		n.t.Fatal(err)
	}
	return hostPath
}
