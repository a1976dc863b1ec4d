package metricsapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
)

// A Source asks a node's kubelet for /metrics/resource. The body ends with an error when ctx is
// done; the caller closes it. [Kubelets] is one.
type Source interface {
	Scrape(ctx context.Context, node *corev1.Node) (io.ReadCloser, error)
}

// Config configures a Server. Nodes, Pods and Kubelets must be set.
type Config struct {
	Nodes    localcache.ReadSubscriber[*corev1.Node]
	Pods     localcache.ReadSubscriber[*corev1.Pod]
	Kubelets Source
	// Resolution is the time between two questions to a kubelet, at least 1 second. Zero means 15
	// seconds. When a container has started, its kubelet is asked twice within 5 seconds.
	Resolution time.Duration
	// Timeout bounds a question with its answer. Zero means 10 seconds.
	Timeout time.Duration
	// Log is silent when zero.
	Log logr.Logger
}

// Server asks the kubelets and serves the API. Its methods are safe for concurrent use.
type Server struct {
	config Config

	mu sync.RWMutex
	// mu guards the fields below.
	running map[string]*asker  // by node
	reports map[string]*report // by node
}

// asker asks one kubelet.
type asker struct {
	stop context.CancelFunc
	// started has an element if a container has started since the asker took the last.
	started chan struct{}
}

// report holds the usage of a node and its pods. It is not changed.
type report struct {
	received time.Time
	node     *usage // nil if it is not known
	pods     map[string]podUsage
}

// podUsage holds the usage of the containers of one pod.
type podUsage struct {
	uid        string
	containers map[string]usage
}

// New returns a server. It starts nothing.
func New(c Config) (*Server, error) {
	if c.Resolution == 0 {
		c.Resolution = 15 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	switch {
	case c.Nodes == nil || c.Pods == nil || c.Kubelets == nil:
		return nil, errors.New("metricsapi: Nodes, Pods or Kubelets is missing")
	case c.Resolution < time.Second:
		return nil, fmt.Errorf("metricsapi: Resolution %v is shorter than a second", c.Resolution)
	case c.Timeout < 0:
		return nil, fmt.Errorf("metricsapi: Timeout %v is negative", c.Timeout)
	}
	return &Server{config: c, running: map[string]*asker{}, reports: map[string]*report{}}, nil
}

// spread is the time over which the first questions are spread for each node that there is.
const spread = 5 * time.Millisecond

// Run asks the kubelets of all nodes until ctx is done. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	subscription := s.config.Nodes.Subscribe(func(old, node *corev1.Node) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case node == nil:
			if a := s.running[old.Name]; a != nil {
				a.stop()
			}
			delete(s.running, old.Name)
			delete(s.reports, old.Name)
		case s.running[node.Name] == nil:
			asking, stop := context.WithCancel(ctx)
			a := &asker{stop: stop, started: make(chan struct{}, 1)}
			s.running[node.Name] = a
			wait := rand.N(min(s.config.Resolution, spread*time.Duration(len(s.running))))
			group.Go(func() { s.ask(asking, node.Name, wait, a.started) })
		}
	})
	defer subscription.Stop()
	starts := s.config.Pods.Subscribe(func(old, pod *corev1.Pod) {
		if pod != nil && hasStarted(old, pod) {
			s.askSoon(pod.Spec.NodeName)
		}
	})
	defer starts.Stop()
	<-ctx.Done()
	return nil
}

// askSoon queries a kubelet soon.
func (s *Server) askSoon(node string) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if a := s.running[node]; a != nil {
		select {
		case a.started <- struct{}{}:
		default: // it is about to
		}
	}
}

// hasStarted reports whether a container of pod runs that did not run in old, which may be nil.
func hasStarted(old, pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		now := &pod.Status.ContainerStatuses[i]
		if now.State.Running == nil {
			continue
		}
		if old == nil || i >= len(old.Status.ContainerStatuses) {
			return true
		}
		if before := &old.Status.ContainerStatuses[i]; before.State.Running == nil || before.ContainerID != now.ContainerID {
			return true
		}
	}
	return false
}

// failuresToLog is the number of failures in a row that are logged as one. The first may be of a
// control plane that is starting.
const failuresToLog = 2

// When a container has started, two questions come soon, since usage needs two points. However many containers
// start, a kubelet is queried at most every soonPeriod.
const (
	soonWait   = 500 * time.Millisecond
	soonPeriod = 2 * time.Second
)

