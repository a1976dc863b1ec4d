package autoscale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestConfig checks that the constructor refuses an empty configuration and names what is missing.
func TestConfig(t *testing.T) {
	if _, err := New(Config{}); fmt.Sprint(err) != "autoscale: Config: no Autoscalers" {
		t.Error(err)
	}
}

// world has a target with pods that share a load, and what a controller says.
type world struct {
	autoscalers *localcache.Map[*autoscalingv2.HorizontalPodAutoscaler]
	pods        *localcache.Map[*corev1.Pod]

	mu       sync.Mutex
	replicas int32
	selector string
	// load is the CPU of all pods, in thousandths.
	load int64
	// of the API, if they are not nil
	scaleError, metricError error
	conflicts               int
	events                  []string
}

func (w *world) Scale(context.Context, string, autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &autoscalingv1.Scale{
		Spec:   autoscalingv1.ScaleSpec{Replicas: w.replicas},
		Status: autoscalingv1.ScaleStatus{Replicas: w.replicas, Selector: w.selector},
	}, w.scaleError
}

func (w *world) SetScale(_ context.Context, _ autoscalingv2.CrossVersionObjectReference, scale *autoscalingv1.Scale) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conflicts > 0 {
		w.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "web", errors.New("changed"))
	}
	w.replicas = scale.Spec.Replicas
	for i := range w.replicas {
		w.pods.Put(newPod(i))
	}
	for i := w.replicas; i < 20; i++ {
		w.pods.Delete(fmt.Sprint("default/web-", i))
	}
	return nil
}

func newPod(i int32) *corev1.Pod {
	start := metav1.NewTime(time.Now().Add(-time.Hour))
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("web-", i), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &start, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: start}}},
	}
}

func (w *world) Resource(context.Context, string, labels.Selector, corev1.ResourceName, string) (map[string]Sample, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]Sample{}
	for i := range w.replicas {
		out[fmt.Sprint("web-", i)] = Sample{Time: time.Now(), Milli: w.load / int64(w.replicas)}
	}
	return out, w.metricError
}

// failure returns the error of the metrics API.
func (w *world) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.metricError
}

func (w *world) Pods(context.Context, string, labels.Selector, Metric) (map[string]Sample, error) {
	return nil, errors.New("unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered")
}

func (w *world) Object(context.Context, string, autoscalingv2.CrossVersionObjectReference, Metric) (int64, error) {
	return 30_000, w.failure()
}

func (w *world) External(context.Context, string, Metric) ([]int64, error) {
	return []int64{20_000, 30_000}, w.failure()
}

func (w *world) UpdateStatus(_ context.Context, a *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	w.autoscalers.Put(a)
	return a, nil
}

func (w *world) Event(_ runtime.Object, _, reason, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, reason+": "+message)
}

