package autoscale

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
)

// A Sample is a metric of a pod, in thousandths of its unit.
type Sample struct {
	Time   time.Time
	Window time.Duration
	Milli  int64
}

// Tolerance bounds the ratios of the usage to its target that change nothing: from 1-Down to 1+Up.
type Tolerance struct{ Down, Up float64 }

func (t Tolerance) covers(ratio float64) bool { return 1-t.Down <= ratio && ratio <= 1+t.Up }

// A Calculation holds what the number of replicas follows from.
type Calculation struct {
	// Now is the current time.
	Now time.Time
	// Current is the present number of replicas in the scale of the autoscaler's target.
	Current int32
	// Pods are the pods of the target, and Samples their metrics by name. Both are left unchanged.
	Pods    []*corev1.Pod
	Samples map[string]Sample
	// Resource names the resource of Samples. It is empty for other metrics.
	Resource corev1.ResourceName
	// Container, if not empty, is the container whose usage Samples measure.
	Container string
	Tolerance Tolerance
	// A new pod's CPU counts only while the pod is ready for Initialization after it started. A pod that
	// has not been ready for ReadinessDelay after its start counts as never ready.
	Initialization, ReadinessDelay time.Duration
}

var (
	errNoPods    = errors.New("no pods returned by selector while calculating replica count")
	errNoMetrics = errors.New("did not receive metrics for targeted pods (pods might be unready)")
	errNoMatch   = errors.New("no metrics returned matched known pods")
)

// Utilization returns the replicas that bring the average usage to target percent of what the pods
// request, with the present percentage and the present average in thousandths.
func (c *Calculation) Utilization(target int32) (replicas, percent int32, average int64, err error) {
	if len(c.Pods) == 0 {
		return 0, 0, 0, errNoPods
	}
	g := c.group()
	if len(g.values) == 0 {
		return 0, 0, 0, errNoMetrics
	}
	requests, err := c.requests()
	if err != nil {
		return 0, 0, 0, err
	}
	ratio := func(values map[string]int64) (float64, int32, int64, error) {
		var used, requested, n int64
		for name, value := range values {
			if request, ok := requests[name]; ok {
				used, requested, n = used+value, requested+request, n+1
			}
		}
		if requested == 0 {
			return 0, 0, 0, errNoMatch
		}
		percent := int32(used * 100 / requested)
		return float64(percent) / float64(target), percent, used / n, nil
	}
	first, percent, average, err := ratio(g.values)
	if err != nil {
		return 0, 0, 0, err
	}
	replicas, err = c.propose(g, first, func(values map[string]int64) (float64, error) {
		again, _, _, err := ratio(values)
		return again, err
	}, func(name string) int64 { return requests[name] * int64(max(100, target)) / 100 })
	return replicas, percent, average, err
}

// Average returns the replicas that bring the average of the metric to target thousandths, with the present
// average.
func (c *Calculation) Average(target int64) (replicas int32, average int64, err error) {
	if len(c.Pods) == 0 {
		return 0, 0, errNoPods
	}
	g := c.group()
	if len(g.values) == 0 {
		return 0, 0, errNoMetrics
	}
	mean := func(values map[string]int64) int64 {
		var sum int64
		for _, value := range values {
			sum += value
		}
		return sum / int64(len(values))
	}
	average = mean(g.values)
	replicas, err = c.propose(g, float64(average)/float64(target), func(values map[string]int64) (float64, error) {
		return float64(mean(values)) / float64(target), nil
	}, func(string) int64 { return target })
	return replicas, average, err
}

// propose returns the number of replicas for ratio, the usage of the pods that count in units of its
// target. Pods without a sample count as idle if more replicas are due, and as using missing if
// fewer are. Pods that are not ready count as idle if more are due. If such a pod would turn the
// change round, nothing changes.
func (c *Calculation) propose(g groups, ratio float64, again func(map[string]int64) (float64, error), missing func(name string) int64) (int32, error) {
	withUnready := len(g.unready) > 0 && ratio > 1
	if !withUnready && len(g.missing) == 0 {
		if c.Tolerance.covers(ratio) {
			return c.Current, nil
		}
		return int32(math.Ceil(ratio * float64(g.ready))), nil
	}
	for _, name := range g.missing {
		switch {
		case ratio < 1:
			g.values[name] = missing(name)
		case ratio > 1:
			g.values[name] = 0
		}
	}
	if withUnready {
		for _, name := range g.unready {
			g.values[name] = 0
		}
	}
	next, err := again(g.values)
	if err != nil {
		return 0, err
	}
	if c.Tolerance.covers(next) || ratio < 1 && next > 1 || ratio > 1 && next < 1 {
		return c.Current, nil
	}
	replicas := int32(math.Ceil(next * float64(len(g.values))))
	if next < 1 && replicas > c.Current || next > 1 && replicas < c.Current {
		return c.Current, nil
	}
	return replicas, nil
}

