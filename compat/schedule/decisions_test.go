package schedule_test

import (
	"context"
	"errors"
	"flag"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/policy"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/volumebinding"
	"github.com/planekit/planekit/schedule/volumes"
	"github.com/planekit/planekit/schedule/workload"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

var (
	clusters = flag.Int("clusters", 100, "how many random clusters are compared")
	seed     = flag.Uint64("seed", 0, "the seed of the first one; 0 is another one each time")
)

// podsPerCluster counts the pods that are decided about in each cluster.
const podsPerCluster = 50

// seeds yields the seeds of the clusters.
func seeds(t *testing.T) iter.Seq[uint64] {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 32)
	}
	t.Logf("seed %d", first)
	return func(yield func(uint64) bool) {
		for n := range uint64(*clusters) {
			if !yield(first + n) {
				return
			}
		}
	}
}

// TestDecisions decides about random pods in random clusters as the stock kube-scheduler does: each node
// is refused by the same plugin for the same reasons, and has the same score by each priority.
func TestDecisions(t *testing.T) {
	refused, scored := map[string]bool{}, map[string]bool{} // by what
	for seed := range seeds(t) {
		w := randomcluster.New(seed)
		theirs, ours := newStock(t, w), newOurs(t, w)
		for range podsPerCluster {
			pod := w.Pod()
			want, got := theirs.judge(t, pod), judge(ours, pod)
			for node := range want {
				refused[want[node].predicate] = true
				for name, score := range want[node].scores {
					scored[name] = scored[name] || score > 0
				}
				if !reflect.DeepEqual(want[node], got[node]) {
					t.Fatalf("cluster %d, %s: %s is\n%+v, but for kube-scheduler\n%+v", seed, pod.Name, node, got[node], want[node])
				}
			}
			if len(got) != len(want) {
				t.Fatalf("cluster %d: %d nodes of %d", seed, len(got), len(want))
			}
			if node, err := ours.Decide(schedule.NewPodInfo(pod)); err == nil && want[node].total != best(want) {
				t.Fatalf("cluster %d, %s: chose %s", seed, pod.Name, node)
			}
		}
	}
	for predicate, priority := range compared {
		if predicate != names.NodeName && !refused[predicate] && priority == "" || priority != "" && !scored[priority] {
			t.Errorf("%s decided nothing", predicate)
		}
	}
	for _, predicate := range []string{names.TaintToleration, names.NodeAffinity, names.NodeResourcesFit, names.PodTopologySpread, names.InterPodAffinity} {
		if !refused[predicate] {
			t.Errorf("%s refused nothing", predicate)
		}
	}
}

// best returns the highest total of the nodes that fit.
func best(all map[string]verdict) int64 {
	var most int64
	for _, v := range all {
		most = max(most, v.total)
	}
	return most
}

func newOurs(t *testing.T, w *randomcluster.Cluster) *schedule.State {
	t.Helper()
	defaults := spreadDefaults(t, w)
	list := append(volumePredicates(t, w), predicates.DefaultSpreading(defaults)...)
	s := schedule.NewState(list, priorities.DefaultSpreading(defaults), 1)
	for _, n := range w.Namespaces {
		s.SetNamespace(n)
	}
	for _, n := range w.Nodes {
		s.SetNode(n)
	}
	for _, p := range w.Pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	return s
}

// spreadDefaults spreads the pods of services and replica sets.
func spreadDefaults(t *testing.T, w *randomcluster.Cluster) schedule.SpreadDefaults {
	t.Helper()
	services := localcache.NewMap(w.Services...)
	together, err := workload.New(workload.Config{
		ServicesByNamespace: localcache.Scan(services, func(s *corev1.Service) []string { return []string{s.Namespace} }),
		ReplicaSets:         localcache.NewMap[*appsv1.ReplicaSet](w.ReplicaSets...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return schedule.SpreadDefaults{Selector: together.Selector}
}

// volumePredicates returns the predicates about volumes, in the order of kube-scheduler.
func volumePredicates(t *testing.T, w *randomcluster.Cluster) []schedule.Predicate {
	t.Helper()
	claims, persistent, classes := localcache.NewMap(w.Claims...), localcache.NewMap(w.Volumes...), localcache.NewMap(w.Classes...)
	attachments := localcache.NewMap(w.Attachments...)
	checks, err := volumes.New(volumes.Config{
		Claims: claims, Volumes: persistent, Classes: classes, CSINodes: localcache.NewMap(w.CSINodes...), Attachments: attachments,
		AttachmentsByNode: localcache.Scan(attachments, func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} }),
	})
	if err != nil {
		t.Fatal(err)
	}
	binder, err := volumebinding.New(volumebinding.Config{
		Nodes: localcache.NewMap(w.Nodes...), Claims: claims, Volumes: persistent, Classes: classes,
		Update: func(context.Context, *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
			return nil, errors.New("a decision writes nothing")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return []schedule.Predicate{checks.Restrictions(), checks.Limits(), binder, checks.Zone()}
}

// volumeParts returns the parts of profiles that need caches.
func volumeParts(t *testing.T, w *randomcluster.Cluster) policy.Parts {
	t.Helper()
	list := volumePredicates(t, w)
	return policy.Parts{
		Restrictions: list[0], Limits: list[1], Volumes: list[2].(policy.VolumeBinder), Zone: list[3], Together: spreadDefaults(t, w).Selector,
	}
}

func judge(s *schedule.State, pod *corev1.Pod) map[string]verdict {
	found := map[string]verdict{}
	all := priorities.Default()
	for _, n := range s.Explain(schedule.NewPodInfo(pod)) {
		v := verdict{predicate: n.Predicate, reasons: n.Verdict.Reasons, lasting: n.Verdict.Lasting || n.Verdict.All, total: n.Total}
		if n.Scores != nil {
			v.scores = map[string]int64{}
		}
		for i, score := range n.Scores {
			v.scores[all[i].Name()] = score * all[i].Weight
		}
		found[n.Node] = v
	}
	return found
}

// TestComparedPlugins keeps the list of plugins true: each predicate and priority has one.
func TestComparedPlugins(t *testing.T) {
	var have []string
	for _, p := range append(volumePredicates(t, randomcluster.New(1)), predicates.Default()...) {
		have = append(have, p.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(compared)) {
		if !slices.Contains(have, name) && !slices.ContainsFunc(priorities.Default(), func(w schedule.Weighted) bool { return w.Name() == compared[name] }) {
			t.Errorf("nothing is called %s", name)
		}
	}
}