// ask asks the kubelet of a node until ctx is done, and sooner when a container has started.
func (s *Server) ask(ctx context.Context, name string, wait time.Duration, started <-chan struct{}) {
	log := s.config.Log.WithValues("node", name)
	h := history{containers: map[seriesKey]*series{}}
	failures, left := 0, 0 // failures in a row, and questions that come soon
	asked, due := time.Time{}, time.Now().Add(wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-started:
			left = 2
			soon := time.Now().Add(soonWait)
			if least := asked.Add(soonPeriod); least.After(soon) {
				soon = least
			}
			if soon.Before(due) {
				due = soon
				timer.Reset(time.Until(due))
			}
			continue
		case <-timer.C:
		}
		period := s.config.Resolution
		if left = max(left-1, 0); left > 0 {
			period = min(period, soonPeriod)
		}
		asked = time.Now()
		due = asked.Add(period)
		timer.Reset(period)
		got, err := s.scrape(ctx, name)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			if failures++; failures == failuresToLog {
				log.Info("cannot read the usage of a node", "error", err.Error())
			}
			continue
		}
		if failures >= failuresToLog {
			log.Info("the usage of a node can be read again")
		}
		failures = 0
		r := s.newReport(got, &h)
		s.mu.Lock()
		if ctx.Err() == nil { // else another may have begun for a new node of the name
			s.reports[name] = r
		}
		s.mu.Unlock()
	}
}

// scrape asks the kubelet of a node once.
func (s *Server) scrape(ctx context.Context, name string) (*answer, error) {
	node, ok := s.config.Nodes.Get(name)
	if !ok {
		return nil, errors.New("the node does not exist")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.Timeout, fmt.Errorf("no complete answer within %v", s.config.Timeout))
	defer cancel()
	body, err := s.config.Kubelets.Scrape(ctx, node)
	if err != nil {
		return nil, s.cause(ctx, err)
	}
	defer body.Close()
	got, err := readAnswer(body, name, s.config.Pods, time.Now())
	if err != nil {
		return nil, s.cause(ctx, err)
	}
	return got, nil
}

// cause returns why a question failed: the timeout where that is why.
func (s *Server) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// history holds the points of one node and its containers.
type history struct {
	answered   time.Time
	node       series
	containers map[seriesKey]*series
}

// seriesKey identifies a container of a pod, which may have the name of an earlier pod.
type seriesKey struct {
	containerKey
	uid string
}

// newReport adds an answer to the history of a node, and forgets the containers that it lacks.
func (s *Server) newReport(a *answer, h *history) *report {
	r := &report{received: time.Now(), pods: map[string]podUsage{}}
	if r.received.Sub(h.answered) > s.maxAge() {
		*h = history{containers: map[seriesKey]*series{}}
	}
	h.answered = r.received
	if a.node != nil && a.node.valid() {
		h.node.add(a.node)
		if u, ok := h.node.usage(s.config.Resolution); ok {
			r.node = &u
		}
	}
	for key := range h.containers {
		if a.containers[key.containerKey] == nil || a.uids[key.pod] != key.uid {
			delete(h.containers, key)
		}
	}
	unknown := map[string]bool{} // pods with a container that is not known
	for key, p := range a.containers {
		if !p.valid() {
			unknown[key.pod] = true
			continue
		}
		at := seriesKey{key, a.uids[key.pod]}
		if h.containers[at] == nil {
			h.containers[at] = &series{}
		}
		h.containers[at].add(p)
		u, ok := h.containers[at].usage(s.config.Resolution)
		if !ok {
			unknown[key.pod] = true
			continue
		}
		if _, there := r.pods[key.pod]; !there {
			r.pods[key.pod] = podUsage{uid: at.uid, containers: map[string]usage{}}
		}
		r.pods[key.pod].containers[key.name] = u
	}
	for pod := range unknown {
		delete(r.pods, pod)
	}
	return r
}

// maxAge returns how long an answer is used.
func (s *Server) maxAge() time.Duration { return 3 * s.config.Resolution }

// report returns the usage of a node, or nil if it is not known or too old.
func (s *Server) report(node string) *report {
	s.mu.RLock()
	r := s.reports[node]
	s.mu.RUnlock()
	if r == nil || time.Since(r.received) > s.maxAge() {
		return nil
	}
	return r
}