// begin starts a controller of an autoscaler between 2 and 10 replicas at 50% of CPU, in a bubble.
func begin(t *testing.T, change func(*autoscalingv2.HorizontalPodAutoscaler)) *world {
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u"}}
	a.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Thing", Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 10,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(50))},
		}}},
	}
	if change != nil {
		change(a)
	}
	w := &world{autoscalers: localcache.NewMap(a), pods: localcache.NewMap[*corev1.Pod](), selector: "app=web", load: 150, replicas: 3}
	for i := range w.replicas {
		w.pods.Put(newPod(i))
	}
	c, err := New(Config{
		Autoscalers: w.autoscalers, Pods: w.pods, PodsByNamespace: localcache.Scan(w.pods, controllers.ByNamespace[*corev1.Pod]),
		Writer: w, Scales: w, Source: w, Events: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// set changes the world while the controller runs.
func (w *world) set(change func(*world)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w)
}

// after lets time pass. What the test has read of the world may then change.
func (w *world) after(d time.Duration) {
	w.set(func(*world) {})
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) condition(of autoscalingv2.HorizontalPodAutoscalerConditionType) string {
	a, _ := w.autoscalers.Get("default/web")
	i := slices.IndexFunc(a.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == of })
	if i < 0 {
		return ""
	}
	c := a.Status.Conditions[i]
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// TestScales: the load grows and falls. Replicas at most double, and go down five minutes after the last need.
func TestScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, nil)
		w.after(14 * time.Second)
		if a, _ := w.autoscalers.Get("default/web"); len(a.Status.Conditions) != 0 {
			t.Errorf("it was looked at before the end of a period: %+v", a.Status)
		}
		w.after(2 * time.Second)
		a, _ := w.autoscalers.Get("default/web")
		if s := a.Status; s.CurrentReplicas != 3 || s.DesiredReplicas != 3 || *s.CurrentMetrics[0].Resource.Current.AverageUtilization != 50 || s.LastScaleTime != nil {
			t.Errorf("the status is %v, want 3 replicas, 3 desired ones, a utilization of 50 and no LastScaleTime", &s)
		}
		w.set(func(w *world) { w.load, w.conflicts = 1000, 3 })
		w.after(15 * time.Second)
		if w.replicas != 6 || w.condition(autoscalingv2.ScalingLimited) != "True ScaleUpLimit: "+increasesFaster ||
			w.condition(autoscalingv2.AbleToScale) != "True SucceededRescale: the HPA controller was able to update the target scale to 6" {
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.ScalingLimited))
		}
		w.after(15 * time.Second)
		if w.replicas != 10 || w.condition(autoscalingv2.ScalingLimited) != "True TooManyReplicas: "+tooMany {
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.ScalingLimited))
		}
		w.set(func(w *world) { w.load = 60 })
		w.after(280 * time.Second)
		if w.replicas != 10 || w.condition(autoscalingv2.AbleToScale) != "True ScaleDownStabilized: "+recentlyHigher {
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.AbleToScale))
		}
		w.after(45 * time.Second)
		if w.replicas != 2 || w.condition(autoscalingv2.ScalingActive) != "True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)" {
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.ScalingActive))
		}
		want := []string{
			"SuccessfulRescale: New size: 6; reason: cpu resource utilization (percentage of request) above target",
			"SuccessfulRescale: New size: 10; reason: cpu resource utilization (percentage of request) above target",
			"SuccessfulRescale: New size: 2; reason: All metrics below target",
		}
		if !slices.Equal(w.events, want) {
			t.Errorf("events\n%s", strings.Join(w.events, "\n"))
		}
	})
}

// TestBehavior: policies and windows bound each change, in both directions.
func TestBehavior(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, func(a *autoscalingv2.HorizontalPodAutoscaler) {
			rules := func(window int32) *autoscalingv2.HPAScalingRules {
				return &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: &window, SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
					Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 1, PeriodSeconds: 40}}}
			}
			a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(0), ScaleDown: rules(0)}
		})
		w.set(func(w *world) { w.load = 1000 })
		w.after(16 * time.Second)
		if w.replicas != 4 || w.condition(autoscalingv2.ScalingLimited) != "True ScaleUpLimit: "+increasesFaster {
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.ScalingLimited))
		}
		w.after(30 * time.Second)
		if w.replicas != 4 {
			t.Errorf("%d replicas within the period", w.replicas)
		}
		w.after(15 * time.Second)
		if w.replicas != 5 {
			t.Errorf("%d replicas after the period", w.replicas)
		}
		w.set(func(w *world) { w.load = 10 })
		w.after(15 * time.Second)
		if w.replicas != 3 || w.condition(autoscalingv2.ScalingLimited) != "True ScaleDownLimit: "+decreasesFaster { // one fewer than the four at the start of the period
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.ScalingLimited))
		}
		w.after(10 * time.Minute)
		if w.replicas != 2 || w.condition(autoscalingv2.ScalingLimited) != "True TooFewReplicas: "+tooFew {
			t.Errorf("%d replicas; %s", w.replicas, w.condition(autoscalingv2.ScalingLimited))
		}
	})
}

