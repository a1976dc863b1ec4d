package probe

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// attempts bounds the tries of an attempt that cannot be made.
const attempts = 3

// Config configures a Set.
type Config struct {
	// Prober makes the attempts. It must be set.
	Prober Prober
	// Changed is called when a state has changed, by several goroutines and without locks. Nil
	// means that the owner looks by itself.
	Changed func()
	// Event, if set, records a warning about a container: Unhealthy or ProbeWarning.
	Event func(pod *corev1.Pod, c *corev1.Container, reason, message string)
	// Observe, if set, is called after each attempt. The result is "successful", "failed" or
	// "unknown".
	Observe func(pod *corev1.Pod, c *corev1.Container, kind Kind, result string, took time.Duration)
	// Stopped, if set, is called by Stop after the last call of Observe, with the pod of the last
	// Update; nil if there was none.
	Stopped func(pod *corev1.Pod)
	// Since is when the node agent started. The first attempts at containers that ran before are
	// spread over a period.
	Since time.Time
}

// Running is a container that runs.
type Running struct {
	Name      string
	ID        string // in the runtime
	StartedAt time.Time
}

// State holds the findings of the probes of a running container.
type State struct {
	Started, Ready bool
	// Unhealthy means that the container must be stopped. It is nil as long as the container may
	// run.
	Unhealthy *Unhealthy
}

// Unhealthy says why a container must be stopped.
type Unhealthy struct {
	Kind Kind // Startup or Liveness
	// Grace is the probe's own grace period in seconds; nil means the pod's.
	Grace *int64
}

// A Set runs the probes of one pod. Update and Stop are for one goroutine at a time.
type Set struct {
	config Config
	ctx    context.Context
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below and the states of the containers.
	pod        *corev1.Pod
	podIP      string
	containers map[string]*container // by ID
}

// container is a running container and what its probes have said.
type container struct {
	Running
	spec *corev1.Container
	State
	// watching is the context of its readiness probe, judging that of its other probes.
	watching, judging       context.Context
	stopWatching, stopJudge context.CancelFunc
}

