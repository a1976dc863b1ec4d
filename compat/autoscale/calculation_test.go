package autoscale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/planekit/planekit/reconcile/controllers/autoscale"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
)

// fixed is a client of metrics that has those of a calculation.
type fixed struct {
	metrics.MetricsClient
	samples map[string]autoscale.Sample
}

func (f fixed) GetResourceMetric(context.Context, corev1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	out := metrics.PodMetricsInfo{}
	for name, s := range f.samples {
		out[name] = metrics.PodMetric{Timestamp: s.Time, Window: s.Window, Value: s.Milli}
	}
	return out, time.Time{}, nil
}

func (f fixed) GetRawMetric(name, namespace string, selector, _ labels.Selector) (metrics.PodMetricsInfo, time.Time, error) {
	return f.GetResourceMetric(context.Background(), "", namespace, selector, "")
}

// tolerances returns upstream's form of t, whose fields are not exported.
func tolerances(t autoscale.Tolerance) podautoscaler.Tolerances {
	var out podautoscaler.Tolerances
	for name, value := range map[string]float64{"scaleDown": t.Down, "scaleUp": t.Up} {
		field := reflect.ValueOf(&out).Elem().FieldByName(name)
		*(*float64)(unsafe.Pointer(field.UnsafeAddr())) = value
	}
	return out
}

// TestCalculation compares ten thousand random calculations of each sort.
func TestCalculation(t *testing.T) {
	seed := rand.Uint64()
	synctest.Test(t, func(t *testing.T) { // upstream reads the clock
		changed := 0
		for i := range uint64(10_000) {
			r := rand.New(rand.NewPCG(seed, i))
			c := random(r)
			for _, ask := range []func(*rand.Rand, autoscale.Calculation, *podautoscaler.ReplicaCalculator) (ours, theirs string, replicas int32){utilization, average, metric} {
				ours, theirs, replicas := ask(r, c, upstream(t, c))
				if ours != theirs {
					t.Fatalf("seed %d, calculation %d: %s, want %s", seed, i, ours, theirs)
				}
				if replicas != c.Current && replicas != 0 {
					changed++
				}
			}
		}
		if changed < 5000 {
			t.Errorf("only %d calculations ask for a change", changed)
		}
	})
}

func upstream(t *testing.T, c autoscale.Calculation) *podautoscaler.ReplicaCalculator {
	index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, pod := range c.Pods {
		if err := index.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return podautoscaler.NewReplicaCalculator(fixed{samples: c.Samples}, corelisters.NewPodLister(index), c.Initialization, c.ReadinessDelay)
}

func utilization(r *rand.Rand, c autoscale.Calculation, up *podautoscaler.ReplicaCalculator) (ours, theirs string, replicas int32) {
	target := 1 + r.Int32N(150)
	n, percent, average, err := c.Utilization(target)
	wantN, wantPercent, wantAverage, _, wantErr := up.GetResourceReplicas(context.Background(), c.Current, target, c.Resource, tolerances(c.Tolerance), "default", labels.Everything(), c.Container)
	return text(n, percent, average, err), text(wantN, wantPercent, wantAverage, wantErr), n
}

func average(r *rand.Rand, c autoscale.Calculation, up *podautoscaler.ReplicaCalculator) (ours, theirs string, replicas int32) {
	target := 1 + r.Int64N(300)
	n, average, err := c.Average(target)
	wantN, wantAverage, _, wantErr := up.GetRawResourceReplicas(context.Background(), c.Current, target, c.Resource, tolerances(c.Tolerance), "default", labels.Everything(), c.Container)
	return text(n, 0, average, err), text(wantN, 0, wantAverage, wantErr), n
}

func metric(r *rand.Rand, c autoscale.Calculation, up *podautoscaler.ReplicaCalculator) (ours, theirs string, replicas int32) {
	target := 1 + r.Int64N(300)
	c.Resource, c.Container = "", ""
	n, average, err := c.Average(target)
	wantN, wantAverage, _, wantErr := up.GetMetricReplicas(c.Current, target, "q", tolerances(c.Tolerance), "default", labels.Everything(), labels.Everything())
	return text(n, 0, average, err), text(wantN, 0, wantAverage, wantErr), n
}

// text is an answer. Of an error only its words matter, and which of several pods it names depends on the order of a map.
func text(replicas, percent int32, average int64, err error) string {
	if err != nil {
		words := err.Error()
		if strings.HasPrefix(words, "missing ") {
			words = "missing"
		}
		return "error: " + words
	}
	return fmt.Sprintf("%d replicas, %d%%, average %d", replicas, percent, average)
}

// random returns a calculation with pods of all sorts.
func random(r *rand.Rand) autoscale.Calculation {
	now := time.Now()
	ago := func() time.Time { return now.Add(-time.Duration(r.IntN(600)) * time.Second) }
	c := autoscale.Calculation{
		Now: now, Current: 1 + r.Int32N(12), Samples: map[string]autoscale.Sample{}, Resource: corev1.ResourceCPU,
		Tolerance:      autoscale.Tolerance{Down: r.Float64() / 3, Up: r.Float64() / 3},
		Initialization: time.Duration(r.IntN(400)) * time.Second, ReadinessDelay: time.Duration(r.IntN(60)) * time.Second,
	}
	if r.IntN(3) == 0 {
		c.Resource = corev1.ResourceMemory
	}
	if r.IntN(4) == 0 {
		c.Container = "a"
	}
	strange := r.IntN(3) == 0 // most sets of pods are healthy
	for i := range r.IntN(12) {
		pod := randomPod(r, fmt.Sprint("p", i), ago, strange)
		c.Pods = append(c.Pods, pod)
		if !strange || r.IntN(8) > 0 {
			c.Samples[pod.Name] = autoscale.Sample{Time: ago(), Window: time.Duration(r.IntN(90)) * time.Second, Milli: r.Int64N(300)}
		}
	}
	if strange && r.IntN(5) == 0 {
		c.Samples["gone"] = autoscale.Sample{Time: ago(), Milli: r.Int64N(300)}
	}
	return c
}

func randomPod(r *rand.Rand, name string, ago func() time.Time, strange bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	list := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if !strange || r.IntN(60) > 0 {
				out[name] = *resource.NewMilliQuantity(r.Int64N(200), resource.DecimalSI)
			}
		}
		return out
	}
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list()}}
	}
	pod.Spec.Containers = []corev1.Container{container("a"), container("b")}
	if r.IntN(3) == 0 {
		pod.Spec.InitContainers = []corev1.Container{container("once"), container("side")}
		pod.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	}
	if strange && r.IntN(6) == 0 {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list()}
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(r.Int64N(20), resource.DecimalSI)}
	}
	pod.Status.Phase = corev1.PodRunning
	start := metav1.NewTime(ago())
	pod.Status.StartTime = &start
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(ago())}
	if strange {
		pod.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, corev1.PodSucceeded}[r.IntN(6)]
		ready.Status = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}[r.IntN(4)]
		if r.IntN(20) == 0 {
			pod.Status.StartTime = nil
		}
		if r.IntN(20) == 0 {
			pod.DeletionTimestamp = &start
		}
	}
	if !strange || r.IntN(20) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{ready}
	}
	return pod
}
