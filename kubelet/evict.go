package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/eviction"
	"github.com/planekit/planekit/kubelet/internal/lifecycle"
	"github.com/planekit/planekit/kubelet/internal/podusage"
	corev1 "k8s.io/api/core/v1"
)

// evictionPatience is how long an evicted pod may take to end, and to give back what it holds, before
// another one is evicted, as in Kubernetes.
const evictionPatience = 30 * time.Second

// evictor evicts pods that exceed their limits, and pods of a node that runs out of something.
type evictor struct {
	kubelet *Kubelet
	core    *eviction.Core
	stats   StatsSource     // nil if the runtime has none
	meter   *podusage.Meter // nil without stats
	// last is the last pod that was evicted for the node, at a time. Only run uses both.
	last   *worker
	lastAt time.Time

	mu sync.Mutex
	// conditions are the conditions of the node that are true; guarded by mu.
	conditions []corev1.NodeConditionType
}

func newEvictor(k *Kubelet) *evictor {
	thresholds := k.config.Eviction.Thresholds
	if k.config.enforcesPods() {
		thresholds = eviction.WithAllocatable(thresholds)
	}
	e := &evictor{kubelet: k, core: eviction.New(eviction.Config{
		Thresholds: thresholds, Transition: k.config.Eviction.Transition,
	})}
	if stats, ok := k.config.Runtime.(StatsSource); ok {
		e.stats, e.meter = stats, podusage.New(podusage.Config{
			Stats: stats, NodeName: k.config.NodeName, Root: k.config.Root,
			PodDirectory: k.podConfig.PodDirectory, LogDirectory: k.podConfig.LogDirectory, Processes: k.processes,
			Memory: k.podMemory, Allocatable: k.allocatableMemory,
		})
	}
	return e
}

