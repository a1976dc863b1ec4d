package kubeletconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/cpumanager"
	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/images"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settings collects what depends on several fields.
type settings struct {
	kubelet  *kubelet.Config
	eviction eviction.Settings
	// evicts means that the file has thresholds, and defaults that they extend Kubernetes'.
	evicts, defaults bool
	reportSet        bool
	// pullQPSSet and pullBurstSet mean that the file has registryPullQPS and registryBurst.
	pullQPSSet, pullBurstSet bool
	enforces                 bool // the file has enforceNodeAllocatable
	errs                     []error
}

// failf records an error of the field that is being applied.
func (s *settings) failf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

// finish validates and applies what depends on several fields.
func (s *settings) finish() {
	before := len(s.errs)
	k := s.kubelet
	if s.evicts {
		if s.defaults {
			hard := eviction.DefaultHard()
			maps.Copy(hard, s.eviction.Hard)
			s.eviction.Hard = hard
		}
		thresholds, err := eviction.Parse(s.eviction)
		if err != nil {
			s.errs = append(s.errs, err)
		}
		// An empty list means none, and nil the defaults.
		k.Eviction.Thresholds = append([]eviction.Threshold{}, thresholds...)
	}
	gc := k.ImageGC
	if high, low := or(gc.High, images.DefaultHigh), or(gc.Low, images.DefaultLow); low >= high {
		s.failf("imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) %v", low, high)
	}
	if oldest, youngest := gc.MaxAge, or(gc.MinAge, images.DefaultMinAge); oldest != 0 && oldest <= youngest {
		s.failf("imageMaximumGCAge %v must be greater than imageMinimumGCAge %v", oldest, youngest)
	}
	if period := k.Heartbeat.StatusPeriod; period != 0 && !s.reportSet {
		k.Heartbeat.ReportPeriod = period // as in Kubernetes
	}
	s.finishPulls()
	s.checkEnforced()
	for i := range s.errs[before:] {
		s.errs[before+i] = fmt.Errorf("invalid configuration: %w", s.errs[before+i])
	}
}

// or returns the first value that is not zero.
func or[T comparable](value, standard T) T {
	var zero T
	if value == zero {
		return standard
	}
	return value
}

// duration sets a duration that must not be negative.
func (s *settings) duration(name string, field *time.Duration, value metav1.Duration) {
	if value.Duration < 0 {
		s.failf("%s %v must not be negative", name, value.Duration)
	}
	*field = value.Duration
}

// percent sets a share in percent. 0 is refused, because it means the default in a kubelet.Config.
func (s *settings) percent(name, flag string, field *int, value int32) {
	switch {
	case value < 0 || value > 100:
		s.failf("%s (%s) %v must be between 0 and 100, inclusive", name, flag, value)
	case value == 0:
		s.failf("%s (%s) 0 is not supported", name, flag)
	}
	*field = int(value)
}

// reserved parses what kubeReserved or systemReserved keeps from pods.
func (s *settings) reserved(name string, amounts map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, what := range slices.Sorted(maps.Keys(amounts)) {
		switch {
		case !slices.Contains([]string{"cpu", "memory", "ephemeral-storage", "pid"}, what):
			s.failf("%s: cannot reserve %q resource", name, what)
			continue
		}
		q, err := resource.ParseQuantity(amounts[what])
		switch {
		case err != nil:
			s.failf("%s: failed to parse quantity %q for %q resource: %w", name, amounts[what], what, err)
		case q.Sign() < 0:
			s.failf("%s: resource quantity for %q cannot be negative: %v", name, what, amounts[what])
		default:
			list[corev1.ResourceName(what)] = q
		}
	}
	return list
}

func (s *settings) reservedCPUs(list string) {
	if _, err := cpumanager.ParseSet(list); err != nil {
		s.failf("unable to parse reservedSystemCPUs (--reserved-cpus) %v, error: %w", list, err)
	}
	s.kubelet.CPUManager.Reserved = list
}

func (s *settings) logSize(text string) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		s.failf("containerLogMaxSize %q: %w", text, err)
		return
	}
	if s.kubelet.LogMaxSize = q.Value(); q.Sign() <= 0 {
		s.failf("containerLogMaxSize %q must be positive", text)
	}
}

func (s *settings) maxPods(n int32) {
	if n < 0 {
		s.failf("maxPods (--max-pods) %v must not be a negative number", n)
	}
	if n == 0 {
		return
	}
	// The list may belong to another configuration.
	capacity := maps.Clone(s.kubelet.Capacity)
	if capacity == nil {
		capacity = corev1.ResourceList{}
	}
	capacity[corev1.ResourcePods] = *resource.NewQuantity(int64(n), resource.DecimalSI)
	s.kubelet.Capacity = capacity
}

func (s *settings) taints(list []corev1.Taint) {
	for _, t := range list {
		if t.TimeAdded != nil {
			s.failf("taint.TimeAdded is not nil")
		}
		if t.Key == "" || !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
			s.failf("registerWithTaints: taint %q needs a key and one of the effects NoSchedule, PreferNoSchedule and NoExecute, not %q", t.Key, t.Effect)
		}
	}
	s.kubelet.Taints = list
}

// amounts returns thresholds by their signals, in the form of the file.
func amounts(list []eviction.Threshold, keep func(eviction.Threshold) bool, show func(eviction.Threshold) string) any {
	out := map[string]string{}
	for _, t := range list {
		if keep(t) {
			out[string(t.Signal)] = show(t)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func amount(a eviction.Amount) string {
	if a.Part > 0 {
		return strconv.FormatFloat(a.Part*100, 'g', 6, 64) + "%"
	}
	return resource.NewQuantity(a.Number, resource.BinarySI).String()
}
