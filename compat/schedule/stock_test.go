package schedule_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// compared are the plugins that planekit has, with the name of the score where it is another one.
var compared = map[string]string{
	names.NodeUnschedulable: "", names.NodeName: "", names.NodePorts: "",
	names.TaintToleration: names.TaintToleration, names.NodeAffinity: names.NodeAffinity,
	names.NodeResourcesFit: "LeastAllocated", names.PodTopologySpread: names.PodTopologySpread,
	names.InterPodAffinity: names.InterPodAffinity, names.NodeResourcesBalancedAllocation: names.NodeResourcesBalancedAllocation,
	names.ImageLocality:      names.ImageLocality,
	names.VolumeRestrictions: "", names.NodeVolumeLimits: "", names.VolumeBinding: "", names.VolumeZone: "",
}

// stock is the kube-scheduler's framework over a fixed cluster.
type stock struct {
	framework framework.Framework
	preempts  *defaultpreemption.DefaultPreemption
	nodes     []fwk.NodeInfo
}

func newStock(t *testing.T, w *randomcluster.Cluster) *stock {
	t.Helper()
	return newStockOf(t, w, stockProfile(t))
}

// newStockOf returns the framework of a profile.
func newStockOf(t *testing.T, w *randomcluster.Cluster, profile config.KubeSchedulerProfile) *stock {
	t.Helper()
	metrics.Register()
	snapshot := schedulercache.NewSnapshot(w.Pods, w.Nodes)
	api := fake.NewClientset(objects(w)...)
	factory := informers.NewSharedInformerFactory(api, 0)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	f, err := frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), &profile,
		frameworkruntime.WithPodNominator(noNominations{}), frameworkruntime.WithSnapshotSharedLister(snapshot), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithClientSet(api),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
	if err != nil {
		t.Fatal(err)
	}
	var arguments runtime.Object
	for _, c := range profile.PluginConfig {
		if c.Name == names.DefaultPreemption {
			arguments = c.Args
		}
	}
	preempts, err := defaultpreemption.New(ctx, arguments, f, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	nodes, err := snapshot.NodeInfos().List()
	if err != nil {
		t.Fatal(err)
	}
	return &stock{f, preempts, nodes}
}

// stockProfile returns the default profile without the plugins that planekit does not have.
func stockProfile(t *testing.T) config.KubeSchedulerProfile {
	t.Helper()
	defaults, err := latest.Default()
	if err != nil {
		t.Fatal(err)
	}
	profile := defaults.Profiles[0]
	kept := append(slices.Collect(maps.Keys(compared)), names.PrioritySort, names.DefaultBinder)
	profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled, func(p config.Plugin) bool {
		return !slices.Contains(kept, p.Name)
	})
	return profile
}

// objects returns what plugins read from the API.
func objects(w *randomcluster.Cluster) (list []runtime.Object) {
	list = added(list, w.Namespaces)
	list = added(list, w.Services)
	list = added(list, w.ReplicaSets)
	list = added(list, w.Claims)
	list = added(list, w.Volumes)
	list = added(list, w.Classes)
	list = added(list, w.CSINodes)
	return added(list, w.Attachments)
}

func added[T runtime.Object](list []runtime.Object, more []T) []runtime.Object {
	for _, o := range more {
		list = append(list, o)
	}
	return list
}

// verdict holds the decision of a scheduler about one node.
type verdict struct {
	predicate string
	lasting   bool // whatever other pods there are
	reasons   []string
	scores    map[string]int64
	total     int64
}

// judge returns the verdict about each node.
func (s *stock) judge(t *testing.T, pod *corev1.Pod) map[string]verdict {
	t.Helper()
	state := framework.NewCycleState()
	found := map[string]verdict{}
	if _, status, _ := s.framework.RunPreFilterPlugins(t.Context(), state, pod); status.IsRejected() {
		for _, n := range s.nodes {
			found[n.Node().Name] = verdict{predicate: status.Plugin(), reasons: status.Reasons(), lasting: true}
		}
		return found
	} else if !status.IsSuccess() {
		t.Fatal(status)
	}
	var fit []fwk.NodeInfo
	for _, n := range s.nodes {
		if status := s.framework.RunFilterPlugins(t.Context(), state, pod, n); !status.IsSuccess() {
			found[n.Node().Name] = verdict{predicate: status.Plugin(), reasons: status.Reasons(), lasting: status.Code() == fwk.UnschedulableAndUnresolvable}
		} else {
			found[n.Node().Name] = verdict{}
			fit = append(fit, n)
		}
	}
	if len(fit) < 2 {
		return found
	}
	if status := s.framework.RunPreScorePlugins(t.Context(), state, pod, fit); !status.IsSuccess() {
		t.Fatal(status)
	}
	scores, status := s.framework.RunScorePlugins(t.Context(), state, pod, fit)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, n := range scores {
		v := verdict{scores: map[string]int64{}, total: n.TotalScore}
		for _, name := range compared { // those that are skipped have no score
			if name != "" {
				v.scores[name] = 0
			}
		}
		for _, score := range n.Scores {
			v.scores[compared[score.Name]] = score.Score // weighted
		}
		found[n.Name] = v
	}
	return found
}

// noNominations knows no pod that waits for victims to end.
type noNominations struct{ fwk.PodNominator }

func (noNominations) NominatedPodsForNode(string) []fwk.PodInfo { return nil }