// run observes the node until ctx is done.
func (e *evictor) run(ctx context.Context) {
	if e.meter == nil {
		return
	}
	tick := time.NewTicker(e.kubelet.config.Eviction.Interval)
	defer tick.Stop()
	said := ""
	for {
		// The same error is logged once.
		if err := e.look(ctx); err == nil {
			said = ""
		} else if ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			e.kubelet.log.Error(err, "eviction")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look observes the node once and evicts the pods that must go.
func (e *evictor) look(ctx context.Context) error {
	// What an evicted pod gives back counts only in levels that are read after it has done so.
	waits := e.last != nil && time.Since(e.lastAt) < evictionPatience && !isClosed(e.last.released)
	levels, err := e.meter.Levels(ctx)
	pressure := e.core.Observe(levels, time.Now())
	e.setConditions(pressure.Conditions)
	workers := e.candidates()
	limited, limitErr := e.evictLimited(ctx, workers)
	if err = errors.Join(err, limitErr); limited || pressure.Threshold == nil {
		return err
	}
	if waits {
		return err
	}
	e.kubelet.events.Node(corev1.EventTypeWarning, "EvictionThresholdMet", fmt.Sprintf("Attempting to reclaim %s", eviction.Resource(pressure.Threshold.Signal)))
	reclaimed, reclaimErr := e.reclaim(ctx, pressure)
	if err = errors.Join(err, reclaimErr); reclaimed {
		return err // what this gives back is seen the next time
	}
	return errors.Join(err, e.evictRanked(ctx, workers, pressure))
}

// candidates returns the workers of the pods that run, or that are being evicted.
func (e *evictor) candidates() []*worker {
	e.kubelet.mu.Lock()
	all := slices.Collect(maps.Values(e.kubelet.workers))
	e.kubelet.mu.Unlock()
	return slices.DeleteFunc(all, func(w *worker) bool {
		pod, gone := w.current()
		return gone || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	})
}

// evictLimited evicts the pods that exceed their own limits. It reports whether there was one.
func (e *evictor) evictLimited(ctx context.Context, workers []*worker) (bool, error) {
	var pods []*corev1.Pod
	byUID := map[podUID]*worker{}
	for _, w := range workers {
		if pod, _ := w.current(); eviction.Limited(pod) && w.rejected() == nil {
			pods, byUID[pod.UID] = append(pods, pod), w
		}
	}
	if len(pods) == 0 {
		return false, nil
	}
	usages, err := e.meter.Usages(ctx, pods)
	evicted := false
	for _, u := range usages {
		if signal, message := eviction.Exceeded(u); message != "" && !eviction.Critical(u.Pod) {
			evicted = e.evict(byUID[u.Pod.UID], signal, message, nil, 0) || evicted
		}
	}
	return evicted, err
}

// evictRanked evicts the first pod in the ranking for a pressure.
func (e *evictor) evictRanked(ctx context.Context, workers []*worker, pressure eviction.Pressure) error {
	var pods []*corev1.Pod
	byUID := map[podUID]*worker{}
	for _, w := range workers {
		if pod, _ := w.current(); w.rejected() == nil {
			pods, byUID[pod.UID] = append(pods, pod), w
		}
	}
	usages, err := e.meter.Usages(ctx, pods)
	var grace int64
	if pressure.Threshold.Grace > 0 {
		grace = e.kubelet.config.Eviction.MaxGrace
	}
	for _, u := range eviction.Rank(pressure.Threshold.Signal, usages) {
		message, annotations := eviction.Message(pressure, u)
		if w := byUID[u.Pod.UID]; e.evict(w, pressure.Threshold.Signal, message, annotations, grace) {
			e.last, e.lastAt = w, time.Now()
			break
		}
	}
	return err
}

// evict ends a pod with a grace period of at most grace seconds.
func (e *evictor) evict(w *worker, signal eviction.Signal, message string, annotations map[string]string, most int64) bool {
	pod, _ := w.current()
	period := min(most, grace(pod))
	if !w.reject(lifecycle.Rejection{Reason: eviction.Reason, Message: message, Grace: &period, Disruption: true}) {
		return false
	}
	if meter := e.kubelet.config.Meters.Evicted; meter != nil {
		meter(string(signal))
	}
	e.kubelet.log.Info("evicting pod", "pod", pod.Namespace+"/"+pod.Name, "message", message)
	e.kubelet.events.Annotated(pod, annotations, eviction.Reason, message)
	return true
}

// setConditions reports a change of the node's conditions at once.
func (e *evictor) setConditions(now []corev1.NodeConditionType) {
	e.mu.Lock()
	changed := !slices.Equal(e.conditions, now)
	e.conditions = now
	e.mu.Unlock()
	if changed {
		e.kubelet.reportNow()
	}
}

func (e *evictor) current() []corev1.NodeConditionType {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.conditions
}

// pressureReasons holds the reasons and messages of a condition that is false, and of one that is
// true.
var pressureReasons = map[corev1.NodeConditionType][4]string{
	corev1.NodeMemoryPressure: {
		"KubeletHasSufficientMemory", "kubelet has sufficient memory available",
		"KubeletHasInsufficientMemory", "kubelet has insufficient memory available",
	},
	corev1.NodeDiskPressure: {
		"KubeletHasNoDiskPressure", "kubelet has no disk pressure",
		"KubeletHasDiskPressure", "kubelet has disk pressure",
	},
	corev1.NodePIDPressure: {
		"KubeletHasSufficientPID", "kubelet has sufficient PID available",
		"KubeletHasInsufficientPID", "kubelet has insufficient PID available",
	},
}

// condition returns a condition of the node.
func (e *evictor) condition(kind corev1.NodeConditionType) corev1.NodeCondition {
	words := pressureReasons[kind]
	if slices.Contains(e.current(), kind) {
		return nodeCondition(kind, corev1.ConditionTrue, words[2], words[3])
	}
	return nodeCondition(kind, corev1.ConditionFalse, words[0], words[1])
}
