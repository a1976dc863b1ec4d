package planetest_test

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

var (
	hollowNodes = flag.Int("hollow-nodes", 20, "the number of nodes of TestHollow")
	hollowPods  = flag.Int("hollow-pods", 10, "the number of pods for each of these nodes")
	hollowIdle  = flag.Duration("hollow-idle", 0, "how long TestHollow measures the processor time of idle nodes, after waiting as long")
)

// maxHollowGoroutines limits the goroutines of a node and its pods, with a share of the control plane:
// there are 84 on 20 nodes, and 53 on 1000.
const maxHollowGoroutines = 150

// TestHollow runs many nodes with pods in one process, and says what they take. Their pods have no
// volumes: that of a token is a mount on the machine when the test runs as root.
func TestHollow(t *testing.T) {
	planetest.Start(t) // what all planes of a process share is not counted
	goroutines, heap := runtime.NumGoroutine(), inUse()
	begun := time.Now()
	p := planetest.Start(t, planetest.Nodes(*hollowNodes), planetest.With(func(c *plane.Config) {
		c.Log = logr.Discard()
		c.PodCIDR = netip.MustParsePrefix("10.128.0.0/12") // with ranges for 4096 nodes
	}))
	ready := time.Since(begun)

	begun = time.Now()
	total := *hollowNodes * *hollowPods
	var creating errgroup.Group
	creating.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i := range total {
		creating.Go(func() error {
			off := false
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name, pod.Labels = "default", fmt.Sprintf("pod-%d", i), map[string]string{"app": "web"}
			pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "nginx"}}
			pod.Spec.AutomountServiceAccountToken = &off
			_, err := typed.Pods(p.Client()).Create(t.Context(), pod)
			return err
		})
	}
	if err := creating.Wait(); err != nil {
		t.Fatal(err)
	}
	created := time.Since(begun)
	perNode := awaitRunning(t, p, total)
	running := time.Since(begun)
	for node, count := range perNode {
		if count > 2**hollowPods {
			t.Errorf("%s has %d pods", node, count)
		}
	}
	each := (runtime.NumGoroutine() - goroutines) / *hollowNodes
	if each > maxHollowGoroutines {
		t.Errorf("a node has %d goroutines, want at most %d", each, maxHollowGoroutines)
	}
	t.Logf("%d nodes are ready after %v, %d pods created after %v and running after %v", *hollowNodes, ready, total, created, running)
	t.Logf("%d KiB of live objects and stacks a node, %d MiB of memory in all, %d goroutines a node", (inUse()-heap)/int64(*hollowNodes)>>10, resident()>>20, each)
	if *hollowIdle > 0 {
		time.Sleep(*hollowIdle) // the last statuses are written
		before := used.Processor()
		time.Sleep(*hollowIdle)
		t.Logf("idle: %.1f %% of one processor", 100*(used.Processor()-before).Seconds()/hollowIdle.Seconds())
	}
}

// awaitRunning waits until so many pods run, and returns how many each node has.
func awaitRunning(t *testing.T, p *planetest.Plane, total int) map[string]int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute + time.Duration(total)*20*time.Millisecond); ; time.Sleep(50 * time.Millisecond) {
		running, perNode := 0, map[string]int{}
		for pod := range p.Caches.Pods.All() {
			if pod.Status.Phase == corev1.PodRunning {
				running++
				perNode[pod.Spec.NodeName]++
			}
		}
		if running == total {
			return perNode
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d pods run", running, total)
		}
	}
}

// resident returns the bytes of this process that are in memory; 0 where that is not known.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	var kib int64
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