// TestFailures: conditions and events say why nothing is scaled, in the words of kube-controller-manager.
func TestFailures(t *testing.T) {
	const noMetric = "unable to get metric q: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered"
	pods := autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "q"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: milli(1000)}}}
	external := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "q"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: milli(10_000)}}}
	object := func(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Queue", Name: "q"}, Metric: autoscalingv2.MetricIdentifier{Name: "q"}, Target: target}}
	}
	for _, test := range []struct {
		name      string
		change    func(*autoscalingv2.HorizontalPodAutoscaler)
		set       func(*world)
		condition autoscalingv2.HorizontalPodAutoscalerConditionType
		want      string
		events    []string
		replicas  int32
	}{
		{"no scale", nil, func(w *world) { w.scaleError = errors.New("it has none") }, autoscalingv2.AbleToScale,
			"False FailedGetScale: the HPA controller was unable to get the target's current scale: it has none", []string{"FailedGetScale: it has none"}, 3},
		{"no selector", nil, func(w *world) { w.selector = "" }, autoscalingv2.ScalingActive,
			"False InvalidSelector: the HPA target's scale is missing a selector",
			[]string{"SelectorRequired: selector is required", "FailedComputeMetricsReplicas: selector is required"}, 3},
		{"broken selector", nil, func(w *world) { w.selector = "(" }, autoscalingv2.ScalingActive,
			"False InvalidSelector: couldn't convert selector into a corresponding internal selector object: found '(', expected: !, identifier, or 'end of string'", nil, 3},
		{"metrics API", nil, func(w *world) { w.metricError = errors.New("unable to fetch") }, autoscalingv2.ScalingActive,
			"False FailedGetResourceMetric: the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch",
			[]string{"FailedGetResourceMetric: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch",
				"FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch"}, 3},
		{"disabled", nil, func(w *world) { w.replicas = 0 }, autoscalingv2.ScalingActive, "False ScalingDisabled: scaling is disabled since the replica count of the target is zero", nil, 0},
		{"too many", nil, func(w *world) { w.replicas = 12 }, autoscalingv2.AbleToScale, "True SucceededRescale: the HPA controller was able to update the target scale to 10",
			[]string{"SuccessfulRescale: New size: 10; reason: Current number of replicas above Spec.MaxReplicas"}, 10},
		{"custom metric", func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.Metrics[0] = pods }, nil, autoscalingv2.ScalingActive,
			"False FailedGetPodsMetric: the HPA was unable to compute the replica count: " + noMetric,
			[]string{"FailedGetPodsMetric: " + noMetric, "FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get pods metric value: " + noMetric}, 3},
		{"one of two, up", func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.Metrics = append(a.Spec.Metrics, pods) }, func(w *world) { w.load = 225 },
			autoscalingv2.ScalingActive, "True ValidMetricFound: the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)", nil, 5},
		{"one of two, down", func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.Metrics = append(a.Spec.Metrics, pods) }, func(w *world) { w.load = 3 },
			autoscalingv2.ScalingActive, "False FailedGetPodsMetric: the HPA was unable to compute the replica count: " + noMetric, nil, 3},
		{"external", func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.Metrics[0] = external }, nil, autoscalingv2.ScalingActive,
			"True ValidMetricFound: the HPA was able to successfully calculate a replica count from external metric q(nil)", nil, 5},
		{"object", func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Spec.Metrics[0] = object(autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: milli(15_000)})
		}, nil, autoscalingv2.ScalingActive, "True ValidMetricFound: the HPA was able to successfully calculate a replica count from Queue metric q", nil, 6},
		{"no external metric", func(a *autoscalingv2.HorizontalPodAutoscaler) { a.Spec.Metrics[0] = external },
			func(w *world) { w.metricError = errors.New("unable to fetch") }, autoscalingv2.ScalingActive,
			"False FailedGetExternalMetric: the HPA was unable to compute the replica count: unable to get external metric default/q/nil: unable to fetch",
			[]string{"FailedGetExternalMetric: unable to get external metric default/q/nil: unable to fetch",
				"FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get q external metric value: failed to get q external metric: " +
					"unable to get external metric default/q/nil: unable to fetch"}, 3},
		{"no metric of an object", func(a *autoscalingv2.HorizontalPodAutoscaler) {
			a.Spec.Metrics[0] = object(autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: milli(1000)})
		}, func(w *world) { w.metricError = errors.New("unable to fetch") }, autoscalingv2.ScalingActive,
			"False FailedGetObjectMetric: the HPA was unable to compute the replica count: unable to get metric q: Queue on default q/unable to fetch",
			[]string{"FailedGetObjectMetric: unable to get metric q: Queue on default q/unable to fetch",
				"FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get object metric value: failed to get q object metric: " +
					"unable to get metric q: Queue on default q/unable to fetch"}, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := begin(t, test.change)
				if test.set != nil {
					w.set(test.set)
				}
				w.after(16 * time.Second)
				if got := w.condition(test.condition); got != test.want || w.replicas != test.replicas {
					t.Errorf("%d replicas; %s\nwant %s", w.replicas, got, test.want)
				}
				if test.events != nil && !slices.Equal(w.events, test.events) {
					t.Errorf("events\n%s", strings.Join(w.events, "\n"))
				}
			})
		})
	}
}

