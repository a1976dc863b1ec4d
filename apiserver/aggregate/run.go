package aggregate

import (
	"cmp"
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/planekit/planekit/kinds/apiregistration"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkEvery is how often another server is asked again though nothing changed,
// and the longest wait after a failure; the first is firstRetry and each is twice
// the one before. They are kube-aggregator's but for firstRetry, which is 5 ms
// there.
const (
	checkEvery = 30 * time.Second
	firstRetry = 250 * time.Millisecond
)

// probe is the goroutine that checks one APIService.
type probe struct {
	service string // namespace/name, empty for a local one
	wake    chan struct{}
	cancel  context.CancelFunc
}

// Run follows the APIServices and checks their servers until ctx is done. Then no new requests are
// proxied, and those in progress continue. Run can be called once.
func (a *Aggregator) Run(ctx context.Context) error {
	var probes sync.WaitGroup
	defer a.close()
	defer probes.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, synced := range []<-chan struct{}{a.config.APIServices.Synced(), a.config.Services.Synced(), a.config.EndpointSlices.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	changed := make(chan struct{}, 1) // there is something new to see
	for _, stop := range a.follow(changed) {
		defer stop()
	}
	a.update(ctx, changed, &probes)
	close(a.ready)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			a.update(ctx, changed, &probes)
		}
	}
}

// follow wakes up Run and the probes when the caches change.
func (a *Aggregator) follow(changed chan struct{}) (stops []func()) {
	return []func(){
		a.config.APIServices.Subscribe(func(old, new *apiregistration.APIService) {
			notify(changed)
			if old != nil && new != nil && !reflect.DeepEqual(old.Spec, new.Spec) {
				a.wake(func(name string, _ *probe) bool { return name == new.Name })
			}
		}).Stop,
		a.config.Services.Subscribe(func(old, new *corev1.Service) {
			s := cmp.Or(new, old)
			a.wake(func(_ string, p *probe) bool { return p.service == s.Namespace+"/"+s.Name })
		}).Stop,
		a.config.EndpointSlices.Subscribe(func(old, new *discoveryv1.EndpointSlice) {
			for _, service := range ByService(cmp.Or(new, old)) {
				a.wake(func(_ string, p *probe) bool { return p.service == service })
			}
		}).Stop,
	}
}

// wake has those checked again that concerns picks.
func (a *Aggregator) wake(concerns func(name string, p *probe) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, p := range a.probes {
		if concerns(name, p) {
			notify(p.wake)
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is already to look
	}
}

// update rebuilds the table, and starts a probe for every APIService that needs
// one: those of other servers, and local ones that do not say so.
func (a *Aggregator) update(ctx context.Context, changed chan struct{}, running *sync.WaitGroup) {
	wanted := map[string]string{}
	for s := range a.config.APIServices.All() {
		if to := s.Spec.Service; to != nil {
			wanted[s.Name] = to.Namespace + "/" + to.Name
		} else if c := conditionOf(s); c == nil || !same(*c, local()) {
			wanted[s.Name] = ""
		}
	}
	a.mu.Lock()
	for name, p := range a.probes {
		if service, ok := wanted[name]; !ok || service != p.service {
			p.cancel()
			delete(a.probes, name)
			delete(a.said, name)
		}
	}
	for name := range a.losses {
		if _, ok := a.config.APIServices.Get(name); !ok {
			delete(a.losses, name)
		}
	}
	for name, service := range wanted {
		if a.probes[name] != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		p := &probe{service: service, wake: make(chan struct{}, 1), cancel: cancel}
		a.probes[name] = p
		running.Go(func() {
			defer cancel()
			a.keep(own, name, p, changed)
		})
	}
	a.mu.Unlock()
	a.forget(a.rebuild())
}

// keep checks the APIService called name, again and again, and writes down what
// it finds.
func (a *Aggregator) keep(ctx context.Context, name string, p *probe, changed chan struct{}) {
	retry := firstRetry
	for {
		wait := checkEvery
		if a.checkOne(ctx, name, p, changed) {
			retry = firstRetry
		} else {
			wait, retry = retry, min(2*retry, checkEvery)
		}
		timer := time.NewTimer(wait)
		select {
		case <-p.wake:
			timer.Stop()
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// checkOne reports false where it should be tried again soon.
func (a *Aggregator) checkOne(ctx context.Context, name string, p *probe, changed chan struct{}) bool {
	s, ok := a.config.APIServices.Get(name)
	if !ok {
		return true
	}
	c, failed := local(), false
	if b := a.backendOf(s); b != nil {
		var said answer
		c, said, failed = b.check(ctx)
		if ctx.Err() != nil {
			return true // cut short, which says nothing about the server
		}
		a.heard(name, p, said)
		notify(changed)
	}
	if err := a.write(ctx, s, c); err != nil {
		if ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			a.config.Log.Error(err, "condition is not written", "apiService", name)
		}
		return false
	}
	return !failed
}

// heard keeps what a server said; if it said nothing, what it said before counts,
// as no longer current.
func (a *Aggregator) heard(name string, p *probe, said answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.probes[name] != p {
		return // it has been replaced
	}
	if !said.current {
		said = a.said[name]
		said.current = false
	}
	a.said[name] = said
}

// write puts c into the status of s unless it says so already.
func (a *Aggregator) write(ctx context.Context, s *apiregistration.APIService, c apiregistration.APIServiceCondition) error {
	c.LastTransitionTime = metav1.Now()
	old := conditionOf(s)
	if old != nil && same(*old, c) {
		return nil
	}
	s = s.DeepCopy()
	if have := conditionOf(s); have == nil {
		s.Status.Conditions = append(s.Status.Conditions, c)
	} else {
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		*have = c
	}
	a.config.Log.V(1).Info("availability changes", "apiService", s.Name, "status", c.Status, "reason", c.Reason, "message", c.Message)
	_, err := a.config.Status.UpdateStatus(ctx, s)
	if err == nil {
		a.lost(old, s)
	}
	return err
}

// same reports whether two conditions say the same, whenever.
func same(x, y apiregistration.APIServiceCondition) bool {
	return x.Status == y.Status && x.Reason == y.Reason && x.Message == y.Message
}