// NewSet returns a Set without containers.
func NewSet(c Config) *Set {
	s := &Set{config: c, containers: map[string]*container{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Stop ends all probes and waits for the attempts in progress.
func (s *Set) Stop() {
	s.cancel()
	s.group.Wait()
	if s.config.Stopped != nil {
		s.mu.Lock()
		pod := s.pod
		s.mu.Unlock()
		s.config.Stopped(pod)
	}
}

// Update makes the probes those of the containers that run, and returns the states of these
// containers by name. The pod's other containers are not in the result.
func (s *Set) Update(pod *corev1.Pod, podIP string, running []Running) map[string]State {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pod, s.podIP = pod, podIP
	current := map[string]bool{}
	states := map[string]State{}
	for _, r := range running {
		current[r.ID] = true
		c := s.containers[r.ID]
		if c == nil {
			if c = s.add(r); c == nil {
				continue
			}
		}
		if pod.DeletionTimestamp != nil {
			c.stopJudge()
		}
		states[r.Name] = c.State
	}
	for id, c := range s.containers {
		if !current[id] {
			c.stopWatching()
			delete(s.containers, id)
		}
	}
	return states
}

// add starts the probes of a container. It returns nil if the pod has no such container.
func (s *Set) add(r Running) *container {
	spec := specOf(s.pod, r.Name)
	if spec == nil {
		return nil
	}
	c := &container{Running: r, spec: spec}
	c.watching, c.stopWatching = context.WithCancel(s.ctx)
	c.judging, c.stopJudge = context.WithCancel(c.watching)
	s.containers[r.ID] = c
	before := statusOf(s.pod, r)
	c.Started = spec.StartupProbe == nil || before != nil && before.Started != nil && *before.Started
	c.Ready = c.Started && (spec.ReadinessProbe == nil || before != nil && before.Ready)
	if c.Started {
		s.start(c)
	} else {
		s.launch(c.judging, c, Startup, spec.StartupProbe)
	}
	return c
}

// start begins the probes that wait for the startup probe.
func (s *Set) start(c *container) {
	s.launch(c.judging, c, Liveness, c.spec.LivenessProbe)
	s.launch(c.watching, c, Readiness, c.spec.ReadinessProbe)
}

func (s *Set) launch(ctx context.Context, c *container, kind Kind, spec *corev1.Probe) {
	if spec != nil && ctx.Err() == nil {
		s.group.Go(func() { s.run(ctx, c, kind, spec) })
	}
}

// run makes attempts until ctx is done or the probe is decided for good.
func (s *Set) run(ctx context.Context, c *container, kind Kind, spec *corev1.Probe) {
	period := seconds(spec.PeriodSeconds, 10)
	delay := time.Duration(spec.InitialDelaySeconds) * time.Second
	wait := min(time.Until(c.StartedAt.Add(delay)), delay) // the clock may have been set back since
	if c.StartedAt.Before(s.config.Since) && time.Since(s.config.Since) < period {
		wait = max(wait, rand.N(period))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var results streak
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(period)
		healthy, made := s.attempt(ctx, c, kind, spec)
		if !made || !results.add(healthy, spec) {
			continue
		}
		changed, final := s.decide(ctx, c, kind, healthy, spec)
		if changed && s.config.Changed != nil {
			s.config.Changed()
		}
		if final {
			return
		}
	}
}

// attempt makes one attempt. It reports whether the container is healthy, and false if that is not
// known.
func (s *Set) attempt(ctx context.Context, c *container, kind Kind, spec *corev1.Probe) (healthy, made bool) {
	s.mu.Lock()
	target := Target{Pod: s.pod, Container: c.spec, ID: c.ID, PodIP: s.podIP}
	s.mu.Unlock()
	begin := time.Now()
	var result Result
	var output string
	var err error
	for range attempts {
		once, cancel := context.WithTimeout(ctx, seconds(spec.TimeoutSeconds, 1))
		result, output, err = s.config.Prober.Probe(once, target, &spec.ProbeHandler)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return false, false
	}
	outcome := result.String()
	switch {
	case err != nil:
		outcome = "unknown"
		s.event(target, "Unhealthy", fmt.Sprintf("%s probe errored and resulted in unknown state: %v", kind, err))
	case result == Failure:
		s.event(target, "Unhealthy", fmt.Sprintf("%s probe failed: %s", kind, output))
	case result == Warning:
		s.event(target, "ProbeWarning", fmt.Sprintf("%s probe warning: %s", kind, output))
	}
	if s.config.Observe != nil {
		s.config.Observe(target.Pod, c.spec, kind, outcome, time.Since(begin))
	}
	return result != Failure, err == nil
}

func (s *Set) event(t Target, reason, message string) {
	if s.config.Event != nil {
		s.config.Event(t.Pod, t.Container, reason, message)
	}
}

// decide sets the container's state. It reports whether that has changed, and whether the probe
// has nothing more to decide.
func (s *Set) decide(ctx context.Context, c *container, kind Kind, healthy bool, spec *corev1.Probe) (changed, final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false, true
	}
	before := c.State
	switch {
	case kind == Readiness:
		c.Ready = healthy
	case !healthy:
		c.Unhealthy = &Unhealthy{Kind: kind, Grace: spec.TerminationGracePeriodSeconds}
		return true, true
	case kind == Startup:
		c.Started = true
		c.Ready = c.spec.ReadinessProbe == nil
		s.start(c)
		return true, true
	}
	return c.State != before, false
}

// specOf returns the container called name; nil if the pod has none.
func specOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// statusOf returns the status of a container if it is of this very container.
func statusOf(pod *corev1.Pod, r Running) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if list[i].Name == r.Name && strings.HasSuffix(list[i].ContainerID, "://"+r.ID) {
				return &list[i]
			}
		}
	}
	return nil
}

// seconds returns n seconds, or the API's default if n is missing.
func seconds(n, fallback int32) time.Duration {
	return time.Duration(orDefault(n, fallback)) * time.Second
}