// TestAmbiguous: two autoscalers of the same pods scale nothing, until one is gone.
func TestAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, nil)
		a, _ := w.autoscalers.Get("default/web")
		other := a.DeepCopy()
		other.Name, other.UID = "other", "o"
		w.autoscalers.Put(other)
		w.set(func(w *world) { w.load = 225 })
		w.after(31 * time.Second)
		if got := w.condition(autoscalingv2.ScalingActive); got != "False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [{other default} {web default}]" {
			t.Error(got)
		}
		w.autoscalers.Delete("default/other")
		w.set(func(w *world) { w.load = 225 })
		w.after(15 * time.Second)
		if got := w.condition(autoscalingv2.ScalingActive); !strings.HasPrefix(got, "True ") {
			t.Error(got)
		}
	})
}

// TestTolerance: an autoscaler's own tolerance replaces the controller's in the direction that it is given for.
func TestTolerance(t *testing.T) {
	rules := func(tolerance string) *autoscalingv2.HPAScalingRules {
		q := resource.MustParse(tolerance)
		return &autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32), Tolerance: &q, SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 5, PeriodSeconds: 15}},
		}
	}
	// Three replicas and a load of 150 are at the target.
	for _, test := range []struct {
		up, down string
		load     int64
		want     int32
	}{
		{"0.1", "0.1", 195, 4}, {"0.5", "0.1", 195, 3}, {"0.1", "0.5", 195, 4},
		{"0.1", "0.1", 90, 2}, {"0.5", "0.1", 90, 2}, {"0.1", "0.5", 90, 3},
		{"0", "0.1", 153, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := begin(t, func(a *autoscalingv2.HorizontalPodAutoscaler) {
				a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(test.up), ScaleDown: rules(test.down)}
			})
			w.set(func(w *world) { w.load = test.load })
			w.after(16 * time.Second)
			if w.replicas != test.want {
				t.Errorf("a load of %d with the tolerances %s up and %s down = %d replicas, want %d", test.load, test.up, test.down, w.replicas, test.want)
			}
		})
	}
}

// Example computes the replicas that bring the CPU of two pods from 80% of their requests to 50%.
func Example() {
	c := Calculation{Now: time.Now(), Current: 2, Resource: corev1.ResourceCPU, Tolerance: Tolerance{0.1, 0.1}, Samples: map[string]Sample{}}
	for i := range int32(2) {
		c.Pods = append(c.Pods, newPod(i))
		c.Samples[c.Pods[i].Name] = Sample{Time: c.Now, Milli: 80}
	}
	fmt.Println(c.Utilization(50))
	// Output: 4 80 80 <nil>
}