// groups are the pods by how they count.
type groups struct {
	// values are the samples of pods that count.
	values           map[string]int64
	ready            int
	unready, missing []string
}

func (c *Calculation) group() groups {
	g := groups{values: make(map[string]int64, len(c.Samples))}
	for name, sample := range c.Samples {
		g.values[name] = sample.Milli
	}
	for _, pod := range c.Pods {
		sample, measured := c.Samples[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed:
			delete(g.values, pod.Name)
		case pod.Status.Phase == corev1.PodPending:
			g.unready = append(g.unready, pod.Name)
			delete(g.values, pod.Name)
		case !measured:
			g.missing = append(g.missing, pod.Name)
		case c.Resource == corev1.ResourceCPU && c.initializes(pod, sample):
			g.unready = append(g.unready, pod.Name)
			delete(g.values, pod.Name)
		default:
			g.ready++
		}
	}
	return g
}

// initializes reports whether the CPU of a pod says nothing yet: it may be the work of its start.
func (c *Calculation) initializes(pod *corev1.Pod, sample Sample) bool {
	i := slices.IndexFunc(pod.Status.Conditions, func(x corev1.PodCondition) bool { return x.Type == corev1.PodReady })
	if i < 0 || pod.Status.StartTime == nil {
		return true
	}
	ready, started := &pod.Status.Conditions[i], pod.Status.StartTime.Time
	if started.Add(c.Initialization).After(c.Now) {
		return ready.Status == corev1.ConditionFalse || sample.Time.Before(ready.LastTransitionTime.Add(sample.Window))
	}
	return ready.Status == corev1.ConditionFalse && started.Add(c.ReadinessDelay).After(ready.LastTransitionTime.Time)
}

// requests returns what the pods request of the resource, in thousandths.
func (c *Calculation) requests() (map[string]int64, error) {
	all := make(map[string]int64, len(c.Pods))
	for _, pod := range c.Pods {
		var err error
		if all[pod.Name], err = c.request(pod); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (c *Calculation) request(pod *corev1.Pod) (int64, error) {
	if c.Container == "" && pod.Spec.Resources != nil && hasPodLevel(pod.Spec.Resources.Requests) {
		return c.wholeRequest(pod)
	}
	containers := slices.Clone(pod.Spec.Containers)
	for _, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, container)
		}
	}
	var sum int64
	for i := range containers {
		container := &containers[i]
		if c.Container != "" && c.Container != container.Name {
			continue
		}
		amount, ok := container.Resources.Requests[c.Resource]
		if !ok {
			return 0, fmt.Errorf("missing request for %s in container %s of Pod %s", c.Resource, container.Name, pod.Name)
		}
		sum += amount.MilliValue()
		if c.Container != "" {
			return sum, nil
		}
	}
	if c.Container != "" {
		return 0, fmt.Errorf("container %s not found in Pod %s", c.Container, pod.Name)
	}
	return sum, nil
}

// wholeRequest returns the request of a pod that requests something for all its containers together.
func (c *Calculation) wholeRequest(pod *corev1.Pod) (int64, error) {
	amount, ok := usage.Containers(pod, func(x *corev1.Container) corev1.ResourceList { return x.Resources.Requests })[c.Resource]
	if whole, set := pod.Spec.Resources.Requests[c.Resource]; set && isPodLevel(c.Resource) {
		amount, ok = whole.DeepCopy(), true
	}
	if overhead, set := pod.Spec.Overhead[c.Resource]; set {
		amount.Add(overhead)
		ok = true
	}
	if !ok {
		return 0, fmt.Errorf("missing pod-level request for %s in Pod %s", c.Resource, pod.Name)
	}
	return amount.MilliValue(), nil
}

// isPodLevel reports whether a pod may request a resource for all its containers together.
func isPodLevel(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

func hasPodLevel(list corev1.ResourceList) bool {
	for name := range list {
		if isPodLevel(name) {
			return true
		}
	}
	return false
}
